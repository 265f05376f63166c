"""Canonical atoms and formulas over them: what every engine evaluates.

An atom is a yes-or-no question about one term; where the term is undefined, or
of another type, the answer is no (only DEFINED asks for that). Equal meanings
are equal atoms: inequalities are BELOW with a canonical constant, equality and
IN are MEMBER. A formula combines atoms by two-valued logic.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tamis.language.patterns import compile_regex
from tamis.logic.lists import Several
from tamis.logic.numbers import simplest
from tamis.logic.terms import Derived
from tamis.logic.wildcards import wildcards
from tamis.schema import Type, type_of

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class Family(enum.IntEnum):
    """Types that compare with each other."""

    NUMBER = 0
    STRING = 1
    BOOL = 2
    TIMESTAMP = 3
    ANY = 4  # of DEFINED only

    __hash__ = int.__hash__  # that of enum is slow, and atoms are hashed a lot


_FAMILY = {
    Type.INT: Family.NUMBER,
    Type.DOUBLE: Family.NUMBER,
    Type.STRING: Family.STRING,
    Type.BOOL: Family.BOOL,
    Type.TIMESTAMP: Family.TIMESTAMP,
}


def family_of(kind: Type) -> Family:
    return _FAMILY[kind]


class Kind(enum.IntEnum):
    """What an atom asks. The order is the order of atoms of one term in a diagram."""

    DEFINED = 0  # the term has a value
    TYPED = 1  # ... and it is of the family
    BELOW = 2  # value < constant
    MEMBER = 3  # value in constants (a sorted tuple)
    PREFIX = 4
    SUFFIX = 5
    CONTAINS = 6
    WITHIN = 7  # the value is a substring of the constant
    PATTERN = 8  # the value contains a match of the constant, an RE2 pattern
    LIKE = 9  # the value as a whole is like the constant (see logic.wildcards)

    __hash__ = int.__hash__


Constant = None | int | float | str | tuple[bool | int | float | str, ...]


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Any:
    """The RE2 program of a pattern; linear time, bounded memory."""
    return compile_regex(pattern)


@dataclass(frozen=True, slots=True)
class Atom:
    """One question. Timestamps are microseconds since 1970, numbers are in simplest form."""

    term: Derived
    kind: Kind
    family: Family
    constant: Constant = None

    def holds(self, value: object) -> bool:
        """The answer for the term's value (None: undefined)."""
        if self.kind is Kind.DEFINED:
            return value is not None
        if isinstance(value, Several):
            return any(map(self.holds, value))
        kind = type_of(value)
        if kind is None or _FAMILY[kind] is not self.family:
            return False
        return bool(HOLDS[self.kind](plain(value), self.constant))


def plain(value: Any) -> Any:
    """A value as it stands in an atom's constant."""
    return (value - _EPOCH) // _MICROSECOND if isinstance(value, datetime.datetime) else value


def microseconds(value: datetime.datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def _below(value: Any, constant: Any) -> bool:
    return bool(value < constant)


HOLDS: dict[Kind, Any] = {
    Kind.TYPED: lambda value, constant: True,
    Kind.BELOW: _below,
    Kind.MEMBER: lambda value, constant: value in constant,
    Kind.PREFIX: str.startswith,
    Kind.SUFFIX: str.endswith,
    Kind.CONTAINS: lambda value, constant: constant in value,
    Kind.WITHIN: lambda value, constant: value in constant,
    Kind.PATTERN: lambda value, constant: compiled(constant).search(value) is not None,
    Kind.LIKE: lambda value, constant: wildcards(constant).hold(value),
}


def member(term: Derived, family: Family, values: Iterable[bool | int | float | str]) -> Atom:
    chosen = {simplest(v) if family is Family.NUMBER else v for v in values}  # type: ignore[arg-type]
    return Atom(term, Kind.MEMBER, family, tuple(sorted(chosen)))


# --- formulas ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """An atom, or its two-valued negation."""

    atom: Atom
    positive: bool = True


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Formula, ...]


Formula = Literal | All | Some
TRUE = All(())
FALSE = Some(())


def all_of(parts: Iterable[Formula]) -> Formula:
    flat = _distinct(
        [p for part in parts for p in (part.parts if isinstance(part, All) else (part,))]
    )
    if FALSE in flat:
        return FALSE
    return flat[0] if len(flat) == 1 else All(tuple(flat))


def any_of(parts: Iterable[Formula]) -> Formula:
    flat = _distinct(
        [p for part in parts for p in (part.parts if isinstance(part, Some) else (part,))]
    )
    if TRUE in flat:
        return TRUE
    return flat[0] if len(flat) == 1 else Some(tuple(flat))


def _distinct(parts: list[Formula]) -> list[Formula]:
    """Each part once. Comparing two is quicker than hashing them, and mostly there are two."""
    if len(parts) > 2:
        return list(dict.fromkeys(parts))
    return parts[:1] if len(parts) == 2 and parts[0] == parts[1] else parts


def negation(formula: Formula) -> Formula:
    match formula:
        case Literal(atom, positive):
            return Literal(atom, not positive)
        case All(parts):
            return any_of(map(negation, parts))
    return all_of(map(negation, formula.parts))


def atoms(formula: Formula) -> Iterator[Atom]:
    """Every atom of the formula, left to right, as often as it occurs."""
    if isinstance(formula, Literal):
        yield formula.atom
    else:
        for part in formula.parts:
            yield from atoms(part)
