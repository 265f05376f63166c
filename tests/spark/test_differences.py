"""`diff` on Spark says what two matchers say."""

from __future__ import annotations

import pytest

from tamis import InputError, Matcher
from tamis.spark import diff

OLD = [("a", "n > 1"), ("b", "n > 2"), ("gone", "n > 7")]
NEW = [("a", "n > 1"), ("b", "n > 4"), ("more", "n < 1")]


def frame(spark, pairs):
    return spark.createDataFrame(pairs, "id string, selector string")


def test_diff_names_what_each_message_gained_and_lost(spark):
    rows = [(n,) for n in (None, 0, 1, 2, 3, 5, 9)]
    messages = spark.createDataFrame(rows, "n long")
    found = {
        r.n: (r.gained, r.lost)
        for r in diff(messages, frame(spark, OLD), frame(spark, NEW)).collect()
    }
    old, new = Matcher(), Matcher()
    old.add_many(OLD)
    new.add_many(NEW)
    expected = {}
    for (n,) in rows:
        was, now = old.match({"n": n}), new.match({"n": n})
        if was != now:
            gained = [id for id in now if id not in was]
            expected[n] = (gained, [id for id in was if id not in now])
    assert found == expected
    assert len(found) == 3


def test_diff_refuses_columns_of_its_own_names(spark):
    messages = spark.createDataFrame([(1,)], "gained long")
    with pytest.raises(InputError, match="gained"):
        diff(messages, frame(spark, OLD), frame(spark, NEW))
