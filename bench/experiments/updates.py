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
from bench.workloads import icse, stock
from tamis import Matcher

ABOUT = (
    "Single adds and removes in a set of stock alerts and in one of ICSE queries, in quiet and "
    "while another thread matches batches without pause. Times are on the wall, so both threads "
    "and their lock count."
)


@dataclass(frozen=True, slots=True)
class Scale:
    subscriptions: int
    changes: int
    batch: int
    rates: tuple[int, ...]  # changes per second beside which matching is measured
    seconds: float


SCALES = {
    "full": Scale(100_000, 2_000, 4_096, (0, 10, 100, 1_000), 3),
    "quick": Scale(10_000, 200, 2_048, (0, 100), 1),
    "tiny": Scale(200, 10, 64, (0, 100), 0.1),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A set, what is added to it, and the batch that is matched beside."""

    name: str
    matcher: Matcher
    texts: list[str]
    batch: pa.Table


@dataclass(slots=True)
class Reader:
    """What the matching thread got done."""

    batches: int = 0
    seconds: float = 0.0
    error: BaseException | None = None


def run(scale: str) -> Result:
    s = SCALES[scale]
    rows: list[list[Any]] = []
    for case in _cases(s):
        progress.say(f"{case.name}: changes in quiet")
        rows += _changes(case, "quiet", 10**9)
        progress.say(f"{case.name}: changes while matching")
        with _matching(case):
            rows += _changes(case, "while matching", 2 * 10**9)
        if case.name == _STOCK:
            reading = _reading(case, s)
    columns = ("set", "", "change", "median µs", "p99 µs", "worst µs")
    tables = [
        verdicts(_goals(rows, s)),
        Table(f"{s.changes:,} changes among {s.subscriptions:,}", columns, rows),
        reading,
    ]
    return Result("updates", ABOUT, tables)


_STOCK = "stock alerts"


def _cases(s: Scale) -> Iterator[Case]:
    """Ever the same alert with other constants; and queries of which no two are alike."""
    matcher = Matcher(stock.SCHEMA)
    matcher.add_many(enumerate(stock.alerts(s.subscriptions).texts()))
    texts = list(stock.alerts(s.changes, seed=7).texts())
    yield Case(_STOCK, matcher, texts, stock.trades(s.batch))
    queries = list(icse.queries(s.subscriptions + s.changes))
    matcher = Matcher(icse.SCHEMA)
    matcher.add_many(enumerate(queries[: s.subscriptions]))
    yield Case("ICSE queries", matcher, queries[s.subscriptions :], icse.messages(64))


def _goals(rows: list[list[Any]], s: Scale) -> list[Goal]:
    """Of the changes under load: their medians and worst cases, in milliseconds."""
    goals = []
    for name, when, change, median, _, worst in rows:
        if when != "quiet":
            what = f"{change} under load, {s.subscriptions:,} {name}"
            goals += [
                Goal(f"{what}: median", 1, 0.1, median / 1000, " ms", at_most=True),
                Goal(f"{what}: worst", 50, 5, worst / 1000, " ms", at_most=True),
            ]
    return goals


def _changes(case: Case, when: str, first: int) -> list[list[Cell]]:
    matcher, texts = case.matcher, case.texts
    matcher.match_batch(case.batch)
    added = latency(
        lambda i=i, text=text: matcher.add(first + i, text) for i, text in enumerate(texts)
    )
    removed = latency(lambda i=i: matcher.remove(first + i) for i in range(len(texts)))
    said = (("add", added), ("remove", removed))
    return [[case.name, when, change, *_micros(found)] for change, found in said]


def _micros(found: Latency) -> list[float]:
    return [1e6 * found.median, 1e6 * found.p99, 1e6 * found.worst]


@contextmanager
def _matching(case: Case) -> Iterator[Reader]:
    """A thread that matches until the block ends."""
    reader, stop = Reader(), threading.Event()

    def work() -> None:
        start = time.perf_counter()
        try:
            while not stop.is_set():
                case.matcher.match_batch(case.batch)
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


def _reading(case: Case, s: Scale) -> Table:
    """What the matching thread gets done beside a steady stream of changes."""
    rows = []
    for rate in s.rates:
        case.matcher.settle()
        progress.say(f"matching beside {rate:,} changes a second")
        with _matching(case) as reader:
            _change_steadily(case, rate, s.seconds)
        rows.append((f"{rate:,}", len(case.batch) * reader.batches / reader.seconds))
    title = f"Matching batches of {len(case.batch):,} beside changes, half adds and half removes"
    return Table(title, ("changes per second", "messages per second"), rows)


def _change_steadily(case: Case, rate: int, seconds: float) -> None:
    start, done = time.perf_counter(), 0
    while (now := time.perf_counter() - start) < seconds:
        while done < int(now * rate):
            number = done // 2 % len(case.texts)
            if done % 2:
                case.matcher.remove(3 * 10**9 + number)
            else:
                case.matcher.add(3 * 10**9 + number, case.texts[number])
            done += 1
        time.sleep(0.0005)
    if done % 2:
        case.matcher.remove(3 * 10**9 + done // 2 % len(case.texts))
