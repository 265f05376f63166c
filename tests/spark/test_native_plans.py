"""Native plans and the matcher give the same results, good rows and bad ones."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

import oracle
import strategies as st
from dose import dose
from frames import CASES, converted, good_messages, table
from tamis import InputError, Matcher, Schema
from tamis.language import canonical, tree
from tamis.schema import Type
from tamis.spark import Subscriptions, counts, deliveries, match, plan_of, schema_of, semi
from tamis.spark.native.hashing import xxhash64

SEEDS = range(dose(1, 20))
WORDS = (110, 400)  # of the conditions of one plan: for one method, for methods of their own


def results(frame, call, subscriptions, plan, **options) -> list:
    column = {"match": "subscriptions", "counts": "matches"}[call.__name__]
    found = call(frame, subscriptions, plan=plan, **options)
    names = [column, *(["_error"] if options.get("on_error") else [])]
    return found.select(*names).toArrow().to_pylist()


def wanted(conditions, messages, schema, semantics, typed) -> list[list[int]]:
    clear = messages if typed else [converted(schema, message) for message in messages]
    known = schema if typed else None
    return [
        [i for i, c in conditions.items() if oracle.matches(c, message, semantics, known)]
        for message in clear
    ]


def matcher_of(conditions, schema, semantics) -> Matcher:
    made = Matcher(schema, semantics=semantics)
    made.add_many((i, canonical(c)) for i, c in conditions.items())
    return made


def compare_plans(frame, conditions, messages, schema, semantics, typed, how):
    """Calls and plans, all in one job."""
    made = matcher_of(conditions, schema if typed else None, semantics)
    assert plan_of(frame, made, plan="native").how == how
    expected = wanted(conditions, messages, schema, semantics, typed)
    for plan in ("native", "matcher"):
        asked = match(frame, made, plan=plan, column=f"{plan} ids")
        frame = counts(asked, made, plan=plan, column=f"{plan} count")
    names = [f"`{plan} {what}`" for plan in ("native", "matcher") for what in ("ids", "count")]
    found = frame.select(*names).toArrow().to_pylist()
    for row, ids in zip(found, expected, strict=True):
        assert list(row.values()) == [ids, len(ids)] * 2
    return expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(("semantics", "typed"), CASES)
def test_columns_equal_the_matcher_and_the_oracle(spark, semantics, typed, words, seed):
    rng = random.Random(f"columns {semantics} {typed} {seed}")
    schema = Schema(tuple(st.make_attribute(st.Rolled(rng), name) for name in st.NAMES))
    messages = good_messages(rng, schema, semantics)
    frame = spark.createDataFrame(table(rng, schema, messages))
    conditions: dict[int, tree.Condition] = {}
    while sum(map(size, conditions.values())) < words:
        condition = st.random_condition(rng, schema if typed else None)
        if is_native(condition):
            conditions[rng.randint(-(2**63), 2**63 - 1)] = condition
    compare_plans(frame, conditions, messages, schema, semantics, typed, "columns")


def size(condition) -> int:
    return canonical(condition).count(" ")


def is_native(condition) -> bool:
    text = canonical(condition)
    words = ("MATCHES", "ILIKE", "lower(", "upper(", "casefold(", "coalesce(")
    return not any(word in text for word in words)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("key", ["name", "a", "price", "when", "order.to.name"])
def test_a_join_equals_the_matcher_and_the_oracle(spark, key, seed):
    rng = random.Random(f"join {key} {seed}")
    semantics, typed = rng.choice(CASES)
    schema = Schema.of({name: st.HOMES[name] for name in st.NAMES})
    messages = good_messages(rng, schema, semantics)
    frame = spark.createDataFrame(table(rng, schema, messages))
    others = rng.sample([n for n in ("b", "$_1", "Größe", "odd name", "when") if n != key], 2)
    conditions = {i: clustered(rng, schema, key, others) for i in range(90)}
    found = compare_plans(frame, conditions, messages, schema, semantics, typed, "join")
    assert any(found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("key", ["name", "a", "price", "when"])
def test_pairs_by_a_join_equal_the_oracle(spark, key, seed):
    rng = random.Random(f"pairs {key} {seed}")
    schema = Schema.of({name: st.HOMES[name] for name in st.NAMES})
    messages = good_messages(rng, schema, "sql")
    given = table(rng, schema, messages)
    frame = spark.createDataFrame(given.append_column("row", pa.array(range(len(messages)))))
    others = rng.sample([n for n in ("b", "$_1", "Größe", "odd name", "when") if n != key], 2)
    conditions = {i: clustered(rng, schema, key, others, box=True) for i in range(90)}
    made = matcher_of(conditions, schema, "sql")
    found = deliveries(frame, made, plan="native")
    assert "Generate" not in plan_text(found)
    expected = wanted(conditions, messages, schema, "sql", typed=True)
    pairs = [(row, id) for row, ids in enumerate(expected) for id in ids]
    assert pairs
    assert sorted(tuple(row) for row in found.select("row", "subscription").collect()) == pairs


def clustered(rng, schema, key, others, *, box=False) -> tree.Condition:
    """`key = constant AND ...`, with comparisons of the other attributes; a box has no OR, and no
    NULL that may be."""
    dice = st.Rolled(rng)
    values = [st.make_constant(dice, schema[key].type) for _ in range(rng.choice((1, 1, 3)))]
    chosen: tree.Condition = tree.In(tree.Attribute(key), tuple(map(tree.Literal.of, values)))
    if len(values) == 1:
        chosen = tree.Compare(tree.Attribute(key), "=", tree.Literal.of(values[0]))
    several = rng.choice((1, 1, 2)) if box else 1
    parts = [
        side(dice, schema, name, box=box)
        for name in rng.sample(others, rng.randint(0, 2))
        for _ in range(several)
    ]
    if parts and not box and rng.random() < 0.3:
        parts = [tree.Or((*parts, side(dice, schema, others[0])))]
    return tree.And((chosen, *parts)) if parts else chosen


def side(dice, schema, name, *, box=False) -> tree.Condition:
    kind = schema[name].type
    if kind.numeric and dice.chance(50):
        kind = Type.DOUBLE if kind is Type.INT else Type.INT
    op = dice.pick(("<", "<=", ">", ">="))
    found: tree.Condition = tree.Compare(
        tree.Attribute(name), op, tree.Literal.of(st.make_constant(dice, kind))
    )
    if dice.chance(15):
        found = tree.IsNull(tree.Attribute(name))
        return tree.Not(found) if box or dice.chance(25) else found
    return tree.Not(found) if dice.chance(25) else found


# --- what comes out ------------------------------------------------------------

TRADES = [("IBM", 1200.0, 1), ("Dell", 15.0, 2), (None, 2000.0, 3), ("IBM", None, 4), ("X", 1.0, 5)]
ALERTS = [
    (f"{company} {price}", f"company = '{company}' AND price < {price}")
    for price in range(1300, 10, -46)
    for company in ("IBM", "Dell", "SAP")
]
FEW = [("z", "price > 10"), ("a", "company = 'IBM'"), ("", "TRUE"), ("none", "FALSE")]


@pytest.fixture(scope="module")
def trades(spark):
    return spark.createDataFrame(TRADES, "company string, price double, n int")


@pytest.mark.parametrize(("rules", "how"), [(ALERTS, "join"), (FEW, "columns")])
def test_every_question_has_the_same_answer(spark, trades, rules, how):
    named = [(id, selector, f"{id}@example") for id, selector in rules]
    given = spark.createDataFrame(named, "id string, selector string, subscriber string")
    assert plan_of(trades, given).how == how
    for ask in (match, counts, semi, deliveries):
        native, worked = (ask(trades, given, plan=plan) for plan in ("native", "matcher"))
        assert native.schema == worked.schema  # what may be NULL included
        assert sorted(map(str, native.collect())) == sorted(map(str, worked.collect()))
        assert "ArrowEvalPython" not in plan_text(native)
        assert "ArrowEvalPython" in plan_text(worked)


def plan_text(frame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize(("rules", "wide"), [(5, 40), (16, 1), (32, 40)])
def test_java_compiles_the_columns_of_many_rules(spark, tmp_path, rules, wide):
    """It leaves out methods of more than 8,000 bytes, which then run ten times slower."""
    names = ", ".join(f"{i} AS w{i}" for i in range(wide))  # that no rule asks for
    spark.sql(f"SELECT 1 AS n, 2.0D AS price, 'IBM' AS company, {names}").write.parquet(
        str(tmp_path / "in")
    )
    frame = spark.read.parquet(str(tmp_path / "in"))
    given = [
        (i, f"n >= {i} AND n < {i + 9} AND price > {i} AND company <> 'C{i}' OR price < -{i}")
        for i in range(rules)
    ]
    assert plan_of(frame, given).how == "columns"
    for ask in (match, counts):
        found = ask(frame, given)
        code = found._jdf.queryExecution().debug().codegenToSeq()
        largest = max(code.apply(i)._3().maxMethodCodeSize() for i in range(code.size()))
        assert 0 < largest < 8_000
        assert ("*(1) Project" in plan_text(found)) is (rules == 5)  # else by methods of their own
        assert found.collect() == ask(frame, given, plan="matcher").collect()
    assert semi(frame, given).count() == 1
    assert deliveries(frame, given).count() == len(match(frame, given).first()["subscriptions"])


def test_native_plans_on_a_stream(spark, trades, tmp_path):
    trades.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(trades.schema).parquet(str(tmp_path / "in"))
    for number, rules in enumerate((ALERTS, FEW)):
        given = spark.createDataFrame(rules, "id string, selector string")
        assert plan_of(stream, given).native
        query = match(stream, given).writeStream.format("memory").queryName(f"native{number}")
        query.trigger(availableNow=True).start().awaitTermination()
        found = spark.table(f"native{number}").collect()
        assert sorted(map(str, found)) == sorted(
            map(str, match(trades, given, plan="matcher").collect())
        )


def test_plans_and_their_reasons(spark, trades, tmp_path):
    made = Matcher(lookups={"odd": lambda n: n % 2 == 1})
    made.add(1, "odd(n) = TRUE")
    assert str(plan_of(trades, made)) == "matcher: the lookup odd is a function of Python"
    with pytest.raises(InputError, match="there is no native plan: the lookup odd"):
        match(trades, made, plan="native")
    with pytest.raises(InputError, match="plan is one of auto, native, matcher"):
        match(trades, Matcher(), plan="quick")
    assert plan_of(trades, Matcher(), plan="matcher").how == "matcher"
    assert plan_of(trades, Matcher()).how == "columns"
    regex = Matcher()
    regex.add(1, "company MATCHES '^I'")
    assert "RE2" in plan_of(trades, regex).why
    many = Matcher()
    many.add_many((i, f"n > {i} OR price < {i}") for i in range(3000))
    assert plan_of(trades, many).how == "matcher"


def test_subscriptions_that_may_change(spark, trades, tmp_path):
    held = Subscriptions.create(tmp_path / "table", schema=schema_of(trades))
    held.add("a", "company = 'IBM'")
    assert plan_of(trades, held).how == "columns"
    assert match(trades, held, version="v").first()["v"] == held.version
    trades.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(trades.schema).parquet(str(tmp_path / "in"))
    assert plan_of(stream, held).how == "matcher"
    with pytest.raises(InputError, match="may change while the stream runs"):
        match(stream, held, plan="native")


# --- messages that do not fit ----------------------------------------------------

BAD = """
SELECT 1 AS n, 'IBM' AS company, TIMESTAMP '2000-01-01 00:00:00' AS at, DATE '2000-01-01' AS day,
       TIMESTAMP_NTZ '2000-01-01 00:00:00' AS wall
UNION ALL SELECT 2, CAST(X'49FF' AS string), NULL, NULL, NULL
UNION ALL SELECT 3, 'IBM', timestamp_micros(253402300800000000), NULL, NULL
UNION ALL SELECT 4, 'IBM', timestamp_micros(-62135596800000001), NULL, NULL
UNION ALL SELECT 5, 'IBM', NULL, date_add(DATE '9999-12-31', 1), NULL
UNION ALL SELECT 6, 'IBM', NULL, NULL, TIMESTAMP_NTZ '+10000-01-01 00:00:00'
"""
QUESTIONS = [
    "company = 'IBM'",
    "at < TIMESTAMP '2010-01-01'",
    "day > TIMESTAMP '1999-01-01'",
    "wall IS NULL",
]


@pytest.mark.parametrize("semantics", ["sql", "total"])
def test_messages_that_do_not_fit_have_the_same_reasons(spark, semantics):
    frame = spark.sql(BAD)
    made = Matcher(schema_of(frame), semantics=semantics)
    made.add_many(enumerate(QUESTIONS))
    found = {
        plan: results(frame, match, made, plan, on_error="report") for plan in ("native", "matcher")
    }
    assert found["native"] == found["matcher"]
    assert [row["_error"] is None for row in found["native"]] == [True] + [False] * 5
    assert results(frame, counts, made, "native", on_error="report") == results(
        frame, counts, made, "matcher", on_error="report"
    )
    for row in range(2, 7):
        for plan in ("native", "matcher"):
            with pytest.raises(Exception, match="a message does not fit") as caught:
                match(frame.where(F.col("n") == row), made, plan=plan).collect()
            reason = found["native"][row - 1]["_error"]
            assert f"tamis.errors.MessageError: a message does not fit: {reason}" in str(
                caught.value
            )


def test_hashes_are_those_of_spark(spark):
    texts = [*st.STRING_EDGES, *(("Straße 𝒳" * 20)[:size] for size in range(150))]
    frame = spark.createDataFrame(pa.table({"s": texts}))
    found = [row[0] for row in frame.select(F.xxhash64("s")).collect()]
    assert found == [xxhash64(text) for text in texts]


def test_values_with_the_same_hash_are_joined_as_they_are(spark, trades, monkeypatch):
    monkeypatch.setattr("tamis.spark.native.grid.xxhash64", lambda text: 7)
    given = spark.createDataFrame(ALERTS, "id string, selector string")
    for ask in (match, deliveries):
        native, worked = (ask(trades, given, plan=plan) for plan in ("native", "matcher"))
        assert "xxhash64" not in plan_text(native)
        assert sorted(map(str, native.collect())) == sorted(map(str, worked.collect()))


def test_a_hash_that_is_not_the_value_does_not_match(spark, trades, monkeypatch):
    """As if a message had the hash of IBM and were another company."""
    real = xxhash64
    given = spark.createDataFrame(ALERTS, "id string, selector string")
    wrong = {"IBM": real("X")}
    monkeypatch.setattr(
        "tamis.spark.native.grid.xxhash64", lambda text: wrong.get(text, real(text))
    )
    for ask in (match, deliveries):
        found = ask(trades, given, plan="native")
        assert "xxhash64" in plan_text(found)
        column = found.columns[-1]
        assert not any(row[column] for row in found.collect() if row["company"] == "X")


def test_deliveries_do_not_pass_over_what_does_not_fit(spark):
    frame = spark.sql(BAD)
    made = Matcher(schema_of(frame))
    made.add_many((i, f"company = '{'SAP' if i % 2 else 'IBM'}' AND n < {i}") for i in range(60))
    assert plan_of(frame, made).how == "join"
    with pytest.raises(Exception, match="company holds invalid UTF-8"):
        deliveries(frame, made, plan="native").collect()


def test_a_broken_key_is_reported_by_a_join(spark):
    frame = spark.sql(BAD)
    made = Matcher(schema_of(frame))
    made.add_many(
        (i, f"company = '{'IBM' if i % 2 else 'SAP'}' AND n < {i // 2}") for i in range(60)
    )
    assert plan_of(frame, made).how == "join"
    found = results(frame, match, made, "native", on_error="report")
    assert found == results(frame, match, made, "matcher", on_error="report")
    assert [row["_error"] for row in found] == [None, "company holds invalid UTF-8"] + [None] * 4


def test_of_several_misfits_the_first_is_told(spark):
    broken = "CAST(X'FF' AS STRING)"
    texts = (broken, "'a'", "CAST(NULL AS STRING)")
    values = [(a, b) for a in texts for b in texts]
    frame = spark.sql(" UNION ALL ".join(f"SELECT {a} AS one, {b} AS two" for a, b in values))
    given = [(1, "two = 'a'"), (2, "one = 'a' AND two <> 'b'")]
    found = results(frame, match, given, "native", on_error="report")
    assert found == results(frame, match, given, "matcher", on_error="report")
    assert len({row["_error"] for row in found}) == 3
    for a, b in values:
        single = spark.sql(f"SELECT {a} AS one, {b} AS two")
        for plan in ("native", "matcher"):
            if broken not in (a, b):
                assert match(single, given, plan=plan).count() == 1
                continue
            with pytest.raises(Exception, match="holds invalid UTF-8") as told:
                match(single, given, plan=plan).collect()
            first = "two" if b == broken else "one"  # in the order in which selectors ask
            assert f"{first} holds invalid UTF-8" in str(told.value)


def test_a_message_that_is_not_total(spark, trades):
    made = Matcher(schema_of(trades), semantics="total")
    made.add("all", "price > 0")
    found = results(trades, match, made, "native", on_error="report")
    assert found == results(trades, match, made, "matcher", on_error="report")
    assert found[2] == {"subscriptions": None, "_error": "the message does not define company"}
    lacking = Matcher(Schema.of(company=str, lot=int), semantics="total")
    lacking.add(1, "lot > 0")
    found = results(trades, match, lacking, "native", on_error="report")
    assert found == results(trades, match, lacking, "matcher", on_error="report")
