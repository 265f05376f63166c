"""Flows on Spark: arc by arc and rewritten, batch and streaming, as plain Python does them."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial, reduce

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dose import dose
from flow.random_flows import TABLES, random_run
from flow.rewritten import bag, published
from tamis.errors import FlowError, InputError
from tamis.flow import check, parse_flow, run

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.schema import Type
from tamis.spark import match
from tamis.spark.flows import arc_by_arc, rewritten
from tamis.spark.flows.path_frames import NATIVE_PATHS
from tamis.spark.native.native_values import SPARK_TYPES

GRAPHS = dose(3, 100)
FORMS = (arc_by_arc, partial(rewritten, levels=False), partial(rewritten, levels=True))
ARROW = {
    Type.INT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.BOOL: pa.bool_(),
    Type.TIMESTAMP: pa.timestamp("us", "UTC"),
}
STOCKS = """
space NYSE(issue: string, price: double, vol: int)
space NASDAQ(issue: string, price: double, vol: int)
lookup NYSEdb(string) -> string
lookup NASDdb(string) -> string
NYSE     -> Combined    : [issue, price, vol] => [com := NYSEdb(issue), price, vol]
NASDAQ   -> Combined    : [issue, price, vol] => [com := NASDdb(issue), price, vol]
Combined -> LargeTrades : [com, price, vol] => [com, cap := price * vol]; select cap >= 1000000
"""
NAMES = {"NYSEdb": {"IBM": "Int", "GE": "Gen"}, "NASDdb": {"MSFT": "Mic"}}


def table(schema, rows):
    kinds = pa.schema([(a.name, ARROW[a.type]) for a in schema.attributes])
    return pa.Table.from_pylist(rows, kinds)


def tables(graph, messages):
    """The messages that fit, as Arrow tables by space."""
    rows = {space: [] for space in graph.published}
    for space, message in published(graph, messages):
        rows[space].append(message)
    return {space: table(graph.schemas[space], found) for space, found in rows.items()}


def rows(frame):
    return frame.toArrow().to_pylist()


def rows_of_all(streams, spaces):
    """The rows of each space, by one job for all of them."""
    parts = [  # arrays of one row: a row of another space is NULL, its columns may not be
        streams[space].select(
            F.array(F.struct(*(f"`{name}`" for name in streams[space].columns))).alias(space)
        )
        for space in spaces
    ]
    together = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    found = together.toArrow()
    return {
        space: [row for one in found.column(space).to_pylist() for row in one or ()]
        for space in spaces
    }


def rejections(frame):
    return Counter() if frame is None else Counter(row["space"] for row in rows(frame))


def expected(graph, messages):
    result = run(graph, messages, TABLES)
    stopped = Counter(bad.space for bad in result.rejected if "where" in bad.reason)
    return {space: bag(found) for space, found in result.spaces.items()}, stopped


# --- all ways -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_all_ways_give_the_same(spark, seed):
    graph, messages = random_run(seed + 1000, 20, depth=1, spaces=3)
    wanted, stopped = expected(graph, messages)
    sources = {s: spark.createDataFrame(t) for s, t in tables(graph, messages).items()}
    for form in FORMS:
        streams = form(graph, sources, TABLES, graph.schemas)
        for space, found in rows_of_all(streams, graph.schemas).items():
            assert bag(found) == wanted[space], (form, space)
        assert rejections(streams.rejected) == stopped, form


def test_paths_by_the_matcher_are_the_same_as_native_flags(spark):
    graph, messages = random_run(2, 30, depth=1, spaces=5)
    wanted, stopped = expected(graph, messages)
    sources = {s: spark.createDataFrame(t) for s, t in tables(graph, messages).items()}
    streams = rewritten(graph, sources, TABLES, graph.schemas, native_paths=1)
    for space, found in rows_of_all(streams, graph.schemas).items():
        assert bag(found) == wanted[space], space
    assert rejections(streams.rejected) == stopped


# --- streaming ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(max(1, GRAPHS // 3)))
def test_any_split_into_micro_batches_gives_the_same(spark, tmp_path, seed):
    graph, messages = random_run(seed + 500, 20, depth=1, spaces=3)
    wanted, _ = expected(graph, messages)
    given = tables(graph, messages)
    sources = {}
    for space, found in given.items():
        folder = tmp_path / "in" / space
        folder.mkdir(parents=True)
        for i, at in enumerate(range(0, max(1, len(found)), 1 + seed * 3)):
            pq.write_table(found.slice(at, 1 + seed * 3), folder / f"{i}.parquet")
        ddl = ", ".join(
            f"`{a.name}` {SPARK_TYPES[a.type]}" for a in graph.schemas[space].attributes
        )
        reader = spark.readStream.schema(ddl).option("maxFilesPerTrigger", 4)
        sources[space] = reader.parquet(str(folder))
    space = list(graph.schemas)[-1]
    for form in (arc_by_arc, rewritten):
        out = tmp_path / form.__name__
        frame = form(graph, sources, TABLES, [space])[space]
        writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{out}-c")
        writer.trigger(availableNow=True).start(str(out)).awaitTermination()
        assert bag(rows(spark.read.parquet(str(out)))) == wanted[space], form.__name__


# --- plans ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def trades(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trades")
    found = {}
    for space, issue in (("NYSE", "IBM"), ("NASDAQ", "MSFT")):
        prices = pa.table(
            {
                "issue": [issue, "X", issue, None],
                "price": [120.0, 2000000.0, 1.0, None],
                "vol": [10_000, 1, 1, 5],
            }
        )
        pq.write_table(prices, folder / f"{space}.parquet")
        found[space] = spark.read.parquet(str(folder / f"{space}.parquet"))
    return found


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("wanted", [["LargeTrades"], ["LargeTrades", "Combined"]])
def test_the_rewritten_plan_reads_each_source_once_and_has_no_worker(trades, wanted):
    streams = rewritten(check(parse_flow(STOCKS)), trades, NAMES, wanted)
    plan = plan_of(streams.wide)
    assert len(re.findall(r"FileScan", plan)) == 2
    assert "Python" not in plan
    assert "ArrowEval" not in plan


def test_subscriptions_add_one_matcher(trades):
    graph = check(parse_flow(STOCKS))
    subscriptions = trades["NYSE"].sparkSession.createDataFrame(
        [(f"s{i}", f"com = 'Int' AND cap > {i}") for i in range(200)], "id string, selector string"
    )
    streams = rewritten(graph, trades, NAMES, ["LargeTrades"])
    frame = match(streams["LargeTrades"], subscriptions)
    plan = plan_of(frame)
    assert len(re.findall(r"FileScan", plan)) == 2
    assert len(re.findall(r"ArrowEvalPython|PythonUDF|ArrowUDF", plan)) <= 2  # node and its call
    assert {len(row["subscriptions"]) for row in rows(frame) if row["com"] == "Int"} == {200}


def test_many_paths_are_found_by_one_matcher_in_one_scan(trades):
    arcs = "".join(
        f"NYSE -> Some : select price >= {i} AND vol > {i}; [vol, ...] => [vol, band := {i}]\n"
        for i in range(NATIVE_PATHS + 2)
    )
    graph = check(parse_flow(STOCKS + arcs))
    streams = rewritten(graph, {"NYSE": trades["NYSE"]}, NAMES, ["Some"])
    plan = plan_of(streams.wide)
    assert len(re.findall(r"FileScan", plan)) == 1
    assert len(re.findall(r"ArrowEvalPython", plan)) == 1
    expected = run(graph, {"NYSE": rows(trades["NYSE"])}, NAMES).spaces["Some"]
    assert bag(rows(streams["Some"])) == bag(expected)


def test_selects_go_down_to_the_scan(trades):
    streams = rewritten(check(parse_flow(STOCKS)), trades, NAMES, ["LargeTrades"])
    plan = plan_of(streams["LargeTrades"])
    for branch in plan.split("FileScan")[:2]:
        assert "Filter" in branch
        assert "1000000.0" in branch


def test_a_lookup_is_joined_only_where_a_wanted_space_needs_it(trades):
    text = STOCKS + "NYSE -> Small : select vol < 3; [vol, ...] => [vol]\n"
    graph = check(parse_flow(text))
    assert "Join" not in plan_of(rewritten(graph, trades, NAMES, ["Small"])["Small"])
    assert "Join" in plan_of(rewritten(graph, trades, NAMES, ["Combined"])["Combined"])


def test_what_nobody_asked_for_is_an_error(trades):
    streams = rewritten(check(parse_flow(STOCKS)), trades, NAMES, ["LargeTrades"])
    with pytest.raises(InputError, match="Combined was not asked for"):
        streams["Combined"]


# --- bad rows, bad sources, bad lookups -----------------------------------------

CHECKED = """
space A(n: int, price: double) where price > 0
A -> B : [n, price] => [n, half := price / n]
"""


@pytest.mark.parametrize("form", [arc_by_arc, rewritten])
def test_bad_rows_go_to_the_error_output_and_nothing_is_lost(spark, form):
    given = [(1.0, 4.0), (1.5, 4.0), (float("nan"), 2.0), (None, 2.0), (0.0, 2.0),
             (3.0, -1.0), (4.0, None), (1e300, 1.0)]  # fmt: skip
    frame = spark.createDataFrame(given, "n double, price double")
    streams = form(check(parse_flow(CHECKED)), {"A": frame}, {}, ["B"])
    good, bad = rows(streams["B"]), rows(streams.rejected)
    assert bag(good) == bag([{"n": 1, "half": 4.0}, {}, {}, {"n": 0}])
    assert Counter(row["reason"] for row in bad) == {
        "n is not of type int": 2,
        "it breaks the space's where: price > 0": 2,
    }
    assert {row["space"] for row in bad} == {"A"}
    assert any('"price":-1.0' in row["row"] for row in bad)
    assert len(good) + len(bad) == len(given)


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("n string, price double", "column n is string, the space says int"),
        ("n long", "the source of space A has no column price; it has n"),
    ],
)
def test_sources_that_do_not_fit_are_refused(spark, ddl, message):
    frame = spark.createDataFrame([], ddl)
    with pytest.raises(InputError, match=message):
        rewritten(check(parse_flow(CHECKED)), {"A": frame}, {}, ["B"])


@pytest.mark.parametrize(
    ("sources", "message"),
    [({}, "needs a source"), ({"B": 1}, "nothing can be published in B")],
)
def test_sources_have_a_place(sources, message):
    with pytest.raises(InputError, match=message):
        rewritten(check(parse_flow(CHECKED)), sources, {}, ["B"])


@pytest.mark.parametrize(
    ("pairs", "ddl", "message"),
    [
        ([("a", "x"), ("a", "y")], "key string, value string", "the key 'a' is there twice"),
        ([(None, "x")], "key string, value string", "a key is undefined"),
        ([("a", "x")], "code string, value string", "no column key"),
        ([(1, "x")], "key long, value string", "column key is bigint"),
    ],
)
def test_bad_lookup_frames_are_refused(spark, trades, pairs, ddl, message):
    lookup = spark.createDataFrame(pairs, ddl)
    with pytest.raises(FlowError, match=rf"line \d, lookup NYSEdb: .*{message}"):
        rewritten(check(parse_flow(STOCKS)), trades, {**NAMES, "NYSEdb": lookup}, ["Combined"])


def test_columns_that_spark_takes_for_one_are_refused(spark):
    graph = check(parse_flow("space A(x: int, X: int)\nA -> B\n"))
    with pytest.raises(InputError, match="takes the columns x and X for one"):
        rewritten(graph, {"A": spark.createDataFrame([], "x long")}, {}, ["B"])
