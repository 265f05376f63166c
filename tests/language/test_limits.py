"""Limits are settings; crossing one names it and says how to raise it."""

from __future__ import annotations

import sys

import pytest

from tamis.errors import SelectorError
from tamis.language import In, Limits, canonical, parse
from tamis.language.measure import height

CROSSED = [
    ("length", "a = '" + "x" * 200_000 + "'", Limits()),
    ("length", "a = 1 AND b = 2", Limits(length=14)),
    ("depth", "(" * 101 + "a" + ")" * 101, Limits()),
    ("depth", "[" * 101 + "a" + "]" * 101, Limits()),
    ("depth", "NOT " * 101 + "a", Limits()),
    ("depth", "a > " + "-" * 101 + "b", Limits()),
    ("depth", "a > " + "+" * 101 + "b", Limits()),
    ("depth", "a > " + " + ".join(["b"] * 101), Limits()),
    ("depth", "a > " + "f(" * 101 + "b" + ")" * 101, Limits()),
    ("depth", "((a + b + c) + d + e) > 1", Limits(depth=4)),
    ("items", "a IN (1, 2, 3)", Limits(items=2)),
    ("items", "a + 1 IN (1, 2, 3)", Limits(items=2)),
    ("items", "a ∈ {x, y, z}", Limits(items=2)),
    ("pattern", "a MATCHES '" + "x" * 1001 + "'", Limits()),
    ("expansion", "(a = 1) = (b = 2)", Limits(expansion=5)),
    ("expansion", "(" * 12 + "a = 1" + ") = (b = 1)" * 12, Limits()),
]


@pytest.mark.parametrize(("name", "text", "limits"), CROSSED)
def test_crossing_a_limit_names_it(name: str, text: str, limits: Limits) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text, limits=limits)
    error = caught.value
    assert error.limit == name
    assert f"{getattr(limits, name):,}" in error.what
    assert f"Limits({name}=...)" in error.hint


@pytest.mark.parametrize(
    "text",
    [
        "a = '" + "x" * 99_994 + "'",
        "(" * 99 + "a" + ")" * 99,
        "NOT " * 98 + "a",
        "a > " + " + ".join(["b"] * 99),
        "a MATCHES '" + "x" * 1000 + "'",
        "a IN (" + ", ".join(map(str, range(10_000))) + ")",
        " AND ".join(["a = 1"] * 10_000),
        "(a = 1) = (b = 2)",
    ],
)
def test_just_below_a_limit(text: str) -> None:
    condition = parse(text)
    assert parse(canonical(condition), limits=Limits(length=10**6)) == condition


def test_a_raised_limit_lets_more_through() -> None:
    text = "a IN (" + ",".join(["1"] * 30_000) + ")"
    condition = parse(text, limits=Limits(items=30_000))
    assert isinstance(condition, In)
    assert len(condition.values) == 30_000
    assert parse("(" * 150 + "a" + ")" * 150, limits=Limits(depth=150)) == parse("a")


def test_a_tree_that_python_cannot_walk_is_refused() -> None:
    limits = Limits(depth=100_000)
    text = "a > " + " + ".join(["b"] * sys.getrecursionlimit())
    with pytest.raises(SelectorError, match="stack") as caught:
        parse(text, limits=limits)
    assert caught.value.limit == "depth"


def test_flat_chains_are_not_deep() -> None:
    assert height(parse(" OR ".join(["a = 1 AND b = 2"] * 1000)))[0] == 3


def test_a_selector_is_a_string() -> None:
    with pytest.raises(SelectorError, match="NoneType"):
        parse(None)  # type: ignore[arg-type]
