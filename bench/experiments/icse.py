"""ICSE 2001, section 8, as printed: times, nodes, and the sweep against one message at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa

from bench import diagrams, peers, progress
from bench.measure import cpu_seconds, timed, wall_by_turns
from bench.reference import eval_bdd, mv_eval_bdd, truths_of
from bench.report import Chart, Goal, Result, Table, verdicts
from bench.workloads import icse
from tamis import Matcher
from tamis.diagram.conditions import diagram_of
from tamis.diagram.shared import Shared
from tamis.language import Condition, parse
from tamis.logic import Semantics

ABOUT = (
    "The experiment of the paper: 10 attributes, 208 atomic formulas, random queries of 7.6 "
    "distinct atoms on average. A density defines each attribute of a message independently. "
    "Times are CPU seconds on one core, means of the runs; each run has its own queries "
    "and messages."
)


@dataclass(frozen=True, slots=True)
class Scale:
    sizes: tuple[int, ...]
    runs: int
    messages: int
    single: int  # messages for what evaluates one at a time
    eval: int  # messages for Python's eval


SCALES = {
    "full": Scale(icse.SIZES, 7, 65_536, 500, 10),
    "quick": Scale((2_000, 10_000), 1, 16_384, 100, 4),
    "tiny": Scale((50,), 1, 128, 5, 3),
}


def run(scale: str) -> Result:
    s = SCALES[scale]
    measured = {n: [_times(n, seed, s.messages) for seed in range(1, s.runs + 1)] for n in s.sizes}
    means = {
        n: [mean(column) for column in zip(*rows, strict=True)] for n, rows in measured.items()
    }
    progress.say("nodes before and after restriction")
    nodes = _nodes(s)
    progress.say("the sweep and its peers")
    ratios = _ratios(max(s.sizes), s)
    tables = [verdicts(_goals(means, nodes, *ratios)), _queries(s), _seconds(means), nodes, *ratios]
    return Result("icse", ABOUT, tables, [_chart(means)])


def _goals(
    means: dict[int, list[float]],
    nodes: Table,
    total: Table,
    strict: Table,
    pairs: Table,
    threads: Table,
    building: Table,
) -> list[Goal]:
    n = max(means)
    faster: dict[Any, Any] = {row[0]: row[2] for row in total.rows}
    built: Any = building.rows[0][1]
    made: Any = pairs.rows[0][2]
    shared: Any = threads.rows[0][2]
    share = means[n][1] / means[n][-2]
    goals = [
        Goal(f"{n:,} queries: sweep / EvalBDD", 200, 1_000, faster["EvalBDD, compiled"], "x"),
        Goal(f"{n:,} queries: sweep / numpy bitmaps", 1, None, faster["numpy bitmaps"], "x"),
        Goal(f"{n:,} queries: sweep / compile and eval", 1, None, faster["compile and eval"], "x"),
        Goal("(message, id) pairs per CPU-second", 50e6, 200e6, made),
        Goal("cost of a message, density 15.4 % / 100 %", 1 / 5, 1 / 10, share, at_most=True),
        Goal(f"{n:,} queries: 2 threads against 1", 1.7, 1.95, shared, "x"),
        Goal(f"{n:,} queries from text: build", 8, 3, built, " s", at_most=True),
    ]
    for size, factor in ((row[0], row[3]) for row in nodes.rows[:: max(1, len(nodes.rows) - 1)]):
        before, after = icse.PAPER_NODES.get(int(str(size).replace(",", "")), (1, 1))
        what = f"restriction at {size} queries, beside the paper's"
        goals.append(Goal(what, round(before / after, 2), None, float(factor or 0), "x"))
    return goals


# --- the paper's two tables ---------------------------------------------------


def _times(queries: int, seed: int, messages: int) -> list[float]:
    """Seconds for 1,000 messages at each density (strict), then for total messages (total)."""
    progress.say(f"{queries:,} queries, run {seed}")
    texts = icse.queries(queries, seed)
    matcher = _matcher(texts, "strict")
    tables = [icse.messages(messages, density, seed) for density in icse.DENSITIES]
    seconds = [cpu_seconds(lambda t=t: matcher.count_batch(t)) for t in tables]
    matcher = _matcher(texts, "total")
    seconds.append(cpu_seconds(lambda: matcher.count_batch(tables[-1])))
    return [1000 * taken / messages for taken in seconds]


def _matcher(texts: list[str], semantics: str) -> Matcher:
    matcher = Matcher(icse.SCHEMA, semantics=semantics)
    matcher.add_many(enumerate(texts))
    return matcher


def _queries(s: Scale) -> Table:
    texts = icse.queries(max(s.sizes))
    distinct, operators = icse.averages(texts)
    rows = [("here", distinct, operators), ("paper", 7.6, 7.7)]
    return Table("The queries", ("", "atomic formulas", "relational operators"), rows)


def _seconds(means: dict[int, list[float]]) -> Table:
    rows = []
    for n, seconds in means.items():
        rows.append((f"{n:,}", "here", *seconds))
        if paper := icse.PAPER_SECONDS.get(n):
            rows.append(("", "paper", *paper))
            ratios = [p / own for p, own in zip(paper, seconds, strict=True)]
            rows.append(("", "paper / here", *ratios))
    heads = [f"strict {density:.1%}" for density in icse.DENSITIES]
    note = "The paper's machine was a 200 MHz Pentium Pro."
    title = "Seconds to count the matches of 1,000 messages"
    return Table(title, ("queries", "", *heads, "total 100%"), rows, note)


def _nodes(s: Scale) -> Table:
    rows = []
    texts = icse.queries(max(s.sizes))
    conditions = [parse(text) for text in texts]
    for n in s.sizes:
        before = len(diagrams.printed(conditions[:n]))
        after = len(diagram_of(conditions[:n], icse.SCHEMA, "total").shared)
        rows.append((f"{n:,}", before, after, before / after, *_paper_nodes(n)))
    columns = ("queries", "before", "after", "factor", "paper: before", "after", "factor")
    note = (
        "Before: the 208 atoms as printed, one variable each, and no knowledge of what they mean."
    )
    return Table("Nodes before and after restriction", columns, rows, note)


def _paper_nodes(n: int) -> tuple[int | float | None, ...]:
    before, after = icse.PAPER_NODES.get(n, (None, None))
    return before, after, before / after if before and after else None


def _chart(means: dict[int, list[float]]) -> Chart:
    heads = [f"strict {density:.1%}" for density in icse.DENSITIES] + ["total"]
    lines = {
        head: [(float(n), 1000 / seconds[i]) for n, seconds in means.items()]
        for i, head in enumerate(heads)
    }
    return Chart("icse", "ICSE 2001 workload, one core", "queries", "messages/s", lines)


# --- ratios in one run --------------------------------------------------------


def _ratios(n: int, s: Scale) -> list[Table]:
    """The largest set: the sweep, and others on the same work."""
    texts = icse.queries(n)
    built: list[Matcher] = []
    build = timed(lambda: built.append(_matcher(texts, "total")))
    conditions = [parse(text) for text in texts]
    table = icse.messages(s.messages)
    return [
        _total(conditions, table, s, built[0]),
        _strict(texts, conditions, s),
        _pairs(built[0], table),
        _threads(built[0], table),
        _building(n, build),
    ]


def _total(conditions: list[Condition], table: pa.Table, s: Scale, matcher: Matcher) -> Table:
    """Each of the others is checked against the sweep's counts before it is timed."""
    few, fewer = table.slice(0, s.single), table.slice(0, s.eval)
    expected = matcher.count_batch(table)
    bitmaps = peers.Bitmaps(table)
    assert (bitmaps.counts(conditions) == expected).all()
    codes = peers.compiled(conditions)
    assert (peers.eval_counts(codes, fewer) == expected[: len(fewer)]).all()
    rows = few.to_pylist()
    sweep = len(table) / cpu_seconds(lambda: matcher.count_batch(table))
    rates = {
        "batch sweep, counts": sweep,
        "EvalBDD, compiled": _one_by_one(eval_bdd, conditions, few, "total", expected),
        "Matcher.match, one by one": len(rows) / cpu_seconds(lambda: [*map(matcher.match, rows)]),
        "numpy bitmaps": len(table) / cpu_seconds(lambda: bitmaps.counts(conditions), 1),
        "compile and eval": s.eval / cpu_seconds(lambda: peers.eval_counts(codes, fewer), 1),
    }
    found = [(name, rate, sweep / rate) for name, rate in rates.items()]
    columns = ("", "messages per CPU-second", "the sweep is faster by")
    return Table(f"{len(conditions):,} queries, total messages, counts", columns, found)


def _strict(texts: list[str], conditions: list[Condition], s: Scale) -> Table:
    matcher = _matcher(texts, "strict")
    rows = []
    for density in icse.DENSITIES:
        table = icse.messages(s.messages, density)
        few = table.slice(0, s.single)
        sweep = len(table) / cpu_seconds(lambda t=table: matcher.count_batch(t))
        expected = matcher.count_batch(few)
        one = _one_by_one(mv_eval_bdd, conditions, few, "strict", expected)
        rows.append((f"{density:.1%}", sweep, one, sweep / one))
    columns = ("density", "batch sweep", "MVEvalBDD, compiled", "the sweep is faster by")
    return Table(f"{len(texts):,} queries, strict, messages per CPU-second", columns, rows)


def _one_by_one(
    evaluate: Callable[[Shared, np.ndarray], np.ndarray],
    conditions: list[Condition],
    table: pa.Table,
    semantics: Semantics,
    expected: np.ndarray,
) -> float:
    """Messages per second of the paper's algorithm on the restricted diagram of all queries.

    Only the pass over the nodes is timed; the truth of the atoms is given.
    """
    diagram = diagram_of(conditions, icse.SCHEMA, semantics)
    star = semantics == "strict"
    truths = [truths_of(diagram, row, semantics, star=star) for row in table.to_pylist()]
    shared = diagram.shared
    counts = [int((evaluate(shared, truth)[shared.roots] == 1).sum()) for truth in truths]
    assert counts == expected[: len(truths)].tolist()
    return len(truths) / cpu_seconds(lambda: [evaluate(shared, truth) for truth in truths], 1)


def _building(n: int, seconds: float) -> Table:
    rows = [(f"{n:,}", seconds, 1e6 * seconds / n)]
    return Table("Build from text", ("queries", "CPU seconds", "microseconds per query"), rows)


def _threads(matcher: Matcher, table: pa.Table) -> Table:
    works = [lambda t=t: matcher.count_batch(table, threads=t) for t in (1, 2)]
    one, two = (len(table) / seconds for seconds in wall_by_turns(works, 5))
    columns = ("1 thread", "2 threads", "ratio")
    note = "Messages per second on the wall, counts only, total semantics."
    return Table("Threads", columns, [(one, two, two / one)], note)


def _pairs(matcher: Matcher, table: pa.Table) -> Table:
    """Ids materialised; so many messages that there are near 20 million pairs."""
    counts = np.cumsum(matcher.count_batch(table))
    messages = max(1, int(np.searchsorted(counts, 20_000_000)))
    some = table.slice(0, messages)
    pairs = len(matcher.match_batch(some).ids)
    seconds = cpu_seconds(lambda: matcher.match_batch(some))
    rows = [(len(some), pairs, pairs / seconds)]
    return Table("Ids materialised", ("messages", "pairs", "pairs per CPU-second"), rows)
