"""The measurements on Spark, at a tiny scale, in the session of all tests.

Each of them compares the answers of all who do the same work before it times them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.experiments.spark import _save
from bench.spark.parts import PARTS, Place
from bench.spark.scale import SCALES
from bench.workloads import layers

from tamis.flow import check, parse_flow, run
from tamis.spark.flows import FlowJob, FlowRunning
from tamis.spark.jobs.job import Sink, Source


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    """Far fewer runs than for a look: what counts here is that all agree."""
    small = replace(SCALES["tiny"], rows=400, rules=(12,), planned=12, united=12, sample=400)
    at = Place(spark, tmp_path_factory.mktemp("bench"), small)
    _save(at.folder, small)
    return at


@pytest.mark.parametrize("part", ["million", "first", "memory"])
def test_a_part_runs_and_all_agree(place, part):
    found = PARTS[part](place)
    assert found
    for row in found:
        assert all(figure > 0 for figure in row if isinstance(figure, float))


def test_plans_are_compared(place, monkeypatch):
    monkeypatch.setattr(
        "bench.spark.plans.by_turns", lambda jobs, *given: dict.fromkeys(jobs, 1.0)
    )  # no clock here
    found = PARTS["plans"](place)
    taken = [(row[0], row[1], row[3], [x is not None for x in row[4:]]) for row in found]
    assert taken == [
        ("simple", 20, "columns", [False, False, False, True, False, True]),
        ("simple", 100, "join", [True, True, False, True, True, True]),
        ("mixed", 20, "columns", [False, False, True, True, False, True]),
    ]


def test_what_users_do_today_tells_what_tamis_tells(place, monkeypatch):
    monkeypatch.setattr(
        "bench.spark.parts.start_and_rate", lambda *given: (1.0, 1.0)
    )  # no clock here
    found = PARTS["others"](place)
    assert [(row[0], row[2]) for row in found] == [
        ("simple", "Tamis"),
        ("simple", "equi-join on symbol"),
        ("mixed", "Tamis"),
        ("mixed", "broadcast nested-loop join"),
        ("mixed", "numpy loop in a pandas UDF"),
        ("mixed", "CASE WHEN columns"),
        ("mixed", "union of filters"),
    ]
    assert all(row[5] > 0 for row in found)


@pytest.mark.parametrize("text", [layers.ONE_ARC, layers.SHARED, layers.layered(20)])
def test_flows_whose_growth_is_measured_do_on_spark_what_they_say(spark, tmp_path, text):
    graph = check(parse_flow(text))
    sources = {space: Source(str(path)) for space, path in layers.save(tmp_path).items()}
    out = Sink(str(tmp_path / "out"), "parquet")
    running = FlowRunning(FlowJob(graph, sources, together=out, counted=True), spark)
    running.run()
    expected = run(graph, layers.messages())
    assert dict(running.counting.counts.arcs) == expected.arcs
    assert all(expected.spaces.values())  # no space is for nothing
