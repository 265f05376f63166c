"""The short cut says what the full parser says, or leaves it to the full parser."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from tamis.errors import SelectorError
from tamis.language import Condition, Limits, canonical, parse
from tamis.language.reading import parse_in_full
from tamis.language.shapes import parse_by_shape, shape, split

DEFAULT = Limits()
# Pieces that sit near the borders of what the regex cuts out.
PIECES = (
    "a = 1", "a<>-5", "b.c >= .5", "lower(a) = 'x'", "UPPER ( a )LIKE 'x%'", "a NOT LIKE 'y'",
    "a==1.", "a IN (1, -2,'x')", "a not in('x')", "a BETWEEN 1 AND 2", "a NOT BETWEEN 'x' AND -1",
    "a!=1e3", "a STARTS WITH 'x'", "a ENDS  WITH 'y'", "a contains 'b = 5'", "a = 'it''s'",
    'a = "b"', "TRUE", " AND ", " OR ", "NOT ", "AND", "OR", "NOT", "(", ")", "[", "]", " ", "&",
    "|", "!", "∧", "¬", "x", "5", ".", "'", '"', "`", "+ 1", "- 1", "= TRUE", "ESCAPE '!'",
    "NOT = 5", "lower", "é", "a = 5x", "and = 1", "lower(in) = 1", "a = 9223372036854775808",
    "a = -9223372036854775808", "a LIKE 5", "\n", "CONTAINS 5", "a CONTAINS5", "a = 1e999",
    "\u00a0", "STARTS WITH = 1", "a LI\u212aE 'x'", ", ", "f",
)  # fmt: skip


def places(node: object) -> list[tuple[str, int]]:
    """The kind and place of every node, in order."""
    if isinstance(node, tuple):
        return [place for part in node for place in places(part)]
    if not is_dataclass(node):
        return []
    here = [(type(node).__name__, node.at)]  # type: ignore[attr-defined]
    return here + [place for f in fields(node) for place in places(getattr(node, f.name))]


def in_full(text: str) -> Condition | None:
    try:
        return parse_in_full(text, "tamis", DEFAULT)
    except SelectorError:
        return None


def agree(text: str) -> bool:
    """Whether the short cut read `text`; if so it must have read it as the full parser does."""
    quick = parse_by_shape(text, DEFAULT)
    if quick is not None:
        full = in_full(text)
        assert quick == full
        assert places(quick) == places(full)
    return quick is not None


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_short_cut_equals_full_parser(pieces: list[str]) -> None:
    agree("".join(pieces))


def test_short_cut_equals_full_parser_on_many_texts() -> None:
    rng = random.Random(7)
    texts = ["".join(rng.choices(PIECES, k=rng.randint(1, 9))) for _ in range(20_000)]
    used = sum(map(agree, texts))
    assert 300 < used < 19_000


def test_short_cut_equals_full_parser_on_conditions_and_their_wrecks() -> None:
    rng = random.Random(8)
    used = 0
    for _ in range(1_000):
        text = canonical(strategies.random_condition(rng, depth=1))
        used += agree(text)
        cut = rng.randrange(len(text) + 1)
        agree(text[:cut])
        agree(text[:cut] + rng.choice(PIECES) + text[cut:])
    assert used > 100


@pytest.mark.parametrize(
    ("text", "skeleton", "predicates"),
    [
        ("a = 1 AND b < 2", "\0 AND \0", ["a = 1", "b < 2"]),
        ("not(a like 'x')", "not(\0)", ["a like 'x'"]),
        ("a IN (1,2) or b between 1 and 2", "\0 or \0", ["a IN (1,2)", "b between 1 and 2"]),
    ],
)
def test_split(text: str, skeleton: str, predicates: list[str]) -> None:
    assert split(text) == (skeleton, predicates)


@pytest.mark.parametrize(
    "text", ["a + 1 = 2", "'a = 1'", "a = 1 = TRUE", "2 * a = 1", "f(a = 1)", "a = 1 é"]
)
def test_split_leaves_the_rest_to_the_full_parser(text: str) -> None:
    assert split(text) is None


def test_shape() -> None:
    assert shape("\0 AND (\0 OR \0)") == ("and", 0, ("or", 1, 2))
    assert shape("\0 | NOT \0") == ("or", 0, ("not", 1, 4, 1))
    with pytest.raises(SelectorError):
        shape("\0 \0")


def test_limits_hold_on_the_short_cut() -> None:
    nested = "(" * 10 + "a = 1" + ")" * 10
    for text, limits in [
        (nested, Limits(depth=9)),
        ("NOT " * 10 + "a = 1", Limits(depth=9)),
        ("a IN (1, 2, 3)", Limits(items=2)),
        ("a = 1 AND b = 2", Limits(length=10)),
    ]:
        assert parse(text) is not None
        with pytest.raises(SelectorError) as caught:
            parse(text, limits=limits)
        assert caught.value.limit is not None
