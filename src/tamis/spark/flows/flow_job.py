"""A flow with its ends: where messages and lookups come from, and where each space goes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from tamis.errors import InputError
from tamis.flow.graphs.flow_graph import Graph
from tamis.schema import Schema
from tamis.spark.dataframes.spark_types import quoted
from tamis.spark.flows.arcs import arc_by_arc
from tamis.spark.flows.counting import Counting
from tamis.spark.flows.flow_rows import CORRUPT
from tamis.spark.flows.path_frames import rewritten
from tamis.spark.flows.streams import Streams
from tamis.spark.jobs.job import Result, Sink, Source, Stream
from tamis.spark.message_questions import Question
from tamis.spark.native.native_values import SPARK_TYPES

Form = Literal["rewritten", "arcs"]
_TEXTS = ("json", "csv")  # formats in which a row may not be what the space says


@dataclass(frozen=True, slots=True)
class Subscribed:
    """Subscriptions on a space, and what is asked of them; see `tamis.spark.match` and others."""

    subscriptions: Any  # a Source, or what tamis.spark.match takes
    result: Result = "match"

    def answered(self, frame: DataFrame) -> DataFrame:
        given = self.subscriptions
        found = given.subscriptions(frame.sparkSession) if isinstance(given, Source) else given
        question = Question.of(frame, found, {"on_error": "report"})
        match self.result:
            case "match":
                rows = question.match("subscriptions")
            case "counts":
                rows = question.counts("matches")
            case "semi":
                rows = question.semi()
            case "deliveries":
                rows = question.deliveries("subscription")
        return rows.drop("_error")  # what comes out of a flow fits


@dataclass(frozen=True, slots=True)
class FlowJob:
    """What is to be run. Sources are read by Spark, or frames; sinks are by space.

    `together` takes the spaces that have no sink of their own: one sink, a folder for each space.
    `errors` takes the rows that do not fit: space, reason and row. `counted`: how many messages
    pass each arc, which costs a look at every message.
    """

    graph: Graph
    sources: Mapping[str, Source | DataFrame]
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    together: Sink | None = None
    errors: Sink | None = None
    lookups: Mapping[str, Any] = field(default_factory=dict)
    subscriptions: Mapping[str, Subscribed] = field(default_factory=dict)
    wanted: tuple[str, ...] = ()
    stream: Stream | None = None
    form: Form = "rewritten"
    counted: bool = False
    folder: str | os.PathLike[str] = "."

    def __post_init__(self) -> None:
        for space in (*self.sources, *self.sinks, *self.subscriptions, *self.wanted):
            self.graph.space(space)
        if not self.spaces:
            raise InputError("the flow has no sink: say which space goes where")
        if self.form not in ("rewritten", "arcs"):
            raise InputError(f"form is rewritten or arcs, not {self.form}")

    @property
    def spaces(self) -> tuple[str, ...]:
        """The spaces that somebody reads."""
        others = self.wanted or self.graph.derived if self.together is not None else ()
        return tuple(dict.fromkeys((*self.sinks, *others)))

    def frames(self, spark: SparkSession) -> dict[str, DataFrame]:
        """The frame of each source."""
        streaming = self.stream is not None
        return {
            space: found
            if isinstance(found, DataFrame)
            else _read(found, spark, self.graph.schemas[space], stream=streaming)
            for space, found in self.sources.items()
        }

    def streams(self, spark: SparkSession, counting: Counting | None = None) -> Streams:
        """The frames of the spaces that are read, with counters where they are wanted."""
        sources, counting = self.frames(spark), counting if self.counted else None
        given = self.graph, sources, self.lookups, self.spaces
        if self.form == "arcs":
            return arc_by_arc(*given, folder=self.folder, counting=counting)
        errors = self.errors is not None
        return rewritten(*given, errors=errors, folder=self.folder, counting=counting)

    def answered(self, space: str, frame: DataFrame) -> DataFrame:
        """The messages of a space, with what their subscriptions say."""
        subscribed = self.subscriptions.get(space)
        return frame if subscribed is None else subscribed.answered(frame)


def _read(source: Source, spark: SparkSession, schema: Schema, *, stream: bool) -> DataFrame:
    if source.kind not in _TEXTS or source.schema or source.select:
        return source.messages(spark, stream=stream)
    types = {a.name: SPARK_TYPES[a.type] for a in schema.attributes}
    names = list(types)
    options = {"columnNameOfCorruptRecord": CORRUPT, **source.options}
    if source.kind == "csv":
        # Columns of a CSV file have places, not names: take all that it has, and none besides.
        header = replace(source, options={**options, "inferSchema": "false"})
        names = header.messages(spark, stream=False).columns
        options = {"columnPruning": "false", "inferSchema": "false", **options}
    columns = [f"{quoted(name)} {types.get(name, 'string')}" for name in (*names, CORRUPT)]
    typed = replace(source, schema=", ".join(columns), options=options)
    return typed.messages(spark, stream=stream)
