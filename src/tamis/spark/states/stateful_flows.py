"""A flow with states on Spark: micro-batch by micro-batch, each exactly once.

All that a batch writes has a place of its own: states by bucket and batch, events and messages in
`batch=N` of their folder. A batch that is done again writes the same places once more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.errors import InputError
from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.graphs.wiring import StateNode
from tamis.flow.states.batches.state_store import Counters
from tamis.flow.states.batches.trigger import Output
from tamis.spark.dataframes.spark_types import quoted
from tamis.spark.flows import rewritten
from tamis.spark.flows.streams import Streams
from tamis.spark.native.native_values import SPARK_TYPES
from tamis.spark.states.state_streams import StateStream, emitted

REJECTED = "_rejected"
_TAG = "__tamis_source__"


@dataclass
class StatefulFlow:
    """A checked flow, and where it keeps what it makes.

    `folder/states/NAME` has the versions of each state, `folder/events/SPACE` what is expanded.
    `outputs` are folders for further spaces, written as Parquet by batch; `rejected` one for the
    rows that do not fit (space, reason, row).
    """

    graph: Graph
    folder: str
    outputs: Mapping[str, str] = field(default_factory=dict)
    lookups: Mapping[str, object] = field(default_factory=dict)
    rejected: str | None = None
    buckets: int | None = None
    lookup_folder: str | os.PathLike[str] = "."
    on_batch: Callable[[int, Mapping[str, Counters]], None] | None = None

    def __post_init__(self) -> None:
        for space in self.outputs:
            self.graph.space(space)
        self._streams = {node.name: self._stream(node) for node in self.graph.states}

    def _stream(self, node: StateNode) -> StateStream:
        expand = tuple(
            Output(self.events_of(e.target), e.through, e.summary) for e in node.expansions
        )
        return StateStream(node.summary, self.states_of(node.name), expand, self.buckets)

    def states_of(self, state: str) -> str:
        return str(Path(self.folder) / "states" / state)

    def events_of(self, space: str) -> str:
        return str(Path(self.folder) / "events" / space)

    # --- one micro-batch ---------------------------------------------------------------

    def batch(self, sources: Mapping[str, DataFrame], number: int) -> dict[str, Counters]:
        """Fold every state, expand it, and write the outputs; what each state has seen."""
        given, counted = self.folded(sources, number)
        self._write(given, number)
        if self.on_batch is not None:
            self.on_batch(number, counted)
        return counted

    def folded(
        self, sources: Mapping[str, DataFrame], number: int
    ) -> tuple[dict[str, DataFrame], dict[str, Counters]]:
        """Fold every state; the sources together with what was expanded, and the counts."""
        given = dict(sources)
        spark = next(iter(given.values())).sparkSession
        counted: dict[str, Counters] = {}
        for node in self.graph.states:
            events = self._spaces(given, [node.source], errors=False)[node.source]
            counted[node.name] = self._streams[node.name].fold(events, number)
            for expansion in node.expansions:
                given[expansion.target] = self._expanded(spark, expansion.target, number)
        return given, counted

    def _spaces(
        self, given: Mapping[str, DataFrame], wanted: Iterable[str], *, errors: bool
    ) -> Streams:
        return rewritten(
            self.graph, given, self.lookups, list(wanted), errors=errors, folder=self.lookup_folder
        )

    def _expanded(self, spark: SparkSession, space: str, number: int) -> DataFrame:
        schema = self.graph.schemas[space]
        found = emitted(spark, self.events_of(space), number)
        if found is None:
            ddl = ", ".join(f"{quoted(a.name)} {SPARK_TYPES[a.type]}" for a in schema.attributes)
            return spark.createDataFrame([], ddl)
        return found.select(*(quoted(name) for name in schema))

    def _write(self, given: Mapping[str, DataFrame], number: int) -> None:
        frames: list[tuple[DataFrame, str]] = []
        if self.outputs:
            made = self._spaces(given, self.outputs, errors=False)
            frames += [(made[space], folder) for space, folder in self.outputs.items()]
        if self.rejected is not None:
            # Of all spaces at once: what two of them share is rejected once.
            bad = self._spaces(given, self.graph.schemas, errors=True).rejected
            frames += [(bad, self.rejected)] if bad is not None else []
        for frame, folder in frames:
            frame.write.mode("overwrite").parquet(str(Path(folder) / f"batch={number}"))

    # --- runs ----------------------------------------------------------------------------

    def run(self, sources: Mapping[str, DataFrame]) -> dict[str, Counters]:
        """All rows at once, as one batch."""
        return self.batch(sources, 0)

    def start(self, sources: Mapping[str, DataFrame], checkpoint: str, **trigger: Any) -> Any:
        """Follow streams in one query: its micro-batches take from all sources at once."""
        order = list(sources)
        if not order:
            raise InputError("a flow needs a source: give a frame for a published space")
        schemas = {space: frame.schema for space, frame in sources.items()}
        joined = tagged_sources([sources[space] for space in order])

        def each(rows: DataFrame, number: int) -> None:
            frames = {
                space: source_rows(rows, i, schemas[space].names, len(order))
                for i, space in enumerate(order)
            }
            self.batch(frames, number)

        writer = joined.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint)
        return (writer.trigger(**trigger) if trigger else writer).start()


def tagged_sources(frames: list[DataFrame]) -> DataFrame:
    """One stream of several: each row in the column of its source."""
    if len(frames) == 1:
        return frames[0]
    parts = []
    for i, frame in enumerate(frames):
        columns = [
            F.struct("*") if i == j else F.lit(None).cast(other.schema)
            for j, other in enumerate(frames)
        ]
        named = [c.alias(f"s{j}") for j, c in enumerate(columns)]
        parts.append(frame.select(F.lit(i).alias(_TAG), *named))
    return reduce(DataFrame.unionByName, parts)


def source_rows(rows: DataFrame, number: int, names: Iterable[str], sources: int) -> DataFrame:
    if sources == 1:
        return rows
    mine = rows.where(F.col(_TAG) == F.lit(number))
    return mine.select(*(F.col(f"s{number}.{quoted(name)}").alias(name) for name in names))
