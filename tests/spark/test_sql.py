"""Subscriptions as a function of SQL, and why as a column."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis import InputError, Matcher, SelectorError, SubscriptionError
from tamis.spark import explain, match, register, schema_of

RULES = [
    ("cheap", "price < 100"),
    ("ibm", "symbol = 'IBM' AND price >= 50"),
    ("big", "order.size > 5 OR whole = 9007199254740993"),
    ("none", "note IS NULL"),
]


@pytest.fixture(scope="module")
def trades(spark):
    rows = [
        ("IBM", 60.0, (7,), None, Decimal(9007199254740993), [1]),
        ("SAP", float("nan"), (1,), "x", None, None),
        (None, 150.0, None, None, Decimal(9007199254740992), [2]),
    ]
    kinds = "symbol string, price double, order struct<size int>, note string"
    frame = spark.createDataFrame(rows, f"{kinds}, whole decimal(18, 0), tags array<int>")
    frame.createOrReplaceTempView("trades")
    return frame


def test_a_function_of_sql_equals_match(spark, trades):
    wanted = [row.subscriptions for row in match(trades, RULES).collect()]
    register(spark, "alerts", RULES, schema=schema_of(trades))
    found = spark.sql("SELECT *, alerts(struct(*)) AS found FROM trades")
    assert [row.found for row in found.collect()] == wanted
    assert found.columns == [*trades.columns, "found"]
    register(spark, "alerts", RULES)  # anew, and without a schema
    found = spark.sql(
        "SELECT alerts(struct(*)) AS found FROM trades WHERE size(alerts(struct(*))) > 1"
    )
    assert [row.found for row in found.collect()] == [ids for ids in wanted if len(ids) > 1]


def test_it_carries_what_match_carries(spark, trades):
    rules = [
        {"id": id, "selector": s, "owner": id.upper(), "p": -i} for i, (id, s) in enumerate(RULES)
    ]
    options = {"carry": ["owner"], "order_by": "p", "first": True}
    register(spark, "best", rules, **options)
    found = spark.sql("SELECT best(struct(*)) AS rule FROM trades").collect()
    assert [row.rule for row in found] == [
        row.rule for row in match(trades, rules, column="rule", **options).collect()
    ]


def test_a_matcher_and_only_some_columns(spark, trades):
    matcher = Matcher()
    matcher.add_many([(1, "price < 100"), (2, "symbol IS NULL")])
    register(spark, "numbers", matcher)
    found = spark.sql("SELECT numbers(struct(price)) AS found FROM trades").collect()
    assert [row.found for row in found] == [[1, 2], [2], [2]]


def test_bad_calls_are_told(spark, trades):
    with pytest.raises(SelectorError):
        register(spark, "bad", [("a", "price < < 1")])
    with pytest.raises(InputError, match="version is not for functions of SQL"):
        register(spark, "bad", RULES, version="v")
    register(spark, "plain", RULES)
    with pytest.raises(Exception, match="a message is a struct"):
        spark.sql("SELECT plain(price) FROM trades").collect()


def test_why_of_given_ids(trades):
    told = explain(trades, RULES, ids=["ibm", "none"]).collect()
    assert [[(one.id, one.matches, one.fails) for one in row.why] for row in told] == [
        [("ibm", True, 0), ("none", True, 0)],
        [("ibm", False, 2), ("none", False, 1)],
        [("ibm", False, 1), ("none", True, 0)],
    ]
    matcher = Matcher(schema_of(trades))
    matcher.add_many(RULES)
    wanted = str(matcher.explain("ibm", {"symbol": "SAP"}))
    assert told[1].why[0].why == wanted


def test_why_of_the_nearest_misses(trades):
    found = explain(trades, RULES, nearest=2).collect()
    assert [[(one.id, one.fails) for one in row.why] for row in found] == [
        [],
        [("cheap", 1), ("big", 1)],
        [("cheap", 1), ("ibm", 1)],
    ]
    assert all(not one.matches and "=> no match" in one.why for row in found for one in row.why)


def test_explain_says_what_it_needs(trades):
    for options in ({}, {"ids": ["ibm"], "nearest": 2}):
        with pytest.raises(InputError, match="give one of them"):
            explain(trades, RULES, **options)
    with pytest.raises(SubscriptionError, match="there is no subscription 'x'"):
        explain(trades, RULES, ids=["x"])
    with pytest.raises(InputError, match="have a column note already"):
        explain(trades, RULES, nearest=1, column="note")
    many = [(i, "price > 1") for i in range(10_001)]
    with pytest.raises(InputError, match="10,000 are the most"):
        explain(trades, many, nearest=1)


def test_no_column_at_all(spark):
    told = explain(
        spark.range(2).select(F.lit(1).alias("x")), [("a", "FALSE")], nearest=1
    ).collect()
    assert [row.why[0].why.splitlines()[-1] for row in told] == ["=> no match"] * 2
