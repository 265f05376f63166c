"""Matchers that are changed without end: what is dead does not stay."""

from __future__ import annotations

import logging
import threading

import pyarrow as pa
import pytest

from tamis import Matcher, Schema

pytestmark = pytest.mark.slow

SCHEMA = Schema.of({"n": int, "s": str})
TABLE = pa.table({"n": [0, 1, 2, 3], "s": ["a", "b", "c", "d"]})


@pytest.fixture(params=["diagram", "implication"])
def matcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Matcher:
    monkeypatch.setattr("tamis.engine.live.generation.SURPLUS", 50)
    monkeypatch.setattr("tamis.engine.live.merging._QUIET", 0.001)
    return Matcher(SCHEMA, engine=request.param)


def churn(matcher: Matcher, rounds: int, alive: int = 20) -> None:
    """Ever new selectors, constants and shapes, for a few ids."""
    for i in range(rounds):
        shape = " OR ".join(["n = -1"] * (i % 7 + 1))
        matcher.replace(i % alive, f"s = 'never {i}' OR n = {i % 4} OR {shape}")


def test_slots_constants_and_templates_stay_few(matcher: Matcher) -> None:
    for _ in range(8):
        churn(matcher, 200)
        matcher.settle()
        inside = matcher._contents
        assert len(inside.ids) == len(inside.texts) <= 20 + 2 * 50
        assert len(inside.intake.vocabulary.pool.values) < 400
    assert sorted(matcher) == list(range(20))
    assert list(map(sorted, matcher.match_batch(TABLE).to_pylist())) == [
        [i for i in range(20) if i % 4 == n] for n in range(4)
    ]


def test_the_order_of_adding_and_the_ids_as_given_survive(matcher: Matcher) -> None:
    for i in range(0, 40, 2):
        matcher.add(i, "n >= 0")
        matcher.add(f"text {i}", "n >= 0")
    before = list(matcher)
    old = matcher._contents
    while matcher._contents is old:
        matcher.add("brief", "n = 1")
        matcher.remove("brief")
    assert list(matcher) == before
    assert matcher.match({"n": 1}) == before
    assert matcher.match_batch(TABLE).to_pylist() == [before] * 4
    assert matcher.explain("text 2", {"n": 1}).matches


def test_changes_during_a_renewal_are_not_lost(matcher: Matcher) -> None:
    """Several threads change and read, each with ids of its own; contents come and go."""
    errors: list[BaseException] = []
    seen: set[int] = set()

    def change(worker: int) -> None:
        try:
            for i in range(150):
                matcher.replace(f"{worker}", f"n = {i % 4} OR s = 'w{worker} {i}'")
                matcher.add(f"{worker} brief", "n = 1")
                matcher.remove(f"{worker} brief")
                assert f"{worker}" in matcher.match({"n": i % 4})
                seen.add(id(matcher._contents))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=change, args=(w,)) for w in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    matcher.settle()
    assert not errors
    assert len(seen) > 1
    assert sorted(matcher) == ["0", "1", "2", "3"]
    assert sorted(matcher.match({"n": 149 % 4})) == ["0", "1", "2", "3"]
    assert matcher.match({"n": 0}) == []


def test_a_result_names_what_it_was_asked_of(matcher: Matcher) -> None:
    """A reader that began before a renewal keeps the old contents to its end."""
    churn(matcher, 60)
    found = matcher.match_batch(TABLE)
    before = found.to_pylist()
    churn(matcher, 400)
    matcher.settle()
    assert found.to_pylist() == before


def test_a_failure_is_told_and_tried_again(
    matcher: Matcher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING, "tamis"):
        broken.setattr(matcher, "_empty", fail)
        churn(matcher, 300)
        with pytest.raises(MemoryError, match="no room"):
            matcher.settle()
    assert "compacting failed" in caplog.text
    assert len(matcher._contents.ids) == 300
    churn(matcher, 1)
    matcher.settle()
    assert len(matcher._contents.ids) < 100
