"""Subscriptions whose matches are gathered by array, session by session.

A subscription on the live path that needs no acknowledgements takes a seat while its session is
there. Pairs of a message and such a subscription never become objects: they are counted and sorted
as numbers. All others, and sessions that run out of room, are served one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.pubsub.broker.subscription import ENVELOPE

if TYPE_CHECKING:
    from tamis.pubsub.broker.session import Session
    from tamis.pubsub.broker.subscription import Subscription

Numbers = npt.NDArray[np.int64]


class Share(NamedTuple):
    """What one session gets of a batch: seats, and the places of their messages in the batch."""

    session: Session
    seats: list[int]
    rows: list[int]


class Seats:
    """`by_number[n]` is the seat of subscription n while it is live; 0 is nobody's."""

    def __init__(self) -> None:
        self.by_number = np.zeros(64, np.int32)
        self.prefixes: list[bytes] = [b""]  # by seat: what stands before each of its messages
        self.counts = np.zeros(64, np.int64)  # by seat: matches that were delivered
        self._bench = np.zeros(64, np.int32)  # by seat: the number of its session
        self._envelopes = np.zeros(64, np.int64)  # by seat: bytes taken each of its messages
        self._numbers: dict[int, int] = {}  # by session: its number here
        self._held: dict[int, int] = {}  # by session: how many seats it has
        self._by_bench: list[Session | None] = [None]  # sessions by their numbers here
        self._free: list[int] = []
        self._free_benches: list[int] = []

    @property
    def taken(self) -> bool:
        return bool(self._held)

    def know(self, number: int) -> None:
        """Subscriptions have numbers up to this one."""
        if number >= len(self.by_number):
            self.by_number = _grown(self.by_number, number)

    def take(self, subscription: Subscription, session: Session, prefix: bytes) -> None:
        seat = self._free.pop() if self._free else len(self.prefixes)
        if seat == len(self.prefixes):
            self.prefixes.append(b"")
            if seat >= len(self.counts):
                self.counts, self._bench = _grown(self.counts, seat), _grown(self._bench, seat)
                self._envelopes = _grown(self._envelopes, seat)
        self.prefixes[seat] = prefix
        self._envelopes[seat] = ENVELOPE + len(prefix)
        self.counts[seat] = 0
        self._bench[seat] = self._bench_of(session)
        self._held[session.id] = self._held.get(session.id, 0) + 1
        subscription.seats, subscription.seat = self, seat

    def _bench_of(self, session: Session) -> int:
        found = self._numbers.get(session.id)
        if found is None:
            found = self._free_benches.pop() if self._free_benches else len(self._by_bench)
            if found == len(self._by_bench):
                self._by_bench.append(None)
            self._by_bench[found] = session
            self._numbers[session.id] = found
        return found

    def leave(self, subscription: Subscription, session: Session) -> None:
        seat, subscription.seat = subscription.seat, 0
        if not seat:
            return
        self.by_number[subscription.number] = 0
        subscription.matched += int(self.counts[seat])
        subscription.delivered += int(self.counts[seat])
        self.prefixes[seat] = b""
        self._free.append(seat)
        self._held[session.id] -= 1
        if not self._held[session.id]:
            del self._held[session.id]
            bench = self._numbers.pop(session.id)
            self._by_bench[bench] = None
            self._free_benches.append(bench)

    def share(
        self, offsets: Numbers, numbers: Numbers, sizes: Numbers
    ) -> tuple[list[Share], Numbers]:
        """Who gets what of a batch of messages with these sizes in bytes, and the pairs that are
        left to be served one by one."""
        seats = self.by_number[numbers]
        benches = self._bench[seats]  # of seat 0 it is 0
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        counts = np.bincount(benches, minlength=len(self._by_bench))
        taken = sizes[rows] + self._envelopes[seats]
        costs = np.bincount(benches, taken, len(self._by_bench)).astype(np.int64)
        for bench in np.flatnonzero(counts).tolist():
            session = self._by_bench[bench]
            if session is not None and (
                counts[bench] > session.room or costs[bench] > session.room_bytes
            ):
                benches[benches == bench] = 0
                counts[bench] = 0
        narrow = benches.astype(np.uint16) if len(self._by_bench) < 65536 else benches
        order = np.argsort(narrow, kind="stable")  # so messages stay in order for each session
        rest = int(len(order) - counts[1:].sum())
        chosen = seats[order[rest:]]
        self.counts[: len(self.prefixes)] += np.bincount(chosen, minlength=len(self.prefixes))
        shares = self._cut(counts, costs, chosen.tolist(), rows[order[rest:]].tolist())
        return shares, np.sort(order[:rest])

    def _cut(
        self, counts: Numbers, costs: Numbers, seats: list[int], rows: list[int]
    ) -> list[Share]:
        shares, first = [], 0
        for bench in (np.flatnonzero(counts[1:]) + 1).tolist():
            session, last = self._by_bench[bench], first + int(counts[bench])
            assert session is not None
            session.send(last - first, int(costs[bench]))
            shares.append(Share(session, seats[first:last], rows[first:last]))
            first = last
        return shares


def _grown(array: npt.NDArray[Any], place: int) -> npt.NDArray[Any]:
    found = np.zeros(max(2 * len(array), place + 1), array.dtype)
    found[: len(array)] = array
    return found
