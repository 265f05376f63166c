"""A flow arc by arc: every space a frame, every arc its steps, merging by union."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame

from tamis.flow.graphs.flow_graph import Graph, TypedArc
from tamis.flow.model.expressions import not_true
from tamis.language import Attribute
from tamis.spark.dataframes.spark_types import quoted
from tamis.spark.flows.counting import Counting
from tamis.spark.flows.flow_rows import rows_of
from tamis.spark.flows.lookup_tables import table_frames
from tamis.spark.flows.step_columns import Flowing, Tables
from tamis.spark.flows.streams import Streams, broken, rejection


def arc_by_arc(
    graph: Graph,
    sources: Mapping[str, DataFrame],
    lookups: Mapping[str, object] | None = None,
    wanted: Iterable[str] | None = None,
    *,
    folder: str | os.PathLike[str] = ".",
    counting: Counting | None = None,
) -> Streams:
    """The frames of the spaces, as the flow is written."""
    tables = table_frames(graph, sources, lookups or {}, folder)
    flowing: dict[str, Flowing] = {}
    rejected: list[DataFrame] = []
    for space, schema in graph.schemas.items():
        parts = [_sent(arc, flowing[arc.source]) for arc in graph.into(space)]
        if space in sources:
            rows = rows_of(space, sources[space], schema)
            found = Flowing(rows.good, schema, tables, may_be_nan=True)
            frame = rows.good if counting is None else counting.source(space, found)
            parts.append(replace(found, frame=frame).plain())
            rejected += [rows.bad] if rows.bad is not None else []
        if parts:
            flowing[space] = _merged(parts, tables)
            flowing[space], bad = _fitting(graph, space, flowing[space])
            rejected += bad
    chosen = graph.derived if wanted is None else tuple(wanted)
    frames = {space: _settled(flowing[space]) for space in chosen if space in flowing}
    return Streams(graph, frames, _union(rejected))


def _sent(arc: TypedArc, before: Flowing) -> Flowing:
    found = before
    for step, after in zip(arc.steps, arc.schemas[1:], strict=True):
        found = found.stepped(step, after)
    return found


def _merged(parts: list[Flowing], tables: Tables) -> Flowing:
    frame = reduce(DataFrame.unionByName, (part.frame for part in parts))
    schema = parts[0].schema
    return Flowing(frame, schema, tables, may_be_nan=any(part.may_be_nan for part in parts))


def _fitting(graph: Graph, space: str, found: Flowing) -> tuple[Flowing, list[DataFrame]]:
    where = graph.where(space)
    if where is None:
        return found, []
    bad = _settled(found.selected(not_true(where)))
    told = rejection(bad, space, broken(graph, space), found.schema)
    return found.selected(where), [told]


def _settled(found: Flowing) -> DataFrame:
    """The messages with NULL for NaN, in the order of the schema."""
    if not found.may_be_nan:
        return found.frame.select(*(quoted(name) for name in found.schema))
    values = found.translation
    return found.frame.select(*(values.term(Attribute(n)).alias(n) for n in found.schema))


def _union(frames: list[DataFrame]) -> DataFrame | None:
    return reduce(DataFrame.unionByName, frames) if frames else None
