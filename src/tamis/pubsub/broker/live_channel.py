"""A channel while the broker runs: its judge, its subscriptions, and where its log stands."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable
from itertools import groupby, islice
from operator import add, attrgetter
from typing import Protocol

import numpy as np

from tamis.engine.ground.ids import Id
from tamis.engine.matcher import Matcher
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.culprits import Search
from tamis.pubsub.broker.epochs import Epoch
from tamis.pubsub.broker.intake import Admission, Lane
from tamis.pubsub.broker.judge import Judge, Language
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.broker.seats import Numbers, Seats, Share
from tamis.pubsub.broker.session import Session
from tamis.pubsub.broker.stored import Key, Stored, Tally, Version
from tamis.pubsub.broker.subscription import Subscription

_BODY, _SUBJECT = attrgetter("body"), attrgetter("subject")
_NAME, _NUMBER, _PRINCIPAL = attrgetter("name"), attrgetter("number"), attrgetter("principal")
Judged = tuple[Numbers, Numbers]  # see `Judge.judge`


class Elsewhere(Protocol):
    """The home of a channel, if this is a copy: it is told what is wanted here."""

    since: dict[str, int]  # by subscription: from where on the copy has all that it wants

    @property
    def begun(self) -> bool: ...
    @property
    def epochs(self) -> tuple[Epoch, ...]: ...
    async def confirm(self) -> None:
        """Hear from the home itself what its epochs are."""

    def put(self, subscription: Subscription) -> None: ...
    def remove(self, subscription: Subscription) -> None: ...


class LiveChannel:
    """`next` is the sequence of the next message; all up to `matched` were judged.

    `waiting` are the messages between the two: committed, and not judged yet.
    """

    def __init__(
        self, number: int, language: Language, next: int, time: int, admission: Admission,
        lane: Lane,
    ) -> None:  # fmt: skip
        self.number, self.language, self.next, self.time = number, language, next, time
        self.matched = next - 1
        self.admission, self.lane = admission, lane
        self.judge = Judge(language)
        self.subscriptions: dict[str, Subscription] = {}
        self.owned = Owned()
        self.aside: set[str] = set()  # names of subscriptions that were set aside
        self.waiting: list[Record] = []
        self.search: Search | None = None  # for those on which the judge fails; messages wait
        self._by_number: list[Subscription | None] = [None]
        self.seats = Seats()
        self._free: list[int] = []  # numbers that can be given again
        self.elsewhere: Elsewhere | None = None
        self.published = self.matches = self.deliveries = 0
        self.counted: set[int] = set()  # numbers of those whose counters changed lately

    def number_for(self) -> int:
        """A number for one more subscription, as small as can be: arrays are indexed by it."""
        if self._free:
            return self._free.pop()
        number = len(self._by_number)
        self._know(number)
        return number

    def _know(self, number: int) -> None:
        """Subscriptions have numbers up to this one."""
        self._by_number += [None] * (number + 1 - len(self._by_number))
        self.seats.know(number)

    def put(self, subscription: Subscription) -> None:
        """It is held even if the judge does not take it; then set it aside, or remove it."""
        self._by_number[subscription.number] = subscription
        if subscription.name not in self.subscriptions:
            self.owned.add(subscription)
        self.subscriptions[subscription.name] = subscription
        self.judge.put(*subscription.judge_filter())
        if self.elsewhere is not None:
            if subscription.live:
                subscription.live, subscription.position = False, self.matched + 1
            self.elsewhere.put(subscription)
        subscription.problem = ""
        self.aside.discard(subscription.name)

    def restore(
        self, stored: Iterable[tuple[Stored, str]], window: int, saved: Matcher | None
    ) -> None:
        """Many at once with their bounds, as the broker starts; `saved` is what a judge of this
        channel held before, and spares reading those again that are still the same."""
        many = [Subscription(one, one.number, durable=True, bound=bound, window=window)
                for one, bound in stored]  # fmt: skip
        given = np.fromiter(map(_NUMBER, many), np.int64, len(many))
        last = int(given.max(initial=0))
        free = np.ones(last + 1, bool)
        free[0] = free[given] = False
        self._free = np.flatnonzero(free).tolist()
        self._know(last)
        for one in many:
            if not one.number:
                one.number = self.number_for()
            self._by_number[one.number] = one
        bad = self.judge.restore(map(Subscription.judge_filter, many), saved)
        for number, error in bad.items():
            if (held := self._by_number[int(number)]) is not None:
                held.problem = str(error)
                self.aside.add(held.name)
        self.subscriptions.update(zip(map(_NAME, many), many, strict=True))
        self.owned.add_many(many)

    def in_force(self, subscription: Subscription) -> bool:
        """Whether the copy gets all that it wants; a home always does."""
        return self.elsewhere is None or subscription.name in self.elsewhere.since

    def remove(self, subscription: Subscription) -> None:
        del self.subscriptions[subscription.name]
        if self.elsewhere is not None:
            self.elsewhere.remove(subscription)
        self.aside.discard(subscription.name)
        self.owned.remove(subscription)
        self._by_number[subscription.number] = None
        self._unjudge(subscription.number)
        self._free.append(subscription.number)

    def held(self, numbers: Iterable[Id]) -> list[Subscription]:
        """Those with these numbers that are still here: other threads may have matched them."""
        return [one for n in numbers if (one := self._by_number[int(n)]) is not None]

    def numbered(self, numbers: Iterable[Id], principal: str) -> list[Subscription]:
        """Up to 50 durable subscriptions of the principal among those with these numbers."""
        own = (s for s in self.held(numbers) if s.durable and s.principal == principal)
        return list(islice(own, Owned.KEPT))

    def committed(self, records: Iterable[Record]) -> None:
        self.waiting += records

    def follow(self, block: Block) -> None:
        """(In a copy.) The block is in the log."""
        self.next = block.last + 1
        if block.records:
            self.time = max(self.time, block.records[-1].time)
            self.committed(block.records)
        elif not self.waiting:
            self.matched = block.last

    def jump(self, first: int) -> None:
        """(In a copy.) There is nothing before `first`: whoever is on the live path reads."""
        for one in self.subscriptions.values():
            if one.live:
                one.live, one.position = False, self.matched + 1
        self.waiting, self.next, self.matched = [], first, first - 1

    def _judged_upto(self) -> int:
        """In a copy a block may cover more than its records: once all are judged, so is all that
        it covers."""
        return self.waiting[0].sequence - 1 if self.waiting else self.next - 1

    def judged(self, most: int | None = None) -> Judged:
        """Who wants which of the first `most` messages that wait (None: of all). If the judge
        fails, nothing has changed."""
        records = self.waiting[:most]
        if not self.subscriptions:
            return np.zeros(len(records) + 1, np.int64), np.zeros(0, np.int64)
        return self.judge.judge(records)

    def hand_out(self, judged: Judged, touched: dict[int, Session]) -> act.Gathered | None:
        """Put each match into the outbox of its session, or into an array.

        A session without room, and a subscription with too much to acknowledge, leave the live
        path here: they will read from the log.
        """
        offsets, numbers = judged
        count = len(offsets) - 1
        records, shares = self.waiting[:count], list[Share]()
        rest = np.arange(len(numbers))
        self.matches += len(numbers)
        if self.seats.taken:
            shares, rest = self.seats.share(offsets, numbers, _sizes(records))
            self.deliveries += len(numbers) - len(rest)
        self._deliver(records, offsets, numbers, rest, touched)
        self.waiting = self.waiting[count:]
        self.matched = self._judged_upto()
        return act.Gathered(records, self.seats.prefixes, shares) if shares else None

    def _deliver(
        self, records: list[Record], offsets: Numbers, numbers: Numbers, pairs: Numbers,
        touched: dict[int, Session],
    ) -> None:  # fmt: skip
        """Pairs of a message and a subscription, one by one."""
        rows = (np.searchsorted(offsets, pairs, side="right") - 1).tolist()
        matched = numbers[pairs].tolist()
        self.counted.update(matched)
        for row, number in zip(rows, matched, strict=True):
            subscription = self._by_number[number]
            assert subscription is not None
            subscription.matched += 1
            if subscription.live and deliver(subscription, records[row], touched):
                self.deliveries += 1

    def tally(self, number: int) -> tuple[Key, Tally] | None:
        """What a subscription has counted so far, if it is durable."""
        one = self._by_number[number]
        return (one.key, (one.matched, one.delivered)) if one is not None and one.durable else None

    # --- faults ---------------------------------------------------------------------

    def look_for_culprits(self, most: int | None, error: Exception) -> Search:
        """Begin to search for those on which the judge failed, with the first `most` messages."""
        held = self.held(self.judge.matcher)
        self.search = Search(self.language, held, self.waiting[:most], error)
        return self.search

    def set_aside(self, subscription: Subscription, problem: str) -> None:
        """It stays, and nothing is judged by it until somebody puts it again."""
        subscription.problem = problem
        self.aside.add(subscription.name)
        self._unjudge(subscription.number)

    def _unjudge(self, number: int) -> None:
        """A judge that does not let go of it is replaced."""
        try:
            self.judge.remove(number)
        except Exception:
            self.renew()

    def renew(self) -> None:
        """A new judge of all that were not set aside."""
        judge = Judge(self.language)
        held = [one for one in self.subscriptions.values() if not one.problem]
        judge.restore(map(Subscription.judge_filter, held))
        judge.changes += self.judge.changes
        self.judge = judge

    def fall_behind(self) -> None:
        """What waits was not judged: whoever is on the live path reads it from the log, where
        each has a judge of its own."""
        first, self.waiting = self.waiting[0].sequence, []
        self.matched = self._judged_upto()
        for one in self.subscriptions.values():
            if one.live:
                one.live, one.position = False, first
        with contextlib.suppress(Exception):
            self.renew()  # what comes next may have more luck with a new one

    def judge_of(self, subscription: Subscription, version: Version) -> Judge:
        """The judge of one version of one subscription."""
        known = subscription.judged
        if known is not None and known[0] == version:
            return known[1]
        judge = Judge(self.language)
        judge.add(0, version.subjects, version.selector, subscription.bound)
        subscription.judged = version, judge
        return judge


def _sizes(records: list[Record]) -> Numbers:
    """Bytes of each message, without what a protocol writes around it."""
    bodies, subjects = map(len, map(_BODY, records)), map(len, map(_SUBJECT, records))
    return np.fromiter(map(add, bodies, subjects), np.int64, len(records))


class Owned:
    """Who has how many subscriptions, and some durable ones of each principal."""

    KEPT = 50  # durable subscriptions of a principal that a new one is compared with

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._durable: dict[str, list[Subscription]] = {}

    def add(self, subscription: Subscription) -> None:
        principal = subscription.principal
        self.counts[principal] = self.counts.get(principal, 0) + 1
        if subscription.durable:
            kept = self._durable.setdefault(principal, [])
            if len(kept) < self.KEPT:
                kept.append(subscription)

    def add_many(self, subscriptions: list[Subscription]) -> None:
        """Those of one principal often come together."""
        first = 0
        for principal, group in groupby(map(_PRINCIPAL, subscriptions)):
            last = first + sum(1 for _ in group)
            rest = iter(subscriptions[first:last])
            while len(self._durable.get(principal, ())) < self.KEPT:
                if (one := next(rest, None)) is None:
                    break
                self.add(one)
            self.counts[principal] = self.counts.get(principal, 0) + sum(1 for _ in rest)
            first = last

    def remove(self, subscription: Subscription) -> None:
        principal = subscription.principal
        self.counts[principal] -= 1
        kept = self._durable.get(principal, [])
        if subscription in kept:
            kept.remove(subscription)
        if not self.counts[principal]:
            del self.counts[principal]
            self._durable.pop(principal, None)

    def durable(self, principal: str) -> list[Subscription]:
        """Up to 50 of them; a list of one's own."""
        return list(self._durable.get(principal, ()))


def deliver(subscription: Subscription, record: Record, touched: dict[int, Session]) -> bool:
    """Put the record into the outbox, or let the subscription fall behind."""
    if not subscription.ready:
        subscription.live, subscription.position = False, record.sequence
        return False
    session = subscription.session
    assert session is not None
    session.put(subscription, record)
    touched[session.id] = session
    subscription.delivered += 1
    if subscription.durable:
        if subscription.sent is None:
            subscription.sent = deque()
        subscription.sent.append(record.sequence)
    return True
