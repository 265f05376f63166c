"""The four semantics, reduced to one: a condition becomes a two-valued formula over atoms.

`sql` makes every literal false where its term is undefined; `strict` adds that
every attribute of the text is defined (taken before any simplification, else
Alice and Bob of ICSE 2001, example 5, would receive messages without a price);
`default` lets undefined terms be different from every value; `total` is `sql`
over messages that define the whole schema.
"""

from __future__ import annotations

from typing import Literal as OneOf
from typing import assert_never

from tamis.errors import SchemaError
from tamis.language.tree import (
    And,
    Attribute,
    Between,
    Call,
    Compare,
    CompareOp,
    Condition,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    Regex,
    Term,
    Text,
    attributes,
    quantified,
    quantifier,
)
from tamis.logic import numbers, quantifiers
from tamis.logic.atoms import (
    FALSE,
    TRUE,
    Atom,
    Family,
    Formula,
    Kind,
    all_of,
    any_of,
    family_of,
    member,
    microseconds,
    negation,
)
from tamis.logic.atoms import Literal as Lit
from tamis.logic.comparing import compare, text_test
from tamis.logic.like_atoms import case_free, like_atom
from tamis.logic.lists import has_several
from tamis.logic.terms import static_type
from tamis.schema import Schema, Shape, Type

Semantics = OneOf["sql", "strict", "default", "total"]
SEMANTICS: tuple[Semantics, ...] = ("sql", "strict", "default", "total")
_PREDICATES = (Compare, Between, In, Text, Like, Regex)
_APART = 64  # constants of a list that become atoms of their own
_FLIP: dict[CompareOp, CompareOp] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


def reduce(
    condition: Condition, semantics: Semantics = "sql", schema: Schema | None = None
) -> Formula:
    """The formula that is true of just the messages that `condition` matches."""
    reducer = Reducer(semantics, schema)
    return all_of([reducer.adequacy(condition), reducer.holds(condition)])


class Reducer:
    """Reduces conditions under one semantics and schema."""

    def __init__(self, semantics: Semantics, schema: Schema | None) -> None:
        if semantics not in SEMANTICS:
            raise SchemaError(f"semantics {semantics!r}: choose one of {', '.join(SEMANTICS)}")
        if semantics == "total" and schema is None:
            raise SchemaError(
                "total semantics needs a schema: it says which attributes make a message total"
            )
        self.semantics, self.schema = semantics, schema

    def adequacy(self, condition: Condition) -> Formula:
        """What `strict` asks before anything else (adequate: ICSE 2001, section 4)."""
        if self.semantics != "strict":
            return TRUE
        return all_of(self.defined(Attribute(name)) for name in attributes(condition))

    def holds(self, condition: Condition) -> Formula:
        """True where the condition is TRUE."""
        if isinstance(condition, _PREDICATES):
            condition = self._listed(condition)
            if (call := quantified(condition)) is not None:
                return quantifiers.holds(self, condition, call)
        match condition:
            case Constant(value):
                return TRUE if value else FALSE
            case Not(part):
                return self.fails(part)
            case And(parts):
                return all_of(map(self.holds, parts))
            case Or(parts):
                return any_of(map(self.holds, parts))
            case Between(term, low, high):
                return all_of([self._compare(term, ">=", low), self._compare(term, "<=", high)])
            case _:
                return self.plain_predicate(condition)

    def fails(self, condition: Condition) -> Formula:
        """True where the condition is FALSE: under sql, less than the negation of `holds`."""
        if isinstance(condition, _PREDICATES):
            condition = self._listed(condition)
            if (call := quantified(condition)) is not None:
                return quantifiers.fails(self, condition, call)
        match condition:
            case Constant(value):
                return FALSE if value else TRUE
            case Not(part):
                return self.holds(part)
            case And(parts):
                return any_of(map(self.fails, parts))
            case Or(parts):
                return all_of(map(self.fails, parts))
            case Between(term, low, high):
                bounds = Compare(term, ">=", low), Compare(term, "<=", high)
                return any_of(map(self.fails, bounds))
            case _:
                return self._refuted(condition, self.plain_predicate(condition))

    def sides(self, condition: Condition) -> tuple[Formula, Formula]:
        """`holds` and `fails`; what both need of a predicate is done once."""
        match condition:
            case Not(part):
                holds, fails = self.sides(part)
                return fails, holds
            case And() | Or() | Constant() | Between():
                return self.holds(condition), self.fails(condition)
        condition = self._listed(condition)
        if quantified(condition) is not None:
            return self.holds(condition), self.fails(condition)
        found = self.plain_predicate(condition)
        return found, self._refuted(condition, found)

    def _listed(self, predicate: Predicate) -> Predicate:
        """`tags CONTAINS 'a'`, where tags is a list, is `ANY(tags) = 'a'`."""
        match predicate:
            case Text(Attribute(name) as term, "CONTAINS", other, at) if (
                self.schema is not None
                and name in self.schema
                and self.schema[name].shape is Shape.LIST
            ):
                return Compare(Call("any", (term,), term.at), "=", other, at)
        return predicate

    def with_list_left(self, predicate: Predicate) -> Predicate:
        """The same with the term that asks ANY or ALL on its left."""
        match predicate:
            case Compare(left, op, right, at) if quantifier(left) is None:
                return Compare(right, _FLIP[op], left, at)
        return predicate

    def _refuted(self, predicate: Predicate, found: Formula) -> Formula:
        """That the predicate is false, where `found` says that it is true."""
        refuted = negation(found)
        if self.semantics == "default":
            return refuted
        return all_of([*map(self.defined, _terms(predicate)), refuted])

    def plain_predicate(self, predicate: Predicate) -> Formula:
        """True where a predicate of one value (or of several, of which one will do) is."""
        match predicate:
            case Compare(left, op, right):
                return self._compare(left, op, right)
            case In(term, values):
                return any_of(self.equal(term, values))
            case Text(term, op, other):
                return self._text(term, op, other)
            case Like(term, pattern, escape):
                subject = case_free(term) if predicate.any_case else term
                atom = like_atom(subject, pattern, escape, any_case=predicate.any_case)
                return self._string_atom(subject, atom)
            case Regex(term, pattern):
                return self._string_atom(term, Atom(term, Kind.PATTERN, Family.STRING, pattern))
            case IsNull(term):
                return negation(self.defined(term))
            case Between():
                return self.holds(predicate)
            case _:
                assert_never(predicate)

    def defined(self, term: Term) -> Formula:
        match term:
            case Literal():
                return TRUE
            case Attribute(name) if self._always_defined(name):
                return TRUE
            case Call("lower" | "upper" | "casefold" | "trim" | "length", (inner,)) if (
                static_type(inner, self.schema) is Type.STRING
            ):
                return self.defined(inner)
        return Lit(Atom(term, Kind.DEFINED, Family.ANY))

    def _always_defined(self, name: str) -> bool:
        if self.schema is None or name not in self.schema:
            return False
        has_default = self.schema[name].default is not None
        return self.semantics == "total" or (self.semantics == "default" and has_default)

    def _typed(self, term: Term, family: Family) -> Formula:
        """The term has a value that constants of the family can be compared with."""
        kind = static_type(term, self.schema)
        if kind is None:
            return Lit(Atom(term, Kind.TYPED, family))
        return self.defined(term) if family_of(kind) is family else FALSE

    def _string_atom(self, term: Term, atom: Atom) -> Formula:
        if self._typed(term, Family.STRING) == FALSE:
            return FALSE
        if isinstance(term, Literal):
            return TRUE if atom.holds(term.value) else FALSE
        if atom.kind is Kind.TYPED:
            return self._typed(term, Family.STRING)
        return Lit(atom)

    def _text(self, term: Term, op: str, other: Term) -> Formula:
        if isinstance(term, Literal) and isinstance(other, Literal):
            return TRUE if text_test(term.value, op, other.value) else FALSE
        if isinstance(term, Literal) and op in ("CONTAINS", "WITHIN"):
            return self._text(other, "WITHIN" if op == "CONTAINS" else "CONTAINS", term)
        if not isinstance(other, Literal):
            return Lit(member(Text(term, op, other), Family.BOOL, [True]))  # type: ignore[arg-type]
        if not isinstance(other.value, str):
            return FALSE
        kind = {"CONTAINS": Kind.CONTAINS, "WITHIN": Kind.WITHIN, "STARTS WITH": Kind.PREFIX}.get(
            op, Kind.SUFFIX
        )
        if other.value:
            return self._string_atom(term, Atom(term, kind, Family.STRING, other.value))
        if kind is Kind.WITHIN:
            return self._string_atom(term, member(term, Family.STRING, [""]))
        return self._string_atom(term, Atom(term, Kind.TYPED, Family.STRING))

    def _compare(self, left: Term, op: CompareOp, right: Term) -> Formula:
        if isinstance(left, Literal) and isinstance(right, Literal):
            return TRUE if compare(left.value, op, right.value) else FALSE
        if isinstance(left, Literal):
            return self._compare(right, _FLIP[op], left)
        if not isinstance(right, Literal):
            return self._between_terms(left, op, right)
        found = self.with_constant(left, op, right)
        if op == "<>" and self.semantics == "default":
            return any_of([negation(self.defined(left)), found])
        return found

    def _between_terms(self, left: Term, op: CompareOp, right: Term) -> Formula:
        if op in (">", ">="):
            return self._between_terms(right, _FLIP[op], left)
        found = Lit(member(Compare(left, op, right), Family.BOOL, [True]))
        if op == "<>" and self.semantics == "default":
            return any_of([negation(self.defined(left)), negation(self.defined(right)), found])
        return found

    def with_constant(self, term: Term, op: CompareOp, constant: Literal) -> Formula:
        typed = self._typed(term, family_of(constant.type))
        if typed == FALSE:
            return FALSE
        match op:
            case "=":
                return any_of(self.equal(term, (constant,)))
            case "<>":
                return all_of([typed, negation(any_of(self.equal(term, (constant,))))])
            case "<" | "<=":
                return self._below(term, constant, or_equal=op == "<=")
        return all_of([typed, negation(self._below(term, constant, or_equal=op == ">"))])

    def equal(self, term: Term, values: tuple[Literal, ...]) -> list[Formula]:
        """The term equals one of the constants: one MEMBER atom per family.

        Where it has several values, one per constant: each of them may be asked for by itself.
        """
        line = static_type(term, self.schema)
        chosen: dict[Family, list[bool | int | float | str]] = {}
        if isinstance(term, Literal):
            return [TRUE] if any(compare(term.value, "=", v.value) for v in values) else []
        for v in values:
            if line is None or line.like(v.type):
                chosen.setdefault(family_of(v.type), []).append(_plain(v))
        if line is not None and line.numeric:
            kept = [n for n in chosen.get(Family.NUMBER, []) if numbers.on_line(n, line)]  # type: ignore[arg-type]
            chosen = {Family.NUMBER: kept} if kept else {}
        if has_several(term) and len(values) <= _APART:
            pairs = [(family, one) for family, found in chosen.items() for one in found]
            return [Lit(member(term, family, [one])) for family, one in pairs]
        return [Lit(member(term, family, found)) for family, found in chosen.items()]

    def _below(self, term: Term, constant: Literal, *, or_equal: bool) -> Formula:
        family = family_of(constant.type)
        threshold: int | float | str
        match constant.value:
            case bool() as flag:
                return self._bool_below(term, flag, or_equal=or_equal)
            case str() as text:
                threshold = text + "\0" if or_equal else text
                if threshold == "":
                    return FALSE
            case int() | float() as number:
                line = static_type(term, self.schema)
                threshold = (numbers.above if or_equal else numbers.at_least)(number, line)
                if numbers.never_below(threshold, line):
                    return FALSE
                if numbers.always_below(threshold, line):
                    return self._typed(term, family)
            case moment:
                threshold = microseconds(moment) + or_equal
        return Lit(Atom(term, Kind.BELOW, family, threshold))

    def _bool_below(self, term: Term, flag: bool, *, or_equal: bool) -> Formula:
        if flag and or_equal:
            return self._typed(term, Family.BOOL)
        if not flag and not or_equal:
            return FALSE
        return Lit(member(term, Family.BOOL, [False]))


def _terms(predicate: Predicate) -> tuple[Term, ...]:
    """The terms that must be defined for the predicate to be false rather than unknown."""
    match predicate:
        case Compare(left, _, right) | Text(left, _, right):
            return (left, right)
        case IsNull():
            return ()
    return (predicate.term,)


def _plain(literal: Literal) -> bool | int | float | str:
    if literal.type is Type.TIMESTAMP:
        return microseconds(literal.value)  # type: ignore[arg-type]
    return literal.value  # type: ignore[return-value]
