"""Conditions as importers build them, all for `sql` semantics.

Most other languages know two truth values. `refuted` is what is true wherever a condition is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from tamis.errors import RuleError
from tamis.language import (
    And,
    Attribute,
    Between,
    Call,
    Compare,
    Condition,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Term,
    terms,
)
from tamis.language.addresses import in_network, network
from tamis.language.literals import ConstantError
from tamis.language.tree import Arithmetic, flat
from tamis.schema import INT_MAX, INT_MIN, Scalar, Type

EXACT = 2**53  # whole numbers up to here are doubles too


def all_of(parts: Iterable[Condition]) -> Condition:
    found = [one for one in parts if one != Constant(True)]
    if Constant(False) in found:
        return Constant(False)
    return _joined(And, found, empty=True)


def any_of(parts: Iterable[Condition]) -> Condition:
    found = [one for one in parts if one != Constant(False)]
    if Constant(True) in found:
        return Constant(True)
    return _joined(Or, found, empty=False)


def _joined(join: type[And | Or], parts: Sequence[Condition], empty: bool) -> Condition:
    distinct = tuple(dict.fromkeys(flat(join, parts)))
    if len(distinct) < 2:
        return distinct[0] if distinct else Constant(empty)
    return join(distinct)


def negated(condition: Condition) -> Condition:
    """NOT in three-valued logic."""
    match condition:
        case Constant(value):
            return Constant(not value)
        case Not(part):
            return part
    return Not(condition)


def refuted(condition: Condition) -> Condition:
    """True where `condition` is false or unknown, and false where it is true."""
    match condition:
        case And(parts):
            return any_of(map(refuted, parts))
        case Or(parts):
            return all_of(map(refuted, parts))
        case Not(And() | Or() as inner):
            return refuted(_pushed(inner))
        case Not(inner):
            return any_of([*_unknown(inner), inner])
        case Constant() | IsNull():
            return negated(condition)
    return any_of([*_unknown(condition), negated(condition)])


def _pushed(condition: And | Or) -> Condition:
    parts = map(negated, condition.parts)
    return all_of(parts) if isinstance(condition, Or) else any_of(parts)


def _unknown(predicate: Condition) -> list[Condition]:
    """Where the predicate is neither true nor false. A list with an undefined element is not
    known here: it has no test of its own."""
    if isinstance(predicate, IsNull):
        return []
    return [IsNull(term) for term in dict.fromkeys(map(_askable, terms(predicate))) if term]


def _askable(term: Term) -> Term | None:
    """What to ask IS NULL of; None for what is always defined."""
    match term:
        case Literal():
            return None
        case Call("any" | "all", (inner,)):
            return inner
        case Call(_, (inner,)) if isinstance(inner, Call) and inner.name in ("any", "all"):
            return inner.arguments[0]
        case Attribute() | Call() | Arithmetic() | Negate():
            return term


def defined(term: Term) -> Condition:
    return Not(IsNull(term))


def equal(term: Term, values: Iterable[Scalar]) -> Condition:
    """The term is one of the values."""
    found = tuple(dict.fromkeys(map(Literal.of, values)))
    if len(found) == 1:
        return Compare(term, "=", found[0])
    return In(term, found)


ONE = object()  # in a pattern: one character, whichever


def like(term: Term, *parts: object, any_case: bool = False) -> Condition:
    """The text is made of the parts: texts, None for any run of characters, ONE for one."""
    plain = not any(set(part) & set("%_") for part in parts if isinstance(part, str))
    signs = {None: "%", ONE: "_"}
    texts = [
        (part if plain else _escaped(part)) if isinstance(part, str) else signs[part]
        for part in parts
    ]
    return Like(term, "".join(texts), None if plain else "!", any_case=any_case)


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def within(
    low: int | float, above: bool, high: int | float, below: bool, at: str
) -> Callable[[Term], Condition]:
    """Between two numbers, which `above` and `below` leave out. Of a list, one element is: then
    it is a BETWEEN, whose bounds are the next doubles."""
    first = math.nextafter(low, math.inf) if above else low
    last = math.nextafter(high, -math.inf) if below else high

    def holds(term: Term) -> Condition:
        if isinstance(term, Attribute):
            left = Compare(term, ">" if above else ">=", Literal.of(low))
            return And((left, Compare(term, "<" if below else "<=", Literal.of(high))))
        if max(abs(low), abs(high)) > EXACT:
            what = "a bound of one element of a list is beyond 2^53"
            raise RuleError(what, construct="number", at=at)
        return Between(term, Literal.of(first), Literal.of(last))

    return holds


def whole_number(text: str) -> int | None:
    """The whole number that the text is, as programs write it."""
    if len(text) > 20 or not text.isascii() or not text.removeprefix("-").isdecimal():
        return None
    value = int(text)
    return value if str(value) == text and INT_MIN <= value <= INT_MAX else None


def forms_of(value: Scalar, kind: Type | None) -> list[Scalar]:
    """What the value may be in a message. Without a type, whole numbers may be texts, and texts
    with whole numbers numbers; else it is of that type, or nothing."""
    if isinstance(value, bool):
        forms: list[Scalar] = [value, str(value).lower()]
    elif isinstance(value, str):
        digits = whole_number(value)
        truth = {"true": True, "false": False}.get(value)
        forms = [value, *(one for one in (digits, truth) if one is not None)]
    elif isinstance(value, int):
        forms = [value, str(value)]
    else:
        forms = [value]
    return [one for one in forms if kind is None or Literal.of(one).type.like(kind)]


def in_cidr(text: str, at: str) -> Callable[[Term], Condition]:
    """The term is an address of the network."""
    try:
        found = network(string(text, at))
    except ConstantError as error:
        raise RuleError(f"{text[:60]!r}: {error.what}", construct="cidr", at=at) from None

    def holds(term: Term) -> Condition:
        try:
            return in_network(term, found)
        except ConstantError as error:
            raise RuleError(error.what, construct="cidr of a list", at=at) from None

    return holds


def number(value: int | float, at: str, largest: float = float(INT_MAX)) -> int | float:
    """The number, if a message can have it."""
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        raise RuleError("the number does not fit into 64 bits", construct="number", at=at)
    if value != value or abs(value) > largest:
        raise RuleError(f"the number is beyond {largest:g}", construct="number", at=at)
    return value


def string(value: str, at: str) -> str:
    """The text, if a selector can hold it."""
    if "\0" in value:
        raise RuleError("a selector holds no NUL character", construct="NUL", at=at)
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise RuleError("half of a surrogate pair is no text", construct="surrogate", at=at)
    return value
