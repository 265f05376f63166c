"""Arithmetic, calls and comparisons of terms as Columns, with the meaning of `logic.terms`.

Spark's own arithmetic raises on overflow and on division by zero (ANSI), compares an int with a
double as doubles, and takes NaN for the largest number. None of that happens here.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.language.functions import ADDRESSES, CALENDAR
from tamis.logic import FUNCTIONS
from tamis.schema import INT_MIN, Type
from tamis.spark.native.borrowed import cased
from tamis.spark.native.native_values import DAY, NotNative, Value, micros, undefined

_MINUTE = 60_000_000  # microseconds
_WIDE = "decimal(20,0)"  # 64 bits, and products of two such fit into the widest decimal
_TRY: dict[str, Callable[[Column, Column], Column]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
}


def arithmetic(op: str, left: Value, right: Value) -> Value:
    if not _is_number(left) or not _is_number(right):
        return undefined(None)
    if left.type is right.type is Type.INT and op != "/":
        return _integers(op, _long(left.column), _long(right.column))
    a, b = left.column.cast("double"), right.column.cast("double")
    # What is divided by zero is NULL for try_divide; inf - inf and the like are NaN.
    if op == "%":
        result = a % F.nullif(b, F.lit(0.0))
    else:
        result = F.try_divide(a, b) if op in ("/", "DIV") else _apply(op, a, b)
    return Value(result, Type.DOUBLE, may_be_nan=True)


def _integers(op: str, a: Column, b: Column) -> Value:
    if op == "%":
        return Value(a % F.nullif(b, F.lit(0).cast("long")), Type.INT)
    if op == "DIV":
        quotient = F.call_function("div", a, F.nullif(b, F.lit(0).cast("long")))
        return Value(F.when(b == -1, _negated(a)).otherwise(quotient), Type.INT)
    exact = _apply(op, a.cast(_WIDE), b.cast(_WIDE))
    # Where 64 bits do not hold the result, or an operand is undefined, the second is asked.
    return Value(F.coalesce(_TRY[op](a, b), _wrapped(exact)), Type.INT)


def _apply(op: str, a: Column, b: Column) -> Column:
    return a + b if op == "+" else a - b if op == "-" else a * b


def _wrapped(exact: Column) -> Column:
    """A whole number into 64 bits, two's complement."""
    turn = F.lit(str(2**64)).cast(_WIDE)
    rest = F.pmod(exact.cast("decimal(38,0)"), turn)
    half = F.lit(str(2**63)).cast(_WIDE)
    return F.when(rest >= half, rest - turn).otherwise(rest).cast("long")


def negate(value: Value) -> Value:
    if value.type is Type.INT:
        return Value(_negated(_long(value.column)), Type.INT)
    if value.type is Type.DOUBLE:
        return Value(-value.column, Type.DOUBLE, may_be_nan=value.may_be_nan)
    return undefined(None)


def _negated(whole: Column) -> Column:
    # The smallest integer has no counterpart: it stays what it is.
    return F.coalesce(F.try_subtract(F.lit(0).cast("long"), whole), whole)


def call(name: str, arguments: list[Value], *, python: bool) -> Value:
    """A function that every selector knows; lower and upper only where `python` may do them:
    Java's Unicode may be of another version."""
    value = arguments[0]
    if name == "abs":
        return _absolute(value)
    if name == "coalesce":
        return _first_of(arguments)
    if name in CALENDAR:
        return _of_calendar(name, value)
    if value.type is not Type.STRING:
        return undefined(FUNCTIONS[name])
    if name in ADDRESSES:
        raise NotNative(f"{name}() has no expression in Spark")
    if name == "length":
        return Value(F.length(value.column).cast("long"), Type.INT)
    if name == "trim":
        return Value(F.trim(value.column), Type.STRING)
    if name == "substr":
        return _substr(*arguments)
    if python:
        return Value(cased(name, value.column), Type.STRING)
    raise NotNative(f"{name}() follows the Unicode of Python, which Java's may not be")


def _first_of(values: list[Value]) -> Value:
    kinds = {value.type for value in values}
    if len(kinds) > 1 or None in kinds:
        raise NotNative("coalesce() of values of several types")
    if len({value.clock for value in values}) > 1:
        values = [Value(F.timestamp_micros(micros(v)), Type.TIMESTAMP) for v in values]
    whole = F.coalesce(*(value.settled for value in values))
    return Value(whole, values[0].type, values[0].clock)


def _of_calendar(name: str, value: Value) -> Value:
    """A part of the moment in UTC, whatever the time zone of the session."""
    if value.type is not Type.TIMESTAMP:
        return undefined(Type.INT)
    since = micros(value)
    rest = F.pmod(since, F.lit(DAY).cast("long"))  # microseconds of the day
    if name in ("hour", "minute"):
        minutes = F.call_function("div", rest, F.lit(_MINUTE).cast("long"))
        hours = F.call_function("div", minutes, F.lit(60).cast("long"))
        return Value(hours if name == "hour" else minutes % 60, Type.INT)
    days = F.call_function("div", since - rest, F.lit(DAY).cast("long"))
    part: Callable[[Column], Column] = getattr(F, name)
    return Value(part(F.date_from_unix_date(days.cast("int"))).cast("long"), Type.INT)


def _substr(text: Value, start: Value, length: Value | None = None) -> Value:
    """From and to which character, in 64 bits; both inside of the text."""
    if start.type is not Type.INT or (length is not None and length.type is not Type.INT):
        return undefined(Type.STRING)
    size, first = F.length(text.column).cast("long"), _long(start.column)
    none = F.lit(0).cast("long")
    begin = F.when(first > 0, first - 1).when(first < 0, size + first).otherwise(none)
    end, there = size, text.defined & start.defined
    if length is not None:
        wanted = _long(length.column)
        end = F.coalesce(F.try_add(begin, wanted), F.when(wanted > 0, size).otherwise(none))
        there = there & length.defined
    begin, end = (F.least(F.greatest(at, none), size) for at in (begin, end))
    many = F.greatest(end - begin, none)
    part = F.call_function("substring", text.column, (begin + 1).cast("int"), many.cast("int"))
    return Value(F.when(there, part), Type.STRING)


def _absolute(value: Value) -> Value:
    if value.type is Type.INT:
        whole = _long(value.column)
        return Value(F.when(whole < 0, _negated(whole)).otherwise(whole), Type.INT)
    if value.type is Type.DOUBLE:
        return Value(F.abs(value.column), Type.DOUBLE, may_be_nan=value.may_be_nan)
    return undefined(None)


def _long(column: Column) -> Column:
    return column.cast("long")


def _is_number(value: Value) -> bool:
    return value.type is not None and value.type.numeric


# --- comparisons of two terms ------------------------------------------------------------


def compare(left: Value, op: str, right: Value) -> Column | None:
    """True where the comparison is; None where it never can be: unlike types are never equal."""
    if left.type is None or right.type is None or not left.type.like(right.type):
        return None
    if op in (">", ">="):
        return compare(right, "<" if op == ">" else "<=", left)
    kinds = (left.type, right.type)
    if kinds == (Type.INT, Type.DOUBLE):
        found = _exact(op, left.column, right.column)
    elif kinds == (Type.DOUBLE, Type.INT):
        flipped = {"<": ">", "<=": ">="}.get(op, op)
        found = _exact(flipped, right.column, left.column)
    else:
        found = _same(op, *_alike(left, right))
    if left.may_be_nan or right.may_be_nan:
        found = left.defined & right.defined & found
    return found


def _alike(left: Value, right: Value) -> tuple[Column, Column]:
    if left.clock != right.clock:
        return micros(left), micros(right)
    return left.column, right.column


def _same(op: str, a: Column, b: Column) -> Column:
    match op:
        case "=":
            return a == b
        case "<>":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
    return a >= b


def _exact(op: str, whole: Column, double: Column) -> Column:
    """An int against a double, beyond 2^53 too.

    Rounding keeps order: where the rounded int differs from the double, so does the int, in the
    same direction. Where it does not, the double is a whole number, and both compare as ints;
    only 2^63 is none of 64 bits, and larger than all of them.
    """
    near, back = whole.cast("double"), double.try_cast("long")
    beyond = double >= F.lit(float(-INT_MIN))
    tie = near == double
    match op:
        case "=":
            return tie & ~beyond & (whole == back)
        case "<>":
            return ~tie | beyond | (whole != back)
        case "<" | "<=":
            return (near < double) | (tie & (beyond | _same(op, whole, back)))
    return (near > double) | (tie & ~beyond & _same(op, whole, back))


def text_test(left: Value, op: str, right: Value) -> Column | None:
    """True where the test is; None where it never can be."""
    if left.type is not Type.STRING or right.type is not Type.STRING:
        return None
    match op:
        case "CONTAINS":
            return F.contains(left.column, right.column)
        case "WITHIN":
            return F.contains(right.column, left.column)
        case "STARTS WITH":
            return F.startswith(left.column, right.column)
    return F.endswith(left.column, right.column)
