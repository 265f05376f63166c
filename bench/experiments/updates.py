"""Adding and removing while another thread matches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bench import progress
from bench.measure import Latency, latency
from bench.report import Cell, Goal, Result, Table, verdicts
from bench.workloads import stock
from tamis import Matcher

ABOUT = (
    "Single adds and removes in a set of stock alerts, in quiet and while another thread matches "
    "batches without pause. Times are on the wall, so both threads and their lock count."
)


@dataclass(frozen=True, slots=True)
class Scale:
    alerts: int
    changes: int
    batch: int


SCALES = {
    "full": Scale(100_000, 2_000, 4_096),
    "quick": Scale(10_000, 200, 2_048),
    "tiny": Scale(200, 10, 64),
}


@dataclass(slots=True)
class Reader:
    """What the matching thread got done."""

    batches: int = 0
    seconds: float = 0.0
    error: BaseException | None = None


def run(scale: str) -> Result:
    s = SCALES[scale]
    matcher = Matcher(stock.SCHEMA)
    matcher.add_many(enumerate(stock.alerts(s.alerts).texts()))
    table = stock.trades(s.batch)
    matcher.match_batch(table)
    progress.say("changes in quiet")
    rows = _changes("quiet", matcher, s, 10**9)
    progress.say("changes while matching")
    with _matching(matcher, table) as reader:
        rows += _changes("while matching", matcher, s, 2 * 10**9)
    with _matching(matcher, table) as alone:
        time.sleep(0.2 if scale == "tiny" else 2)
    columns = ("", "change", "median µs", "p99 µs", "worst µs")
    tables = [
        verdicts(_goals(rows, s)),
        Table(f"{s.changes:,} changes among {s.alerts:,} alerts", columns, rows),
        _reading(reader, alone, s.batch),
    ]
    return Result("updates", ABOUT, tables)


def _goals(rows: list[list[Any]], s: Scale) -> list[Goal]:
    """Of the changes under load: their medians and worst cases, in milliseconds."""
    goals = []
    for _, change, median, _, worst in rows[2:]:
        what = f"{change} under load, {s.alerts:,} subscriptions"
        goals += [
            Goal(f"{what}: median", 1, 0.1, median / 1000, " ms", at_most=True),
            Goal(f"{what}: worst", 50, 5, worst / 1000, " ms", at_most=True),
        ]
    return goals


def _changes(when: str, matcher: Matcher, s: Scale, first: int) -> list[list[Cell]]:
    texts = list(stock.alerts(s.changes, seed=first).texts())
    added = latency(
        lambda i=i, text=text: matcher.add(first + i, text) for i, text in enumerate(texts)
    )
    removed = latency(lambda i=i: matcher.remove(first + i) for i in range(s.changes))
    return [[when, "add", *_micros(added)], [when, "remove", *_micros(removed)]]


def _micros(found: Latency) -> list[float]:
    return [1e6 * found.median, 1e6 * found.p99, 1e6 * found.worst]


@contextmanager
def _matching(matcher: Matcher, table: pa.Table) -> Iterator[Reader]:
    """A thread that matches until the block ends."""
    reader, stop = Reader(), threading.Event()

    def work() -> None:
        start = time.perf_counter()
        try:
            while not stop.is_set():
                matcher.match_batch(table)
                reader.batches += 1
        except BaseException as error:
            reader.error = error
        reader.seconds = time.perf_counter() - start

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield reader
    finally:
        stop.set()
        thread.join()
    if reader.error is not None:
        raise reader.error


def _reading(during: Reader, alone: Reader, batch: int) -> Table:
    rates = [batch * reader.batches / reader.seconds for reader in (during, alone)]
    rows = [("during changes", rates[0]), ("alone, afterwards", rates[1])]
    return Table("The matching thread", ("", "messages per second"), rows)
