"""Selectors as Columns of Spark mean what the oracle says, on values of every type."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark_types

import oracle
import strategies as st
from dose import DEEP, dose
from frames import CASES, converted, good_messages, table
from tamis import Schema
from tamis.language import canonical, parse
from tamis.language.tree import Attribute, Call
from tamis.spark import schema_of
from tamis.spark.native import NotNative, Translation, Value, sure

CONDITIONS = 50
SEEDS = range(dose(1, 20))
INT_MAX, INT_MIN = 2**63 - 1, -(2**63)


def truths(frame, columns) -> list[list[bool]]:
    """One list of truths for each row of the frame."""
    made = frame.select(F.array(*map(sure, columns)).alias("found")).toArrow()
    return made.column(0).to_pylist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("semantics", "typed"), CASES)
def test_columns_equal_the_oracle(spark, semantics, typed, seed):
    rng = random.Random(f"native {semantics} {typed} {seed}")
    schema = Schema(tuple(st.make_attribute(st.Rolled(rng), name) for name in st.NAMES))
    known = schema if typed else None
    messages = good_messages(rng, schema, semantics)
    frame = spark.createDataFrame(table(rng, schema, messages))
    native, python = (
        Translation.of(frame, semantics, known),
        Translation.of(frame, semantics, known, python=True),
    )
    conditions, columns, foreign = [], [], 0
    while len(columns) < CONDITIONS:
        condition = st.random_condition(rng, known)
        try:
            columns.append(native.condition(condition))
        except NotNative:
            foreign += 1
            if "coalesce(" in canonical(condition):  # of an int and a double
                continue
            columns.append(python.condition(condition))
        conditions.append(condition)
    assert foreign < CONDITIONS / 2
    clear = messages if typed else [converted(schema, message) for message in messages]
    wanted = [[oracle.matches(c, m, semantics, known) for c in conditions] for m in clear]
    found = truths(frame, columns)
    for i, condition in enumerate(conditions):
        for row, message in enumerate(clear):
            assert found[row][i] == wanted[row][i], (condition, message)


NUMBERS = [1, 0, -1, 2**53, 2**53 + 1, -(2**53) - 1, INT_MAX, INT_MAX - 1, INT_MIN, 3, None]
DOUBLES = [
    *(1.0, -0.0, 0.0, 2.0**53, 2.0**53 + 2, -(2.0**53), 2.0**63, -(2.0**63), 0.1, 1e308),
    *(float("inf"), float("-inf"), float("nan"), 5e-324, None),
]
OPS = ("=", "<>", "<", "<=", ">", ">=")


def test_numbers_compare_exactly_and_arithmetic_never_fails(spark):
    pairs = [(a, b, x) for a in NUMBERS for b in NUMBERS for x in DOUBLES]
    pairs = pairs if DEEP else random.Random(5).sample(pairs, 500)
    columns = list(zip(*pairs, strict=True))
    types = [pa.int64(), pa.int64(), pa.float64()]
    arrays = [pa.array(c, t, from_pandas=False) for c, t in zip(columns, types, strict=True)]
    frame = spark.createDataFrame(pa.table(dict(zip("abx", arrays, strict=True))))
    terms = [
        *("a + b", "a - b", "a * b", "a DIV b", "a / b", "-a", "abs(a)"),
        *("x + a", "x - x", "x * b", "x / a", "-x", "abs(x)", "x * x"),
    ]
    selectors = [f"{left} {op} {right}" for op in OPS for left, right in ("ax", "xa", "ab", "xx")]
    selectors += [f"{term} {op} {value}" for term in terms for op in OPS for value in ("3", "0.0")]
    selectors += [f"{term} IS NULL" for term in terms]
    conditions = [parse(s) for s in selectors]
    made = Translation.of(frame)
    found = truths(frame, [made.condition(c) for c in conditions])
    for row, (a, b, x) in zip(found, pairs, strict=True):
        message = {"a": a, "b": b, "x": x}
        wanted = [oracle.matches(c, message, "sql", None) for c in conditions]
        assert row == wanted, (
            message,
            [s for s, f, w in zip(selectors, row, wanted, strict=True) if f != w],
        )


def test_terms_are_null_where_undefined(spark):
    frame = spark.createDataFrame([(INT_MAX, float("nan"), 0)], "a bigint, x double, n int")
    made = Translation.of(frame)
    terms = ["a + 1", "x", "x * 2", "a / n", "a DIV n", "a * a", "-a - 2", "length('𝒳é')"]
    columns = [made.term(parse(f"{t} = 0").left).alias(t) for t in terms]
    row = frame.select(*columns).first()
    assert row["a + 1"] == INT_MIN
    assert row["x"] is row["x * 2"] is row["a / n"] is row["a DIV n"] is None
    assert (row["a * a"], row["-a - 2"], row["length('𝒳é')"]) == (1, INT_MAX, 2)


TEXTS = [
    *st.STRINGS,
    *st.STRING_EDGES,
    "a\0b",
    "\\E.*",
    "a.b",
    "aXb\n",
    "ab\r\n",
    "aab",
    "%",
    "𝒳𝒳",
    None,
]


def test_texts(spark):
    frame = spark.createDataFrame(pa.table({"s": pa.array(TEXTS), "t": pa.array(TEXTS[::-1])}))
    patterns = [
        *st.PATTERNS,
        "a%b%",
        "%a%b",
        "a_b",
        "%a_b%",
        "_𝒳%",
        "%𝒳_",
        "%e_",
        "\\E%.*",
        "a%a%b",
    ]
    quoted = [p.replace("'", "''") for p in patterns]
    selectors = [f"s LIKE '{p}'" for p in quoted] + [f"NOT s LIKE '{p}'" for p in quoted]
    values = [t.replace("'", "''") for t in TEXTS if t is not None and "\0" not in t]
    ops = (*OPS, "CONTAINS", "WITHIN", "STARTS WITH", "ENDS WITH")
    selectors += [f"s {op} '{value}'" for op in ops for value in values]
    selectors += [f"s {op} t" for op in ops]
    selectors += [
        "s IN ('a', 'b', '𝒳')",
        "NOT s IN ('a')",
        "length(s) = 2",
        "s BETWEEN 'a' AND 'b'",
    ]
    conditions = [parse(s) for s in selectors]
    made = Translation.of(frame)
    found = truths(frame, [made.condition(c) for c in conditions])
    for row, s, t in zip(found, TEXTS, TEXTS[::-1], strict=True):
        wanted = [oracle.matches(c, {"s": s, "t": t}, "sql", None) for c in conditions]
        assert row == wanted, [x for x, f, w in zip(selectors, row, wanted, strict=True) if f != w]


def test_a_pattern_cannot_make_spark_search_for_ever(spark):
    frame = spark.createDataFrame([("a" * 5_000,)], "s string")
    made = Translation.of(frame)
    assert truths(frame, [made.condition(parse("s LIKE '" + "%a" * 60 + "%b'"))]) == [[False]]


D = datetime.datetime
MOMENTS = [
    *(D(2000, 2, 1), D(2000, 2, 1, 0, 0, 0, 1), D(1969, 12, 31, 23, 59, 59, 999999)),
    *(D(1, 1, 1), D(9999, 12, 31, 23, 59, 59, 999999), D(2021, 3, 14, 2, 30), None),
]


def test_moments_in_any_time_zone(spark, tmp_path):
    rows = [(a, b, c) for a in MOMENTS for b in MOMENTS for c in MOMENTS]
    columns = list(zip(*rows, strict=True))
    days = [None if c is None else c.date() for c in columns[2]]
    made = pa.table({
        "at": pa.array(columns[0], pa.timestamp("us", "UTC")),
        "wall": pa.array(columns[1], pa.timestamp("us")),
        "day": pa.array(days, pa.date32()),
    })  # fmt: skip
    texts = [m.isoformat(" ") for m in MOMENTS if m is not None]
    selectors = [
        f"{name} {op} TIMESTAMP '{text}'"
        for name in ("at", "wall", "day") for op in OPS for text in texts
    ]  # fmt: skip
    selectors += [f"{a} {op} {b}" for op in OPS for a in ("at", "wall", "day")
                  for b in ("at", "wall", "day")]  # fmt: skip
    conditions = [parse(s) for s in selectors]
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        pq.write_table(made, tmp_path / "moments.parquet")
        frame = spark.read.parquet(str(tmp_path / "moments.parquet"))
        translation = Translation.of(frame)
        found = truths(frame, [translation.condition(c) for c in conditions])
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for row, (at, wall, _), day in zip(found, rows, days, strict=True):
        message = {"at": at, "wall": wall, "day": day}
        wanted = [oracle.matches(c, message, "sql", None) for c in conditions]
        assert row == wanted, (
            message,
            [s for s, f, w in zip(selectors, row, wanted, strict=True) if f != w],
        )


def test_decimals_are_doubles_or_not_native(spark):
    rng = random.Random(7)
    rows = [Decimal(rng.randint(-(10**15) + 1, 10**15 - 1)).scaleb(-7) for _ in range(300)]
    frame = spark.createDataFrame([(d, d) for d in rows], "d decimal(15,7), wide decimal(16,7)")
    made = Translation.of(frame)
    doubles = [row[0] for row in frame.select(made.term(Attribute("d"))).collect()]
    assert doubles == [float(d) for d in rows]
    with pytest.raises(NotNative, match="decimal"):
        made.term(Attribute("wide"))
    whole = spark.createDataFrame([(Decimal(2**53 + 1),)], "w decimal(18,0)")
    assert truths(whole, [Translation.of(whole).condition(parse("w = 9007199254740993"))]) == [
        [True]
    ]


def test_what_only_python_does(spark):
    frame = spark.createDataFrame([("Straße",), ("IBM",), (None,)], "s string")
    selectors = [
        "s MATCHES '^[A-Z]+$'",
        "upper(s) = 'STRASSE'",
        "s ILIKE 'ibm'",
        "NOT s MATCHES 'x'",
    ]
    for selector in selectors:
        with pytest.raises(NotNative):
            Translation.of(frame).condition(parse(selector))
    made = Translation.of(frame, python=True)
    found = truths(frame, [made.condition(parse(s)) for s in selectors])
    assert found == [[False, True, False, True], [True, False, True, True], [False] * 4]


def test_a_number_is_never_a_text_that_is_not_equal(spark):
    frame = spark.createDataFrame([(1, 1.0), (9, None), (None, float("nan"))], "n int, x double")
    selectors = [
        "n <> 'a' AND n < 5",
        "NOT (n = 'a') AND n < 5",
        "n >= 1 AND n < 5",
        "NOT x < 0.5",
        "x >= 0.5 AND x IS NOT NULL",
        "x > 0.5 OR x IS NULL",
    ]
    conditions = [parse(selector) for selector in selectors]
    found = truths(frame, [Translation.of(frame).condition(c) for c in conditions])
    for row, (n, x) in zip(found, [(1, 1.0), (9, None), (None, None)], strict=True):
        message = {"n": n, "x": x}
        assert row == [oracle.matches(c, message, "sql", None) for c in conditions]


def test_a_lookup_that_was_joined(spark):
    frame = spark.createDataFrame(
        [("IBM", "a", 1.0), ("X", None, 2.0)], "issue string, com string, p double"
    )
    call = Call("NYSEdb", (Attribute("issue"),))
    made = Translation.of(frame, calls={call: Value.of(F.col("com"), spark_types.StringType())})
    conditions = [parse("NYSEdb(issue) = 'a'"), parse("NYSEdb(issue) IS NULL AND p > 1")]
    assert truths(frame, [made.condition(c) for c in conditions]) == [[True, False], [False, True]]
    with pytest.raises(NotNative, match="lookup other"):
        made.term(Call("other", (Attribute("issue"),)))


def test_columns_that_spark_would_compare_otherwise(spark):
    frame = spark.sql("SELECT 'A' COLLATE UTF8_LCASE AS c, array(1) AS l")
    made = Translation.of(frame)
    selectors = ["c = 'a'", "c = 'A'", "c < 'a'", "nothing IS NULL"]
    found = truths(frame, [made.condition(parse(s)) for s in selectors])
    assert found == [[False, True, True, True]]
    with pytest.raises(NotNative, match="l is a list"):
        made.condition(parse("l IS NULL"))
    with_char = spark.createDataFrame([("a  ",)], "c string").select(
        F.col("c").alias("c", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
    )
    with pytest.raises(NotNative, match="char"):
        Translation.of(with_char).term(Attribute("c"))


def test_selects_reach_the_file(spark, tmp_path):
    spark.range(10).selectExpr("id", "id * 1.5D AS price").write.parquet(str(tmp_path / "x"))
    frame = spark.read.parquet(str(tmp_path / "x"))
    made = Translation.of(frame, "sql", schema_of(frame))
    kept = frame.where(made.condition(parse("id >= 3 AND price < 9.0 AND NOT id = 4")))
    plan = kept._jdf.queryExecution().executedPlan().toString()
    pushed = plan.split("PushedFilters: [")[1].split("]")[0]
    assert "GreaterThanOrEqual(id,3)" in pushed
    assert "LessThan(price,9.0)" in pushed
    assert sorted(row["id"] for row in kept.collect()) == [3, 5]
