"""What callers do by mistake: an error of ours that says what to do, and nothing is lost."""

from __future__ import annotations

import copy
import os
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.snapshots import answers, small
from strategies import LOOKUPS
from tamis import (
    InputError,
    Matcher,
    MessageError,
    Schema,
    SchemaError,
    SnapshotError,
    SubscriptionError,
    TamisError,
)

HUGE = 10**5000  # Python refuses to print it


@pytest.fixture
def matcher() -> Matcher:
    made = Matcher()
    made.add("s", "x = 5")
    made.add(1, "x = 1")
    return made


# --- add_many -------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=8))
def test_an_iterable_may_add_to_the_same_matcher(steps: list[tuple[str, bool]]):
    """Whatever it adds meanwhile, no id is there twice, and each id can be removed."""
    matcher = Matcher()
    refused: list[Any] = []

    def feed():
        for id, first in steps:
            if first and id not in matcher:
                matcher.add(id, "x = 2")
            yield id, "x = 1"

    matcher.add_many(feed(), lambda id, selector, error: refused.append(id))
    ids = list(matcher)
    assert len(ids) == len(set(ids)) == len(matcher)
    assert set(ids) == {id for id, _ in steps}
    assert sorted(matcher.match({"x": 1}) + matcher.match({"x": 2})) == sorted(ids)
    for id in ids:
        matcher.remove(id)
    assert len(matcher) == 0
    assert matcher.match({"x": 1}) == matcher.match({"x": 2}) == []


def test_add_many_that_meets_its_own_id_adds_none():
    matcher = Matcher()

    def feed():
        yield "b", "x = 1"
        yield "a", "x = 1"
        matcher.add("a", "x = 2")

    with pytest.raises(SubscriptionError, match="already"):
        matcher.add_many(feed())
    assert list(matcher) == ["a"]
    assert matcher.match({"x": 1}) == []


NONSENSE: list[Any] = [
    *("ab", b"ab", 5, {"a": "x > 1"}, ["ab", "cd"], [5], [None], [("a", "b", "c", "d")]),
    *([{"id": 1}], [{"id": 1, "Selector": "x"}]),
]


@pytest.mark.parametrize("given", NONSENSE)
def test_nonsense_is_not_added(matcher: Matcher, given: Any):
    with pytest.raises(SubscriptionError, match="give pairs"):
        matcher.add_many(given)
    assert list(matcher) == ["s", 1]


def test_mappings_and_lists_are_subscriptions(matcher: Matcher):
    more = [{"id": "a", "selector": "x = 5", "owner": "me"}, ["b", "x = 5"], ("c", "x = 6")]
    assert matcher.add_many(more) == 3
    assert matcher.match({"x": 5}) == ["s", "a", "b"]


# --- ids ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown", ["HUGE", "-HUGE", "True", "None", "1.0", "[1]", "{}", "b's'", "'s',"]
)
def test_what_is_no_id_is_refused_everywhere(matcher: Matcher, shown: str):
    id: Any = eval(shown)
    for call in (
        lambda: matcher.add(id, "x = 1"),
        lambda: matcher.replace(id, "x = 1"),
        lambda: matcher.remove(id),
        lambda: matcher.explain(id, {}),
        lambda: matcher.covers(id, id),
        lambda: matcher.example(id),
        lambda: matcher.add_many([(id, "x = 1")]),
    ):
        with pytest.raises(SubscriptionError):
            call()
    assert id not in matcher
    assert list(matcher) == ["s", 1]


# --- messages and tables ----------------------------------------------------------


@pytest.mark.parametrize("message", [[("x", 5)], "x", 5, None, [{"x": 5}], (1,)])
def test_what_is_no_message_is_refused(matcher: Matcher, message: Any):
    for call in (
        lambda: matcher.match(message),
        lambda: list(matcher.match_each(message)),
        lambda: matcher.match_many([message]),
        lambda: matcher.explain("s", message),
    ):
        with pytest.raises(MessageError, match="a message is a mapping"):
            call()


@pytest.mark.parametrize("table", [{"x": 5}, "x", 5, None, [5], b"x"])
def test_what_is_no_table_is_refused(matcher: Matcher, table: Any):
    for call in (matcher.match_batch, matcher.count_batch, matcher.bitmap_batch):
        with pytest.raises(TamisError):
            call(table)


def test_messages_may_come_one_by_one(matcher: Matcher):
    assert matcher.match_many({"x": x} for x in (5, 6)).to_pylist() == [["s"], []]
    assert matcher.match_batch({"x": x} for x in (5, 6)).to_pylist() == [["s"], []]
    assert matcher.count_batch([{"x": 5}, {}]).tolist() == [1, 0]


@pytest.mark.parametrize("form", [pa.table, pa.record_batch])
def test_a_column_that_is_there_twice_is_refused_if_it_is_asked_for(matcher: Matcher, form: Any):
    five = pa.array([5])
    with pytest.raises(InputError, match="two columns 'x'"):
        matcher.match_batch(form([five, five], names=["x", "x"]))
    found = matcher.match_batch(form([five, five, five], names=["y", "y", "x"]))
    assert found.to_pylist() == [["s"]]


@pytest.mark.parametrize("threads", [None, "2", 1.5])
def test_threads_are_a_number(matcher: Matcher, threads: Any):
    for call in (matcher.match_batch, matcher.count_batch):
        with pytest.raises(TamisError, match="threads"):
            call(pa.table({"x": [5]}), threads=threads)


def test_integers_of_thousands_of_digits_are_refused():
    matcher = Matcher(Schema.of(x=float, n=int))
    matcher.add(1, "x > 1 AND n > 1")
    for message in ({"x": HUGE}, {"x": 1.0, "n": HUGE}):
        with pytest.raises(MessageError, match="does not fit into 64 bits"):
            matcher.match(message)
    for kind in (int, float):
        with pytest.raises(SchemaError, match="does not fit into 64 bits"):
            Schema.of(x=(kind, HUGE))


# --- pickles and copies -----------------------------------------------------------


def doubled(x: Any) -> Any:
    return x * 2 if isinstance(x, int | float) else None


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
@pytest.mark.parametrize("engine", ["diagram", "implication"])
def test_copies_are_the_snapshot(copied: Any, engine: Any):
    first = Matcher(Schema.of(x=int), semantics="default", engine=engine, lookups={"d": doubled})
    first.add_many((i, f"d(x) = {2 * i} OR x > {i}") for i in range(50))
    first.remove(7)
    second = copied(first)
    assert list(second) == list(first)
    assert second.schema == first.schema
    assert second.semantics == "default"
    for x in (0, 7, 25, 49):
        assert second.match({"x": x}) == first.match({"x": x})
    second.add("new", "x = 1")  # and each goes its own way
    first.remove(8)
    assert "new" not in first
    assert 8 in second
    assert second.match({"x": 1}) == [0, 1, "new"]
    assert second.match_batch(pa.table({"x": np.arange(3)})).to_pylist()[1] == [0, 1, "new"]


def test_a_pickle_answers_as_the_matcher():
    assert answers(pickle.loads(pickle.dumps(small()))) == answers(small())


def test_a_lookup_that_cannot_be_pickled_is_named():
    matcher = Matcher(lookups={"twice": lambda x: x * 2, "NYSEdb": LOOKUPS["NYSEdb"]})
    matcher.add(1, "twice(x) > 2")
    with pytest.raises(SnapshotError, match="the lookup twice cannot be pickled"):
        pickle.dumps(matcher)
    assert copy.copy(matcher).match({"x": 2}) == [1]  # the same lookups, in the same process


def test_damaged_pickles_are_noticed():
    data = pickle.dumps(small())
    at = data.index(b"TAMIS") + 300
    damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    with pytest.raises(SnapshotError, match="a pickled matcher"):
        pickle.loads(damaged)


def test_other_processes_get_the_matcher(tmp_path):
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, pickle.dumps(small()))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        found = pickle.load(stream)
    os.waitpid(child, 0)
    assert answers(found) == answers(small())
