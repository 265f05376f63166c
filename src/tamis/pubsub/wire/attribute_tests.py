"""Filters as lists of attribute tests, and back (tables 20 to 22)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tamis.errors import WireError
from tamis.logic import sets
from tamis.logic.conjunctions import Conjunction, conjoin
from tamis.logic.dnf import Filter
from tamis.logic.numbers import simplest
from tamis.logic.sets import ABSENT, ANY, OTHER, Line, Values
from tamis.pubsub.subjects.channel import Channel
from tamis.pubsub.subjects.precision import fitted
from tamis.pubsub.subjects.typecodes import FORMS, TypeCode
from tamis.pubsub.wire.wire_messages import AttributeTest, Disjuncts, Operator
from tamis.pubsub.wire.wire_values import Moment
from tamis.schema import INT_MAX, INT_MIN, Type

_CODES = {
    Line.STRING: TypeCode.STRING,
    Line.BOOL: TypeCode.BOOL,
    Line.TIMESTAMP: TypeCode.TIMESTAMP,
    Line.ANY: TypeCode.ANY,
    Line.OTHER: TypeCode.OTHER,
    Line.ABSENT: TypeCode.ANY,
}
_UNDECLARED = {
    Type.INT: Line.NUMBER,
    Type.DOUBLE: Line.NUMBER,
    Type.STRING: Line.STRING,
    Type.BOOL: Line.BOOL,
    Type.TIMESTAMP: Line.TIMESTAMP,
}


def disjuncts_of(filter: Filter, channel: Channel) -> Disjuncts | None:
    """The tests of a filter, in canonical order; None where no message can satisfy it."""
    filter = fitted(filter, channel)
    if filter.never:
        return None
    if filter.always:
        return ()
    found = {tuple(tests) for one in filter.disjuncts for tests in _alternatives(one, channel)}
    return tuple(sorted(found, key=_order))


def _order(tests: tuple[AttributeTest, ...]) -> tuple[Any, ...]:
    """By the codes of the tests first, as they stand in a packet, then by operands."""
    codes = [(_place(t.attribute), t.type, t.operator) for t in tests]
    return codes, [_comparable(t.attribute, t.operands) for t in tests]


def _place(attribute: int | str) -> tuple[int, str]:
    return (attribute, "") if isinstance(attribute, int) else (127, attribute)


def _comparable(attribute: int | str, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    return (len(operands), *operands)


def _alternatives(one: Conjunction, channel: Channel) -> Iterator[list[AttributeTest]]:
    """The tests of a conjunction. Lists of ints and doubles that no one type holds make several."""
    found: list[list[AttributeTest]] = [[]]
    for attribute, values in sorted(_placed(one, channel), key=lambda pair: _place(pair[0])):
        code = channel.attributes[attribute].type if isinstance(attribute, int) else None
        ways = list(_tests(attribute, values, code))
        found = [[*tests, *way] for tests in found for way in ways]
    yield from found


def _placed(one: Conjunction, channel: Channel) -> Iterator[tuple[int | str, Values]]:
    for name, values in one:
        yield channel.positions.get(name, name), values


def _tests(
    attribute: int | str, values: Values, code: TypeCode | None
) -> Iterator[list[AttributeTest]]:
    """The ways to satisfy one set, each a list of tests."""
    if values.line is Line.ABSENT or values.whole:
        operator = Operator.ABSENT if values.line is Line.ABSENT else Operator.PRESENT
        for kind in [code] if code is not None else _kinds(values.line):
            yield [AttributeTest(attribute, kind, operator, ())]
        return
    if values.members is not None:
        for kind, members in _grouped(values.members, values.line, code):
            operator = Operator.EQUAL if len(members) == 1 else Operator.IN
            yield [AttributeTest(attribute, kind, operator, members)]
        return
    tests = _range(attribute, values, code)
    for kind, members in _grouped(values.without, values.line, code):
        tests.append(AttributeTest(attribute, kind, Operator.NOT_IN, members))
    yield tests


def _kinds(line: Line) -> list[TypeCode]:
    """PRESENT asks for a family of types: DOUBLE stands for all numbers."""
    return [TypeCode.DOUBLE if line is Line.NUMBER else _CODES[line]]


def _range(attribute: int | str, values: Values, code: TypeCode | None) -> list[AttributeTest]:
    bounds = [v for v in (values.low, values.high) if v is not None]
    grouped = list(_grouped(tuple(bounds), values.line, code))
    if len(bounds) == 2 and len(grouped) == 1:
        return [AttributeTest(attribute, grouped[0][0], Operator.CLOSED, grouped[0][1])]
    tests = []
    for operator, bound in ((Operator.LEFT_OPEN, values.high), (Operator.RIGHT_OPEN, values.low)):
        if bound is not None:
            ((kind, operands),) = _grouped((bound,), values.line, code)
            tests.append(AttributeTest(attribute, kind, operator, operands))
    return tests


def _grouped(
    operands: tuple[Any, ...], line: Line, code: TypeCode | None
) -> Iterator[tuple[TypeCode, tuple[Any, ...]]]:
    """Operands by the type that holds them: one, but for ints and doubles of no declared type."""
    if code is not None or line is not Line.NUMBER:
        kind = _CODES[line] if code is None else code
        convert = _CONVERT.get(FORMS[kind].type, _same)
        if operands:
            yield kind, tuple([convert(v) for v in operands])
        return
    if all(isinstance(v, int) and INT_MIN <= v <= INT_MAX for v in operands):
        groups = [(TypeCode.LONG, operands), (TypeCode.DOUBLE, ())]
    else:
        doubles = tuple([float(v) for v in operands if _is_double(v)])
        rest = tuple([v for v in operands if not _is_double(v)])
        groups = [(TypeCode.LONG, rest), (TypeCode.DOUBLE, doubles)]
    yield from [(kind, found) for kind, found in groups if found]


def _same(value: Any) -> Any:
    return value


_CONVERT: dict[Type, Any] = {Type.DOUBLE: float, Type.TIMESTAMP: Moment}


def _is_double(number: float) -> bool:
    try:
        return float(number) == number
    except OverflowError:
        return False


# --- back to a filter -------------------------------------------------------------


def filter_of(disjuncts: Disjuncts, channel: Channel) -> Filter:
    """The filter of a subscription's tests; disjuncts that contradict themselves are left out."""
    if not disjuncts:
        return Filter(((),))
    found = (_conjunction(tests, channel) for tests in disjuncts)
    return Filter(tuple(dict.fromkeys(one for one in found if one is not None)))


def _conjunction(tests: Iterable[AttributeTest], channel: Channel) -> Conjunction | None:
    found: Conjunction | None = ()
    for test in tests:
        name = test.attribute
        if isinstance(name, int):
            name = channel.attributes[name].name
        values = _values(test)
        if values is None or found is None:
            return None
        found = conjoin(found, ((name, values),))
    return found


def _values(test: AttributeTest) -> Values | None:
    """The set that one test asks for."""
    if test.operator is Operator.ABSENT:
        return ABSENT
    if test.type not in FORMS:
        return ANY if test.type is TypeCode.ANY else OTHER
    kind = FORMS[test.type].type
    line = sets.line_of_type(kind) if isinstance(test.attribute, int) else _UNDECLARED[kind]
    operands = [simplest(v) if kind.numeric else _plain(v) for v in test.operands]
    match test.operator:
        case Operator.PRESENT:
            return Values(line)
        case Operator.EQUAL | Operator.IN:
            return sets.among(line, operands)
        case Operator.NOT_IN:
            return sets.span(line, without=operands)
    if line is Line.BOOL:
        raise WireError("Booleans have no order: use the operators 3 to 7")
    low = operands[0] if test.operator is not Operator.LEFT_OPEN else None
    return sets.span(line, low, operands[-1] if test.operator is not Operator.RIGHT_OPEN else None)


def _plain(operand: Any) -> Any:
    return int(operand) if isinstance(operand, Moment) else operand
