"""What a match carries on Spark, beside all ids and a window; a function of SQL beside `match`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.experiments.spark import apart
from bench.report import Goal, Result, Table, verdicts
from bench.spark.scale import SCALES

ABOUT = (
    "Seconds on the wall, two cores, the median of three runs by turns after as many that "
    "do not count, or of fifteen for the function of SQL, results to a sink that drops them. "
    "Rows match thousands of rules each; `carry=['owner'], order_by='priority'` keeps "
    "the first of them inside the worker, and beside it all ids are exploded, joined with the "
    "rules, and numbered by a window. The function of SQL gets all columns as one struct; `match` "
    "is prepared before the clock starts, as the function is. Results were compared first."
)


def run(scale: str) -> Result:
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as name:
        found = apart(Path(name), scale, max(SCALES[scale].cores), "carried", "sql")
    return Result("carry", ABOUT, [verdicts(_goals(found)), *_tables(found)], [])


def _goals(found: dict[str, Any]) -> list[Goal]:
    limit, first = ([row[4] for row in found["carried"]][i : i + 2] for i in (0, 2))
    matched, called, _ = (row[3] for row in found["sql"])
    return [
        Goal("limit=5 / all ids and a window", 5, None, limit[0] / limit[1], "x"),
        Goal("first=True / all ids and a window", 5, None, first[0] / first[1], "x"),
        Goal("function of SQL / match", 0.9, None, matched / called, "x"),
    ]


def _tables(found: dict[str, Any]) -> list[Table]:
    heads = ("what", "rows", "rules", "matches of a row", "seconds")
    return [
        Table("First matches", heads, found["carried"]),
        Table("From SQL", (*heads[:3], "seconds"), found["sql"]),
    ]
