"""The matcher agrees with the oracle: one by one, in batches of mappings, in Arrow batches."""

from __future__ import annotations

import datetime
import os
import random
import threading

import pytest

import oracle
import strategies as st
from tamis import Matcher, MessageError
from tamis.engine.live import state
from tamis.engine.paths.clusters.cluster_path import ClusterPath
from tamis.engine.paths.everywhere.everywhere_path import EverywherePath
from tamis.engine.paths.everywhere.straight_line import ROOT
from tamis.language import canonical, parse, tree
from tamis.logic import SEMANTICS, Semantics
from tamis.messages.texts import from_value
from tamis.messages.typed_tables import to_batch
from tamis.schema import Schema

ROUNDS = int(os.environ.get("TAMIS_ROUNDS", "8"))


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


def clustered(rng: random.Random, schema: Schema | None) -> tree.Condition:
    """A condition on one of 20 keys, few of them much asked for; mostly a plain conjunction."""
    key = rng.choice(["k0"] * 40 + ["k1"] * 5 + [f"k{i}" for i in range(20)])
    parts = [f"key = '{key}'"]
    for _ in range(rng.randrange(4)):
        parts.append(rng.choice(PLAIN).format(rng.randrange(-3, 12), rng.choice("abc")))
    if rng.random() < 0.15:
        parts.append(f"({canonical(st.random_condition(rng, schema, lookups=tuple(st.LOOKUPS)))})")
    return parse(" AND ".join(parts))


PLAIN = (
    *("i < {0}", "i > {0}", "d < {0}.5", "d >= {0}", "s = '{1}'", "s <> '{1}'", "i <> {0}"),
    *("i BETWEEN {0} AND 9", "(i < {0} OR s = '{1}')", "s IS NULL", "i IN ({0}, 5)", "NOT d < {0}"),
)
KEYED = Schema.of(key=str, i=int, d=float, s=str, b=bool, t=datetime.datetime)


@pytest.mark.parametrize("kept", [1 << 16, 40])
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
def test_clusters_agree_with_the_oracle(
    semantics: Semantics, typed: bool, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most subscriptions ask for one key. Also where there is no room to keep what is found."""
    monkeypatch.setattr(state, "_FEW_PAIRS", kept)
    monkeypatch.setattr(state, "_MANY_PAIRS", kept)
    monkeypatch.setattr(state, "_memory", threading.local())
    rng = random.Random(f"clusters {semantics}{typed}")
    schema = KEYED if typed or semantics == "total" else None
    conditions = [clustered(rng, schema) for _ in range(200)]
    matcher = Matcher(schema, semantics=semantics, lookups=st.LOOKUPS)
    matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions))
    gone = rng.sample(range(200), 5)
    for id in gone if kept == 40 else ():
        matcher.remove(id)
    matcher.settle()
    segment = matcher._contents.merging.state.segments[0]
    assert len(segment.path(ClusterPath).cubes.subscription) > 100  # else this tests something else
    assert (
        len(segment.path(EverywherePath).clusters.root)
        > segment.path(EverywherePath).clusters.starts[1, ROOT]
    )
    messages = good_messages(rng, KEYED, semantics, 80)
    messages = [{**m, "key": rng.choice(["k0", "k1", "k2", "k3", "x"])} for m in messages]
    for message in messages[:40]:
        message.update(i=rng.randrange(-3, 12), s=rng.choice("abcd"), d=rng.randrange(12) / 2)
    wanted = [expected(conditions, m, semantics, schema) for m in messages]
    wanted = [[id for id in row if id in matcher] for row in wanted]
    assert sum(map(len, wanted)) > 100
    assert matcher.match_many(messages).to_pylist() == wanted
    assert [matcher.match(m) for m in messages[:20]] == wanted[:20]
    if schema is not None:
        batch, _ = to_batch(messages, schema, list(schema), from_value)
        assert matcher.match_batch(batch).to_pylist() == wanted
        assert matcher.count_batch(batch).tolist() == [len(w) for w in wanted]
        ids, bits = matcher.bitmap_batch(batch)
        found = [[i for i, row in zip(ids, bits, strict=True) if _bit(row, m)] for m in range(80)]
        assert found == wanted


def _bit(row, m: int) -> int:
    return int(row[m // 64]) >> m % 64 & 1


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
