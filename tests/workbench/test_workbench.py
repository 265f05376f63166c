"""Tests with samples, differences and covering say what plain loops say."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import strategies as st
from tamis import InputError, Matcher, Schema
from tamis.cli.rule_commands import diff
from tamis.language import canonical
from tamis.workbench.rule_covering import covered
from tamis.workbench.rule_differences import Difference
from tamis.workbench.sample_cases import Case, failures, read_cases

SCHEMA = Schema.of(n=int, s=str)


def matcher_of(pairs) -> Matcher:
    matcher = Matcher(SCHEMA)
    matcher.add_many(pairs)
    return matcher


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("arrow", [False, True])
def test_a_difference_counts_what_a_loop_counts(seed: int, arrow: bool) -> None:
    rng = random.Random(seed)
    texts = [canonical(st.random_condition(rng, SCHEMA, depth=1)) for _ in range(30)]
    old = {i if seed % 2 else f"r{i}": text for i, text in enumerate(texts[:20])}
    new = {id: texts[-1 - i] if i % 4 == 0 else text for i, (id, text) in enumerate(old.items())}
    del new[next(iter(new))]
    new[100 if seed % 2 else "more"] = texts[25]
    messages = [
        {"n": rng.choice((None, 0, 1, 5, 2**63 - 1)), "s": rng.choice((None, "", "a", "é", "ab"))}
        for _ in range(200)
    ]
    before, after = matcher_of(old.items()), matcher_of(new.items())
    found = Difference(before, after, most=5)
    for first in range(0, 200, 64):
        part = messages[first : first + 64]
        rows = pa.Table.from_pylist(part, SCHEMA_ARROW).to_batches()[0] if arrow else part
        found.compare(rows, list(range(first, first + len(part))))
    gained, lost, changed = Counter(), Counter(), []
    for number, message in enumerate(messages):
        was, now = set(before.match(message)), set(after.match(message))
        gained.update(now - was)
        lost.update(was - now)
        if was != now:
            changed.append((number, now - was, was - now))
    assert (found.gained, found.lost) == (gained, lost)
    assert (found.messages, found.changed) == (200, len(changed))
    shown = [(e.number, set(e.gained), set(e.lost)) for e in found.examples]
    assert shown == changed[:5]
    assert found.same == (not changed)


SCHEMA_ARROW = pa.schema({"n": pa.int64(), "s": pa.string()})


def test_a_set_and_itself_are_the_same() -> None:
    pairs = [("a", "n > 1"), ("b", "n > 2")]
    found = Difference(matcher_of(pairs), matcher_of(reversed(pairs)))
    found.compare([{"n": 5}, {}], [0, 1])
    assert found.same
    assert (found.added, found.removed, found.examples) == ([], [], [])


def test_covering_is_found_and_proved() -> None:
    matcher = matcher_of(
        [
            ("wide", "n > 1"),
            ("narrow", "n > 5 AND s = 'a'"),
            ("same", "NOT n <= 1"),
            ("x", "s > 'b'"),
        ]
    )
    assert list(covered(matcher)) == [("narrow", "wide")]


def test_a_case_asks_for_all_for_some_and_for_none() -> None:
    matcher = matcher_of([("a", "n > 1"), ("b", "n > 2"), ("c", "n > 3")])
    cases = [
        Case("all", {"n": 3}, matches=("b", "a")),
        Case("too few", {"n": 3}, matches=("a",)),
        Case("too many", {"n": 3}, matches=("a", "b", "c")),
        Case("some", {"n": 3}, includes=("a",), excludes=("c",)),
        Case("not these", {"n": 9}, excludes=("b", "c")),
        Case("nothing", {"n": 0}, matches=()),
        Case("unknown", {"n": 0}, excludes=("d",)),
        Case("wrong type", {"n": "x"}, matches=()),
    ]
    found = {
        f.case.name: (f.missing, f.unexpected, bool(f.error)) for f in failures(matcher, cases)
    }
    assert found == {
        "too few": ((), ("b",), False),
        "too many": (("c",), (), False),
        "not these": ((), ("b", "c"), False),
        "unknown": ((), (), True),
        "wrong type": ((), (), True),
    }


def test_cases_are_read_from_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "tests.jsonl"
    rows = [{"message": {"n": 1}, "matches": [1, "b"]}, {"message": {}, "excludes": []}]
    file.write_text("\n\n".join(map(json.dumps, rows)))
    first, second = read_cases(file).cases
    assert (first.message, first.matches) == ({"n": 1}, (1, "b"))
    assert (second.matches, second.excludes) == (None, ())


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("t.jsonl", "{", "line 1"),
        ("t.jsonl", '\n{"matches": []}', "line 2: there is no message"),
        ("t.jsonl", '{"message": {}}', "say what must match"),
        ("t.jsonl", '{"message": {}, "match": []}', "unknown 'match'"),
        ("t.jsonl", '{"message": {}, "matches": [true]}', "a list of ids"),
        ("t.toml", "x = ", "Invalid value"),
        ("t.toml", "tests = []", "unknown 'tests'"),
        ("t.toml", "test = 1", "[[test]]"),
        ("t.toml", "subscriptions = 1", "name of a file"),
    ],
)
def test_what_is_wrong_with_a_file_of_tests_is_told(
    tmp_path: Path, name: str, text: str, part: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_cases(file)
    assert part in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_cases(tmp_path / "none.toml")


def test_one_subscription_is_not_called_subscriptions(tmp_path: Path, capsys) -> None:
    for name, bound in (("old", 70), ("new", 50)):
        (tmp_path / f"{name}.csv").write_text(f"id,selector\ncheap,price < {bound}\n")
    (tmp_path / "rows.jsonl").write_text('{"price": 60}\n')
    diff(*(str(tmp_path / name) for name in ("old.csv", "new.csv", "rows.jsonl")))
    told = capsys.readouterr().out.splitlines()
    assert told[1:4] == [
        "0 subscriptions added, 0 removed",
        "lost messages: 1 subscription",
        "  cheap: 1",
    ]
