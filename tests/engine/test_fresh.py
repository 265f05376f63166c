"""Subscriptions that were just added: compiled by whoever reads first, and only once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from tests import strategies

from tamis import Matcher, Schema
from tamis.diagram.questions import Pool
from tamis.engine.ground.sources import Source
from tamis.engine.live import generation
from tamis.engine.live.merging import SEALED
from tamis.engine.reading.templates import Templates
from tamis.language import canonical, parse
from tamis.reasoning.covers import always_true, satisfiable

SCHEMA = Schema.of({"n": int, "s": str})
MESSAGE = {"n": 5, "s": "b"}


class Counting:
    """Compiling that counts, and fails as long as `broken` holds."""

    def __init__(self, matcher: Matcher) -> None:
        folding = matcher._contents.merging
        self.compile, self.sizes, self.broken = folding._compile, [], False
        folding._compile = folding._compile_fresh = self

    def __call__(self, source: Source) -> object:
        if self.broken:
            raise MemoryError("no room")
        self.sizes.append(len(source))
        return self.compile(source)


def test_writers_do_not_compile_a_few_and_readers_do_it_once() -> None:
    matcher = Matcher(SCHEMA)
    compiled = Counting(matcher)
    for i in range(SEALED):
        matcher.add(i, f"n > {i}")
    assert compiled.sizes == []
    assert matcher.match(MESSAGE) == [0, 1, 2, 3, 4]
    assert matcher.count_batch(pa.table({"n": [5, 0], "s": ["b", "b"]})).tolist() == [5, 0]
    assert compiled.sizes == [SEALED]
    matcher.add("more", "n > 1")
    assert matcher.match(MESSAGE) == [0, 1, 2, 3, 4, "more"]
    assert compiled.sizes == [SEALED, 1]


def test_a_long_selector_is_compiled_by_its_writer() -> None:
    matcher = Matcher(SCHEMA)
    compiled = Counting(matcher)
    matcher.add("short", "n = 5")
    matcher.add("long", "s IN (" + ", ".join(f"'{i:08}'" for i in range(3_000)) + ") OR n = 5")
    assert compiled.sizes == [1]
    assert matcher.match(MESSAGE) == ["short", "long"]
    ids, _ = matcher.bitmap_batch(pa.table({"n": [5], "s": ["b"]}))
    assert ids == ["short", "long"]


def test_a_reader_that_fails_spoils_nothing() -> None:
    matcher = Matcher(SCHEMA)
    compiled = Counting(matcher)
    matcher.add("it", "n = 5")
    compiled.broken = True
    with pytest.raises(MemoryError):
        matcher.match(MESSAGE)
    compiled.broken = False
    assert matcher.match(MESSAGE) == ["it"]


def test_removing_and_replacing_what_nobody_has_read() -> None:
    matcher = Matcher(SCHEMA)
    for name in "abcd":
        matcher.add(name, "n = 5 AND s IN ('a', 'b')")
    matcher.remove("b")
    matcher.replace("a", "n = 5")
    matcher.replace("d", "n = 6")
    assert matcher.match(MESSAGE) == ["c", "a"]
    for name in "acd":
        matcher.remove(name)
    assert matcher.match(MESSAGE) == []
    matcher.add("a", "n = 5")
    assert matcher.match(MESSAGE) == ["a"]


def test_what_nobody_has_read_is_saved(tmp_path: Path) -> None:
    matcher = Matcher(SCHEMA)
    matcher.add("it", "s IN ('a', 'b') AND n > 1")
    matcher.save(tmp_path / "s")
    assert Matcher.load(tmp_path / "s").match(MESSAGE) == ["it"]


def test_readers_and_writers_number_constants_at_once() -> None:
    """Compiling numbers the constants of an IN: here in many threads, while others are added."""
    matcher, rounds = Matcher(SCHEMA), 150
    errors: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                matcher.match(MESSAGE)
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(rounds):
        matcher.add(i, f"s IN ('x{i}', 'y{i}') OR s = 'z{i}'")
    done.set()
    for reader in readers:
        reader.join()
    assert not errors
    for i in range(0, rounds, 7):
        for letter in "xyz":
            assert matcher.match({"s": f"{letter}{i}"}) == [i]


def test_a_pool_gives_no_number_twice() -> None:
    pool, given = Pool(), []
    start = threading.Barrier(4)

    def number() -> None:
        start.wait()
        given.append([pool.number(1, i) for i in range(2_000)])

    threads = [threading.Thread(target=number) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given.count(given[0]) == 4
    assert [pool.values[n] for n in given[0]] == list(range(2_000))


def test_compiling_looks_at_its_own_templates_only() -> None:
    matcher = Matcher(SCHEMA)
    matcher.add_many((i, " OR ".join(["n = 1"] * (i + 1))) for i in range(100))
    templates: Templates = matcher._contents.intake.templates
    last = matcher._contents.intake.read("n = 1 AND s = 'b'")[0]
    source = matcher._contents.merging.state.parts[0].segment.source
    assert len(templates.used(source.template).items) == len(templates.items) - 1
    assert templates.used(source.template[:0]).items == []
    assert [t.packed for t in templates.used([last]).items] == [templates.items[last].packed]


@given(strategies.conditions())
def test_contingent_conditions_need_no_notice(condition) -> None:
    """A template that is said to hold sometimes, whatever its constants, does."""
    matcher = Matcher()
    template, _ = matcher._contents.intake.read(canonical(condition))
    if matcher._contents.intake.templates.items[template].contingent:
        assert satisfiable(condition)
        assert not always_true(condition)


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("n > 5 AND n < 3", "unsatisfiable"),
        ("n > 5 AND s = 'a' AND n < 3", "unsatisfiable"),
        ("n IS NULL OR n IS NOT NULL", "always true"),
        ("n > 5 AND s = 'a'", None),
        ("n = 5 OR n <> 5", None),  # not where n is undefined
    ],
)
@pytest.mark.parametrize("engine", ["diagram", "implication"])
def test_notices(selector: str, said: str | None, engine) -> None:
    assert parse(selector)
    matcher = Matcher(SCHEMA, engine=engine)
    assert matcher.add("it", selector) == said
    assert matcher.add("again", selector) == said


@pytest.mark.parametrize("more", [1, 40])
def test_one_that_cannot_be_compiled_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, more: int
) -> None:
    """A fault is planted: whatever holds slot 1 fails while the condition of its own is there."""
    matcher = Matcher()
    working = generation.compile_segment

    def failing(vocabulary: Any, templates: Any, source: Any) -> Any:
        keys = dict(zip(source.slot.tolist(), np.diff(source.offsets).tolist(), strict=True))
        if keys.get(1):
            raise IndexError("planted")
        return working(vocabulary, templates, source)

    monkeypatch.setattr(generation, "compile_segment", failing)
    matcher.add("before", "price > 1")
    matcher.add("bad", "price > 2")
    for i in range(more):
        matcher.add(i, "price > 3")
    assert matcher.match({"price": 10}) == ["before", *range(more)]
    assert "subscription 'bad' cannot be compiled" in caplog.text
    matcher.settle()
    assert matcher.match_batch([{"price": 10}]).to_pylist() == [["before", *range(more)]]
    assert matcher.report().unsatisfiable == ("bad",)
    matcher.save(tmp_path / "saved")
    loaded = Matcher.load(tmp_path / "saved")
    assert loaded.match({"price": 10}) == ["before", *range(more)]
    assert ("bad", "price > 2") in loaded.items()
    matcher.remove("bad")
    matcher.add("after", "price > 4")
    assert matcher.match({"price": 10}) == ["before", *range(more), "after"]


def test_what_the_writer_compiles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher()
    matcher.add("before", "price > 1")

    def failing(*_: Any) -> Any:
        raise IndexError("planted")

    with monkeypatch.context() as planted:
        planted.setattr(generation, "compile_segment", failing)
        with pytest.raises(IndexError):
            matcher.add_many((i, "price > 2") for i in range(100))
    assert list(matcher) == matcher.match({"price": 10}) == ["before"]
