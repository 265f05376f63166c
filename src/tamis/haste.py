"""numba in a process that does nothing but compile: a sixth less work for the same kernels.

These are no public names of numba: with a version that was not tested, nothing is changed.
"""

from __future__ import annotations

import gc
from typing import Any

from numba.core import ir, postproc, targetconfig, transforms, types

from tamis.linked import KNOWN

_Flags: Any = targetconfig.TargetConfig
_After: Any = postproc.PostProcessor
_Lifetime: Any = postproc.VariableLifetime
_canonical: Any = transforms.canonicalize_cfg
_Function: Any = types.Function
_Instruction: Any = ir.Inst
_PLAIN = frozenset((str, int, float, bool, type(None), ir.Loc))  # hold no variables
_run_after = _After.run
_call_type = _Function.get_call_type
_any_variables = _Instruction._rec_list_vars


def compile_in_haste() -> None:
    """From now on, in the whole process."""
    gc.disable()
    if not KNOWN:
        return
    _Flags.__eq__ = lambda own, other: _set(own) == _set(other)
    _Flags.__hash__ = lambda own: hash(frozenset(_set(own)))
    _After.run = _after
    _Function.get_call_type = _known_call_type
    _Instruction._rec_list_vars = _variables


def _set(flags: Any) -> dict[str, object]:
    """The flags that are not as they are by default. numba looks its functions up by flags,
    compares all of them, and gives all of them one hash."""
    return {n: v for n, v in flags._values.items() if v != flags.options[n].default}


def _after(own: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """What follows each pass over a function. How long variables live is asked for by the last
    one only, and by generators; numba finds it after each."""
    function = own.func_ir
    if emit_dels or function.is_generator:
        _run_after(own, emit_dels, extend_lifetimes)
        return
    function.blocks = _canonical(function.blocks)
    function.variable_lifetime = _Lifetime(function.blocks)
    function.generator_info = None


def _variables(own: Any, value: Any) -> list[Any]:
    """Those that a part of an instruction uses. numba asks five questions about each part of it."""
    kind = type(value)
    if kind is ir.Var:
        return [value]
    if kind is dict:
        parts = value.values()
    elif kind is list or kind is tuple:
        parts = value
    else:
        return [] if kind in _PLAIN else _any_variables(own, value)
    return [v for part in parts if type(part) not in _PLAIN for v in _variables(own, part)]


def _known_call_type(own: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature that a function of numba has for these types: found once, by trying one after
    the other of its implementations, ten on average."""
    key = (id(own), context, tuple(args), tuple(kws.items()))
    found = _SIGNATURES.get(key)
    if found is None:
        found = own, _call_type(own, context, args, kws)
        if all(kind.is_precise() for kind in (*args, *kws.values())):
            _SIGNATURES[key] = found
    return found[1]


_SIGNATURES: dict[Any, tuple[Any, Any]] = {}  # with the function, so that nothing else gets its id
