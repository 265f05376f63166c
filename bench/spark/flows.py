"""Flows on Spark, measured: `python -m bench.spark.flows SCALE [PART ...]` prints figures as JSON.

Costs are CPU-seconds of the driver, of Java and of the Python workers together.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench import progress
from bench.spark.cpu import SETTLED, used
from bench.spark.rows import consume
from tamis.flow import Graph, check, parse_flow
from tamis.flow.rewriting.decisions import weight
from tamis.spark import match, session
from tamis.spark.flows import FlowJob, FlowRunning, arc_by_arc, rewritten
from tamis.spark.jobs.job import Sink

Figures = list[list[Any]]
ISSUES = 2_000  # of each exchange
MOST_ARCS = 10  # arc by arc, each is one more scan
FEW = 80  # messages, if a job has few
MOST_FLAGS = 30  # native flags of paths: beyond, minutes
STOCKS = """
space NYSE(issue: string, price: double, vol: int)
space NASDAQ(issue: string, price: double, vol: int)
lookup NYSEdb(string) -> string
lookup NASDdb(string) -> string
NYSE     -> Combined    : [issue, price, vol] => [com := NYSEdb(issue), price, vol]
NASDAQ   -> Combined    : [issue, price, vol] => [com := NASDdb(issue), price, vol]
Combined -> LargeTrades : [com, price, vol] => [com, cap := price * vol]; select cap >= 1000000
LargeTrades -> HugeTrades : select cap >= 2000000
"""
SQL = """
SELECT l.value AS com, t.price * t.vol AS cap
FROM {0} t LEFT JOIN {1} l ON t.issue = l.key WHERE t.price * t.vol >= 1000000
"""


@dataclass(frozen=True, slots=True)
class FlowScale:
    rows: int  # messages, of both sources together
    repeat: int
    subscriptions: int
    few: int  # subscriptions beside one query each
    queries: int  # of those, so many are run
    growth: tuple[int, ...]
    paths: tuple[int, ...]
    shared: tuple[int, ...]  # transforms in a row


FLOW_SCALES = {
    "full": FlowScale(
        20_000_000,
        5,
        10_000,
        100,
        10,
        (10, 100, 1_000, 10_000, 100_000),
        (1, 10, 30, 100),
        (1, 2, 3, 4),
    ),
    "quick": FlowScale(200_000, 1, 1_000, 20, 3, (10, 1_000), (1, 10), (1, 2, 3, 4)),
    "tiny": FlowScale(4_000, 1, 50, 4, 2, (10,), (1, 3), (1, 2)),
}


# --- the clock -----------------------------------------------------------------


def costs(jobs: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The median CPU-seconds of each. They take turns, after as many that do not count: a session
    that is still being compiled by Java favours whoever comes last."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    warm = max(repeat, 1)
    for turn in range(repeat + warm):
        for name, job in jobs.items():
            before = used()
            job()
            time.sleep(SETTLED)
            if turn >= warm:
                taken[name].append(used() - before)
    return {name: median(times) for name, times in taken.items()}


# --- the workload --------------------------------------------------------------


def trades(count: int, exchange: str, seed: int) -> pa.Table:
    """About three in a hundred are worth a million and more."""
    rng = np.random.default_rng(seed)
    issues = pa.array(list(names(exchange)))
    return pa.table(
        {
            "issue": issues.take(pa.array(rng.integers(0, ISSUES, count))),
            "price": np.round(rng.lognormal(3.5, 0.8, count), 2),
            "vol": rng.lognormal(7.0, 1.7, count).astype(np.int64) + 1,
        }
    )


def names(exchange: str) -> dict[str, str]:
    return {f"{exchange}{i}": f"Company {exchange} {i}" for i in range(ISSUES)}


def subscriptions(count: int, seed: int = 5) -> pa.Table:
    """`com = C AND cap >= X`, with the parts that a hand-written join needs."""
    rng = np.random.default_rng(seed)
    exchanges, numbers = rng.choice(["N", "Q"], count), rng.integers(0, ISSUES, count)
    coms = [f"Company {e} {i}" for e, i in zip(exchanges, numbers, strict=True)]
    least = rng.integers(1_000_000, 5_000_000, count)
    selectors = [f"com = '{c}' AND cap >= {x}" for c, x in zip(coms, least, strict=True)]
    return pa.table({"id": np.arange(count), "selector": selectors, "com": coms, "least": least})


class Place:
    """A session with the trades, and what is asked of them."""

    def __init__(self, spark: SparkSession, folder: Path, scale: FlowScale) -> None:
        self.spark, self.folder, self.s = spark, folder, scale
        self.graph: Graph = check(parse_flow(STOCKS))
        self.lookups = {"NYSEdb": names("N"), "NASDdb": names("Q")}
        self.sources: dict[str, DataFrame] = {}
        for seed, (space, exchange) in enumerate((("NYSE", "N"), ("NASDAQ", "Q"))):
            table = trades(scale.rows // 2, exchange, seed)
            (folder / space).mkdir(parents=True)
            for part in range(4):
                size = -(-len(table) // 4)
                pq.write_table(table.slice(part * size, size), folder / space / f"{part}.parquet")
            self.sources[space] = spark.read.parquet(str(folder / space))
            self.sources[space].createOrReplaceTempView(f"{space}_trades")

    def flow(
        self, form: Any = rewritten, graph: Graph | None = None, space: str = "LargeTrades"
    ) -> DataFrame:
        frame: DataFrame = form(graph or self.graph, self.sources, self.lookups, [space])[space]
        return frame

    def by_hand(self) -> DataFrame:
        """With the names from the same mappings as the flow has them."""
        parts = []
        for space, lookup in zip(self.sources, self.lookups.values(), strict=True):
            known = pa.table({"key": list(lookup), "value": list(lookup.values())})
            self.spark.createDataFrame(known).createOrReplaceTempView(f"{space}_names")
            text = SQL.format(f"{space}_trades", f"{space}_names")
            parts.append(self.spark.sql(text.replace("SELECT", "SELECT /*+ BROADCAST(l) */")))
        return parts[0].unionAll(parts[1])

    def passed(self) -> DataFrame:
        return self.sources["NYSE"].unionAll(self.sources["NASDAQ"])

    def rules(self, count: int) -> DataFrame:
        """From a file, as users have them."""
        target = self.folder / f"rules-{count}"
        if not target.exists():
            target.mkdir()
            pq.write_table(subscriptions(count), target / "0.parquet")
        return self.spark.read.parquet(str(target))

    def costs(
        self, what: str, jobs: Mapping[str, Callable[[], DataFrame]], repeat: int | None = None
    ) -> dict[str, float]:
        progress.say(f"{what}: {', '.join(jobs)}")
        works = {name: partial(lambda job: consume(job()), job) for name, job in jobs.items()}
        return costs(works, self.s.repeat if repeat is None else repeat)


# --- what is measured ------------------------------------------------------------


def without_subscriptions(at: Place) -> Figures:
    ours, theirs = at.flow().count(), at.by_hand().count()
    assert ours == theirs, (ours, theirs)
    rows = at.s.rows
    jobs: dict[str, Callable[[], DataFrame]] = {
        "pass-through": at.passed,
        "by hand, Spark SQL": at.by_hand,
        "flow, rewritten": at.flow,
        "flow, arc by arc": lambda: at.flow(arc_by_arc),
    }
    found = at.costs("no subscriptions", jobs)
    return [[name, seconds, rows / seconds, ours] for name, seconds in found.items()]


def with_subscriptions(at: Place) -> Figures:
    n = at.s.subscriptions
    rules = at.rules(n)

    def joined() -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        left, right = at.by_hand().alias("t"), F.broadcast(rules).alias("r")
        on = (F.col("t.com") == F.col("r.com")) & (F.col("t.cap") >= F.col("r.least"))
        return left.join(right, on).select("t.com", "t.cap", "r.id")

    def matched(form: Any) -> Callable[[], DataFrame]:
        return lambda: match(at.flow(form), rules.select("id", "selector"))

    from pyspark.sql import functions as F  # noqa: N812

    pairs = matched(rewritten)().select(F.sum(F.size("subscriptions"))).first()[0]
    assert pairs == joined().count()
    jobs = {
        "pass-through": at.passed,
        "equi-join by hand": joined,
        "flow, rewritten": matched(rewritten),
        "flow, arc by arc": matched(arc_by_arc),
    }
    found = at.costs(f"{n:,} subscriptions", jobs)
    return [[n, name, seconds, pairs] for name, seconds in found.items()]


def one_query_each(at: Place) -> Figures:
    n, some = at.s.few, at.s.queries
    rules = at.rules(n)
    asked = [(row.com, row.least) for row in rules.collect()]

    def queries() -> None:
        for com, least in asked[:some]:
            consume(at.by_hand().where(f"com = '{com}' AND cap >= {least}"))

    progress.say(f"{n} subscriptions, and {some} queries of so many")
    ours = partial(_matched, at, rules)
    found = costs({"queries": queries, "ours": lambda: consume(ours())}, min(at.s.repeat, 2))
    return [[n, some, found["queries"] / some * n, found["ours"]]]


def _matched(at: Place, rules: DataFrame) -> DataFrame:
    return match(at.flow(), rules.select("id", "selector"))


def two_sinks(at: Place) -> Figures:
    def run(*spaces: str) -> None:
        sinks = {
            space: Sink(str(at.folder / "out" / space), "parquet", mode="overwrite")
            for space in spaces
        }
        FlowRunning(FlowJob(at.graph, at.sources, sinks, lookups=at.lookups), at.spark).run()

    progress.say("one sink, two sinks")
    jobs = {"one": lambda: run("LargeTrades"), "two": lambda: run("LargeTrades", "HugeTrades")}
    return [list(costs(jobs, at.s.repeat).values())]


def by_paths(at: Place) -> Figures:
    """Arcs from each source into one space, each for another range of prices."""
    found = []
    for count in at.s.paths:
        arcs = "".join(
            f"{space} -> Some : select price >= {low} AND price < {low + 100 / count} "
            f"AND vol > 20000; [issue, price, vol] => [issue, band := {low}, cap := price * vol]\n"
            for space in ("NYSE", "NASDAQ")
            for low in (100 / count * i for i in range(count))
        )
        graph = check(parse_flow(STOCKS.partition("lookup")[0] + arcs))

        def job(graph: Graph, native_paths: int) -> Callable[[], DataFrame]:
            form = partial(rewritten, native_paths=native_paths)
            return lambda: form(graph, at.sources, {}, ["Some"])["Some"]

        jobs = {"matcher": job(graph, 0)}
        if count <= MOST_FLAGS:
            jobs["flags"] = job(graph, count)
        if count <= MOST_ARCS:
            jobs["arcs"] = partial(_arcs, at, graph)
        taken = at.costs(f"{count} paths", jobs, repeat=1)
        names = ("flags", "matcher", "arcs")
        found.append([count, *map(taken.get, names), jobs["matcher"]().count()])
    return found


def _arcs(at: Place, graph: Graph) -> DataFrame:
    return arc_by_arc(graph, at.sources, {}, ["Some"])["Some"]


def by_subscriptions(at: Place) -> Figures:
    found = []
    for count in at.s.growth:
        jobs = {"flow": partial(_matched, at, at.rules(count))}
        found.append([count, *at.costs(f"{count:,} subscriptions", jobs, repeat=1).values()])
    return found


def sharing(at: Place) -> Figures:
    """Transforms of three rules, one after the other: path by path, and level by level."""
    found = []
    few = {space: frame.limit(FEW) for space, frame in at.sources.items()}
    for arcs in at.s.shared:
        graph = check(parse_flow(_in_a_row(arcs)))

        def job(sources: Mapping[str, DataFrame], levels: bool, graph: Graph) -> DataFrame:
            return rewritten(graph, sources, {}, levels=levels).wide

        last = graph.derived[-1:]
        by_path, by_level = (
            rewritten(graph, at.sources, {}, last, levels=levels)[last[0]].count()
            for levels in (False, True)
        )
        assert by_path == by_level, (by_path, by_level)
        jobs = {
            f"{levels} {size}": partial(job, sources, levels, graph)
            for size, sources in (("few", few), ("all", at.sources))
            for levels in (False, True)
        }
        progress.say(f"{arcs} transforms in a row")
        first = {name: _first(partial(_consume_made, run)) for name, run in jobs.items()}
        warm = at.costs("once more", jobs, repeat=1)
        found.append(
            [arcs, *weight(graph, graph.derived), first["False few"], first["True few"],
             warm["False all"], warm["True all"], by_path]
        )  # fmt: skip
    return found


def _in_a_row(arcs: int) -> str:
    """All sources lead into one space; each arc after it has three rules."""
    text = STOCKS.partition("lookup")[0] + "NYSE -> S0 : select vol > 0\n"
    text += "NASDAQ -> S0 : select vol > 0\n"
    for i in range(arcs):
        text += (
            f"S{i} -> S{i + 1} : [price, ... when price > {90 - i}] => [price := price * 0.9, ...]"
            f" | [price, ... when price > {40 + i}] => [price := price + 1, ...]"
            f" | [price, ... when price > {i}] => [price := price - 1, ...]\n"
        )
    return text


def _first(job: Callable[[], object]) -> float:
    """CPU-seconds of a job that Spark has not seen before: its code is made and compiled."""
    before = used()
    job()
    time.sleep(SETTLED)
    return used() - before


def _consume_made(job: Callable[[], DataFrame]) -> None:
    consume(job())


PARTS = {
    f.__name__: f
    for f in (without_subscriptions, with_subscriptions, two_sinks, one_query_each,
              by_subscriptions, by_paths, sharing)
}  # fmt: skip


def main(scale: str, *parts: str) -> None:
    progress.begin("flow")
    spark = session(cores=2)
    spark.sparkContext.setLogLevel("OFF")
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as folder:
        at = Place(spark, Path(folder), FLOW_SCALES[scale])
        for name in parts or PARTS:
            found[name] = PARTS[name](at)
            print(json.dumps(found), flush=True)  # the last line has all
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
