"""Flows with states on Spark give what they give in plain Python."""

from __future__ import annotations

import random

from flow.states.test_text import GRYPHON
from spark.states.test_streaming import as_json
from tamis.flow import check, parse_flow, run
from tamis.flow.states.batches.state_store import StateFiles


def rows(count: int) -> dict[str, list[dict]]:
    rng = random.Random(8)
    ticks = [
        {"issue": f"I{rng.randrange(4)}", "price": float(rng.randrange(-5, 250)), "seq": i}
        for i in range(count)
    ]
    tellers = [
        {
            "kind": rng.choice("DW"),
            "account": rng.randrange(3),
            "amt": rng.randrange(1, 80),
            "id": i,
        }
        for i in range(count)
    ]
    return {"Ticks": ticks, "Teller": tellers}


def test_one_batch_is_what_python_says(spark, tmp_path) -> None:
    from tamis.spark.states import StatefulFlow

    graph, given = check(parse_flow(GRYPHON)), rows(60)
    outputs = {n: str(tmp_path / n) for n in ("High", "Overdrafts", "QuietTicks")}
    flow = StatefulFlow(graph, str(tmp_path / "flow"), outputs, rejected=str(tmp_path / "bad"))
    frames = {n: spark.createDataFrame([tuple(r.values()) for r in found], list(found[0]))
              for n, found in given.items()}  # fmt: skip
    counted = flow.run(frames)
    expected = run(graph, given)
    for space, folder in outputs.items():
        found = [r.asDict() for r in spark.read.parquet(folder).drop("batch").collect()]
        plain = [{n: r.get(n) for n in graph.schemas[space]} for r in expected.spaces[space]]
        assert sorted(map(str, found)) == sorted(map(str, plain)), space
    assert counted["Quote"].events == sum(r["price"] > 0 for r in given["Ticks"])
    table, _ = StateFiles(flow.states_of("Quote")).read()
    quotes = {r["issue"]: (r["max"], r["cur"]) for r in table.to_pylist()}
    assert quotes == {r["issue"]: (r["max"], r["cur"]) for r in expected.spaces["Quote"]}
    bad = spark.read.parquet(str(tmp_path / "bad")).collect()
    assert len(bad) == len(expected.rejected) == sum(r["price"] <= 0 for r in given["Ticks"])


def test_two_streams_in_one_query(spark, tmp_path) -> None:
    from tamis.spark.states import StatefulFlow
    from tamis.spark.states.state_streams import emitted

    graph, given = check(parse_flow(GRYPHON)), rows(30)
    ddl = {
        "Ticks": "issue string, price double, seq long",
        "Teller": "kind string, account long, amt long, id long",
    }
    frames = {}
    for name, found in given.items():
        folder = as_json(tmp_path / name, [found[i : i + 10] for i in (0, 10, 20)])
        reader = spark.readStream.schema(ddl[name]).option("maxFilesPerTrigger", 1)
        frames[name] = reader.json(folder)
    flow = StatefulFlow(graph, str(tmp_path / "flow"), buckets=2)
    query = flow.start(frames, str(tmp_path / "checkpoint"), availableNow=True)
    assert query.awaitTermination(180)
    expected = run(graph, given)
    table, _ = StateFiles(flow.states_of("Quote")).read()
    quotes = {r["issue"]: (r["max"], r["cur"]) for r in table.to_pylist()}
    assert quotes == {r["issue"]: (r["max"], r["cur"]) for r in expected.spaces["Quote"]}
    accounts, _ = StateFiles(flow.states_of("Account")).read()
    balances = {r["account"]: r["bal"] for r in accounts.to_pylist()}
    assert balances == {r["account"]: r["bal"] for r in expected.spaces["Account"]}
    overdrafts = [
        e for e in emitted(spark, flow.events_of("Alerts")).collect() if e["event"] == "OD"
    ]
    assert len(overdrafts) == sum(len(r["ov"]) for r in accounts.to_pylist())
