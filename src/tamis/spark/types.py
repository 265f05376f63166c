"""Spark's types as those of Tamis, and how an attribute is read from a frame."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark

from tamis.errors import InputError
from tamis.schema import Schema, Type

_WHOLE_DIGITS = 18  # every decimal of so many digits and no fraction is a 64-bit integer
_TYPES: tuple[tuple[tuple[type[spark.DataType], ...], Type], ...] = (
    ((spark.BooleanType,), Type.BOOL),
    ((spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType), Type.INT),
    ((spark.FloatType, spark.DoubleType, spark.DecimalType), Type.DOUBLE),
    ((spark.StringType, spark.CharType, spark.VarcharType), Type.STRING),
    ((spark.DateType, spark.TimestampType, spark.TimestampNTZType), Type.TIMESTAMP),
)


def type_of(found: spark.DataType) -> Type | None:
    """The type that Tamis gives to a column; None for one that compares with nothing."""
    if _whole(found):
        return Type.INT
    return next((kind for types, kind in _TYPES if isinstance(found, types)), None)


def _whole(found: spark.DataType) -> bool:
    return (
        isinstance(found, spark.DecimalType)
        and found.scale == 0
        and found.precision <= _WHOLE_DIGITS
    )


def schema_of(messages: DataFrame) -> Schema:
    """The attributes of a frame's rows; the fields of structs by dotted name.

    As in any message, an exact name wins over a nested one, and a dot inside the name of a
    struct or of its field is not nesting.
    """
    types: dict[str, object] = {}
    for field in messages.schema:
        if (kind := type_of(field.dataType)) is not None:
            types.setdefault(field.name, kind)
    exact = set(messages.schema.names)
    for name, kind in _nested(messages.schema, ""):
        if name not in exact:
            types.setdefault(name, kind)
    return Schema.of(types)


def _nested(struct: spark.StructType, prefix: str) -> Iterator[tuple[str, Type]]:
    for field in struct:
        if "." in field.name:
            continue
        if isinstance(field.dataType, spark.StructType):
            yield from _nested(field.dataType, f"{prefix}{field.name}.")
        elif prefix and (kind := type_of(field.dataType)) is not None:
            yield prefix + field.name, kind


def find(messages: DataFrame, name: str) -> tuple[Column, spark.DataType] | None:
    """The column of attribute `name` and its type; None where the frame has none."""
    found = _field(messages.schema, name)
    if found is not None:
        return F.col(_quoted(name)), found
    inner: spark.DataType | None = messages.schema
    path = name.split(".")
    for part in path:
        inner = _field(inner, part) if isinstance(inner, spark.StructType) else None
    return None if inner is None else (F.col(".".join(map(_quoted, path))), inner)


def _field(struct: spark.StructType, name: str) -> spark.DataType | None:
    return next((field.dataType for field in struct if field.name == name), None)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def argument(messages: DataFrame, name: str, schema: Schema | None) -> Column | None:
    """Attribute `name` as it goes to Python; None where the frame has no such column.

    Of a column that compares with nothing only that it is there goes, not what it holds.
    """
    found = find(messages, name)
    if found is None:
        return None
    column, given = found
    kind, wanted = type_of(given), None if schema is None else schema[name].type
    if wanted is not None and not fits(given, wanted):
        shown = given.simpleString()
        raise InputError(f"column {name} is of type {shown}, the schema says {wanted.value}")
    if kind is None:
        return F.when(column.isNotNull(), F.lit(b""))
    if isinstance(given, spark.DecimalType) and _whole(given) and wanted is not Type.DOUBLE:
        return column.cast("long")
    return column


def fits(given: spark.DataType, wanted: Type) -> bool:
    """Whether a column can be read as an attribute of type `wanted`."""
    kind = type_of(given)
    return isinstance(given, spark.NullType) or (kind is not None and kind.like(wanted))
