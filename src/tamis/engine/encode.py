"""From columns to what kernels read: keys among thresholds, flags, and fired events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.diagram.kernels import HIGHEST
from tamis.diagram.questions import double_key
from tamis.engine.columns import AnyColumn, Column, Mixed, Texts, from_values
from tamis.engine.direct import by_value, sign_flags, sign_values
from tamis.engine.firing import defined_columns, mark_events, merge_events
from tamis.engine.index import Index, Points, TermIndex
from tamis.engine.layout import I4, I8, U1, U8, Access, Block
from tamis.engine.plan import Plan
from tamis.engine.strings import find_words
from tamis.logic import Derived, Family
from tamis.logic.atoms import family_of, plain
from tamis.logic.numbers import double_at_least
from tamis.schema import INT_MAX, INT_MIN, Type, type_of

_LISTED = 16  # events of a message that are sooner listed than looked up
_MOST_WORDS = 1 << 22  # that a table of codes and events may have
_NO_CODES: I4 = np.empty((0, 0), np.int32)
_NO_ASKS: I8 = np.empty((0, 4), np.int64)
_NO_FIRES: U8 = np.empty(0, np.uint64)
_NO_EVENTS: I4 = np.empty(0, np.int32)
_NO_OFFSETS: I8 = np.zeros(1, np.int64)
_NO_SIGNATURE: I8 = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Feature:
    """Message m fires events[offsets[code[m]]:offsets[code[m] + 1]]; a code of -1 fires none."""

    code: I4
    offsets: I8
    events: I4
    field: tuple[int, int] | None = None  # whose values the codes are


Way = tuple[I4, I4, I4]  # first row of each value; values of the messages; order of messages


class Encoded(NamedTuple):
    """Messages for a segment: a block, and for clusters that one value leads to (see
    engine/plan.py) the codes that lead there and the signature of each message."""

    block: Block
    plan: Plan | None = None
    ways: tuple[Way, ...] = ()
    signature: I8 = _NO_SIGNATURE


def encode_directly(
    plan: Plan,
    index: Index,
    length: int,
    column_of: Callable[[Derived], AnyColumn],
    everywhere: I4,
) -> Encoded:
    """The messages of a batch for a segment of this plan, with these events in cluster 0."""
    keys, flags, features = _read(index, length, column_of)
    if plan.listed:
        block = _block(index, keys, flags, features, plan.access, everywhere)
    else:
        block = _listed(keys, flags, _NO_OFFSETS, _NO_EVENTS)
    signature = np.zeros(length if plan.shifts or plan.flags else 0, np.int64)
    for (column, bit), place in plan.flags.items():
        sign_flags(flags[column], np.uint8(bit), place, signature)
    ways = []
    for feature in features:
        if feature.field in plan.shifts:
            sign_values(feature.code, plan.shifts[feature.field], signature)
        if feature.field in plan.begins:
            begin = plan.begins[feature.field]
            sort = plan.large and length >= len(begin)
            order = by_value(feature.code, len(begin) - 1) if sort else _NO_EVENTS
            ways.append((begin, feature.code, order))
    return Encoded(block, plan, tuple(ways), signature)


def encode(
    index: Index,
    length: int,
    column_of: Callable[[Derived], AnyColumn],
    access: Access | None = None,
    everywhere: I4 = _NO_EVENTS,
) -> Block:
    """The messages of a batch as a segment sees them: one with such access, and with these events
    in cluster 0."""
    return _block(index, *_read(index, length, column_of), access, everywhere)


def _read(
    index: Index, length: int, column_of: Callable[[Derived], AnyColumn]
) -> tuple[I8, U1, list[Feature]]:
    """Keys, flags, and which values the messages have."""
    keys = np.full((max(index.key_columns, 1), length), HIGHEST, np.int64)
    flags = np.zeros((max(len(index.terms), 1), length), np.uint8)
    features: list[Feature] = []
    for i, term in enumerate(index.terms):
        column = column_of(term.term)
        for part, where in _parts(column):
            _encode(term, part, where, keys, flags[i], features)
    return keys, flags, features


def _block(
    index: Index,
    keys: I8,
    flags: U1,
    features: list[Feature],
    access: Access | None,
    everywhere: I4,
) -> Block:
    length = flags.shape[1]
    codes = np.stack([f.code for f in features]) if features else _NO_CODES
    if access is None or _size(features) <= _LISTED * length:
        return _listed(keys, flags, *_merged(features, codes, length))
    asks, fires = _matrix(features, index.events)
    wanted = _marked(everywhere, asks[:, 0] < 0)
    offsets, events = _merged(_only(features, wanted), codes, length)
    way_offsets, ways = _merged(_only(features, np.diff(access.offsets) > 0), codes, length)
    defined = _defined(flags)
    return Block(keys, flags, offsets, events, way_offsets, ways, defined, codes, asks, fires)


def _listed(keys: I8, flags: U1, offsets: I8, events: I4) -> Block:
    """Messages that fire few events."""
    known = _defined(flags), _NO_CODES, _NO_ASKS, _NO_FIRES
    return Block(keys, flags, offsets, events, offsets, events, *known)


def _size(features: list[Feature]) -> int:
    """How many events the messages fire, all together."""
    total = 0
    for feature in features:
        sizes = np.append(np.diff(feature.offsets), 0)  # the last is that of code -1
        total += int(sizes[feature.code].sum())
    return total


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


def encode_one(index: Index, value_of: Callable[[Derived], object]) -> Block:
    """A single message, value by value: no columns are made."""
    keys = np.full((max(index.key_columns, 1), 1), HIGHEST, np.int64)
    flags = np.zeros((max(len(index.terms), 1), 1), np.uint8)
    events: list[int] = []
    for i, term in enumerate(index.terms):
        value = value_of(term.term)
        if value is None:
            continue
        kind = type_of(value)
        if kind is None:
            flags[i, 0] = 1
            continue
        family = family_of(kind)
        flags[i, 0] = 1 | 2 << family
        value = plain(value)
        if family in term.below:
            place, constants = term.below[family]
            keys[place, 0] = bisect_right(constants, value) if constants else _one_key(term, value)
        if family in term.points:
            points = term.points[family]
            at = points.find(_one_key(term, value) if not points.numbers else value)
            if at >= 0:
                events += points.events[points.offsets[at] : points.offsets[at + 1]].tolist()
        if kind is Type.STRING and term.texts is not None:
            events += term.texts.events([value])[1].tolist()
    offsets = np.array([0, len(events)], np.int64)
    return _listed(keys, flags, offsets, np.array(events, np.int32))


def _one_key(term: TermIndex, value: Any) -> int:
    return double_key(value) if term.type is Type.DOUBLE else int(value)


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


def _encode(
    term: TermIndex,
    column: Column,
    where: I8 | None,
    keys: I8,
    flags: U1,
    features: list[Feature],
) -> None:
    rows = slice(None) if where is None else where
    kind = column.type
    family = Family.ANY if kind is None else family_of(kind)
    bits = 1 if kind is None else 1 | 2 << family
    every = bool(column.valid.all())
    flags[rows] |= np.uint8(bits) if every else np.where(column.valid, np.uint8(bits), np.uint8(0))
    if kind is None:
        return
    if family in term.below:
        place, constants = term.below[family]
        own = _keys(term, column, constants)
        keys[place, rows] = own if every else np.where(column.valid, own, HIGHEST)
    found: list[Feature] = []
    if family in term.points:
        points = term.points[family]
        if isinstance(column, Texts) and term.texts is None and family not in term.below:
            code = column.find(points.table())
        elif not points.numbers:
            code = np.empty(len(column), np.int32)
            find_words(points.key_table(), _fixed(direct_keys(column)), column.valid, code)
        else:
            code = np.where(column.valid, _point_codes(term, column, points), -1)
        code = code.astype(np.int32, copy=False)
        found.append(Feature(code, points.offsets, points.events, (term.number, family)))
    if kind is Type.STRING and term.texts is not None:
        offsets, events = term.texts.events(list(column.texts))
        code = np.where(column.valid, column.data, -1)
        found.append(Feature(code.astype(np.int32), offsets, events))
    for feature in found:
        if where is not None:
            code = np.full(keys.shape[1], -1, np.int32)
            code[where] = feature.code
            feature = Feature(code, feature.offsets, feature.events, feature.field)
        features.append(feature)


def _keys(term: TermIndex, column: Column, constants: list[Any]) -> I8:
    """Where each value stands: its own key, or how many of the constants are <= it."""
    if column.type is Type.STRING:
        ranks = np.array([bisect_right(constants, t) for t in column.texts], np.int64)
        return np.take(ranks, column.data)
    if not constants:
        return direct_keys(column)
    if column.type is Type.INT:
        bounds = [-((-c) // 1) for c in constants if c <= INT_MAX]
        return np.searchsorted(
            np.array([max(int(b), INT_MIN) for b in bounds if b <= INT_MAX], np.int64),
            column.data,
            side="right",
        )
    doubles = np.array([double_at_least(c) for c in constants])
    return np.searchsorted(doubles, column.data, side="right")


def direct_keys(column: Column) -> I8:
    """Values of a known type as their own order-preserving keys."""
    if column.type is not Type.DOUBLE:
        return column.data
    bits: I8 = (column.data + 0.0).view(np.int64)
    bits ^= (bits >> np.int64(63)) & np.int64(HIGHEST)
    return bits


def _point_codes(term: TermIndex, column: Column, points: Points) -> I8:
    """The point that each value is, -1 where it is none."""
    if column.type is Type.STRING:
        get = points.numbers.get
        codes = np.array([get(t, -1) for t in column.texts], np.int64)
        return np.take(codes, column.data)
    exact = np.int64 if column.type is Type.INT else np.float64
    known = [(v, i) for v, i in points.numbers.items() if _holds(v, column.type)]
    known.sort()
    values = np.array([v for v, _ in known], exact)
    return _found(values, np.array([i for _, i in known], np.int64), column.data)


def _fixed(array: I8) -> U8:
    """The keys as words that nobody may write: kernels are compiled for such."""
    fixed = array.view(np.uint64)
    fixed.flags.writeable = False
    return fixed


def _holds(value: Any, kind: Type | None) -> bool:
    """Whether a column of the kind can hold the number."""
    if kind is Type.INT:
        return isinstance(value, int) and INT_MIN <= value <= INT_MAX
    return bool(double_at_least(value) == value)


def _found(values: Any, numbers: I8, wanted: Any) -> I8:
    if not len(values):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[at] == wanted, numbers[at], -1)


def _merged(features: list[Feature], codes: I4, length: int) -> tuple[I8, I4]:
    """The events of each message, over all features."""
    offsets = np.zeros(length + 1, np.int64)
    if not features:
        return offsets, np.empty(0, np.int32)
    sizes = [len(f.offsets) for f in features]
    bases = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
    shifts = np.cumsum([0, *(len(f.events) for f in features[:-1])])
    starts = np.concatenate([f.offsets + s for f, s in zip(features, shifts, strict=True)])
    events = np.concatenate([f.events for f in features])
    merge_events(codes, bases, starts, events, offsets, np.empty(0, np.int32))
    out = np.empty(max(int(offsets[-1]), 1), np.int32)
    merge_events(codes, bases, starts, events, offsets, out)
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
        own, number = np.unique(feature.events, return_inverse=True)
        twice = own[asks[own, 1] >= 0]
        codes, words = len(feature.offsets) - 1, -(-len(own) // 64)
        if size + codes * words <= _MOST_WORDS:
            bit = np.arange(len(own))
            asks[own] = np.stack(np.broadcast_arrays(f, size + bit // 64, bit % 64, words), axis=1)
            table = np.zeros(codes * words, np.uint64)
            mark_events(feature.offsets, number, words, table)
            tables.append(table)
            size += len(table)
        asks[twice, 0] = -1
    return asks, np.concatenate(tables)
