"""The condition tree: what a selector says, as immutable values.

Where a node stood in the text (`at`, a 0-based index) never changes what it
means, so it takes no part in equality. `And` and `Or` are flat: no And directly
inside an And, at least two parts. Node kinds are few; everything else that the
grammar offers is written with these (`NOT IN` is Not(In), a bare Boolean
attribute is `attribute = TRUE`).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal as OneOf

from tamis.schema import Scalar, Type

CompareOp = OneOf["=", "<>", "<", "<=", ">", ">="]
ArithmeticOp = OneOf["+", "-", "*", "/", "DIV", "%"]
TextOp = OneOf["CONTAINS", "WITHIN", "STARTS WITH", "ENDS WITH"]


def _at() -> int:
    return field(default=0, compare=False, repr=False)


# --- terms: what has a value -------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attribute:
    """A value of the message, by name; `a.b` is the field b of the nested message a."""

    name: str
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Its type takes part in equality: 1, 1.0 and TRUE are three constants.

    A timestamp is a datetime in UTC. Doubles are finite.
    """

    type: Type
    value: Scalar
    at: int = _at()

    @classmethod
    def of(cls, value: Scalar, at: int = 0) -> Literal:
        """The literal of a Python value (not for None or NaN)."""
        if isinstance(value, bool):
            return cls(Type.BOOL, value, at)
        if isinstance(value, int):
            return cls(Type.INT, value, at)
        if isinstance(value, float):
            return cls(Type.DOUBLE, value, at)
        if isinstance(value, datetime.datetime):
            return cls(Type.TIMESTAMP, value, at)
        return cls(Type.STRING, value, at)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`+ - * / %` of numbers. `/` always gives a double, `DIV` truncates (JMS's `/` on integers).
    `%` is what `DIV` leaves, with the sign of its left side.

    Two integers give an integer (wrapping at 64 bits, as in Java) except with `/`; dividing by
    zero, and any operand that is no number, leaves the term undefined.
    """

    op: ArithmeticOp
    left: Term
    right: Term
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Negate:
    """`-term`. A negative literal is a Literal, never Negate(Literal)."""

    term: Term
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Call:
    """A function of terms (language/functions.py, in lower case) or a registered lookup."""

    name: str
    arguments: tuple[Term, ...]
    at: int = _at()


Term = Attribute | Literal | Arithmetic | Negate | Call

# --- conditions: what is true, false or unknown ------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE or FALSE as a whole condition. The empty selector is Constant(True)."""

    value: bool
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`. Unlike types compare false, also with `<>`."""

    left: Term
    op: CompareOp
    right: Term
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Between:
    """`term >= low AND term <= high`."""

    term: Term
    low: Term
    high: Term
    at: int = _at()


@dataclass(frozen=True, slots=True)
class In:
    """`term = v1 OR ... OR term = vn`; the literals keep their order, and there is at least one."""

    term: Term
    values: tuple[Literal, ...]
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Text:
    """`term CONTAINS other` and its kin; WITHIN: the term is a substring of `other`."""

    term: Term
    op: TextOp
    other: Term
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Like:
    """`term LIKE pattern [ESCAPE escape]`: `%` any run (newlines too), `_` one character.

    `any_case`: ILIKE, which compares characters by `language.patterns.folded`.
    """

    term: Term
    pattern: str
    escape: str | None = None
    at: int = _at()
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class Regex:
    """`term MATCHES pattern`: RE2, true where the text contains a match."""

    term: Term
    pattern: str
    at: int = _at()


@dataclass(frozen=True, slots=True)
class IsNull:
    """True where the term is undefined, false elsewhere; never unknown."""

    term: Term
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Not:
    part: Condition
    at: int = _at()


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Condition, ...]
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Condition, ...]
    at: int = _at()


Predicate = Compare | Between | In | Text | Like | Regex | IsNull
Condition = Constant | Predicate | Not | And | Or


def flat(join: type[And | Or], parts: Iterable[Condition]) -> tuple[Condition, ...]:
    """The parts of a `join`, those of a join among them in its place."""
    found: list[Condition] = []
    for part in parts:
        if isinstance(part, And | Or) and type(part) is join:
            found.extend(part.parts)
        else:
            found.append(part)
    return tuple(found)


def terms(condition: Condition) -> Iterator[Term]:
    """The terms that stand directly in the predicates of `condition`, left to right."""
    match condition:
        case Not(part):
            yield from terms(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms(part)
        case Compare(left, _, right):
            yield from (left, right)
        case Between(term, low, high):
            yield from (term, low, high)
        case Text(term, _, other):
            yield from (term, other)
        case In(term) | Like(term) | Regex(term) | IsNull(term):
            yield term


def quantifier(term: Term) -> Call | None:
    """The ANY(...) or ALL(...) that the term is, perhaps inside functions of one argument."""
    while isinstance(term, Call) and len(term.arguments) == 1:
        if term.name in ("any", "all"):
            return term
        (term,) = term.arguments
    return None


def quantified(predicate: Predicate) -> Call | None:
    """The ANY(...) or ALL(...) that the predicate asks; the other terms have none."""
    return next(filter(None, map(quantifier, terms(predicate))), None)


def attributes(node: Condition | Term) -> tuple[str, ...]:
    """The names of all attributes that occur in the text of `node`, each once, left to right.

    This is var(Q) of ICSE 2001: syntactic, taken before any simplification.
    """
    found: tuple[Term, ...]
    match node:
        case Attribute(name):
            return (name,)
        case Literal() | Constant():
            return ()
        case Arithmetic(_, left, right):
            found = (left, right)
        case Negate(term):
            found = (term,)
        case Call(_, arguments):
            found = arguments
        case _:
            found = tuple(terms(node))
    return tuple(dict.fromkeys(name for part in found for name in attributes(part)))
