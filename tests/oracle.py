"""The slow, obvious meaning of a condition: what every faster evaluator is compared with.

One page, read off the definition (docs/semantics.md), with no cleverness. Undefined is None,
and so is the truth value unknown. Nothing here is shared with the code under test but the
condition tree and the schema.
"""

from __future__ import annotations

import datetime
import ipaddress
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import add, eq, ge, gt, le, lt, mul, ne, sub, truediv

import re2

from tamis.errors import MessageError
from tamis.language import tree
from tamis.schema import INT_MAX, INT_MIN, Schema, Shape

Message = Mapping[str, object]
Lookups = Mapping[str, Mapping[object, object] | Callable[..., object]]
Truth = bool | None
NO_LOOKUPS: Lookups = {}
COMPARISONS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
ARITHMETIC = {"+": add, "-": sub, "*": mul, "/": truediv, "DIV": truediv, "%": math.fmod}
CALENDAR: dict[str, Callable[[datetime.datetime], int]] = {
    "year": lambda moment: moment.year,
    "month": lambda moment: moment.month,
    "day": lambda moment: moment.day,
    "hour": lambda moment: moment.hour,
    "minute": lambda moment: moment.minute,
    "weekday": lambda moment: moment.weekday(),  # 0 is Monday
}
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
        message = {name: declared(schema, name, attribute(name, message)) for name in schema}
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
    terms = list(tree.terms(condition))
    if (call := next(filter(None, map(tree.quantifier, terms)), None)) is not None:
        elements = value(call.arguments[0], message, lookups)
        if elements is None:
            elements = [None]  # what is not there is asked itself, as in any predicate
        if not isinstance(elements, list):
            return False
        rows = [[value(t, message, lookups, e) for t in terms] for e in elements]
        join = disjunction if call.name == "any" else conjunction
        return join([predicate(condition, row, bottom) for row in rows])
    return predicate(condition, [value(t, message, lookups) for t in terms], bottom)


class Declared(list[object]):
    """A list that the schema calls one: only of such does CONTAINS know what it is."""


def declared(schema: Schema, name: str, given: object) -> object:
    if schema[name].shape is Shape.MAP and isinstance(given, Mapping):
        given = {key: clean(name, one) for key, one in given.items()}
    found = schema.convert(name, given)
    return Declared(found) if isinstance(found, list) else found


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
    if isinstance(values[0], Declared):
        return disjunction([compare(e, "=", values[1], bottom) for e in values[0]])
    if any(v is None for v in values):
        return False if bottom else None
    if not all(isinstance(v, str) for v in values):
        return False
    match condition:
        case tree.Text(_, op, _):
            return TEXT[op](*values)
        case tree.Like(_, pattern, escape, any_case=any_case):
            return like(values[0], pattern, escape, fold if any_case else str)
        case tree.Regex(_, pattern):
            return re2.search(pattern, values[0]) is not None
    raise AssertionError(condition)


def compare(left: object, op: str, right: object, bottom: bool) -> Truth:
    if left is None or right is None:
        return op == "<>" if bottom else None
    if kind(left) != kind(right) or kind(left) == "other":
        return False
    return COMPARISONS[op](left, right)


def fold(character: str) -> str:
    """A character without its case; what would become several characters stays as it is."""
    return next(f for f in (character.casefold(), character.lower(), character) if len(f) == 1)


def like(subject: str, pattern: str, escape: str | None, fold: Callable[[str], str] = str) -> bool:
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
        places = {p + 1 for p in places if p < len(subject) and fold(subject[p]) == fold(sign)}
    return len(subject) in places


def value(
    term: tree.Term, message: Message, lookups: Lookups = NO_LOOKUPS, element: object = None
) -> object:
    """The value of a term, None where it is undefined; ANY and ALL are worth `element`."""
    match term:
        case tree.Literal(_, constant):
            return constant
        case tree.Attribute(name):
            return attribute(name, message)
        case tree.Negate(part):
            return arithmetic("*", -1, value(part, message, lookups))
        case tree.Call("any" | "all"):
            return element
        case tree.Call("[]", (inner, tree.Literal(_, key))):
            held = value(inner, message, lookups)
            return clean(key, held.get(key)) if isinstance(held, Mapping) else None
        case tree.Call("size", (inner,)):
            held = value(inner, message, lookups)
            return len(held) if isinstance(held, list) else None
        case tree.Arithmetic(op, left, right):
            return arithmetic(op, value(left, message, lookups), value(right, message, lookups))
        case tree.Call(name, arguments):
            given = [value(a, message, lookups, element) for a in arguments]
            return call(name, given, lookups)
    raise AssertionError(term)


def attribute(name: str, message: Message) -> object:
    """The exact key first; else, for a dotted name, the nested messages."""
    if name in message:
        return clean(name, message[name])
    return clean(name, inside(message, name.split(".")))


def inside(found: object, path: list[str]) -> object:
    """What stands in nested messages along the path; of a list of messages, a list of that."""
    if not path:
        return found
    if isinstance(found, list | tuple):
        return [inside(one, path) for one in found]
    return inside(found.get(path[0]), path[1:]) if isinstance(found, Mapping) else None


def clean(name: str, given: object) -> object:
    """A value as one of the five types, None if undefined, or itself if it is of no such type."""
    if isinstance(given, float) and math.isnan(given):
        return None
    if type(given).__name__ == "NAType" or (isinstance(given, Decimal) and given.is_nan()):
        return None
    if isinstance(given, Decimal):
        if Decimal(str(float(given))) != given:
            raise MessageError(f"{name} = {given} has more digits than a double")
        return float(given)
    if isinstance(given, int) and not INT_MIN <= given <= INT_MAX:
        raise MessageError(f"{name} = {given} does not fit into 64 bits")
    if isinstance(given, str) and any("\ud800" <= c <= "\udfff" for c in given):
        raise MessageError(f"{name} holds half of a surrogate pair")
    if isinstance(given, Declared):
        return given
    if isinstance(given, list | tuple):
        return [one if isinstance(one, list | tuple) else clean(name, one) for one in given]
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
    if op in ("/", "DIV", "%") and right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int) and op == "%":
        return left - right * truncated(left, right)
    if isinstance(left, int) and isinstance(right, int) and op != "/":
        exact = truncated(left, right) if op == "DIV" else ARITHMETIC[op](left, right)
        return (exact - INT_MIN) % 2**64 + INT_MIN
    if op == "%" and math.isinf(left):
        return None
    return clean(op, ARITHMETIC[op](float(left), float(right)))


def truncated(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def call(name: str, arguments: list[object], lookups: Lookups) -> object:
    if name == "coalesce":
        return next((a for a in arguments if a is not None), None)
    if any(a is None for a in arguments):
        return None
    first = arguments[0] if arguments else None
    if name in CALENDAR:
        return CALENDAR[name](first) if kind(first) == "timestamp" else None
    if name == "trim":
        return first.strip(" ") if isinstance(first, str) else None
    if name == "substr":
        return substr(first, *arguments[1:])
    if name == "abs":
        return arithmetic("*", first, -1 if kind(first) == "number" and first < 0 else 1)
    if name in ("ipv4", "ipv6_high", "ipv6_low"):
        return address(name, first)
    if name in ("lower", "upper", "casefold", "length"):
        if not isinstance(first, str):
            return None
        if name == "casefold":
            return "".join(map(fold, first))
        return {"lower": first.lower(), "upper": first.upper(), "length": len(first)}[name]
    lookup = lookups[name]
    if not isinstance(lookup, Mapping):
        return clean(name, lookup(*arguments))
    try:
        return clean(name, lookup.get(first if len(arguments) == 1 else tuple(arguments)))
    except TypeError:  # a list can be no key, so it is a missing one
        return None


def address(name: str, text: object) -> int | None:
    """The number of an IPv4 address (-1 of IPv6), or half of one of IPv6, less 2^63."""
    try:
        found = ipaddress.ip_address(text) if isinstance(text, str) and "%" not in text else None
    except ValueError:
        return None
    if found is None or found.version == 4:
        return int(found) if found is not None and name == "ipv4" else None
    halves = {"ipv4": 2**63 - 1, "ipv6_high": int(found) // 2**64, "ipv6_low": int(found) % 2**64}
    return halves[name] - 2**63


def substr(text: object, start: object, length: object = INT_MAX) -> object:
    """The characters from number `start` on (1 is the first, -1 the last), at most `length`."""
    numbers = (start, length)
    if not isinstance(text, str) or any(
        kind(n) != "number" or isinstance(n, float) for n in numbers
    ):
        return None
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return "".join(c for i, c in enumerate(text) if first <= i < first + length)
