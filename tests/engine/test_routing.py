"""What subscriptions wait for: never less than what they match; and shards that divide them."""

from __future__ import annotations

import os
import random

import numpy as np
import pyarrow as pa
import pytest

import oracle
import strategies as st
from tamis import Matcher, MessageError, Schema, SelectorError, SubscriptionError
from tamis.engine.sharding.shard_routes import BEYOND, EXACT, Reader, Routes, bucket
from tamis.engine.sharding.united import ShardPart, United
from tamis.language import canonical, tree
from tamis.logic import SEMANTICS
from tamis.messages.texts import from_value
from tamis.messages.typed_tables import to_batch
from tamis.schema import Type

ROUNDS = int(os.environ.get("TAMIS_ROUNDS", "8"))
NUMBERS = (Type.INT, Type.DOUBLE)


def waits(selector: str, schema: Schema | None = None, **kinds: Type) -> dict[str, frozenset[int]]:
    return dict(Reader(Matcher(schema), kinds.get).buckets(selector))


def texts(*values: str) -> frozenset[int]:
    return frozenset(bucket(value, Type.STRING) for value in values)


# --- one subscription ----------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "values"),
    [
        ("s = 'a'", ["a"]),
        ("'a' = s AND n < 3", ["a"]),
        ("s IN ('a', 'b') AND n < 3", ["a", "b"]),
        ("(s = 'a' AND n < 3) OR (n > 5 AND s IN ('b', 'c'))", ["a", "b", "c"]),
        ("NOT (s NOT IN ('a', 'b')) AND n IS NULL", ["a", "b"]),
        ("NOT (NOT s = 'a' OR n < 3)", ["a"]),
        ("s = 'a' OR s = 7", ["a"]),
        ("s = 'a' OR FALSE", ["a"]),
        ("s = ''", [""]),
        ("s WITHIN ''", [""]),
    ],
)
def test_strings_that_are_waited_for(selector, values):
    assert waits(selector, s=Type.STRING)["s"] == texts(*values)


@pytest.mark.parametrize(
    "selector",
    [
        "s <> 'a'",
        "NOT (s <> 'a')",  # true of a value that is no string
        "s = 'a' OR n = 1",
        "s NOT IN ('a', 'b')",
        "s LIKE 'a%'",
        "lower(s) = 'a'",
        "s = t",
        "s IS NULL OR s = 'a'",
        "s >= 'a' AND s <= 'a'",
        "TRUE",
        "FALSE",
        "s IN (" + ", ".join(f"'{i}'" for i in range(1000)) + ")",
        "u = 'a'",
    ],
)
def test_nothing_is_waited_for(selector):
    assert "s" not in waits(selector, s=Type.STRING, t=Type.STRING)


def test_numbers_are_alike_however_they_are_written():
    for schema in (None, Schema.of(n=int), Schema.of(n=float)):
        for kind in NUMBERS:
            assert waits("n = 7.0", schema, n=kind) == waits("n = 7", schema, n=kind)
    assert waits("n = -0.0", n=Type.DOUBLE) == waits("n = 0", n=Type.DOUBLE)
    assert bucket(7.9, Type.DOUBLE) == bucket(7, Type.INT)
    assert bucket(float(EXACT), Type.DOUBLE) == bucket(float("-inf"), Type.DOUBLE) == BEYOND
    assert bucket(EXACT, Type.INT) != BEYOND


def test_a_moment_is_not_waited_for():
    assert waits("t = TIMESTAMP '2000-02-01'", t=Type.TIMESTAMP) == {}


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_whatever_matches_has_a_value_that_was_waited_for(semantics):
    rng = random.Random(f"waits {semantics}")
    seen = 0
    for _ in range(ROUNDS):
        schema = Schema(tuple(st.make_attribute(st.Rolled(rng), name) for name in st.NAMES))
        typed = schema if semantics == "total" or rng.random() < 0.5 else None
        # An integer may come as a double, but not the other way round.
        kinds = {n: rng.choice([Type.DOUBLE, a.type]) if a.type in NUMBERS else a.type
                 for n, a in schema.items()}  # fmt: skip
        reader = Reader(Matcher(typed, semantics=semantics), kinds.get)
        messages = clear_messages(rng, schema, semantics)
        for condition in routable_conditions(rng, typed or schema, 20):
            found = dict(reader.buckets(canonical(condition)))
            for message in messages if found else ():
                if not oracle.matches(condition, message, semantics, typed):
                    continue
                for name, buckets in found.items():
                    value = message[name]
                    if value is None and semantics == "default" and typed is not None:
                        value = schema[name].default
                    assert bucket(value, kinds[name]) in buckets, (condition, message, name)
                    seen += 1
    assert seen > 5 * ROUNDS


def clear_messages(rng, schema, semantics) -> list[dict]:
    """Flat messages, each value of its attribute's type or None."""
    found: list[dict] = []
    while len(found) < 40:
        message = st.random_message(rng, schema, total=semantics == "total")
        try:
            found.append({n: schema.convert(n, oracle.attribute(n, message)) for n in schema})
        except MessageError:
            continue
    return found


def routable_conditions(rng, schema, count) -> list:
    """Random conditions, most of them joined with a membership or two."""
    made = []
    for _ in range(count):
        condition = st.random_condition(rng, schema)
        parts = [membership(rng, schema) for _ in range(rng.randrange(3))]
        joined = rng.choice([tree.And, tree.And, tree.Or])
        made.append(joined((*parts, condition)) if parts else condition)
    return made


def membership(rng, schema):
    name = rng.choice(list(schema))
    kind = schema[name].type
    values = [st.make_constant(st.Rolled(rng), kind) for _ in range(rng.randint(1, 4))]
    literals = tuple(tree.Literal.of(value) for value in values)
    condition = tree.In(tree.Attribute(name), literals)
    return tree.Not(tree.Not(condition)) if rng.random() < 0.2 else condition


# --- many subscriptions --------------------------------------------------------

KINDS = {"symbol": Type.STRING, "side": Type.BOOL, "account": Type.INT}


def routes(pairs, **given) -> Routes:
    made = Routes(Reader(Matcher(), KINDS.get), **given)
    made.add_many(pairs)
    return made


def test_the_attribute_that_leaves_least_for_a_worker_is_chosen():
    pairs = [(i, f"symbol = 'S{i % 50}' AND side = TRUE") for i in range(400)]
    pairs += [(400 + i, f"account = {i} AND side = FALSE") for i in range(200)]
    split = routes(pairs).split(4)
    assert split.attribute == "symbol"
    assert split.rest.tolist() == list(range(400, 600))
    assert sorted(np.concatenate(split.shards).tolist()) == list(range(400))
    assert all(len(shard) > 50 for shard in split.shards)


def test_one_of_several_values_stands_in_each_of_their_shards():
    pairs = [(i, f"symbol IN ('S{i}', 'T{i}', 'U{i}')") for i in range(100)]
    split = routes(pairs).split(4)
    assert len(split.rest) == 0
    for i in range(100):
        of = {bucket(f"{letter}{i}", Type.STRING) % 4 for letter in "STU"}
        assert {n for n, shard in enumerate(split.shards) if i in shard} == of


def test_integers_and_texts_spread_evenly():
    for pairs in (
        [(i, f"account = {i}") for i in range(4_000)],
        [(i, f"symbol = 'S{i:05}'") for i in range(4_000)],
    ):
        made = routes(pairs)
        for shards in (2, 3, 4, 16):
            sizes = [len(shard) for shard in made.split(shards).shards]
            assert max(sizes) < 1.25 * 4_000 / shards, sizes


def test_nothing_to_route_by():
    for pairs in ([], [(1, "TRUE"), (2, "price > 3")]):
        split = routes(pairs).split(4)
        assert (split.attribute, split.most) == (None, len(pairs))


def test_bad_subscriptions_are_told_as_by_a_matcher():
    pairs = [("a", "symbol = 'x'"), ("b", "symbol = = 1"), ("a", "TRUE"), ("b", "symbol = 'y'")]
    told = []
    made = Routes(Reader(Matcher(), KINDS.get), {"a", "b"})
    assert made.add_many(pairs, lambda *bad: told.append(bad)) == 2
    wanted = []
    Matcher().add_many(pairs, lambda *bad: wanted.append(bad))
    assert [(id, text, str(error)) for id, text, error in told] == [
        (id, text, str(error)) for id, text, error in wanted
    ]
    with pytest.raises(SelectorError):
        routes(pairs)
    with pytest.raises(SubscriptionError):
        routes([pairs[0], pairs[2]], repeated={"a"})


def test_subscriptions_of_a_matcher_in_the_order_of_adding():
    matcher = Matcher()
    matcher.add_many([("a", "n = 1"), (2, "n = 2"), ("c", "n = 3")])
    matcher.remove("a")
    matcher.replace(2, "n = 5")
    assert matcher.items() == [("c", "n = 3"), (2, "n = 5")]


# --- matchers that are asked as one ---------------------------------------------


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_parts_together_are_the_whole(semantics):
    rng = random.Random(f"united {semantics}")
    schema = Schema(tuple(st.make_attribute(st.Rolled(rng), name) for name in st.NAMES))
    conditions = [st.random_condition(rng, schema) for _ in range(80)]
    whole = Matcher(schema, semantics=semantics)
    pairs = [(i, canonical(c)) for i, c in enumerate(conditions)]
    whole.add_many(pairs)
    batch, misfits = to_batch(
        clear_messages(rng, schema, semantics), schema, list(schema), from_value
    )
    assert not misfits
    wanted = whole.match_batch(batch)
    assert len(wanted.slots)
    for parts in (1, 2, 3):
        home = [rng.randrange(parts) for _ in pairs]
        made = []
        for part in range(parts + 1):  # the last one stays empty
            own = Matcher(schema, semantics=semantics)
            numbers = [i for i in range(len(pairs)) if home[i] == part]
            own.add_many(pairs[i] for i in numbers)
            made.append(ShardPart(own, np.array(numbers, np.int64)))
        together = United(made, whole.attributes, texts=False)
        assert together.match_batch(batch).to_pylist() == wanted.to_pylist()
        assert together.count_batch(batch).tolist() == wanted.counts.tolist()
        named = United(made, whole.attributes, texts=True).match_batch(batch)
        assert named.to_pylist() == [[str(id) for id in ids] for ids in wanted.to_pylist()]


def test_a_row_must_fit_also_where_its_part_does_not_look():
    matcher = Matcher(Schema.of(n=int, m=int))
    matcher.add("n", "n = 1")
    united = United([ShardPart(matcher, np.arange(1))], ("n", "m"), texts=True)
    assert united.match_batch(pa.record_batch({"n": [1]})).to_pylist() == [["n"]]
    with pytest.raises(MessageError, match=r"row 0: m = 1\.5"):
        united.match_batch(pa.record_batch({"n": [1], "m": [1.5]}))
