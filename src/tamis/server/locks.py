"""Locks by key: each exists while a task holds it or waits for it, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Locks:
    """One task at a time for each key, in the order in which they came."""

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[asyncio.Lock, int]] = {}  # and for how many tasks

    def __len__(self) -> int:
        return len(self._held)

    @asynccontextmanager
    async def alone(self, key: Hashable) -> AsyncIterator[None]:
        lock, users = self._held.get(key, (asyncio.Lock(), 0))
        self._held[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            users = self._held.pop(key)[1] - 1
            if users:
                self._held[key] = lock, users
