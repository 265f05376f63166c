"""Work in the background: one thread at a time, whose failures are told and not lost."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable

from tamis.critical_section import notify_after_fork

_log = logging.getLogger("tamis")
_PATIENCE = 1.0  # seconds that the end of the process waits for all threads
_threads: set[threading.Thread] = set()  # not weak: Ctrl-C within the end of a member is lost
ENDING = threading.Event()  # the process is about to end


@atexit.register
def _end() -> None:
    """Let background threads come to an end before the interpreter does: one that is stopped
    within a library in C++ would take the process down with it."""
    ENDING.set()
    latest = time.monotonic() + _PATIENCE
    for thread in list(_threads):
        thread.join(max(0.0, latest - time.monotonic()))


class Background:
    """Does `work` when asked, if it is not at it already. `failing` says what a failure means.

    The work calls `end` in the moment in which it has nothing left to do, while nobody can call
    `start`. It gives up where ENDING is set.
    """

    def __init__(self, work: Callable[[], None], failing: str) -> None:
        self._work, self._failing = work, failing
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None  # until somebody is told
        self._told = False  # the log has it
        notify_after_fork(self)

    @property
    def broken(self) -> bool:
        """Whether the last try failed, and somebody was told."""
        return self._told and self._failure is None

    def start(self) -> None:
        with self._lock:
            if self._thread is None:
                name = f"tamis-{self._work.__name__.strip('_')}"
                self._thread = threading.Thread(target=self._try, name=name, daemon=True)
                _threads.add(self._thread)
                self._thread.start()

    def after_fork(self) -> None:
        """The thread, and whoever held the lock, are not in the child."""
        self._lock, self._thread = threading.Lock(), None

    def end(self) -> None:
        """What comes from now on needs another start."""
        self._thread = None

    def wait(self) -> None:
        """Until it is done. Raises what it failed with, if it did."""
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join()
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _try(self) -> None:
        """A failure is told once, however often it comes back."""
        try:
            self._work()
        except Exception as error:
            with self._lock:
                self._thread, self._failure = None, error
                told, self._told = self._told, True
            if not told:
                _log.warning(self._failing, exc_info=error)
        else:
            self._told = False
        finally:
            _threads.discard(threading.current_thread())
