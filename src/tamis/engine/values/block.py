"""From columns to blocks, as kernels read them: keys among thresholds, flags, and fired events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.diagram.bdd import HIGHEST
from tamis.engine.ground.layout import (
    EVENT_FEATURE,
    EVENT_WORD,
    I4,
    I8,
    NO_WORDS,
    U1,
    U8,
    Access,
    Block,
    Words,
)
from tamis.engine.lookup.ranks import rank
from tamis.engine.lookup.string_table import find_words
from tamis.engine.lookup.term_index import Index, Points, TermIndex, double_keys
from tamis.engine.lookup.text_index import Values
from tamis.engine.values.events import (
    count_events,
    defined_columns,
    fire_elements,
    mark_events,
    merge_events,
)
from tamis.engine.values.plain_columns import PlainColumns
from tamis.engine.values.term_program import (
    Evaluated,
    Program,
    TermWords,
    evaluate,
    inputs_of,
    program_of,
)
from tamis.engine.values.typed_columns import AnyColumn, Column, Lists, Mixed, Texts, from_values
from tamis.language.tree import Attribute
from tamis.logic import Derived, Family
from tamis.logic.atoms import family_of
from tamis.logic.lists import has_several
from tamis.schema import Type, type_of

_LISTED = 16  # events of a message that are sooner listed than looked up
_MOST_WORDS = 1 << 22  # that a table of codes and events may have
_NO_CODES: I4 = np.empty((0, 0), np.int32)
_NO_ASKS: I8 = np.empty((0, 4), np.int64)
_NO_FIRES: U8 = np.empty(0, np.uint64)
_NO_EVENTS: I4 = np.empty(0, np.int32)
_NO_OFFSETS: I8 = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True)
class Feature:
    """Message m fires events[offsets[code[m]]:offsets[code[m] + 1]]; a code of -1 fires none."""

    code: I4
    offsets: I8
    events: I4
    field: tuple[int, int] | None = None  # whose values the codes are


class Encoded(NamedTuple):
    """What a segment asks of messages, term by term."""

    keys: I8
    flags: U1
    features: list[Feature]
    words: Words


def stacked(codes: list[I4]) -> I4:
    """The codes as one array; those of plain columns are its rows already, in this order."""
    whole: I4 | None = codes[0].base
    if whole is not None and len(whole) == len(codes) and all(c.base is whole for c in codes):
        return whole
    return np.stack(codes)


def encode(
    index: Index,
    length: int,
    column_of: Callable[[Derived], AnyColumn],
    given: TermWords | None = None,
    plain: PlainColumns | None = None,
) -> Encoded:
    """Keys, flags, which values the messages have, and the words of computed terms."""
    keys = np.empty((max(index.key_columns, 1), length), np.int64)
    flags = np.zeros((max(len(index.terms), 1), length), np.uint8)
    features: list[Feature] = []
    done: frozenset[int] = frozenset()
    program, words = program_of(index), NO_WORDS
    asked = plain.asked(index) if plain is not None else None
    if program is None:
        keys[slice(None) if asked is None else asked.others] = HIGHEST
    else:
        ready, words = _computed(program, given, length, column_of, keys, flags)
        done = program.terms - ready.left
        if len(ready.events):
            features.append(Feature(np.arange(length, dtype=np.int32), ready.offsets, ready.events))
    if plain is not None and asked is not None:
        codes = asked.read(plain.at, keys, flags)
        for code, (points, field) in zip(codes, asked.points, strict=True):
            features.append(Feature(code, points.offsets, points.events, field))
        done |= asked.terms
    for i, term in enumerate(index.terms):
        if i in done:
            continue
        column = column_of(term.term)
        if isinstance(column, Lists) and has_several(term.term):
            _encode_several(index, term, column, flags[i], features)
            continue
        for part, where in _parts(column):
            _encode(index, term, part, where, keys, flags[i], features)
    return Encoded(keys, flags, features, words)


def _computed(
    program: Program,
    given: TermWords | None,
    length: int,
    column_of: Callable[[Derived], AnyColumn],
    keys: I8,
    flags: U1,
) -> tuple[Evaluated, Words]:
    """Computed terms, and those of their thresholds and events that are words. Keys of these are
    never touched: so they take no memory."""
    inputs = inputs_of(program, length, lambda name: column_of(Attribute(name)))
    if given is None or inputs.foreign:
        keys[:] = HIGHEST
        pointed, rows = program.asked.pointed, program.rows
        return evaluate(program, pointed, rows, inputs, keys, flags), NO_WORDS
    keys[: len(given.below)][given.below < 0] = HIGHEST
    rows, words = given.of(length)
    return evaluate(program, given.pointed, rows, inputs, keys, flags), words


def _encode_several(
    index: Index, term: TermIndex, lists: Lists, flags: U1, features: list[Feature]
) -> None:
    """A term with several values in each message: it fires what any of them fires, once."""
    rows, found = lists.rows, list[Feature]()
    for part, where in _parts(lists.elements):
        own = rows if where is None else rows[where]
        bits = 1 if part.type is None else 1 | 2 << family_of(part.type)
        flags[own[part.valid]] |= np.uint8(bits)
        found += [_spread(f, where, len(rows)) for f in _fired(index, term, part)]
    if not found:
        return
    codes = np.stack([f.code for f in found])
    counted, starts = _counted(found, codes, len(rows))
    events = np.concatenate([f.events for f in found])
    offsets = np.zeros(len(flags) + 1, np.int64)
    out = np.empty(int(counted[-1]), np.int32)
    seen = np.zeros(max(index.events, 1), np.int64)
    size = fire_elements(lists.offsets, codes, _bases(found), starts, events, seen, offsets, out)
    everyone = np.arange(len(flags), dtype=np.int32)
    features.append(Feature(everyone, offsets, out[:size]))


def block_of(
    index: Index, encoded: Encoded, access: Access | None = None, everywhere: I4 = _NO_EVENTS
) -> Block:
    """The block of messages for a segment with such access, of which any message may be asked for
    these events."""
    keys, flags, features, words = encoded
    codes = stacked([f.code for f in features]) if features else _NO_CODES
    offsets, starts = _counted(features, codes, flags.shape[1])
    few = access is None or not len(access.clusters) or offsets[-1] <= _LISTED * flags.shape[1]
    if access is None or few:
        return listed(keys, flags, *_merged(features, codes, offsets, starts), words)
    asks, fires = _matrix(features, index.events)
    wanted = _marked(everywhere, asks[:, EVENT_FEATURE] < 0)
    offsets, events = _merged_of(_only(features, wanted), codes)
    way_offsets, ways = _merged_of(_only(features, np.diff(access.offsets) > 0), codes)
    known = _defined(flags), codes, asks, fires, words
    return Block(keys, flags, offsets, events, way_offsets, ways, *known)


def block_without_events(encoded: Encoded) -> Block:
    """The same for a segment that asks for no events."""
    return listed(encoded.keys, encoded.flags, _NO_OFFSETS, _NO_EVENTS, encoded.words)


def listed(keys: I8, flags: U1, offsets: I8, events: I4, words: Words = NO_WORDS) -> Block:
    """Messages that fire few events."""
    known = _defined(flags), _NO_CODES, _NO_ASKS, _NO_FIRES, words
    return Block(keys, flags, offsets, events, offsets, events, *known)


def _merged_of(features: list[Feature], codes: I4) -> tuple[I8, I4]:
    return _merged(features, codes, *_counted(features, codes, codes.shape[1]))


def _marked(numbers: I4, marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    marks[numbers] = True
    return marks


def _only(features: list[Feature], wanted: npt.NDArray[np.bool_]) -> list[Feature]:
    """The features as if there were only the wanted events."""
    found = []
    for feature in features:
        kept = wanted[feature.events]
        before = np.concatenate([[0], np.cumsum(kept)])
        found.append(Feature(feature.code, before[feature.offsets], feature.events[kept]))
    return found


def _defined(flags: U1) -> U8:
    """The defined columns of each message as bits; columns beyond 64 have none."""
    defined = np.empty(flags.shape[1], np.uint64)
    defined_columns(flags, defined)
    return defined


def _parts(column: AnyColumn) -> list[tuple[Column, I8 | None]]:
    """Typed columns, and the rows that each is about (None: all)."""
    if isinstance(column, Column):
        return [(column, None)]
    rows: dict[Type | None, list[int]] = {}
    for i, value in enumerate(column.values):
        if value is not None:
            rows.setdefault(type_of(value), []).append(i)
    parts: list[tuple[Column, I8 | None]] = []
    for kind, where in rows.items():
        if kind is None:
            count = len(where)
            part: AnyColumn = Column(None, np.ones(count, bool), np.zeros(count, np.int64))
        else:
            part = from_values([column.values[i] for i in where])
        assert not isinstance(part, Mixed)
        parts.append((part, np.array(where, np.int64)))
    return parts


def _text_events(index: Index, term: TermIndex, values: Values) -> tuple[I8, I4]:
    assert index.texts is not None
    return index.texts.events(np.full(len(values), term.texts, np.int32), values)


def _encode(
    index: Index,
    term: TermIndex,
    column: Column,
    where: I8 | None,
    keys: I8,
    flags: U1,
    features: list[Feature],
) -> None:
    rows = slice(None) if where is None else where
    kind, valid = column.type, column.valid
    family = Family.ANY if kind is None else family_of(kind)
    bits = 1 if kind is None else 1 | 2 << family
    every = column.whole()
    own_flags = np.uint8(bits) if every else np.where(valid, np.uint8(bits), np.uint8(0))
    if where is None:
        flags[:] = own_flags
    else:
        flags[where] |= own_flags
    if kind is None:
        return
    if family in term.below:
        place, constants = term.below[family]
        own = _keys(term, column, constants)
        keys[place, rows] = own if every else np.where(valid, own, HIGHEST)
    for feature in _fired(index, term, column):
        features.append(_spread(feature, where, keys.shape[1]))


def _spread(feature: Feature, where: I8 | None, length: int) -> Feature:
    """The codes of some of so many values as codes of all."""
    if where is None:
        return feature
    code = np.full(length, -1, np.int32)
    code[where] = feature.code
    return Feature(code, feature.offsets, feature.events, feature.field)


def _fired(index: Index, term: TermIndex, column: Column) -> list[Feature]:
    """What values of one type fire: memberships and texts."""
    found: list[Feature] = []
    if column.type is None:
        return found
    family = family_of(column.type)
    if family in term.points:
        points = term.points[family]
        if isinstance(column, Texts) and term.texts < 0 and family not in term.below:
            code = column.find(points.table())
        elif not points.numbers:
            code = np.empty(len(column), np.int32)
            find_words(points.key_table(), _fixed(direct_keys(column)), column.valid, code)
        else:
            code = np.where(column.valid, _point_codes(column, points), -1)
        code = code.astype(np.int32, copy=False)
        found.append(Feature(code, points.offsets, points.events, (term.number, family)))
    if column.type is Type.STRING and term.texts >= 0:
        offsets, events = _text_events(index, term, column.texts.values)
        code = np.where(column.valid, column.data, -1)
        found.append(Feature(code.astype(np.int32), offsets, events))
    return found


def _keys(term: TermIndex, column: Column, constants: list[Any]) -> I8:
    """Where each value stands: its own key, or how many of the constants are <= it."""
    if column.type is Type.STRING:
        ranks = np.array([bisect_right(constants, t) for t in column.texts], np.int64)
        return np.take(ranks, column.data)
    if not constants:
        return direct_keys(column)
    assert column.type is not None
    ranks = np.empty(len(column), np.int64)
    rank(term.ranked(column.type), _read_only(direct_keys(column)), ranks)
    return ranks


def direct_keys(column: Column) -> I8:
    """Values of a known type as their own order-preserving keys."""
    return column.data if column.type is not Type.DOUBLE else double_keys(column.data)


def _point_codes(column: Column, points: Points) -> I4 | I8:
    """The point that each value is, -1 where it is none."""
    if column.type is Type.STRING:
        return np.take(column.texts.find(points.table()), column.data)
    assert column.type is not None
    entries, numbers = points.exact_table(column.type)
    code = np.empty(len(column), np.int32)
    find_words(entries, _fixed(direct_keys(column)), column.valid, code)
    return np.take(numbers, code)  # the last is for those that are none


def _fixed(array: I8) -> U8:
    """The keys as words that nobody may write: kernels are compiled for such."""
    words: U8 = _read_only(array.view(np.uint64))
    return words


def _read_only(array: Any) -> Any:
    fixed = array.view()
    fixed.flags.writeable = False
    return fixed


def _counted(features: list[Feature], codes: I4, length: int) -> tuple[I8, I8]:
    """Where the events of each message begin, over all features; and where those of each code
    begin among the events of all features."""
    offsets = np.zeros(length + 1, np.int64)
    shifts = np.cumsum([0, *(len(f.events) for f in features[:-1])])
    starts = [f.offsets + s for f, s in zip(features, shifts, strict=False)]
    joint = np.concatenate(starts) if features else _NO_OFFSETS
    count_events(codes, _bases(features), joint, offsets)
    return offsets, joint


def _bases(features: list[Feature]) -> I8:
    return np.cumsum([0, *(len(f.offsets) for f in features[:-1])]).astype(np.int64)


def _merged(features: list[Feature], codes: I4, offsets: I8, starts: I8) -> tuple[I8, I4]:
    """The events of each message, over all features."""
    out = np.empty(max(int(offsets[-1]), 1), np.int32)
    if features:
        events = np.concatenate([f.events for f in features])
        merge_events(codes, _bases(features), starts, events, offsets[:-1].copy(), out)
    return offsets, out


def _matrix(features: list[Feature], events: int) -> tuple[I8, U8]:
    """For messages that fire many events: which event each code of a feature fires, as bits.

    A cluster asks for few of the events; this way it need not go through all of a message. An
    event of a feature that is too large, or of two features, is not known here.
    """
    asks = np.full((events, 4), -1, np.int64)
    tables: list[U8] = [_NO_FIRES]
    size = 0
    for f, feature in enumerate(features):
        asked = np.zeros(events, bool)
        asked[feature.events] = True
        own, number = np.flatnonzero(asked), (np.cumsum(asked) - 1)[feature.events]
        twice = own[asks[own, EVENT_WORD] >= 0]
        codes, words = len(feature.offsets) - 1, -(-len(own) // 64)
        if size + codes * words <= _MOST_WORDS:
            bit = np.arange(len(own))
            asks[own] = np.stack(np.broadcast_arrays(f, size + bit // 64, bit % 64, words), axis=1)
            table = np.zeros(codes * words, np.uint64)
            mark_events(feature.offsets, number, words, table)
            tables.append(table)
            size += len(table)
        asks[twice, EVENT_FEATURE] = -1
    return asks, np.concatenate(tables)
