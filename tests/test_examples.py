"""The bundled example: reproducible, small, and matched as another database matches it."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tamis import Matcher

FLIGHTS = Path(__file__).parents[1] / "examples" / "flights"
SUBSCRIPTIONS = [
    json.loads(line)
    for line in (FLIGHTS / "subscriptions.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_subscriptions_are_what_the_script_makes():
    script = runpy.run_path(str(FLIGHTS / "make_subscriptions.py"))
    assert script["subscriptions"]() == SUBSCRIPTIONS
    assert len({s["id"] for s in SUBSCRIPTIONS}) == len(SUBSCRIPTIONS) == 300


def test_sample_is_small():
    assert (FLIGHTS / "flights.parquet").stat().st_size < 1_000_000


def test_report_counts_subscriptions_messages_and_deliveries():
    report = runpy.run_path(str(FLIGHTS / "report.py"))["report"]
    selectors = {"late-1": "x = 1", "late-2": "y = 2", "far-3": "z = 3"}
    matches = [{"subscriptions": ["late-1", "late-2"]}, {"subscriptions": ["late-2"]}]
    assert list(report(selectors, matches)) == [
        "3 subscriptions, 2 of them matched something",
        "2 flights were of interest to someone, 3 deliveries in all",
        "the busiest subscription of each kind:",
        "       2  late-2           y = 2",
    ]


@pytest.fixture(scope="module")
def some_flights():
    return pq.read_table(FLIGHTS / "flights.parquet").take(list(range(0, 19_811, 10)))


def test_matches_are_those_of_duckdb(some_flights):
    matcher = Matcher()
    matcher.add_many((s["id"], s["selector"]) for s in SUBSCRIPTIONS)
    found = {s["id"]: set() for s in SUBSCRIPTIONS}
    for row, ids in enumerate(matcher.match_batch(some_flights).to_pylist()):
        for id in ids:
            found[id].add(row)
    with duckdb.connect() as database:
        numbers = [list(range(some_flights.num_rows))]
        database.register("flights", some_flights.append_column("row", numbers))
        expected = {s["id"]: _rows_of_duckdb(s["selector"], database) for s in SUBSCRIPTIONS}
    assert found == expected
    assert sum(map(bool, found.values())) > 100


def _rows_of_duckdb(selector: str, database: duckdb.DuckDBPyConnection) -> set[int]:
    where = re.sub(r"(\w+) STARTS WITH '(\w+)'", r"starts_with(\1, '\2')", selector)
    where = re.sub(r"(\w+) ENDS WITH '(\w+)'", r"ends_with(\1, '\2')", where)
    rows = database.execute(f"SELECT row FROM flights WHERE {where}").fetchall()
    return {row for (row,) in rows}
