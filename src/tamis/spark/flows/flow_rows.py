"""Frames as messages of a space: columns of the declared types, and the rows that do not fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark

from tamis.errors import InputError
from tamis.schema import Schema, Type
from tamis.spark.dataframes.spark_types import find, fits, quoted, type_of
from tamis.spark.native.native_values import SPARK_TYPES, Value, micros

CORRUPT = "__tamis_corrupt__"  # what a reader of JSON or CSV could not read
ERRORS = ("space", "reason", "row")  # the columns of the error output
_SIMPLE: dict[spark.DataType, str] = {
    spark.LongType(): "long",
    spark.DoubleType(): "double",
    spark.StringType(): "string",
    spark.BooleanType(): "boolean",
    spark.TimestampType(): "timestamp",
}
_LEAST, _BEYOND = -(2.0**63), 2.0**63


@dataclass(frozen=True, slots=True)
class Rows:
    """The messages of one space, and the rows that do not fit its schema, if there can be any."""

    good: DataFrame
    bad: DataFrame | None = None


def rows_of(space: str, frame: DataFrame, schema: Schema) -> Rows:
    """The rows of a frame as messages of the space. Undefined is NULL; NaN may still be there."""
    _check_case(space, schema)
    if _exact(frame, schema):
        return Rows(frame)
    values: list[Column] = []
    reasons: list[tuple[Column, str]] = []
    if CORRUPT in frame.columns:
        reasons.append((_corrupt(frame), "it cannot be read as what the space says"))
    for attribute in schema.attributes:
        column, misfit = _column(space, frame, attribute.name, attribute.type)
        values.append(column.alias(attribute.name))
        if misfit is not None:
            shown = attribute.type.value
            reasons.append((misfit, f"{attribute.name} is not of type {shown}"))
    if not reasons:
        return Rows(frame.select(*values))
    wrong = reduce(or_, (F.coalesce(misfit, F.lit(False)) for misfit, _ in reasons))
    return Rows(frame.where(~wrong).select(*values), _rejected(space, frame.where(wrong), reasons))


def _exact(frame: DataFrame, schema: Schema) -> bool:
    """Whether the frame has just the columns of the schema, each as flows hold it."""
    wanted = [(a.name, SPARK_TYPES[a.type]) for a in schema.attributes]
    return wanted == [(f.name, _SIMPLE.get(f.dataType)) for f in frame.schema]


def _corrupt(frame: DataFrame) -> Column:
    """Where a reader met what it could not read.

    It looks only at columns that somebody asks for; so ask for all, in a way that is never true.
    """
    asked = F.hash(*(F.col(quoted(name)) for name in frame.columns))
    return F.col(CORRUPT).isNotNull() | (F.pmod(asked, F.lit(2)) > F.lit(2))


def _check_case(space: str, schema: Schema) -> None:
    seen: dict[str, str] = {}
    for name in schema:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InputError(f"space {space}: Spark takes the columns {other} and {name} for one")


def _column(space: str, frame: DataFrame, name: str, kind: Type) -> tuple[Column, Column | None]:
    """The attribute as a column of its type, and where it does not fit."""
    found = find(frame, name)
    if found is None:
        given = ", ".join(frame.columns)
        raise InputError(f"the source of space {space} has no column {name}; it has {given}")
    column, given_type = found
    if not fits(given_type, kind):
        shown = given_type.simpleString()
        raise InputError(
            f"the source of space {space}: column {name} is {shown}, the space says {kind.value}"
        )
    if kind is Type.INT and type_of(given_type) is Type.DOUBLE:
        return _whole(column.cast("double"))
    return _cast(column, given_type, kind), None


def _cast(column: Column, given: spark.DataType, kind: Type) -> Column:
    if isinstance(given, (spark.DateType, spark.TimestampNTZType)):
        return F.timestamp_micros(micros(Value.of(column, given)))
    if kind is Type.STRING and given != spark.StringType():
        return F.collate(column.cast("string"), "UTF8_BINARY")
    return column.cast(SPARK_TYPES[kind])


def _whole(column: Column) -> tuple[Column, Column]:
    """Doubles for an int: whole numbers of 64 bits fit, NaN is undefined."""
    there = column.isNotNull() & ~F.isnan(column)
    small = (column >= F.lit(_LEAST)) & (column < F.lit(_BEYOND))
    fit = small & (F.try_mod(column, F.lit(1.0)) == F.lit(0.0))
    return F.when(there & fit, column.try_cast("long")), there & ~fit


def _rejected(space: str, frame: DataFrame, reasons: list[tuple[Column, str]]) -> DataFrame:
    told = [F.when(misfit, F.lit(reason)) for misfit, reason in reasons]
    row = F.to_json(F.struct(*(F.col(quoted(name)) for name in frame.columns)))
    return frame.select(
        F.lit(space).alias("space"), F.concat_ws("; ", *told).alias("reason"), row.alias("row")
    )
