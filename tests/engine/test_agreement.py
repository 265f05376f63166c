"""The matcher agrees with the oracle: one by one, in batches of mappings, in Arrow batches."""

from __future__ import annotations

import os
import random

import pytest

import oracle
import strategies as st
from tamis import Matcher, MessageError
from tamis.language import canonical, parse
from tamis.logic import SEMANTICS, Semantics
from tamis.messages.table import to_batch
from tamis.messages.texts import from_value
from tamis.schema import Schema

ROUNDS = int(os.environ.get("TAMIS_ROUNDS", "12"))


def conditions_for(rng: random.Random, schema: Schema | None, count: int) -> list:
    return [st.random_condition(rng, schema, lookups=tuple(st.LOOKUPS)) for _ in range(count)]


def expected(conditions, message, semantics, schema) -> list[int]:
    return [
        i
        for i, c in enumerate(conditions)
        if oracle.matches(c, message, semantics, schema, st.LOOKUPS)
    ]


def good_messages(rng, schema, semantics, count) -> list[dict]:
    """Messages that the semantics takes: total ones for `total`, none that do not fit."""
    found: list[dict] = []
    while len(found) < count:
        message = st.random_message(rng, schema, total=semantics == "total")
        try:
            expected([st.tree.Constant(True)], message, semantics, schema)
            found.append(message)
        except MessageError:
            continue
    return found


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
def test_matcher_agrees_with_the_oracle(semantics: Semantics, typed: bool) -> None:
    rng = random.Random(f"{semantics}{typed}")
    for _ in range(ROUNDS):
        schema = st.random_schema(rng) if typed or semantics == "total" else None
        conditions = conditions_for(rng, schema, 40)
        matcher = Matcher(schema, semantics=semantics, lookups=st.LOOKUPS)
        matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions))
        messages = good_messages(rng, schema, semantics, 30)
        wanted = [expected(conditions, m, semantics, schema) for m in messages]
        assert matcher.match_many(messages).to_pylist() == wanted
        assert [matcher.match(m) for m in messages[:3]] == wanted[:3]
        if schema is not None:
            batch, misfits = to_batch(messages, schema, list(schema), from_value)
            assert not misfits
            assert matcher.match_batch(batch).to_pylist() == wanted
            assert matcher.count_batch(batch, threads=2).tolist() == [len(w) for w in wanted]


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_wide_blocks_agree_with_the_oracle(semantics: Semantics) -> None:
    """More than 64 messages go through cluster 0 in wide blocks; a remainder is left over."""
    rng = random.Random(f"wide {semantics}")
    for _ in range(2):
        schema = st.random_schema(rng)
        conditions = conditions_for(rng, schema, 75)
        matcher = Matcher(schema, semantics=semantics, lookups=st.LOOKUPS)
        matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions))
        messages = good_messages(rng, schema, semantics, 150)
        wanted = [expected(conditions, m, semantics, schema) for m in messages]
        batch, _ = to_batch(messages, schema, list(schema), from_value)
        assert matcher.match_batch(batch).to_pylist() == wanted
        assert matcher.count_batch(batch).tolist() == [len(w) for w in wanted]
        ids, bits = matcher.bitmap_batch(batch)
        for row, id in zip(bits, ids, strict=True):
            found = [m for m in range(150) if int(row[m // 64]) >> m % 64 & 1]
            assert found == [m for m, w in enumerate(wanted) if id in w]


def test_texts_of_several_attributes_agree_with_the_oracle() -> None:
    """What a path knows of one attribute must survive what it learns of the next."""
    rng = random.Random(1)
    schema = Schema.of(a=str, b=str, c=str)
    texts = ["a", "b", "ab", "ba", "aa", "bb", "abc", "c"]
    ops = ["CONTAINS", "STARTS WITH", "ENDS WITH", "WITHIN", "="]

    def condition(depth: int) -> str:
        if depth == 0:
            return f"{rng.choice('abc')} {rng.choice(ops)} '{rng.choice(texts)}'"
        if rng.random() < 0.2:
            return f"NOT ({condition(depth - 1)})"
        joint = rng.choice(["AND", "OR"])
        return f"({condition(depth - 1)} {joint} {condition(depth - 1)})"

    for _ in range(8):
        selectors = [condition(3) for _ in range(100)]
        conditions = [parse(text) for text in selectors]
        matcher = Matcher(schema)
        matcher.add_many(enumerate(selectors))
        values = [*texts, "", "abab", "cab"]
        messages = [
            {name: rng.choice(values) for name in "abc" if rng.random() < 0.9} for _ in range(25)
        ]
        wanted = [expected(conditions, m, "sql", schema) for m in messages]
        assert matcher.match_many(messages).to_pylist() == wanted
