"""A flow under way: written to its sinks, watched from outside, stopped without leaving halves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from tamis.errors import InputError
from tamis.spark.flows.counting import Counting
from tamis.spark.flows.flow_job import FlowJob
from tamis.spark.flows.streams import Streams
from tamis.spark.flows.together import SPACE, mixed, one_frame, own_sink
from tamis.spark.jobs.failures import told_simply
from tamis.spark.jobs.interrupts import Apart
from tamis.spark.jobs.job import FILES, Sink
from tamis.spark.jobs.job_running import LOOK, Progress, Tell, Watched, tasks_of

_COMPRESSED = "spark.sql.inMemoryColumnarStorage.compressed"


@dataclass(slots=True)
class FlowRunning:
    """A flow that can be run once."""

    job: FlowJob
    spark: SparkSession
    counting: Counting = field(init=False)
    seconds: float = 0.0
    batches: int = 0

    def __post_init__(self) -> None:
        self.counting = Counting(self.job.graph)

    def run(self, tell: Tell = lambda progress: None) -> None:
        """Do it all. An interrupt stops it, waits until it has stopped, and goes on up."""
        start = time.perf_counter()
        try:
            with told_simply():
                if self.job.stream is None:
                    self._batch(tell)
                else:
                    _Stream(self, self._started()).run(tell)
        finally:
            self.seconds = time.perf_counter() - start

    def figures(self) -> list[tuple[str, str]]:
        """What the run came to, in the order of interest."""
        found = [("seconds", f"{self.seconds:,.1f}")]
        if self.job.stream is not None:
            found.insert(0, ("micro-batches", f"{self.batches:,}"))
        if self.job.counted:
            found.insert(0, ("messages", f"{self.counting.rows:,}"))
            found.append(("rejected", f"{self.counting.rejected:,}"))
        return found

    def explain(self) -> str:
        """Spark's plan for the spaces that are read."""
        streams = self.job.streams(self.spark)
        shown = []
        for space in self.job.spaces:
            frame = self.job.answered(space, streams[space])
            shown.append(f"{space}\n{frame._jdf.queryExecution().simpleString()}")
        return "\n".join(shown)

    # --- batches ---------------------------------------------------------------

    def _batch(self, tell: Tell) -> None:
        work = Apart(self.spark, self._write_all)
        looking = threading.Thread(target=self._look, args=(work, tell), daemon=True)
        looking.start()
        try:
            work.result()
        finally:
            looking.join(5)

    def _look(self, work: Apart[None], tell: Tell) -> None:
        while not work.done.wait(LOOK):
            done, of_all = tasks_of(self.spark, work.group)
            tell(Progress(self.counting.rows, 0, tasks=done, of_tasks=of_all))

    def _streams(self) -> Streams:
        if self.job.graph.states:
            raise InputError("the flow has states: run it with tamis.spark.states.StatefulRunning")
        return self.job.streams(self.spark, self.counting)

    def _write_all(self) -> None:
        self._write_streams(self._streams())

    def _write_streams(self, streams: Streams) -> None:
        writes = self._writes(streams)
        if len(writes) > 1 and streams.wide is not None:
            kept = _kept(streams.wide)
            try:
                self._write_each(self._writes(streams_on(streams, kept)))
            finally:
                kept.unpersist()
        else:
            self._write_each(writes)

    def _write_each(self, writes: list[Callable[[], None]]) -> None:
        """Counters come in with the first write; the others read what was kept."""
        for number, write in enumerate(writes):
            write()
            if not number and self.job.counted:
                self.counting.add_batch()

    def _writes(self, streams: Streams) -> list[Callable[[], None]]:
        job = self.job
        found: list[Callable[[], None]] = []
        for space, sink in job.sinks.items():
            frame = job.answered(space, streams[space])
            found.append(lambda sink=sink, frame=frame: sink.write(frame))  # type: ignore[misc]
        others = [space for space in job.spaces if space not in job.sinks]
        if job.together is not None and others:
            found += self._together(job.together, streams, others)
        if (told := self._errors(streams)) is not None:
            found.append(lambda: told[0].write(told[1]))
        return found

    def _together(
        self, sink: Sink, streams: Streams, spaces: list[str]
    ) -> list[Callable[[], None]]:
        """One write for all spaces; one for each if their columns do not go into one frame."""
        if not mixed(self.job, streams, spaces):
            frame = one_frame(self.job, streams, spaces)
            return [partial(sink.write, frame, SPACE)]
        return [
            partial(own_sink(sink, space).write, self.job.answered(space, streams[space]))
            for space in spaces
        ]

    def _errors(self, streams: Streams) -> tuple[Sink, DataFrame] | None:
        """Where rows go that do not fit, and the rows; None where they are only counted."""
        sink, rejected = self.job.errors, streams.rejected
        if sink is None or sink.kind == "noop" or rejected is None:
            return None
        return sink, rejected

    # --- streams ---------------------------------------------------------------

    def _started(self) -> StreamingQuery:
        streams = self._streams()
        return Apart(self.spark, lambda: self._start(streams)).result()

    def _start(self, streams: Streams) -> StreamingQuery:
        job = self.job
        assert job.stream is not None
        every, checkpoint = job.stream.every, job.stream.checkpoint
        others = [space for space in job.spaces if space not in job.sinks]
        ends = len(job.sinks) + bool(others) + (self._errors(streams) is not None)
        if ends == 1 and job.sinks:
            ((space, sink),) = job.sinks.items()
            return sink.start(job.answered(space, streams[space]), every, checkpoint)
        if ends == 1 and job.together is not None and not mixed(job, streams, others):
            together = one_frame(job, streams, others)
            return job.together.start(together, every, checkpoint, partition_by=SPACE)
        if streams.wide is None:
            raise InputError("a stream with several sinks runs rewritten, not arc by arc")
        return _start_each(self, streams, every, checkpoint)

    def write_batch(self, streams: Streams, batch: int) -> None:
        """One micro-batch to several sinks. Run again, it leaves what one run leaves."""
        job = self.job
        for space, sink in job.sinks.items():
            _write_once(sink, job.answered(space, streams[space]), batch)
        others = [space for space in job.spaces if space not in job.sinks]
        if job.together is not None:
            for space in others:
                own = own_sink(job.together, space)
                _write_once(own, job.answered(space, streams[space]), batch)
        if (told := self._errors(streams)) is not None:
            _write_once(*told, batch)


def _kept(frame: DataFrame) -> DataFrame:
    """The frame, cached when it is first written. Not compressed: it is read once or twice, and
    holds only what survived the selects."""
    conf = frame.sparkSession.conf
    before = conf.get(_COMPRESSED)
    conf.set(_COMPRESSED, "false")  # what holds is read here, not when the rows come
    try:
        return frame.persist()
    finally:
        conf.set(_COMPRESSED, str(before))


def streams_on(streams: Streams, wide: DataFrame) -> Streams:
    """The same frames, made from another wide one."""
    layout = streams.layout
    assert layout is not None
    frames = {t.space: layout.view(wide, t) for t in layout.targets if not t.rejected}
    return Streams(streams.graph, frames, layout.rejected(wide), wide, layout)


def _write_once(sink: Sink, frame: DataFrame, batch: int) -> None:
    """Files go into a folder of the micro-batch, which a replay writes anew."""
    if sink.kind in FILES:
        own = Sink(f"{sink.path}/batch={batch}", sink.format, sink.options, "overwrite")
        own.write(frame)
    else:
        Sink(sink.path, sink.format, sink.options, sink.mode or "append").write(frame)


def _start_each(
    running: FlowRunning, streams: Streams, every: float | None, checkpoint: str
) -> StreamingQuery:
    wide = streams.wide
    assert wide is not None

    def write(frame: DataFrame, batch: int) -> None:
        kept = _kept(frame)
        try:
            running.write_batch(streams_on(streams, kept), batch)
        finally:
            kept.unpersist()

    writer = wide.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    if every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(every * 1000)} milliseconds").start()


class _Stream(Watched):
    def __init__(self, running: FlowRunning, query: StreamingQuery) -> None:
        super().__init__(query)
        self.running = running

    def progress(self) -> Progress:
        return Progress(self.running.counting.rows, 0, batches=self.running.batches)

    def fold(self, news: list[StreamingQueryProgress]) -> None:
        for progress in news:
            self.running.batches += 1
            self.running.counting.add(progress.observedMetrics)
