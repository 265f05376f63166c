"""Native plans on Spark, beside the matcher and beside what users write by hand, in CPU-seconds."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.experiments.spark import apart
from bench.report import Chart, Goal, Result, Table, verdicts
from bench.spark.scale import SCALES

ABOUT = (
    "`tamis.spark.match` and `deliveries` in CPU-seconds of the driver, Java and all Python "
    "workers, planning and the reading of rules included; messages from Parquet files, results to "
    "a sink that drops them. *Simple* rules are `symbol = S AND price < P` with 100 symbols. By "
    "hand that is an equi-join on the symbol, which gives one row for each pair of message and "
    "rule, as `deliveries` does; or, to get all messages with an array of ids each, as `match` "
    "does, a join with an array of rules for each symbol and a `filter` of it. *Mixed* rules are "
    "conjunctions over ten columns, and by hand a column of CASE WHEN for each. Jobs take turns; "
    "medians."
)
COLUMNS = ("equi-join s", "arrays by hand s", "CASE WHEN s", "match s", "deliveries s", "matcher s")


def run(scale: str) -> Result:
    s = SCALES[scale]
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as name:
        found = apart(Path(name), scale, max(s.cores), "plans")["plans"]
    return Result("native", ABOUT, [verdicts(_goals(found)), _table(found)], [_chart(found)])


def _goals(found: list[list[Any]]) -> list[Goal]:
    goals = []
    for kind, n, _, auto, pairs, arrays, cases, native, deliveries, matcher in found:
        ours = matcher if auto == "matcher" else native
        rules = f"{n:,} {kind} rules"
        for what, peer, own in (
            (f"match, {rules} / equi-join and filtered arrays", arrays, ours),
            (f"deliveries, {rules} / equi-join", pairs, deliveries),
            (f"match, {rules} / equi-join, which drops messages without a match", pairs, ours),
            (f"match, {rules} / CASE WHEN", cases, ours),
        ):
            if peer is not None and own is not None:
                goals.append(Goal(what, 0.95, 1.2, peer / own, "x"))
    return goals


def _table(found: list[list[Any]]) -> Table:
    rows = [[*row, None if row[7] is None else row[9] / row[7]] for row in found]
    note = (
        "`match` is that of the native plan, also beyond where `auto` takes it (the limits are in "
        "spark/native/planning.py). Empty: not asked, no such plan, or Spark would plan for many "
        "seconds (CASE WHEN)."
    )
    columns = ("rules", "number", "messages", "auto takes", *COLUMNS, "native is faster by")
    return Table("CPU-seconds, and where the plans cross", columns, rows, note)


def _chart(found: list[list[Any]]) -> Chart:
    lines: dict[str, list[tuple[float, float]]] = {}
    for kind, n, *_, native, _, matcher in found:
        for name, seconds in (("native", native), ("matcher", matcher)):
            if seconds is not None:
                lines.setdefault(f"{kind}, {name}", []).append((n, seconds))
    return Chart("native", "Few rules on Spark", "rules", "CPU-seconds", lines)
