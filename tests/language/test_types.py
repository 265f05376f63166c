"""check: types of attributes, and what can never work."""

from __future__ import annotations

import datetime
import random

import pytest

import strategies
from tamis.errors import SelectorError
from tamis.language import And, Attribute, Compare, Literal, Negate, Not, check, parse
from tamis.language.operands import JOINED
from tamis.schema import Schema, Type

SCHEMA = Schema(
    Schema.of(
        {
            "price": float,
            "name": str,
            "n": int,
            "flag": bool,
            "when": datetime.datetime,
            "to.city": str,
        }
    ).attributes,
    unread={"data": "binary"},
)
LOOKUPS = ("NYSEdb", "scaled")

GOOD = [
    "price < 5 AND n < 5.5",
    "name = 'x' OR name > 'a' OR name <> lower(name)",
    "flag AND NOT flag = FALSE AND flag < TRUE",
    "when > TIMESTAMP '2000-02-01' AND when BETWEEN when AND TIMESTAMP '2001-01-01'",
    "price * n + -1 / abs(n) DIV 2 > length(name)",
    "to.city STARTS WITH 'B' AND name WITHIN to.city AND name MATCHES 'x' AND name LIKE 'y'",
    "price IN (1, 2.5) AND n IN [1, price] AND name IS NULL AND n + 1 IS NULL",
    "NYSEdb(name) = 'x' AND NYSEdb(n) > 5 AND NYSEdb(name, n)",
    "1 = 1.0 AND 'a' < 'b' AND TRUE",
    "n % 2 = 1 AND coalesce(price, n, 0) > 1 AND coalesce(flag, FALSE)",
    "trim(name) = substr(name, 2, n) AND substring(name, -3) = 'x'",
    "year(when) = 2013 AND MONTH(when) IN (1, 2) AND weekday(when) < 5",
    "when < DATE '2013-01-01'",
]


@pytest.mark.parametrize("text", GOOD)
def test_good_with_and_without_a_schema(text: str) -> None:
    condition = parse(text)
    check(condition, text=text, lookups=LOOKUPS)
    found = check(condition, SCHEMA, text=text, lookups=LOOKUPS)
    assert found == {name: {SCHEMA[name].type} for name in found}


BAD = [
    # text, whether constants alone prove it, place of the caret, part of the message
    ("price = 'abc'", False, 8, "price is a double, 'abc' is a string: never equal"),
    ("'abc' <> price", False, 0, "'abc' is a string, price is a double: <> never holds"),
    ("name = n", False, 0, "name is a string, n is an int"),
    ("n = TRUE", False, 4, "n is an int, TRUE is a bool"),
    ("n", False, 0, "n is an int, not a condition"),
    ("when > '2000-02-01'", False, 7, "when is a timestamp"),
    ("name > 5", False, 7, "> never holds"),
    ("name BETWEEN 'a' AND 5", False, 21, "<= never holds"),
    ("name IN ('a', 5)", False, 14, "5 is an int"),
    ("n CONTAINS 'x'", False, 0, "CONTAINS needs strings: n is an int"),
    ("name ENDS WITH n", False, 15, "ENDS WITH needs strings: n is an int"),
    ("n LIKE 'x'", False, 0, "LIKE needs strings"),
    ("n MATCHES 'x'", False, 0, "MATCHES needs strings"),
    ("name + 1 > 0", False, 0, "+ needs numbers: name is a string"),
    ("-when > 0", False, 1, "- needs numbers"),
    ("lower(n) = 'x'", False, 6, "lower needs strings"),
    ("abs(name) = 1", False, 4, "abs needs numbers"),
    ("year(n) = 1", False, 5, "year needs timestamps: n is an int"),
    ("substr(name, price) = 'a'", False, 13, "substr needs integers: price is a double"),
    ("substr(name, 1, 2, 3) = 'a'", True, 0, "substr takes two or three arguments"),
    ("coalesce() = 1", True, 0, "coalesce takes some arguments"),
    ("coalesce(name, n) = 1", False, 15, "coalesce needs values of one type: name is a string"),
    ("trim(1) = 'a'", True, 5, "trim needs strings"),
    ("data = 'x'", False, 0, "data is binary; selectors cannot read it"),
    ("pirce > 5", False, 0, "there is no attribute pirce"),
    ("name = 'x' AND NAME = 'x'", False, 15, "there is no attribute NAME"),
    ("NYSEbd(name) = 'x'", True, 0, "there is no function NYSEbd"),
    ("lower(name, name) = 'x'", True, 0, "lower takes one argument"),
    ("length() = 1", True, 0, "length takes one argument"),
    ("'a' + 1 = 2", True, 0, "+ needs numbers: 'a' is a string"),
    ("lower(5) = 'a'", True, 6, "lower needs strings: 5 is an int"),
    ("5 CONTAINS 'a'", True, 0, "CONTAINS needs strings"),
    ("NOT 'a' = 5", True, 10, "never equal"),
    ("n + 1 = 'a'", True, 8, "'a' is a string"),
    ("length(name) LIKE 'x'", True, 0, "LIKE needs strings: length(name) is an int"),
    ("upper(name) > 5", True, 14, "upper(name) is a string"),
]


@pytest.mark.parametrize(("text", "always", "at", "what"), BAD)
def test_bad(text: str, always: bool, at: int, what: str) -> None:
    condition = parse(text)
    with pytest.raises(SelectorError) as caught:
        check(condition, SCHEMA, text=text, lookups=LOOKUPS)
    assert what in caught.value.what
    assert caught.value.at == at
    assert caught.value.hint
    if always:
        with pytest.raises(SelectorError):
            check(condition, text=text, lookups=LOOKUPS)
    else:
        check(condition, text=text, lookups=LOOKUPS)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("pirce > 5", "did you mean price?"),
        ("NYSEbd(name)", "did you mean NYSEdb?"),
        ("Lenght(name) = 1", "did you mean length?"),
        ("when > '2000-02-01'", "write TIMESTAMP '2000-02-01'"),
        ("n = '5'", "write the number without quotes"),
        ("name = 5", "write '5'"),
        ("name || 'x' = 'y'", JOINED),
        ("coalesce(name, 5) = 'x'", "5 is an int"),
        ("substr(name) = 'x'", "it has 1"),
        ("data = 'x'", "convert it before matching"),
    ],
)
def test_hints(text: str, hint: str) -> None:
    with pytest.raises(SelectorError) as caught:
        check(parse(text), SCHEMA, text=text, lookups=LOOKUPS)
    assert caught.value.hint == hint


def test_types_by_use_where_no_schema_tells() -> None:
    found = check(parse("a > 1 AND a < 2.5 AND b CONTAINS c AND d IS NULL AND e + 1 > f AND g"))
    assert found == {
        "a": {Type.INT, Type.DOUBLE},
        "b": {Type.STRING},
        "c": {Type.STRING},
        "d": set(),
        "e": {Type.INT, Type.DOUBLE},
        "f": {Type.INT, Type.DOUBLE},
        "g": {Type.BOOL},
    }


def test_well_typed_conditions_pass() -> None:
    rng = random.Random(3)
    for _ in range(500):
        schema = strategies.random_schema(rng)
        check(strategies.random_condition(rng, schema), schema)


def test_two_schemas_with_one_name() -> None:
    text = "a = 'x'"
    check(parse(text), Schema.of(a=str))
    with pytest.raises(SelectorError):
        check(parse(text), Schema.of(a=int))


def test_a_tree_too_deep_to_walk_is_a_selector_error() -> None:
    term: Attribute | Negate = Attribute("a")
    for _ in range(100_000):
        term = Negate(term)
    deep = Not(And((Compare(term, "=", Literal.of(1)),) * 2))
    with pytest.raises(SelectorError):
        check(deep)
