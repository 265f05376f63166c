"""Spark SQL and Tamis agree on values of every type that both can compare."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis import Matcher, Schema
from tamis.schema import Type
from tamis.spark import match, plan_of, schema_of

D = datetime.datetime
UTC = datetime.UTC
DDL = (
    "n int, tiny tinyint, small smallint, big bigint, single float, wide double, flag boolean,"
    " text string, day date, at timestamp, wall timestamp_ntz, price decimal(9,2),"
    " whole decimal(18,0), inner struct<deep: struct<x: int, `odd name`: string>>, `a.b` int"
)
ROWS = [
    (1, 1, -1, 2**63 - 1, 0.5, -0.0, True, "", datetime.date(2000, 2, 1),
     D(2000, 2, 1, tzinfo=UTC), D(2000, 2, 1), Decimal("0.10"), Decimal(2**53 + 1), ((5, "é"),), 1),
    (2, -128, 32767, 2**53 + 1, 1.5, 1e300, False, "IBM", datetime.date(1, 1, 1),
     D(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), D(1999, 12, 31, 23), Decimal("9999999.99"),
     Decimal(10**18 - 1), ((None, "𝒳"),), 2),
    (3, 0, 0, -(2**63), float("inf"), float("-inf"), True, "𝒳", datetime.date(9999, 12, 31),
     D(2000, 2, 1, 5, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=30))),
     D(2000, 2, 1, 0, 0, 0, 1), Decimal("-0.01"), Decimal(0), (None,), None),
    (4, *[None] * 14),
    (5, 127, 1, 0, 0.1, 0.1, None, "\uffff", None, None, None, None, None, None, 3),
]  # fmt: skip
SELECTORS = (
    "tiny = 1", "tiny < 0", "small >= 32767", "big = 9223372036854775807", "big > 9007199254740992",
    "big < -9223372036854775807", "big = 9007199254740993", "single = 0.5", "single > 1E30",
    "wide = 0.0", "wide < -1E300", "NOT wide > 0.0", "flag = TRUE", "NOT flag = TRUE",
    "text = ''", "text > '\uffff'", "text <> 'IBM'", "text LIKE '_'", "text LIKE 'I%'",
    "text IN ('IBM', '𝒳')", "text IS NULL", "day = DATE '2000-02-01'", "day < DATE '1970-01-01'",
    "at = TIMESTAMP '2000-02-01 00:00:00'", "at < TIMESTAMP '1970-01-01 00:00:00'",
    "at >= TIMESTAMP '1970-01-01 00:00:00'", "at = TIMESTAMP '1969-12-31 23:59:59.999999'",
    "wall > TIMESTAMP '2000-02-01 00:00:00'", "wall <= TIMESTAMP '2000-02-01 00:00:00'",
    "at = wall", "price = 0.10", "price > 9999999", "price < 0", "whole = 9007199254740993",
    "whole > 9007199254740992", "whole BETWEEN 0 AND 9007199254740992", "inner.deep.x = 5",
    "inner.deep.`odd name` = '𝒳'", "inner.deep.x IS NULL", "`a.b` > 1", "`a.b` + tiny = 130",
    "flag = TRUE AND small < 1 OR text = 'IBM'",
)  # fmt: skip


def as_spark(selector: str) -> str:
    return selector


def as_tamis(selector: str) -> str:
    """Dates are timestamps, and a name quoted in parts is quoted whole."""
    selector = selector.replace("DATE '", "TIMESTAMP '")
    return selector.replace("inner.deep.`odd name`", "`inner.deep.odd name`")


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame(ROWS, DDL)


@pytest.mark.parametrize("plan", ["native", "matcher"])
def test_spark_sql_agrees(spark, frame, plan):
    made = Matcher(schema_of(frame))
    made.add_many((i, as_tamis(s)) for i, s in enumerate(SELECTORS))
    found = {row["n"]: row["subscriptions"] for row in match(frame, made, plan=plan).collect()}
    tests = [F.expr(as_spark(s)).alias(f"q{i}") for i, s in enumerate(SELECTORS)]
    for row in frame.select("n", *tests).collect():
        wanted = [SELECTORS[i] for i in range(len(SELECTORS)) if row[f"q{i}"] is True]
        assert [SELECTORS[i] for i in found[row["n"]]] == wanted, row["n"]


def test_nan_is_undefined(spark):
    frame = spark.createDataFrame([(float("nan"), 1)], "x double, n int")
    made = Matcher()
    made.add("null", "x IS NULL")
    made.add("large", "x > 1 OR NOT x > 1")
    for plan in ("native", "matcher"):
        assert match(frame, made, plan=plan).first()["subscriptions"] == ["null"]


def test_time_zone_of_the_session_does_not_matter(spark):
    frame = spark.createDataFrame([(D(2000, 2, 1, 12, tzinfo=UTC), D(2000, 2, 1, 12))],
                                  "at timestamp, wall timestamp_ntz")  # fmt: skip
    made = Matcher()
    made.add("both", "at = TIMESTAMP '2000-02-01 12:00:00' AND wall = at")
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        for plan in ("native", "matcher"):
            assert match(frame, made, plan=plan).first()["subscriptions"] == ["both"]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_schema_of_a_frame(frame):
    found = {name: attribute.type for name, attribute in schema_of(frame).items()}
    assert found == {
        **dict.fromkeys(("n", "tiny", "small", "big", "whole", "inner.deep.x", "a.b"), Type.INT),
        **dict.fromkeys(("single", "wide", "price"), Type.DOUBLE),
        **dict.fromkeys(("text", "inner.deep.odd name"), Type.STRING),
        **dict.fromkeys(("day", "at", "wall"), Type.TIMESTAMP),
        "flag": Type.BOOL,
    }


def test_an_exact_name_wins_over_a_nested_one(spark):
    frame = spark.createDataFrame([((1,), "text")], "a struct<b: int>, `a.b` string")
    assert schema_of(frame) == Schema.of({"a.b": str})
    made = Matcher(schema_of(frame))
    made.add(1, "`a.b` = 'text'")
    assert match(frame, made).first()["subscriptions"] == [1]


@pytest.mark.parametrize("plan", ["auto", "matcher"])
def test_times_as_text_are_read_where_the_schema_says_timestamp(spark, plan):
    texts = ["2013-01-01", "2013-01-01T02:00:00+02:00", "20130101T103000Z", None, "soon"]
    rows = [(n, text, [text, None]) for n, text in enumerate(texts)]
    frame = spark.createDataFrame(rows, "n int, t string, ts array<string>")
    matcher = Matcher(Schema.of(n=int, t="timestamp", ts="list<timestamp>"))
    matcher.add("first", "t = TIMESTAMP '2013-01-01'")
    matcher.add("later", "ANY(ts) > TIMESTAMP '2013-01-01'")
    found = match(frame, matcher, on_error="report", plan=plan).orderBy("n").collect()
    good = [{"t": text, "ts": [text, None]} for text in texts[:4]]
    assert [row["subscriptions"] for row in found[:4]] == [matcher.match(row) for row in good]
    assert found[4]["_error"].startswith("t = 'soon' is not a timestamp")
    assert "column t has texts, and the schema says timestamp" in str(plan_of(frame, matcher))
