"""Peers that sent much at once are served in rounds: who sent little never waits for all of it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial

SLICE = 16  # requests of one peer that are done at once
_BUDGET = 0.002  # seconds of one round, before the event loop looks at other sockets


class Rounds:
    """What is left to do, in order, a little in each turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = False

    def add(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        if not self._running:
            self._running = True
            asyncio.get_running_loop().call_soon(self._run)

    async def turn(self) -> None:
        """Wait for it."""
        future = asyncio.get_running_loop().create_future()
        self.add(partial(_settle, future))
        await future

    def _run(self) -> None:
        end = time.monotonic() + _BUDGET
        while self._waiting and time.monotonic() < end:
            self._waiting.popleft()()
        self._running = bool(self._waiting)
        if self._running:
            asyncio.get_running_loop().call_soon(self._run)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():  # its task was cancelled
        future.set_result(None)
