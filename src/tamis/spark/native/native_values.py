"""Columns of Spark that hold the values of attributes and terms, with the type that Tamis gives.

Undefined is NULL, and for doubles also NaN: arithmetic carries either on, so that only who asks
whether a value is defined must look at both.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark

from tamis.logic.atoms import microseconds
from tamis.schema import Scalar, Schema, Shape, Type
from tamis.spark.dataframes.spark_types import attribute_of, find, type_of

Clock = Literal["timestamp", "date", "timestamp_ntz"]  # how Spark holds a moment
DAY = 86_400_000_000  # microseconds
FIRST = microseconds(datetime.datetime.min.replace(tzinfo=datetime.UTC))
LAST = microseconds(datetime.datetime.max.replace(tzinfo=datetime.UTC))
_EXACT_DIGITS = 15  # every decimal of so many digits survives the way to a double and back
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark notes that a string was declared as char(n)


class NotNative(Exception):  # noqa: N818 (a signal between planner and translation, not an error)
    """Spark has no expression that means exactly this; `str` says what."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a term is worth in each row. `type` is None for what compares with nothing."""

    column: Column
    type: Type | None
    clock: Clock = "timestamp"
    may_be_nan: bool = False

    @classmethod
    def of(cls, column: Column, given: spark.DataType) -> Value:
        """The value that a column of the type holds. Raises NotNative where rows may be misfits
        that Spark cannot tell."""
        kind = type_of(given)
        if isinstance(given, spark.DecimalType):
            return cls(*_decimal(column, given, kind))
        if isinstance(given, (spark.FloatType, spark.DoubleType)):
            return cls(column.cast("double"), kind, may_be_nan=True)
        if isinstance(given, spark.StringType):
            return cls(_binary(column, given), kind)
        if isinstance(given, spark.DateType):
            return cls(column, kind, clock="date")
        if isinstance(given, spark.TimestampNTZType):
            return cls(column, kind, clock="timestamp_ntz")
        return cls(column, kind)

    @property
    def defined(self) -> Column:
        there = self.column.isNotNull()
        return there & ~F.isnan(self.column) if self.may_be_nan else there

    @property
    def settled(self) -> Column:
        """The column with NULL wherever the value is undefined."""
        return F.when(~F.isnan(self.column), self.column) if self.may_be_nan else self.column


def _decimal(
    column: Column, given: spark.DecimalType, kind: Type | None
) -> tuple[Column, Type | None]:
    if kind is Type.INT:
        return column.cast("long"), kind
    if given.precision > _EXACT_DIGITS:
        raise NotNative(f"a {given.simpleString()} may have more digits than a double")
    return column.cast("double"), kind


def _binary(column: Column, given: spark.StringType) -> Column:
    """Strings by code point, whatever their collation."""
    if type(given) is not spark.StringType:  # char and varchar
        raise NotNative(f"Spark pads a {given.simpleString()} before it compares")
    return column if given == spark.StringType() else F.collate(column, "UTF8_BINARY")


def cases(branches: Iterable[tuple[Column, Column]], otherwise: Column | None = None) -> Column:
    """The value of the first branch whose condition is true; NULL, or `otherwise`, without one."""
    (condition, value), *more = branches
    found = F.when(condition, value)
    for condition, value in more:
        found = found.when(condition, value)
    return found if otherwise is None else found.otherwise(otherwise)


# --- attributes of a frame -----------------------------------------------------------


def attribute(messages: DataFrame, name: str, schema: Schema | None) -> Value | None:
    """Attribute `name` of the messages, of the schema's type; None where the frame has none."""
    found = find(messages, name)
    if found is None:
        return None
    if _PADDED in _metadata(messages, name):
        raise NotNative(f"column {name} was declared as char or varchar")
    own = None if schema is None or name not in schema else schema[name]
    held = attribute_of(found[1])
    if own is not None and own.shape is not Shape.SCALAR:
        raise NotNative(f"{name} is a {own.kind}")
    if held is not None and held.shape is not Shape.SCALAR:
        raise NotNative(f"{name} is a {held.kind}")
    value = Value.of(*found)
    wanted = None if schema is None or name not in schema else schema[name].type
    return value if wanted is None else _as(value, wanted, name)


def _metadata(messages: DataFrame, name: str) -> str:
    fields = messages.schema.fields
    own = next((f for f in fields if f.name == name), None)
    root = name.partition(".")[0]
    return next((f.json() for f in fields if f is own or (own is None and f.name == root)), "")


def _as(value: Value, wanted: Type, name: str) -> Value:
    if value.type is wanted:
        return value
    if value.type is Type.INT and wanted is Type.DOUBLE:
        return Value(value.column.cast("double"), wanted)
    if value.type is Type.DOUBLE and wanted is Type.INT:
        raise NotNative(f"column {name} has doubles, and the schema says int")
    if value.type is Type.STRING and wanted is Type.TIMESTAMP:
        raise NotNative(f"column {name} has texts, and the schema says timestamp")
    return undefined(wanted)  # a column without a type has no value; others were refused before


# --- constants -----------------------------------------------------------------------


def literal(constant: Scalar) -> Value:
    match constant:
        case bool():
            return Value(F.lit(constant), Type.BOOL)
        case int():
            return Value(F.lit(constant).cast("long"), Type.INT)
        case float():
            return Value(F.lit(constant), Type.DOUBLE)
        case str():
            return Value(F.lit(constant), Type.STRING)
    return Value(moment(microseconds(constant), "timestamp"), Type.TIMESTAMP)


def undefined(kind: Type | None) -> Value:
    column = F.lit(None)
    return Value(column if kind is None else column.cast(SPARK_TYPES[kind]), kind)


SPARK_TYPES: dict[Type, str] = {
    Type.INT: "long",
    Type.DOUBLE: "double",
    Type.STRING: "string",
    Type.BOOL: "boolean",
    Type.TIMESTAMP: "timestamp",
}


def moment(micros: int, clock: Clock) -> Column:
    """A constant of the clock's type: of dates, the first that is not before the moment."""
    if clock == "timestamp":
        return F.timestamp_micros(F.lit(micros).cast("long"))
    if clock == "date":
        return F.date_from_unix_date(F.lit(-(-micros // DAY)))
    when = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    return F.expr(f"TIMESTAMP_NTZ '{when.isoformat(' ')}'")


def micros(value: Value) -> Column:
    """A moment as microseconds since 1970, in UTC; NULL where 64 bits do not hold them."""
    match value.clock:
        case "timestamp":
            return F.unix_micros(value.column)
        case "date":
            return F.try_multiply(F.unix_date(value.column).cast("long"), F.lit(DAY).cast("long"))
    since = value.column - moment(0, "timestamp_ntz")
    return (since.cast("decimal(24,6)") * F.lit(1_000_000)).cast("long")
