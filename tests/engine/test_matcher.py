"""The matcher's public face: what it refuses, and that every name is documented."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tamis import Matcher, Schema, SelectorError, SubscriptionError
from tamis.engine.ground.kernel_output import sort_rows

PAGE = Path(__file__).parents[2] / "docs" / "matcher.md"


def test_every_public_name_is_documented() -> None:
    text = PAGE.read_text()
    names = [name for name in vars(Matcher) if not name.startswith("_")]
    assert [name for name in names if f"`{name}" not in text and f".{name}(" not in text] == []


def test_arrow_columns_can_be_added() -> None:
    matcher = Matcher()
    table = pa.table({"id": [7, 9], "selector": ["a > 1", "a > 5"]})
    assert matcher.add_many(table) == 2
    assert matcher.match({"a": 3}) == [7]
    with pytest.raises(SubscriptionError, match="column 'selector'"):
        matcher.add_many(pa.table({"id": [1]}))


def test_a_bad_subscription_changes_nothing() -> None:
    matcher = Matcher(Schema.of(a=int))
    matcher.add("x", "a > 1")
    with pytest.raises(SelectorError):
        matcher.add_many([("y", "a > 2"), ("z", "a >")])
    with pytest.raises(SubscriptionError):
        matcher.add("x", "a > 2")
    with pytest.raises(SubscriptionError):
        matcher.remove("y")
    with pytest.raises(SubscriptionError):
        matcher.add(True, "a > 2")
    assert list(matcher) == ["x"]
    assert matcher.match({"a": 3}) == ["x"]


def test_bad_subscriptions_can_be_reported_and_the_others_added() -> None:
    told = []
    matcher = Matcher()
    added = matcher.add_many(
        [("a", "x = 1"), ("b", "x ="), ("a", "x = 2")],
        lambda id, text, error: told.append((id, text)),
    )
    assert added == 1
    assert told == [("b", "x ="), ("a", "x = 2")]
    assert matcher.match({"x": 1}) == ["a"]


def test_mixed_ids_come_back_as_given(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add(1, "x = 1")
    matcher.add("one", "x = 1")
    matcher.save(tmp_path / "mixed")
    table = pa.table({"x": [1, 2, 1]})
    for known in (matcher, Matcher.load(tmp_path / "mixed")):
        assert known.match({"x": 1}) == [1, "one"]
        assert known.match_many([{"x": 1}]).to_pylist() == [[1, "one"]]
        assert known.match_batch(table).to_pylist() == [[1, "one"], [], [1, "one"]]
        assert known.match_batch(table).ids.to_pylist() == ["1", "one", "1", "one"]


@pytest.mark.parametrize(("first", "second"), [(1, "1"), ("1", 1), (-7, "-7"), ("0", 0)])
def test_ids_that_look_the_same_are_refused(first: str | int, second: str | int) -> None:
    matcher = Matcher()
    matcher.add(first, "x = 1")
    for change in (matcher.add, matcher.replace):
        with pytest.raises(SubscriptionError, match="would look the same"):
            change(second, "x = 1")
    with pytest.raises(SubscriptionError, match="would look the same"):
        matcher.add_many([("a", "x = 1"), (second, "x = 1")])
    assert list(matcher) == [first]
    matcher.remove(first)
    matcher.add(second, "x = 1")
    assert matcher.match_many([{"x": 1}]).to_pylist() == [[second]]


def test_ids_that_only_look_alike_are_two() -> None:
    matcher = Matcher()
    ids = [1, "01", "+1", "1.0", " 1", "-0", 0, "9223372036854775808", "\u0661", "1_0", 10]
    matcher.add_many((id, "x = 1") for id in ids)
    assert matcher.match({"x": 1}) == ids
    assert matcher.match_many([{"x": 1}]).to_pylist() == [ids]


def test_an_id_that_no_output_can_hold_is_refused() -> None:
    matcher = Matcher()
    with pytest.raises(SubscriptionError, match="surrogate"):
        matcher.add("\ud800", "x = 1")
    assert matcher.match_many([{"x": 1}]).to_pylist() == [[]]


def test_a_nested_message_by_its_own_name_is_defined_and_unlike_everything() -> None:
    rows = [{"a": {"b": {"c": 1}}}, {"a": {"b": None}}, {"a": None}]
    selectors = ["a IS NULL", "a.b IS NULL", "a.b.c IS NULL", "a = 1", "NOT a = 1", "NOT a.b = 'x'"]
    wanted = [[4, 5], [1, 2, 4], [0, 1, 2]]
    matcher = Matcher()
    matcher.add_many(enumerate(selectors))
    assert [matcher.match(row) for row in rows] == wanted
    assert matcher.match_many(rows).to_pylist() == wanted
    assert matcher.match_batch(pa.table({"a": [row["a"] for row in rows]})).to_pylist() == wanted


def test_an_empty_matcher_and_an_empty_table() -> None:
    matcher = Matcher()
    assert matcher.match({"x": 1}) == []
    assert matcher.match_batch(pa.table({"x": [1, 2]})).to_pylist() == [[], []]
    matcher.add("a", "x = 1")
    assert matcher.match_batch(pa.table({"x": pa.array([], pa.int64())})).to_pylist() == []
    assert matcher.match_batch(pa.table({"y": [1]})).to_pylist() == [[]]


@pytest.mark.parametrize("most", [1, 255, 256, 70_000, 1 << 24, (1 << 31) - 1])
def test_rows_of_any_length_are_sorted_and_distinct(most: int) -> None:
    rng = np.random.default_rng(most)
    sizes = [0, 1, 2, 3, 24, 25, 256, 257, 1000, 3000, 5, 0]
    offsets = np.cumsum([0, *sizes]).astype(np.int64)
    out = rng.integers(0, most, int(offsets[-1]), endpoint=True).astype(np.int32)
    wanted = [np.unique(row) for row in np.split(out, offsets[1:-1])]
    out = sort_rows(offsets, out)
    assert np.array_equal(out, np.concatenate(wanted))
    assert offsets.tolist() == [0, *np.cumsum([len(row) for row in wanted]).tolist()]


def test_a_third_element_of_a_pair_is_refused():
    with pytest.raises(SubscriptionError, match="subscription 1 is a tuple of 3"):
        Matcher().add_many([("a", "n > 1"), ("b", "n > 2", "bob")])
