"""numba in a process that does nothing but compile: a sixth less work for the same kernels.

These are no public names of numba: with a version that was not tested, nothing is changed.
"""

from __future__ import annotations

import gc
from typing import Any

from numba.core import event, ir, postproc, ssa, targetconfig, transforms, types
from numba.core.runtime import context as runtime

from tamis.linked import KNOWN

_Flags: Any = targetconfig.TargetConfig
_After: Any = postproc.PostProcessor
_Lifetime: Any = postproc.VariableLifetime
_canonical: Any = transforms.canonicalize_cfg
_Function: Any = types.Function
_Instruction: Any = ir.Inst
_Location: Any = ir.Loc
_Scope: Any = ir.Scope
_events: Any = event
_ssa: Any = ssa
_Counting: Any = runtime.NRTContext
_PLAIN = frozenset(
    (str, int, float, bool, type(None), ir.Loc, ir.Arg, ir.Const, ir.Global, ir.FreeVar)
)  # hold no variables
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
    # A function that is inlined is copied block by block, each time with the scope of all its
    # variables. These are then replaced by variables of the caller's scope.
    _Location.__deepcopy__ = _Scope.__deepcopy__ = lambda own, memo: own
    _Counting.get_meminfos = _counted
    _events.broadcast = lambda event: None  # timers of locks, one in the other
    _ssa._logger = _Silent()


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
    elif kind is ir.Expr:
        parts = value._kws.values()
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


def _counted(own: Any, builder: Any, kind: Any, value: Any) -> list[tuple[Any, Any]]:
    """The parts of a value whose references are counted. numba takes every value apart to its last
    number, in code that LLVM then has to throw away: a fourth of all instructions."""
    model = own._context.data_model_manager[kind]
    if not _is_counted(model):
        return []
    found = [(kind, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    for part, getter in model.traverse(builder):
        if _is_counted(own._context.data_model_manager[part]):
            found += _counted(own, builder, part, getter(value))
    return found


def _is_counted(model: Any) -> bool:
    known = _COUNTED.get(id(model))  # hashes of types take long
    if known is None:
        known = _COUNTED[id(model)] = model, bool(model.contains_nrt_meminfo())
    return known[1]


class _Silent:
    """Hundreds of thousands of messages that nobody reads."""

    def debug(self, *_: object) -> None:
        pass


_COUNTED: dict[int, tuple[Any, bool]] = {}  # with the model, so that nothing else gets its id
_SIGNATURES: dict[Any, tuple[Any, Any]] = {}  # with the function, so that nothing else gets its id
