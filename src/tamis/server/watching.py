"""Background work that goes on: a failure is reported, and tried again after a growing pause.

Work has a kind, such as `retention`, and may concern one thing alone, such as a channel: its
failure stops neither the other kinds nor the other things.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from tamis.errors import TamisError

LOG = logging.getLogger("tamis.server")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds until failed work is tried again
Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Failure:
    """Why work failed last, how often in a row, and when (steady clock) it is tried again."""

    error: str
    count: int
    again: float


class Watch:
    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self.failing: dict[tuple[str, Hashable], Failure] = {}
        self.failures = 0  # since the start
        self._steady = steady

    async def repeat(self, kind: str, seconds: float, work: Work) -> None:
        """Do the work every so many seconds, until this task is cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await self.attempt(kind, work)

    async def attempt(self, kind: str, work: Work, about: Hashable = None) -> None:
        """Do the work, unless it failed a moment ago."""
        known = self.failing.get((kind, about))
        if known is not None and self._steady() < known.again:
            return
        try:
            await work()
        except Exception as error:
            self._failed((kind, about), error)
        else:
            if self.failing.pop((kind, about), None) is not None:
                LOG.info("%s works again", kind)

    def _failed(self, key: tuple[str, Hashable], error: Exception) -> None:
        count = self.failing[key].count + 1 if key in self.failing else 1
        pause = min(FIRST_PAUSE * 2 ** min(count - 1, 30), LONGEST_PAUSE)
        told = str(error) or type(error).__name__
        self.failing[key] = Failure(told, count, self._steady() + pause)
        self.failures += 1
        bug = None if isinstance(error, TamisError) else error
        LOG.error("%s fails, tried again in %d s: %s", key[0], pause, told, exc_info=bug)

    def fault(self, where: str, error: BaseException) -> None:
        """Something failed that nobody tries again: it is counted, and the log says where."""
        self.failures += 1
        bug = None if isinstance(error, TamisError) else error
        LOG.error("%s failed: %s", where, error or type(error).__name__, exc_info=bug)

    def forget(self, about: Hashable) -> None:
        """What the work concerned is gone."""
        for key in [key for key in self.failing if key[1] == about]:
            del self.failing[key]

    def counts(self) -> dict[str, int]:
        """How many things fail, by kind."""
        return dict(Counter(kind for kind, _ in self.failing))
