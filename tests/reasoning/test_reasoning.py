"""covers, satisfiable, always_true and example: obvious cases, and never a claim that is wrong."""

from __future__ import annotations

import datetime
import random

import pytest
import re2

import oracle
import strategies as st
from bounded import bounded
from tamis.errors import MessageError
from tamis.language import And, Condition, Or, canonical, parse
from tamis.logic import SEMANTICS, Semantics, atoms, reduce
from tamis.reasoning.candidates import answers, candidates
from tamis.reasoning.covers import always_true, covers, example, satisfiable
from tamis.reasoning.samples import samples
from tamis.schema import INT_MAX, INT_MIN, Schema, Type

SEVEN = [(s, typed) for s in SEMANTICS for typed in (False, True) if typed or s != "total"]


def matches(condition: Condition, message, semantics: Semantics, schema) -> bool:
    try:
        return oracle.matches(condition, message, semantics, schema, st.LOOKUPS)
    except MessageError:
        return False


def messages(rng: random.Random, schema, semantics: Semantics, count: int) -> list[dict]:
    return [st.random_message(rng, schema, total=semantics == "total") for _ in range(count)]


def holds(text: str) -> tuple:
    """The one atom of a selector."""
    (atom,) = set(atoms(reduce(parse(text))))
    return atom


# --- covers -------------------------------------------------------------------

COVERING = [
    ("a < 5", "a < 3"),
    ("a < 5", "a = 4"),
    ("a >= 1", "a = 1 OR a > 2"),
    ("a <> 5", "a = 4"),
    ("x IN (1, 2, 3)", "x = 2"),
    ("a BETWEEN 1 AND 10", "a BETWEEN 2 AND 3"),
    ("a IS NOT NULL", "a = 5"),
    ("NOT a = 5", "a = 'x'"),
    ("name LIKE 'a%'", "name LIKE 'ab%'"),
    ("name CONTAINS 'b'", "name STARTS WITH 'abc'"),
    ("name NOT LIKE '%x%'", "name = 'abc'"),
    ("name <> 'b'", "name LIKE 'a%'"),
    ("name < 'b'", "name STARTS WITH 'a'"),
    ("name WITHIN 'PC 10'", "name IN ('PC', '10')"),
    ("t < TIMESTAMP '2000-01-02'", "t <= TIMESTAMP '2000-01-01'"),
    ("flag OR NOT flag", "flag"),
    ("price * volume > 10", "price * volume > 20"),
    ("lower(name) CONTAINS 'ab'", "lower(name) STARTS WITH 'abc'"),
    ("TRUE", "a = 1"),
    ("a = 1", "FALSE"),
]


@pytest.mark.parametrize(("a", "b"), COVERING)
@pytest.mark.parametrize("semantics", ["sql", "strict", "default"])
def test_covers_what_is_plain_to_see(a: str, b: str, semantics: Semantics) -> None:
    assert covers(parse(a), parse(b), None, semantics)
    assert not covers(parse(b), parse(a), None, semantics)


@pytest.mark.parametrize(
    ("a", "b", "schema"),
    [
        ("n < 10", "n <= 9", Schema.of(n=int)),
        ("n <= 9", "n < 10", Schema.of(n=int)),
        ("n < 10", "n <= 9.5", Schema.of(n=int)),
        ("n >= 0.5", "n > 0", Schema.of(n=int)),
        ("a = 1 AND b = 2", "b = 2 AND a = 1", None),
        ("a = 1 OR b = 2 OR c = 3", "c = 3 OR a = 1", None),
        ("NOT (a = 1 AND b = 2)", "NOT a = 1 OR NOT b = 2", None),
    ],
)
def test_covers_with_a_schema_or_in_other_words(a: str, b: str, schema) -> None:
    assert covers(parse(a), parse(b), schema)


def test_covers_depends_on_the_semantics() -> None:
    """Strict asks for all attributes of the text, so a wider condition can match less."""
    wider, narrower = parse("a = 1 OR b = 2"), parse("a = 1")
    assert covers(wider, narrower)
    assert covers(wider, narrower, None, "default")
    assert not covers(wider, narrower, None, "strict")
    assert covers(wider, parse("a = 1 AND b = 3"), None, "strict")
    # not below 5 is 5 or more only where there is a number
    schema = Schema.of(n=int)
    anything, number = parse("NOT n < 5"), parse("n >= 5")
    assert covers(number, anything, schema)
    assert not covers(number, anything)
    assert not covers(number, anything, schema, "default")
    assert covers(number, anything, schema, "total")


def test_covers_says_no_where_it_cannot_decide() -> None:
    assert not covers(parse("name MATCHES 'a+'"), parse("name MATCHES 'aa'"))


@pytest.mark.parametrize(("semantics", "typed"), SEVEN)
def test_covers_is_never_refuted(semantics: Semantics, typed: bool) -> None:
    rng = random.Random(f"covers {semantics}{typed}")
    said = 0
    for _ in range(40):
        schema = st.random_schema(rng) if typed else None
        a, b = related(rng, schema)
        if covers(a, b, schema, semantics, lookups=st.LOOKUPS):
            said += 1
            for message in messages(rng, schema, semantics, 40):
                if matches(b, message, semantics, schema):
                    assert matches(a, message, semantics, schema), (canonical(a), canonical(b))
    assert said >= 5


def related(rng: random.Random, schema) -> tuple[Condition, Condition]:
    """Two conditions, of which the first often covers the second."""
    x, y = (st.random_condition(rng, schema, depth=1) for _ in range(2))
    pairs = [(x, y), (Or((x, y)), x), (x, And((x, y))), (Or((x, y)), And((y, x)))]
    return rng.choice(pairs)


# --- satisfiable, always true ----------------------------------------------------


@pytest.mark.parametrize(
    "selector",
    [
        "a = 1 AND a = 2",
        "a = 1 AND a = 'x'",
        "a < 1 AND a > 1",
        "a IS NULL AND a = 1",
        "name STARTS WITH 'a' AND name = 'b'",
        "name STARTS WITH 'b' AND name < 'a'",
        "name WITHIN 'abc' AND name CONTAINS 'x'",
        "flag = TRUE AND flag = FALSE",
        "a <> 1 AND a IN (1)",
        "a <> 1 AND a <> 'x'",
        "a <> 1 AND NOT a <> 1 AND a <> 2",
        "FALSE",
    ],
)
def test_what_cannot_be_is_proved(selector: str) -> None:
    assert not satisfiable(parse(selector))
    assert example(parse(selector)) is None


def test_integers_between_two_neighbours() -> None:
    gap = parse("n > 5 AND n < 6")
    assert not satisfiable(gap, Schema.of(n=int))
    assert example(gap, Schema.of(n=float)) == {"n": 5.5}
    assert satisfiable(gap)


def test_alternatives_that_leave_nothing() -> None:
    assert always_true(parse("a < 5 OR a >= 5"), Schema.of(a=int), "total")
    assert not always_true(parse("a < 5 OR a >= 5"), Schema.of(a=int))
    assert always_true(parse("a < 5 OR a >= 5 OR a IS NULL"), Schema.of(a=int))
    assert not always_true(parse("a < 5 OR a >= 5 OR a IS NULL"))  # a may be a string
    assert always_true(parse("NOT a < 5 OR a < 5 OR a IS NULL"))
    assert always_true(parse("NOT a < 5 OR a < 5"), None, "default")
    assert not always_true(parse("a < 5 OR a >= 5"), Schema.of(a=int), "strict")
    assert always_true(parse("TRUE"), None, "strict")


@pytest.mark.parametrize(("semantics", "typed"), SEVEN)
def test_claims_of_all_messages_are_never_refuted(semantics: Semantics, typed: bool) -> None:
    rng = random.Random(f"claims {semantics}{typed}")
    claimed = 0
    for _ in range(120):
        schema = st.random_schema(rng) if typed else None
        condition = st.random_condition(rng, schema, depth=2)
        never = not satisfiable(condition, schema, semantics)
        always = always_true(condition, schema, semantics)
        claimed += never or always
        if never or always:
            for message in messages(rng, schema, semantics, 40):
                if takes(message, semantics, schema):
                    assert matches(condition, message, semantics, schema) == always
    assert claimed >= 3


def takes(message, semantics: Semantics, schema) -> bool:
    return matches(parse("TRUE"), message, semantics, schema)


# --- examples --------------------------------------------------------------------


@pytest.mark.parametrize(
    "selector",
    [
        "price < 1500 AND company CONTAINS 'IBM'",
        "a > 5 AND a < 6 AND a <> 5.5",
        "email MATCHES '^[a-z]+@(ibm|dell)[.]com$' AND email NOT MATCHES 'ibm'",
        "price * volume > 1e6 AND price < 10",
        "lower(x) = 'abc' AND x <> 'abc'",
        "a.b.c = 1 AND d IS NULL",
        "a < b AND b < c",
        "name LIKE 'a%b%c' AND name CONTAINS 'zz' AND length(name) > 4",
        "name STARTS WITH 'ab' AND name ENDS WITH 'bc' AND length(name) < 4",
        "name WITHIN 'PC 10' AND name CONTAINS 'C 1'",
        "name > 'b' AND name < 'ba'",
        "abs(a) > 5 AND a < 0",
        "-a > 3 AND 10 / a < -2",
        "a CONTAINS b AND a <> b",
        "NOT x = 1 AND NOT x = 'a' AND x IS NOT NULL",
        "a NOT IN (1, 2, 3) AND a > 0 AND a < 4 AND a >= 2",
        "t > TIMESTAMP '2020-01-01' AND t < TIMESTAMP '2020-01-02'",
        "n > 9223372036854775806",
        " OR ".join(f"(a{i:02} = 1 AND b{i:02} = 'x')" for i in range(40)),
        " AND ".join(f"name CONTAINS '{c}{c}'" for c in "abcdef"),
    ],
)
def test_an_example_is_found(selector: str) -> None:
    condition = parse(selector)
    found = example(condition)
    assert found is not None
    assert oracle.matches(condition, found)


def test_examples_fit_the_schema_and_the_semantics() -> None:
    schema = Schema.of(n=int, price=float, name=(str, "x"), when=datetime.datetime, ok=bool)
    total = example(parse("n > 1"), schema, "total")
    assert total is not None
    assert set(total) == set(schema)
    assert oracle.matches(parse("n > 1"), total, "total", schema)
    assert example(parse("name IS NULL"), schema, "default") is None
    assert example(parse("name <> 'x'"), schema, "default") not in (None, {})
    assert example(parse("name = 'x'"), schema, "strict") == {"name": "x"}


def test_lookups_are_asked() -> None:
    condition = parse("NYSEdb(issue) = 'IBM'")
    assert example(condition, lookups=st.LOOKUPS) == {"issue": "a"}
    assert example(condition) is None
    assert satisfiable(condition)


@pytest.mark.parametrize(("semantics", "typed"), SEVEN)
def test_examples_are_right_and_mostly_found(semantics: Semantics, typed: bool) -> None:
    rng = random.Random(f"examples {semantics}{typed}")
    possible = found = 0
    for _ in range(60):
        schema = st.random_schema(rng) if typed else None
        condition = st.random_condition(rng, schema, lookups=tuple(st.LOOKUPS))
        some = example(condition, schema, semantics, lookups=st.LOOKUPS)
        if some is not None:
            assert oracle.matches(condition, some, semantics, schema, st.LOOKUPS)
        if any(
            matches(condition, m, semantics, schema) for m in messages(rng, schema, semantics, 30)
        ):
            possible += 1
            found += some is not None
    assert possible > 30
    assert found / possible > 0.9


def test_the_search_is_bounded() -> None:
    """No path works: the sum of many terms, a pattern against another, everything at once."""
    hard = " AND ".join(f"a{i} + a{i + 1} * a{i + 2} > a{i + 3} - 7" for i in range(12))
    texts = " OR ".join(f"(n{i} MATCHES '[0-9]{{3}}$' AND n{i} = 'abc')" for i in range(60))
    with bounded():
        example(parse(hard + " AND a0 <> a1 AND a3 * a3 = 7"))
        example(parse(texts))


# --- values and texts -------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "selectors", "expected"),
    [
        (Type.INT, ["n < 6", "NOT n < 5"], [5]),
        (Type.INT, ["n < 6", "NOT n < 5", "NOT n = 5"], []),
        (Type.INT, ["NOT n < 9223372036854775807"], [INT_MAX]),
        (Type.INT, ["n < -9223372036854775807"], [INT_MIN]),
        (Type.BOOL, ["n = TRUE", "NOT n = FALSE"], [True]),
        (Type.STRING, ["n < 'a'", "NOT n < 'a'"], []),
        (Type.STRING, ["n < 'aa'", "NOT n < 'a'", "n STARTS WITH 'b'"], []),
        (None, ["n = 5", "n = 'a'"], []),
        (None, ["n = 5", "NOT n < 6"], []),
    ],
)
def test_values_of_a_term_are_exact(line, selectors, expected) -> None:
    asked = [(holds(s.removeprefix("NOT ")), not s.startswith("NOT ")) for s in selectors]
    found, sure = candidates(asked, line, undefined=False)
    assert (list(dict.fromkeys(found)), sure) == (expected, True)


def test_all_values_that_are_offered_answer() -> None:
    asked = [(holds("n < 10"), True), (holds("n = 3"), False)]
    found, _ = candidates(asked, None, undefined=True)
    assert len(found) > 3
    assert all(answers(asked, value) for value in found)


@pytest.mark.parametrize(
    "pattern",
    [
        *st.REGEXES,
        r"(?s)\Aa(?:.*)b\z",
        r'[^"]+@(foo|bar)\.com',
        r"\d{3}-\d{4}",
        "(?P<year>[0-9]{4})",
        "[]a]",
        r"\x{1d4b3}\x41",
        "[[:alpha:]]+[^[:digit:]]",
        r"\Qa.b\E+",
        "((a|b)(c|d))?",
    ],
)
def test_samples_match(pattern: str) -> None:
    found = samples(pattern, "fill")
    assert found
    assert all(re2.search(pattern, text) for text in found)


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[", "a{", "(" * 500, r"\p{Greek}", "\\", "(?", "x{9999}"]
)
def test_patterns_that_are_not_understood_give_nothing(pattern: str) -> None:
    assert samples(pattern) == []
