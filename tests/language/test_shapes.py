"""The short cut says what the full parser says, or leaves it to the full parser."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from tamis.errors import SelectorError
from tamis.language import Condition, Dialect, Limits, canonical, parse
from tamis.language.reading import parse_in_full
from tamis.language.shapes import parse_by_shape, shape, split

DEFAULT = Limits()
DIALECTS: tuple[Dialect, ...] = ("tamis", "jms")
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
    "a = 035", "a = 1e-400", "a = -0.0", "a > 'x'", "a = 5L", "\v", "JMSType = 'x'", "a IN ('x')",
    "JMSReplyTo = 1", "a BETWEEN 'x' AND 'y'", "a = --5", "a < -.5", "\x01", "a BETWEEN 09 AND 1",
)  # fmt: skip


def places(node: object) -> list[tuple[str, int]]:
    """The kind and place of every node, in order."""
    if isinstance(node, tuple):
        return [place for part in node for place in places(part)]
    if not is_dataclass(node):
        return []
    here = [(type(node).__name__, node.at)]  # type: ignore[attr-defined]
    return here + [place for f in fields(node) for place in places(getattr(node, f.name))]


def in_full(text: str, dialect: Dialect) -> Condition | None:
    try:
        return parse_in_full(text, dialect, DEFAULT)
    except SelectorError:
        return None


def agree(text: str, dialect: Dialect = "tamis") -> bool:
    """Whether the short cut read `text`; if so it must have read it as the full parser does."""
    quick = parse_by_shape(text, DEFAULT, dialect)
    if quick is not None:
        full = in_full(text, dialect)
        assert quick == full
        assert places(quick) == places(full)
    return quick is not None


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(DIALECTS))
def test_short_cut_equals_full_parser(pieces: list[str], dialect: Dialect) -> None:
    agree("".join(pieces), dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_short_cut_equals_full_parser_on_many_texts(dialect: Dialect) -> None:
    rng = random.Random(7)
    texts = ["".join(rng.choices(PIECES, k=rng.randint(1, 9))) for _ in range(20_000)]
    used = sum(agree(text, dialect) for text in texts)
    assert 200 < used < 19_000


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("piece", PIECES)
def test_short_cut_equals_full_parser_on_one_piece(piece: str, dialect: Dialect) -> None:
    agree(piece, dialect)
    agree(f"NOT ({piece}) AND\tx = 1", dialect)


def test_jms_has_a_short_cut_too() -> None:
    assert agree("JMSType = 'car' AND (a BETWEEN 1 AND 2 OR NOT b IN ('x', 'y'))", "jms")
    assert agree("a > 5 AND b LIKE 'x%' AND c <> 'it''s' AND d NOT LIKE 'y'", "jms")


def test_short_cut_equals_full_parser_on_conditions_and_their_wrecks() -> None:
    rng = random.Random(8)
    used = 0
    for _ in range(1_000):
        text = canonical(strategies.random_condition(rng, depth=1))
        used += agree(text)
        cut = rng.randrange(len(text) + 1)
        agree(text[:cut])
        agree(text[:cut], "jms")
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
