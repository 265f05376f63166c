"""Texts: the index of prefixes, suffixes, substrings and patterns against plain Python."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

import oracle
from tamis import Matcher, Schema
from tamis.engine.lookup.text_index import TextIndex, values_of
from tamis.language import Limits
from tamis.language.tree import Attribute, Like, Regex, Text
from tamis.logic import Kind
from tamis.logic.like_atoms import like_atom

PLAIN = {
    Kind.PREFIX: str.startswith,
    Kind.SUFFIX: str.endswith,
    Kind.CONTAINS: str.__contains__,
    Kind.WITHIN: lambda value, text: value in text,
    Kind.PATTERN: lambda value, text: re2.search(text, value) is not None,
    Kind.LIKE: lambda value, text: oracle.like(value, text, "!"),
}
TEXT_KINDS = tuple(PLAIN)[:4]
# Few letters of one, two, three and four bytes: patterns overlap, and bytes of letters do too.
LETTERS = "ab\0é𝒳ßé€"
texts = st.text(LETTERS, min_size=1, max_size=6)
values = st.lists(st.text(LETTERS, max_size=14), min_size=1, max_size=12)
patterns = st.lists(st.tuples(st.sampled_from(TEXT_KINDS), texts), min_size=1, max_size=25)
Rows = list[tuple[int, str]]
SCHEMA = Schema.of(s=str)


def index_of(rows: Rows, first: int = 0) -> TextIndex:
    """As the second of three terms, the first of which asks for other texts."""
    other = [(Kind.CONTAINS, "a", 0), (Kind.SUFFIX, "b", 1), (Kind.LIKE, "_%a", 2)]
    own = [(kind, text, first + i) for i, (kind, text) in enumerate(rows)]
    return TextIndex([other, own, []])


def found(index: TextIndex, given: list[str]) -> list[list[int]]:
    offsets, events = index.events(np.full(len(given), 1, np.int32), values_of(given))
    assert len(offsets) == len(given) + 1
    return [events[offsets[i] : offsets[i + 1]].tolist() for i in range(len(given))]


def wanted(rows: Rows, value: str, first: int = 0) -> list[int]:
    return [first + i for i, (kind, text) in enumerate(rows) if PLAIN[kind](value, text)]


def compare(rows: Rows, given: list[str]) -> None:
    """Each event once; all values together as one by one."""
    index = index_of(rows, 7)
    expected = [wanted(rows, value, 7) for value in given]
    assert [sorted(row) for row in found(index, given)] == expected
    assert [sorted(found(index, [value])[0]) for value in given] == expected


@given(patterns, values)
def test_index_agrees_with_plain_python(rows: Rows, given: list[str]) -> None:
    compare(rows, given)


@given(st.lists(texts, min_size=1, max_size=4), values)
def test_equal_texts_of_different_kinds_are_told_apart(chosen: list[str], given: list[str]) -> None:
    compare([(kind, text) for text in chosen for kind in TEXT_KINDS], [*given, *chosen, ""])


def test_patterns_inside_one_another() -> None:
    rows = [(Kind.CONTAINS, "a" * n) for n in range(1, 60)]
    rows += [(Kind.SUFFIX, "a" * n) for n in range(1, 60)]
    rows += [(Kind.PREFIX, "a" * n + "b") for n in range(60)]
    compare(rows, ["a" * 70, "a" * 30 + "b" + "a" * 40, "b", "", "ba" * 40])


def test_fail_links_reach_shorter_patterns() -> None:
    rows = [(Kind.CONTAINS, t) for t in ("he", "she", "his", "hers", "e", "ers", "rs", "shers")]
    compare(rows, ["ushers", "ahishers", "hi", "she", "sshe", "hehehers"])


def test_bytes_of_characters_are_no_characters() -> None:
    """é is C3 A9, © is C2 A9, Ã is C3 83: a search by bytes never ends inside of a character."""
    rows = [
        (kind, text) for kind in TEXT_KINDS for text in ("é", "©", "Ã", "𝒳", "\U0001d4b2", "\0")
    ]
    compare(rows, ["é", "©", "Ã©", "é©", "𝒳", "\U0001d4b2", "\0", "a\0b", "\0\0", "é\0"])


def test_very_long_texts_and_patterns() -> None:
    rng = random.Random(3)
    long = "".join(rng.choices("ab", k=50_000))
    rows = [(Kind.CONTAINS, long[i : i + n]) for i, n in ((0, 9_000), (7, 3_000), (40_000, 10_000))]
    rows += [(Kind.PREFIX, long), (Kind.SUFFIX, long[1:]), (Kind.WITHIN, long)]
    rows += [(Kind.CONTAINS, long + "a"), (Kind.SUFFIX, long[:-1])]
    compare(rows, [long, long[1:], long[:-1], long + long, long[100:200], "x" * 100_000])


def test_texts_that_are_much_work_take_the_automaton() -> None:
    """Every place of these texts looks like a pattern: comparing all would be quadratic."""
    rows = [(Kind.CONTAINS, "a" * n + "b" + "a" * n) for n in range(3, 400, 3)]
    rows += [(Kind.CONTAINS, "a" * n) for n in range(4, 40)]
    rows += [(Kind.LIKE, "%" + "a" * n + "b%a_%c") for n in range(5, 50, 5)]
    index = index_of(rows)
    given = ["a" * 30_000, "a" * 9_000 + "b" + "a" * 9_000 + "c", "a" * 50 + "é" + "a" * 5_000, ""]
    expected = [wanted(rows, value) for value in given]
    assert [sorted(row) for row in found(index, given)] == expected
    assert index.prepared()._automata
    assert all(expected[:3])


@given(st.lists(st.text("aab", min_size=1, max_size=40), min_size=20, max_size=60, unique=True))
def test_repetitive_patterns_agree_with_plain_python(texts: list[str]) -> None:
    rows = [(TEXT_KINDS[i % 4], text) for i, text in enumerate(texts)]
    compare(rows, ["a" * 300, "ab" * 150, "aab" * 100, *texts[:5]])


@pytest.mark.parametrize(
    "pattern", ["%" + "a" * 2_000 + "b%", "a%" + "a_" * 60 + "b%a", "%a_%" * 9]
)
def test_long_likes_are_proved_in_python_where_kernels_give_up(pattern: str) -> None:
    value = "a" * 20_000
    rows = [(Kind.LIKE, pattern)]
    compare(rows, [value, value + "b", "b" + value + "bba", "é" * 99])


def test_many_random_patterns_at_once() -> None:
    rng = random.Random(4)
    rows = []
    for _ in range(3_000):
        text = "".join(rng.choices("abcdé𝒳", k=rng.randint(1, 8)))
        rows.append((rng.choice(TEXT_KINDS), text))
    given = ["".join(rng.choices("abcdé𝒳", k=rng.randint(0, 40))) for _ in range(150)]
    compare(rows, given)


def test_more_events_than_first_room() -> None:
    rows = [(Kind.CONTAINS, "ab"[i % 2] * (1 + i // 400)) for i in range(800)]
    compare(rows, ["aabb" * 3] * 5 + ["", "ba"])


REGEXES = (
    "a",
    "^a",
    "b$",
    "a.b",
    "",
    "^$",
    "(?i)É",
    "[^a]",
    "x{2,}",
    r"\0",
    r"(?s)\Aa.*b\z",
    r"\bb\b",
)


@given(values)
def test_regexes_agree_with_re2(given: list[str]) -> None:
    compare([(Kind.PATTERN, pattern) for pattern in REGEXES], given)


def test_regexes_that_need_many_states() -> None:
    """A set that runs out of memory for its states must not lose matches."""
    rows = [(Kind.PATTERN, f"[ab]*a[ab]{{{n}}}c{{{n % 3}}}x?$") for n in range(8, 26)]
    rng = random.Random(9)
    given = ["".join(rng.choices("ab", k=3_000)) + "c" * (i % 3) for i in range(6)]
    compare(rows, given)


def test_a_set_of_regexes_too_large_for_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.engine.lookup.text_index._MEMORY", 1 << 20)
    rows = [(Kind.PATTERN, f"(?:x{{50}}{i}y{{50}}){{1,5}}$|k{i}$") for i in range(60)]
    assert len(index_of(rows).prepared().patterns[1]) > 1
    compare(rows, [*(f"k{i}" for i in range(61)), "x" * 50 + "5" + "y" * 50])


LIKE_SIGNS = st.text("ab%_!é𝒳\n", max_size=9).filter(lambda text: not text.endswith("!"))


@given(st.lists(LIKE_SIGNS, min_size=1, max_size=12), patterns, values)
def test_likes_agree_with_the_oracle(likes: list[str], rows: Rows, given: list[str]) -> None:
    """Also beside texts that share the automaton with them."""
    compare([(Kind.LIKE, text) for text in likes] + rows, [*given, "aab", "ab\nab", "%_!"])


# --- through the matcher -----------------------------------------------------


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


LIKES = st.text("ab%_é𝒳\n'", max_size=6)


@given(
    st.lists(LIKES, min_size=1, max_size=10), st.lists(st.text("abé𝒳\n'%_", max_size=8), min_size=1)
)
def test_like_agrees_with_the_oracle(patterns: list[str], given: list[str]) -> None:
    matcher = Matcher(SCHEMA)
    matcher.add_many((i, f"s LIKE {quoted(p)}") for i, p in enumerate(patterns))
    expected = [[i for i, p in enumerate(patterns) if oracle.like(v, p, None)] for v in given]
    messages = [{"s": value} for value in given]
    assert matcher.match_many(messages).to_pylist() == expected
    assert [matcher.match(m) for m in messages] == expected


def test_patterns_that_mean_the_same_are_one_atom() -> None:
    term = Attribute("s")
    same = [
        ["%_", "_%", "%%_%", "_%%"],
        ["a%__b", "a__%b", "a_%_b", "a%_%_b"],
        ["a%", "a%%"],
        ["%a_%_b%", "%a__%b%"],
    ]
    for patterns in same:
        assert len({like_atom(term, p, None) for p in patterns}) == 1
    assert like_atom(term, "!%x%", "!") == like_atom(term, "#%x%", "#")
    assert like_atom(term, "a!_b%c", "!") != like_atom(term, "a_b%c", None)


OPERATORS = ("CONTAINS", "WITHIN", "STARTS WITH", "ENDS WITH")
RANDOM_TEXT = st.text("abAé𝒳ß'\n", max_size=5)


@given(
    st.lists(st.tuples(st.sampled_from(OPERATORS), RANDOM_TEXT, st.booleans()), min_size=1),
    st.lists(st.none() | st.text("abAé𝒳ß'\n\0", max_size=10), min_size=1),
)
def test_operators_agree_with_the_oracle(asked: list, given: list[str | None]) -> None:
    """Empty constants, negations, undefined texts: single, many, and as an Arrow column."""
    term = Attribute("s")
    conditions = [Text(term, op, oracle.tree.Literal.of(text)) for op, text, _ in asked]
    texts = [f"{'NOT ' * no}s {op} {quoted(text)}" for op, text, no in asked]
    trees = [
        oracle.tree.Not(c) if no else c for c, (_, _, no) in zip(conditions, asked, strict=True)
    ]
    for schema in (SCHEMA, None):
        matcher = Matcher(schema)
        matcher.add_many(enumerate(texts))
        messages = [{"s": value} for value in given]
        expected = [[i for i, c in enumerate(trees) if oracle.matches(c, m)] for m in messages]
        assert matcher.match_many(messages).to_pylist() == expected
        assert [matcher.match(m) for m in messages] == expected
        table = pa.table({"s": pa.array(given, pa.string())})
        assert matcher.match_batch(table).to_pylist() == expected


def test_texts_of_large_sets_agree_with_the_oracle() -> None:
    """Enough of each kind that they give access: every cluster must still be found."""
    rng = random.Random(6)
    trees, texts = [], []
    for i in range(400):
        text = "".join(rng.choices("abcd", k=rng.randint(1, 4)))
        op = OPERATORS[i % 4]
        extra = "".join(rng.choices("abcd", k=2))
        trees.append(
            oracle.tree.And(
                (
                    Text(Attribute("s"), op, oracle.tree.Literal.of(text)),
                    Regex(Attribute("s"), extra) if i % 3 else Like(Attribute("s"), f"_{extra}%"),
                )
            )
        )
        like = f"s MATCHES '{extra}'" if i % 3 else f"s LIKE '_{extra}%'"
        texts.append(f"s {op} '{text}' AND {like}")
    matcher = Matcher(SCHEMA)
    matcher.add_many(enumerate(texts))
    messages = [{"s": "".join(rng.choices("abcd", k=rng.randint(0, 9)))} for _ in range(80)]
    expected = [[i for i, c in enumerate(trees) if oracle.matches(c, m)] for m in messages]
    assert matcher.match_many(messages).to_pylist() == expected
    assert [matcher.match(m) for m in messages] == expected
    assert sum(map(len, expected)) > 50


@pytest.mark.parametrize("text", ["x" * 400_000, "é" * 200_000, "ab" * 200_000])
def test_very_long_values_in_a_matcher(text: str) -> None:
    matcher = Matcher(SCHEMA, limits=Limits(length=10**6))
    selectors = ["s CONTAINS 'xx'", "s ENDS WITH 'ab'", "s LIKE '%é%é'", "s MATCHES 'b$'"]
    selectors += ["length(s) > 150000", "s < 'b'", "s WITHIN 'ab'", "lower(s) CONTAINS 'abab'"]
    matcher.add_many(enumerate(selectors))
    intake = matcher._contents.intake
    conditions = [intake.condition(selector) for selector in selectors]
    expected = [
        i for i, c in enumerate(conditions) if oracle.matches(c, {"s": text}, schema=SCHEMA)
    ]
    assert matcher.match({"s": text}) == expected
    assert matcher.match_many([{"s": text}, {"s": text}]).to_pylist() == [expected] * 2
