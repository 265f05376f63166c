"""Spark equals local equals oracle, on random conditions and messages of every type."""

from __future__ import annotations

import random

import pytest

import oracle
import strategies as st
from frames import CASES, converted, good_messages, table
from tamis import Matcher, Schema
from tamis.language import canonical
from tamis.spark import counts, match

CONDITIONS = 60


@pytest.mark.parametrize(("semantics", "typed"), CASES)
def test_spark_equals_local_equals_oracle(spark, semantics, typed):
    rng = random.Random(f"spark {semantics} {typed}")
    schema = Schema(tuple(st.make_attribute(st.Rolled(rng), name) for name in st.NAMES))
    conditions = [
        st.random_condition(rng, schema if typed else None, lookups=("NYSEdb",))
        for _ in range(CONDITIONS)
    ]
    lookups = {"NYSEdb": st.LOOKUPS["NYSEdb"]}
    matcher = Matcher(schema if typed else None, semantics=semantics, lookups=lookups)
    matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions))
    messages = good_messages(rng, schema, semantics)
    given = table(rng, schema, messages)
    # Without a schema a column still has one type: its values are those of the schema.
    clear = messages if typed else [converted(schema, message) for message in messages]
    wanted = [
        [
            i
            for i, condition in enumerate(conditions)
            if oracle.matches(condition, message, semantics, schema if typed else None, lookups)
        ]
        for message in clear
    ]
    assert any(wanted)
    assert matcher.match_batch(given).to_pylist() == wanted
    frame = spark.createDataFrame(given)
    # Only the results come back: Python cannot collect a timestamp of the year 1.
    found = match(frame, matcher, plan="matcher").select("subscriptions").toArrow()
    assert found.column(0).to_pylist() == wanted
    numbers = counts(frame, matcher, plan="matcher").select("matches").toArrow()
    assert numbers.column(0).to_pylist() == [len(ids) for ids in wanted]
