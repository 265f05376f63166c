"""Arrays and maps on Spark: equal to local, equal to the oracle."""

from __future__ import annotations

import random

import pytest

import lists
import strategies as st
from lists import expected, fitting, table_of
from tamis import Matcher, Schema
from tamis.errors import InputError, SelectorError
from tamis.language import canonical
from tamis.spark import counts, match, plan_of, problems, schema_of


@pytest.mark.parametrize("semantics", ["sql", "default", "total"])
def test_spark_equals_local_equals_oracle(spark, semantics):
    rng = random.Random(f"spark lists {semantics}")
    schema = lists.schema_of(rng)
    maker = lists.Maker(st.Rolled(rng), schema)
    conditions = [maker.condition(2) for _ in range(60)]
    messages = fitting(rng, schema, semantics, 60)
    wanted = expected(conditions, messages, semantics, schema)
    matcher = Matcher(schema, semantics=semantics)
    matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions))
    table = table_of(schema, messages)
    assert matcher.match_batch(table).to_pylist() == wanted
    frame = spark.createDataFrame(table)
    assert plan_of(frame, matcher).how == "matcher"
    found = match(frame, matcher).select("subscriptions").toArrow()
    assert found.column(0).to_pylist() == wanted
    numbers = counts(frame, matcher).select("matches").toArrow()
    assert numbers.column(0).to_pylist() == [len(ids) for ids in wanted]


def test_the_schema_of_a_frame_knows_arrays_and_maps(spark):
    frame = spark.sql(
        "SELECT array('a', 'b') AS tags, map('env', 'prod') AS labels, "
        "array(named_struct('price', 5.0D), named_struct('price', 20.0D)) AS items, "
        "X'00' AS data, map(1, 'a') AS numbered"
    )
    kinds = {a.name: a.kind for a in schema_of(frame).attributes}
    assert kinds == {
        "tags": "list<string>",
        "labels": "map<string,string>",
        "items.price": "list<double>",
    }
    rules = [
        ("tag", "tags CONTAINS 'a' AND ALL(tags) < 'c'"),
        ("price", "ANY(items.price) > 10 AND NOT ALL(items.price) > 10"),
        ("label", "labels['env'] = 'prod' AND labels['x'] IS NULL AND SIZE(tags) = 2"),
    ]
    (row,) = match(frame, rules).collect()
    assert row.subscriptions == ["tag", "price", "label"]
    with pytest.raises(SelectorError, match="data is binary; selectors cannot read it"):
        match(frame, [("bad", "data = 'x'")])
    matcher = Matcher(Schema.of(tags=list[int]))
    matcher.add("a", "ANY(tags) = 1")
    with pytest.raises(InputError, match="the schema says list<int>"):
        match(frame, matcher)


@pytest.mark.parametrize(
    ("good", "bad"), [("symbol = 'IBM'", "tags = 'IBM'"), ("SIZE(tags) = 1", "SIZE(labels) = 1")]
)
@pytest.mark.parametrize("plan", ["auto", "matcher"])
def test_a_bad_rule_is_a_problem_whatever_came_before_it(spark, plan, good, bad):
    columns = "symbol string, tags array<string>, labels map<string,string>"
    frame = spark.createDataFrame([("IBM", ["IBM"], {"a": "b"})], columns)
    rules = [("good", good), ("bad", bad)]
    assert [row.id for row in problems(frame, rules).collect()] == ["bad"]
    found = match(frame, rules, on_error="report", plan=plan).collect()
    assert [row["subscriptions"] for row in found] == [["good"]]
    with pytest.raises(SelectorError):
        match(frame, rules, plan=plan)
