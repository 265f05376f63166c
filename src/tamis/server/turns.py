"""Fair shares of scarce things: threads, and requests to other hosts.

One slow user must cost the others nothing. So what is scarce is counted by key (a principal, an
address, a host), and each key has a bound below the total.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from tamis.errors import BusyError

Result = TypeVar("Result")
Keys = tuple[str, ...]


class Turns:
    """At most `most` turns at a time, and for the n-th key of a turn at most `each[n]`.

    A free turn goes to the waiting keys whose first has the fewest turns now; among equals to those
    that wait longest. `queue` bounds how many wait with the same first key.
    """

    def __init__(self, most: int, each: tuple[int, ...], queue: int = 10_000_000) -> None:
        self.most, self.each, self.queue = most, each, queue
        self.taken = 0
        self._used: list[Counter[str]] = [Counter() for _ in each]
        self._waiting: dict[Keys, deque[asyncio.Future[None]]] = {}
        self._queued: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, *keys: str) -> AsyncIterator[None]:
        await self.take(keys)
        try:
            yield
        finally:
            self.give(keys)

    async def take(self, keys: Keys) -> None:
        """Wait for a turn; BusyError if too many wait already."""
        if self._free(keys) and not self._waiting.get(keys):
            self._count(keys, 1)
            return
        queued = self._queued[keys[0]]
        if queued >= self.queue:
            raise BusyError(f"{queued:,} requests of this kind wait already: try again later")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(keys, deque()).append(future)
        self._queued[keys[0]] += 1
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._leave(keys, future)
            else:
                self.give(keys)  # the turn came in the same moment
            raise

    def give(self, keys: Keys) -> None:
        """The turn is over: others may have theirs."""
        self._count(keys, -1)
        while self.taken < self.most and (following := self._next()) is not None:
            future = self._waiting[following][0]
            self._leave(following, future)
            if not future.done():  # else its task was just cancelled
                self._count(following, 1)
                future.set_result(None)

    def _free(self, keys: Keys) -> bool:
        used = zip(keys, self._used, self.each, strict=True)
        return self.taken < self.most and all(counts[key] < most for key, counts, most in used)

    def _count(self, keys: Keys, by: int) -> None:
        self.taken += by
        for key, counts in zip(keys, self._used, strict=True):
            counts[key] += by
            if not counts[key]:
                del counts[key]

    def _leave(self, keys: Keys, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(keys)
        if waiting is None or future not in waiting:
            return
        waiting.remove(future)
        if waiting:  # equal keys wait behind the others now
            self._waiting[keys] = self._waiting.pop(keys)
        else:
            del self._waiting[keys]
        self._queued[keys[0]] -= 1
        if not self._queued[keys[0]]:
            del self._queued[keys[0]]

    def _next(self) -> Keys | None:
        ready = filter(self._free, self._waiting)
        return min(ready, key=lambda keys: self._used[0][keys[0]], default=None)


class Pool:
    """Threads for one kind of work, in fair turns by key."""

    def __init__(self, name: str, threads: int, each: int, queue: int = 10_000_000) -> None:
        self._threads = ThreadPoolExecutor(threads, f"tamis-{name}")
        self._turns = Turns(threads, (each,), queue)

    async def run(self, key: str, call: Callable[..., Result], *args: object) -> Result:
        """A caller that gives up does not free its thread: the turn ends with the work."""
        loop = asyncio.get_running_loop()
        await self._turns.take((key,))

        def done(_: Future[Result]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._turns.give, (key,))

        work = self._threads.submit(call, *args)
        work.add_done_callback(done)
        return await asyncio.wrap_future(work)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
