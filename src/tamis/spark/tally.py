"""What the workers have done so far: rows, matches, and which subscriptions they were for."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import AccumulatorParam, TaskContext
from pyspark.sql import SparkSession

from tamis.engine import Matches

Task: TypeAlias = tuple[int, int]  # a micro-batch (-1 where there is none) and its partition
_BATCH = "streaming.sql.batchId"


@dataclass(slots=True)
class Part:
    """What one task has done. `seconds` are rows by the second in which they were matched."""

    rows: int = 0
    matched: int = 0
    matches: int = 0
    bad: int = 0
    seconds: dict[int, int] = field(default_factory=dict)
    ids: pa.Array | None = None
    counts: npt.NDArray[np.int64] | None = None


class Tasks(AccumulatorParam[dict[Task, Part]]):
    """A task that Spark does again tells the same again, and that is not counted."""

    def zero(self, value: dict[Task, Part]) -> dict[Task, Part]:
        return {}

    def addInPlace(  # noqa: N802 (Spark's name)
        self, first: dict[Task, Part], second: dict[Task, Part]
    ) -> dict[Task, Part]:
        for task, part in second.items():
            first.setdefault(task, part)
        return first


class Tally:
    """Goes with a function to the workers; what they add comes back at the end of each task.

    With `named`, matches are also counted for each subscription.
    """

    def __init__(self, spark: SparkSession, *, named: bool) -> None:
        self.named = named
        self._told: Any = spark.sparkContext.accumulator({}, Tasks())
        self._part = Part()
        self._counts: npt.NDArray[np.int64] | None = None
        self._names: pa.Array | None = None

    # --- on a worker, where each task has a copy of its own ---

    def add(self, counts: npt.NDArray[np.int64], bad: int, matches: Matches | None) -> None:
        """A batch is done: for its good rows how many subscriptions each has matched."""
        part, now = self._part, int(time.time())
        part.rows += len(counts) + bad
        part.matched += int(np.count_nonzero(counts))
        part.matches += int(counts.sum())
        part.bad += bad
        part.seconds[now] = part.seconds.get(now, 0) + len(counts) + bad
        if self.named and matches is not None:
            found = np.bincount(matches.slots, minlength=len(matches.names))
            self._counts = found if self._counts is None else self._counts + found
            self._names = matches.names

    def end(self) -> None:
        """The task is done."""
        part = self._part
        if self._counts is not None and self._names is not None:
            slots = np.flatnonzero(self._counts)
            part.ids, part.counts = self._names.take(pa.array(slots)), self._counts[slots]
        self._told.add({_task(): part})

    # --- on the driver ---

    def parts(self, batches: Iterable[int] = (-1,)) -> list[Part]:
        """What is known of these micro-batches."""
        wanted = set(batches)
        return [part for (batch, _), part in list(self._told.value.items()) if batch in wanted]

    def forget(self, batches: Iterable[int]) -> None:
        """Free what the caller has seen."""
        gone = set(batches)
        for task in [task for task in list(self._told.value) if task[0] in gone]:
            del self._told.value[task]


def _task() -> Task:
    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty(_BATCH)
    return (-1 if batch is None else int(batch)), context.partitionId()
