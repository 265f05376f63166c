"""What comes in and what goes out: ids, counts, rows that match, deliveries, problems."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis import InputError, Matcher, Schema, SelectorError, SubscriptionError
from tamis.spark import counts, deliveries, match, plan_of, problems, semi

TRADES = [("IBM", 1200.0, 1), ("Dell", 15.0, 2), (None, 2000.0, 3), ("IBM", None, 4)]
ALERTS = [
    ("alice", "price < 1500 AND company CONTAINS 'IBM'"),
    ("bob", "company IN ('IBM', 'Dell') AND NOT price BETWEEN 10 AND 20"),
    ("carol", "price > 10"),
]
WANTED = {1: ["alice", "bob", "carol"], 2: ["carol"], 3: ["carol"], 4: []}


@pytest.fixture
def trades(spark):
    return spark.createDataFrame(TRADES, "company string, price double, n int")


@pytest.fixture
def alerts(spark):
    return spark.createDataFrame(ALERTS, "id string, selector string")


@pytest.fixture(scope="module")
def matcher():
    made = Matcher()
    made.add_many(ALERTS)
    return made


def by_number(frame, column="subscriptions") -> dict:
    return {row["n"]: row[column] for row in frame.collect()}


def test_a_matcher(trades, matcher):
    found = match(trades, matcher)
    assert found.columns == ["company", "price", "n", "subscriptions"]
    assert found.schema["subscriptions"].dataType.simpleString() == "array<string>"
    assert by_number(found) == WANTED
    assert [tuple(row)[:3] for row in found.collect()] == TRADES


def test_a_snapshot_is_taken_as_it_is_now(trades, matcher, tmp_path):
    from tamis.engine.snapshot.snapshot_store import save

    path = tmp_path / "alerts.snapshot"
    save(matcher, path)
    found = match(trades, path)
    save(Matcher(), path)
    assert by_number(found) == WANTED
    assert by_number(match(trades, str(path))) == {key: [] for key in WANTED}


def test_a_table_of_subscriptions(trades, alerts):
    assert by_number(match(trades, alerts)) == WANTED


def test_integer_ids_stay_integers(spark, trades):
    table = spark.createDataFrame([(7, "n > 2"), (-5, "n < 4")], "id int, selector string")
    found = match(trades, table, column="rules")
    assert found.schema["rules"].dataType.simpleString() == "array<bigint>"
    assert by_number(found, "rules") == {1: [-5], 2: [-5], 3: [7, -5], 4: [7]}


def test_counts_and_semi(trades, matcher):
    assert by_number(counts(trades, matcher), "matches") == {1: 3, 2: 1, 3: 1, 4: 0}
    kept = semi(trades, matcher)
    assert kept.columns == trades.columns
    assert sorted(row["n"] for row in kept.collect()) == [1, 2, 3]


def test_deliveries_name_the_subscriber(spark, trades):
    rows = [(id, selector, f"{id}@example") for id, selector in ALERTS]
    table = spark.createDataFrame(rows, "id string, selector string, subscriber string")
    found = deliveries(trades, table)
    assert found.columns == ["company", "price", "n", "subscription", "subscriber"]
    pairs = sorted((row["n"], row["subscription"]) for row in found.collect())
    assert pairs == sorted((n, id) for n, ids in WANTED.items() for id in ids)
    assert all(row["subscriber"] == f"{row['subscription']}@example" for row in found.collect())


def test_deliveries_of_a_matcher_have_no_subscriber(trades, matcher):
    assert deliveries(trades, matcher).columns == ["company", "price", "n", "subscription"]
    assert deliveries(trades, matcher).count() == 5


def test_conditions_that_read_nothing(spark, trades):
    table = spark.createDataFrame(
        [("all", "TRUE"), ("none", "FALSE")], "id string, selector string"
    )
    assert by_number(match(trades, table)) == {key: ["all"] for key in WANTED}


def test_no_subscriptions_and_no_messages(spark, trades, matcher):
    assert by_number(match(trades, Matcher())) == {key: [] for key in WANTED}
    assert match(trades.where("n > 100"), matcher).collect() == []


def test_options_reach_the_matcher(spark, trades):
    table = spark.createDataFrame(
        [("a", "price < 2000 OR price > 0"), ("b", "price IS NULL")], "id string, selector string"
    )
    assert by_number(match(trades, table, semantics="strict"))[4] == []
    assert by_number(match(trades, table))[4] == ["b"]
    schema = Schema.of(price=(float, 10.0))
    found = match(trades, table, semantics="default", schema=schema)
    assert by_number(found)[4] == ["a"]
    lookups = {"twice": {1: 2, 2: 4}}
    calling = spark.createDataFrame([("c", "twice(n) = 4")], "id string, selector string")
    assert by_number(match(trades, calling, lookups=lookups)) == {1: [], 2: ["c"], 3: [], 4: []}


def test_lookups_of_a_matcher_travel_with_it(trades):
    made = Matcher(lookups={"odd": lambda n: n % 2 == 1})
    made.add(1, "odd(n) = TRUE")
    assert by_number(match(trades, made)) == {1: [1], 2: [], 3: [1], 4: []}


def test_what_a_matcher_settles_cannot_be_said_again(trades, matcher):
    with pytest.raises(InputError, match="semantics is for tables"):
        match(trades, matcher, semantics="strict")


def test_a_column_in_use_is_not_overwritten(trades, matcher):
    with pytest.raises(InputError, match="have a column Price already"):
        match(trades, matcher, column="Price")


def test_a_schema_that_contradicts_the_frame(trades):
    made = Matcher(Schema.of(company=int))
    made.add(1, "company > 1")
    with pytest.raises(InputError, match="column company is of type string, the schema says int"):
        match(trades, made)


# --- the plan ------------------------------------------------------------------


def plan(frame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


def test_only_what_conditions_read_goes_to_python_and_only_once(spark, matcher, tmp_path):
    path = str(tmp_path / "trades")
    spark.createDataFrame(TRADES, "company string, price double, n int").write.parquet(path)
    matched = match(spark.read.parquet(path), matcher, plan="matcher")
    filtered = plan(matched.where(F.size("subscriptions") > 0))
    assert filtered.count("ArrowEvalPython") == 1
    assert "n#" not in filtered.split("ArrowEvalPython")[1].split("]")[0]
    assert "ArrowEvalPython" not in plan(matched.select("n"))


# --- what is bad ---------------------------------------------------------------

BAD = [
    ("a", "price > 1"),
    ("b", "price > > 1"),
    ("c", "prise > 1"),
    ("a", "price > 2"),
    (None, "price > 3"),
    ("d", None),
    ("b", "price > 4"),
]


@pytest.fixture
def partly_bad(spark):
    rows = [(id, selector, f"row {i}") for i, (id, selector) in enumerate(BAD)]
    return spark.createDataFrame(rows, "id string, selector string, subscriber string")


def test_the_first_bad_selector_raises_with_its_id_and_place(trades, partly_bad):
    with pytest.raises(SelectorError) as caught:
        match(trades, partly_bad)
    told = str(caught.value).splitlines()
    assert told[0].startswith("subscription 'b': ")
    assert told[2].index("^") == told[1].index("> 1")


def test_other_bad_rows_raise_too(spark, trades):
    for bad, told in (([("a", "n > 1")] * 2, "'a'"), ([(None, "n > 1")], "id is NULL")):
        table = spark.createDataFrame(bad, "id string, selector string")
        with pytest.raises(SubscriptionError, match=told):
            match(trades, table)


def test_bad_selectors_are_reported_and_the_others_run(trades, partly_bad):
    found = match(trades, partly_bad, on_error="report")
    assert by_number(found) == {1: ["a", "b"], 2: ["a", "b"], 3: ["a", "b"], 4: []}
    rows = problems(trades, partly_bad).collect()
    assert [(row["id"], row["selector"]) for row in rows] == BAD[1:6]
    assert "did you mean price" in rows[1]["reason"] or "price" in rows[1]["reason"]
    assert "already" in rows[2]["reason"]


def test_a_good_row_keeps_its_own_subscriber(trades, partly_bad):
    found = deliveries(trades, partly_bad, on_error="report").collect()
    assert {(row["subscription"], row["subscriber"]) for row in found} == {
        ("a", "row 0"),
        ("b", "row 6"),
    }


def test_tables_that_are_no_subscriptions(spark, trades):
    for ddl, told in (
        ("id string, text string", "no column selector"),
        ("id double, selector string", "column id cannot be of type double"),
    ):
        with pytest.raises(InputError, match=told):
            match(trades, spark.createDataFrame([], ddl))


DECIMALS = [(1, decimal.Decimal("0.1")), (2, decimal.Decimal("1234567890123456789.25")), (3, None)]


@pytest.fixture
def amounts(spark):
    return spark.createDataFrame(DECIMALS, "n int, amount decimal(30,2)")


@pytest.fixture(scope="module")
def small():
    made = Matcher()
    made.add("small", "amount = 0.1")
    made.add("null", "amount IS NULL")
    return made


def test_a_message_that_does_not_fit_raises(amounts, small):
    with pytest.raises(Exception, match=r"amount = 1234567890123456789\.25 has more digits"):
        match(amounts, small).collect()


def test_a_message_that_does_not_fit_is_reported(amounts, small):
    rows = match(amounts, small, on_error="report").collect()
    assert [row["subscriptions"] for row in rows] == [["small"], None, ["null"]]
    assert [row["_error"] is None for row in rows] == [True, False, True]
    assert "has more digits" in rows[1]["_error"]
    counted = counts(amounts, small, on_error="report")
    assert by_number(counted, "matches") == {1: 1, 2: None, 3: 1}
    assert semi(amounts, small, on_error="report").count() == 3
    sent = deliveries(amounts, small, on_error="report")
    assert by_number(sent, "subscription") == {1: "small", 2: None, 3: "null"}


def test_total_semantics_names_what_is_missing(spark, trades):
    table = spark.createDataFrame([("all", "TRUE")], "id string, selector string")
    rows = match(trades, table, semantics="total", on_error="report").collect()
    assert [row["subscriptions"] for row in rows] == [["all"], ["all"], None, None]
    assert "company" in rows[2]["_error"]
    assert "price" in rows[3]["_error"]


# --- columns that conditions do not read ----------------------------------------


def test_other_columns_pass_through_untouched(spark):
    day, moment = datetime.date(2000, 2, 1), datetime.datetime(2000, 2, 1, 12, 30, 0, 123456)
    row = (1, [1, None], {"k": 2}, bytearray(b"\0\xff"), day, moment, ("x", 2.5), float("nan"))
    ddl = (
        "n int, numbers array<int>, words map<string,int>, raw binary, day date, at timestamp_ntz,"
        " inner struct<name: string, size: float>, odd double, `a.b c` string"
    )
    frame = spark.createDataFrame([(*row, "é𝒳"), (2, *[None] * 8)], ddl)
    made = Matcher()
    made.add("n", "n >= 1")
    made.add("there", "numbers IS NOT NULL AND inner IS NOT NULL AND raw IS NOT NULL")
    made.add("unlike", "numbers = 1 OR raw = 'x' OR inner <> 'x'")
    made.add("inside", "inner.name = 'x' AND inner.size = 2.5 AND `a.b c` CONTAINS '𝒳'")
    found = match(frame, made)
    assert by_number(found) == {1: ["n", "there", "inside"], 2: ["n"]}
    assert found.drop("subscriptions").schema == frame.schema
    assert repr(found.drop("subscriptions").collect()) == repr(frame.collect())


def test_ids_of_a_batch_are_one_arrow_array_without_python_lists(matcher, tmp_path, monkeypatch):
    """More ids than an array should hold come in several; rows and order stay."""
    from tamis.engine.snapshot.snapshot_store import save
    from tamis.spark.workers import worker
    from tamis.spark.workers.shipping import Shipment

    save(matcher, tmp_path / "saved")
    work = worker.Work(Shipment(str(tmp_path / "saved"), "many"), ("price",), "ids", False)
    batches = [pa.array([50.0] * 3000), pa.array([1.0] * 10), pa.array([50.0] * 100)]
    monkeypatch.setattr(worker, "_IDS", 100)
    parts = list(work(iter(batches)))
    assert all(isinstance(part, pa.ListArray) for part in parts)
    assert max(len(part.flatten()) for part in parts[1:]) <= 100
    rows = [ids for part in parts for ids in part.to_pylist()]
    assert rows == [["carol"]] * 3000 + [[]] * 10 + [["carol"]] * 100
    monkeypatch.setattr(worker, "_MOST_IDS", 64)
    assert [ids for part in work(iter(batches)) for ids in part.to_pylist()] == rows


def test_small_batches_are_put_together(monkeypatch):
    from tamis.spark.workers import worker

    monkeypatch.setattr(worker, "_GATHERED_ROWS", 10)
    sizes = [4, 4, 4, 20, 1, 0, 2]
    numbers = iter(range(sum(sizes)))
    batches = [pa.record_batch({"n": pa.array([next(numbers) for _ in range(k)], pa.int64())})
               for k in sizes]  # fmt: skip
    found = list(worker.gathered(iter(batches)))
    assert [len(batch) for batch in found] == [12, 20, 3]
    assert [n for batch in found for n in batch["n"].to_pylist()] == list(range(sum(sizes)))
    bare = [batch.select([]) for batch in batches]
    assert sum(batch.num_rows for batch in worker.gathered(iter(bare))) == sum(sizes)


@pytest.mark.parametrize("call", [match, counts, semi, deliveries, plan_of, problems])
def test_a_misspelt_option_is_refused(spark, call):
    frame = spark.createDataFrame([(1,)], "n int")
    with pytest.raises(InputError, match="unknown option semantic: did you mean semantics"):
        call(frame, [("a", "n > 0")], semantic="default")


def test_a_limit_of_no_matches_is_refused(spark):
    frame = spark.createDataFrame([(1,)], "n int")
    with pytest.raises(InputError, match="limit"):
        match(frame, [("a", "n > 0")], limit=0)


def test_rows_that_are_not_needed_end_a_worker_quietly(tmp_path):
    """`show(3)` closes the connection while workers still write."""
    code = (
        "from tamis.spark import match, session\n"
        "spark = session()\n"
        "frame = spark.range(0, 1_000_000, 1, 4).withColumnRenamed('id', 'n')\n"
        "rules = [(f'r{i}', f'n > {i}') for i in range(100)]\n"
        "match(frame, rules, plan='matcher').show(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "Traceback" not in done.stderr
    assert "only showing top 3 rows" in done.stdout
