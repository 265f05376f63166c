"""The slow, obvious meaning of a condition: what every faster evaluator is compared with.

One page, read off the definition (docs/semantics.md), with no cleverness. Undefined is None,
and so is the truth value unknown. Nothing here is shared with the code under test but the
condition tree and the schema.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from operator import add, eq, ge, gt, le, lt, mul, ne, sub, truediv

import re2

from tamis.errors import MessageError
from tamis.language import tree
from tamis.schema import INT_MAX, INT_MIN, Schema

Message = Mapping[str, object]
Lookups = Mapping[str, Mapping[object, object] | Callable[..., object]]
Truth = bool | None
NO_LOOKUPS: Lookups = {}
COMPARISONS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
ARITHMETIC = {"+": add, "-": sub, "*": mul, "/": truediv, "DIV": truediv}
TEXT = {
    "CONTAINS": str.__contains__,
    "WITHIN": lambda term, other: term in other,
    "STARTS WITH": str.startswith,
    "ENDS WITH": str.endswith,
}


def matches(
    condition: tree.Condition,
    message: Message,
    semantics: str = "sql",
    schema: Schema | None = None,
    lookups: Lookups = NO_LOOKUPS,
) -> bool:
    """Whether `message` is handed to the subscriber who asked for `condition`."""
    if schema is not None:
        message = {name: schema.convert(name, attribute(name, message)) for name in schema}
    if semantics == "total":
        assert schema is not None, "total semantics needs a schema"
        if missing := [name for name in schema if message[name] is None]:
            raise MessageError(f"the message does not define {', '.join(missing)}")
    if semantics == "default":
        defaults = {name: a.default for name, a in (schema or {}).items() if message[name] is None}
        return evaluate(condition, {**message, **defaults}, lookups, bottom=True) is True
    result = evaluate(condition, message, lookups)
    if semantics == "strict":
        needed = tree.attributes(condition)
        return result is True and all(attribute(name, message) is not None for name in needed)
    return result is True


def evaluate(
    condition: tree.Condition,
    message: Message,
    lookups: Lookups = NO_LOOKUPS,
    *,
    bottom: bool = False,
) -> Truth:
    """True, False or None (unknown); with `bottom`, undefined terms make it two-valued."""
    match condition:
        case tree.Constant(truth):
            return truth
        case tree.Not(part):
            truth = evaluate(part, message, lookups, bottom=bottom)
            return None if truth is None else not truth
        case tree.And(parts):
            return conjunction([evaluate(p, message, lookups, bottom=bottom) for p in parts])
        case tree.Or(parts):
            return disjunction([evaluate(p, message, lookups, bottom=bottom) for p in parts])
        case tree.IsNull(term):
            return value(term, message, lookups) is None
    return predicate(condition, [value(t, message, lookups) for t in tree.terms(condition)], bottom)


def conjunction(truths: list[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def disjunction(truths: list[Truth]) -> Truth:
    return True if True in truths else None if None in truths else False


def predicate(condition: tree.Condition, values: list[object], bottom: bool) -> Truth:
    """The truth of one predicate, given the values of its terms."""
    match condition:
        case tree.Compare(_, op, _):
            return compare(values[0], op, values[1], bottom)
        case tree.Between():
            term, low, high = values
            return conjunction(
                [compare(term, ">=", low, bottom), compare(term, "<=", high, bottom)]
            )
        case tree.In(_, literals):
            return disjunction([compare(values[0], "=", v.value, bottom) for v in literals])
    if any(v is None for v in values):
        return False if bottom else None
    if not all(isinstance(v, str) for v in values):
        return False
    match condition:
        case tree.Text(_, op, _):
            return TEXT[op](*values)
        case tree.Like(_, pattern, escape):
            return like(values[0], pattern, escape)
        case tree.Regex(_, pattern):
            return re2.search(pattern, values[0]) is not None
    raise AssertionError(condition)


def compare(left: object, op: str, right: object, bottom: bool) -> Truth:
    if left is None or right is None:
        return op == "<>" if bottom else None
    if kind(left) != kind(right) or kind(left) == "other":
        return False
    return COMPARISONS[op](left, right)


def like(subject: str, pattern: str, escape: str | None) -> bool:
    """Keep the set of places in `subject` that the pattern read so far can have reached."""
    places, signs = {0}, iter(pattern)
    for sign in signs:
        if sign == escape:
            sign = next(signs)
        elif sign == "%":
            places = set(range(min(places, default=len(subject) + 1), len(subject) + 1))
            continue
        elif sign == "_":
            places = {p + 1 for p in places if p < len(subject)}
            continue
        places = {p + 1 for p in places if subject[p : p + 1] == sign}
    return len(subject) in places


def value(term: tree.Term, message: Message, lookups: Lookups = NO_LOOKUPS) -> object:
    """The value of a term, None where it is undefined."""
    match term:
        case tree.Literal(_, constant):
            return constant
        case tree.Attribute(name):
            return attribute(name, message)
        case tree.Negate(part):
            return arithmetic("*", -1, value(part, message, lookups))
        case tree.Arithmetic(op, left, right):
            return arithmetic(op, value(left, message, lookups), value(right, message, lookups))
        case tree.Call(name, arguments):
            return call(name, [value(a, message, lookups) for a in arguments], lookups)
    raise AssertionError(term)


def attribute(name: str, message: Message) -> object:
    """The exact key first; else, for a dotted name, the nested messages."""
    if name in message:
        return clean(name, message[name])
    found: object = message
    for key in name.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return clean(name, found)


def clean(name: str, given: object) -> object:
    """A value as one of the five types, None if undefined, or itself if it is of no such type."""
    if isinstance(given, float) and math.isnan(given):
        return None
    if isinstance(given, int) and not INT_MIN <= given <= INT_MAX:
        raise MessageError(f"{name} = {given} does not fit into 64 bits")
    if isinstance(given, str) and any("\ud800" <= c <= "\udfff" for c in given):
        raise MessageError(f"{name} holds half of a surrogate pair")
    if isinstance(given, datetime.date) and not isinstance(given, datetime.datetime):
        given = datetime.datetime(given.year, given.month, given.day)
    if isinstance(given, datetime.datetime):
        return given.replace(tzinfo=given.tzinfo or datetime.UTC).astimezone(datetime.UTC)
    return given


def kind(defined: object) -> str:
    if isinstance(defined, bool):
        return "bool"
    if isinstance(defined, int | float):
        return "number"
    if isinstance(defined, str):
        return "string"
    return "timestamp" if isinstance(defined, datetime.datetime) else "other"


def arithmetic(op: str, left: object, right: object) -> object:
    if kind(left) != "number" or kind(right) != "number":
        return None
    if op in ("/", "DIV") and right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int) and op != "/":
        exact = truncated(left, right) if op == "DIV" else ARITHMETIC[op](left, right)
        return (exact - INT_MIN) % 2**64 + INT_MIN
    return clean(op, ARITHMETIC[op](float(left), float(right)))


def truncated(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def call(name: str, arguments: list[object], lookups: Lookups) -> object:
    if any(a is None for a in arguments):
        return None
    first = arguments[0] if arguments else None
    if name == "abs":
        return arithmetic("*", first, -1 if kind(first) == "number" and first < 0 else 1)
    if name in ("lower", "upper", "length"):
        if not isinstance(first, str):
            return None
        return {"lower": first.lower(), "upper": first.upper(), "length": len(first)}[name]
    lookup = lookups[name]
    if not isinstance(lookup, Mapping):
        return clean(name, lookup(*arguments))
    try:
        return clean(name, lookup.get(first if len(arguments) == 1 else tuple(arguments)))
    except TypeError:  # a list can be no key, so it is a missing one
        return None
