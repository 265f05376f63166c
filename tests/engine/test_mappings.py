"""Batches of mappings: whatever keys and types they have, a batch says what single messages say."""

from __future__ import annotations

import datetime
from collections import ChainMap, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from tamis import Matcher, MessageError, Schema
from tamis.language import parse
from tamis.messages import lookup


class Caseless(Mapping[str, Any]):
    """Its `get` finds more than its keys say."""

    def __init__(self, held: dict[str, Any]) -> None:
        self._held = {key.lower(): value for key, value in held.items()}

    def __getitem__(self, key: str) -> Any:
        return self._held[key.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class Text(str):
    __slots__ = ()


NOW = datetime.datetime(2000, 2, 1, tzinfo=datetime.UTC)
SCALARS = (
    *(None, 1, 0, -1, 2**63 - 1, -(2**63), 1.5, 1.0, -0.0, float("nan"), float("inf"), True, False),
    *("", "a", "ab", "é", "𝒳a", Text("ab"), NOW, NOW.replace(tzinfo=None), NOW.date()),
    *(np.int64(1), np.float32(1.5), np.str_("a"), np.bool_(True), object(), [1], b"a"),
)
NAMES = ("a", "b", "a.b", "b.a.a", "A")
nested = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.dictionaries(st.sampled_from(("a", "b", "a.b")), inner, max_size=3),
    max_leaves=3,
)
plain = st.dictionaries(st.sampled_from(NAMES), nested, max_size=4)
FORMS = (dict, dict, dict, MappingProxyType, ChainMap, OrderedDict, Caseless)
FORMS += (lambda held: defaultdict(int, held),)
messages = st.lists(st.builds(lambda form, held: form(held), st.sampled_from(FORMS), plain))
RESTS = ("= 1", "< 1.5", "= 'ab'", "CONTAINS 'a'", "IS NULL", "<> 1", "= TRUE", "> b", "LIKE '_b'")
SELECTORS = (
    *(f"{name} {rest}" for name in NAMES for rest in RESTS),
    *("a + b > 0", "lower(a) LIKE '%A' OR lower(a) = 'ab'", "a < TIMESTAMP '2001-01-01'"),
    *("a = b", "b = a.b", "a.b + b.a.a < 3", "1 + 1 = 2", "-a < 0", "length(a.b) = 2"),
)
CONDITIONS = [parse(selector) for selector in SELECTORS]


def settled(message: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """What the oracle understands: flat, and of Python's own types (see test_values.py)."""
    found = {name: lookup(message, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


@given(messages)
def test_batches_of_mappings_agree_with_the_oracle(given: list[Mapping[str, Any]]) -> None:
    matcher = Matcher()
    matcher.add_many(enumerate(SELECTORS))
    flat = [settled(message, NAMES) for message in given]
    expected = [[i for i, c in enumerate(CONDITIONS) if oracle.matches(c, m)] for m in flat]
    assert [matcher.match(m) for m in given] == expected
    assert matcher.match_many(given).to_pylist() == expected


SCHEMA = Schema.of({"a": (int, 7), "b": float, "s": (str, "x"), "n.s": str, "t": "timestamp"})
FITTING = {
    "a": st.sampled_from((None, 1, -5, 2.0, np.int8(3), 2**63 - 1)),
    "b": st.sampled_from((None, 1, 1.5, float("nan"), np.float64(2.5), -(2**63))),
    "s": st.sampled_from((None, "x", "é", Text("x"), "")),
    "t": st.sampled_from((None, NOW, NOW.date())),
    "n": st.sampled_from((None, {"s": "x"}, {"s": None}, {}, 5)),
    "n.s": st.sampled_from(("x", None)),
}
typed = st.lists(st.fixed_dictionaries({}, optional=FITTING), max_size=12)
TYPED = ("a = 7", "a > 1", "b < 2", "s = 'x'", "n.s = 'x'", "n.s IS NULL", "b IS NULL", "t IS NULL")


@given(typed, st.sampled_from(("sql", "strict", "default")))
def test_schemas_and_defaults(given: list[dict[str, Any]], semantics: Any) -> None:
    matcher = Matcher(SCHEMA, semantics=semantics)
    matcher.add_many(enumerate(TYPED))
    conditions = [parse(text) for text in TYPED]
    expected = [
        [i for i, c in enumerate(conditions) if oracle.matches(c, m, semantics, SCHEMA)]
        for m in (settled(message, tuple(SCHEMA)) for message in given)
    ]
    assert matcher.match_many(given).to_pylist() == expected
    assert [matcher.match(m) for m in given] == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [("\ud800", "lone surrogate"), (2**70, "64 bits"), (Text("\ud800"), "lone surrogate")],
)
def test_a_bad_value_is_an_error_only_where_it_is_asked_for(value: Any, reason: str) -> None:
    matcher = Matcher()
    matcher.add("a", "a = 1")
    given = [{"a": 1}, {"b": value}, {"a": 2}]
    assert matcher.match_many(given).to_pylist() == [["a"], [], []]
    matcher.add("b", "b = 1")
    with pytest.raises(MessageError, match=reason):
        matcher.match_many(given)
    with pytest.raises(MessageError, match=reason):
        matcher.match(given[1])


def test_total_semantics_names_what_the_first_bad_message_lacks() -> None:
    matcher = Matcher(Schema.of(a=int, b=int, c=int), semantics="total")
    matcher.add("a", "a = 1")
    whole = {"a": 1, "b": 2, "c": 3}
    assert matcher.match_many([whole, dict(reversed(whole.items()))]).to_pylist() == [["a"]] * 2
    with pytest.raises(MessageError, match="does not define b, c"):
        matcher.match_many([whole, {"a": 1}])
