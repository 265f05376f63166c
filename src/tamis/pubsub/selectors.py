"""Filters and subjects as conditions, for a matcher; all to be read with semantics sql.

A message's subject is an attribute `sub` beside its own, with its length and its fields:
`sub.length`, `sub.0`, `sub.1`, ... (table 23 without the brackets).
"""

from __future__ import annotations

from collections.abc import Iterable

from tamis.errors import SelectorError
from tamis.language.tree import (
    And,
    Attribute,
    Compare,
    CompareOp,
    Condition,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Or,
)
from tamis.logic import sets
from tamis.logic.conjunctions import Conjunction
from tamis.logic.dnf import Filter
from tamis.logic.sets import Line, Values
from tamis.pubsub.subjects.subject import Subject, SubjectFilter
from tamis.pubsub.wire.wire_values import moment
from tamis.schema import INT_MAX, INT_MIN

SUBJECT = "sub"
LENGTH = f"{SUBJECT}.length"
_TRUE, _FALSE = Constant(True), Constant(False)


def subject_attributes(subject: Subject) -> dict[str, object]:
    """What a condition can ask about a subject."""
    found: dict[str, object] = {f"{SUBJECT}.{i}": name for i, name in enumerate(subject.fields)}
    return {SUBJECT: str(subject), LENGTH: len(subject.fields), **found}


def subject_condition(filter: SubjectFilter) -> Condition:
    """The filter without wildcards."""
    if not filter.wild:
        return _compare(SUBJECT, "=", Literal.of(str(filter)))
    rule = filter.rule
    length = _compare(LENGTH, ">" if rule.open else "=", Literal.of(rule.length))
    clauses = [_compare(f"{SUBJECT}.{i}", "=", Literal.of(name)) for i, name in rule.fields]
    return conjunction([length, *clauses] if rule.length or not rule.open else clauses)


def condition(filter: Filter, *, defined: bool = False) -> Condition:
    """The condition that is true where the filter is.

    `defined`: it asks for each value by IS NOT NULL as well, for semantics other than sql.
    """
    return disjunction([_conjunction(one, defined) for one in filter.disjuncts])


def _conjunction(one: Conjunction, defined: bool) -> Condition:
    there = [Not(IsNull(Attribute(n))) for n, v in one if defined and v.line is not Line.ABSENT]
    return conjunction([*there, *(_of_values(name, values) for name, values in one)])


def conjunction(parts: Iterable[Condition]) -> Condition:
    flat = [p for part in parts for p in (part.parts if isinstance(part, And) else (part,))]
    flat = [part for part in flat if part != _TRUE]
    return flat[0] if len(flat) == 1 else And(tuple(flat)) if flat else _TRUE


def disjunction(parts: Iterable[Condition]) -> Condition:
    flat = [p for part in parts for p in (part.parts if isinstance(part, Or) else (part,))]
    if _TRUE in flat:
        return _TRUE
    return flat[0] if len(flat) == 1 else Or(tuple(flat)) if flat else _FALSE


def _of_values(name: str, values: Values) -> Condition:
    if values.line >= Line.OTHER:
        return _of_presence(name, values.line)
    if values.members is not None:
        literals = tuple([_literal(values.line, v) for v in values.members])
        if len(literals) == 1:
            return _compare(name, "=", literals[0])
        return In(Attribute(name), literals)
    parts = [_compare(name, "<>", _literal(values.line, v)) for v in _excluded(values)]
    if values.low is not None:
        parts.insert(0, _bound(name, values, upper=False))
    if values.high is not None:
        parts.insert(1, _bound(name, values, upper=True))
    return conjunction(parts) if parts else _typed(name, values.line)


def _excluded(values: Values) -> list[sets.Plain]:
    """What is left out, but for a bound: `< 'b'` says that already."""
    return [v for v in values.without if v != values.high]


def _of_presence(name: str, line: Line) -> Condition:
    absent = IsNull(Attribute(name))
    if line is Line.ABSENT:
        return absent
    if line is Line.ANY:
        return Not(absent)
    lines = (Line.NUMBER, Line.STRING, Line.BOOL, Line.TIMESTAMP)
    return conjunction([Not(absent), *(Not(_typed(name, other)) for other in lines)])


def _typed(name: str, line: Line) -> Condition:
    """There is a value, of the line's type."""
    if line is Line.BOOL:
        return In(Attribute(name), (Literal.of(False), Literal.of(True)))
    if line is Line.STRING:
        return _compare(name, ">=", Literal.of(""))
    zero = _literal(line, 0)
    return Or((_compare(name, "<", zero), _compare(name, ">=", zero)))


def _bound(name: str, values: Values, *, upper: bool) -> Condition:
    """A bound in the shorter of two ways: `> 5` rather than `>= 5.000000000000001`."""
    line, bound = values.line, values.high if upper else values.low
    if line is Line.STRING:
        if upper:
            return _compare(name, "<" if bound in values.without else "<=", _literal(line, bound))
        if bound.endswith("\0"):
            return _compare(name, ">", _literal(line, bound[:-1]))
    elif line is not Line.INT and line is not Line.TIMESTAMP:
        open_bound = sets.after(line, bound) if upper else sets.before(line, bound)
        if len(repr(open_bound)) < len(repr(bound)) and abs(open_bound) != float("inf"):
            return _compare(name, "<" if upper else ">", _literal(line, open_bound))
    if isinstance(bound, float) and abs(bound) == float("inf"):
        return _infinite(name, upper=upper)
    return _compare(name, "<=" if upper else ">=", _literal(line, bound))


def _infinite(name: str, *, upper: bool) -> Condition:
    """`<= -infinity` or `>= infinity`: no literal says that."""
    largest = Literal.of(-1.7976931348623157e308 if upper else 1.7976931348623157e308)
    return _compare(name, "<" if upper else ">", largest)


def _compare(name: str, op: CompareOp, literal: Literal) -> Condition:
    return Compare(Attribute(name), op, literal)


def _literal(line: Line, value: sets.Plain) -> Literal:
    if line is Line.TIMESTAMP:
        return Literal.of(moment(int(value)))
    if isinstance(value, str) and "\0" in value:
        raise SelectorError("a text with a NUL cannot be compared with")
    if type(value) is int and not INT_MIN <= value <= INT_MAX:  # a double, in simplest form
        return Literal.of(float(value))
    return Literal.of(value)
