"""The value of a term in one message.

None stands for undefined. A value of a type that Tamis does not know is passed
through as it is: it is defined, and unlike everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tamis.errors import SelectorError
from tamis.language.tree import (
    Arithmetic,
    Attribute,
    Call,
    Compare,
    Literal,
    Negate,
    Term,
    Text,
)
from tamis.schema import INT_MAX, INT_MIN, Schema, Type, type_of

Lookup = Callable[..., object] | Mapping[Any, object]
Lookups = Mapping[str, Lookup]
Find = Callable[[str], object]

FUNCTIONS: dict[str, Type | None] = {
    "abs": None,  # of its argument's type
    "lower": Type.STRING,
    "upper": Type.STRING,
    "length": Type.INT,
}

# A comparison of two terms, neither of them constant, is a derived Boolean attribute.
Derived = Term | Compare | Text


def static_type(term: Derived, schema: Schema | None) -> Type | None:
    """The one type that the term's values have wherever it is defined; None if it depends."""
    match term:
        case Attribute(name):
            return schema[name].type if schema and name in schema else None
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
        case Call("abs", (inner,)):
            return static_type(inner, schema)
        case Call(name):
            return FUNCTIONS.get(name)
        case Compare() | Text():
            return Type.BOOL


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
        case Compare(left, op, right):
            return compare(value(left, find, lookups), op, value(right, find, lookups))
        case Text(left, op, right):
            return text_test(value(left, find, lookups), op, value(right, find, lookups))


def compare(left: object, op: str, right: object) -> bool | None:
    """Three-valued: None where a side is undefined; unlike types compare false."""
    if left is None or right is None:
        return None
    a, b = type_of(left), type_of(right)
    if a is None or b is None or not a.like(b):
        return False
    x: Any = left
    y: Any = right
    match op:
        case "=":
            return bool(x == y)
        case "<>":
            return bool(x != y)
        case "<":
            return bool(x < y)
        case "<=":
            return bool(x <= y)
        case ">":
            return bool(x > y)
    return bool(x >= y)


def text_test(left: object, op: str, right: object) -> bool | None:
    if left is None or right is None:
        return None
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    match op:
        case "CONTAINS":
            return right in left
        case "WITHIN":
            return left in right
        case "STARTS WITH":
            return left.startswith(right)
    return left.endswith(right)


def negate(number: object) -> object:
    kind = type_of(number)
    if kind is Type.INT:
        return _wrap(-number)  # type: ignore[operator]
    return -number if kind is Type.DOUBLE else None  # type: ignore[operator]


def call(name: str, arguments: list[object], lookups: Lookups) -> object:
    if name in FUNCTIONS and len(arguments) == 1:
        return _function(name, arguments[0])
    if name not in lookups:
        raise SelectorError(f"there is no function {name}", hint="register it as a lookup")
    if any(type_of(a) is None for a in arguments):
        return None
    lookup = lookups[name]
    if isinstance(lookup, Mapping):
        found = lookup.get(arguments[0] if len(arguments) == 1 else tuple(arguments))
    else:
        found = lookup(*arguments)
    return None if isinstance(found, float) and math.isnan(found) else found


def _function(name: str, argument: object) -> object:
    if name == "abs":
        negative = type_of(argument) in (Type.INT, Type.DOUBLE) and argument < 0  # type: ignore[operator]
        if negative:
            return negate(argument)
        return argument if type_of(argument) in (Type.INT, Type.DOUBLE) else None
    if not isinstance(argument, str):
        return None
    if name == "length":
        return len(argument)
    return argument.lower() if name == "lower" else argument.upper()


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
            if right == 0:
                return None
            result = left / right
    return None if math.isnan(result) else result


def _wrap(number: int) -> int:
    """Into 64 bits, two's complement, as in Java."""
    return (number - INT_MIN) % 2**64 + INT_MIN if not INT_MIN <= number <= INT_MAX else number
