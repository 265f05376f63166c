"""`tamis flow run` of a flow with states: the same sources and sinks, and states between them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tamis.flow.states.batches.state_store import Counters
from tamis.spark.flows.counting import Counting
from tamis.spark.flows.flow_run import FlowRunning
from tamis.spark.flows.path_frames import rewritten
from tamis.spark.flows.streams import Streams
from tamis.spark.jobs.interrupts import Apart
from tamis.spark.states.stateful_flows import StatefulFlow, source_rows, tagged_sources

INSIDE = "tamis"  # the folder in a checkpoint where states are kept


@dataclass
class StatefulRunning(FlowRunning):
    """A flow with states that can be run once.

    States and expanded events go to `states`; else into the checkpoint of a stream, and with a
    batch they last as long as it does.
    """

    states: str | None = None
    counted: dict[str, Counters] = field(default_factory=dict)

    @cached_property
    def flow(self) -> StatefulFlow:
        job = self.job
        if self.states is not None:
            folder = self.states
        elif job.stream is not None:
            folder = str(Path(job.stream.checkpoint) / INSIDE)
        else:
            folder = tempfile.mkdtemp(prefix="tamis-states-")
        return StatefulFlow(job.graph, folder, lookups=job.lookups, lookup_folder=job.folder)

    # --- batches -------------------------------------------------------------------------

    def _write_all(self) -> None:
        try:
            self._write_streams(self._folded(self.job.frames(self.spark), 0, self.counting))
        finally:
            if self.states is None:
                shutil.rmtree(self.flow.folder, ignore_errors=True)

    def figures(self) -> list[tuple[str, str]]:
        seen = [
            (f"{state}: {what}", f"{count:,}")
            for state, counters in self.counted.items()
            for what, count in vars(counters).items()
        ]
        return [*super().figures(), *seen]

    def _folded(self, sources: Mapping[str, DataFrame], number: int, counting: Counting) -> Streams:
        """The spaces that are read, after all states of this batch.

        Counted, they come level by level: that counts what leads only to states as well.
        """
        given, counted = self.flow.folded(sources, number)
        for name, told in counted.items():
            self.counted[name] = self.counted.get(name, Counters()).plus(told)
        job = self.job
        errors = job.errors is not None
        wanted = job.graph.schemas if errors else job.spaces
        return rewritten(
            job.graph,
            given,
            job.lookups,
            wanted,
            errors=errors,
            levels=True if job.counted else None,
            folder=job.folder,
            counting=counting if job.counted else None,
        )

    # --- streams -------------------------------------------------------------------------

    def _started(self) -> StreamingQuery:
        sources = self.job.frames(self.spark)
        return Apart(self.spark, lambda: self._start_states(sources)).result()

    def _start_states(self, sources: Mapping[str, DataFrame]) -> StreamingQuery:
        stream = self.job.stream
        assert stream is not None
        order = list(sources)
        names = {space: frame.columns for space, frame in sources.items()}

        def each(rows: DataFrame, number: int) -> None:
            frames = {
                space: source_rows(rows, i, names[space], len(order))
                for i, space in enumerate(order)
            }
            counting = Counting(self.job.graph)
            self.write_batch(self._folded(frames, number, counting), number)
            if self.job.counted:
                counting.add_batch()
                self.counting.merge(counting)

        joined = tagged_sources([sources[space] for space in order])
        writer = joined.writeStream.foreachBatch(each)
        writer = writer.option("checkpointLocation", stream.checkpoint)
        if stream.every is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(stream.every * 1000)} milliseconds").start()
