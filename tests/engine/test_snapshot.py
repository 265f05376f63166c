"""A saved matcher comes back as it was, in this process and in others."""

from __future__ import annotations

import datetime
import doctest
import json
import math
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import oracle
import strategies as st
from engine.snapshots import MESSAGES, again, answers, small
from tamis import Limits, Matcher, MessageError, SelectorError, SnapshotError
from tamis.language import canonical
from tamis.logic import SEMANTICS, Semantics
from tamis.messages.texts import from_value
from tamis.messages.typed_tables import to_batch
from tamis.schema import INT_MAX, INT_MIN, Attribute, Schema, Type

ROUNDS = int(os.environ.get("TAMIS_ROUNDS", "2"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.tamis"


def expected(selectors: dict, message: dict, semantics: Semantics, schema: Schema | None) -> list:
    return [
        id
        for id, condition in selectors.items()
        if oracle.matches(condition, message, semantics, schema, st.LOOKUPS)
    ]


def good_messages(rng, schema, semantics, count) -> list[dict]:
    found: list[dict] = []
    while len(found) < count:
        message = st.random_message(rng, schema, total=semantics == "total")
        try:
            oracle.matches(st.tree.Constant(True), message, semantics, schema, st.LOOKUPS)
            found.append(message)
        except MessageError:
            continue
    return found


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("typed", [False, True])
def test_loaded_matcher_agrees_with_the_oracle(semantics: Semantics, typed: bool, path: Path):
    rng = random.Random(f"snapshot {semantics} {typed}")
    for _ in range(ROUNDS):
        schema = st.random_schema(rng) if typed or semantics == "total" else None
        matcher = Matcher(schema, semantics=semantics, lookups=st.LOOKUPS)
        selectors = {}

        def add(to: Matcher, id: str, schema=schema, selectors=selectors) -> None:
            selectors[id] = st.random_condition(rng, schema, lookups=tuple(st.LOOKUPS))
            to.add(id, canonical(selectors[id]))

        for i in range(50):
            add(matcher, f"i{i}")
        for i in range(0, 50, 9):
            matcher.remove(f"i{i}")
            del selectors[f"i{i}"]
        messages = good_messages(rng, schema, semantics, 80)
        loaded = again(matcher, path)
        for step in range(2):
            wanted = [expected(selectors, m, semantics, schema) for m in messages]
            assert len(loaded) == len(selectors)
            assert list(loaded) == list(selectors)
            assert loaded.match_many(messages).to_pylist() == wanted
            assert [loaded.match(m) for m in messages[:5]] == wanted[:5]
            if schema is not None:
                batch, _ = to_batch(messages, schema, list(schema), from_value)
                assert loaded.match_batch(batch, threads=2).to_pylist() == wanted
            # go on: replace, remove, add; and once more through a file
            if step == 0:
                selectors["i1"] = selectors.pop("i1")
                loaded.replace("i1", canonical(selectors["i1"]))
                loaded.remove("i2")
                del selectors["i2"]
                add(loaded, "new")
                loaded = again(loaded, path)


def test_saving_again_gives_the_same_bytes(path: Path):
    matcher = small()
    matcher.settle()
    loaded = again(matcher, path)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first


def test_empty_matcher(path: Path):
    loaded = again(Matcher(), path)
    assert len(loaded) == 0
    assert loaded.match({"a": 1}) == []
    assert loaded.match_many([{"a": 1}] * 100).to_pylist() == [[]] * 100
    loaded.add("a", "a = 1")
    assert again(loaded, path).match({"a": 1}) == ["a"]


def test_matcher_whose_subscriptions_are_all_removed(path: Path):
    matcher = Matcher()
    matcher.add("a", "a = 1")
    matcher.remove("a")
    loaded = again(matcher, path)
    assert len(loaded) == 0
    assert loaded.match({"a": 1}) == []
    loaded.add("a", "a = 1")
    assert loaded.match({"a": 1}) == ["a"]


@pytest.mark.parametrize(
    "ids",
    [
        ["é", "𝒳\n", "", "a'b", " "],
        [0, -1, INT_MAX, INT_MIN],
        [7, "8", "x", -7],
    ],
)
def test_ids_come_back_as_they_were(ids: list, path: Path):
    matcher = Matcher()
    matcher.add_many((id, "a > 0") for id in ids)
    loaded = again(matcher, path)
    assert list(loaded) == ids
    assert loaded.match({"a": 1}) == ids
    assert all(id in loaded for id in ids)
    assert "y" not in loaded
    names = matcher.match_many([{"a": 1}]).ids
    assert loaded.match_many([{"a": 1}]).ids.equals(names)
    loaded.add("y", "a > 0")
    assert loaded.match({"a": 1}) == [*ids, "y"]
    assert again(loaded, path).match({"a": 1}) == [*ids, "y"]


def test_constants_of_every_kind(path: Path):
    selectors = [
        "x < 1e300",  # an integer of 301 digits
        "x > -1.7e308",
        "x >= 0.1",
        "x IN (1, 2.5, 9007199254740993, 1e300, -1e19)",
        "x IN ('a', 'é', '')",
        "x IN (TRUE, FALSE)",
        "x IN (TIMESTAMP '2000-02-01', TIMESTAMP '1969-12-31')",
        "x <= 9223372036854775807",
        "x CONTAINS 'é' OR x MATCHES 'a+' OR x LIKE '_b' OR x WITHIN 'abc'",
        "x > y",
        "x CONTAINS y",
    ]
    matcher = Matcher()
    matcher.add_many(enumerate(selectors))
    loaded = again(matcher, path)
    day = datetime.datetime(2000, 2, 1, tzinfo=datetime.UTC)
    values = [1, 2.5, 2**53 + 1, 1e300, -1e19, math.inf, -math.inf, "a", "é", "", "ab", True, day]
    hits = 0
    for x in values:
        for y in (0, "b", 1e301, None):
            assert loaded.match({"x": x, "y": y}) == matcher.match({"x": x, "y": y})
            hits += len(loaded.match({"x": x, "y": y}))
    assert hits > 100


def test_lists_share_their_constants(path: Path):
    """In memory, in a file and when loaded, a list of texts is the numbers of these texts."""
    texts = [f"a text of some length {i}" for i in range(50)]
    matcher = Matcher()
    for i in range(40):
        chosen = ", ".join(map(repr, texts[i : i + 10]))
        matcher.add(i, f"x IN ({chosen}) OR y IN ({i}.5, {i + 1}.5, {i + 2})")
    loaded = again(matcher, path)
    for own in (matcher, loaded):
        pool = own._contents.intake.vocabulary.pool
        lists = [i for i, value in enumerate(pool.values) if isinstance(value, bytes)]
        assert len(lists) == 80
        known = {id(value) for value in pool.values}
        assert all(id(item) in known for i in lists for item in pool.listed(i))
        assert own.match({"x": texts[10], "y": 3.5}) == [*range(1, 11)]
        before = len(pool.values)
        own.add("same", "y IN (0.5, 1.5, 2) OR x IN (" + ", ".join(map(repr, texts[:10])) + ")")
        assert own.match({"x": texts[9]}) == [*range(10), "same"]
        assert len(pool.values) == before  # an equal list is the same list


def test_settings_come_back(path: Path):
    zone = datetime.timezone(datetime.timedelta(hours=2))
    schema = Schema(
        (
            Attribute("odd name", Type.DOUBLE, -math.inf),
            Attribute("b", Type.DOUBLE, 0.1),
            Attribute("i", Type.INT, INT_MIN),
            Attribute("s", Type.STRING, "é'"),
            Attribute("t", Type.TIMESTAMP, datetime.datetime(2000, 1, 1, tzinfo=zone)),
            Attribute("f", Type.BOOL, False),
            Attribute("none", Type.STRING),
        )
    )
    limits = Limits(length=50, items=3)
    matcher = Matcher(schema, semantics="default", limits=limits)
    matcher.add("a", "s = 'é''' AND i < 0")
    loaded = again(matcher, path)
    assert (loaded.schema, loaded.semantics, loaded.limits) == (schema, "default", limits)
    assert loaded.match({}) == ["a"]
    with pytest.raises(SelectorError):
        loaded.add("b", "i IN (1, 2, 3, 4)")


def test_dialect_comes_back(path: Path):
    matcher = Matcher(dialect="jms")
    matcher.add("a", "x / 2 = 3")
    loaded = again(matcher, path)
    assert loaded.match({"x": 7}) == matcher.match({"x": 7}) == ["a"]
    with pytest.raises(SelectorError):
        loaded.add("b", "x CONTAINS 'a'")


def test_explanation_after_loading(path: Path):
    matcher = small()
    loaded = again(matcher, path)
    for id in ("ü", 7, "s1"):
        assert loaded.explain(id, MESSAGES[1]) == matcher.explain(id, MESSAGES[1])


def test_selectors_of_removed_subscriptions_are_not_saved(path: Path):
    matcher = Matcher()
    matcher.add("a", "secret = 1")
    matcher.add("b", "open = 'removed but still compiled'")
    matcher.remove("a")
    matcher.save(path)
    assert b"secret = 1" not in path.read_bytes()


def test_lookups_must_be_given(path: Path):
    matcher = Matcher(lookups=st.LOOKUPS)
    matcher.add("a", "NYSEdb(issue) = 'IBM' AND scaled(x) > 2")
    matcher.save(path)
    with pytest.raises(SnapshotError, match="'NYSEdb', 'scaled'") as caught:
        Matcher.load(path)
    assert "lookups=" in caught.value.hint
    loaded = Matcher.load(path, lookups=st.LOOKUPS)
    assert loaded.match({"issue": "a", "x": 2}) == ["a"]


def test_saving_while_others_write(path: Path):
    matcher = Matcher()
    stop = threading.Event()

    def write() -> None:
        for i in range(100_000):
            if stop.is_set():
                return
            matcher.add(i, f"a >= {i % 7} OR b = 'x{i % 50}'")
            if i % 3 == 0:
                matcher.remove(i)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        sizes = []
        for _ in range(6):
            loaded = again(matcher, path)
            sizes.append(len(loaded))
            assert loaded.match({"a": 6}) == list(loaded)
    finally:
        stop.set()
        writer.join()
    assert sizes[-1] > sizes[0]


def test_the_page_on_snapshots_is_true(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "snapshots.md"
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.attempted > 10
    assert result.failed == 0


def test_loaded_matcher_outlives_its_file(path: Path):
    matcher = small()
    loaded = again(matcher, path)
    Matcher().save(path)
    assert answers(loaded) == answers(matcher)
    path.unlink()
    assert answers(loaded) == answers(matcher)
    assert (
        loaded.match_many(MESSAGES * 30).to_pylist()
        == matcher.match_many(MESSAGES * 30).to_pylist()
    )


# --- processes ---------------------------------------------------------------

_OTHER = """
import json, re, sys
from pathlib import Path
from tamis import Matcher

matcher = Matcher.load(sys.argv[1])
found = matcher.match_many(json.loads(sys.argv[2])).to_pylist()
mapped = re.split(r"^(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
own = [part for part in mapped if sys.argv[1] in part]
dirty = [int(kb) for part in own for kb in re.findall(r"Private_Dirty: +(\\d+)", part)]
print(json.dumps([found, len(own), sum(dirty)]))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_another_process_maps_the_same_pages(path: Path):
    matcher = small()
    matcher.save(path)
    messages = [m for m in MESSAGES if math.inf not in m.values()] * 30
    given = [sys.executable, "-c", _OTHER, str(path), json.dumps(messages)]
    done = subprocess.run(given, capture_output=True, text=True, check=True)
    found, mappings, dirty = json.loads(done.stdout)
    assert found == [matcher.match(m) for m in messages]
    assert mappings == 1
    assert dirty == 0  # no page was copied: all of them are shared
