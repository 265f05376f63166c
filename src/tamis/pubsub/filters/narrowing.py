"""Not more than so many pieces: neighbours in one order are united, those that lose least first.

The order puts pieces side by side that are alike. Between neighbours stands a *cut*; the cuts that
would lose most stay, one fewer than pieces are allowed, and what stands between two of them becomes
one piece, the hull. All this depends on the set of pieces alone, so a change can be taken back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from typing import Any

from tamis.logic.conjunctions import Domains, hull, loss
from tamis.logic.conjunctions import key as conjunction_key
from tamis.pubsub.filters.covering import Piece, subject_hull
from tamis.pubsub.filters.maximal import Delta

Key = tuple[Any, ...]
Cut = tuple[float, Key]  # the loss, and the key of the piece before it
_OTHER_SUBJECT = 20.0  # bits that uniting two subjects loses, beside the rest
_MANY = 16  # changes after which everything is done anew: one of _MANY of all pieces


def key(piece: Piece) -> Key:
    return (piece.subjects.fields, *conjunction_key(piece.conjunction))


class Narrowing:
    def __init__(self, limit: int, domains: Domains) -> None:
        self._limit, self._domains = limit, domains
        self._order: list[Key] = []
        self._pieces: dict[Key, Piece] = {}
        self._losses: dict[Key, float] = {}
        self._cuts: list[Cut] = []
        self._starts: list[Key] = []  # of the runs, each from here to before the next
        self._runs: dict[Key, Piece] = {}
        self._out: dict[Piece, int] = {}

    @property
    def united(self) -> int:
        """How many pieces are in others now."""
        return len(self._order) - len(self._runs)

    def change(self, added: Iterable[Piece], removed: Iterable[Piece]) -> Delta:
        before: dict[Piece, bool] = {}
        coming, going = {key(p): p for p in added}, {key(p) for p in removed}
        if (len(coming) + len(going)) * _MANY > len(self._order):
            self._all_anew(coming, going, before)
        else:
            self._some(coming, going, before)
        came = [p for p, was in before.items() if not was and p in self._out]
        return came, [p for p, was in before.items() if was and p not in self._out]

    def _all_anew(
        self, coming: dict[Key, Piece], going: set[Key], before: dict[Piece, bool]
    ) -> None:
        for start in self._starts:
            self._count(self._runs[start], -1, before)
        for gone in going:
            del self._pieces[gone]
        self._pieces |= coming
        self._order = sorted(self._pieces)
        order = self._order
        self._losses = {a: self._loss(a, b) for a, b in pairwise(order)}
        self._cuts = sorted((lost, at) for at, lost in self._losses.items())
        self._starts, self._runs = [], {}
        self._make_runs(0, len(order), before)
        self._starts = list(self._runs)

    def _some(self, coming: dict[Key, Piece], going: set[Key], before: dict[Piece, bool]) -> None:
        """Only runs are made anew that a change touches, or a cut that comes or goes."""
        old_least = self._least
        dirty = {run for k in (*coming, *going) for run in self._runs_beside(k)}
        for gone in going:
            self._take_out(gone)
        for new, piece in coming.items():
            self._put_in(new, piece)
        for at in self._turned(old_least):
            following = bisect_right(self._order, at)
            dirty |= {self._run_of(at), self._run_of(self._order[following])}
        self._compact(sorted({max(number, 0) for number in dirty}), before)

    def _runs_beside(self, at: Key) -> list[int]:
        """The runs of a piece that comes or goes, and of its neighbours."""
        i = bisect_left(self._order, at)
        near = self._order[max(i - 1, 0) : i + 2]
        return [self._run_of(k) for k in (at, *near)]

    def _turned(self, old_least: Cut | None) -> list[Key]:
        """Where cuts may have come or gone because others did."""
        least = self._least
        if least == old_least:
            return []
        low, high = sorted((least or _FIRST, old_least or _FIRST))
        first, last = bisect_left(self._cuts, low), bisect_right(self._cuts, high)
        return [at for _, at in self._cuts[first:last]]

    def _compact(self, dirty: list[int], before: dict[Piece, bool]) -> None:
        """Make the runs with these numbers anew, those side by side together, last ones first."""
        while dirty:
            last = first = dirty.pop()
            while dirty and dirty[-1] == first - 1:
                first = dirty.pop()
            beyond = self._starts[last + 1] if last + 1 < len(self._starts) else None
            end = len(self._order) if beyond is None else bisect_left(self._order, beyond)
            begin = bisect_left(self._order, self._starts[first]) if first > 0 else 0
            for start in self._starts[first : last + 1]:
                self._count(self._runs.pop(start), -1, before)
            self._starts[first : last + 1] = self._make_runs(begin, end, before)

    def _make_runs(self, first: int, end: int, before: dict[Piece, bool]) -> list[Key]:
        """The runs of these pieces, which begin and end at cuts; says where they start."""
        made, least, i = [], self._least, first
        while i < end:
            start, run = self._order[i], [self._pieces[self._order[i]]]
            while i + 1 < end and not self._is_cut(self._order[i], least):
                i += 1
                run.append(self._pieces[self._order[i]])
            i += 1
            self._runs[start] = reduce(self._hull, run)
            self._count(self._runs[start], 1, before)
            made.append(start)
        return made

    # --- cuts ---------------------------------------------------------------------

    @property
    def _least(self) -> Cut | None:
        """The least cut that stays; None where all stay."""
        excess = len(self._cuts) - (self._limit - 1)
        return self._cuts[excess] if 0 < excess < len(self._cuts) else _LAST if excess > 0 else None

    def _is_cut(self, at: Key, least: Cut | None) -> bool:
        return least is None or (self._losses[at], at) >= least

    def _run_of(self, at: Key) -> int:
        return bisect_right(self._starts, at) - 1

    def _put_in(self, new: Key, piece: Piece) -> None:
        i = bisect_left(self._order, new)
        self._order.insert(i, new)
        self._pieces[new] = piece
        self._cut_again(i - 1)
        self._cut_again(i)

    def _take_out(self, gone: Key) -> None:
        i = bisect_left(self._order, gone)
        self._forget_cut(gone)
        del self._order[i], self._pieces[gone]
        self._cut_again(i - 1)

    def _cut_again(self, i: int) -> None:
        """The cut behind the i-th piece, which has another neighbour now."""
        if not 0 <= i < len(self._order):
            return
        self._forget_cut(self._order[i])
        if i + 1 < len(self._order):
            lost = self._losses[self._order[i]] = self._loss(self._order[i], self._order[i + 1])
            insort(self._cuts, (lost, self._order[i]))

    def _forget_cut(self, at: Key) -> None:
        lost = self._losses.pop(at, None)
        if lost is not None:
            del self._cuts[bisect_left(self._cuts, (lost, at))]

    def _loss(self, a: Key, b: Key) -> float:
        first, second = self._pieces[a], self._pieces[b]
        other = 0.0 if first.subjects == second.subjects else _OTHER_SUBJECT
        return other + loss(first.conjunction, second.conjunction, self._domains)

    def _hull(self, a: Piece, b: Piece) -> Piece:
        around = hull(a.conjunction, b.conjunction, self._domains)
        return Piece(subject_hull(a.subjects, b.subjects), around)

    def _count(self, piece: Piece, step: int, before: dict[Piece, bool]) -> None:
        count = self._out.get(piece, 0)
        before.setdefault(piece, count > 0)
        if count + step:
            self._out[piece] = count + step
        else:
            self._out.pop(piece, None)


_FIRST: Cut = (float("-inf"), ())  # before every cut that there can be
_LAST: Cut = (float("inf"), ())  # and behind
