"""Variables of a diagram back to atoms, and atoms back to selector text."""

from __future__ import annotations

import datetime
import math
import struct
import sys
from typing import Protocol

from tamis.diagram import packed
from tamis.diagram.questions import AMONG, Vocabulary
from tamis.diagram.variables import Atoms
from tamis.language import canonical
from tamis.language.printer import term_text
from tamis.language.tree import (
    Between,
    Compare,
    CompareOp,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Regex,
    Text,
    TextOp,
)
from tamis.logic import Atom, Family, Kind
from tamis.logic.atoms import microseconds
from tamis.logic.numbers import simplest
from tamis.logic.wildcards import ESCAPE
from tamis.schema import INT_MAX, INT_MIN, Type

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST = microseconds(datetime.datetime.min.replace(tzinfo=datetime.UTC))
_NEVER = microseconds(datetime.datetime.max.replace(tzinfo=datetime.UTC)) + 1
_FAMILIES = {
    Family.NUMBER: "a number",
    Family.STRING: "a string",
    Family.BOOL: "a Boolean",
    Family.TIMESTAMP: "a timestamp",
}
_TEXT_OPS: dict[Kind, TextOp] = {
    Kind.PREFIX: "STARTS WITH",
    Kind.SUFFIX: "ENDS WITH",
    Kind.CONTAINS: "CONTAINS",
    Kind.WITHIN: "WITHIN",
}


class Numbered(Protocol):
    """What says which atom a variable stands for: a Diagram, and others."""

    @property
    def atoms(self) -> Atoms: ...
    @property
    def vocabulary(self) -> Vocabulary: ...


def atom_of(diagram: Numbered, variable: int) -> Atom:
    """The atom that variable `variable` stands for."""
    question, key = int(diagram.atoms.question[variable]), int(diagram.atoms.key[variable])
    term, kind = packed.term(question), packed.kind(question)
    family = Family(packed.family(question))
    asked = diagram.vocabulary.terms.terms[term]
    if kind == AMONG:
        return Atom(asked, Kind.MEMBER, family, diagram.vocabulary.pool.listed(key))
    if kind < Kind.BELOW:
        return Atom(asked, Kind(kind), family)
    constant = constant_of(diagram.vocabulary, term, family, key)
    return Atom(asked, Kind(kind), family, (constant,) if kind == Kind.MEMBER else constant)


def atom_text(diagram: Numbered, variable: int) -> str:
    """The atom as selector text: `price < 1500`, `company CONTAINS 'IBM'`.

    That a value is of some type is nothing that a selector can ask; it reads `x is a number`.
    """
    return text_of(atom_of(diagram, variable))


def text_of(atom: Atom) -> str:
    if atom.kind is Kind.TYPED:
        return f"{canonical(atom.term)} is {_FAMILIES[atom.family]}"
    return canonical(condition_of(atom))


def condition_of(atom: Atom) -> Condition:
    """A condition that is true just where the atom holds (not for TYPED)."""
    term, constant = atom.term, atom.constant
    if isinstance(term, Compare | Text | Between | In | Like | Regex):
        assert isinstance(constant, tuple)
        return term if constant[0] else Not(term)
    match atom.kind:
        case Kind.DEFINED:
            return Not(IsNull(term))
        case Kind.BELOW:
            op, bound = _bound(atom)
            return Compare(term, op, bound)
        case Kind.MEMBER:
            assert isinstance(constant, tuple)
            values = tuple(_literal(atom.family, c) for c in constant)
            return Compare(term, "=", values[0]) if len(values) == 1 else In(term, values)
        case Kind.PATTERN:
            return Regex(term, str(constant))
        case Kind.LIKE:
            pattern = str(constant)
            return Like(term, pattern, ESCAPE if ESCAPE in pattern else None)
    return Text(term, _TEXT_OPS[atom.kind], Literal.of(str(constant)))


def constant_of(
    vocabulary: Vocabulary, term: int, family: Family, key: int
) -> bool | int | float | str:
    """The constant that Vocabulary.key made `key` of."""
    terms = vocabulary.terms
    if not terms.direct(term, family):
        return vocabulary.pool.values[key]  # type: ignore[no-any-return]
    if terms.types[term] is Type.DOUBLE:
        return simplest(_double(key))
    return bool(key) if family is Family.BOOL else key


def _double(key: int) -> float:
    """The inverse of questions.double_key."""
    bits = key if key >= 0 else key ^ 0x7FFFFFFFFFFFFFFF
    number: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return number


def _bound(atom: Atom) -> tuple[CompareOp, Literal]:
    """`< c`, or `<=` its predecessor where that is the simpler constant."""
    bound = atom.constant
    if isinstance(bound, str):
        return ("<=", Literal.of(bound[:-1])) if bound.endswith("\0") else ("<", Literal.of(bound))
    assert isinstance(bound, int | float)
    if bound == math.inf:  # no selector can say it
        return "<=", Literal.of(sys.float_info.max)
    below = _literal(atom.family, bound)
    if isinstance(bound, int) and (atom.family is Family.NUMBER or bound == _FIRST):
        return "<", below
    before = math.nextafter(bound, -math.inf) if isinstance(bound, float) else bound - 1
    up_to = _literal(atom.family, simplest(before))
    shorter = bound == _NEVER or len(term_text(up_to)) < len(term_text(below))
    return ("<=", up_to) if shorter else ("<", below)


def _literal(family: Family, constant: object) -> Literal:
    if family is Family.TIMESTAMP:
        assert isinstance(constant, int)
        moment = _EPOCH + datetime.timedelta(microseconds=min(constant, _NEVER - 1))
        return Literal(Type.TIMESTAMP, moment)
    if isinstance(constant, int) and not INT_MIN <= constant <= INT_MAX:
        constant = float(constant)
    return Literal.of(constant)  # type: ignore[arg-type]
