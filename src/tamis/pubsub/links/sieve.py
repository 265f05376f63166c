"""Which children want which messages: one judge decides the wants of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tamis.errors import TamisError
from tamis.pubsub.broker.judge import Judge, Language
from tamis.pubsub.broker.records import Record
from tamis.pubsub.links.wants import Want

I4 = npt.NDArray[np.int32]


class Sieve:
    """Children are numbered; each has wants, and a bound that all of them are narrowed by.

    A want that the judge does not take, or on which it fails, passes more than was asked for,
    never less, and never anything beyond the bound.
    """

    def __init__(self, language: Language) -> None:
        self.language = language
        self.faults = 0  # how often the judge failed
        self._judge = Judge(language)
        self._owners: I4 = np.zeros(64, np.int32)  # the child of each number
        self._wants: list[Want | None] = [None]
        self._free: list[int] = []
        self._numbers: dict[int, dict[Want, int]] = {}
        self._bounds: dict[int, str] = {}

    def __len__(self) -> int:
        return sum(map(len, self._numbers.values()))

    def open(self, child: int, bound: str = "") -> None:
        self._numbers[child], self._bounds[child] = {}, bound

    def close(self, child: int) -> None:
        """It has no wants any more."""
        assert not self._numbers[child]
        del self._numbers[child], self._bounds[child]

    def put(self, child: int, wants: Iterable[Want]) -> None:
        """Wants that the child does not have yet."""
        own, bound = self._numbers[child], self._bounds[child]
        filters = []
        for want in wants:
            number = own[want] = self._number(want)
            self._owners[number] = child
            filters.append((number, want.subjects, want.selector, bound))
        bad = self._judge.add_many(filters)
        for refused in bad:
            self._judge.put(int(refused), ">", "", bound)

    def _number(self, want: Want) -> int:
        if self._free:
            number = self._free.pop()
            self._wants[number] = want
            return number
        self._wants.append(want)
        number = len(self._wants) - 1
        if number >= len(self._owners):
            self._owners = np.concatenate([self._owners, np.zeros_like(self._owners)])
        return number

    def remove(self, child: int, wants: Iterable[Want]) -> None:
        """Wants that the child has."""
        own = self._numbers[child]
        for want in wants:
            number = own.pop(want)
            self._judge.remove(number)
            self._wants[number] = None
            self._free.append(number)

    def sift(self, records: Sequence[Record]) -> dict[int, list[Record]]:
        """What each child gets of the records; those that get nothing are not mentioned."""
        if not records or not len(self._judge.matcher):
            return {}
        try:
            offsets, numbers = self._judge.judge(records)
        except Exception:
            self.faults += 1
            within = {child: self._within(child, records) for child in self._numbers}
            return {child: found for child, found in within.items() if found}
        if not len(numbers):
            return {}
        rows = np.repeat(np.arange(len(records)), np.diff(offsets))
        children = self._owners[numbers].astype(np.int64)
        pairs = np.unique(children * len(records) + rows)
        children, rows = np.divmod(pairs, len(records))
        starts = np.flatnonzero(np.diff(children, prepend=-1))
        ends = [*starts[1:].tolist(), len(children)]
        found, flat = {}, rows.tolist()
        for start, end in zip(starts.tolist(), ends, strict=True):
            found[int(children[start])] = [records[row] for row in flat[start:end]]
        return found

    def sift_for(self, child: int, records: Sequence[Record]) -> list[Record]:
        """What one child gets."""
        return self.sift(records).get(child, [])

    def sift_by(self, wants: Iterable[Want], child: int, records: list[Record]) -> list[Record]:
        """The records that satisfy one of these wants, within the bound of a child."""
        judge, bound = Judge(self.language), self._bounds[child]
        try:
            for number, want in enumerate(wants):
                judge.add(number, want.subjects, want.selector, bound)
            return judge.hits(records)
        except TamisError:
            return self._within(child, records)

    def _within(self, child: int, records: Sequence[Record]) -> list[Record]:
        """All that the child may see."""
        bound = self._bounds[child]
        if not self._numbers[child] or not bound:
            return list(records) if self._numbers[child] else []
        judge = Judge(self.language)
        judge.add(0, ">", "", bound)
        return judge.hits(list(records))

    def why(self, child: int, record: Record) -> list[Want]:
        """The wants of a child that a message satisfies."""
        _, numbers = self._judge.judge([record])
        own = [int(n) for n in numbers if self._owners[n] == child]
        return [want for n in own if (want := self._wants[n]) is not None]
