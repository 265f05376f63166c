"""parse(canonical(c)) == c, for every condition that there is."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

import strategies
from tamis.language import Attribute, Compare, Condition, Literal, canonical, parse

LOOKUPS = tuple(strategies.LOOKUPS)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(strategies.conditions(lookups=LOOKUPS))
def test_round_trip(condition: Condition) -> None:
    assert parse(canonical(condition)) == condition


def test_round_trip_of_many() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        condition = strategies.random_condition(rng, depth=4, lookups=LOOKUPS)
        text = canonical(condition)
        assert parse(text) == condition
        assert canonical(parse(text)) == text


@given(TEXTS, TEXTS)
def test_any_name_and_any_string(name: str, value: str) -> None:
    condition = Compare(Attribute(name), "=", Literal.of(value))
    assert parse(canonical(condition)) == condition


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1))
def test_any_number(value: float) -> None:
    condition = Compare(Attribute("a"), "<", Literal.of(value))
    again = parse(canonical(condition))
    assert again == condition
    assert repr(again) == repr(condition)  # -0.0 equals 0.0, but is another double
