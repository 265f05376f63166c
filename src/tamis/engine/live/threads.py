"""Work shared by threads that stay: what a thread keeps, such as working memory, is there again."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_MOST = 64
_pools: list[ThreadPoolExecutor] = []
os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive a fork


def shared(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """work(item) of all items, in their order, by so many threads; the caller is one of them.

    Nobody waits for a thread that has not begun: work may itself share work. The error of the
    first item that fails is raised.
    """
    if threads <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    left = deque(range(len(items)))
    done: dict[int, Result] = {}
    failed: dict[int, BaseException] = {}

    def take() -> None:
        while True:
            try:
                i = left.popleft()
            except IndexError:
                return
            try:
                done[i] = work(items[i])
            except BaseException as error:
                failed[i] = error
                left.clear()

    helpers = [_pool().submit(take) for _ in range(min(threads, len(items)) - 1)]
    take()
    wait([helper for helper in helpers if not helper.cancel()])
    if failed:
        raise failed[min(failed)]
    return [done[i] for i in range(len(items))]


def _pool() -> ThreadPoolExecutor:
    if not _pools:
        _pools.append(ThreadPoolExecutor(_MOST, "tamis"))
    return _pools[0]
