"""`@kernel`: one way to compile. tamis/compiled.py has where compiled kernels are kept.

Compiling takes a minute or two. Until all kernels of a fresh install are compiled, those of the
engine run as the plain Python that they are written in, while another process compiles
(docs/decisions/031-the-first-minute.md). `heavy` says that work is too much for that, and waits.
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
from typing import Any, overload

from numba import config, njit
from numba.core import sigutils, types
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic, register_jitable

from tamis.compiled import Store
from tamis.linked import is_linked, linked
from tamis.whole import uninterrupted

_PLAIN_ROOMS = ("tamis.diagram.", "tamis.engine.")  # whose kernels are tested as plain Python,
_OTHERS = "tamis.engine.implications."  # but for these
_LIGHT = 20_000  # steps that plain Python may take: literals to compile, or conditions to match
_LOG = logging.getLogger("tamis")
_JIT = not config.DISABLE_JIT  # type: ignore[attr-defined]
_KERNELS: list[Any] = []
_MAY_WAIT = ContextVar("may_wait", default=True)
STORE = Store()


@overload
def kernel(function: Callable[..., Any]) -> Any: ...
@overload
def kernel(
    *, inline: bool, plain: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    *,
    inline: bool = False,
    plain: Callable[..., Any] | None = None,
) -> Any:
    """Compile a function over flat arrays: kept on disk, and without Python's lock.

    `inline=True` copies it into the kernels that call it. `plain` does the same in plain Python,
    where the function itself does not (integers that wrap around).
    """

    def made(function: Callable[..., Any]) -> Any:
        instead = plain or function
        if not _JIT:
            return instead
        compile = njit(cache=True, nogil=True, inline="always" if inline else "never")
        with STORE.in_use():
            found = compile(function)
        if not inline:
            _KERNELS.append(found)
        return _FIRST_USE.held(found, instead)

    return made if function is None else made(function)


# A plain function in Python, copied into the kernels that call it.
shared = register_jitable(inline="always")


def vector(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """As numba's `intrinsic`, and callable from Python too, where `plain` does the same."""

    def made(function: Callable[..., Any]) -> Any:
        if not _JIT:
            return plain
        found: Any = intrinsic(function)
        both = type("both", (type(found),), {"__call__": lambda _, *given: plain(*given)})
        found.__class__ = both
        return found

    return made


def arrays_from(kernel: Any, *arguments: Any) -> Any:
    """What a kernel returns, where that holds arrays.

    numba makes Python's arrays by calling Python, and does not expect Ctrl-C to come in between:
    the process would crash. So Python calls such kernels by this function.
    """
    with uninterrupted():
        return kernel(*arguments)


# --- the first use -----------------------------------------------------------


class _FirstUse:
    """Kernels that wait to be compiled by another process, and are plain Python until then."""

    def __init__(self) -> None:
        asked = os.environ.get("TAMIS_KERNELS")
        self._always = asked == "plain"
        self.plain = _JIT and asked != "now" and (self._always or not STORE.ready)
        self.begun = False
        self._lock = threading.Lock()
        self._waiting: list[Any] = []
        self._compiling: threading.Thread | None = None

    def held(self, made: Any, plain: Callable[..., Any]) -> Any:
        """The kernel: itself, or plain for now."""
        home = plain.__module__
        if self.plain and home.startswith(_PLAIN_ROOMS) and not home.startswith(_OTHERS):
            made.plain = plain
            made.__class__ = _Held
            self._waiting.append(made)
        else:
            made.__class__ = _Kernel
        return made

    def begin(self) -> None:
        """Start to compile, in another process, which goes on if this one ends; or wait for one
        that was started elsewhere."""
        with self._lock:
            self.begun = True
            if self._compiling is None and not self._always:
                _LOG.warning("compiling for this machine, once: until then matching is slow")
                self._compiling = threading.Thread(target=self._compile, daemon=True)
                self._compiling.start()

    def _compile(self) -> None:
        with contextlib.suppress(OSError), STORE.to_compile() as turn:
            if turn is not None:
                _run_warm(turn)
        self.end()  # where nothing could be kept, this process compiles what it calls

    def end(self) -> None:
        """From now on kernels are compiled ones: from disk, or when they are called."""
        with self._lock:
            self.plain = False
            for made in self._waiting:
                made.__class__ = _Kernel
            self._waiting.clear()

    def wait(self) -> None:
        """Until all are compiled; a line on a terminal says how far it is."""
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
        self.end()  # in a child that was forked meanwhile, nobody else does


def _run_warm(turn: int) -> None:
    """Compile all kernels in another process, which inherits the turn."""
    nothing = subprocess.DEVNULL
    subprocess.run(
        [sys.executable, "-m", "tamis.warm", str(turn)],
        stdin=nothing, stdout=nothing, stderr=nothing,
        start_new_session=True, check=False, pass_fds=(turn,),
    )  # fmt: skip


if _JIT:
    _Dispatcher: Any = type(njit(lambda: None))
    _signature: Any = sigutils.normalize_signature
    _unliteral: Any = types.unliteral

    class _Kernel(_Dispatcher):  # type: ignore[misc]
        """A kernel. Ctrl-C waits while it is loaded or compiled: LLVM calls Python back, and ctypes
        drops what is raised in there, so that nobody would hear of the interrupt."""

        _cache: Any
        inner = False  # whether a kernel asks for it, not Python

        def _compile_for_args(self, *arguments: Any, **named: Any) -> Any:
            with uninterrupted():
                return super()._compile_for_args(*arguments, **named)

        def get_call_template(self, kinds: Any, named: Any) -> Any:
            before, self.inner = self.inner, is_linked(self.targetctx)
            try:
                return super().get_call_template(tuple(map(_widened, kinds)), named)
            finally:
                self.inner = before

        def compile(self, signature: Any) -> Any:
            """numba's own way, but for `Linked`, see there."""
            kinds = tuple(_signature(signature)[0])
            with global_compiler_lock, linked(self.targetctx):
                if self.inner:
                    return self._compile_inner(signature)
                known = self.overloads.get(kinds)
                if known is not None and not _has_code(known):
                    del self.overloads[kinds]  # so far it was asked for by kernels only
                return super().compile(signature)

        def _compile_inner(self, signature: Any) -> Any:
            """Without what Python needs: a wrapper to call it, and a file to find it again."""
            options, cache = self._compiler.targetoptions, self._cache
            self._compiler.targetoptions = {**options, "no_cpython_wrapper": True}
            self._cache = _Found(cache)
            try:
                return super().compile(signature)
            finally:
                self._compiler.targetoptions, self._cache = options, cache

        def add_overload(self, result: Any) -> None:
            if _has_code(result):
                super().add_overload(result)
            else:
                self.overloads[tuple(result.signature.args)] = result

    class _Found:
        """A kernel's files, to be read only."""

        def __init__(self, cache: Any) -> None:
            self.load_overload = cache.load_overload

        def save_overload(self, signature: Any, result: Any) -> None:
            pass

    class _Held(_Kernel):
        """A kernel that is plain Python until kernels are compiled."""

        def __call__(self, *arguments: Any) -> Any:
            if not _FIRST_USE.begun:
                _FIRST_USE.begin()
            return self.plain(*arguments)

    def _has_code(result: Any) -> bool:
        return getattr(result.library, "has_code", True)

    def _widened(kind: Any) -> Any:
        """Kernels call each other with 64 bits, so that each is compiled once and not for each
        constant and each width."""
        if isinstance(kind, types.IntegerLiteral):
            kind = _unliteral(kind)
        return types.int64 if kind in (types.int8, types.int16, types.int32) else kind


_FIRST_USE = _FirstUse()


def show_progress() -> None:
    done, all = STORE.count(), len(_KERNELS)
    share = min(30 * done // max(all, 1), 30)
    bar = "#" * share + "." * (30 - share)
    print(f"\rcompiling for this machine [{bar}] {done} of {all}", end="", file=sys.stderr)


def heavy(steps: int) -> None:
    """Wait until kernels are compiled where so much work is too much for plain Python."""
    if steps > _LIGHT and _FIRST_USE.plain:
        if not _MAY_WAIT.get():
            _FIRST_USE.begin()
            raise NotCompiledError
        _FIRST_USE.wait()


class NotCompiledError(Exception):
    """Kernels are not compiled yet, and nobody wants to wait for them."""


@contextlib.contextmanager
def without_waiting() -> Iterator[None]:
    """Inside, `heavy` raises NotCompiledError instead of waiting."""
    before = _MAY_WAIT.set(False)
    try:
        yield
    finally:
        _MAY_WAIT.reset(before)
