"""The bundled example: reproducible, small, and matched as another database matches it."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.json
import pyarrow.parquet as pq
import pytest

from dose import DEEP
from tamis import Matcher

EXAMPLES = Path(__file__).parents[1] / "examples"
FLIGHTS = Path(__file__).parents[1] / "examples" / "flights"
make = runpy.run_path(str(FLIGHTS / "subscriptions.py"))["subscriptions"]


@pytest.fixture(scope="module")
def subscriptions():
    return make()


def test_subscriptions_are_many_different_and_always_the_same(subscriptions):
    assert len(subscriptions) == 20_000
    assert len({s["id"] for s in subscriptions}) == 20_000
    assert len({s["selector"] for s in subscriptions}) == 20_000
    assert make() == subscriptions
    assert make(10) == subscriptions[:10]


def test_the_script_writes_them_as_json_lines(tmp_path, subscriptions):
    target = tmp_path / "new" / "s.jsonl"
    subprocess.run([sys.executable, FLIGHTS / "subscriptions.py", target], check=True)
    assert pyarrow.json.read_json(target).to_pylist() == subscriptions


def test_the_selectors_say_all_sorts_of_things(subscriptions):
    text = " ".join(s["selector"] for s in subscriptions)
    for word in ("LIKE", "STARTS WITH", "ENDS WITH", "CONTAINS", "IS NULL", "IS NOT NULL", "OR",
                 "NOT", "IN", "NOT IN", "BETWEEN", "TIMESTAMP", "-", "/", "*"):  # fmt: skip
        assert f" {word} " in text, word


def test_sample_is_small():
    assert (FLIGHTS / "flights.parquet").stat().st_size < 2_000_000


def test_matches_are_those_of_duckdb(subscriptions):
    flights = pq.read_table(FLIGHTS / "flights.parquet").take(list(range(0, 112_259, 40)))
    asked = subscriptions[::50]
    matcher = Matcher()
    matcher.add_many((s["id"], s["selector"]) for s in asked)
    found = {s["id"]: set() for s in asked}
    for row, ids in enumerate(matcher.match_batch(flights).to_pylist()):
        for id in ids:
            found[id].add(row)
    with duckdb.connect() as database:
        numbers = [list(range(flights.num_rows))]
        database.register("flights", flights.append_column("row", numbers))
        expected = {s["id"]: _rows_of_duckdb(s["selector"], database) for s in asked}
    assert found == expected
    assert sum(map(bool, found.values())) > 100


def _rows_of_duckdb(selector: str, database: duckdb.DuckDBPyConnection) -> set[int]:
    for words, function in (
        ("STARTS WITH", "starts_with"),
        ("ENDS WITH", "ends_with"),
        ("CONTAINS", "contains"),
    ):
        selector = re.sub(rf"(\w+) {words} '(\w+)'", rf"{function}(\1, '\2')", selector)
    rows = database.execute(f"SELECT row FROM flights WHERE {selector}").fetchall()
    return {row for (row,) in rows}


@pytest.mark.skipif(not DEEP, reason="four routers as processes: with HYPOTHESIS_PROFILE=deep")
def test_branches_lose_and_double_nothing():
    """Four routers, a wire that is cut, one that is killed; the story checks itself."""
    told = subprocess.run([sys.executable, EXAMPLES / "branches" / "story.py"], check=True,
                          capture_output=True, text=True, timeout=300).stdout  # fmt: skip
    assert told.endswith("each once, in order\n")
    assert "connected" in told
