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
Counts: TypeAlias = npt.NDArray[np.int64]
TICKS = 4  # of a second
_BATCH = "streaming.sql.batchId"


@dataclass(slots=True)
class Part:
    """What one task has done. `pace` are its rows by the tick of time when they were matched."""

    rows: int = 0
    matched: int = 0
    matches: int = 0
    bad: int = 0
    pace: dict[int, float] = field(default_factory=dict)
    found: list[tuple[pa.Array, Counts]] = field(default_factory=list)  # ids, matches of each


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
        self._since = 0.0
        self._counts: Counts = np.zeros(0, np.int64)
        self._names: pa.Array | None = None

    # --- on a worker, where each task has a copy of its own ---

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._since = time.time()  # a copy comes to life where its task begins

    def add(self, counts: Counts, bad: int, matches: Matches | None) -> None:
        """A batch is done: for its good rows how many subscriptions each has matched."""
        part = self._part
        part.rows += len(counts) + bad
        part.matched += int(np.count_nonzero(counts))
        part.matches += int(counts.sum())
        part.bad += bad
        self._pace(len(counts) + bad)
        if self.named and matches is not None:
            self._count(matches)

    def _pace(self, rows: int) -> None:
        """Spread the rows evenly over the time since the last batch."""
        first, last = int(self._since * TICKS), int(time.time() * TICKS)
        self._since = time.time()
        for tick in range(first, last + 1):
            part = rows / (last + 1 - first)
            self._part.pace[tick] = self._part.pace.get(tick, 0.0) + part

    def _count(self, matches: Matches) -> None:
        if self._names is None or not self._names.equals(matches.names):
            self._flush()  # other subscriptions from here on
            self._names, self._counts = matches.names, np.zeros(len(matches.names), np.int64)
        self._counts += np.bincount(matches.slots, minlength=len(self._counts))

    def _flush(self) -> None:
        if self._names is not None:
            slots = np.flatnonzero(self._counts)
            self._part.found.append((self._names.take(pa.array(slots)), self._counts[slots]))

    def end(self) -> None:
        """The task is done."""
        self._flush()
        self._told.add({_task(): self._part})

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
