"""Indexes: what a segment asks of each term, arranged so that a value answers all of it at once.

For one term: thresholds (where does the value stand?), points (which memberships does it
have?) and texts (which patterns does it contain?). A value is looked up once, however many
subscriptions ask.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tamis.diagram.questions import AMONG, Vocabulary
from tamis.diagram.variables import Atoms
from tamis.engine.layout import I4, I8, U8
from tamis.engine.strings import Table, entries_of, table_of
from tamis.engine.templates import Template
from tamis.engine.texts import TextIndex
from tamis.logic import Derived, Kind
from tamis.schema import Type

_BELOW, _MEMBER = int(Kind.BELOW), int(Kind.MEMBER)
_PREFIX, _LIKE = int(Kind.PREFIX), int(Kind.LIKE)


@dataclass(slots=True)
class Points:
    """The constants of one term and family that are asked for equality.

    `events[offsets[i]:offsets[i + 1]]` are true of point i. Direct constants are found in `keys`
    (sorted), others in `numbers`.
    """

    keys: I8
    numbers: dict[Any, int]
    offsets: I8
    events: I4
    known: Table | None = field(default=None, repr=False, compare=False)
    known_keys: U8 | None = field(default=None, repr=False, compare=False)

    def table(self) -> Table:
        """The strings for kernels; made when they are first asked for."""
        if self.known is None:
            self.known = table_of(self.numbers)
        return self.known

    def key_table(self) -> U8:
        """The same of keys."""
        if self.known_keys is None:
            self.known_keys = entries_of(self.keys.astype(np.uint64))
        return self.known_keys

    def find(self, value: Any) -> int:
        """The number of the point that is `value` (a key, where keys are direct), or -1."""
        if self.numbers:
            return self.numbers.get(value, -1)
        at = int(np.searchsorted(self.keys, value))
        return at if at < len(self.keys) and self.keys[at] == value else -1


@dataclass(slots=True)
class TermIndex:
    number: int  # of the term in the vocabulary
    term: Derived
    type: Type | None
    below: dict[int, tuple[int, list[Any]]] = field(default_factory=dict)
    points: dict[int, Points] = field(default_factory=dict)
    texts: TextIndex | None = None


@dataclass(slots=True)
class Index:
    """All terms of a segment. A term's place in `terms` is its column of flags."""

    terms: tuple[TermIndex, ...]
    column: dict[int, int]
    place: I4  # of each variable: column of keys, event, or column of flags
    threshold: I8  # of each variable that is a threshold
    key_columns: int
    events: int

    def compiled(self) -> Index:
        """Without what only compiling asks for."""
        nowhere, nothing = np.empty(0, np.int32), np.empty(0, np.int64)
        return replace(self, place=nowhere, threshold=nothing)


def indexes(vocabulary: Vocabulary, atoms: Atoms, templates: list[Template]) -> Index:
    numbers = sorted({*np.unique(atoms.term).tolist(), *(n for t in templates for n in t.required)})
    terms = tuple(
        TermIndex(n, vocabulary.terms.terms[n], vocabulary.terms.types[n]) for n in numbers
    )
    column = {n: i for i, n in enumerate(numbers)}
    kind = atoms.kind
    place = np.zeros(len(kind), np.int32)
    is_event, flag = kind > _BELOW, kind < _BELOW
    events = int(np.count_nonzero(is_event))
    place[is_event] = np.arange(events)
    place[flag] = np.searchsorted(np.array(numbers, np.int32), atoms.term[flag])
    index = Index(terms, column, place, atoms.key.copy(), 0, events)
    slot = atoms.question >> 4
    order = np.argsort(slot, kind="stable")
    starts = np.flatnonzero(np.diff(slot[order], prepend=-1))
    for members in np.split(order, starts[1:]) if len(order) else []:
        s = int(slot[members[0]])
        _add(vocabulary, atoms, index, terms[column[s >> 4]], s & 15, members)
    return index


def _add(
    vocabulary: Vocabulary, atoms: Atoms, index: Index, term: TermIndex, family: int, members: I8
) -> None:
    """Enter the atoms of one term and family."""
    kind = atoms.question[members] & 15
    below = members[kind == _BELOW]
    if len(below):
        constants: list[Any] = []
        if not vocabulary.terms.direct(term.number, family):
            constants = [vocabulary.pool.values[k] for k in atoms.key[below]]
            index.threshold[below] = np.arange(1, len(below) + 1)
        term.below[family] = (index.key_columns, constants)
        index.place[below] = index.key_columns
        index.key_columns += 1
    points = members[(kind == _MEMBER) | (kind == AMONG)]
    if len(points):
        term.points[family] = _points(vocabulary, atoms, index, term.number, family, points)
    texts = members[(kind >= _PREFIX) & (kind <= _LIKE)]
    if len(texts):
        term.texts = TextIndex.of(
            (atoms.question[texts] & 15).tolist(),
            [vocabulary.pool.values[k] for k in atoms.key[texts]],
            index.place[texts].tolist(),
        )


def _points(
    vocabulary: Vocabulary, atoms: Atoms, index: Index, term: int, family: int, members: I8
) -> Points:
    """Group the events of memberships by constant."""
    single = atoms.question[members] & 15 == _MEMBER
    if len(members) == 1 and single[0]:  # a condition may ask thousands of attributes once each
        key, event = atoms.key[members], index.place[members]
        direct = vocabulary.terms.direct(term, family)
        numbers: dict[Any, int] = {} if direct else {vocabulary.pool.values[key[0]]: 0}
        return Points(key, numbers, np.array([0, 1]), event)
    keys = [atoms.key[members[single]]]
    events = [index.place[members[single]]]
    for m in members[~single].tolist():
        among = vocabulary.members(family, term, int(atoms.key[m]))
        keys.append(np.array(among, np.int64))
        events.append(np.full(len(among), index.place[m], np.int32))
    key, event = np.concatenate(keys), np.concatenate(events)
    order = np.argsort(key, kind="stable")
    distinct, starts = np.unique(key[order], return_index=True)
    numbers = {}
    if not vocabulary.terms.direct(term, family):
        numbers = {vocabulary.pool.values[k]: i for i, k in enumerate(distinct.tolist())}
    return Points(
        distinct,
        numbers,
        np.append(starts, len(key)).astype(np.int64),
        event[order].astype(np.int32),
    )
