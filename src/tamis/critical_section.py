"""`with atomic():` sections that happen wholly or not at all, whatever signals and forks come.

Ctrl-C raises KeyboardInterrupt between any two steps of the main thread, and a fork copies what
other threads have half done. Within such a section Ctrl-C waits for its end, and a fork does too.
So sections are short: prepare outside, publish inside. Handlers of other signals should not raise.
"""

from __future__ import annotations

import os
import threading

# As in `signal`, but for its search of enumerations, which takes longer than all the rest.
from _signal import getsignal, signal  # type: ignore[import-not-found]
from signal import SIGINT
from types import FrameType
from typing import Any, Protocol
from weakref import ref

GATE = threading.RLock()  # held by every section, and by a fork


class Forked(Protocol):
    """Something with locks or threads, which mean nothing in a child."""

    def after_fork(self) -> None: ...


# Not a WeakSet: that calls Python where a member ends, and Ctrl-C in there would be lost.
_forked: list[ref[Any]] = []
_pruned_at = 64  # owners at which those that are gone are dropped


def notify_after_fork(owner: Forked) -> None:
    """Call `owner.after_fork()` in every child that a fork makes, as long as the owner lives."""
    global _pruned_at
    with GATE:
        if len(_forked) >= _pruned_at:
            _forked[:] = [known for known in _forked if known() is not None]
            _pruned_at = max(64, 2 * len(_forked))
        _forked.append(ref(owner))


def _in_child() -> None:
    for known in list(_forked):
        owner = known()
        if owner is not None:
            owner.after_fork()
    GATE.release()


os.register_at_fork(before=GATE.acquire, after_in_parent=GATE.release, after_in_child=_in_child)


class uninterrupted:  # noqa: N801 - it is used like a function
    """A section in which Ctrl-C waits. Sections may be nested; the outermost one raises."""

    __slots__ = ("_arrived", "_handler")

    def __enter__(self) -> None:
        self._arrived: list[FrameType | None] = []
        self._handler: Any = None
        if threading.current_thread() is threading.main_thread():
            handler = getsignal(SIGINT)
            if callable(handler) and not _waiting(handler):
                self._handler = handler
                signal(SIGINT, self._wait)

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._arrived.append(frame)

    def __exit__(self, *error: object) -> None:
        if self._handler is not None:
            signal(SIGINT, self._handler)
            if self._arrived:
                self._handler(SIGINT, self._arrived[0])


class atomic(uninterrupted):  # noqa: N801
    """A section in which Ctrl-C waits, and for whose end a fork waits."""

    __slots__ = ()

    def __enter__(self) -> None:
        super().__enter__()  # first: from here on nothing is raised
        GATE.acquire()

    def __exit__(self, *error: object) -> None:
        GATE.release()
        super().__exit__()


def _waiting(handler: object) -> bool:
    """Whether it is that of an outer section."""
    return isinstance(getattr(handler, "__self__", None), uninterrupted)
