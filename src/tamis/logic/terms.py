"""The value of a term in one message.

None stands for undefined. A value of a type that Tamis does not know is passed
through as it is: it is defined, and unlike everything.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from typing import Any

from tamis.errors import SelectorError
from tamis.language.addresses import number_of
from tamis.language.functions import ADDRESSES, CALENDAR, ITEM, SIGNATURES
from tamis.language.patterns import folded
from tamis.language.tree import (
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    In,
    Like,
    Literal,
    Negate,
    Predicate,
    Regex,
    Term,
    Text,
    quantified,
    quantifier,
    terms,
)
from tamis.logic.comparing import compare, text_test
from tamis.logic.lists import EACH, EXTREMES, FACTS, Several, fact, several, taken_apart, truth
from tamis.messages.message_values import settle
from tamis.schema import INT_MAX, INT_MIN, Schema, Shape, Type, type_of

Lookup = Callable[..., object] | Mapping[Any, object]
Lookups = Mapping[str, Lookup]
Find = Callable[[str], object]

FUNCTIONS: dict[str, Type | None] = {name: s.result for name, s in SIGNATURES.items()}
FUNCTIONS |= {"coalesce": None, "any": None, "all": None, "size": Type.INT, ITEM: None, **FACTS}

CHANGES_CASE: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "casefold": folded,
}
CHANGES_TEXT = CHANGES_CASE | {"trim": lambda text: text.strip(" ")}

# A comparison of two terms, neither of them constant, is a derived Boolean attribute, and so is
# a predicate of all elements of a list that no index knows.
Derived = Term | Compare | Text | Between | In | Like | Regex


def static_type(term: Derived, schema: Schema | None) -> Type | None:
    """The one type that the term's values have wherever it is defined; None if it depends."""
    match term:
        case Attribute(name):
            return _declared(name, schema, Shape.SCALAR)
        case Literal(kind):
            return kind
        case Negate(inner):
            own = static_type(inner, schema)
            return own if own and own.numeric else None
        case Arithmetic("/"):
            return Type.DOUBLE
        case Arithmetic(_, left, right):
            kinds = {static_type(left, schema), static_type(right, schema)}
            if Type.DOUBLE in kinds:
                return Type.DOUBLE
            return Type.INT if kinds == {Type.INT} else None
        case Call("abs" | "coalesce", arguments):
            found = {static_type(argument, schema) for argument in arguments}
            return found.pop() if len(found) == 1 else None
        case Call("any" | "all", (Attribute(name),)):
            return _declared(name, schema, Shape.LIST)
        case Call("[]", (Attribute(name), _)):
            return _declared(name, schema, Shape.MAP)
        case Call(name, (Attribute(inner),)) if name in EXTREMES:
            return _declared(inner, schema, Shape.LIST) or FUNCTIONS[name]
        case Call(name):
            return FUNCTIONS.get(name)
    return Type.BOOL


def _declared(name: str, schema: Schema | None, shape: Shape) -> Type | None:
    own = schema[name] if schema and name in schema else None
    return own.type if own is not None and own.shape is shape else None


def called(term: Derived) -> set[str]:
    """The names of all functions that the term calls."""
    match term:
        case Attribute() | Literal():
            return set()
        case Negate(inner):
            return called(inner)
        case Call(name, arguments):
            return {name}.union(*map(called, arguments))
        case Arithmetic(_, left, right):
            return called(left) | called(right)
    return set().union(*map(called, terms(term)))


def needed(term: Derived) -> frozenset[str]:
    """The attributes without which the term is undefined."""
    match term:
        case Attribute(name):
            return frozenset((name,))
        case Literal():
            return frozenset()
        case Negate(inner):
            return needed(inner)
        case Call("coalesce", arguments):
            return frozenset.intersection(*map(needed, arguments))
        case Call(_, arguments):
            return frozenset().union(*map(needed, arguments))
        case Arithmetic(_, left, right):
            return needed(left) | needed(right)
    call = quantified(term)  # without elements, nobody asks for the other terms
    return frozenset().union(*map(needed, terms(term))) if call is None else needed(call)


def value(term: Derived, find: Find, lookups: Lookups) -> object:
    """What `term` is worth where `find(name)` gives the attributes (None: undefined)."""
    match term:
        case Attribute(name):
            return find(name)
        case Literal(_, constant):
            return constant
        case Arithmetic(op, left, right):
            return _arithmetic(op, value(left, find, lookups), value(right, find, lookups))
        case Negate(inner):
            return negate(value(inner, find, lookups))
        case Call(name, arguments):
            return call(name, [value(a, find, lookups) for a in arguments], lookups)
        case Compare(left, op, right) if not (quantifier(left) or quantifier(right)):
            return compare(value(left, find, lookups), op, value(right, find, lookups))
        case Text(left, op, right) if not quantifier(left):
            return text_test(value(left, find, lookups), op, value(right, find, lookups))
    return _truth(term, find, lookups)


def _truth(predicate: Predicate, find: Find, lookups: Lookups) -> bool | None:
    """A predicate with ANY or ALL."""

    def value_of(term: Term, element: object) -> object:
        return value(term, lambda name: element if name == EACH.name else find(name), lookups)

    call, _ = taken_apart(predicate)
    return truth(predicate, value(call.arguments[0], find, lookups), value_of)


def negate(number: object) -> object:
    kind = type_of(number)
    if kind is Type.INT:
        return _wrap(-number)  # type: ignore[operator]
    return -number if kind is Type.DOUBLE else None  # type: ignore[operator]


def call(name: str, arguments: list[object], lookups: Lookups) -> object:
    if len(arguments) == 1 and isinstance(arguments[0], Several):
        found_each = [call(name, [one], lookups) for one in arguments[0]]
        return several(found_each)
    if name in FUNCTIONS:
        return _function(name, arguments)
    if name not in lookups:
        raise SelectorError(f"there is no function {name}", hint="register it as a lookup")
    if any(type_of(a) is None for a in arguments):
        return None
    lookup = lookups[name]
    if isinstance(lookup, Mapping):
        found = lookup.get(arguments[0] if len(arguments) == 1 else tuple(arguments))
    else:
        found = lookup(*arguments)
    return settle(name, found)


def _function(name: str, arguments: list[object]) -> object:
    if name == "coalesce":
        return next((a for a in arguments if a is not None), None)
    argument = arguments[0]
    if name in ("any", "all"):
        return several(argument)
    if name == "size":
        return len(argument) if isinstance(argument, list) else None
    if name == ITEM:
        return _item(*arguments)
    if name in FACTS:
        return fact(name, argument)
    if name in CALENDAR:
        return _of_calendar(name, argument) if isinstance(argument, datetime.datetime) else None
    if name == "substr":
        return _substr(*arguments)
    if name == "abs":
        negative = type_of(argument) in (Type.INT, Type.DOUBLE) and argument < 0  # type: ignore[operator]
        if negative:
            return negate(argument)
        return argument if type_of(argument) in (Type.INT, Type.DOUBLE) else None
    if not isinstance(argument, str):
        return None
    if name in ADDRESSES:
        return number_of(name, argument)
    return len(argument) if name == "length" else CHANGES_TEXT[name](argument)


def _item(held: object, key: object) -> object:
    return settle(str(key), held.get(key)) if isinstance(held, Mapping) else None


def _of_calendar(name: str, moment: datetime.datetime) -> int:
    return moment.weekday() if name == "weekday" else int(getattr(moment, name))


def _substr(text: object, start: object, length: object = INT_MAX) -> str | None:
    """As SQL: the first character is number 1, the last -1; 0 is taken for 1."""
    if (
        not isinstance(text, str)
        or type_of(start) is not Type.INT
        or type_of(length) is not Type.INT
    ):
        return None
    begin: int = start  # type: ignore[assignment]
    begin = begin - 1 if begin > 0 else begin and len(text) + begin
    return text[max(begin, 0) : max(begin + length, 0)]  # type: ignore[operator]


def _arithmetic(op: str, left: Any, right: Any) -> object:
    a, b = type_of(left), type_of(right)
    if a is None or b is None or not (a.numeric and b.numeric):
        return None
    if a is b is Type.INT and op != "/":
        return _integers(op, left, right)
    return _doubles(op, float(left), float(right))


def _integers(op: str, left: int, right: int) -> int | None:
    match op:
        case "+":
            return _wrap(left + right)
        case "-":
            return _wrap(left - right)
        case "*":
            return _wrap(left * right)
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    if op == "%":
        rest = abs(left) - quotient * abs(right)
        return rest if left >= 0 else -rest
    return _wrap(quotient if (left < 0) == (right < 0) else -quotient)


def _doubles(op: str, left: float, right: float) -> float | None:
    match op:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case _:
            if right == 0 or (op == "%" and math.isinf(left)):
                return None
            result = math.fmod(left, right) if op == "%" else left / right
    return None if math.isnan(result) else result


def _wrap(number: int) -> int:
    """Into 64 bits, two's complement, as in Java."""
    return (number - INT_MIN) % 2**64 + INT_MIN if not INT_MIN <= number <= INT_MAX else number
