"""What a match carries, on its way to the workers: a file beside the subscriptions."""

from __future__ import annotations

import pickle
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type

from tamis.engine import Details
from tamis.engine.details import NOW
from tamis.errors import InputError
from tamis.schema import Schema
from tamis.spark.dataframes.spark_types import argument
from tamis.spark.workers.shipping import Shipment, folder, send

if TYPE_CHECKING:
    from tamis.spark.message_questions import Options

_NAMES = ("carry", "order_by", "first", "limit", "valid_at")
_PLAIN = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.null(): pa.string(),
}


def wanted(options: Options) -> bool:
    """Whether a match carries more than its id."""
    return any(_is_set(options.get(name)) for name in _NAMES)


def _is_set(value: object) -> bool:
    """A limit of 0 is set, though it equals False: it is refused later."""
    return value is not None and value is not False and value not in ((), [], "")


def columns(options: Options) -> list[str]:
    """The columns of the subscriptions that may be needed."""
    order = options.get("order_by") or ()
    said = [order] if isinstance(order, str) else list(order)
    names = [name for text in said for name in (text, text.rpartition(" ")[0].strip())]
    gates = ["valid_from", "valid_to"] if options.get("valid_at") else []
    return [name for name in dict.fromkeys((*(options.get("carry") or ()), *names, *gates)) if name]


def details_of(rows: Any, options: Options) -> Details:
    """Of a table of subscriptions, or of the one that the options give."""
    given = options.get("details", rows)
    if isinstance(given, DataFrame):
        held = [name for name in ("id", *columns(options)) if name in given.columns]
        given = given.select(*(F.col(f"`{name}`") for name in dict.fromkeys(held))).toArrow()
    made = Details(
        given,
        carry=options.get("carry") or (),
        order_by=options.get("order_by") or (),
        limit=options.get("limit"),
        first=bool(options.get("first")),
        valid_at=options.get("valid_at"),
    )
    for name, column in made.carried.items():
        made.carried[name] = _as_spark(name, column)
    return made


def _as_spark(name: str, column: pa.Array) -> pa.Array:
    """In the type that Spark has for it."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", "UTC" if kind.tz else None)
    kind = _PLAIN.get(kind, kind)
    try:
        from_arrow_type(kind, prefer_timestamp_ntz=True)
        return column.cast(kind)
    except (PySparkException, pa.ArrowException):
        raise InputError(f"carry: Spark has no type for column {name}: {column.type}") from None


def fields(details: Details) -> list[spark.StructField]:
    """The carried columns, as Spark knows them."""
    return [
        spark.StructField(name, from_arrow_type(column.type, prefer_timestamp_ntz=True))
        for name, column in details.carried.items()
    ]


def time_column(messages: DataFrame, details: Details, schema: Schema | None) -> dict[str, Column]:
    """The column with the time at which subscriptions must be valid, by its name."""
    name = details.valid_at
    if name is None:
        return {}
    if name == NOW:  # one moment for a whole query, and for a micro-batch, also when it is replayed
        return {NOW: F.current_timestamp()}
    known = schema if schema is not None and name in schema else None
    column = argument(messages, name, known)
    if column is None:
        raise InputError(f"valid_at: the messages have no column {name}")
    return {name: column}


def ship_details(session: SparkSession, details: Details) -> Shipment:
    path = folder() / f"tamis-{uuid.uuid4().hex}.details"
    path.write_bytes(pickle.dumps(details, pickle.HIGHEST_PROTOCOL))
    return send(session, path)
