"""`collapse` of a stream: a fold for each micro-batch, states kept by bucket and batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from tamis.errors import StateError
from tamis.flow.states.batches.state_store import KEPT, Counters, StateFiles
from tamis.flow.states.batches.trigger import Output, Trigger
from tamis.flow.states.definitions.derived import Derived
from tamis.flow.states.definitions.stepping import DEFAULT, Limits
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.equivalence import warm
from tamis.flow.states.expansion.search import BUDGET
from tamis.flow.states.sequences.collapsing import typed_events
from tamis.spark.states.exchange import BUCKET, bucketed, default_buckets

_COUNTS = "bucket int, events bigint, late bigint, emitted bigint, failed bigint"


@dataclass
class StateStream:
    """A state that follows a stream.

    Its versions stand in `folder`, which all workers must see. `expand` names folders for the
    events that every trigger emits: `(folder, None)` for the shortest sequence of the state's own
    events, `(folder, Derived)` for derived ones. Each batch writes `folder/batch=N/*.parquet`, the
    same files when it is done again.
    """

    summary: Summary
    folder: str
    expand: tuple[Output | tuple[str, Derived | None], ...] = ()
    buckets: int | None = None
    kept: int = KEPT
    limits: Limits = DEFAULT
    budget: int = BUDGET
    on_batch: Callable[[int, Counters], None] | None = None
    _opened: int | None = field(default=None, repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def __call__(self, events: DataFrame, batch: int) -> None:
        """For foreachBatch: fold the events of one micro-batch."""
        counted = self.fold(events, batch)
        if self.on_batch is not None:
            self.on_batch(batch, counted)

    def fold(self, events: DataFrame, batch: int) -> Counters:
        """Fold one micro-batch and write what it emits; what this batch alone has seen."""
        count = self._open(events.sparkSession)
        step = _Step(self.trigger, batch)
        rows = bucketed(events, self.summary, count).mapInArrow(step, _COUNTS).collect()
        total = Counters()
        for row in rows:
            total = total.plus(Counters(row.events, row.late, row.emitted, row.failed))
        return total

    def start(self, events: DataFrame, checkpoint: str, **options: Any) -> Any:
        """Run as a streaming query of its own; `options` go to the trigger."""
        writer = events.writeStream.foreachBatch(self).option("checkpointLocation", checkpoint)
        return (writer.trigger(**options) if options else writer).start()

    @property
    def trigger(self) -> Trigger:
        outputs = tuple(e if isinstance(e, Output) else Output(*e) for e in self.expand)
        files = StateFiles(self.folder, self.kept)
        return Trigger(self.summary, files, outputs, self.limits, self.budget)

    def _open(self, spark: SparkSession) -> int:
        with self._lock:
            if self._opened is None:
                if self.kept < KEPT:
                    raise StateError(f"kept={self.kept}", hint=f"keep {KEPT} versions or more")
                wanted = (self.buckets or default_buckets(spark)) if self.summary.key else 1
                self._opened = StateFiles(self.folder).open(self.summary, wanted)
                warm()
            return self._opened


@dataclass(frozen=True)
class _Step:
    """What a worker does with the events of a bucket."""

    trigger: Trigger
    batch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = list(batches)
        if not rows:
            return
        table = pa.Table.from_batches(rows)
        buckets = table[BUCKET].unique().to_pylist()
        for bucket in buckets:
            mine = pc.equal(table[BUCKET], bucket)
            own = table if len(buckets) == 1 else table.filter(mine)
            events = typed_events(self.trigger.summary, own.drop_columns([BUCKET]))
            told = self.trigger.run(bucket, self.batch, events)
            yield pa.RecordBatch.from_pydict(
                {
                    "bucket": pa.array([bucket], pa.int32()),
                    **{name: pa.array([count], pa.int64()) for name, count in vars(told).items()},
                }
            )


def read_states(spark: SparkSession, folder: str, summary: Summary | None = None) -> DataFrame:
    """The newest states in a folder as a frame; read on the driver."""
    table, _ = StateFiles(folder).read(summary)
    return spark.createDataFrame(table)


def emitted(spark: SparkSession, folder: str, batch: int | None = None) -> DataFrame | None:
    """The events that were written to a folder, of one batch or of all; None where none were."""
    pattern = f"batch={batch}" if batch is not None else "batch=*"
    files = sorted(str(p) for p in Path(folder).glob(f"{pattern}/bucket-*.parquet"))
    return spark.read.option("basePath", folder).parquet(*files) if files else None
