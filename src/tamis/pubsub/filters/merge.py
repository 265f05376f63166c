"""Many interests as few pieces: what a router asks of its neighbours (US 6,910,033, "merge").

Pieces pass through stages, each of which puts out fewer: those that no other covers, then joined
where they differ in one attribute, then, where there are still too many, united with their
neighbours. Each stage is a function of the set that it was given, and does only what a change
makes necessary. So add and remove leave the merge as it was.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from tamis.errors import SubscriptionError
from tamis.logic.conjunctions import ANYTHING, Domains
from tamis.logic.dnf import Filter
from tamis.pubsub.filters.covering import Interest, Piece, pieces
from tamis.pubsub.filters.joining import Joining
from tamis.pubsub.filters.maximal import Delta, Maximal
from tamis.pubsub.filters.narrowing import Narrowing

Id = TypeVar("Id", bound=Hashable)
_JOINED = 6  # places of attributes along which pieces are joined


class Change(NamedTuple):
    """What a router has to tell its neighbours: pieces that come, and pieces that go."""

    added: tuple[Piece, ...]
    removed: tuple[Piece, ...]


class Merge(Generic[Id]):
    """Interests by id, merged. `limit`: how many pieces there may be; more are widened.

    Without a limit the pieces want exactly what the interests want. `domains` are what attributes
    can be: those of the channel.
    """

    def __init__(self, limit: int | None = None, domains: Domains = ANYTHING) -> None:
        if limit is not None and limit < 1:
            raise ValueError("a merge has one piece at least")
        self._interests: dict[Id, Interest] = {}
        self._counts: dict[Piece, int] = {}
        self._narrowing = None if limit is None else Narrowing(limit, domains)
        exact = [Joining(place, domains) for place in range(_JOINED)]
        self._stages: list[Maximal | Joining | Narrowing] = [Maximal(), *exact]
        self._stages += [Maximal()] if self._narrowing is None else [Maximal(), self._narrowing]
        self._merged: dict[Piece, None] = {}

    def __len__(self) -> int:
        return len(self._interests)

    def __contains__(self, id: object) -> bool:
        return id in self._interests

    def __iter__(self) -> Iterator[Id]:
        return iter(self._interests)

    @property
    def pieces(self) -> frozenset[Piece]:
        """What is wanted, all in all."""
        return frozenset(self._merged)

    @property
    def wider(self) -> bool:
        """Whether the pieces may want more than the interests do."""
        narrowed = self._narrowing is not None and self._narrowing.united > 0
        return narrowed or any(interest.filter.wider for interest in self._interests.values())

    @property
    def interests(self) -> list[Interest]:
        """The pieces, those of the same subjects together."""
        by_subjects: dict[object, list[Piece]] = {}
        for piece in self._merged:
            by_subjects.setdefault(piece.subjects, []).append(piece)
        return [
            Interest(found[0].subjects, Filter(tuple(p.conjunction for p in found), self.wider))
            for found in by_subjects.values()
        ]

    def add(self, id: Id, interest: Interest) -> Change:
        return self.add_many([(id, interest)])

    def add_many(self, interests: Iterable[tuple[Id, Interest]]) -> Change:
        """Add all or, where an id is taken, none."""
        new = {}
        for id, interest in interests:
            if id in self._interests or id in new:
                raise SubscriptionError(f"there is an interest {id!r} already: remove it first")
            new[id] = interest
        self._interests |= new
        return self._pass(*self._counted([p for i in new.values() for p in pieces(i)], 1))

    def remove(self, id: Id) -> Change:
        interest = self._interests.pop(id, None)
        if interest is None:
            raise SubscriptionError(f"there is no interest {id!r}")
        return self._pass(*self._counted(pieces(interest), -1))

    def replace(self, id: Id, interest: Interest) -> Change:
        """The same id with another interest, in one change."""
        old = self._interests.get(id)
        gone = self._counted(pieces(old), -1)[1] if old is not None else []
        self._interests[id] = interest
        came = self._counted(pieces(interest), 1)[0]
        return self._pass([p for p in came if p not in gone], [p for p in gone if p not in came])

    def _counted(self, given: list[Piece], step: int) -> Delta:
        """Pieces that come or go altogether: others want the rest as well."""
        changed = []
        for piece in given:
            count = self._counts.get(piece, 0)
            self._counts[piece] = count + step
            if count + step == 0:
                del self._counts[piece]
            if 0 in (count, count + step):
                changed.append(piece)
        return (changed, []) if step > 0 else ([], changed)

    def _pass(self, added: list[Piece], removed: list[Piece]) -> Change:
        for stage in self._stages:
            if not added and not removed:
                break
            added, removed = stage.change(added, removed)
        for piece in removed:
            del self._merged[piece]
        self._merged |= dict.fromkeys(added)
        return Change(tuple(added), tuple(removed))
