"""What changes for messages when one set of subscriptions takes the place of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.engine import Id, Matcher, Matches

I8 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Example:
    """A message that matches other subscriptions than before."""

    number: int
    message: Mapping[str, object]
    gained: tuple[Id, ...]
    lost: tuple[Id, ...]


@dataclass
class Difference:
    """Compares two matchers batch by batch; the first `most` changed messages are examples."""

    old: Matcher
    new: Matcher
    most: int = 10
    messages: int = 0
    changed: int = 0
    gained: Counter[Id] = field(default_factory=Counter)
    lost: Counter[Id] = field(default_factory=Counter)
    examples: list[Example] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = list(dict.fromkeys((*self.old, *self.new)))
        self._code = {id: code for code, id in enumerate(self._ids)}

    @property
    def added(self) -> list[Id]:
        """The ids of subscriptions that only the new set has."""
        return [id for id in self.new if id not in self.old]

    @property
    def removed(self) -> list[Id]:
        return [id for id in self.old if id not in self.new]

    @property
    def same(self) -> bool:
        """Whether no message matched another subscription than before."""
        return self.changed == 0

    def compare(self, rows: Any, numbers: list[int]) -> None:
        """A batch: Arrow rows or mappings, and the number of each in its file."""
        before, after = self._pairs(self.old, rows), self._pairs(self.new, rows)
        gained = np.setdiff1d(after, before, assume_unique=True)
        lost = np.setdiff1d(before, after, assume_unique=True)
        size = max(len(self._ids), 1)
        for pairs, counts in ((gained, self.gained), (lost, self.lost)):
            codes, times = np.unique(pairs % size, return_counts=True)
            for code, count in zip(codes.tolist(), times.tolist(), strict=True):
                counts[self._ids[code]] += count
        changed = np.unique(np.concatenate([gained, lost]) // size)
        self.messages += len(rows)
        self.changed += len(changed)
        for row in changed[: self.most - len(self.examples)].tolist():
            ids = (self._ids_of(gained, row), self._ids_of(lost, row))
            self.examples.append(Example(numbers[row], _message(rows, row), *ids))

    def _pairs(self, matcher: Matcher, rows: Any) -> I8:
        """Rows and subscriptions that match, each pair as one number."""
        matches = matcher.match_many(rows) if isinstance(rows, list) else matcher.match_batch(rows)
        row = np.repeat(np.arange(len(matches)), matches.counts)
        pairs: I8 = row * max(len(self._ids), 1) + self._codes(matches)[matches.slots]
        return pairs

    def _codes(self, matches: Matches) -> I8:
        names = matches.given if matches.given is not None else matches.names.to_pylist()
        return np.array([self._code.get(id, -1) for id in names], np.int64)

    def _ids_of(self, pairs: I8, row: int) -> tuple[Id, ...]:
        size = max(len(self._ids), 1)
        return tuple(self._ids[p % size] for p in pairs[pairs // size == row].tolist())


def _message(rows: Any, row: int) -> Mapping[str, object]:
    if isinstance(rows, list):
        return rows[row]  # type: ignore[no-any-return]
    (message,) = rows.slice(row, 1).to_pylist()
    return {name: value for name, value in message.items() if value is not None}


def most_changed(counts: Counter[Id], most: int) -> list[tuple[Id, int]]:
    """The largest counts first; equal ones in the order of the ids' texts."""
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:most]
