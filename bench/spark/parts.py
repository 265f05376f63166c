"""The measurements. Each takes a Place and gives rows of figures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from bench import progress
from bench.spark import today
from bench.spark.carried import carried, sql
from bench.spark.place import Figures, Place
from bench.spark.plans import plans
from bench.spark.rows import Job, Rows, consume, rate, start_and_rate
from bench.spark.workers import Worker, workers
from bench.workloads import icse, mixed, stock
from tamis.spark import counts, match


def passed(messages: DataFrame) -> DataFrame:
    """All rows to Python and back: what nothing that runs in Python can beat."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return messages.mapInArrow(same, messages.schema)


def matched(subscriptions: str) -> Job:
    return lambda messages: match(messages, subscriptions)


def counted(subscriptions: str) -> Job:
    return lambda messages: counts(messages, subscriptions)


def python(at: Place) -> Figures:
    """Matching beside a mapInArrow that only passes the same rows through."""
    s, found = at.s, []
    sets = (
        ("stock", s.stock, stock.trades(s.rows)),
        ("icse", s.icse, icse.messages(s.icse_rows)),
    )
    for kind, n, table in sets:
        progress.say(f"{n:,} {kind} beside a pass-through")
        rows, snapshot = at.rows(kind, table), at.snapshot(kind, n)
        through = rate(passed, rows)
        ids = rate(matched(snapshot), rows) if kind == "stock" else None
        count = rate(counted(snapshot), rows)
        found.append([kind, n, len(rows), through, ids, count])
    return found


# --- what users do today -------------------------------------------------------


def others(at: Place) -> Figures:
    return [row for n in at.s.rules for row in (*_simple(at, n), *_mixed(at, n))]


def _simple(at: Place, n: int) -> Figures:
    """`symbol = S AND price < P`, 100 symbols."""
    alerts = stock.alerts(n, 100)
    rows = at.rows("simple", stock.trades(at.s.rows, 100))
    table = alerts.table().drop_columns("volume")
    texts = [t.partition(" AND volume")[0] for t in alerts.texts()]
    peers = {"equi-join on symbol": today.joined(at.frame(f"simple-{n}", table), today.SIMPLE)}
    return _compared("simple", at, n, rows, texts, peers)


def _mixed(at: Place, n: int) -> Figures:
    rules = mixed.rules(n)
    rows = at.rows("mixed", icse.messages(at.s.icse_rows))
    peers = {
        "broadcast nested-loop join": today.nested_loop(at.frame(f"mixed-{n}", rules.table())),
        "numpy loop in a pandas UDF": today.pandas_loop(rules),
    }
    if n <= at.s.planned:
        peers["CASE WHEN columns"] = today.case_when(list(rules.sql()))
    if n <= at.s.united:
        peers["union of filters"] = today.union(list(rules.sql()))
    return _compared("mixed", at, n, rows, list(rules.texts()), peers)


def _compared(
    kind: str, at: Place, n: int, rows: Rows, texts: list[str], peers: dict[str, Job]
) -> Figures:
    """Every answer tells as many pairs as ours, on a sample. Our start includes the compiling."""
    given = at.frame(f"{kind}-{n}-rules", pa.table({"id": list(range(n)), "selector": texts}))
    ours: Job = lambda messages: match(messages, given)  # noqa: E731
    sample = rows.frame(at.s.sample)
    expected = today.pairs(ours(sample))
    found = [[kind, n, "Tamis", *_timed(at, kind, n, "Tamis", ours, rows), expected]]
    for name, job in peers.items():
        told = today.pairs(job(sample))
        assert told == expected, f"{name}: {told} pairs, not {expected}"
        found.append([kind, n, name, *_timed(at, kind, n, name, job, rows), told])
    return found


def _timed(at: Place, kind: str, n: int, name: str, job: Job, rows: Rows) -> tuple[float, float]:
    progress.say(f"{n:,} {kind} rules: {name}")
    return start_and_rate(job, rows, at.s.enough)


def million(at: Place) -> Figures:
    """The largest set of stock alerts, beside Spark SQL's join on the symbol."""
    found, n = [], max(at.s.growth)
    for kind in ("stock", "zipf"):
        zipf = kind == "zipf"
        rows = at.rows(kind, stock.trades(at.s.rows, zipf=zipf))
        alerts = at.frame(f"{kind}-{n}", stock.alerts(n, zipf=zipf).table())
        jobs = {
            "Tamis": matched(at.snapshot(kind, n)),
            "equi-join, as Spark plans it": today.joined(alerts, today.ALERT),
            "equi-join, broadcast": today.joined(alerts, today.ALERT, "broadcast"),
        }
        sample = rows.frame(at.s.sample)
        told = {name: today.pairs(job(sample)) for name, job in jobs.items()}
        assert len(set(told.values())) == 1, told
        for name, job in jobs.items():
            found.append([kind, n, name, *_timed(at, kind, n, name, job, rows)])
    return found


# --- streams, workers, growth --------------------------------------------------


def first(at: Place) -> Figures:
    """From the call of match to the end of the first micro-batch, in seconds."""
    n = at.s.stock
    source = at.rows("stream", stock.trades(1_000))
    source.frame()
    progress.say(f"first micro-batch, {n:,} alerts")
    _first_batch(at, source, at.snapshot("stock", min(at.s.growth)))  # the session is warm now
    taken = [_first_batch(at, source, at.snapshot("stock", n)) for _ in range(at.s.streams)]
    return [[n, median(taken), max(taken)]]


def _first_batch(at: Place, source: Rows, snapshot: str) -> float:
    start = time.perf_counter()
    stream = at.spark.readStream.schema(source.frame().schema)
    frame = match(stream.parquet(str(source.folder / str(len(source)))), snapshot)
    query = frame.writeStream.format("noop").start()
    while not any(p["numInputRows"] for p in query.recentProgress):
        assert query.isActive, query.exception()
        time.sleep(0.005)
    taken = time.perf_counter() - start
    query.stop()
    return taken


def memory(at: Place) -> Figures:
    """Of each Python worker, in bytes: after a pass-through, and after matching the largest set."""
    n = max(at.s.growth)
    rows = at.rows("stock", stock.trades(at.s.rows))
    frame = rows.frame()
    progress.say(f"memory of workers, {n:,} alerts")
    consume(passed(frame))
    consume(passed(frame))
    found = [_mean("pass-through", workers())]
    for wanted, job in (("match", matched), ("counts", counted)):
        consume(job(at.snapshot("stock", n))(frame))
        consume(job(at.snapshot("stock", n))(frame))
        found.append(_mean(wanted, workers()))
    return found


def plain(at: Place) -> Figures:
    """The same, where the workers are forks of Spark's own daemon."""
    return [[f"{row[0]}, Spark's daemon", *row[1:]] for row in memory(at)]


def _mean(what: str, seen: list[Worker]) -> list[Any]:
    sizes = [(w.private, w.pss, w.rss) for w in seen]
    most = max(w.private for w in seen)
    return [
        what,
        len(seen),
        *(sum(column) / len(seen) for column in zip(*sizes, strict=True)),
        most,
    ]


def growth(at: Place) -> Figures:
    """Rows per second by the number of subscriptions, on this session's cores."""
    cores = at.spark.sparkContext.defaultParallelism
    rows = at.rows("stock", stock.trades(at.s.rows))
    progress.say(f"{cores} cores, pass-through")
    found: Figures = [[cores, 0, rate(passed, rows), None]]
    for n in at.s.growth:
        progress.say(f"{cores} cores, {n:,} alerts")
        path = at.snapshot("stock", n)
        found.append([cores, n, rate(matched(path), rows), rate(counted(path), rows)])
    return found


_ALL = (python, others, million, first, growth, memory, plain, plans, carried, sql)
PARTS = {f.__name__: f for f in _ALL}
