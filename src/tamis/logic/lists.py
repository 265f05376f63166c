"""Lists in messages: terms with several values, facts about lists, and truth over all elements.

`ANY(tags)` is a term with several values: an atom is true of it where it is true of one of them.
Facts are terms with one value, so they have thresholds like any other: the least element of a
family (`ANY(prices) < 5` is `least < 5`), the greatest, whether all elements are defined, and
whether there are elements of other families.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tamis.language.patterns import folded
from tamis.language.tree import (
    Attribute,
    Between,
    Call,
    Compare,
    In,
    Like,
    Predicate,
    Regex,
    Term,
    Text,
    quantified,
    quantifier,
)
from tamis.logic.comparing import compare, text_test
from tamis.schema import Type, type_of

EACH = Attribute("\0element")  # stands for an element where a predicate is asked of each
WHOLE = "whole list"
FAMILIES: dict[str, tuple[Type, ...]] = {
    "number": (Type.INT, Type.DOUBLE),
    "string": (Type.STRING,),
    "bool": (Type.BOOL,),
    "timestamp": (Type.TIMESTAMP,),
}
EXTREMES = {f"{what} {family}": family for what in ("least", "greatest") for family in FAMILIES}
FOREIGN = {f"foreign {family}": family for family in FAMILIES}
FACTS: dict[str, Type | None] = {
    WHOLE: Type.BOOL,
    **dict.fromkeys(FOREIGN, Type.BOOL),
    **{name: None if f == "number" else FAMILIES[f][0] for name, f in EXTREMES.items()},
}


class Several(list[object]):
    """The values of a term that has several; there is at least one."""


def several(held: object) -> Several | None:
    """The elements of a list that are defined."""
    found = Several([one for one in held if one is not None] if isinstance(held, list) else ())
    return found or None


def has_several(term: object) -> bool:
    """Whether the term has several values: it is ANY(...), or a function of that."""
    if not isinstance(term, Call):
        return False
    found = quantifier(term)
    return found is not None and found.name == "any"


def fact(name: str, held: object) -> object:
    """What is so of a list; a value that is no list is one element of no type."""
    if held is None:
        return None
    if name == WHOLE:
        return not isinstance(held, list) or None not in held
    elements: list[Any] = held if isinstance(held, list) else [...]
    wanted = FAMILIES[(FOREIGN | EXTREMES)[name]]
    if name in FOREIGN:
        return any(one is not None and type_of(one) not in wanted for one in elements)
    alike = [one for one in elements if type_of(one) in wanted]
    return (min if name.startswith("least") else max)(alike, default=None)


def truth(
    predicate: Predicate, elements: object, value_of: Callable[[Term, object], object]
) -> bool | None:
    """The predicate with ANY or ALL; `value_of` gives a term where EACH is worth an element."""
    call, one = taken_apart(predicate)
    if elements is None:
        elements = [None]
    if not isinstance(elements, list):
        return False
    found = {truth_of_one(one, value_of, element) for element in elements}
    decisive = call.name == "any"
    return decisive if decisive in found else None if None in found else not decisive


@lru_cache(maxsize=4096)
def taken_apart(predicate: Predicate) -> tuple[Call, Predicate]:
    """The ANY or ALL of the predicate, and the predicate with EACH in its place."""
    call = quantified(predicate)
    assert call is not None
    return call, _with_each(predicate)


def _with_each(predicate: Any) -> Predicate:
    match predicate:
        case Compare(left, op, right, at):
            return Compare(_each(left), op, _each(right), at)
        case Between(term, low, high, at):
            return Between(_each(term), low, high, at)
        case Text(term, op, other, at):
            return Text(_each(term), op, other, at)
        case In(term, values, at):
            return In(_each(term), values, at)
        case Like(term, pattern, escape, at, any_case):
            return Like(_each(term), pattern, escape, at, any_case)
        case Regex(term, pattern, at):
            return Regex(_each(term), pattern, at)
    raise AssertionError(predicate)


def _each(term: Term) -> Term:
    call = quantifier(term)
    if call is None:
        return term
    if call is term:
        return EACH
    assert isinstance(term, Call)
    return Call(term.name, tuple(map(_each, term.arguments)), term.at)


def truth_of_one(
    predicate: Predicate, value_of: Callable[[Term, object], object], element: object
) -> bool | None:
    """The predicate, with EACH in it, of one element."""
    match predicate:
        case Compare(left, op, right):
            return compare(value_of(left, element), op, value_of(right, element))
        case Between(term, low, high):
            value = value_of(term, element)
            above = compare(value, ">=", value_of(low, element))
            below = compare(value, "<=", value_of(high, element))
            return False if False in (above, below) else None if None in (above, below) else True
        case Text(term, op, other):
            return text_test(value_of(term, element), op, value_of(other, element))
        case In(term, values):
            value = value_of(term, element)
            if value is None:
                return None
            return any(compare(value, "=", one.value) for one in values)
        case Like(term) | Regex(term):
            return _patterned(predicate, value_of(term, element))
    raise AssertionError(predicate)


def _patterned(predicate: Like | Regex, value: object) -> bool | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return False
    if isinstance(predicate, Like) and predicate.any_case:
        value = folded(value)
    return bool(_atom(predicate).holds(value))


@lru_cache(maxsize=4096)
def _atom(predicate: Like | Regex) -> Any:
    from tamis.logic.atoms import Atom, Family, Kind
    from tamis.logic.like_atoms import like_atom

    if isinstance(predicate, Regex):
        return Atom(EACH, Kind.PATTERN, Family.STRING, predicate.pattern)
    like = predicate
    return like_atom(EACH, like.pattern, like.escape, any_case=like.any_case)
