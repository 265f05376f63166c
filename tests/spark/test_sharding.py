"""Shards: whatever the cut, the results are those of one matcher for all."""

from __future__ import annotations

import contextlib
import decimal
import json
import math
import os
import random
import re
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

import strategies as st
from tamis import InputError, Matcher, Schema, SelectorError
from tamis.engine.sharding.shard_routes import bucket
from tamis.language import canonical, tree
from tamis.messages.texts import from_value
from tamis.messages.typed_tables import to_batch
from tamis.schema import INT_MAX, INT_MIN, Type
from tamis.spark import counts, deliveries, match, semi
from tamis.spark.message_questions import Question
from tamis.spark.sharded_frames import KEY, buckets

SYMBOLS = ["IBM", "SAP", "Straße", "𝒳", "", "Ä", "Dell", "x" * 200]


@pytest.fixture(scope="module")
def trades(spark):
    rng = random.Random(7)
    rows = [
        (n, rng.choice([*SYMBOLS, None, "other"]), rng.uniform(0, 100), n % 3 == 0)
        for n in range(300)
    ]
    return spark.createDataFrame(rows, "n long, symbol string, price double, flag boolean")


@pytest.fixture(scope="module")
def rules():
    rng = random.Random(8)
    made = []
    for i in range(200):
        symbol, price = rng.choice(SYMBOLS), rng.randint(1, 99)
        made.append(
            rng.choice(
                [
                    f"symbol = '{symbol}' AND price < {price}",
                    f"symbol IN ('{symbol}', 'IBM') AND price > {price}",
                    f"(symbol = '{symbol}' AND flag = TRUE) OR (n < {i} AND symbol = 'SAP')",
                    f"price BETWEEN {price} AND {price + 3}",
                    "symbol IS NULL AND flag = FALSE",
                ]
            )
        )
    return [(f"r{i}", text) for i, text in enumerate(made)]


@pytest.fixture(scope="module")
def table(spark, rules):
    rows = [(id, selector, f"{id}@example") for id, selector in rules]
    return spark.createDataFrame(rows, "id string, selector string, subscriber string")


def same(one, other) -> None:
    assert one.schema.simpleString() == other.schema.simpleString()  # a native plan knows no NULL
    first, second = (sorted(map(repr, frame.collect())) for frame in (one, other))
    assert first == second


def plan(frame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


# --- Spark and Python agree ------------------------------------------------------


def test_spark_finds_the_bucket_that_python_finds(spark):
    texts = [*st.STRINGS, *st.STRING_EDGES, "", "\0", None]
    whole = [*st.INTS, *st.INT_EDGES, INT_MAX, INT_MIN, None]
    doubles = [*st.DOUBLES, *st.DOUBLE_EDGES, 7.9, -7.9, math.inf, -math.inf, math.nan, None]
    for values, ddl, kind in (
        (texts, "string", Type.STRING),
        (whole, "long", Type.INT),
        (whole, "long", Type.DOUBLE),
        ([1, -7, None], "tinyint", Type.INT),
        (doubles, "double", Type.DOUBLE),
        ([1.5, -0.0, 3e38, None], "float", Type.DOUBLE),
        ([True, False, None], "boolean", Type.BOOL),
    ):
        frame = spark.createDataFrame([(value,) for value in values], f"v {ddl}")
        found = [row[0] for row in frame.select(buckets(F.col("v"), kind)).collect()]
        for value, own in zip(values, found, strict=True):
            undefined = value is None or (isinstance(value, float) and math.isnan(value))
            assert own == (None if undefined else bucket(value, kind)), (value, kind)


# --- the same results ------------------------------------------------------------


@pytest.mark.parametrize("shards", [2, 5])
def test_all_calls_of_a_table(trades, table, shards):
    for call in (match, counts, semi, deliveries):
        found = call(trades, table, shards=shards)
        assert "Exchange" in plan(found)
        same(found, call(trades, table, shards=1))


def test_a_matcher_and_a_snapshot(trades, rules, tmp_path):
    made = Matcher()
    made.add_many(rules)
    made.remove("r7")
    made.replace("r3", "symbol = 'IBM'")
    made.save(tmp_path / "saved")
    wanted = match(trades, made)
    assert any(row["subscriptions"][-1:] == ["r3"] for row in wanted.collect())
    same(match(trades, made, shards=3), wanted)
    same(match(trades, tmp_path / "saved", shards=3), wanted)


def test_ids_of_both_kinds(trades):
    made = Matcher()
    made.add_many((i if i % 2 else f"t{i}", f"symbol = '{s}'") for i, s in enumerate(SYMBOLS))
    made.add(99, "price < 50")
    same(match(trades, made, shards=8), match(trades, made, shards=1))


def test_few_subscriptions_and_none(spark, trades):
    for rows in (
        [],
        [(1, "symbol = 'IBM'")],
        [(1, "TRUE"), (2, "price < 50")],
        [(i, "symbol = 'IBM'") for i in range(9)],
        [(1, "symbol = 'IBM'"), (2, "FALSE"), (3, "symbol = 'SAP' AND FALSE")],
    ):
        few = spark.createDataFrame(rows, "id long, selector string")
        same(match(trades, few, shards=4), match(trades, few, shards=1))


CASES = [
    ("sql", True),
    ("sql", False),
    ("strict", True),
    ("strict", False),
    ("default", True),
    ("total", True),
]


@pytest.mark.parametrize(("semantics", "typed"), CASES)
def test_sharded_equals_broadcast_equals_local(spark, semantics, typed):
    """Random conditions on all types, routed by each attribute in turn."""
    rng = random.Random(f"shards {semantics} {typed}")
    schema = Schema(tuple(st.make_attribute(st.Rolled(rng), name) for name in st.NAMES))
    given = messages(rng, schema, total=semantics == "total")
    frame = spark.createDataFrame(given)
    for name in [n for n in schema if schema[n].type is not Type.TIMESTAMP]:
        matcher = Matcher(schema if typed else None, semantics=semantics)
        matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions(rng, schema, name)))
        question = Question.of(frame, matcher, {"shards": 3})
        assert question.sharding is not None
        assert question.sharding.address.attribute == name
        found = question.match("found").select("row", "found").toArrow().sort_by("row")
        wanted = matcher.match_batch(given.drop(["row"])).to_pylist()
        assert any(wanted)
        assert found["found"].to_pylist() == wanted


def conditions(rng, schema, name) -> list:
    made = [st.random_condition(rng, schema) for _ in range(8)]
    for _ in range(40):
        values = [st.make_constant(st.Rolled(rng), schema[name].type) for _ in range(2)]
        literals = tuple(tree.Literal.of(value) for value in values[: rng.randint(1, 2)])
        routed = tree.In(tree.Attribute(name), literals)
        made.append(tree.And((routed, rng.choice([routed, tree.Constant(True), made[0]]))))
    rng.shuffle(made)
    return made


def messages(rng, schema, *, total) -> pa.Table:
    rows: list[dict] = []
    while len(rows) < 120:
        message = st.random_message(rng, schema, total=total)
        batch, misfits = to_batch([message], schema, list(schema), from_value)
        if not misfits and not (total and any(c.null_count for c in batch.columns)):
            rows.append(message)
    batch, _ = to_batch(rows, schema, list(schema), from_value)
    return pa.table({"row": list(range(len(rows)))} | {n: batch.column(n) for n in schema})


def test_a_schema_that_makes_other_numbers_of_the_column(spark):
    """Integers as doubles and doubles as integers; the default where there is none."""
    rows = [(i, float(i % 7), None if i % 5 == 0 else i % 4) for i in range(60)]
    rows += [(2**53 + 1, 2.0**53, 1), (2**53, -0.0, 2)]
    frame = spark.createDataFrame(rows, "i long, d double, k int")
    for schema, semantics, selectors in (
        (Schema.of(i=float), "sql", [f"i = {v}" for v in (*range(9), 2**53)]),
        (Schema.of(d=int), "sql", [f"d = {v}" for v in (*range(9), 2**53)]),
        (Schema.of(k=(int, 3)), "default", [f"k = {v}" for v in range(5)]),
        (Schema.of(k=(float, 3.0)), "default", [f"k IN ({v}, 1)" for v in range(5)]),
    ):
        matcher = Matcher(schema, semantics=semantics)
        matcher.add_many(enumerate(selectors))
        found = match(frame, matcher, shards=4)
        assert "Exchange" in plan(found)
        same(found, match(frame, matcher, shards=1))


def test_fields_of_structs_and_lookups(spark):
    rows = [((f"S{i % 5}", i),) for i in range(40)] + [(None,)]
    frame = spark.createDataFrame(rows, "trade struct<symbol: string, n: int>")
    table = spark.createDataFrame(
        [(i, f"trade.symbol = 'S{i}' AND odd(trade.n) = TRUE") for i in range(5)]
        + [(9, "trade.symbol IS NULL")],
        "id int, selector string",
    )
    lookups = {"odd": {n: n % 2 == 1 for n in range(40)}}
    found = match(frame, table, shards=3, lookups=lookups)
    assert "Exchange" in plan(found)
    same(found, match(frame, table, shards=1, lookups=lookups))


# --- what is bad -----------------------------------------------------------------


def test_bad_subscriptions(spark, trades):
    rows = [("a", "symbol = 'IBM'", "A"), ("b", "price > > 1", "B"), ("a", "TRUE", "C")]
    rows += [(None, "TRUE", "D"), ("d", None, "E"), ("b", "symbol = 'SAP'", "F")]
    bad = spark.createDataFrame(rows, "id string, selector string, subscriber string")
    with pytest.raises(SelectorError, match="subscription 'b'"):
        match(trades, bad, shards=2)
    for call in (match, deliveries):
        found = call(trades, bad, shards=2, on_error="report")
        assert "Exchange" in plan(found)
        same(found, call(trades, bad, shards=1, on_error="report"))


def test_a_message_must_fit_whatever_its_shard_looks_at(spark):
    """Only one subscription reads the amount, and it is in the shard of SAP."""
    amounts = [("IBM", "1.5"), ("SAP", "2.5")]
    amounts += [(symbol, "12345678901234567890.25") for symbol in ("IBM", "SAP", None)]
    told = [(symbol, decimal.Decimal(amount)) for symbol, amount in amounts]
    frame = spark.createDataFrame(told, "symbol string, amount decimal(30,2)")
    rows = [("a", "symbol = 'IBM'"), ("b", "symbol = 'SAP' AND amount > 2")]
    table = spark.createDataFrame(rows, "id string, selector string")
    for call in (match, counts, semi):
        found = call(frame, table, shards=16, on_error="report")
        assert "Exchange" in plan(found)
        same(found, call(frame, table, shards=1, on_error="report"))
    assert (
        match(frame, table, shards=16, on_error="report").where("_error IS NOT NULL").count() == 3
    )
    with pytest.raises(Exception, match="has more digits"):
        match(frame, table, shards=16).collect()


def test_options_that_are_no_numbers_of_shards(trades, table):
    for options, told in (({"shards": 0}, "shards"), ({"shard_size": 0}, "shard_size")):
        with pytest.raises(InputError, match=f"{told} is a number from 1 on"):
            match(trades, table, **options)


# --- the plan, and what a worker holds --------------------------------------------


def test_chosen_by_size(trades):
    alerts = Matcher()
    alerts.add_many((i, f"symbol = 'S{i % 50}' AND price < {i}") for i in range(200))

    def shards(size, given=alerts) -> int:
        question = Question.of(trades, given, {"shard_size": size})
        return 1 if question.sharding is None else len(question.sharding.shards.parts)

    assert [shards(size) for size in (1_000_000, 200, 199, 50)] == [1, 1, 2, 4]
    general = Matcher()
    general.add_many((i, f"price > {i}") for i in range(100))
    assert shards(10, general) == 1  # nothing can be routed: shards would be of no use


def test_one_exchange_and_only_the_columns_that_are_asked_for(spark, trades, table, tmp_path):
    trades.write.parquet(str(tmp_path / "trades"))
    stored = spark.read.parquet(str(tmp_path / "trades"))
    matched = match(stored, table, shards=3)
    assert plan(matched).count("Exchange ") == 1
    assert "flag" in plan(matched)
    assert plan(matched).count("ArrowEvalPython") == 1
    few = spark.createDataFrame(
        [(i, f"symbol = 'S{i}'") for i in range(9)], "id int, selector string"
    )
    narrow = plan(match(stored, few, shards=3).select("n", "subscriptions"))
    assert narrow.count("Exchange ") == 1
    assert "price" not in narrow
    assert "flag" not in narrow


def test_a_task_has_one_shard_though_each_shard_has_several_tasks(spark, trades, table):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    try:
        question = Question.of(trades.repartition(3), table, {"shards": 3})
        assert question.sharding is not None
        assert question.sharding.shards.tasks == 2
        sent = question.sharding.exchanged(question.messages, [F.col("symbol"), F.col("price")])
        rows = sent.select("symbol", KEY, F.spark_partition_id().alias("task")).collect()
        same(question.match("subscriptions"), match(trades, table, shards=1))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert all(row[KEY] == row["task"] for row in rows)
    known = [row for row in rows if row["symbol"] is not None]
    assert all(row["task"] // 2 == zlib.crc32(row["symbol"].encode()) % 3 for row in known)
    hot = {row["task"] for row in known if row["symbol"] == "IBM"}
    assert len(hot) == 2  # one value, two tasks
    assert len({row["task"] for row in rows if row["symbol"] is None}) > 2  # they may go anywhere


def test_tasks_that_are_joined_later_meet_several_shards(trades, table):
    same(match(trades, table, shards=5).coalesce(1), match(trades, table, shards=1))
    same(counts(trades, table, shards=5).coalesce(1), counts(trades, table, shards=1))


def test_a_worker_holds_the_rest_and_one_shard(trades, table):
    question = Question.of(trades, table, {"shards": 4})
    assert question.sharding is not None
    shards = question.sharding.shards
    sharded = shards.opened({})
    held = []
    for number in range(4):
        row = {"symbol": "IBM", "price": 50.0, "flag": True, "n": 1, KEY: number * shards.tasks}
        sharded.count_batch(pa.RecordBatch.from_pylist([row]))
        held.append([len(part.matcher) for part in sharded._united._parts])
        assert mapped(os.getpid(), shards) == {shards.rest.matcher.name, name(shards, number)}
    assert shards.opened({}) is sharded  # what the next task of the process finds
    assert len({rest for rest, _ in held}) == 1
    assert held[0][0] + sum(own for _, own in held) >= 200


def name(shards, number) -> str:
    return shards.parts[number].matcher.name


def mapped(process, shards) -> set[str]:
    """The files of matchers that the process has in its memory."""
    known = {shard.matcher.name for shard in (shards.rest, *shards.parts) if shard is not None}
    text = Path(f"/proc/{process}/maps").read_text(encoding="utf-8")
    return known & set(re.findall(r"tamis-\w+\.snapshot", text))


def test_python_workers_hold_the_rest_and_one_shard(spark):
    """A real run; TAMIS_ALERTS=300000 makes it a large one."""
    count = int(os.environ.get("TAMIS_ALERTS", "3000"))
    alerts = Matcher(Schema.of(symbol=str, price=float))
    alerts.add_many((i, f"symbol = 'S{i % 997}' AND price < {i % 100 + 1}") for i in range(count))
    rows = spark.range(20_000).selectExpr("concat('S', id % 997) symbol", "id % 101.0 price")
    trades = rows.selectExpr("symbol", "cast(price as double) price")
    question = Question.of(trades, alerts, {"shards": 4})
    assert question.sharding is not None
    shards = question.sharding.shards
    found = question.counts("matches").agg(F.sum("matches")).first()[0]
    assert found == int(alerts.count_batch(trades.toArrow()).sum()) > 0
    workers = [held for p in python_workers() if (held := mapped(p, shards))]
    assert workers
    assert all(len(held) == 2 and shards.rest.matcher.name in held for held in workers)


def python_workers() -> list[int]:
    """The processes that Spark has started for Python, found by what they run."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if b"spark.workers.daemon" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


# --- streams ---------------------------------------------------------------------


def test_a_stream(spark, trades, table, tmp_path):
    (tmp_path / "in").mkdir()
    rows = [row.asDict() for row in trades.collect()]
    for i, first in enumerate((0, 120, 121, 300)):
        text = "".join(json.dumps(row) + "\n" for row in rows[first : (120, 121, 300, 300)[i]])
        (tmp_path / "in" / f"{i}.json").write_text(text, encoding="utf-8")
    reader = spark.readStream.schema(trades.schema).option("maxFilesPerTrigger", 1)
    stream = reader.json(str(tmp_path / "in"))
    for call in (match, deliveries):
        frame = call(stream, table, shards=3)
        name = f"sharded_{call.__name__}"
        writer = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        query = writer.start()
        assert query.awaitTermination(120)
        same(spark.table(name), call(trades, table, shards=1))
