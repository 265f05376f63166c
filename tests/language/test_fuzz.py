"""Hostile selectors: a tree or a SelectorError, soon, in little memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

import strategies
from bounded import bounded
from tamis.errors import SelectorError
from tamis.language import Limits, canonical, check, parse
from tamis.language.lexer import KEYWORDS, OPERATORS

WORDS = (
    *sorted(KEYWORDS), *OPERATORS, "a", "b.c", "`odd name`", "é", "𝒳", "lower(", "f(",
    "TIMESTAMP '", "7", "7.", ".5", "1E3", "0x1d", "9223372036854775808", "5L", "1e999", "1_0",
    "2000-02-01", "'x'", '"y"', "''", "'", '"', "`", "'%'", "ESCAPE '!'", "--", "/*", ";", "=>",
    "…", "“", "\0", "\ud800", "\n", "\u00a0", "\x1f",
)  # fmt: skip
DEEP = (
    "(", "[", "NOT ", "-", "+", "!", "((", "([", "f(", "lower(", "a=(", "a AND (", "a OR NOT (",
    "-(", "(a=1)=(", "a+(", "a-", "a*-", "a IN [", "a BETWEEN ", "a = ", "{", "⊥=", "'", '"', "`",
    "``", "''", "a.", "a LIKE '", "a MATCHES '(", "9", "1.", "e", "é", ")", "]", "a=1 AND ",
    "a=1|", "(a", "a IN ('x','x',", "a IN (1", "a=''", "a='''", "a=\"'", " ", "a ", "x NOT ",
    "lower(a) ", "$", "lower (", "1e", ".5", "0_",
)  # fmt: skip


def soup(rng: random.Random) -> str:
    return rng.choice(("", " ")).join(rng.choices(WORDS, k=rng.randint(1, 40)))


def noise(rng: random.Random) -> str:
    data = rng.randbytes(rng.randint(1, 80))
    return data.decode("latin-1") if rng.random() < 0.5 else data.decode("utf-8", "surrogateescape")


def valid(rng: random.Random) -> str:
    return canonical(strategies.random_condition(rng))


def mutated(rng: random.Random) -> str:
    text = list(valid(rng))
    for _ in range(rng.randint(1, 4)):
        i = rng.randrange(len(text) + 1)
        action = rng.randrange(3)
        if action == 0:
            text.insert(i, rng.choice(WORDS))
        elif action == 1:
            del text[i : i + rng.randint(1, 5)]
        else:
            text = text[:i]
    return "".join(text)


def deep(rng: random.Random) -> str:
    part = rng.choice(DEEP) + rng.choice(("", rng.choice(DEEP)))
    return part * rng.choice((3, 30, 90, 110, 300, 3000)) + rng.choice(("", "a", "1", "a = 1"))


def fuzzed(count: int) -> Iterator[str]:
    rng = random.Random(20010515)
    makers = (soup, soup, soup, noise, noise, mutated, mutated, mutated, valid, deep)
    for i in range(count):
        yield makers[i % len(makers)](rng)


def survives(text: str, **settings: Any) -> bool:
    """Whether `text` parses; any exception but SelectorError fails the test."""
    fault = None
    try:
        check(parse(text, **settings), text=text)
    except SelectorError as error:
        fault = error
    assert fault is None or (0 <= fault.at <= len(text) and str(fault).startswith(fault.what))
    return fault is None


@pytest.mark.parametrize("dialect", ["tamis", "jms"])
def test_ten_thousand_fuzzed_selectors(dialect: str) -> None:
    good = 0
    for text in fuzzed(10_000):
        with bounded(10):
            good += survives(text, dialect=dialect)
    assert 100 < good < 9_000  # both outcomes occur, else the fuzzer tests nothing


def test_a_megabyte_is_refused_at_once_and_in_little_memory() -> None:
    tracemalloc.start()
    try:
        for part in DEEP:
            text = part * (1_000_000 // len(part))
            with pytest.raises(SelectorError) as caught:
                parse(text)
            assert caught.value.limit == "length"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("part", DEEP)
def test_the_longest_text_of_the_default_limits(part: str) -> None:
    text = (part * 100_000)[:100_000]
    with bounded(10):
        survives(text)


@pytest.mark.parametrize(
    "part", ["(", "NOT ", "-", "a=(", "a+", "f(", "(a=1)=(", "a OR NOT (", "'"]
)
def test_raised_limits_end_in_a_selector_error(part: str) -> None:
    limits = Limits(length=10**7, depth=10**6, expansion=10**6)
    text = part * 100_000 + "a"
    with pytest.raises(SelectorError):
        parse(text, limits=limits)


def test_a_megabyte_that_is_wanted_fits_into_memory() -> None:
    text = " AND ".join(f"attribute{i} = 'value {i}'" for i in range(30_000))
    assert len(text) > 1_000_000
    limits = Limits(length=2_000_000)
    tracemalloc.start()
    try:
        condition = parse(text, limits=limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(condition.parts) == 30_000  # type: ignore[union-attr]
    assert peak < 100e6
