"""Flow jobs: sources and sinks, error output, counts, streams that are killed, the command."""

from __future__ import annotations

import json
import random
import runpy
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flow.rewritten import bag
from killing import KILLS, QUICK, finished, started, wait_for_a_batch
from tamis.errors import InputError, TamisError
from tamis.flow import check, parse_flow, run

pytest.importorskip("pyspark")

from tamis.spark.flows import FlowJob, FlowRunning, Subscribed
from tamis.spark.jobs.job import Sink, Source, Stream

ROOT = Path(__file__).parents[2]
TEXT = """
space NYSE(issue: string, price: double, vol: int) where vol >= 0
space NASDAQ(issue: string, price: double, vol: int)
lookup Names(string) -> string
NYSE     -> Combined    : [issue, price, vol] => [com := Names(issue), price, vol]
NASDAQ   -> Combined    : [issue, price, vol] => [com := Names(issue), price, vol]
Combined -> LargeTrades : [com, price, vol] => [com, cap := price * vol]; select cap >= 100
Combined -> Priceless   : select price IS NULL; [com, ...] => [com]
"""
NAMES = {"IBM": "Int", "GE": "Gen"}


def trades(count, seed):
    rng = random.Random(seed)
    return [
        {
            "issue": rng.choice(["IBM", "GE", "X", None]),
            "price": rng.choice([1.5, 20.0, 300.25, None]),
            "vol": rng.choice([-1, 1, 10, 10**6, None]),
        }
        for _ in range(count)
    ]


SCHEMA = pa.schema([("issue", pa.string()), ("price", pa.float64()), ("vol", pa.int64())])


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Two sources: Parquet, and JSON lines of which some are broken."""
    folder = tmp_path_factory.mktemp("given")
    rows = {"NYSE": trades(60, 1), "NASDAQ": trades(50, 2)}
    (folder / "nyse").mkdir()
    for i in range(0, 60, 20):
        table = pa.Table.from_pylist(rows["NYSE"][i : i + 20], SCHEMA)
        pq.write_table(table, folder / "nyse" / f"{i}.parquet")
    (folder / "nasdaq").mkdir()
    lines = [json.dumps(row) for row in rows["NASDAQ"]]
    bad = ['{"issue": "IBM", "price": 1', '{"issue": "IBM", "price": 2.0, "vol": 1.5}']
    (folder / "nasdaq" / "a.json").write_text("\n".join(lines[:30] + bad) + "\n")
    (folder / "nasdaq" / "b.json").write_text("\n".join(lines[30:]) + "\n")
    sources = {
        "NYSE": Source(str(folder / "nyse")),
        "NASDAQ": Source(str(folder / "nasdaq"), "json"),
    }
    return sources, run(check(parse_flow(TEXT)), rows, {"Names": NAMES}), len(bad)


def job(given, **more):
    return FlowJob(check(parse_flow(TEXT)), given[0], lookups={"Names": NAMES}, **more)


def rows(path):
    found = pq.ParquetDataset(path, partitioning=None)
    return found.read().to_pylist()


def test_several_sinks_errors_and_counts(spark, given, tmp_path):
    _, expected, broken = given
    sinks = {s: Sink(str(tmp_path / s), "parquet") for s in ("LargeTrades", "Priceless")}
    made = job(given, sinks=sinks, errors=Sink(str(tmp_path / "errors"), "parquet"), counted=True)
    running = FlowRunning(made, spark)
    compressed = spark.conf.get("spark.sql.inMemoryColumnarStorage.compressed")
    running.run()
    assert spark.conf.get("spark.sql.inMemoryColumnarStorage.compressed") == compressed
    for space in sinks:
        assert bag(rows(tmp_path / space)) == bag(expected.spaces[space]), space
    found = Counter(row["space"] for row in rows(tmp_path / "errors"))
    assert found == {"NYSE": len(expected.rejected), "NASDAQ": broken}
    counts = running.counting.counts
    assert dict(counts.arcs) == expected.arcs
    assert dict(counts.spaces) == {name: len(m) for name, m in expected.spaces.items()}
    assert running.counting.rejected == len(expected.rejected) + broken


def test_one_sink_for_all_spaces_has_a_folder_for_each(spark, given, tmp_path):
    _, expected, _ = given
    made = job(given, together=Sink(str(tmp_path / "all"), "parquet"))
    FlowRunning(made, spark).run()
    for space in ("Combined", "LargeTrades", "Priceless"):
        found = rows(tmp_path / "all" / f"space={space}")
        assert bag(found) == bag(expected.spaces[space]), space


def test_several_spaces_into_a_sink_that_writes_nothing_are_counted(spark, given):
    _, expected, _ = given
    running = FlowRunning(job(given, together=Sink(format="noop"), counted=True), spark)
    running.run()
    counts = running.counting.counts
    assert dict(counts.spaces) == {name: len(m) for name, m in expected.spaces.items()}


TWO_TYPES = """
space Ticks(n: int, name: string)
Ticks -> Numbers : [n, name] => [worth := n, name]
Ticks -> `Na/mes` : [n, name] => [worth := name, Name := name]
"""


@pytest.mark.parametrize("streaming", [False, True])
def test_spaces_with_one_name_and_two_types_have_a_folder_each(spark, tmp_path, streaming):
    rows_in = [{"n": i, "name": f"x{i}"} for i in range(5)]
    (tmp_path / "ticks").mkdir()
    pq.write_table(pa.Table.from_pylist(rows_in), tmp_path / "ticks" / "0.parquet")
    graph = check(parse_flow(TWO_TYPES))
    FlowRunning(
        FlowJob(
            graph,
            {"Ticks": Source(str(tmp_path / "ticks"))},
            together=Sink(str(tmp_path / "all"), "parquet"),
            stream=Stream(str(tmp_path / "checkpoint")) if streaming else None,
        ),
        spark,
    ).run()
    expected = run(graph, {"Ticks": rows_in}).spaces
    inside = "batch=0" if streaming else ""
    for space, folder in (("Numbers", "space=Numbers"), ("Na/mes", "space=Na%2Fmes")):
        assert bag(rows(tmp_path / "all" / folder / inside)) == bag(expected[space])


SHARED = """
space Raw(n: int, x: double) where n > 0
lookup Names(string) -> string
Raw -> A : [n, x when x > 1] => [n, x := x * 2]
  | [n, x when x < 0] => [n, x := -x]
  | [n, x] => [n, x]
Raw -> B : select n % 2 = 0
A -> B : [n, x when n > 5] => [n := n - 1, x]
  | [n, x when n > 2] => [n, x := x + 1]
  | [n, x] => [n, x]
B -> C : [n, x when x > 2] => [n, x := x - 1]
  | [n, x when x < 1] => [n, x := 0.5]
  | [n, x] => [n, x]
A -> C : select x > 2
"""


@pytest.mark.parametrize("streaming", [False, True])
def test_a_flow_whose_paths_share_arcs_is_counted_level_by_level(spark, tmp_path, streaming):
    rows_in = [{"n": i % 9 - 1, "x": i / 3 - 1.0} for i in range(30)]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pylist(rows_in), tmp_path / "in" / "0.parquet")
    graph = check(parse_flow(SHARED))
    made = FlowJob(
        graph,
        {"Raw": Source(str(tmp_path / "in"))},
        sinks={"C": Sink(str(tmp_path / "c"), "parquet")},
        lookups={"Names": {}},
        errors=Sink(str(tmp_path / "errors"), "parquet"),
        stream=Stream(str(tmp_path / "checkpoint")) if streaming else None,
        counted=True,
    )
    running = FlowRunning(made, spark)
    running.run()
    expected = run(graph, {"Raw": rows_in}, {"Names": {}})
    assert bag(rows(tmp_path / "c")) == bag(expected.spaces["C"])
    assert len(rows(tmp_path / "errors")) == len(expected.rejected) > 0
    counts = running.counting.counts
    assert dict(counts.arcs) == expected.arcs
    assert dict(counts.spaces) == {name: len(m) for name, m in expected.spaces.items()}
    assert running.counting.rejected == len(expected.rejected)
    assert running.counting.rows == len(rows_in)


@pytest.mark.parametrize("form", ["rewritten", "arcs"])
def test_subscriptions_on_a_derived_space(spark, given, tmp_path, form):
    asked = spark.createDataFrame(
        [("a", "com = 'Int'"), ("b", "cap > 1000"), ("c", "com IS NULL")],
        "id string, selector string",
    )
    made = job(
        given,
        sinks={"LargeTrades": Sink(str(tmp_path / "out"), "parquet")},
        subscriptions={"LargeTrades": Subscribed(asked, "deliveries")},
        form=form,
    )
    FlowRunning(made, spark).run()
    found = Counter(row["subscription"] for row in rows(tmp_path / "out"))
    large = given[1].spaces["LargeTrades"]
    assert found == {
        "a": sum(row.get("com") == "Int" for row in large),
        "b": sum(row["cap"] > 1000 for row in large),
        "c": sum("com" not in row for row in large),
    }


def test_a_stream_with_several_sinks_and_counts(spark, given, tmp_path):
    _, expected, broken = given
    sources = {
        space: Source(source.path, source.format, {"maxFilesPerTrigger": "1"})
        for space, source in given[0].items()
    }
    sinks = {s: Sink(str(tmp_path / s), "parquet") for s in ("LargeTrades", "Priceless")}
    stream = Stream(str(tmp_path / "checkpoint"))
    made = job((sources,), sinks=sinks, stream=stream, counted=True,
               errors=Sink(str(tmp_path / "errors"), "parquet"))  # fmt: skip
    running = FlowRunning(made, spark)
    running.run()
    assert running.batches >= 3
    for space in sinks:
        assert bag(rows(tmp_path / space)) == bag(expected.spaces[space]), space
    assert len(rows(tmp_path / "errors")) == len(expected.rejected) + broken
    assert dict(running.counting.counts.arcs) == expected.arcs
    again = FlowRunning(made, spark)
    again.run()  # from the checkpoint: nothing is left to do
    assert bag(rows(tmp_path / "Priceless")) == bag(expected.spaces["Priceless"])


def test_a_csv_source_has_columns_by_name_and_broken_rows(spark, tmp_path):
    text = "note,vol,issue,price\nx,10,IBM,20.0\ny,ten,IBM,20.0\nz,,GE,1000.5\nw,3,GE,\n"
    (tmp_path / "trades.csv").write_text(text)
    made = FlowJob(
        check(parse_flow(TEXT)),
        {"NASDAQ": Source(str(tmp_path / "trades.csv"))},
        {"Combined": Sink(str(tmp_path / "out"), "parquet")},
        errors=Sink(str(tmp_path / "errors"), "parquet"),
        lookups={"Names": NAMES},
    )
    FlowRunning(made, spark).run()
    expected = [
        {"com": "Int", "price": 20.0, "vol": 10},
        {"com": "Gen", "price": 1000.5},
        {"com": "Gen", "vol": 3},
    ]
    assert bag(rows(tmp_path / "out")) == bag(expected)
    (bad,) = rows(tmp_path / "errors")
    assert bad["space"] == "NASDAQ"
    assert "ten" in bad["row"]


def test_the_example_in_python_runs(spark, tmp_path, capsys):
    path = ROOT / "examples" / "stocks" / "in_python.py"
    runpy.run_path(str(path))["main"](tmp_path)
    shown = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert shown["LargeTrades"] == "3"
    lines = [x for p in (tmp_path / "large").glob("*.json") for x in p.read_text().splitlines()]
    found = [json.loads(line) for line in lines]
    assert sorted(row["subscriptions"] for row in found) == [[], ["ibm"], ["whale"]]
    assert "Messages of each arc" in (tmp_path / "report.html").read_text()


def test_a_job_with_states_is_not_run_without_them(spark, tmp_path):
    text = "space T(n: int)\nT -> U\nstate S from T ordered by n (m: int := 0)\n  rule => m := n\n"
    made = FlowJob(
        check(parse_flow(text)),
        {"T": spark.createDataFrame([(1,)], "n long")},
        {"U": Sink(str(tmp_path / "u"), "parquet")},
    )
    with pytest.raises(InputError, match="StatefulRunning"):
        FlowRunning(made, spark).run()


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({}, InputError, "the flow has no sink"),
        ({"sinks": {"Gone": Sink("x")}}, TamisError, "there is no space Gone"),
        ({"sinks": {"Combined": Sink("x")}, "form": "magic"}, InputError, "rewritten or arcs"),
    ],
)
def test_bad_jobs_are_refused(given, more, error, message):
    with pytest.raises(error, match=message):
        job(given, **more)


# --- kill -9 --------------------------------------------------------------------

DRIVER = f"""
import sys
from tamis.flow import check, parse_flow
from tamis.spark import session
from tamis.spark.flows import FlowJob, FlowRunning
from tamis.spark.jobs.job import Sink, Source, Stream

folder, last = sys.argv[1], sys.argv[2] == "last"
spark = session(cores=2, memory="1g", settings={QUICK})
graph = check(parse_flow(open(folder + "/flow").read()))
one = {{"maxFilesPerTrigger": "1"}}
sources = {{s: Source(f"{{folder}}/in/{{s}}", "json", one) for s in ("NYSE", "NASDAQ")}}
sinks = {{s: Sink(f"{{folder}}/out/{{s}}", "parquet") for s in ("LargeTrades", "Priceless")}}
errors = Sink(folder + "/out/errors", "parquet")
stream = Stream(folder + "/checkpoint", None if last else 0.0)
names = {{"Names": {{"IBM": "Int", "GE": "Gen"}}}}
job = FlowJob(graph, sources, sinks, errors=errors, lookups=names,
              stream=stream)
print("started", flush=True)
FlowRunning(job, spark).run()
print("done", flush=True)
"""


def test_kill_9_loses_nothing_and_repeats_nothing(tmp_path):
    files, each = 6 + 4 * KILLS, 15
    messages = {space: trades(files * each, seed) for seed, space in enumerate(("NYSE", "NASDAQ"))}
    for space, found in messages.items():
        folder = tmp_path / "in" / space
        folder.mkdir(parents=True)
        for i in range(files):
            lines = [json.dumps(row) for row in found[i * each : (i + 1) * each]]
            (folder / f"{i:03}.json").write_text("\n".join(lines) + "\n")
    (tmp_path / "flow").write_text(TEXT)
    rng = random.Random(9)
    for _ in range(KILLS):
        with started(DRIVER, tmp_path, "more"):
            wait_for_a_batch(tmp_path)
            time.sleep(rng.uniform(0.0, 3.0))
    finished(DRIVER, tmp_path, "last")
    expected = run(check(parse_flow(TEXT)), messages, {"Names": NAMES})
    for space in ("LargeTrades", "Priceless"):
        assert bag(rows(tmp_path / "out" / space)) == bag(expected.spaces[space]), space
    assert len(rows(tmp_path / "out" / "errors")) == len(expected.rejected)


# --- the command ----------------------------------------------------------------


def test_the_command_runs_a_job_file_with_report(spark, given, tmp_path, capsys):
    from tamis.cli import main

    (tmp_path / "a.flow").write_text(TEXT)
    (tmp_path / "names.csv").write_text("key,value\nIBM,Int\nGE,Gen\n")
    (tmp_path / "job.toml").write_text(f"""
flow = "a.flow"
from = {{ NYSE = "{given[0]["NYSE"].path}", NASDAQ = "{given[0]["NASDAQ"].path}" }}
from-format = {{ NASDAQ = "json" }}
lookup = {{ Names = "{tmp_path}/names.csv" }}
to = {{ LargeTrades = "{tmp_path}/large" }}
report = "{tmp_path}/report.html"
""")
    assert main(["flow", "run", str(tmp_path / "job.toml")]) == 0
    out = capsys.readouterr().out
    assert f"LargeTrades {len(given[1].spaces['LargeTrades']):>28,}"[:11] in out
    assert f"Combined -> LargeTrades {given[1].arcs[2]:>14,}" in out
    assert bag(rows(tmp_path / "large")) == bag(given[1].spaces["LargeTrades"])
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<svg" in page
    assert "LargeTrades" in page
    code = main(["flow", "run", str(tmp_path / "job.toml"), "--from", "NYSE=/gone"])
    assert code == 2
