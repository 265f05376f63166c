"""Predicates with ANY and ALL as formulas.

What asks a constant of ANY becomes atoms of a term with several values, or thresholds of the least
and greatest element; ALL is that no element is otherwise. The rest (ranges and texts of all
elements, comparisons with other terms) is a Boolean of its own, true, false or undefined.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tamis.language.tree import (
    Between,
    Call,
    Compare,
    CompareOp,
    In,
    IsNull,
    Like,
    Literal,
    Predicate,
    Regex,
    Text,
    terms,
)
from tamis.logic.atoms import Family, Formula, all_of, any_of, family_of, member, negation
from tamis.logic.atoms import Literal as Lit
from tamis.logic.lists import WHOLE
from tamis.logic.terms import static_type

if TYPE_CHECKING:
    from tamis.logic.reduce import Reducer

_NOT: dict[CompareOp, CompareOp] = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}


def holds(reducer: Reducer, predicate: Predicate, call: Call) -> Formula:
    """True where the predicate is TRUE."""
    predicate = reducer.with_list_left(predicate)
    if reducer.semantics == "default" and isinstance(predicate, Compare) and predicate.op == "<>":
        return negation(_false(reducer, predicate, call))  # what is undefined is different
    return _true(reducer, predicate, call)


def fails(reducer: Reducer, predicate: Predicate, call: Call) -> Formula:
    """True where the predicate is FALSE."""
    if reducer.semantics == "default":
        return negation(holds(reducer, predicate, call))
    return _false(reducer, reducer.with_list_left(predicate), call)


def _indexed(predicate: Predicate, call: Call) -> bool:
    """Whether atoms that have indexes say it."""
    match predicate:
        case Compare(left, op, Literal()):
            return left == call or (call.name == "any" and op == "=")
        case Between(term, Literal(), Literal()):
            return term == call and call.name == "all"
        case In() | Like() | Regex() | Text(_, _, Literal()):
            return call.name == "any"
    return False


def _true(reducer: Reducer, predicate: Predicate, call: Call) -> Formula:
    if not _indexed(predicate, call):
        return _derived(predicate, truth=True)
    if isinstance(predicate, Between):
        return all_of(_true(reducer, bound, call) for bound in _bounds(predicate))
    if not isinstance(predicate, Compare):
        return reducer.plain_predicate(predicate)
    if call.name == "all":
        foreign = negation(_foreign(reducer, predicate, call))
        return all_of([_whole(call), foreign, negation(_exists_not(reducer, predicate, call))])
    return _compared(reducer, predicate, call)


def _false(reducer: Reducer, predicate: Predicate, call: Call) -> Formula:
    if not _indexed(predicate, call) or call not in terms(predicate):
        # of a function of an element, more than the element may be undefined
        return _derived(predicate, truth=False)
    if call.name == "any":
        return all_of([_whole(call), negation(_true(reducer, predicate, call))])
    if isinstance(predicate, Between):
        return any_of(_false(reducer, bound, call) for bound in _bounds(predicate))
    assert isinstance(predicate, Compare)
    return any_of([_exists_not(reducer, predicate, call), _foreign(reducer, predicate, call)])


def _compared(reducer: Reducer, predicate: Compare, call: Call) -> Formula:
    """Some element compares so with the constant."""
    constant = predicate.right
    assert isinstance(constant, Literal)
    if predicate.op == "=":
        return any_of(reducer.equal(predicate.left, (constant,)))
    family = family_of(constant.type).name.lower()
    chosen = {"<": ("least",), "<=": ("least",), "<>": ("least", "greatest")}
    parts = [
        reducer.with_constant(Call(f"{what} {family}", call.arguments), predicate.op, constant)
        for what in chosen.get(predicate.op, ("greatest",))
    ]
    return any_of(parts)


def _exists_not(reducer: Reducer, predicate: Compare, call: Call) -> Formula:
    """Some element of the constant's family does not compare so."""
    some = replace(call, name="any")
    return _compared(reducer, Compare(some, _NOT[predicate.op], predicate.right), some)


def _foreign(reducer: Reducer, predicate: Compare, call: Call) -> Formula:
    """Some element is of another family than the constant."""
    constant = predicate.right
    assert isinstance(constant, Literal)
    known, family = static_type(call, reducer.schema), family_of(constant.type)
    if known is not None and family_of(known) is family:
        return any_of([])
    return _fact(f"foreign {family.name.lower()}", call)


def _derived(predicate: Predicate, *, truth: bool) -> Formula:
    """The predicate as a Boolean of its own."""
    assert not isinstance(predicate, IsNull)
    return Lit(member(predicate, Family.BOOL, [truth]))


def _whole(call: Call) -> Formula:
    """The list is there, and so are all its elements."""
    return _fact(WHOLE, call)


def _fact(name: str, call: Call) -> Formula:
    return Lit(member(Call(name, call.arguments), Family.BOOL, [True]))


def _bounds(predicate: Between) -> tuple[Compare, Compare]:
    term, low, high = predicate.term, predicate.low, predicate.high
    return Compare(term, ">=", low), Compare(term, "<=", high)
