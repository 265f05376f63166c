"""Pieces that differ in one attribute alone, united where their sets unite: nothing is added."""

from __future__ import annotations

from collections.abc import Iterable

from tamis.logic import sets
from tamis.logic.conjunctions import Conjunction, Domains, replaced
from tamis.logic.sets import Domain, Values
from tamis.pubsub.filters.covering import Piece
from tamis.pubsub.filters.maximal import Delta
from tamis.pubsub.subjects.subject import SubjectFilter

Key = tuple[SubjectFilter, str, Conjunction]


class Joining:
    """Unites along the attribute at one place of each piece. What goes out depends on the set of
    pieces alone: each group is united anew when it changes."""

    def __init__(self, place: int, domains: Domains) -> None:
        self._place, self._domains = place, domains
        self._groups: dict[Key, dict[Values, Piece]] = {}
        self._out: dict[Piece, int] = {}  # how many groups put it out

    def change(self, added: Iterable[Piece], removed: Iterable[Piece]) -> Delta:
        before: dict[Piece, bool] = {}
        changed: dict[Key, list[Piece]] = {}
        for pieces, coming in ((removed, False), (added, True)):
            for piece in pieces:
                if len(piece.conjunction) <= self._place:
                    self._count(piece, 1 if coming else -1, before)
                    continue
                key, values = self._key(piece)
                group = self._groups.setdefault(key, {})
                if key not in changed:
                    changed[key] = self._united(key, group)
                if coming:
                    group[values] = piece
                else:
                    del group[values]
        for key, old in changed.items():
            self._replace(key, old, before)
        came = [p for p, was in before.items() if not was and p in self._out]
        return came, [p for p, was in before.items() if was and p not in self._out]

    def _key(self, piece: Piece) -> tuple[Key, Values]:
        one, place = piece.conjunction, self._place
        return (piece.subjects, one[place][0], one[:place] + one[place + 1 :]), one[place][1]

    def _replace(self, key: Key, old: list[Piece], before: dict[Piece, bool]) -> None:
        group = self._groups[key]
        new = self._united(key, group)
        if not group:
            del self._groups[key]
        for piece in old:
            self._count(piece, -1, before)
        for piece in new:
            self._count(piece, 1, before)

    def _united(self, key: Key, group: dict[Values, Piece]) -> list[Piece]:
        if len(group) < 2:
            return list(group.values())
        subjects, name, _ = key
        one = next(iter(group.values())).conjunction
        found = united(group, self._domains[name])
        return [Piece(subjects, replaced(one, name, values)) for values in found]

    def _count(self, piece: Piece, step: int, before: dict[Piece, bool]) -> None:
        count = self._out.get(piece, 0)
        before.setdefault(piece, count > 0)
        if count + step:
            self._out[piece] = count + step
        else:
            del self._out[piece]


def united(given: Iterable[Values], domain: Domain) -> list[Values]:
    """The union of sets in few sets: one list for each line, and ranges that do not touch."""
    lists: dict[sets.Line, set[sets.Plain]] = {}
    ranges: list[Values] = []
    for values in sorted(given, key=_start):
        if values.members is not None:
            lists.setdefault(values.line, set()).update(values.members)
            continue
        union = sets.joined(ranges[-1], values, domain) if ranges else None
        if union is None:
            ranges.append(values)
        else:
            ranges[-1] = union
    for line, members in lists.items():
        left = [v for v in members if not any(r.line is line and sets.has(r, v) for r in ranges)]
        listed = sets.among(line, left)
        if listed is not None:
            ranges.append(listed)
    return ranges


def _start(values: Values) -> tuple[object, ...]:
    low, high = values.low, values.high
    return (
        int(values.line),
        values.members is not None,
        values.members or (),
        (0,) if low is None else (1, low),
        (1,) if high is None else (0, high),
        values.without,
    )
