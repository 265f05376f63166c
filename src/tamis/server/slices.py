"""Long work on the event loop, in slices: between two of them everything else has its turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

SLICE = 0.01  # seconds of work after which others have their turn
Item = TypeVar("Item")


async def sliced(items: Iterable[Item]) -> AsyncIterator[Item]:
    """All items. What an item refers to may change before its turn comes."""
    end = time.monotonic() + SLICE
    for item in items:
        yield item
        if time.monotonic() > end:
            await asyncio.sleep(0)
            end = time.monotonic() + SLICE
