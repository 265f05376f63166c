"""The search for subscriptions on which a judge fails, in steps: there may be very many."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.pubsub.broker.judge import Judge, Language
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.subscription import Filter, Subscription

GROUP = 256  # subscriptions that are judged together in one step, at most


class Search:
    """It is over with the first culprits, or when no subscription is left.

    The newest are looked at first, in groups that double: older ones did no harm to the messages
    before. A group on which a judge fails is halved.
    """

    def __init__(
        self, language: Language, oldest_first: list[Subscription], records: Sequence[Record],
        error: Exception,
    ) -> None:  # fmt: skip
        self.error = error
        self._language, self._records = language, records
        self._left, self._size = oldest_first, 1
        self._halves: list[list[Subscription]] = []
        self._culprits: list[tuple[Subscription, Filter]] = []

    @property
    def over(self) -> bool:
        return not self._halves and bool(self._culprits or not self._left)

    @property
    def successful(self) -> bool:
        return bool(self._culprits)

    def culprits(self) -> list[Subscription]:
        """Those that still have the filter on which the judge failed."""
        return [one for one, failed in self._culprits if one.judge_filter() == failed]

    def step(self) -> None:
        """Judge one group, unless it is over."""
        if self.over:
            return
        group = self._halves.pop() if self._halves else self._next()
        filters = [one.judge_filter() for one in group]
        if self._sound(filters):
            return
        if len(group) > 1:
            half = len(group) // 2
            self._halves += [group[half:], group[:half]]
        elif not self._sound(filters) and not self._sound(filters):  # it was not an accident
            self._culprits.append((group[0], filters[0]))

    def _next(self) -> list[Subscription]:
        group = self._left[-self._size :]
        del self._left[-self._size :]
        self._size = min(2 * self._size, GROUP)
        return group

    def _sound(self, filters: list[Filter]) -> bool:
        try:
            judge = Judge(self._language)
            judge.restore(filters)
            judge.judge(self._records)
        except Exception:
            return False
        return True
