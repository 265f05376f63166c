"""Which of very many subject filters match a subject: by a trie, never by a scan."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tamis.errors import SubscriptionError
from tamis.pubsub.subjects import trie
from tamis.pubsub.subjects.subject import MORE, ONE, Subject, SubjectFilter

Id = TypeVar("Id", bound=Hashable)
I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
_FEW = 64  # places that a match has room for at first
_WORN = 1024  # removed filters, beyond as many as are left, after which the trie is made anew


class SubjectIndex(Generic[Id]):
    """Subject filters by id. Add, remove, and ask which of them match a subject.

    A match costs what the filters that share fields with the subject make it visit, not their
    number. Any number of threads may match while nobody changes the index.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[str, int] = {ONE: trie.STAR, MORE: trie.MORE}
        self._filters: dict[Id, SubjectFilter] = {}
        self._places: dict[Id, int] = {}
        self._ids: dict[int, tuple[Id, ...]] = {}
        self._nodes: I4 = np.zeros((64, 3), np.int32)
        self._table: I8 = np.zeros((128, 2), np.int64)
        self._used: I8 = np.array([1, 0], np.int64)
        self._removed = 0

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: object) -> bool:
        return id in self._filters

    def __iter__(self) -> Iterator[Id]:
        return iter(self._filters)

    def __getitem__(self, id: Id) -> SubjectFilter:
        return self._filters[id]

    def add(self, id: Id, filter: SubjectFilter) -> None:
        self.add_many([(id, filter)])

    def add_many(self, filters: Iterable[tuple[Id, SubjectFilter]]) -> None:
        """Add all or, where an id is taken, none."""
        new: dict[Id, SubjectFilter] = {}
        for id, filter in filters:
            if id in self._filters or id in new:
                raise SubscriptionError(f"there is a subject filter {id!r} already: remove it")
            new[id] = filter
        numbers = self._numbers
        fields: list[int] = []
        ends = [0]
        for filter in new.values():
            for field in filter.fields:
                number = numbers.get(field)
                if number is None:
                    number = numbers[field] = len(numbers)
                fields.append(number)
            ends.append(len(fields))
        self._insert(new, np.array(fields, np.int32), np.array(ends, np.int64))

    def _insert(self, new: dict[Id, SubjectFilter], fields: I4, starts: I8) -> None:
        self._make_room(len(fields))
        places = np.empty(len(new), np.int64)
        trie.insert(self._nodes, self._table, self._used, fields, starts, places)
        ids = self._ids
        for id, place in zip(new, places.tolist(), strict=True):
            known = ids.get(place)
            ids[place] = (id,) if known is None else (*known, id)
            self._places[id] = place
        self._filters.update(new)

    def _make_room(self, fields: int) -> None:
        needed = int(self._used[0]) + fields
        if needed > len(self._nodes):
            nodes = np.zeros((max(needed, 2 * len(self._nodes)), 3), np.int32)
            nodes[: len(self._nodes)] = self._nodes
            self._nodes = nodes
        size = len(self._table)
        while 2 * (int(self._used[1]) + fields) > size:
            size *= 2
        if size > len(self._table):
            table = np.zeros((size, 2), np.int64)
            trie.rehash(self._table, table)
            self._table = table

    def remove(self, id: Id) -> None:
        if id not in self._filters:
            raise SubscriptionError(f"there is no subject filter {id!r}")
        del self._filters[id]
        place = self._places.pop(id)
        left = tuple(other for other in self._ids[place] if other != id)
        if left:
            self._ids[place] = left
        else:
            del self._ids[place]
        self._nodes[place // 2, 1 + place % 2] -= 1
        self._removed += 1
        if self._removed > _WORN + len(self._filters):
            kept = self._filters
            self._clear()
            self.add_many(kept.items())

    def match(self, subject: Subject) -> list[Id]:
        """The ids of the filters that the subject satisfies."""
        get = self._numbers.get
        fields = np.array([get(f, trie.UNKNOWN) for f in subject.fields], np.int32)
        out = np.empty(_FEW, np.int64)
        found = trie.walk(self._nodes, self._table, fields, out)
        if found > _FEW:
            out = np.empty(found, np.int64)
            trie.walk(self._nodes, self._table, fields, out)
        ids = self._ids
        return [id for place in out[:found].tolist() for id in ids[place]]

    def match_many(self, subjects: Sequence[Subject]) -> list[list[Id]]:
        """The same for each of many subjects."""
        counts, places = self._walk_many(subjects)
        ids, place = self._ids, iter(places.tolist())
        return [[id for _ in range(n) for id in ids[next(place)]] for n in counts.tolist()]

    def _walk_many(self, subjects: Sequence[Subject]) -> tuple[I8, I8]:
        get: Any = self._numbers.get
        numbers = [get(f, trie.UNKNOWN) for f in chain.from_iterable(s.fields for s in subjects)]
        starts = np.zeros(len(subjects) + 1, np.int64)
        np.cumsum([len(s.fields) for s in subjects], out=starts[1:])
        fields = np.array(numbers, np.int32)
        counts, out = np.empty(len(subjects), np.int64), np.empty(4 * len(subjects), np.int64)
        args = self._nodes, self._table, fields, starts, counts
        total = trie.walk_many(*args, out)
        if total > len(out):
            out = np.empty(total, np.int64)
            trie.walk_many(*args, out)
        return counts, out[:total]
