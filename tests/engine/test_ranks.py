"""Ranks among sorted constants, against plain Python."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis import Matcher
from tamis.engine.lookup.ranks import rank, ranks_of
from tamis.engine.lookup.term_index import double_keys

LEAST, MOST = -(2**63), 2**63 - 1
keys = (
    st.integers(LEAST, MOST) | st.integers(-3, 3) | st.sampled_from((LEAST, MOST, 2**52, -(2**52)))
)


@pytest.mark.parametrize("far", [[0], [LEAST, MOST], [0] * 9, [*range(LEAST, LEAST + 20)]])
def test_ranks_among_many_with_some_far_away(far: list[int]) -> None:
    """Constants of one scale, and a few of another at either end."""
    rng = np.random.default_rng(5)
    prices = double_keys(np.round(rng.uniform(0, 1000, 5000), 2))
    constants = np.sort(np.concatenate([prices, np.array(far, np.int64)]))
    asked = np.concatenate([constants, constants[constants < MOST] + 1, [LEAST, MOST, 0, -1]])
    out = np.empty(len(asked), np.int64)
    rank(ranks_of(constants), asked, out)
    assert np.array_equal(out, np.searchsorted(constants, asked, side="right"))


@given(st.lists(keys, max_size=40), st.lists(keys, min_size=1, max_size=40))
def test_ranks_agree_with_bisect(constants: list[int], given: list[int]) -> None:
    constants.sort()
    out = np.empty(len(given) + len(constants), np.int64)
    rank(ranks_of(np.array(constants, np.int64)), np.array(given + constants, np.int64), out)
    assert out.tolist() == [bisect_right(constants, key) for key in given + constants]


NUMBERS = (
    0,
    -0.0,
    1,
    1.5,
    -1.5,
    2**53,
    2**53 + 1,
    float(2**53),
    2**63 - 1,
    -(2**63),
    1e300,
    5e-324,
)
NUMBERS += (float("inf"), float("-inf"), 9.3e18, -9.3e18, 0.1, -7)
numbers = st.sampled_from(NUMBERS) | st.integers(-50, 50) | st.floats(allow_nan=False)
CONSTANTS = (0, 1.5, -1.5, 2**53, 2**53 + 1, 2**63 - 1, 1e300, -1e300, 9.3e18, -7, 0.1, 49, 5e-324)


@given(st.lists(numbers, min_size=1, max_size=30))
def test_numbers_without_a_type_compare_exactly(given: list[int | float]) -> None:
    """Integers against doubles and the other way round, in one column of either and of both."""
    matcher = Matcher()
    matcher.add_many((f"< {c!r}", f"v < {c!r}") for c in CONSTANTS)
    matcher.add_many((f"= {c!r}", f"v = {c!r}") for c in CONSTANTS)
    matcher.add_many((f"> {c!r}", f"v > {c!r}") for c in CONSTANTS)
    for chosen in (given, [int(v) for v in given if abs(v) < 2**63], [float(v) for v in given]):
        expected = [
            [f"< {c!r}" for c in CONSTANTS if v < c]
            + [f"= {c!r}" for c in CONSTANTS if v == c]
            + [f"> {c!r}" for c in CONSTANTS if v > c]
            for v in chosen
        ]
        messages = [{"v": v} for v in chosen]
        assert matcher.match_many(messages).to_pylist() == expected
        assert [matcher.match(m) for m in messages[:3]] == expected[:3]
