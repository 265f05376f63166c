"""Peers that sent much at once are served in rounds: who sent little never waits for all of it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial

SLICE = 16  # requests of one peer that are done at once
AT_ONCE = 2  # of them that need no time left in the turn: to wait costs more than one of them
LIGHT = 1 << 13  # bytes of them: what has more needs time left in the turn
_BUDGET = 0.001  # seconds for requests in one turn of the event loop; as many for those that wait
_PEERS = 4  # that go on in one turn: tasks begin only after it was decided how many


class Rounds:
    """What is left to do, a little in each turn of the event loop.

    Requests that came alone go first: only peers that send many wait for those that send many.
    """

    def __init__(self) -> None:
        self._first: deque[Callable[[], None]] = deque()
        self._rest: deque[Callable[[], None]] = deque()
        self._scheduled = False  # whether `_run` comes at the beginning of the next turn
        self._end = 0.0  # until when requests are done at once in this turn

    def open(self) -> bool:
        """Whether this turn of the event loop has time for a request."""
        if self._scheduled:
            return time.monotonic() < self._end
        self._schedule()
        self._end = time.monotonic() + _BUDGET
        return True

    def add(self, work: Callable[[], None], first: bool = False) -> None:
        (self._first if first else self._rest).append(work)
        if not self._scheduled:
            self._schedule()

    async def turn(self, first: bool = False) -> None:
        """Wait for it."""
        future = asyncio.get_running_loop().create_future()
        self.add(partial(_settle, future), first)
        await future

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._end = time.monotonic() + _BUDGET
        for _ in range(_PEERS):
            waiting = self._first or self._rest
            if not waiting or time.monotonic() >= self._end:
                break
            waiting.popleft()()
        self._end = time.monotonic() + _BUDGET
        self._scheduled = False
        if self._first or self._rest:
            self._schedule()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():  # its task was cancelled
        future.set_result(None)
