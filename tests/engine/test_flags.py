"""An attribute that is compared with a condition is a value: one reading under all semantics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import semantics
from tamis import Matcher, Schema
from tamis.language import parse

FLAGS = [None, True, False, "text", 5]
NUMBERS = [None, 0, 2, "x"]
SELECTORS = {
    "flag = (a > 1)": ("=", False),
    "(flag) = (a > 1)": ("=", False),
    "(a > 1) = flag": ("=", False),
    "flag <> (a > 1)": ("<>", False),
    "(a > 1) <> (flag)": ("<>", False),
    "NOT ((flag) = (a > 1))": ("=", True),
    "NOT (flag <> (a > 1))": ("<>", True),
}


def meaning(flag: object, number: object, op: str, negated: bool, bottom: bool) -> bool:
    """The flag compared with the truth of the condition, as any two values are."""
    holds = oracle.compare(number, ">", 1, bottom)
    truth = oracle.compare(flag, op, holds, bottom)
    if flag is not None and not isinstance(flag, bool):
        truth = False  # whatever the condition turns out to be
    return truth is not None and truth != negated


@given(st.sampled_from(FLAGS), st.sampled_from(NUMBERS), semantics(total=False))
def test_a_flag_is_compared_as_a_value(flag: object, number: object, how: str):
    message = {"flag": flag, "a": number}
    defined = how != "strict" or None not in message.values()
    matcher = Matcher(semantics=how)
    matcher.add_many((text, text) for text in SELECTORS)
    found = matcher.match(message)
    for text, (op, negated) in SELECTORS.items():
        expected = defined and meaning(flag, number, op, negated, how == "default")
        assert oracle.matches(parse(text), message, how) is expected, text
        assert (text in found) is expected, text


@pytest.mark.parametrize("a", [0, 2])
def test_an_undefined_flag_differs_from_both_truths(a: int):
    matcher = Matcher(semantics="default")
    matcher.add_many((text, text) for text in SELECTORS)
    matcher.add_many([("true", "flag <> TRUE"), ("false", "flag <> FALSE"), ("is", "flag = TRUE")])
    found = matcher.match({"a": a})
    assert found == [*(t for t, said in SELECTORS.items() if said in (("<>", False), ("=", True))),
                     "true", "false"]  # fmt: skip


def test_a_default_is_the_value():
    matcher = Matcher(Schema.of(flag=(bool, False), a=int), semantics="default")
    matcher.add_many((text, text) for text in SELECTORS)
    assert "flag = (a > 1)" in matcher.match({"a": 0})
    assert "flag <> (a > 1)" in matcher.match({"a": 2})
