"""Pieces that no other piece covers.

Which they are depends on the set of pieces alone, not on the order of changes. A piece is looked up
among those of the same subjects and attributes, and there in the *bucket* of the same lists
(`symbol = 'IBM'`); only what can cover it, or be covered by it, is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.logic.conjunctions import Conjunction, includes
from tamis.logic.sets import Line, Values, bounds, contains
from tamis.pubsub.filters.covering import Piece
from tamis.pubsub.subjects.subject import Subject, SubjectFilter
from tamis.pubsub.subjects.subject_index import SubjectIndex

_SMALL = 48  # pieces of a bucket that are compared one by one
Delta = tuple[list[Piece], list[Piece]]  # what comes and what goes
Names = tuple[str, ...]
Lists = tuple[tuple[Any, ...], ...]


class Maximal:
    """The maximal pieces of a set that changes."""

    def __init__(self) -> None:
        self._coverer: dict[Piece, Piece] = {}  # of the pieces that are not maximal
        self._covered: dict[Piece, set[Piece]] = {}  # of those that are
        self._groups: dict[SubjectFilter, dict[tuple[Names, Names], _Group]] = {}
        self._subjects: SubjectIndex[SubjectFilter] = SubjectIndex()
        self._wider: dict[SubjectFilter, list[SubjectFilter]] = {}
        self._narrower: dict[SubjectFilter, list[SubjectFilter]] = {}

    def change(self, added: Iterable[Piece], removed: Iterable[Piece]) -> Delta:
        """Pieces come and go, each once; says which become maximal and which cease to be."""
        before: dict[Piece, bool] = {}
        loose: list[Piece] = []
        for piece in removed:
            self._remove(piece, before, loose)
        fresh = [*added, *loose]
        self._know({piece.subjects for piece in fresh})
        for piece in sorted(fresh, key=_width):
            self._add(piece, before)
        came = [p for p, was in before.items() if not was and p in self._covered]
        went = [p for p, was in before.items() if was and p not in self._covered]
        return came, went

    def _add(self, piece: Piece, before: dict[Piece, bool]) -> None:
        coverer = next(self._coverers(piece), None)
        if coverer is not None:
            self._coverer[piece] = coverer
            self._covered[coverer].add(piece)
            return
        before.setdefault(piece, False)
        own = self._covered[piece] = set()
        for other in list(self._covers(piece)):
            before.setdefault(other, True)
            self._group(other).remove(other)
            own |= {other, *self._covered.pop(other)}
        for other in own:
            self._coverer[other] = piece
        self._group(piece).add(piece)

    def _remove(self, piece: Piece, before: dict[Piece, bool], loose: list[Piece]) -> None:
        coverer = self._coverer.pop(piece, None)
        if coverer is not None:
            self._covered[coverer].discard(piece)
        elif piece in self._covered:
            before.setdefault(piece, True)
            self._group(piece).remove(piece)
            for other in self._covered.pop(piece):
                del self._coverer[other]
                loose.append(other)
        else:  # it lost its coverer a moment ago
            loose.remove(piece)

    # --- where to look ----------------------------------------------------------

    def _group(self, piece: Piece) -> _Group:
        shape = _shape(piece.conjunction)
        groups = self._groups.setdefault(piece.subjects, {})
        if shape not in groups:
            groups[shape] = _Group(*shape)
        return groups[shape]

    def _coverers(self, piece: Piece) -> Iterator[Piece]:
        names, listed = _shape(piece.conjunction)
        for subjects in self._wider[piece.subjects]:
            for group in self._groups.get(subjects, {}).values():
                if group.subset_of(names, listed):
                    yield from group.coverers(piece)

    def _covers(self, piece: Piece) -> Iterator[Piece]:
        names, listed = _shape(piece.conjunction)
        for subjects in self._narrower[piece.subjects]:
            for group in self._groups.get(subjects, {}).values():
                if group.superset_of(names, listed):
                    yield from group.covered_by(piece, listed)

    def _know(self, subjects: set[SubjectFilter]) -> None:
        """Which subject filters cover which. New ones are seldom, so all is found again."""
        new = [one for one in subjects if one not in self._wider]
        if not new:
            return
        self._subjects.add_many((one, one) for one in new)
        asked = list(self._subjects)
        found = self._subjects.match_many([Subject(_unwild(one)) for one in asked])
        self._narrower = {one: [] for one in asked}
        self._wider = {}
        for one, wider in zip(asked, found, strict=True):
            self._wider[one] = [other for other in wider if other.covers(one)]
            for other in self._wider[one]:
                self._narrower[other].append(one)


def _unwild(filter: SubjectFilter) -> tuple[str, ...]:
    """A subject that only filters with a wildcard there match where this one has one."""
    return tuple([" " if field in ("*", ">") else field for field in filter.fields])


def _shape(conjunction: Conjunction) -> tuple[Names, Names]:
    """The attributes, and those of them that are restricted to a list."""
    names = tuple([name for name, _ in conjunction])
    return names, tuple([name for name, values in conjunction if values.members is not None])


def _width(piece: Piece) -> tuple[Any, ...]:
    """Wide pieces first, so that few are kept that are covered later."""
    return (len(piece.conjunction), *_keys(piece.conjunction))


class _Group:
    """Maximal pieces of the same subjects and shape, in buckets by their lists."""

    def __init__(self, names: Names, listed: Names) -> None:
        self.names, self.listed = names, listed
        self._names, self._listed = frozenset(names), frozenset(listed)
        self._places = [names.index(name) for name in listed]
        self.buckets: dict[Lists, _Bucket] = {}
        self._having: list[dict[Any, set[Lists]]] = [{} for _ in listed]

    def subset_of(self, names: Names, listed: Names) -> bool:
        return self._names.issubset(names) and self._listed.issubset(listed)

    def superset_of(self, names: Names, listed: Names) -> bool:
        return self._names.issuperset(names) and self._listed.issuperset(listed)

    def _lists(self, conjunction: Conjunction) -> Lists:
        return tuple([conjunction[i][1].members or () for i in self._places])

    def add(self, piece: Piece) -> None:
        lists = self._lists(piece.conjunction)
        if lists not in self.buckets:
            self.buckets[lists] = _Bucket()
            for having, members in zip(self._having, lists, strict=True):
                for value in members:
                    having.setdefault(value, set()).add(lists)
        self.buckets[lists].add(piece)

    def remove(self, piece: Piece) -> None:
        lists = self._lists(piece.conjunction)
        self.buckets[lists].remove(piece)
        if self.buckets[lists].pieces:
            return
        del self.buckets[lists]
        for having, members in zip(self._having, lists, strict=True):
            for value in members:
                having[value].discard(lists)
                if not having[value]:
                    del having[value]

    def coverers(self, piece: Piece) -> Iterator[Piece]:
        """Pieces of the group that cover one whose shape has all that this one has."""
        one = piece.conjunction
        if len(one) > len(self.names):
            known = dict(one)
            one = tuple([(name, known[name]) for name in self.names])
        if not self.listed:
            candidates: Iterable[Lists] = [()]
        else:
            first = one[self._places[0]][1].members
            assert first is not None
            candidates = self._having[0].get(first[0], ())
        for lists in candidates:
            bucket = self.buckets.get(lists)
            if bucket is not None:
                yield from bucket.coverers(piece, one)

    def covered_by(self, piece: Piece, listed: Names) -> Iterator[Piece]:
        """Pieces of the group that a piece covers, whose shape is a part of this one."""
        candidates: Iterable[Lists] = self.buckets
        if listed:
            place = self.listed.index(listed[0])
            members = dict(piece.conjunction)[listed[0]].members or ()
            having = self._having[place]
            candidates = {lists for value in members for lists in having.get(value, ())}
        same = len(piece.conjunction) == len(self.names)
        for lists in list(candidates):
            yield from self.buckets[lists].covered_by(piece, same)


class _Bucket:
    """Pieces with the same lists. Each has a column of `keys`: what covers has no larger key."""

    __slots__ = ("keys", "pieces", "rows")

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.rows: dict[Piece, int] = {}
        self.keys: npt.NDArray[np.float64] | None = None

    def add(self, piece: Piece) -> None:
        self.rows[piece] = len(self.pieces)
        self.pieces.append(piece)
        if len(self.pieces) <= _SMALL:
            return
        own = _keys(piece.conjunction)
        if self.keys is None:
            self.keys = np.array([_keys(p.conjunction) for p in self.pieces]).T.copy()
        elif len(self.pieces) > self.keys.shape[1]:
            self.keys = np.concatenate([self.keys, np.full_like(self.keys, np.nan)], axis=1)
        self.keys[:, len(self.pieces) - 1] = own

    def remove(self, piece: Piece) -> None:
        """The last one takes its place."""
        at = self.rows.pop(piece)
        last = self.pieces.pop()
        if at < len(self.pieces):
            self.pieces[at] = last
            self.rows[last] = at
        if self.keys is not None:
            if at < len(self.pieces):
                self.keys[:, at] = self.keys[:, len(self.pieces)]
            self.keys[:, len(self.pieces)] = np.nan
            if len(self.pieces) <= _SMALL // 2:
                self.keys = None

    def coverers(self, piece: Piece, one: Conjunction) -> Iterator[Piece]:
        """`one`: the conjunction of the piece, of this bucket's attributes alone."""
        near: Iterable[Piece] = self.pieces
        if self.keys is not None:
            near = self._near(np.less_equal, one)
        for other in near:
            if _within(other.conjunction, one) and _before(other, piece):
                yield other

    def covered_by(self, piece: Piece, same: bool) -> Iterator[Piece]:
        near: Iterable[Piece] = list(self.pieces)
        if self.keys is not None and same:
            near = self._near(np.greater_equal, piece.conjunction)
        for other in near:
            if includes(piece.conjunction, other.conjunction) and _before(piece, other):
                yield other

    def _near(self, compare: np.ufunc, one: Conjunction) -> list[Piece]:
        """Pieces all of whose keys compare so with those of `one`."""
        assert self.keys is not None
        columns = zip(self.keys[:, : len(self.pieces)], _keys(one), strict=True)
        rows = reduce(np.logical_and, [compare(column, own) for column, own in columns])
        return [self.pieces[i] for i in np.flatnonzero(rows).tolist()]


def _within(a: Conjunction, b: Conjunction) -> bool:
    """`includes` for the same attributes."""
    for (_, wide), (_, narrow) in zip(a, b, strict=True):
        if wide is not narrow and not contains(wide, narrow):
            return False
    return True


def _before(a: Piece, b: Piece) -> bool:
    """Of pieces that cover each other, the one that is kept."""
    same = len(a.conjunction) == len(b.conjunction) and a.subjects == b.subjects
    if not same or not includes(b.conjunction, a.conjunction):
        return True
    return repr(a.conjunction) < repr(b.conjunction)


def _keys(conjunction: Conjunction) -> list[float]:
    """Two numbers for each attribute; of a set that contains another, neither is larger."""
    found: list[float] = []
    for _, values in conjunction:
        low, high = bounds(values)
        found.append(-math.inf if low is None else _number(values, low))
        found.append(-math.inf if high is None else -_number(values, high))
    return found


def _number(values: Values, value: Any) -> float:
    """A number for a value that grows with it, though not always."""
    if values.line is Line.STRING:
        return float(int.from_bytes(value[:6].encode()[:6].ljust(6, b"\0")))
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
