"""Lists and maps in messages: every way to match agrees with the oracle."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lists
import strategies as st
from lists import CASES, expected, fitting, table_of
from tamis import Matcher, Schema
from tamis.errors import MessageError
from tamis.language import canonical, parse
from tamis.logic import Semantics
from tamis.messages import read, read_schema


@pytest.mark.parametrize("engine", ["diagram", "implication"])
@pytest.mark.parametrize(("semantics", "typed"), CASES)
def test_lists_agree_with_the_oracle(semantics: Semantics, typed: bool, engine: Any) -> None:
    rng = random.Random(f"lists {semantics} {typed}")
    schema = lists.schema_of(rng) if typed else None
    maker = lists.Maker(st.Rolled(rng), schema)
    conditions = [maker.condition(2) for _ in range(150)]
    messages = fitting(rng, schema, semantics, 100)
    wanted = expected(conditions, messages, semantics, schema)
    matcher = Matcher(schema, semantics=semantics, engine=engine)
    matcher.add_many((i, canonical(c)) for i, c in enumerate(conditions))
    assert matcher.match_batch(messages).to_pylist() == wanted
    assert [matcher.match(m) for m in messages[:40]] == wanted[:40]
    assert list(matcher.count_batch(messages)) == list(map(len, wanted))
    if schema is not None:
        table = table_of(schema, messages)
        assert matcher.match_batch(table).to_pylist() == wanted
        sliced = matcher.match_batch(table.slice(7, 80))
        assert sliced.to_pylist() == wanted[7:87]


TAGS = [f"tag{i}" for i in range(300)]


def tagged(rng: random.Random) -> str:
    tags = ", ".join(f"'{tag}'" for tag in rng.choices(TAGS, k=rng.randint(1, 5)))
    roll = rng.random()
    if roll < 0.5:
        return f"ANY(tags) IN ({tags})"
    if roll < 0.7:
        return f"ANY(tags) IN ({tags}) AND volume > {rng.randint(0, 100)}"
    if roll < 0.8:
        return f"tags CONTAINS '{rng.choice(TAGS)}' AND NOT ANY(tags) = '{rng.choice(TAGS)}'"
    if roll < 0.9:
        return f"ANY(prices) < {rng.randint(0, 50)} OR ALL(prices) >= {rng.randint(50, 99)}"
    return f"ANY(tags) STARTS WITH '{rng.choice(TAGS)[:5]}' AND SIZE(tags) < 3"


def test_subscriptions_that_elements_lead_to(tmp_path: Path) -> None:
    """Enough of them for clusters; a message may come to one subscription by several elements."""
    rng = random.Random(3)
    schema = Schema.of(tags=list[str], prices=list[float], volume=int)
    selectors = [tagged(rng) for _ in range(1500)]
    messages = [
        {
            "tags": rng.choices([*TAGS, None], k=rng.randint(0, 6)),
            "prices": [rng.randint(0, 100) * 1.0 for _ in range(rng.randint(0, 4))],
            "volume": rng.randint(0, 100),
        }
        for _ in range(120)
    ]
    conditions = list(map(parse, selectors))
    wanted = expected(conditions, messages, "sql", schema)
    matcher = Matcher(schema)
    matcher.add_many(enumerate(selectors))
    table = pa.Table.from_pylist(messages)
    for given in (messages, table):
        assert matcher.match_batch(given).to_pylist() == wanted
        assert matcher.count_batch(given).tolist() == list(map(len, wanted))
    assert [matcher.match(m) for m in messages[:30]] == wanted[:30]
    matcher.save(tmp_path / "lists.tamis")
    loaded = Matcher.load(tmp_path / "lists.tamis")
    assert loaded.match_batch(table).to_pylist() == wanted
    assert loaded.schema == schema


def test_a_long_list_of_constants() -> None:
    matcher = Matcher()
    matcher.add("many", f"ANY(tags) IN ({', '.join(repr(tag) for tag in TAGS)})")
    matcher.add("none", f"NOT ANY(tags) IN ({', '.join(repr(tag) for tag in TAGS)})")
    assert matcher.match({"tags": ["x", "tag7", "tag9"]}) == ["many"]
    assert matcher.match({"tags": ["x", ("tag7",)]}) == ["none"]
    assert matcher.match({"tags": ["x", None]}) == []


def test_an_explanation_shows_the_list() -> None:
    matcher = Matcher(Schema.of(tags=list[str]))
    matcher.add("a", "ANY(tags) = 'a' AND SIZE(tags) < 3")
    shown = str(matcher.explain("a", {"tags": ["b"]}))
    assert "any(tags) = 'a'" in shown
    assert "tags = ['b']" in shown
    assert "=> no match" in shown


def test_what_does_not_fit_is_told() -> None:
    matcher = Matcher(Schema.of(tags=list[str], labels=dict[str, int]))
    matcher.add("a", "ANY(tags) = 'a' OR labels['x'] = 1")
    with pytest.raises(MessageError, match=r"tags = 5 is not of type string"):
        matcher.match({"tags": ["a", 5]})
    with pytest.raises(MessageError, match=r"tags = a is not a list<string>"):
        matcher.match({"tags": "a"})
    with pytest.raises(MessageError, match=r"labels\['x'\] = 'a' is not of type int"):
        matcher.match({"labels": {"x": "a"}})
    big = pa.array([[1], [2, 2**63]], pa.list_(pa.uint64()))
    numbers = Matcher(Schema.of(tags=list[int]))
    numbers.add("a", "ANY(tags) = 1")
    with pytest.raises(MessageError, match=r"row 1: tags = .* does not fit into 64 bits"):
        numbers.match_batch(pa.table({"tags": big}))


def test_examples_and_covering_are_never_wrong() -> None:
    schema = Schema.of(tags=list[str], prices=list[float])
    matcher = Matcher(schema)
    matcher.add("both", "ANY(tags) = 'a' AND ANY(tags) = 'b'")
    matcher.add("one", "ANY(tags) = 'a'")
    matcher.add("low", "ANY(prices) < 5 AND ANY(prices) > 7")
    matcher.add("never", "ANY(tags) = 'a' AND NOT ANY(tags) = 'a'")
    for id in ("both", "one", "low"):
        found = matcher.example(id)
        assert found is None or id in matcher.match(found)
    assert matcher.example("both") is not None
    assert matcher.covers("one", "both")
    assert not matcher.covers("both", "one")
    assert set(matcher.report().unsatisfiable) <= {"never"}


def test_lists_from_a_file_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    path.write_text(
        '{"tags": ["a", "b"], "when": ["2013-01-01T00:00:00Z"], "labels": {"env": "prod"}}\n'
        '{"tags": [], "items": [{"price": 20}, {"price": null}]}\n'
        '{"tags": "a"}\n'
    )
    schema = read_schema(
        "tags:list<string>,when:list<timestamp>,labels:map<string,string>,items.price:list<double>"
    )
    matcher = Matcher(schema)
    matcher.add("tag", "tags CONTAINS 'b' AND ANY(when) = DATE '2013-01-01'")
    matcher.add("label", "labels['env'] = 'prod'")
    matcher.add("price", "ANY(items.price) > 10 AND SIZE(items.price) = 2")
    bad: list[object] = []
    (batch,) = read(path, on_bad=bad.append, schema=schema)
    assert matcher.match_batch(batch.rows).to_pylist() == [["tag", "label"], ["price"]]
    assert len(bad) == 1
    plain = Matcher()
    plain.add_many(
        (id, text.replace("tags CONTAINS 'b'", "ANY(tags) = 'b'")) for id, text in matcher.items()
    )
    (batch,) = read(path, on_bad=print)
    assert plain.match_batch(batch.rows).to_pylist() == [["label"], ["price"], []]
