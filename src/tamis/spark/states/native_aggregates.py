"""Summaries that Spark can aggregate by itself, in a batch: no Python worker at all."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.flow.states.definitions.keyed import LAST
from tamis.flow.states.definitions.orderless import Aggregate, aggregates
from tamis.flow.states.definitions.scope import EVENT
from tamis.flow.states.definitions.summary import Summary
from tamis.schema import Schema, Type
from tamis.spark.dataframes.spark_types import quoted
from tamis.spark.native import Translation, Value
from tamis.spark.native.native_values import SPARK_TYPES, NotNative, literal

_ORDER = "__tamis_order__"


def aggregated(events: DataFrame, summary: Summary) -> DataFrame | None:
    """The states as native aggregates; None where the fold is needed. Events have their types."""
    told = aggregates(summary)
    if told is None:
        return None
    try:
        worth = {name: _translation(summary).term(one.term) for name, one in told.items()}
    except NotNative:
        return None
    order = F.struct(*(F.col(quoted(n)) for n in summary.order))
    first = F.col(quoted(summary.order[0]))
    columns = [_component(summary, name, one, worth[name], order) for name, one in told.items()]
    last = F.max(F.when(first.isNotNull(), order)).alias(_ORDER)
    grouped = events.groupBy(*(quoted(n) for n in summary.key)).agg(*columns, last)
    orders = [F.col(f"{_ORDER}.{quoted(n)}").alias(LAST + n) for n in summary.order]
    return grouped.select(*(quoted(n) for n in (*summary.key, *told)), *orders)


def _translation(summary: Summary) -> Translation:
    def find(name: str) -> Value | None:
        bare = name.removeprefix(EVENT)
        kind = summary.events[bare].type
        return Value(F.col(quoted(bare)), kind, may_be_nan=kind is Type.DOUBLE)

    full = Schema(tuple(a for a in summary.scope.full.attributes if a.name.startswith(EVENT)))
    return Translation(find, "sql", full, {}, python=False)


def _component(
    summary: Summary, name: str, told: Aggregate, worth: Column, order: Column
) -> Column:
    kind = summary.scalars[name].type
    first = summary.initial[name]
    start = literal(first).column if first is not None else None  # type: ignore[arg-type]
    if told.kind == "latest":
        found = F.max_by(worth, order)
    elif told.kind == "sum":
        exact = F.sum(worth.cast("decimal(38,0)")) + F.lit(first).cast("decimal(38,0)")
        found = F.when(F.count(worth) == F.count(F.lit(1)), _wrapped(exact))
    else:
        best = F.max(worth) if told.kind == "highest" else F.min(worth)
        join = F.greatest if told.kind == "highest" else F.least
        assert start is not None
        found = join(best, start.cast(SPARK_TYPES[kind]))
    return found.cast(SPARK_TYPES[kind]).alias(name)


def _wrapped(exact: Column) -> Column:
    """Into 64 bits, two's complement."""
    top, all_of_them = (F.lit(str(2**n)).cast("decimal(38,0)") for n in (63, 64))
    return (F.pmod(exact + top, all_of_them) - top).cast("bigint")
