"""States: missed ticks made short, folds, expansions, and streams on Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import progress
from bench.measure import cpu_seconds, timed
from bench.report import Goal, Result, Table, verdicts
from bench.workloads import ticks
from bench.workloads.states import ACCOUNT, ALERTS, MANY, QUOTE, wide
from tamis.flow.states import States, Trace, collapse, equivalent, expand
from tamis.flow.states.batches.expansions import expand_tables
from tamis.flow.states.expansion.search import BUDGET

ABOUT = (
    "A subscriber that was away gets the shortest sequence that means the same as what it missed; "
    "collapse outside of Spark, expansions one by one and many at once; streaming folds beside "
    "Spark's own state. CPU-seconds; on Spark those of driver, JVM and Python workers together."
)


@dataclass(frozen=True, slots=True)
class Scale:
    missed: int
    issues: int
    expansions: int
    components: tuple[int, ...]
    keys: int  # of the streams
    events: int  # of a micro-batch; 0 leaves Spark out
    batches: int
    slow: int  # events of a micro-batch for transformWithState


SCALES = {
    "full": Scale(1_000_000, 2_000, 2_000, (2, 4, 6, 8, 10), 100_000, 200_000, 24, 10_000),
    "quick": Scale(100_000, 500, 200, (2, 4, 6), 10_000, 20_000, 4, 2_000),
    "tiny": Scale(2_000, 20, 10, (2, 3), 100, 0, 0, 0),
}


def run(scale: str) -> Result:
    s = SCALES[scale]
    goals: list[Goal] = []
    tables = [_missed(s, goals), _folds(s, goals), _expansions(s, goals), _growth(s)]
    if s.events:
        tables.append(_streams(scale, s, goals))
    return Result("states", ABOUT, [verdicts(goals), *tables])


def _missed(s: Scale, goals: list[Goal]) -> Table:
    table, which = ticks.missed(s.missed, s.issues)
    progress.say(f"{s.missed:,} missed ticks")
    taken = cpu_seconds(lambda: equivalent(table, QUOTE))
    short = equivalent(table, QUOTE)
    assert collapse(short, QUOTE).rows == collapse(table, QUOTE).rows
    most = int(np.max(np.unique(short["issue"].to_numpy(False), return_counts=True)[1]))
    what = f"{s.missed:,} missed ticks of {s.issues:,} issues"
    goals.append(Goal(f"{what}: made short", 2, 0.5, taken, " CPU-s", True))
    goals.append(Goal(f"{what}: most events of an issue", 2, None, most, "", True))
    rows = [[which, s.missed, len(collapse(table, QUOTE)), short.num_rows, most, taken]]
    columns = ("ticks", "missed", "issues", "sent", "most of an issue", "CPU-s")
    return Table("Equivalent sequences", columns, rows)


def _folds(s: Scale, goals: list[Goal]) -> Table:
    rows: list[list[Any]] = []
    for name, table in (("as they come", _events(s, False)), ("shuffled", _events(s, True))):
        progress.say(f"fold, events {name}")
        taken = cpu_seconds(lambda table=table: collapse(table, MANY))
        rows.append(["compiled", name, s.missed, s.missed / taken])
    goals.append(Goal("collapse, scalars, outside of Spark", 5, 8, rows[0][3] / 1e6, " M events/s"))
    few = _events(s, False).slice(0, s.missed // 20).to_pylist()
    taken = timed(lambda: collapse(few, MANY))
    rows.append(["plain Python", "as they come", len(few), len(few) / taken])
    columns = ("way", "events", "number", "events per CPU-second")
    return Table(f"Folds: three components, {s.issues:,} keys", columns, rows)


def _events(s: Scale, shuffled: bool) -> Any:
    import pyarrow as pa

    rng = np.random.default_rng(3)
    seq = np.arange(s.missed)
    if shuffled:
        rng.shuffle(seq)
    return pa.table({
        "k": rng.integers(0, s.issues, s.missed),
        "v": rng.integers(1, 10_000, s.missed) / 100,
        "n": rng.integers(1, 100, s.missed),
        "seq": seq,
    })  # fmt: skip


def _expansions(s: Scale, goals: list[Goal]) -> Table:
    rng = np.random.default_rng(5)
    starts = [QUOTE.state(a, a / 2) for a in rng.integers(1, 100, s.expansions).tolist()]
    ends = [QUOTE.state(c["max"] + 7, c["max"]) for c in starts]
    one = timed(lambda: [expand(a, b, QUOTE) for a, b in zip(starts, ends, strict=True)])
    before, after = (
        States(QUOTE, {(f"S{i}",): state for i, state in enumerate(states)}).to_table()
        for states in (starts, ends)
    )
    many = cpu_seconds(lambda: expand_tables(before, after, QUOTE, None, BUDGET))
    goal = ACCOUNT.state(5, ((10, 30), (12, 31)))
    bank = timed(lambda: [expand(ACCOUNT.initial, goal, ACCOUNT, through=ALERTS)
                          for _ in range(s.expansions)])  # fmt: skip
    goals.append(
        Goal(f"{s.expansions:,} expansions of Quote, all at once", 1, 0.1, many, " s", True)
    )
    goals.append(
        Goal(f"{s.expansions:,} expansions of Quote by A*, one by one", 1, 0.5, one, " s", True)
    )
    rows = [
        ["Quote, A*, one by one", s.expansions, one, 1e6 * one / s.expansions],
        ["Quote, plans, all at once", s.expansions, many, 1e6 * many / s.expansions],
        ["bank account, derived events", s.expansions, bank, 1e6 * bank / s.expansions],
    ]
    return Table("Expansions", ("what", "number", "CPU-s", "µs each"), rows)


def _growth(s: Scale) -> Table:
    rows: list[list[Any]] = []
    for components in s.components:
        summary = wide(components)
        goal = summary.state(*range(1, components + 1))
        expand(summary.initial, goal, summary)
        trace = Trace()
        start = time.process_time()
        found = expand(summary.initial, goal, summary, trace=trace)
        taken = time.process_time() - start
        rows.append([components, len(found), len(trace.visits), 1e3 * taken])
        progress.say(f"{components} components")
    columns = ("components", "events", "zones", "CPU-ms")
    note = "Each event replaces two neighbours, one of them only upward: the form is constrained."
    return Table("How expansion grows with components, all of them different", columns, rows, note)


def _streams(scale: str, s: Scale, goals: list[Goal]) -> Table:
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as folder:
        command = [sys.executable, "-m", "bench.spark.states", folder, scale]
        root = Path(__file__).parents[2]
        done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])
    own = next(rate for name, *_, rate in rows if name.startswith("Tamis"))
    what = f"streaming collapse, {s.keys:,} keys"
    goals.append(Goal(what, 200_000, 300_000, own, " events/CPU-s"))
    for name, *_, rate in rows[1:]:
        goals.append(Goal(f"{what} / {name}", 1, None, own / rate, "x"))
    table = [[*row, own / row[-1]] for row in rows]
    columns = (
        "how",
        "keys",
        "events a batch",
        "CPU-s a batch",
        "events per CPU-s",
        "Tamis is faster by",
    )
    note = "Medians over the last half of the micro-batches. transformWithState gets fewer events."
    return Table("Streams on Spark", columns, table, note)
