"""What a match carries on Spark, compared with a join, a filter and a window."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis import Details, InputError, Matcher
from tamis.spark import counts, deliveries, match, plan_of, semi

KINDS = (
    "id string, selector string, subscriber string, owner string, priority double, "
    "valid_from timestamp, valid_to timestamp"
)
START = datetime(2020, 1, 1)


@pytest.fixture(scope="module")
def rules(spark):
    chance = random.Random(7)

    def day():
        return None if chance.random() < 0.4 else START + timedelta(days=chance.randrange(10))

    rows = [
        (
            f"r{i}",
            f"n >= {chance.randrange(20)} AND symbol = 'S{chance.randrange(3)}'",
            f"s{i % 4}",
            chance.choice([None, "é", "", "ops"]),
            chance.choice([None, math.nan, 1.0, 2.0, 2.0, -math.inf]),
            day(),
            day(),
        )
        for i in range(120)
    ]
    return spark.createDataFrame(rows, KINDS).coalesce(1)


@pytest.fixture(scope="module")
def trades(spark):
    at = F.when(F.col("id") % 7 != 0, F.timestamp_add("DAY", F.col("id") % 11, F.lit(START)))
    columns = [F.concat(F.lit("S"), F.col("id") % 4).alias("symbol"), at.alias("at")]
    return spark.range(60).select(F.col("id").alias("n"), *columns)


def joined(trades, rules, *, gated, limit, order):
    """As users write it today: all ids, a join, and a window."""
    order_of = {
        "priority": F.nanvl("priority", F.lit(None)).asc_nulls_last(),
        "owner DESC": F.col("owner").desc_nulls_last(),
    }
    place = rules.select("id", F.monotonically_increasing_id().alias("row"))
    every = match(trades, rules.select("id", "selector"), plan="matcher")
    rows = every.select("*", F.explode("subscriptions").alias("id"))
    rows = rows.join(rules.drop("selector"), "id").join(place, "id")
    if gated:
        unbounded = F.col("valid_from").isNull() & F.col("valid_to").isNull()
        since = F.col("valid_from").isNull() | (F.col("valid_from") <= F.col("at"))
        until = F.col("valid_to").isNull() | (F.col("at") < F.col("valid_to"))
        rows = rows.where(F.when(F.col("at").isNull(), unbounded).otherwise(since & until))
    keys = [*(order_of[o] for o in order), "row"]
    window = Window.partitionBy("n").orderBy(*keys)
    rows = rows.select("*", F.row_number().over(window).alias("place"))
    return rows.where(F.col("place") <= limit)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize(("order", "limit"), [(("priority",), 3), (("owner DESC", "priority"), 99)])
@pytest.mark.parametrize("shards", [1, 2])
def test_as_a_join_and_a_window_would_give(trades, rules, order, limit, gated, shards):
    options = {"carry": ["owner", "valid_to"], "order_by": order, "limit": limit, "shards": shards}
    if gated:
        options["valid_at"] = "at"
    wanted = {}
    for row in joined(trades, rules, gated=gated, limit=limit, order=order).collect():
        wanted[row.n, row.place] = (row.id, row.owner, row.valid_to, row.subscriber)
    assert len(wanted) > 60
    matched = match(trades, rules, **options)
    found = {
        (row.n, place): tuple(one)
        for row in matched.collect()
        for place, one in enumerate(row.subscriptions, 1)
    }
    assert found == {key: value[:3] for key, value in wanted.items()}
    sent = deliveries(trades, rules, **options).collect()
    assert sorted((r.n, r.subscription, r.owner, r.valid_to, r.subscriber) for r in sent) == sorted(
        (n, *value) for (n, _), value in wanted.items()
    )


def test_the_first_one_is_no_array(trades, rules):
    found = match(trades, rules, order_by="priority", first=True, column="rule")
    assert found.schema["rule"].dataType.simpleString() == "string"
    listed = match(trades, rules, order_by="priority", limit=1, column="rule")
    lists = {row.n: row.rule for row in listed.collect()}
    assert {row.n: row.rule for row in found.collect()} == {
        n: one[0] if one else None for n, one in lists.items()
    }
    whole = match(trades, rules, order_by="priority", first=True, carry=["owner"], column="rule")
    assert whole.schema["rule"].dataType.simpleString() == "struct<id:string,owner:string>"
    assert {row.n: row.rule and row.rule.id for row in whole.collect()} == {
        row.n: row.rule for row in found.collect()
    }


def test_times_gate_counts_too(trades, rules):
    gated = match(trades, rules, valid_at="at")
    sizes = {row.n: len(row.subscriptions) for row in gated.collect()}
    assert {row.n: row.matches for row in counts(trades, rules, valid_at="at").collect()} == sizes
    assert {row.n for row in semi(trades, rules, valid_at="at").collect()} == {
        n for n, size in sizes.items() if size
    }
    assert sum(sizes.values()) < counts(trades, rules).agg(F.sum("matches")).first()[0]


def test_the_clock_is_one_moment(spark, trades):
    rows = [("past", "", None, "2020-01-01"), ("now", "", "2020-01-01", None)]
    rules = spark.createDataFrame(
        rows, "id string, selector string, valid_from string, valid_to string"
    )
    found = match(trades, rules, valid_at="now()").select("subscriptions").distinct().collect()
    assert [row.subscriptions for row in found] == [["now"]]


def test_a_matcher_with_details_equals_the_matcher_alone(spark, trades, rules):
    matcher = Matcher()
    matcher.add_many(rules.toArrow())
    options = {"carry": ["owner"], "order_by": "priority", "limit": 4}
    here = matcher.match_batch(trades.toArrow(), details=Details(rules.toArrow(), **options))
    there = match(trades.coalesce(1), matcher, details=rules, **options)
    assert [[one.asDict() for one in row.subscriptions] for row in there.collect()] == (
        here.to_pylist()
    )


def test_a_stream_carries_the_same(spark, trades, rules, tmp_path):
    from tamis.spark import Subscriptions, schema_of

    table = Subscriptions.create(tmp_path / "rules", schema=schema_of(trades))
    table.add_many(rules.select("id", "selector", "subscriber").toArrow())
    trades.write.parquet(str(tmp_path / "trades"))
    stream = spark.readStream.schema(trades.schema).parquet(str(tmp_path / "trades"))
    options = {"carry": ["owner"], "order_by": "priority", "limit": 2, "details": rules}
    wanted = deliveries(trades, rules, **options).collect()
    sent = deliveries(stream, table, **options)
    query = sent.writeStream.format("memory").queryName("carried").start()
    query.processAllAvailable()
    query.stop()
    names = ("n", "subscription", "subscriber", "owner")
    found = spark.table("carried").collect()
    assert sorted(map(str, ([r[n] for n in names] for r in found))) == sorted(
        map(str, ([r[n] for n in names] for r in wanted))
    )
    with pytest.raises(InputError, match="a table with id and owner"):
        match(stream, table, carry=["owner"])


def test_what_contradicts_is_said(trades, rules):
    assert plan_of(trades, rules.limit(3)).native
    assert str(plan_of(trades, rules.limit(3), limit=2)).startswith("matcher: matches carry")
    for call, options, told in (
        (match, {"limit": 2, "plan": "native"}, "there is no native plan: matches carry"),
        (counts, {"limit": 2}, "counts makes no ids"),
        (semi, {"carry": ["owner"]}, "semi makes no ids"),
        (match, {"carry": ["team"]}, "no column team"),
        (match, {"valid_at": "when"}, "valid_at: the messages have no column when"),
        (match, {"details": rules}, "of no use"),
        (deliveries, {"carry": ["selector", "n"]}, "no column n"),
    ):
        with pytest.raises(InputError) as error:
            call(trades, rules, **options)
        assert told in str(error.value)


def test_a_carried_column_must_be_free(trades, rules):
    with pytest.raises(InputError, match="have a column owner already"):
        deliveries(trades.withColumn("owner", F.lit(1)), rules, carry=["owner"])
