"""Flows on Spark: the stock example of Gryphon, beside the same by hand in Spark SQL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.report import Chart, Goal, Result, Table, verdicts

ABOUT = (
    "CPU-seconds of the driver, Java and the Python workers together; what is compared takes "
    "turns, medians after some runs that do not count. The flow is figure 2 of the Gryphon paper "
    "over generated trades of two exchanges in Parquet files; 3 % are large trades; results go to "
    "a sink that drops them. *By hand* is the same in Spark SQL, with broadcast joins of the same "
    "mappings; *pass-through* reads all trades and writes them. Subscriptions are "
    "`com = C AND cap >= X`, read from a file each time."
)
Figures = dict[str, list[list[Any]]]


def run(scale: str) -> Result:
    found = _apart(scale)
    tables = [
        verdicts(_goals(found)),
        _without(found),
        _with(found),
        Table("Paths: arcs from each source into one space",
              ("paths of a source", "native flags s", "matcher s", "arc by arc s", "rows out"),
              found["by_paths"],
              "Up to a number of paths (NATIVE_PATHS in spark/flows) flags are native, "
              "beyond that the matcher finds the paths of a row. Arc by arc reads the source once "
              "for each arc."),
        Table("Subscriptions on LargeTrades", ("number", "CPU s"), found["by_subscriptions"]),
        Table("Transforms of three rules in a row: path by path, level by level",
              ("transforms", "weight by paths", "as written", "80 messages, paths s", "levels s",
               "all messages, paths s", "levels s", "rows out"),
              found["sharing"],
              "With 80 messages it is the first run of a job, whose code is still to be compiled. "
              "Beyond a weight (MOST_WEIGHT in spark/flows) a flow runs level by level."),
    ]  # fmt: skip
    return Result("flow", ABOUT, tables, [_chart(found)])


def _apart(scale: str) -> Figures:
    command = [sys.executable, "-m", "bench.spark.flows", scale]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def _goals(found: Figures) -> list[Goal]:
    plain = {row[0]: row[1] for row in found["without_subscriptions"]}
    asked = {row[1]: row[2] for row in found["with_subscriptions"]}
    n = found["with_subscriptions"][0][0]
    few, _, each, ours = found["one_query_each"][0]
    one, two = found["two_sinks"][0]
    own = asked["flow, rewritten"]
    return [
        Goal("flow / the same by hand", 1.1, 1.0,
             plain["flow, rewritten"] / plain["by hand, Spark SQL"], "x", True),
        Goal(f"{n:,} subscriptions / pass-through", 3, 2, own / asked["pass-through"], "x", True),
        Goal(f"{n:,} subscriptions / equi-join by hand", 2, 1.2, own / asked["equi-join by hand"],
             "x", True),
        Goal(f"{few} subscriptions, faster than one query each", 20, 20, each / ours, "x"),
        Goal(f"{n:,} subscriptions, rewritten / arc by arc", 1.0, 1.0,
             own / asked["flow, arc by arc"], "x", True),
        Goal("two sinks / one", 1.3, 1.1, two / one, "x", True),
    ]  # fmt: skip


def _without(found: Figures) -> Table:
    columns = ("how", "CPU s", "trades per CPU s", "large trades")
    return Table("Without subscriptions", columns, found["without_subscriptions"])


def _with(found: Figures) -> Table:
    few, some, each, ours = found["one_query_each"][0]
    note = (
        f"One query for each of {few} subscriptions costs {each:.1f} CPU s ({some} of them were "
        f"run), the flow with all of them {ours:.2f}."
    )
    columns = ("subscriptions", "how", "CPU s", "matches")
    return Table("With subscriptions on LargeTrades", columns, found["with_subscriptions"], note)


def _chart(found: Figures) -> Chart:
    lines = {"flow": [(float(n), seconds) for n, seconds in found["by_subscriptions"]]}
    return Chart("flow", "Subscriptions on LargeTrades", "subscriptions", "CPU s", lines)
