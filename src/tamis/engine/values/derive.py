"""Derived terms over whole columns: computed once per batch, however many conditions use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.engine.values.address_words import addresses
from tamis.engine.values.column_texts import Words
from tamis.engine.values.container_columns import fact_of, item_of, size_of
from tamis.engine.values.typed_columns import (
    AnyColumn,
    Column,
    constant,
    from_values,
    lists_of,
    taken,
    to_values,
    undefined,
)
from tamis.language.functions import ADDRESSES, CALENDAR
from tamis.language.tree import (
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    In,
    Like,
    Literal,
    Negate,
    Predicate,
    Regex,
    Text,
    quantified,
    quantifier,
    terms,
)
from tamis.logic import Derived, Lookups
from tamis.logic.comparing import text_test
from tamis.logic.lists import EACH, FACTS, taken_apart, truth_of_one
from tamis.logic.terms import call, value
from tamis.schema import INT_MIN, Type

Find = Callable[[str], AnyColumn]
_MINUTE = 60_000_000  # microseconds
_DAY = 1440 * _MINUTE
_CLOCK = {"hour": (60 * _MINUTE, 24), "minute": (_MINUTE, 60)}
_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def derive(term: Derived, find: Find, length: int, lookups: Lookups) -> AnyColumn:
    """The column of a term, from the columns of its attributes."""
    match term:
        case Attribute(name):
            return find(name)
        case Literal(kind, constant_value):
            return constant(constant_value, kind, length)
        case Negate(inner):
            parts = [derive(inner, find, length, lookups)]
        case Call("any" | "all", (inner,)):
            return lists_of(derive(inner, find, length, lookups))
        case Call("size", (inner,)):
            return size_of(derive(inner, find, length, lookups))
        case Call("[]", (inner, Literal(_, str() as key))):
            return item_of(derive(inner, find, length, lookups), key)
        case Call(name, (inner,)) if name in FACTS:
            return fact_of(name, derive(inner, find, length, lookups))
        case Call(name, (inner,)) if quantifier(inner) is not None:
            lists = lists_of(derive(inner, find, length, lookups))
            count = len(lists.elements)
            each = derive(Call(name, (EACH,)), lambda _: lists.elements, count, lookups)
            return replace(lists, elements=each)
        case Call(_, arguments):
            parts = [derive(a, find, length, lookups) for a in arguments]
        case Arithmetic(_, left, right):
            parts = [derive(left, find, length, lookups), derive(right, find, length, lookups)]
        case Compare() | Text() | Between() | In() | Like() | Regex():
            if quantified(term) is not None:
                return _of_elements(term, find, length, lookups)
            parts = [derive(part, find, length, lookups) for part in terms(term)]
    typed = [p for p in parts if isinstance(p, Column)]
    if len(typed) < len(parts):
        return _row_by_row(term, parts, lookups)
    return _typed(term, typed, lookups)


def _of_elements(predicate: Predicate, find: Find, length: int, lookups: Lookups) -> Column:
    """A predicate with ANY or ALL: asked once for each distinct element, and what goes with it."""
    call_of, one = taken_apart(predicate)
    lists = lists_of(derive(call_of.arguments[0], find, length, lookups))
    rows, names = lists.rows, [t for t in terms(one) if not isinstance(t, Literal)]

    def column(name: str) -> AnyColumn:
        return lists.elements if name == EACH.name else taken(find(name), rows)

    def asked(*values: object) -> bool | None:
        known = dict(zip(names, values, strict=True))
        return truth_of_one(one, lambda t, _: t.value if isinstance(t, Literal) else known[t], None)

    parts = [derive(term, column, len(rows), lookups) for term in names]
    truths = np.array([-1 if t is None else t for t in to_values(_each(asked, parts))], np.int8)
    decisive = int(call_of.name == "any")
    found, unknown = np.zeros(length, bool), ~lists.valid
    found[rows[truths == decisive]] = True
    unknown[rows[truths == -1]] = True
    data = np.where(found, decisive, 1 - decisive)
    if lists.plain is not None:  # what is no list: false
        data, unknown = np.where(lists.plain, 0, data), unknown & ~lists.plain
    return Column(Type.BOOL, found | ~unknown, data.astype(np.int64))


def _each(function: Callable[..., object], parts: list[AnyColumn]) -> AnyColumn:
    """A function of the values of each row."""
    typed = [part for part in parts if isinstance(part, Column)]
    if len(typed) == len(parts):
        return _pairwise(function, typed)
    return from_values([function(*row) for row in zip(*map(to_values, parts), strict=True)])


def _typed(term: Derived, parts: list[Column], lookups: Lookups) -> AnyColumn:
    match term:
        case Negate():
            return _negated(parts[0])
        case Arithmetic(op):
            return _arithmetic(op, *parts)
        case Compare(_, op):
            return _compared(op, *parts)
        case Text(_, op):
            return _pairwise(lambda a, b: text_test(a, op, b), parts)
        case Call("abs", (_,)):
            column = parts[0]
            return _positive(column)
        case Call("lower" | "upper" | "casefold" | "length" | "trim" as name, (_,)):
            return _of_text(name, parts[0])
        case Call(name, (_,)) if name in ADDRESSES:
            return _of_address(name, parts[0])
        case Call(name, (_,)) if name in CALENDAR:
            return _of_calendar(name, parts[0])
        case Call("coalesce") if None not in (kinds := _kinds(parts)) and len(kinds) < 2:
            return _first_of(parts)
        case Call(name):
            return _pairwise(lambda *a: call(name, list(a), lookups), parts)
    raise AssertionError(term)


def _row_by_row(term: Derived, parts: list[AnyColumn], lookups: Lookups) -> AnyColumn:
    """Values of several types in one column: the plain way."""
    match term:
        case Negate():
            whole: Derived = Negate(Attribute("0"))
        case Arithmetic(op):
            whole = Arithmetic(op, Attribute("0"), Attribute("1"))
        case Compare(_, op):
            whole = Compare(Attribute("0"), op, Attribute("1"))
        case Text(_, op):
            whole = Text(Attribute("0"), op, Attribute("1"))
        case Call(name, arguments):
            whole = Call(name, tuple(Attribute(str(i)) for i in range(len(arguments))))
        case _:
            raise AssertionError(term)
    rows = zip(*map(to_values, parts), strict=True)
    return from_values([value(whole, lambda n, r=row: r[int(n)], lookups) for row in rows])  # type: ignore[misc]


def _numeric(column: Column) -> bool:
    return column.type is not None and column.type.numeric


def _negated(column: Column) -> Column:
    if not _numeric(column):
        return undefined(len(column))
    return Column(column.type, column.valid, -column.data)


def _positive(column: Column) -> Column:
    if not _numeric(column):
        return undefined(len(column))
    return Column(column.type, column.valid, np.abs(column.data))


def _arithmetic(op: str, left: Column, right: Column) -> Column:
    if not (_numeric(left) and _numeric(right)):
        return undefined(len(left))
    valid = left.valid & right.valid
    if left.type is right.type is Type.INT and op != "/":
        return _integers(op, left.data, right.data, valid)
    a, b = left.data.astype(np.float64), right.data.astype(np.float64)
    with np.errstate(all="ignore"):
        if op in ("/", "DIV", "%"):
            valid = valid & (b != 0)
            divided = np.fmod if op == "%" else np.divide
            data = divided(a, np.where(b == 0, 1.0, b))
        else:
            data = {"+": np.add, "-": np.subtract, "*": np.multiply}[op](a, b)
    nan = np.isnan(data)
    return Column(Type.DOUBLE, valid & ~nan, np.where(nan, 0.0, data))


def _integers(op: str, a: Any, b: Any, valid: npt.NDArray[np.bool_]) -> Column:
    """64-bit arithmetic that wraps around, as in Java."""
    with np.errstate(all="ignore"):
        if op not in ("DIV", "%"):
            data = {"+": np.add, "-": np.subtract, "*": np.multiply}[op](a, b)
            return Column(Type.INT, valid, data)
        divisor = np.where(b == 0, 1, b)
        if op == "%":
            return Column(Type.INT, valid & (b != 0), np.fmod(a, np.where(b == -1, 1, divisor)))
        quotient = a // divisor
        data = quotient + ((quotient * divisor != a) & ((a < 0) != (divisor < 0)))
        data = np.where((a == INT_MIN) & (divisor == -1), INT_MIN, data)
    return Column(Type.INT, valid & (b != 0), data)


def _compared(op: str, left: Column, right: Column) -> AnyColumn:
    valid = left.valid & right.valid
    if left.type is None or right.type is None or not left.type.like(right.type):
        return Column(Type.BOOL, valid, np.zeros(len(left), np.int64))
    if left.type is Type.STRING:
        a, b = _ranked(left, right)
        return Column(Type.BOOL, valid, _OPS[op](a, b).astype(np.int64))
    if left.type is right.type:
        return Column(Type.BOOL, valid, _OPS[op](left.data, right.data).astype(np.int64))
    order = (
        _exact(left.data, right.data) if left.type is Type.INT else -_exact(right.data, left.data)
    )
    return Column(Type.BOOL, valid, _OPS[op](order, 0).astype(np.int64))


def _ranked(left: Column, right: Column) -> tuple[Any, Any]:
    """The places of two columns' texts among all of both."""
    texts = sorted({*left.texts, *right.texts})
    rank = {text: i for i, text in enumerate(texts)}
    both = (np.array([rank[t] for t in c.texts] or [0], np.int64)[c.data] for c in (left, right))
    a, b = both
    return a, b


def _exact(integers: Any, doubles: Any) -> Any:
    """-1, 0 or 1 as the integer is less than, equal to or greater than the double: no rounding."""
    whole = np.floor(doubles)
    inside = (whole >= -(2.0**63)) & (whole < 2.0**63)
    near = np.where(inside, whole, 0.0).astype(np.int64)
    order = np.sign((integers > near).astype(np.int8) - (integers < near).astype(np.int8))
    order = np.where((order == 0) & (doubles > whole), -1, order)
    return np.where(inside, order, np.where(doubles > 0, -1, 1))


def _of_text(name: str, column: Column) -> Column:
    if column.type is not Type.STRING:
        return undefined(len(column))
    if name == "length":
        lengths = np.array([len(t) for t in column.texts], np.int64)
        return Column(Type.INT, column.valid, lengths[column.data])
    if name == "trim":
        trimmed = Words([text.strip(" ") for text in column.texts])
        return Column(Type.STRING, column.valid, column.data, trimmed)
    return Column(Type.STRING, column.valid, column.data, column.texts.cased(name))


def _of_address(name: str, column: Column) -> Column:
    if column.type is not Type.STRING:
        return undefined(len(column))
    valid, numbers = addresses(name, column.texts)
    if not len(numbers):
        return undefined(len(column))
    return Column(Type.INT, column.valid & valid[column.data], numbers[column.data])


def _of_calendar(name: str, column: Column) -> Column:
    """A part of the moments, which are microseconds since 1970, in UTC."""
    if column.type is not Type.TIMESTAMP:
        return undefined(len(column))
    micros = column.data
    if name in _CLOCK:
        unit, count = _CLOCK[name]
        data = micros // unit % count
    elif name == "weekday":
        data = (micros // _DAY + 3) % 7  # 1970 began on a Thursday
    else:
        months = micros.view("datetime64[us]").astype("datetime64[M]")
        data = months.astype(np.int64)  # since 1970
        if name == "day":
            data = micros // _DAY - months.astype("datetime64[D]").astype(np.int64) + 1
        else:
            data = data // 12 + 1970 if name == "year" else data % 12 + 1
    return Column(Type.INT, column.valid, data)


def _kinds(parts: list[Column]) -> set[Type | None]:
    """The types of the values in these columns."""
    return {part.type for part in parts if part.valid.any()}


def _first_of(parts: list[Column]) -> Column:
    """What is defined in the first of these columns, of one type, that has it defined."""
    kind = next(iter(_kinds(parts)), None)
    whole = undefined(len(parts[0]))
    for part in reversed(parts):
        if part.type is not kind:  # there is nothing in it
            continue
        if whole.type is Type.STRING:
            texts = Words([*whole.texts, *part.texts])
            data = np.where(part.valid, part.data + len(whole.texts), whole.data)
            whole = Column(kind, part.valid | whole.valid, data.astype(np.int32), texts)
        else:
            data = np.where(part.valid, part.data, whole.data) if whole.type else part.data
            whole = Column(kind, part.valid | whole.valid, data, part.texts)
    return whole


def _pairwise(function: Callable[..., object], parts: list[Column]) -> AnyColumn:
    """A function of values, called once for each distinct combination."""
    if not parts:
        return undefined(0)
    which = np.zeros(len(parts[0]), np.int64)
    for part in parts:  # the number of a combination so far, and of the next value, as one number
        codes = np.where(part.valid, _codes(part), -1) + 1
        which = which * (int(codes.max(initial=0)) + 1) + codes
        first, which = np.unique(which, return_index=True, return_inverse=True)[1:]
        which = which.reshape(-1)
    picked = [to_values(Column(p.type, p.valid[first], p.data[first], p.texts)) for p in parts]
    found = from_values([function(*row) for row in zip(*picked, strict=True)])
    if isinstance(found, Column):
        return Column(found.type, found.valid[which], found.data[which], found.texts)
    return type(found)([found.values[i] for i in which.tolist()])


def _codes(column: Column) -> Any:
    if column.type is Type.STRING:
        return column.data.astype(np.int64)
    return np.unique(column.data, return_inverse=True)[1].reshape(-1)
