"""A job under way: started, watched from outside, stopped without leaving half of anything."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from tamis.spark.jobs.column_types import MALFORMED
from tamis.spark.jobs.failures import told_simply
from tamis.spark.jobs.interrupts import Apart
from tamis.spark.jobs.job import COLUMNS, Job
from tamis.spark.live_questions import LiveQuestion
from tamis.spark.message_questions import Question
from tamis.spark.workers.tally import Part, Tally

LOOK = 0.25  # seconds between two looks
_POINTS = 2048  # points of time that are kept; beyond, neighbours are put together


@dataclass(slots=True)
class Totals:
    """What was done, all parts together."""

    rows: int = 0
    matched: int = 0
    matches: int = 0
    bad: int = 0
    width: int = 1  # ticks that one point of `pace` stands for
    pace: dict[int, float] = field(default_factory=dict)
    counts: pa.Table | None = None  # id, count

    def add(self, parts: Iterable[Part]) -> None:
        tables = [] if self.counts is None else [self.counts]
        for part in parts:
            self.rows += part.rows
            self.matched += part.matched
            self.matches += part.matches
            self.bad += part.bad
            for tick, rows in part.pace.items():
                self._point(tick, rows)
            tables += [pa.table({"id": ids, "count": counts}) for ids, counts in part.found]
        if len(tables) > (self.counts is not None):
            self.counts = _summed(tables)

    def _point(self, tick: int, rows: float) -> None:
        place = tick - tick % self.width
        self.pace[place] = self.pace.get(place, 0.0) + rows
        if len(self.pace) > _POINTS:
            self.width *= 2
            old, self.pace = self.pace, {}
            for at, some in old.items():
                self._point(at, some)


def _summed(tables: list[pa.Table]) -> pa.Table:
    found = pa.concat_tables(tables).group_by("id").aggregate([("count", "sum")])
    return found.rename_columns({"count_sum": "count"})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has come. What is not known is None."""

    rows: int
    matches: int
    of_rows: int | None = None
    tasks: int | None = None
    of_tasks: int | None = None
    batches: int | None = None


Tell = Callable[[Progress], None]


@dataclass(slots=True)
class Running:
    """A job that can be run once."""

    job: Job
    spark: SparkSession
    question: Question
    tally: Tally
    totals: Totals = field(default_factory=Totals)
    started: float = 0.0  # by the clock of the wall
    seconds: float = 0.0
    busy: float = 0.0  # seconds in which micro-batches were done; a stream also waits
    compiled: float = 0.0  # seconds for reading and compiling the subscriptions
    batches: int = 0

    @classmethod
    def prepare(cls, job: Job, spark: SparkSession) -> Running:
        """Read and compile the subscriptions; nothing is matched yet."""
        with told_simply():
            return Apart(spark, lambda: cls._prepared(job, spark)).result()

    @classmethod
    def _prepared(cls, job: Job, spark: SparkSession) -> Running:
        tally = Tally(spark, named=job.named)
        messages = job.messages.messages(spark, stream=job.stream is not None)
        start = time.perf_counter()
        subscriptions = job.subscriptions.subscriptions(spark)
        question = Question.of(messages, subscriptions, job.options)
        malformed = MALFORMED if MALFORMED in messages.columns else ""
        made = cls(job, spark, replace(question, tally=tally, malformed=malformed), tally)
        made.compiled = time.perf_counter() - start
        return made

    @property
    def rate(self) -> float:
        """Rows per second, without the time in which there was nothing to do."""
        seconds = self.seconds if self.job.stream is None else self.busy
        return self.totals.rows / seconds if seconds else 0.0

    @property
    def subscriptions(self) -> int:
        """How many there are; where they change, how many there are now."""
        question = self.question
        if isinstance(question, LiveQuestion):
            return len(question.subscriptions)
        if question.table is not None:
            return int(question.table.rows.num_rows) - len(question.table.bad)
        return len(question.matcher)

    def problems(self) -> list[dict[str, Any]]:
        """The subscriptions that were refused: id, selector, reason."""
        table = self.question.table
        return [] if table is None else table.problems().to_pylist()

    def frame(self) -> DataFrame:
        column = self.job.column or COLUMNS[self.job.result]
        match self.job.result:
            case "match":
                return self.question.match(column)
            case "counts":
                return self.question.counts(column)
            case "semi":
                return self.question.semi()
            case "deliveries":
                return self.question.deliveries(column)

    def run(self, tell: Tell) -> None:
        """Do it all. An interrupt stops the job, waits until it has stopped, and goes on up."""
        self.started, start = time.time(), time.perf_counter()
        try:
            with told_simply():
                work = _Stream(self) if self.job.stream else _Batch(self)
                work.run(tell)
        finally:
            self.seconds = time.perf_counter() - start


class _Batch:
    """The job in one thread, the looks in another."""

    def __init__(self, running: Running) -> None:
        self.running, self.rows = running, running.job.rows()
        write = running.job.output.write
        self.work = Apart(running.spark, lambda: write(running.frame()))

    def run(self, tell: Tell) -> None:
        looking = threading.Thread(target=self._look, args=(tell,), daemon=True)
        looking.start()
        try:
            self.work.result()
        finally:
            looking.join(5)
            self.running.totals.add(self.running.tally.parts())

    def _look(self, tell: Tell) -> None:
        while not self.work.done.wait(LOOK):
            parts = self.running.tally.parts()
            tasks, of_tasks = tasks_of(self.running.spark, self.work.group)
            rows, matches = sum(p.rows for p in parts), sum(p.matches for p in parts)
            tell(Progress(rows, matches, self.rows, tasks, of_tasks))


def tasks_of(spark: SparkSession, group: str) -> tuple[int, int]:
    """How many tasks of a group of jobs are done, and how many there are so far."""
    tracker = spark.sparkContext.statusTracker()
    found = Counter[str]()
    for number in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(number)
        for stage in [] if job is None else job.stageIds:
            if (info := tracker.getStageInfo(stage)) is not None:
                found["all"] += info.numTasks
                found["done"] += info.numCompletedTasks
    return found["done"], found["all"]


class Watched(ABC):
    """A stream that is looked at while it runs. Only micro-batches that Spark reports as done
    count."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query, self.seen = query, -1
        self.done = threading.Event()

    @abstractmethod
    def fold(self, news: list[StreamingQueryProgress]) -> None:
        """Count micro-batches that are done now, and were not before."""

    @abstractmethod
    def progress(self) -> Progress: ...

    def run(self, tell: Tell) -> None:
        looking = threading.Thread(target=self._look, args=(tell,), daemon=True)
        looking.start()
        try:
            self.done.wait()
        except KeyboardInterrupt:
            # Comes back when the micro-batch has ended: done, or given up and to be done again.
            self.query.stop()
            raise
        finally:
            self.done.set()
            looking.join(5)
            self._fold()
        if (error := self.query.exception()) is not None:
            raise error

    def _look(self, tell: Tell) -> None:
        try:
            while not self.done.wait(LOOK) and self.query.isActive:
                self._fold()
                tell(self.progress())
        finally:
            self.done.set()

    def _fold(self) -> None:
        done = [p for p in self.query.recentProgress if "addBatch" in p.durationMs]
        if news := [p for p in done if p.batchId > self.seen]:
            self.seen = max(p.batchId for p in news)
            self.fold(news)


class _Stream(Watched):
    def __init__(self, running: Running) -> None:
        self.running, job = running, running.job
        assert job.stream is not None
        stream = job.stream
        start = Apart(
            running.spark,
            lambda: job.output.start(running.frame(), stream.every, stream.checkpoint),
        )
        super().__init__(start.result())

    def progress(self) -> Progress:
        totals = self.running.totals
        return Progress(totals.rows, totals.matches, batches=self.running.batches)

    def fold(self, news: list[StreamingQueryProgress]) -> None:
        batches = {p.batchId: p.durationMs.get("triggerExecution", 0) for p in news}
        self.running.busy += sum(batches.values()) / 1000
        self.running.totals.add(self.running.tally.parts(list(batches)))
        self.running.tally.forget(range(self.seen + 1))
        self.running.batches += len(batches)
