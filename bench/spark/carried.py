"""What a match carries beside all ids, a join and a window; a function of SQL beside `match`."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from bench import progress
from bench.spark.place import Figures, Place
from bench.spark.rows import Job, seconds
from bench.workloads import stock
from tamis.spark import match, register, schema_of

_SHORT = 5  # times as many turns for jobs that differ by less than a JVM's first ten runs do


def carried(at: Place) -> Figures:
    """Rows (what, rows, rules, matches of a row, seconds)."""
    rules, messages = at.s.carry
    rng = np.random.default_rng(16)
    low, high = rng.integers(0, 1000, rules), rng.integers(0, 1000, rules)
    columns = {
        "id": np.arange(rules),
        "selector": [f"x >= {a} AND y <= {b}" for a, b in zip(low, high, strict=True)],
        "owner": [f"owner {i % 50}" for i in range(rules)],
        "priority": rng.permutation(
            rules
        ),  # no two alike: Spark promises no order of a table in files
    }
    table = at.frame("carry-rules", pa.table(columns))
    made = {"n": np.arange(messages)}
    made |= {name: rng.integers(400, 1000, messages) for name in ("x", "y")}
    rows = at.rows("carry", pa.table({**made, "y": rng.integers(0, 600, messages)}))
    frame = rows.frame()
    jobs: dict[str, Job] = {
        "all ids, a join and a window, 5 of each": _window(table, 5),
        "`limit=5`": lambda f: _each(match(f, table, **_options(limit=5))),
        "all ids, a join and a window, the first": _window(table, 1),
        "`first=True`": lambda f: _one(match(f, table, **_options(first=True))),
        "all ids alone": lambda f: match(f, table, plan="matcher"),
    }
    few = rows.frame(at.s.sample)
    told = {name: _pairs(job(few)) for name, job in list(jobs.items())[:4]}
    assert len(set(told.values())) == 2, told
    taken = _by_turns(jobs, frame, at.s.turns)
    found = match(frame, table, plan="matcher")
    mean = found.agg(F.avg(F.size("subscriptions"))).first()
    assert mean is not None
    return [[name, messages, rules, mean[0], taken[name]] for name in jobs]


def _options(**more: Any) -> Any:
    return {"carry": ["owner"], "order_by": "priority", **more}


def _window(table: DataFrame, limit: int) -> Job:
    """As users write it without the options."""

    def job(frame: DataFrame) -> DataFrame:
        every = match(frame, table.select("id", "selector"), plan="matcher")
        each = every.select("*", F.explode("subscriptions").alias("id")).drop("subscriptions")
        joined = each.join(F.broadcast(table.drop("selector")), "id")
        window = Window.partitionBy("n").orderBy("priority", "id")
        placed = joined.select("*", F.row_number().over(window).alias("place"))
        return placed.where(F.col("place") <= limit)

    return job


def _each(matched: DataFrame) -> DataFrame:
    one = F.explode("subscriptions").alias("one")
    return matched.select("*", one).select("*", "one.id", "one.owner").drop("subscriptions", "one")


def _one(matched: DataFrame) -> DataFrame:
    found = matched.where("subscriptions IS NOT NULL")
    return found.select("*", "subscriptions.id", "subscriptions.owner")


def _pairs(frame: DataFrame) -> tuple[tuple[int, int, str], ...]:
    rows = frame.select("n", "id", "owner").collect()
    return tuple(sorted((row[0], row[1], row[2]) for row in rows))


def sql(at: Place) -> Figures:
    """Rows (what, rows, rules, seconds): the function of SQL beside `match`."""
    alerts = stock.alerts(at.s.stock)
    rows = at.rows("sql", stock.trades(min(at.s.rows, 1_000_000)))
    rules = at.frame(
        "sql-rules", pa.table({"id": list(range(len(alerts))), "selector": alerts.texts()})
    )
    frame = rows.frame()
    frame.createOrReplaceTempView("trades")
    register(at.spark, "alerts", rules, schema=schema_of(frame))
    register(at.spark, "unchecked", rules)
    query = "SELECT *, {}(struct(*)) AS subscriptions FROM trades"
    jobs: dict[str, Job] = {
        "`match`": lambda f: match(f, rules, plan="matcher"),
        "`SELECT *, alerts(struct(*))`": lambda f: at.spark.sql(query.format("alerts")),
        "the same, without `schema=`": lambda f: at.spark.sql(query.format("unchecked")),
    }
    sums = {name: _digest(job(frame)) for name, job in jobs.items()}
    assert len(set(sums.values())) == 1, sums
    # `match` compiles and sends its rules in each call: both are told without that.
    prepared = {name: job(frame) for name, job in jobs.items()}
    again = {name: (lambda f, one=one: one) for name, one in prepared.items()}
    taken = _by_turns(again, frame, _SHORT * at.s.turns)
    return [[name, len(rows), len(alerts), taken[name]] for name in jobs]


def _digest(frame: DataFrame) -> tuple[int, int]:
    found = frame.agg(F.sum(F.size("subscriptions")), F.sum(F.xxhash64(*frame.columns) % 1_000_003))
    row = found.first()
    assert row is not None
    return int(row[0]), int(row[1])


def _by_turns(jobs: dict[str, Job], frame: DataFrame, turns: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(2 * turns):
        for name, job in jobs.items():
            progress.say(f"{name}, turn {turn}")
            taken[name].append(seconds(job, frame))
    return {name: median(found[turns:]) for name, found in taken.items()}
