"""One message for kernels: the cost follows the attributes that it has, not those asked for.

What a value of one attribute means for all terms of that attribute is a *reading*. Values repeat,
so short texts and integers keep theirs; what was not seen before is looked up together, the texts
of all attributes in one call.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tamis.diagram.bdd import HIGHEST
from tamis.diagram.questions import double_key
from tamis.engine.ground.layout import I8, U1, Block
from tamis.engine.lookup.term_index import Index, TermIndex, double_keys
from tamis.engine.lookup.text_index import values_of
from tamis.engine.values.block import listed
from tamis.engine.values.term_program import evaluate_one, program_of
from tamis.language.tree import Attribute, attributes
from tamis.logic import FUNCTIONS, Derived, Family, Lookups, Semantics, finder, value
from tamis.logic.atoms import family_of, plain
from tamis.logic.lists import Several, has_several
from tamis.logic.terms import called, needed
from tamis.schema import Schema, Type, type_of

_KEPT = 1 << 14  # readings that an index keeps; a full store is emptied
_LONGEST = 256  # characters of a text whose reading is kept
_NARROW = 48  # columns up to which a message is written as lists
_NUMBER = 1 | 2 << Family.NUMBER  # the flags of a number
_NO_NAMES: tuple[str, ...] = ()


class Reading(NamedTuple):
    """What to write: columns of flags and the flags, columns of keys and the keys, events."""

    columns: tuple[int, ...]
    flags: tuple[int, ...]
    places: tuple[int, ...]
    keys: tuple[int, ...]
    events: tuple[int, ...]


_NOTHING = Reading((), (), (), (), ())


class Single:
    """A message: called with a term, it says what that is worth (None: undefined)."""

    def __init__(
        self,
        message: Mapping[str, object],
        semantics: Semantics,
        schema: Schema | None,
        lookups: Lookups,
    ) -> None:
        self.message, self.lookups = message, lookups
        self._find = finder(message, semantics, schema)
        self.defaults = schema.defaults if schema and semantics == "default" else _NO_NAMES
        self._known: dict[Derived, object] = {}
        self._found: dict[str, object] = {}

    def __call__(self, term: Derived) -> object:
        """The value, worked out once: a lookup may be anything."""
        known = self._known
        if term not in known:
            known[term] = value(term, self.attribute, self.lookups)
        return known[term]

    def attribute(self, name: str) -> object:
        found = self._found
        if name not in found:
            found[name] = self._find(name)
        return found[name]


@dataclass(slots=True)
class _Asked:
    """What an index asks about one attribute; places are those of terms in the index."""

    own: list[int] = field(default_factory=list)  # terms of this attribute alone
    joint: list[int] = field(default_factory=list)  # terms of which it is the first of several
    nested: list[str] = field(default_factory=list)  # attributes `name.more`
    known: dict[Any, Reading] = field(default_factory=dict)
    key: int = -1  # column of keys, where a double needs nothing but its key


class _Readings:
    """An index, sorted by attribute."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.asked: dict[str, _Asked] = {}
        self.always: list[int] = []  # terms that need no attribute
        self.kept = 0
        self.several = any(has_several(term.term) for term in index.terms)
        self.program = program = program_of(index)
        programmed = program.terms if program else frozenset()
        for place, term in enumerate(index.terms):
            if place in programmed:
                continue
            names, without = attributes(term.term), needed(term.term)
            first = next((name for name in names if name in without), None)
            if first is None:
                self.always.append(place)
                continue
            asked = self.asked.setdefault(first, _Asked())
            alone = len(names) == 1 and called(term.term) <= FUNCTIONS.keys()
            (asked.own if alone else asked.joint).append(place)
        for asked in self.asked.values():
            if len(asked.own) == 1:
                asked.key = _only_key(index.terms[asked.own[0]])
        dotted = [name for name in self.asked if "." in name]
        self.nested = bool(dotted)
        for name in dotted:
            self.asked.setdefault(name.split(".")[0], _Asked()).nested.append(name)

    def keep(self, asked: _Asked, key: object, reading: Reading) -> None:
        if self.kept >= _KEPT:
            for other in self.asked.values():
                other.known.clear()
            self.kept = 0
        self.kept += 1
        asked.known[key] = reading


def _only_key(term: TermIndex) -> int:
    """The column of keys of a term that is an attribute of doubles, and is compared and nothing
    more; -1: it is not."""
    plainly = type(term.term) is Attribute and term.type is Type.DOUBLE
    if not plainly or term.points or term.texts >= 0 or [*term.below] != [Family.NUMBER]:
        return -1
    place, constants = term.below[Family.NUMBER]
    return -1 if constants else place


def encode_one(index: Index, single: Single) -> Block:
    """A single message, value by value: no columns are made."""
    if not index.readings:
        index.readings.append(_Readings(index))
    readings: _Readings = index.readings[0]
    doubles = _Doubles([], [], [])
    found, new, joint = _met(readings, single, doubles)
    if new:
        found += _read(readings, new)
    program = readings.program
    if program is None and index.key_columns + len(index.terms) <= _NARROW:
        if joint:
            found += _joined(index, single, joint)
        return _narrow(index, found, doubles, readings.several)
    keys = np.full((max(index.key_columns, 1), 1), HIGHEST, np.int64)
    flags = np.zeros((max(len(index.terms), 1), 1), np.uint8)
    columns: list[int] = []
    marks: list[int] = []
    events: list[int] = []
    if doubles.values:
        keys[doubles.places, 0] = double_keys(np.array(doubles.values))
        flags[doubles.columns, 0] = _NUMBER
    if program is not None:
        ready = evaluate_one(program, single.attribute, keys, flags)
        events = ready.events.tolist()
        joint += ready.left
    if joint:
        found += _joined(index, single, joint)
    for own_columns, own_flags, places, own_keys, own_events in found:
        columns += own_columns
        marks += own_flags
        if own_events:
            events += own_events
        if places:
            keys[places, 0] = own_keys
    flags[columns, 0] = marks
    return _block(keys, flags, events, readings.several)


def _narrow(index: Index, found: list[Reading], doubles: _Doubles, several: bool) -> Block:
    """The same for few columns, where lists take a fraction of what arrays do."""
    keys = [HIGHEST] * max(index.key_columns, 1)
    flags = [0] * max(len(index.terms), 1)
    events: list[int] = []
    for number, column, place in zip(*doubles, strict=True):
        keys[place] = double_key(number)
        flags[column] = _NUMBER
    for reading in found:
        for column, mark in zip(reading.columns, reading.flags, strict=True):
            flags[column] = mark
        for place, key in zip(reading.places, reading.keys, strict=True):
            keys[place] = key
        events += reading.events
    column_of_keys = np.array(keys, np.int64).reshape(-1, 1)
    return _block(column_of_keys, np.array(flags, np.uint8).reshape(-1, 1), events, several)


def _block(keys: I8, flags: U1, events: list[int], several: bool) -> Block:
    if several:  # elements of a list may fire the same
        events = list(dict.fromkeys(events))
    return listed(keys, flags, np.array([0, len(events)], np.int64), np.array(events, np.int32))


def _joined(index: Index, single: Single, joint: list[int]) -> list[Reading]:
    """Readings of terms that take several attributes, or none."""
    return _read_terms(index, [[(place, single(index.terms[place].term))] for place in joint])


class _Doubles(NamedTuple):
    """Values that need no reading, the columns of their terms, and those of their keys."""

    values: list[float]
    columns: list[int]
    places: list[int]


_New = tuple[_Asked, object, list[tuple[int, object]]]  # what to keep it as (None: not), and values


def _met(
    readings: _Readings, single: Single, doubles: _Doubles
) -> tuple[list[Reading], list[_New], list[int]]:
    """Readings that are known, values that are to be read, and terms that take several values;
    doubles that need neither go to `doubles`."""
    found: list[Reading] = []
    new: list[_New] = []
    joint = [*readings.always]
    all_asked, terms = readings.asked, readings.index.terms
    find, lookups = single.attribute, single.lookups
    add_double, add_column, add_place = (each.append for each in doubles)
    for name, raw in _items(readings, single):
        asked = all_asked.get(name)
        if asked is None:
            continue
        if asked.joint:
            joint += asked.joint
        kind = type(raw)
        if kind is float and asked.key >= 0 and raw == raw:  # a double that is not NaN
            add_double(raw)  # type: ignore[arg-type]
            add_column(asked.own[0])
            add_place(asked.key)
            continue
        key: object = raw if kind is str else (kind, raw) if kind is int or kind is bool else None
        if key is not None:
            reading = asked.known.get(key)
            if reading is not None:
                found.append(reading)
                continue
        if not asked.own:
            continue
        if kind is str and len(raw) > _LONGEST:  # type: ignore[arg-type]
            key = None
        new.append((asked, key, [(p, value(terms[p].term, find, lookups)) for p in asked.own]))
    return found, new, joint


def _items(readings: _Readings, single: Single) -> Iterable[tuple[str, object]]:
    """The attributes that may be defined, and what stands under their own names."""
    message = single.message
    if type(message) is not dict:  # who knows what its `get` finds
        return [(name, ...) for name in readings.asked]
    more: list[tuple[str, object]] = []
    for name in message if readings.nested else ():
        asked = readings.asked.get(name)
        if asked is not None and asked.nested:
            more += [(inner, ...) for inner in asked.nested if inner not in message]
    if single.defaults:
        met = {name for name, _ in more}
        more += [(name, ...) for name in single.defaults if name not in message and name not in met]
    return [*message.items(), *more] if more else message.items()


def _read(readings: _Readings, new: list[_New]) -> list[Reading]:
    """Readings of new values, kept where they have a key."""
    found = _read_terms(readings.index, [values for _, _, values in new])
    for (asked, key, _), reading in zip(new, found, strict=True):
        if key is not None:
            readings.keep(asked, key, reading)
    return found


def _read_terms(index: Index, groups: list[list[tuple[int, object]]]) -> list[Reading]:
    """One reading for each group of terms and their values; all texts are looked up together."""
    texts: list[str] = []
    numbers: list[int] = []
    of: list[int] = []  # the group of each text
    found: list[Reading] = []
    for g, values in enumerate(groups):
        columns: list[int] = []
        flags: list[int] = []
        places: list[int] = []
        keys: list[int] = []
        events: list[int] = []
        for place, given in values:
            if given is None:
                continue
            term, bits = index.terms[place], 0
            for one in given if isinstance(given, Several) else (given,):
                kind = type_of(one)
                bits |= 1 if kind is None else 1 | 2 << family_of(kind)
                if kind is None:
                    continue
                _look_up(term, family_of(kind), plain(one), places, keys, events)
                if kind is Type.STRING and term.texts >= 0:
                    texts.append(one)  # type: ignore[arg-type]
                    numbers.append(term.texts)
                    of.append(g)
            columns.append(place)
            flags.append(bits)
        found.append(Reading(*map(tuple, (columns, flags, places, keys, events))))
    if texts:
        assert index.texts is not None
        offsets, fired = index.texts.events(np.array(numbers, np.int32), values_of(texts))
        for i, g in enumerate(of):
            if offsets[i] < offsets[i + 1]:
                own = tuple(fired[offsets[i] : offsets[i + 1]].tolist())
                found[g] = Reading(*found[g][:4], found[g].events + own)
    return found


def _look_up(
    term: TermIndex, family: int, given: Any, places: list[int], keys: list[int], events: list[int]
) -> None:
    """Thresholds and memberships of one value."""
    if family in term.below:
        place, constants = term.below[family]
        places.append(place)
        keys.append(bisect_right(constants, given) if constants else _one_key(term, given))
    if family in term.points:
        points = term.points[family]
        at = points.find(_one_key(term, given) if not points.numbers else given)
        if at >= 0:
            events += points.events[points.offsets[at] : points.offsets[at + 1]].tolist()


def _one_key(term: TermIndex, given: Any) -> int:
    return double_key(given) if term.type is Type.DOUBLE else int(given)
