"""Memory and build time per subscription.

Each set is built in a fresh process that has imported everything and warmed up on a small set.
What counts is the growth of its resident memory (RSS) while the set is built: numpy and numba
allocate outside of what tracemalloc sees. Freed memory is handed back to the system first. Ids
are 0, 1, 2, ...; texts come from a generator, so a text is in memory only where the matcher keeps
it. What texts and ids alone take, as Python objects in two lists, is measured likewise, in another
process; finding a subscription by its id is the matcher's own expense.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import progress
from bench.measure import resident_bytes
from bench.report import Goal, Result, Table, verdicts
from bench.workloads import general, icse, stock
from tamis import Matcher, Schema

ABOUT = (
    "Growth of resident memory while a set is built from text, each in a fresh process that has "
    "warmed up before. Texts and ids: what these alone take as Python objects in two lists, "
    "measured likewise; a matcher keeps both."
)
SCALES = {
    "full": [("stock", 10_000), ("stock", 100_000), ("stock", 1_000_000), ("zipf", 1_000_000),
             ("icse", 25_000), ("icse", 100_000), ("general", 3_000)],
    "quick": [("stock", 50_000), ("icse", 5_000), ("general", 50)],
    "tiny": [("stock", 300)],
}  # fmt: skip
_COLUMNS = (
    *("set", "subscriptions", "build s", "µs each", "bytes each"),
    *("of which texts and ids", "without these"),
)


def run(scale: str) -> Result:
    rows = [_row(name, count) for name, count in SCALES[scale]]
    stocks = [row for row in rows if row[0] == "stock"]
    tables = [
        verdicts([_goal(*stocks[-1])]),
        Table("Memory and build time", _COLUMNS, rows),
    ]
    return Result("memory", ABOUT, tables)


def _goal(name: str, count: int, *figures: float) -> Goal:
    what = f"memory for each of {count:,} stock alerts, texts and ids not counted"
    return Goal(what, 200, 60, figures[-1], " bytes", at_most=True)


def _row(name: str, count: int) -> list[Any]:
    progress.say(f"{count:,} {name}")
    built, texts = _fresh(name, count, "matcher"), _fresh(name, count, "texts")
    each, own = built["bytes"] / count, texts["bytes"] / count
    seconds = built["seconds"]
    return [name, count, seconds, 1e6 * seconds / count, each, own, each - own]


def _fresh(name: str, count: int, what: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.experiments.memory", name, str(count), what]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


# --- in the fresh process -----------------------------------------------------


def _workload(name: str, count: int) -> tuple[Schema, Callable[[], Iterator[str]]]:
    """The texts come when called for; what they are made from is there before and stays."""
    if name == "icse":
        grammar = icse.Grammar(1)
        return icse.SCHEMA, lambda: (grammar.query() for _ in range(count))
    if name == "general":
        chance = random.Random(1)
        return general.SCHEMA, lambda: (general.condition(chance) for _ in range(count))
    return stock.SCHEMA, stock.alerts(count, zipf=name == "zipf").texts


def _probe(name: str, count: int, what: str) -> dict[str, float]:
    schema, small = _workload(name, min(count, 200))
    Matcher(schema).add_many(enumerate(small()))
    _, texts = _workload(name, count)
    before, start = resident_bytes(), time.process_time()
    kept: object
    if what == "matcher":
        kept = Matcher(schema)
        kept.add_many(enumerate(texts()))
    else:
        kept = list(range(count)), list(texts())
    seconds = time.process_time() - start
    grown = resident_bytes() - before
    del kept
    return {"bytes": grown, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(_probe(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
