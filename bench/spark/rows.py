"""Messages as Parquet, and how many rows of them a job gets through in a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

Job = Callable[[DataFrame], DataFrame]
_FILES = 8  # so that every core has work to the end
_NEXT_TO_NONE = 8  # rows


class Rows:
    """A table of messages; the first n of its rows are a frame."""

    def __init__(self, spark: SparkSession, folder: Path, table: pa.Table) -> None:
        self.spark, self.folder, self.table = spark, folder, table

    def __len__(self) -> int:
        return len(self.table)

    def frame(self, count: int | None = None) -> DataFrame:
        some = self.table.slice(0, count)
        target = self.folder / str(len(some))
        if not target.exists():
            write(some, target)
        return self.spark.read.parquet(str(target))


def write(table: pa.Table, target: Path) -> None:
    target.mkdir(parents=True)
    size = -(-len(table) // _FILES) or 1
    for number, first in enumerate(range(0, max(len(table), 1), size)):
        pq.write_table(table.slice(first, size), target / f"{number}.parquet")


def consume(frame: DataFrame) -> None:
    """Compute every row and column, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def seconds(job: Job, frame: DataFrame) -> float:
    """On the wall, planning included."""
    start = time.perf_counter()
    consume(job(frame))
    return time.perf_counter() - start


def rate(job: Job, rows: Rows, repeat: int = 3) -> float:
    """Rows per second, all rows: the median of some runs after one that does not count."""
    frame = rows.frame()
    seconds(job, frame)
    return len(rows) / median(seconds(job, frame) for _ in range(repeat))


def start_and_rate(job: Job, rows: Rows, enough: float, least: int = 2_000) -> tuple[float, float]:
    """The seconds that a job takes for next to no rows, and its rows per second beyond these.

    It gets more and more rows, until these take about `enough` seconds: slow ones get few.
    """
    few = rows.frame(_NEXT_TO_NONE)
    start = min(seconds(job, few) for _ in range(2))  # the first run may have much to load
    count = min(least, len(rows))
    while True:
        whole = seconds(job, rows.frame(count))
        taken = max(whole - start, whole / 10)  # a start that was slow by chance must not flatter
        if taken > enough / 2 or count == len(rows):
            return start, count / taken
        count = min(len(rows), int(count * min(16.0, max(2.0, enough / taken))))
