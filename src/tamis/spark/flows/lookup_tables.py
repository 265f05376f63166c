"""The tables of lookups as frames that every worker gets: mappings, files, frames."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.errors import InputError
from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.model.elements import Lookup
from tamis.flow.model.lookups import at_lookup, table
from tamis.schema import Schema, Type
from tamis.spark.flows.flow_rows import rows_of
from tamis.spark.flows.step_columns import Tables

_ARROW = {
    Type.INT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOL: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us", "UTC"),
}


def table_frames(
    graph: Graph,
    sources: Mapping[str, DataFrame],
    given: Mapping[str, Any],
    folder: str | os.PathLike[str] = ".",
) -> Tables:
    """A frame for each lookup of the flow; the session is that of the sources."""
    check_sources(graph, sources)
    spark = next(iter(sources.values())).sparkSession
    for name in given:
        if name not in graph.lookups:
            known = ", ".join(graph.lookups) or "none"
            raise InputError(f"the flow declares no lookup {name}; it has {known}")
    frames = {
        name: _frame(spark, lookup, given.get(name), folder, graph.flow.text)
        for name, lookup in graph.lookups.items()
    }
    return Tables(graph.lookups, frames)


def check_sources(graph: Graph, sources: Mapping[str, DataFrame]) -> None:
    if not sources:
        raise InputError("a flow needs a source: give a frame for one of its spaces at least")
    for space in sources:
        graph.space(space)
        if space not in graph.published:
            raise InputError(f"nothing can be published in {space}: it is not declared")


def _frame(
    spark: SparkSession, lookup: Lookup, given: Any, folder: str | os.PathLike[str], text: str
) -> DataFrame:
    if isinstance(given, DataFrame):
        return _checked(lookup, given, text)
    found = table(lookup, given, folder, text)
    columns = {
        "key": pa.array(list(found), _ARROW[lookup.key]),
        "value": pa.array(list(found.values()), _ARROW[lookup.value]),
    }
    return spark.createDataFrame(pa.table(columns))


def _checked(lookup: Lookup, frame: DataFrame, text: str) -> DataFrame:
    """A frame with key and value of the declared types, in which each key is there once."""
    try:
        rows = rows_of(lookup.title, frame, Schema.of(key=lookup.key, value=lookup.value))
    except InputError as error:
        raise at_lookup(lookup, str(error), text) from None
    if rows.bad is not None and (bad := rows.bad.first()) is not None:
        raise at_lookup(lookup, f"{bad.reason}: {bad.row}", text)
    good = rows.good
    twice = good.groupBy("key").count().where((F.col("count") > 1) | F.col("key").isNull()).first()
    if twice is not None and twice.key is None:
        raise at_lookup(lookup, "a key is undefined", text)
    if twice is not None:
        raise at_lookup(lookup, f"the key {twice.key!r} is there twice", text)
    if lookup.value is Type.DOUBLE:
        good = good.withColumn("value", F.when(~F.isnan("value"), F.col("value")))
    return good
