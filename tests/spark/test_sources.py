"""Subscriptions from whatever holds them, and columns that Spark cannot tell apart."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from tamis.errors import InputError, SelectorError, SubscriptionError
from tamis.schema import Schema
from tamis.spark import deliveries, match, problems, schema_of

PAIRS = [("a", "x > 1"), ("b", "x > 2")]
TABLE = pa.table({"id": ["a", "b"], "selector": ["x > 1", "x > 2"]})


@pytest.fixture(scope="module")
def messages(spark):
    return spark.range(5).selectExpr("id AS x")


def sources() -> dict[str, Any]:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    return {
        "Arrow table": TABLE,
        "Arrow batch": TABLE.to_batches()[0],
        "Arrow reader": TABLE.to_reader(),
        "pandas": TABLE.to_pandas(),
        "pandas, categories": TABLE.to_pandas().astype({"id": "category"}),
        "Polars": polars.from_arrow(TABLE),
        "pairs": PAIRS,
        "generator": iter(PAIRS),
        "mappings": [{"id": id, "selector": text, "more": 1} for id, text in PAIRS],
        "pandas rows": pandas.DataFrame(TABLE.to_pylist()),
    }


def test_subscriptions_come_from_any_table(messages):
    expected = [(x, [id for id, least in (("a", 1), ("b", 2)) if x > least]) for x in range(5)]
    for name, source in sources().items():
        found = match(messages, source).sort("x").collect()
        assert [tuple(row) for row in found] == expected, name


def test_ids_may_be_integers(messages):
    found = match(messages, [(7, "x > 3")]).where("x = 4").collect()
    assert found[0].subscriptions == [7]


def test_subscribers_come_with_them(messages):
    rows = [{"id": "a", "selector": "x > 3", "subscriber": "alice"}]
    found = deliveries(messages, rows).collect()
    assert [(row.x, row.subscription, row.subscriber) for row in found] == [(4, "a", "alice")]


def test_bad_ones_are_told(messages):
    rows = [("a", "x > 1"), ("b", "x >")]
    with pytest.raises(SelectorError, match="subscription 'b'"):
        match(messages, rows)
    assert [row.id for row in problems(messages, rows).collect()] == ["b"]
    assert match(messages, rows, on_error="report").count() == 5


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (["ab"], "give pairs"),
        ([("a", "x > 1"), (1, "x > 2")], "make no table"),
        (pa.table({"id": ["a"]}), "no column selector"),
        (pa.table({"id": [1.5], "selector": ["x > 1"]}), "id cannot be of type double"),
        (5, "not a list of subscriptions"),
    ],
)
def test_nonsense_is_refused(messages, source: Any, what: str):
    with pytest.raises((InputError, SubscriptionError), match=what):
        match(messages, source)


def test_none_at_all(messages):
    assert match(messages, []).where("size(subscriptions) > 0").count() == 0


def test_an_empty_selector_is_told(messages, caplog):
    with caplog.at_level(logging.WARNING, "tamis"):
        match(messages, [("all", " "), ("a", "x > 1")])
    assert "subscription 'all': the selector is empty, so it matches every message" in caplog.text


def test_a_schema_comes_from_a_frame(messages):
    assert Schema.of(messages) == Schema.of(messages.schema) == schema_of(messages)


@pytest.mark.parametrize("names", [("x", "x"), ("x", "X")])
def test_ambiguous_columns_are_named(spark, names):
    frame = spark.createDataFrame([(1, 2, 3)], "a INT, b INT, c INT").toDF(*names, "y")
    with pytest.raises(InputError, match=f"the columns {names[0]} and {names[1]}, which Spark"):
        match(frame, [("a", "x > 0")])
    assert match(frame, [("a", "y > 0")]).count() == 1  # nobody asks for the others
