"""Indexes: what a segment asks of each term, arranged so that a value answers all of it at once.

For one term: thresholds (where does the value stand?), points (which memberships does it
have?) and texts (which patterns does it contain?). A value is looked up once, however many
subscriptions ask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.diagram import packed
from tamis.diagram.bdd import HIGHEST
from tamis.diagram.questions import AMONG, Vocabulary
from tamis.diagram.variables import Atoms
from tamis.engine.ground.layout import I4, I8
from tamis.engine.lookup.ranks import Ranks, ranks_of
from tamis.engine.lookup.string_table import Entries, Table, entries_of, table_of
from tamis.engine.lookup.text_index import Row, TextIndex
from tamis.engine.reading.templates import Template
from tamis.logic import Derived, Family, Kind
from tamis.logic.numbers import double_at_least
from tamis.schema import INT_MAX, INT_MIN, Type

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
    known_keys: Entries | None = field(default=None, repr=False, compare=False)
    exact: dict[Type, tuple[Entries, I4]] = field(default_factory=dict, repr=False, compare=False)

    def table(self) -> Table:
        """The strings for kernels; made when they are first asked for."""
        if self.known is None:
            self.known = table_of(self.numbers)
        return self.known

    def key_table(self) -> Entries:
        """The same of keys."""
        if self.known_keys is None:
            self.known_keys = entries_of(self.keys.astype(np.uint64))
        return self.known_keys

    def exact_table(self, kind: Type) -> tuple[Entries, I4]:
        """A table of the numbers that a column of `kind` can hold, and which point each is."""
        found = self.exact.get(kind)
        if found is None:
            held = self.held(kind)
            values = [v for v, _ in held]
            doubles = kind is Type.DOUBLE
            keys = (
                double_keys(np.array(values, np.float64)) if doubles else np.array(values, np.int64)
            )
            numbers = np.array([*(i for _, i in held), -1], np.int32)
            found = self.exact[kind] = entries_of(keys.view(np.uint64)), numbers
        return found

    def held(self, kind: Type) -> list[tuple[Any, int]]:
        """The numbers that a column of `kind` can hold, and which point each is."""
        return [(v, i) for v, i in self.numbers.items() if _holds(v, kind)]

    def find(self, value: Any) -> int:
        """The number of the point that is `value` (a key, where keys are direct), or -1."""
        if self.numbers:
            return self.numbers.get(value, -1)
        at = int(np.searchsorted(self.keys, value))
        return at if at < len(self.keys) and self.keys[at] == value else -1


def _holds(value: Any, kind: Type) -> bool:
    """Whether a column of the kind can hold the number."""
    if kind is Type.INT:
        return isinstance(value, int) and INT_MIN <= value <= INT_MAX
    return bool(double_at_least(value) == value)


@dataclass(slots=True)
class TermIndex:
    number: int  # of the term in the vocabulary
    term: Derived
    type: Type | None
    below: dict[int, tuple[int, list[Any]]] = field(default_factory=dict)
    points: dict[int, Points] = field(default_factory=dict)
    ranks: dict[Type, Ranks] = field(default_factory=dict, repr=False, compare=False)
    texts: int = -1  # its number in the index of texts, -1: no texts are asked for

    def ranked(self, kind: Type) -> Ranks:
        """The constants that numbers of a column of `kind` are compared with where the term has no
        type; made when they are first asked for."""
        found = self.ranks.get(kind)
        if found is None:
            found = self.ranks[kind] = ranks_of(bounds_of(self.below[Family.NUMBER][1], kind))
        return found


def bounds_of(constants: list[Any], kind: Type) -> I8:
    """Ascending numbers as keys of the least values of `kind` that are not below them."""
    if kind is Type.INT:
        whole = [max(math.ceil(c), INT_MIN) for c in constants if c <= INT_MAX]
        return np.array(whole, np.int64)
    return double_keys(np.array([double_at_least(c) for c in constants], np.float64))


def double_keys(doubles: npt.NDArray[np.float64]) -> I8:
    """`double_key` of each."""
    bits: I8 = (doubles + 0.0).view(np.int64)
    bits ^= (bits >> np.int64(63)) & np.int64(HIGHEST)
    return bits


@dataclass(slots=True)
class Index:
    """All terms of a segment. A term's place in `terms` is its column of flags."""

    terms: tuple[TermIndex, ...]
    column: dict[int, int]
    place: I4  # of each variable: column of keys, event, or column of flags
    threshold: I8  # of each variable that is a threshold
    key_columns: int
    events: int
    texts: TextIndex | None = None
    readings: list[Any] = field(
        default_factory=list, repr=False, compare=False
    )  # see engine/values/single_message.py
    programs: list[Any] = field(
        default_factory=list, repr=False, compare=False
    )  # see engine/values/term_program.py
    asked: list[Any] = field(
        default_factory=list, repr=False, compare=False
    )  # see engine/values/plain_columns.py

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
    line = packed.line(atoms.question)
    order = np.argsort(line, kind="stable")
    starts = np.flatnonzero(np.diff(line[order], prepend=-1))
    texts: list[list[Row]] = []
    for members in np.split(order, starts[1:]) if len(order) else []:
        own = int(line[members[0]])
        term = terms[column[packed.line_term(own)]]
        _add(vocabulary, atoms, index, term, packed.line_family(own), members, texts)
    if texts:
        index.texts = TextIndex(texts)
    return index


def _add(
    vocabulary: Vocabulary,
    atoms: Atoms,
    index: Index,
    term: TermIndex,
    family: int,
    members: I8,
    texts: list[list[Row]],
) -> None:
    """Enter the atoms of one term and family; those about texts go to `texts`."""
    kind = packed.kind(atoms.question[members])
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
    patterns = members[(kind >= _PREFIX) & (kind <= _LIKE)]
    if len(patterns):
        kinds = packed.kind(atoms.question[patterns]).tolist()
        values = [vocabulary.pool.values[k] for k in atoms.key[patterns].tolist()]
        term.texts = len(texts)
        texts.append(list(zip(kinds, values, index.place[patterns].tolist(), strict=True)))


def _points(
    vocabulary: Vocabulary, atoms: Atoms, index: Index, term: int, family: int, members: I8
) -> Points:
    """Group the events of memberships by constant."""
    single = packed.kind(atoms.question[members]) == _MEMBER
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
