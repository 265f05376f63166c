"""`@kernel`: the one way to compile. first_use.py says when, cache.py where the code is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from numba import config, njit
from numba.core import sigutils, types
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic, register_jitable

from tamis.critical_section import uninterrupted
from tamis.jit.cache import CACHE
from tamis.jit.first_use import FIRST_USE
from tamis.jit.linking import is_linked, linked

_JIT = not config.DISABLE_JIT  # type: ignore[attr-defined]


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
    if the function itself does not (integers that wrap around).
    """

    def made(function: Callable[..., Any]) -> Any:
        interpreted = plain or function
        if not _JIT:
            return interpreted
        compiled: Any = njit(nogil=True, inline="always" if inline else "never")(function)
        compiled.__class__ = _Kernel
        if FIRST_USE.interprets(interpreted):
            compiled.plain = interpreted
            compiled.__class__ = _Interpreted
            FIRST_USE.waiting.append(compiled)
        return compiled

    return made if function is None else made(function)


# A plain function in Python, copied into the kernels that call it.
shared = register_jitable(inline="always")


def vector(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """As numba's `intrinsic`, and callable from Python too: then it is `plain`."""

    def made(function: Callable[..., Any]) -> Any:
        if not _JIT:
            return plain
        known: Any = intrinsic(function)
        kind = type(known)
        known.__class__ = type("Vector", (kind,), {"__call__": lambda _, *values: plain(*values)})
        return known

    return made


def arrays_from(kernel: Any, *arguments: Any) -> Any:
    """The result of a kernel that returns arrays.

    numba makes Python's arrays by calling Python, and does not expect Ctrl-C to come in between:
    the process would crash. So Python calls such kernels by this function.
    """
    with uninterrupted():
        return kernel(*arguments)


if _JIT:
    _Dispatcher: Any = type(njit(lambda: None))
    _signature: Any = sigutils.normalize_signature
    _unliteral: Any = types.unliteral

    class _Kernel(_Dispatcher):  # type: ignore[misc]
        """A kernel. Ctrl-C waits while it is loaded or compiled: LLVM calls Python back, and ctypes
        drops exceptions that are raised in there, so the interrupt would be lost."""

        _cache: Any
        cached = False  # files are looked for when the kernel is compiled, not when it is imported
        inner = False  # called by a kernel, not by Python

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
                if not self.cached:
                    CACHE.attach(self)
                    self.cached = True
                if self.inner:
                    return self._compile_inner(signature)
                known = self.overloads.get(kinds)
                if known is not None and not _has_code(known):
                    del self.overloads[kinds]  # so far only kernels have called it
                return super().compile(signature)

        def _compile_inner(self, signature: Any) -> Any:
            """Without a wrapper for calls by Python, and without a file."""
            options, cache = self._compiler.targetoptions, self._cache
            self._compiler.targetoptions = {**options, "no_cpython_wrapper": True}
            self._cache = _ReadOnly(cache)
            try:
                return super().compile(signature)
            finally:
                self._compiler.targetoptions, self._cache = options, cache

        def add_overload(self, result: Any) -> None:
            if _has_code(result):
                super().add_overload(result)
            else:
                self.overloads[tuple(result.signature.args)] = result

    class _ReadOnly:
        """A kernel's files, to be read only."""

        def __init__(self, cache: Any) -> None:
            self.load_overload = cache.load_overload

        def save_overload(self, signature: Any, result: Any) -> None:
            pass

    class _Interpreted(_Kernel):
        """A kernel that is plain Python until kernels are compiled."""

        def __call__(self, *arguments: Any) -> Any:
            if not FIRST_USE.compiled():
                return self.plain(*arguments)
            self.__class__ = _Kernel
            return self(*arguments)

        def release(self) -> None:
            self.__class__ = _Kernel

    def _has_code(result: Any) -> bool:
        return getattr(result.library, "has_code", True)

    def _widened(kind: Any) -> Any:
        """Kernels call each other with 64 bits, so that each is compiled once and not for each
        constant and each width."""
        if isinstance(kind, types.IntegerLiteral):
            kind = _unliteral(kind)
        return types.int64 if kind in (types.int8, types.int16, types.int32) else kind
