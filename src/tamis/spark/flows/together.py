"""Several spaces in one sink: one frame with a column for the space, or a folder for each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark

from tamis.errors import InputError
from tamis.spark.flows.flow_job import FlowJob
from tamis.spark.flows.streams import Streams
from tamis.spark.jobs.job import FILES, Sink

SPACE = "space"  # the column that tells spaces apart where they share a sink
# As Spark writes the value of a partition into the name of a folder.
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")


def mixed(job: FlowJob, streams: Streams, spaces: Iterable[str]) -> str:
    """Why one frame cannot hold all of the spaces; empty if it can."""
    known: dict[str, tuple[str, spark.DataType, str]] = {}  # by name as Spark compares names
    for space in spaces:
        for column in job.answered(space, streams[space]).schema:
            name, kind, other = known.setdefault(
                column.name.lower(), (column.name, column.dataType, space)
            )
            if column.name.lower() == SPACE:
                return f"{space} has a column {column.name} itself"
            if (name, kind) != (column.name, column.dataType):
                was, now = kind.simpleString(), column.dataType.simpleString()
                return f"{other} has the column {name} {was}, {space} has {column.name} {now}"
    return ""


def one_frame(job: FlowJob, streams: Streams, spaces: Iterable[str]) -> DataFrame:
    """The messages of all spaces: a column for each name, and the space."""
    plain = [space for space in spaces if space not in job.subscriptions]
    others = [space for space in spaces if space in job.subscriptions]
    parts = []
    if plain and streams.wide is not None and streams.layout is not None:
        parts.append(streams.layout.together(streams.wide, plain, SPACE))
    else:
        others = list(spaces)
    for space in others:
        frame = job.answered(space, streams[space])
        parts.append(frame.withColumn(SPACE, F.lit(space)))
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)


def own_sink(sink: Sink, space: str) -> Sink:
    """The folder of one space in a sink for several."""
    if sink.kind == "noop":
        return sink
    if sink.kind not in FILES:
        raise InputError(f"{sink.kind} has no folders: give each space a sink of its own")
    name = _ESCAPED.sub(lambda sign: f"%{ord(sign[0]):02X}", space)
    return Sink(f"{sink.path}/{SPACE}={name}", sink.kind, sink.options, sink.mode)
