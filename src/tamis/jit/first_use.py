"""The first use after an install: plain Python answers while another process compiles.

Compiling takes half a minute. Until the kernels of the engine are compiled, they run as the plain
Python that they are written in (docs/decisions/031-the-first-minute.md). `heavy` says that work
is too much for that, and waits. Nothing is looked up before the first kernel is called.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from numba import config

from tamis.jit.cache import CACHE

_PLAIN_ROOMS = ("tamis.diagram.", "tamis.engine.", "tamis.jit.")  # kernels tested as plain Python,
_OTHERS = "tamis.engine.implications."  # but for these
_LIGHT = 20_000  # steps that plain Python may take: literals to compile, or conditions to match
_LOG = logging.getLogger("tamis")
_MAY_WAIT = ContextVar("may_wait", default=True)


class _FirstUse:
    """Kernels that wait to be compiled by another process, and are plain Python until then."""

    def __init__(self) -> None:
        mode = os.environ.get("TAMIS_KERNELS")
        self._always = mode == "plain"
        # Whether kernels are plain Python now, as far as is known: the cache is read when one is
        # called.
        self.plain = not config.DISABLE_JIT and mode != "now"  # type: ignore[attr-defined]
        self._decided = self._always
        self.waiting: list[Any] = []
        self._lock = threading.Lock()
        self._compiling: threading.Thread | None = None

    def interprets(self, function: Callable[..., Any]) -> bool:
        """Whether a kernel is plain Python for now."""
        home = function.__module__
        return self.plain and home.startswith(_PLAIN_ROOMS) and not home.startswith(_OTHERS)

    def compiled(self) -> bool:
        """Whether kernels are compiled; otherwise another process compiles them from now on."""
        if self.plain and not self._always:
            self.begin()
        return not self.plain

    def begin(self) -> None:
        """Unless they are compiled: start to compile, in another process, which continues if this
        one ends; or wait for one that was started elsewhere."""
        if self._decided:
            return
        with self._lock:
            if self._decided:
                return
            if CACHE.ready:
                self._end()
            else:
                _LOG.warning(
                    "compiling kernels for this machine (one time only); "
                    "matching is slow until it finishes"
                )
                self._compiling = threading.Thread(target=self._compile, daemon=True)
                self._compiling.start()
            self._decided = True

    def _compile(self) -> None:
        with contextlib.suppress(OSError), CACHE.to_compile() as turn:
            if turn is not None:
                _run_warm(turn)
        self.end()  # if nothing could be kept, this process compiles the kernels that it calls

    def end(self) -> None:
        """From now on kernels are compiled ones: from disk, or when they are called."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        self.plain = False
        for kernel in self.waiting:
            kernel.release()
        self.waiting.clear()

    def wait(self) -> None:
        """Until all are compiled; a line on a terminal shows the progress."""
        self.begin()
        if self._compiling is None:
            return
        shown = sys.stderr.isatty()
        while self._compiling.is_alive():
            self._compiling.join(0.2)
            if shown:
                show_progress()
        if shown:
            print(file=sys.stderr)
        self.end()  # in a child that was forked meanwhile, no thread does it


def _run_warm(turn: int) -> None:
    """Compile the kernels of the engine in another process, which inherits the turn."""
    nothing = subprocess.DEVNULL
    subprocess.run(
        [sys.executable, "-m", "tamis.warm", str(turn)],
        stdin=nothing, stdout=nothing, stderr=nothing,
        start_new_session=True, check=False, pass_fds=(turn,),
    )  # fmt: skip


FIRST_USE = _FirstUse()


def show_progress() -> None:
    print(f"\rcompiling kernels for this machine: {CACHE.count()}", end="", file=sys.stderr)


def heavy(steps: int) -> None:
    """Wait until kernels are compiled if this is too much work for plain Python."""
    if steps > _LIGHT and FIRST_USE.plain:
        if _MAY_WAIT.get():
            FIRST_USE.wait()
        elif not FIRST_USE.compiled():
            raise NotCompiledError


class NotCompiledError(Exception):
    """Kernels are not compiled yet, and the caller does not want to wait for them."""


@contextlib.contextmanager
def without_waiting() -> Iterator[None]:
    """Inside, `heavy` raises NotCompiledError instead of waiting."""
    before = _MAY_WAIT.set(False)
    try:
        yield
    finally:
        _MAY_WAIT.reset(before)
