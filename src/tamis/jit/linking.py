"""What only kernels call is optimised in the kernels that Python calls, and only there.

numba makes a library of every function: it optimises it, turns it into machine code, and links it
into the library of each caller, where both is done again. Two of three kernels are called by other
kernels only; they, and numba's own functions, need neither. Linked as `internal`, LLVM knows all
their callers: it inlines what is called once and drops arguments that nobody reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numba
from numba.core import codegen
from numba.core import environment as environments

_Library: Any = codegen.JITCodeLibrary
_environment: Any = environments.lookup_environment
_ENVIRONMENT = "_ZN08NumbaEnv"  # how numba names the globals that lead to environments
_USED = ("_optimize_functions", "_optimize_final_module", "_finalize_final_module",
         "_get_module_for_linking", "_raise_if_finalized")  # fmt: skip
# These are no public names of numba: with a version that was not tested, it compiles its own way.
KNOWN = (
    numba.__version__.startswith("0.68.")
    and hasattr(codegen.JITCPUCodegen, "_library_class")
    and all(hasattr(codegen.JITCodeLibrary, name) for name in _USED)
)


class Linked(_Library):  # type: ignore[misc]
    """A library that becomes machine code when Python asks for a function of it."""

    has_code = False

    @property
    def codegen(self) -> Any:
        return self._codegen if self.has_code else _WithoutCode(self._codegen)

    def add_ir_module(self, module: Any) -> None:
        if module.name != "cfunc_wrapper":  # for callers in C, of which there are none
            super().add_ir_module(module)

    def _optimize_functions(self, module: Any) -> None:
        """As numba does, but lightly, and with one pass manager: all is optimised in `_make`."""
        module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager(opt=1)
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> Any:
        """0 where there is no such function: numba asks for a wrapper that it did not make."""
        if not self.has_code:
            functions = self._final_module.functions
            if not any(f.name == name and not f.is_declaration for f in functions):
                return 0
            self._make()
        return super().get_pointer_to_function(name)

    def _make(self) -> None:
        module = self._final_module
        for library in self._callees():
            self._reload_init.update(library._reload_init)
            module.link_in(library._get_module_for_linking(), preserve=True)
        for function in module.functions:
            if not function.is_declaration and function.linkage.name == "linkonce_odr":
                function.linkage = "internal"
        self._optimize_final_module()
        module.verify()
        self._finalize_final_module()
        for one in module.global_variables:
            known = one.name.startswith(_ENVIRONMENT) and _environment(one.name)
            if known:
                self._codegen.set_env(one.name, known)

    def _finalize_final_module(self) -> None:
        super()._finalize_final_module()
        self.has_code = True

    def _callees(self) -> list[Any]:
        """All libraries to link, callers first: LLVM takes over only what is missing by then."""
        found: dict[Any, None] = {}

        def visit(library: Any) -> None:
            for callee in dict.fromkeys(library._linking_libraries):
                if callee not in found:
                    if isinstance(callee, Linked) and not callee.has_code:
                        visit(callee)
                    found[callee] = None

        visit(self)
        return [*reversed(found)]


class _WithoutCode:
    """As a library's `codegen`, where there is no machine code yet that could be given anything."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        pass


def is_linked(context: Any) -> bool:
    """Whether libraries are `Linked` now. A caller's own, in another package, need machine code."""
    return KNOWN and context.codegen()._library_class is Linked


@contextlib.contextmanager
def linked(context: Any) -> Iterator[None]:
    """Libraries that are made inside are `Linked`. The caller holds numba's lock."""
    if not KNOWN:
        yield
        return
    codegen = context.codegen()
    before = codegen._library_class
    codegen._library_class = Linked
    try:
        yield
    finally:
        codegen._library_class = before
