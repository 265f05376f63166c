"""Spark's types as those of Tamis, and how an attribute is read from a frame."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark

from tamis.errors import InputError
from tamis.schema import Attribute, Schema, Shape, Type

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


def attribute_of(found: spark.DataType) -> Attribute | None:
    """The attribute (without a name) that a column is; None for one that nobody can read."""
    shape, inner = Shape.SCALAR, found
    if isinstance(found, spark.ArrayType):
        shape, inner = Shape.LIST, found.elementType
    elif isinstance(found, spark.MapType) and isinstance(found.keyType, spark.StringType):
        shape, inner = Shape.MAP, found.valueType
    kind = type_of(inner)
    return None if kind is None else Attribute("", kind, None, shape)


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
    types: dict[str, Attribute] = {}
    unread: dict[str, str] = {}
    exact = [(field.name, field.dataType) for field in messages.schema]
    names = set(messages.schema.names)
    nested = [(n, given) for n, given in _nested(messages.schema, "") if n not in names]
    for name, given in (*exact, *nested):
        if (found := attribute_of(given)) is not None:
            types.setdefault(name, found)
        else:
            unread[name] = given.simpleString()
    return Schema(Schema.of(types).attributes, unread)


def _nested(struct: spark.StructType, prefix: str) -> Iterator[tuple[str, spark.DataType]]:
    for field in struct:
        if "." in field.name:
            continue
        held = field.dataType
        if isinstance(held, spark.StructType):
            yield from _nested(held, f"{prefix}{field.name}.")
        elif prefix:
            yield prefix + field.name, held
        if isinstance(held, spark.ArrayType) and isinstance(held.elementType, spark.StructType):
            for inner in held.elementType:
                if "." not in inner.name:
                    yield f"{prefix}{field.name}.{inner.name}", spark.ArrayType(inner.dataType)


def find(messages: DataFrame, name: str) -> tuple[Column, spark.DataType] | None:
    """The column of attribute `name` and its type; None where the frame has none."""
    found = _field(messages.schema, name)
    _refuse_ambiguous(messages, messages.schema, name if found else name.split(".")[0])
    if found is not None:
        return F.col(quoted(name)), found
    inner: spark.DataType | None = messages.schema
    path = name.split(".")
    listed = False
    for part in path:
        if isinstance(inner, spark.ArrayType) and not listed:
            listed, inner = True, inner.elementType
        inner = _field(inner, part) if isinstance(inner, spark.StructType) else None
    if inner is None:
        return None
    return F.col(".".join(map(quoted, path))), spark.ArrayType(inner) if listed else inner


def _refuse_ambiguous(messages: DataFrame, struct: spark.StructType, name: str) -> None:
    """Spark cannot tell columns of one name apart, nor, mostly, names that differ in case."""
    if sum(field.name.lower() == name.lower() for field in struct) < 2:
        return
    exact = str(messages.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
    same = [
        f.name for f in struct if f.name == name or (not exact and f.name.lower() == name.lower())
    ]
    if len(same) > 1 and name in same:
        raise InputError(
            f"the messages have the columns {' and '.join(same)}, which Spark cannot tell apart: "
            "rename or drop all but one"
        )


def _field(struct: spark.StructType, name: str) -> spark.DataType | None:
    return next((field.dataType for field in struct if field.name == name), None)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def argument(messages: DataFrame, name: str, schema: Schema | None) -> Column | None:
    """Attribute `name` as it goes to Python; None where the frame has no such column. Texts go
    there for timestamps: workers read them.

    Of a column that compares with nothing only that it is there goes, not what it holds.
    """
    found = find(messages, name)
    if found is None:
        return None
    column, given = found
    own = None if schema is None else schema[name]
    kind, wanted = type_of(given), None if own is None else own.type
    if own is not None and not _fits_attribute(given, own):
        shown = given.simpleString()
        raise InputError(f"column {name} is of type {shown}, the schema says {own.kind}")
    if (found_as := attribute_of(given)) is not None and found_as.shape is not Shape.SCALAR:
        return column
    if kind is None:
        return F.when(column.isNotNull(), F.lit(b""))
    if isinstance(given, spark.DecimalType) and _whole(given) and wanted is not Type.DOUBLE:
        return column.cast("long")
    return column


def _fits_attribute(given: spark.DataType, own: Attribute) -> bool:
    if isinstance(given, spark.NullType):
        return True
    found = attribute_of(given)
    if found is None or found.shape is not own.shape:
        return False
    return found.type.like(own.type) or (found.type, own.type) == (Type.STRING, Type.TIMESTAMP)


def fits(given: spark.DataType, wanted: Type) -> bool:
    """Whether a column can be read as an attribute of type `wanted`."""
    kind = type_of(given)
    return isinstance(given, spark.NullType) or (kind is not None and kind.like(wanted))
