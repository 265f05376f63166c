"""Types of CSV and JSON columns by most of their values; what does not fit is a malformed row.

Spark makes a whole column text if a single value of it does not fit the others. Then every
selector that compares the column with a number is refused, because of one bad row. Here the type
is the one that most values have. Spark keeps the text of a row that cannot be read in a column of
its own, which the job reports as a bad row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark

from tamis.spark.dataframes.spark_types import quoted

MALFORMED = "_corrupt_record"  # Spark's name for the column with the text of a malformed row
SAMPLE = 10_000  # rows whose values decide
_DATE = r"^\d{4}-\d{2}-\d{2}"
_JSON_TYPES: Mapping[type, spark.DataType] = {
    bool: spark.BooleanType(),
    int: spark.LongType(),
    float: spark.DoubleType(),
}


def retyped(schema: spark.StructType, types: Mapping[str, spark.DataType]) -> spark.StructType:
    """The schema with these types, and with the column for malformed rows."""
    fields = [
        spark.StructField(field.name, types.get(field.name, field.dataType))
        for field in schema
        if field.name != MALFORMED
    ]
    return spark.StructType([*fields, spark.StructField(MALFORMED, spark.StringType())])


def with_numbers(inferred: spark.StructType) -> spark.StructType:
    """Columns of subscriptions: numbers are numbers, so that 9 comes before 100; the rest is text,
    ids, selectors and subscribers always."""
    fixed = ("id", "selector", "subscriber")
    return spark.StructType(
        [
            field
            if isinstance(field.dataType, spark.NumericType) and field.name not in fixed
            else spark.StructField(field.name, spark.StringType())
            for field in inferred
        ]
    )


def texts(schema: spark.StructType) -> list[str]:
    return [field.name for field in schema if isinstance(field.dataType, spark.StringType)]


def csv_types(values: DataFrame, names: list[str]) -> dict[str, spark.DataType]:
    """The type of each named text column, if most of its first values have another type."""
    if not names:
        return {}
    questions: dict[str, Callable[[Column], Column]] = {
        "all": lambda cell: cell.isNotNull(),
        "whole": lambda cell: cell.try_cast("bigint").isNotNull(),
        "number": lambda cell: cell.try_cast("double").isNotNull(),
        "flag": lambda cell: F.lower(cell).isin("true", "false"),
        "time": lambda cell: cell.rlike(_DATE) & cell.try_cast("timestamp").isNotNull(),
    }
    sums: list[Column] = []
    for place, name in enumerate(names):
        cell = F.trim(F.col(quoted(name)))
        sums += [F.count_if(ask(cell)).alias(f"{kind}{place}") for kind, ask in questions.items()]
    counts = values.limit(SAMPLE).agg(*sums).first()
    assert counts is not None
    found = {
        name: _csv_type(*(counts[f"{kind}{place}"] for kind in questions))
        for place, name in enumerate(names)
    }
    return {name: kind for name, kind in found.items() if kind is not None}


def _csv_type(every: int, whole: int, number: int, flag: int, time: int) -> spark.DataType | None:
    if 2 * number > every:
        return spark.LongType() if whole == number else spark.DoubleType()
    if 2 * flag > every:
        return spark.BooleanType()
    return spark.TimestampType() if 2 * time > every else None


def json_types(lines: Iterable[str], names: list[str]) -> dict[str, spark.DataType]:
    """The same for JSON lines, where a quoted number is a text."""
    counts = {name: Counter[type]() for name in names}
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            for name in row.keys() & counts.keys():
                counts[name][type(row[name])] += 1
    found = {name: _json_type(count) for name, count in counts.items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def _json_type(count: Counter[type]) -> spark.DataType | None:
    every = count.total() - count[type(None)]
    if count[float] and 2 * (count[int] + count[float]) > every:
        return spark.DoubleType()
    return next((kind for type, kind in _JSON_TYPES.items() if 2 * count[type] > every), None)
