"""Derived terms over whole columns: computed once per batch, however many conditions use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.engine.columns import AnyColumn, Column, constant, from_values, to_values, undefined
from tamis.language.tree import Arithmetic, Attribute, Call, Compare, Literal, Negate, Text
from tamis.logic import Derived, Lookups
from tamis.logic.terms import call, compare, text_test, value
from tamis.schema import INT_MIN, Type

Find = Callable[[str], AnyColumn]
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
        case Arithmetic(_, left, right) | Compare(left, _, right) | Text(left, _, right):
            parts = [derive(left, find, length, lookups), derive(right, find, length, lookups)]
        case Call(_, arguments):
            parts = [derive(a, find, length, lookups) for a in arguments]
    typed = [p for p in parts if isinstance(p, Column)]
    if len(typed) < len(parts):
        return _row_by_row(term, parts, lookups)
    return _typed(term, typed, lookups)


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
        case Call("lower" | "upper" | "length" as name, (_,)):
            return _of_text(name, parts[0])
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
        if op in ("/", "DIV"):
            valid = valid & (b != 0)
            data = a / np.where(b == 0, 1.0, b)
        else:
            data = {"+": np.add, "-": np.subtract, "*": np.multiply}[op](a, b)
    nan = np.isnan(data)
    return Column(Type.DOUBLE, valid & ~nan, np.where(nan, 0.0, data))


def _integers(op: str, a: Any, b: Any, valid: npt.NDArray[np.bool_]) -> Column:
    """64-bit arithmetic that wraps around, as in Java."""
    with np.errstate(all="ignore"):
        if op != "DIV":
            data = {"+": np.add, "-": np.subtract, "*": np.multiply}[op](a, b)
            return Column(Type.INT, valid, data)
        divisor = np.where(b == 0, 1, b)
        quotient = a // divisor
        data = quotient + ((quotient * divisor != a) & ((a < 0) != (divisor < 0)))
        data = np.where((a == INT_MIN) & (divisor == -1), INT_MIN, data)
    return Column(Type.INT, valid & (b != 0), data)


def _compared(op: str, left: Column, right: Column) -> AnyColumn:
    valid = left.valid & right.valid
    if left.type is None or right.type is None or not left.type.like(right.type):
        return Column(Type.BOOL, valid, np.zeros(len(left), np.int64))
    if left.type is Type.STRING:
        return _pairwise(lambda a, b: compare(a, op, b), [left, right])
    if left.type is right.type:
        return Column(Type.BOOL, valid, _OPS[op](left.data, right.data).astype(np.int64))
    order = (
        _exact(left.data, right.data) if left.type is Type.INT else -_exact(right.data, left.data)
    )
    return Column(Type.BOOL, valid, _OPS[op](order, 0).astype(np.int64))


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
    folded = [t.lower() if name == "lower" else t.upper() for t in column.texts]
    return Column(Type.STRING, column.valid, column.data, folded)


def _pairwise(function: Callable[..., object], parts: list[Column]) -> AnyColumn:
    """A function of values, called once for each distinct combination."""
    if not parts:
        return undefined(0)
    keys = [np.where(p.valid, _codes(p), -1) for p in parts]
    rows = np.stack(keys, axis=1)
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    picked = [to_values(Column(p.type, p.valid[first], p.data[first], p.texts)) for p in parts]
    results = [function(*row) for row in zip(*picked, strict=True)]
    found = from_values(results)
    which = which.reshape(-1)
    if isinstance(found, Column):
        return Column(found.type, found.valid[which], found.data[which], found.texts)
    return type(found)([found.values[i] for i in which.tolist()])


def _codes(column: Column) -> Any:
    if column.type is Type.STRING:
        return column.data.astype(np.int64)
    return np.unique(column.data, return_inverse=True)[1].reshape(-1)
