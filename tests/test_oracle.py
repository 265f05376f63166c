"""The traps, by hand: what the oracle must say where it is easy to be wrong.

These rows are the definition. They are tree nodes, not selectors, so that a parser cannot hide
a mistake; only the tables of docs/semantics.md go through the parser.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import (
    LOOKUPS,
    SEMANTICS,
    conditions,
    partial_messages,
    random_condition,
    random_message,
    random_schema,
    schemas,
    semantics,
)
from tamis.errors import MessageError
from tamis.language import check, parse, tree
from tamis.language.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Regex,
    Text,
)
from tamis.schema import INT_MAX, INT_MIN, Schema

TERMS = (Attribute, Literal, Arithmetic, Negate, Call)
A, B, NAME, WHEN = Attribute("a"), Attribute("b"), Attribute("name"), Attribute("when")
DAY = datetime.datetime(2000, 2, 1, tzinfo=datetime.UTC)


def substr(*arguments: object) -> Call:
    return Call(
        "substr", tuple(Literal.of(a) if not isinstance(a, Attribute) else a for a in arguments)
    )


EAST = datetime.timezone(datetime.timedelta(hours=2))
MISSING: dict[str, object] = {}
PAGE = Path(__file__).parent.parent / "docs" / "semantics.md"


def term(value: Any) -> tree.Term:
    return value if isinstance(value, TERMS) else Literal.of(value)


def compare(left: object, op: Any, right: object) -> Compare:
    return Compare(term(left), op, term(right))


def calc(left: object, op: Any, right: object) -> Arithmetic:
    return Arithmetic(op, term(left), term(right))


def member(left: tree.Term, *values: Any) -> In:
    return In(left, tuple(Literal.of(v) for v in values))


def between(left: tree.Term, low: object, high: object) -> Between:
    return Between(left, term(low), term(high))


def text(left: object, op: Any, right: object) -> Text:
    return Text(term(left), op, term(right))


# (condition, message, True | False | None for unknown)
COMPARISONS = [
    # `>=` is not the negation of `<`
    (compare(A, "<", 1), {"a": 1}, False),
    (compare(A, ">=", 1), {"a": 1}, True),
    (compare(A, "<", 1), MISSING, None),
    (compare(A, ">=", 1), MISSING, None),
    (Not(compare(A, "<", 1)), MISSING, None),
    (compare(A, "<", 1), {"a": "x"}, False),
    (compare(A, ">=", 1), {"a": "x"}, False),
    (Not(compare(A, "<", 1)), {"a": "x"}, True),
    # unlike types compare false, whatever the operator
    (compare(NAME, "=", 17), {"name": "IBM"}, False),
    (Not(compare(NAME, "=", 17)), {"name": "IBM"}, True),
    (compare(NAME, "<>", 17), {"name": "IBM"}, False),
    (compare(NAME, "<>", 17), {"name": "17"}, False),
    (compare(NAME, "=", 17), {"name": "17"}, False),
    (compare(A, "=", True), {"a": 1}, False),
    (compare(A, "<>", True), {"a": 0}, False),
    (compare(A, "=", 1), {"a": True}, False),
    (compare(A, "<", "z"), {"a": 1}, False),
    (compare(WHEN, "=", "2000-02-01"), {"when": DAY}, False),
    (compare(WHEN, ">", 0), {"when": DAY}, False),
    (compare(A, "=", B), {"a": 1, "b": "1"}, False),
    # a value of no type of ours is defined, and unlike everything, itself included
    (compare(A, "=", A), {"a": [1]}, False),
    (compare(A, "<>", 1), {"a": [1]}, False),
    (Not(compare(A, "=", 1)), {"a": [1]}, True),
    (compare(A, "=", 1), {"a": decimal.Decimal(1)}, True),
    (compare(NAME, "=", "x"), {"name": b"x"}, False),
    (compare(A, "=", B), {"a": [1]}, None),
    # undefined: absent, None, NaN
    (compare(A, "=", 1), {"a": None}, None),
    (compare(A, "=", 1), {"a": math.nan}, None),
    (compare(A, "<>", 1), {"a": math.nan}, None),
    (compare(A, "=", A), {"a": math.nan}, None),
    (compare(A, "=", B), {"a": 1}, None),
    (Not(compare(A, "=", 1)), {"a": math.nan}, None),
    # zero has no sign
    (compare(A, "=", 0.0), {"a": -0.0}, True),
    (compare(A, "<", 0.0), {"a": -0.0}, False),
    (compare(A, "=", -0.0), {"a": 0}, True),
    (compare(A, "<>", 0), {"a": -0.0}, False),
    # integers against doubles, exactly
    (compare(A, "<", 10.5), {"a": 10}, True),
    (compare(A, ">", 10.5), {"a": 11}, True),
    (compare(A, "=", 10.5), {"a": 10}, False),
    (compare(A, "=", 10.0), {"a": 10}, True),
    (compare(A, "=", 2.0**53), {"a": 2**53}, True),
    (compare(A, "=", 2.0**53), {"a": 2**53 + 1}, False),
    (compare(A, ">", 2.0**53), {"a": 2**53 + 1}, True),
    (compare(A, "<", 2.0**63), {"a": INT_MAX}, True),
    (compare(A, "=", 2.0**63), {"a": INT_MAX}, False),
    (compare(A, "=", -(2.0**63)), {"a": INT_MIN}, True),
    (compare(A, "=", 0.1), {"a": 0.1}, True),
    (compare(calc(0.1, "+", 0.2), "=", 0.3), MISSING, False),
    # infinity is a value
    (compare(A, ">", INT_MAX), {"a": math.inf}, True),
    (compare(A, "=", A), {"a": math.inf}, True),
    (compare(A, "<", INT_MIN), {"a": -math.inf}, True),
    # strings in code-point order, and no other equality
    (compare(NAME, "<", "a"), {"name": "Z"}, True),
    (compare(NAME, "<", "𝒳"), {"name": "\uffff"}, True),
    (compare(NAME, "=", "\u00e9"), {"name": "e\u0301"}, False),
    (compare(NAME, "<", "aa"), {"name": "a"}, True),
    (compare(NAME, ">=", ""), {"name": ""}, True),
    # booleans and timestamps
    (compare(A, "<", True), {"a": False}, True),
    (compare(A, "<", True), {"a": True}, False),
    (compare(WHEN, "=", DAY), {"when": DAY}, True),
    (compare(WHEN, "=", DAY), {"when": datetime.date(2000, 2, 1)}, True),
    (compare(WHEN, "=", DAY), {"when": datetime.datetime(2000, 2, 1)}, True),
    (compare(WHEN, "=", DAY), {"when": datetime.datetime(2000, 2, 1, 2, tzinfo=EAST)}, True),
    (compare(WHEN, ">", DAY), {"when": DAY + datetime.timedelta(microseconds=1)}, True),
]

TERMS_AND_VALUES = [
    # 64 bits, wrapping
    (calc(A, "+", 1), {"a": INT_MAX}, INT_MIN),
    (calc(A, "-", 1), {"a": INT_MIN}, INT_MAX),
    (calc(A, "*", 2), {"a": INT_MAX}, -2),
    (calc(A, "*", A), {"a": 2**32}, 0),
    (Negate(A), {"a": INT_MIN}, INT_MIN),
    (Negate(A), {"a": 5}, -5),
    (Negate(A), {"a": 0.5}, -0.5),
    (Call("abs", (A,)), {"a": INT_MIN}, INT_MIN),
    (Call("abs", (A,)), {"a": -7}, 7),
    (Call("abs", (A,)), {"a": -0.5}, 0.5),
    # the two divisions
    (calc(A, "/", 2), {"a": 7}, 3.5),
    (calc(A, "/", 2), {"a": 6}, 3.0),
    (calc(A, "DIV", 2), {"a": 7}, 3),
    (calc(A, "DIV", 2), {"a": -7}, -3),
    (calc(A, "DIV", -2), {"a": 7}, -3),
    (calc(A, "DIV", -2), {"a": -7}, 3),
    (calc(A, "DIV", 2), {"a": 7.0}, 3.5),
    (calc(A, "DIV", 2.0), {"a": 7}, 3.5),
    (calc(A, "DIV", -1), {"a": INT_MIN}, INT_MIN),
    (calc(A, "/", 1), {"a": 2**53 + 1}, 2.0**53),
    # by zero: undefined, of whatever kind
    (calc(A, "/", 0), {"a": 1}, None),
    (calc(A, "/", 0.0), {"a": 1.0}, None),
    (calc(A, "/", -0.0), {"a": 1}, None),
    (calc(A, "DIV", 0), {"a": 1}, None),
    (calc(A, "DIV", 0.0), {"a": 1}, None),
    (calc(A, "/", B), {"a": 0, "b": 0}, None),
    # mixed operands are doubles; infinity is a value, NaN is not
    (calc(A, "+", 0.5), {"a": 1}, 1.5),
    (calc(A, "+", 1.0), {"a": 2**53 + 1}, 2.0**53),
    (calc(A, "*", 10.0), {"a": 1.7e308}, math.inf),
    (calc(A, "-", A), {"a": math.inf}, None),
    (calc(A, "*", 0), {"a": math.inf}, None),
    (calc(A, "/", A), {"a": math.inf}, None),
    (calc(1, "/", A), {"a": math.inf}, 0.0),
    # operands that are no numbers
    (calc(A, "+", 1), MISSING, None),
    (calc(A, "+", 1), {"a": "1"}, None),
    (calc(A, "+", 1), {"a": True}, None),
    (calc(A, "+", 1), {"a": [1]}, None),
    (calc(A, "-", A), {"a": DAY}, None),
    (Negate(A), {"a": True}, None),
    # functions
    (Call("lower", (NAME,)), {"name": "IBM ÄÖ"}, "ibm äö"),
    (Call("upper", (NAME,)), {"name": "straße"}, "STRASSE"),
    (Call("length", (NAME,)), {"name": "a𝒳e\u0301"}, 4),
    (Call("length", (NAME,)), {"name": ""}, 0),
    (Call("length", (NAME,)), {"name": 17}, None),
    (Call("lower", (NAME,)), {"name": 17}, None),
    (Call("abs", (A,)), {"a": "1"}, None),
    (Call("abs", (A,)), {"a": True}, None),
    (Call("abs", (A,)), MISSING, None),
    (calc(A, "%", 3), {"a": 7}, 1),
    (calc(A, "%", 3), {"a": -7}, -1),
    (calc(A, "%", -3), {"a": 7}, 1),
    (calc(A, "%", -1), {"a": INT_MIN}, 0),
    (calc(A, "%", 0), {"a": 7}, None),
    (calc(A, "%", 2.5), {"a": -6}, -1.0),
    (calc(A, "%", math.inf), {"a": 6}, 6.0),
    (calc(A, "%", 2), {"a": math.inf}, None),
    (Call("trim", (NAME,)), {"name": " a\tb\u00a0 "}, "a\tb\u00a0"),
    (Call("trim", (NAME,)), {"name": 17}, None),
    (substr(NAME, 2), {"name": "a𝒳bc"}, "𝒳bc"),
    (substr(NAME, 2, 2), {"name": "a𝒳bc"}, "𝒳b"),
    (substr(NAME, 0, 2), {"name": "abc"}, "ab"),
    (substr(NAME, -2), {"name": "abc"}, "bc"),
    (substr(NAME, -5, 3), {"name": "abc"}, "a"),
    (substr(NAME, 9), {"name": "abc"}, ""),
    (substr(NAME, 1, -1), {"name": "abc"}, ""),
    (substr(NAME, INT_MIN, INT_MAX), {"name": "abc"}, "ab"),
    (substr(NAME, 1.0), {"name": "abc"}, None),
    (Call("coalesce", (A, B)), {"b": 2}, 2),
    (Call("coalesce", (A, B)), {"a": 1, "b": 2}, 1),
    (Call("coalesce", (A, Literal.of(0.5))), {"a": math.nan}, 0.5),
    (Call("coalesce", (A, B)), MISSING, None),
    (Call("year", (WHEN,)), {"when": datetime.datetime(1969, 12, 31, 23, 59, tzinfo=EAST)}, 1969),
    (Call("month", (WHEN,)), {"when": datetime.date(2013, 2, 3)}, 2),
    (Call("day", (WHEN,)), {"when": datetime.datetime(2013, 3, 1, 1, tzinfo=EAST)}, 28),
    (Call("hour", (WHEN,)), {"when": datetime.datetime(1, 1, 2, 3, 4)}, 3),
    (Call("minute", (WHEN,)), {"when": datetime.datetime(1, 1, 2, 3, 4)}, 4),
    (Call("weekday", (WHEN,)), {"when": datetime.date(2013, 2, 3)}, 6),
    (Call("weekday", (WHEN,)), {"when": datetime.date(2013, 2, 4)}, 0),
    (Call("year", (WHEN,)), {"when": "2013-02-03"}, None),
    # lookups: a mapping and a callable
    (Call("NYSEdb", (NAME,)), {"name": "IBM"}, "a"),
    (Call("NYSEdb", (NAME,)), {"name": "unheard of"}, None),
    (Call("NYSEdb", (NAME,)), {"name": "b"}, None),
    (Call("NYSEdb", (NAME,)), {"name": ""}, None),
    (Call("NYSEdb", (NAME,)), MISSING, None),
    (Call("scaled", (A,)), {"a": 2}, 4.0),
    (Call("scaled", (A,)), {"a": "x"}, None),
    (Call("scaled", (A,)), MISSING, None),
    # names: the exact key first, then nested messages
    (Attribute("o.p"), {"o.p": 1, "o": {"p": 2}}, 1),
    (Attribute("o.p"), {"o": {"p": 2}}, 2),
    (Attribute("o.p.q"), {"o": {"p": {"q": 3}}}, 3),
    (Attribute("o.p"), {"o": 5}, None),
    (Attribute("o.p"), {"o": {}}, None),
    (Attribute("o.p"), {"o": None}, None),
    (Attribute("odd name"), {"odd name": 4}, 4),
    (Attribute("A"), {"a": 1}, None),
]

PREDICATES = [
    # IS NULL is never unknown; a value of no type of ours is not null
    (IsNull(A), MISSING, True),
    (IsNull(A), {"a": math.nan}, True),
    (IsNull(A), {"a": []}, False),
    (IsNull(A), {"a": 0}, False),
    (IsNull(NAME), {"name": ""}, False),
    (Not(IsNull(A)), MISSING, False),
    (IsNull(calc(1, "/", A)), {"a": 0}, True),
    (IsNull(calc(A, "+", 1)), {"a": "x"}, True),
    # CONTAINS and its kin
    (text(NAME, "CONTAINS", "B"), {"name": "IBM"}, True),
    (text(NAME, "CONTAINS", "b"), {"name": "IBM"}, False),
    (text(NAME, "CONTAINS", ""), {"name": ""}, True),
    (text(NAME, "WITHIN", "IBM and Dell"), {"name": "IBM"}, True),
    (text(NAME, "WITHIN", "IBM"), {"name": "IBM and Dell"}, False),
    (text(NAME, "WITHIN", "IBM"), {"name": ""}, True),
    (text(NAME, "STARTS WITH", "IB"), {"name": "IBM"}, True),
    (text(NAME, "STARTS WITH", "BM"), {"name": "IBM"}, False),
    (text(NAME, "ENDS WITH", "BM"), {"name": "IBM"}, True),
    (text(NAME, "ENDS WITH", "IB"), {"name": "IBM"}, False),
    (text(NAME, "CONTAINS", "B"), MISSING, None),
    (text(NAME, "CONTAINS", B), {"name": "IBM"}, None),
    (text(NAME, "CONTAINS", "1"), {"name": 1}, False),
    (Not(text(NAME, "CONTAINS", "1")), {"name": 1}, True),
    (text(NAME, "CONTAINS", 1), {"name": "1"}, False),
    (text(NAME, "CONTAINS", "a"), {"name": ["a"]}, False),
    # LIKE
    (Like(NAME, "12%3"), {"name": "123"}, True),
    (Like(NAME, "12%3"), {"name": "12993"}, True),
    (Like(NAME, "12%3"), {"name": "1234"}, False),
    (Like(NAME, "l_se"), {"name": "lose"}, True),
    (Like(NAME, "l_se"), {"name": "loose"}, False),
    (Like(NAME, ""), {"name": ""}, True),
    (Like(NAME, ""), {"name": "a"}, False),
    (Like(NAME, "%"), {"name": ""}, True),
    (Like(NAME, "a%b"), {"name": "a\nline\nb"}, True),
    (Like(NAME, "_"), {"name": "𝒳"}, True),
    (Like(NAME, "_"), {"name": "e\u0301"}, False),
    (Like(NAME, "a.c"), {"name": "abc"}, False),
    (Like(NAME, "%aab"), {"name": "aaab"}, True),
    (Like(NAME, "%a%b%"), {"name": "ba"}, False),
    (Like(NAME, "a"), {"name": "A"}, False),
    (Like(NAME, "\\_%", "\\"), {"name": "_foo"}, True),
    (Like(NAME, "\\_%", "\\"), {"name": "bar"}, False),
    (Like(NAME, "\\%"), {"name": "\\x"}, True),
    (Like(NAME, "!!", "!"), {"name": "!"}, True),
    (Like(NAME, "a%%b", "%"), {"name": "a%b"}, True),
    (Like(NAME, "a%%b", "%"), {"name": "axxb"}, False),
    (Like(NAME, "%"), MISSING, None),
    (Like(NAME, "%"), {"name": 5}, False),
    # MATCHES: anywhere in the text
    (Regex(NAME, "B"), {"name": "IBM"}, True),
    (Regex(NAME, "^B"), {"name": "IBM"}, False),
    (Regex(NAME, "(?i)ibm"), {"name": "IBM"}, True),
    (Regex(NAME, "."), MISSING, None),
    (Regex(NAME, "5"), {"name": 5}, False),
    # IN is OR of `=`
    (member(A, 1, 2), {"a": 2.0}, True),
    (member(A, 1, "x", True), {"a": "x"}, True),
    (member(A, 1, "x"), {"a": True}, False),
    (member(A, 1), MISSING, None),
    (Not(member(A, 1)), MISSING, None),
    (Not(member(A, 1)), {"a": "1"}, True),
    (member(A, 0.0), {"a": -0.0}, True),
    # BETWEEN is >= AND <=, with unknown
    (between(A, 1, 3), {"a": 1}, True),
    (between(A, 1, 3), {"a": 3}, True),
    (between(A, 3, 1), {"a": 2}, False),
    (between(A, 1, 3), MISSING, None),
    (between(A, 1, B), {"a": 0}, False),
    (between(A, 1, B), {"a": 2}, None),
    (between(A, B, 1), {"a": 2}, False),
    (Not(between(A, 1, B)), {"a": 0}, True),
    (between(A, 1, 3), {"a": "2"}, False),
    (Not(between(A, 1, 3)), {"a": "2"}, True),
    (between(NAME, "a", "c"), {"name": "bb"}, True),
]

T, F, U = compare(A, "=", 1), compare(A, "=", 2), compare(B, "=", 1)  # of {"a": 1}
LOGIC = [
    (Constant(True), True),
    (Constant(False), False),
    (Not(T), False),
    (Not(F), True),
    (Not(U), None),
    (And((T, T)), True),
    (And((T, F)), False),
    (And((T, U)), None),
    (And((U, U)), None),
    (And((U, F)), False),
    (And((F, F)), False),
    (Or((T, T)), True),
    (Or((F, T)), True),
    (Or((U, T)), True),
    (Or((U, U)), None),
    (Or((F, U)), None),
    (Or((F, F)), False),
    (Or((U, Not(U))), None),
    (And((T, U, F)), False),
    (Or((F, U, T)), True),
]


@pytest.mark.parametrize(("condition", "message", "expected"), COMPARISONS + PREDICATES)
def test_predicates(condition: tree.Condition, message: dict[str, object], expected: object):
    assert oracle.evaluate(condition, message, LOOKUPS) is expected


@pytest.mark.parametrize(("given_term", "message", "expected"), TERMS_AND_VALUES)
def test_terms(given_term: tree.Term, message: dict[str, object], expected: object):
    found = oracle.value(given_term, message, LOOKUPS)
    assert (found, type(found)) == (expected, type(expected))


def test_a_lookup_sees_timestamps_in_utc():
    hour = Call("hour", (WHEN,))
    for when in (datetime.datetime(2000, 2, 1, 9, tzinfo=EAST), datetime.datetime(2000, 2, 1, 7)):
        assert oracle.value(hour, {"when": when}, {"hour": lambda moment: moment.hour}) == 7


@pytest.mark.parametrize(("condition", "expected"), LOGIC)
def test_three_valued_logic(condition: tree.Condition, expected: object):
    assert oracle.evaluate(condition, {"a": 1}) is expected


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**400, "\ud800", "a\udfffb"])
@pytest.mark.parametrize("semantics", ["sql", "strict", "default"])
def test_what_no_message_may_hold_is_an_error_where_it_is_referenced(value, semantics):
    condition = Or((compare(B, "=", 1), compare(A, "=", 1)))
    with pytest.raises(MessageError):
        oracle.matches(condition, {"a": value, "b": 1}, semantics)
    assert oracle.matches(compare(B, "=", 1), {"a": value, "b": 1}, semantics)


# --- the four semantics ------------------------------------------------------

SCHEMA = Schema.of(a=(int, -1), b=int, name=(str, ""), x=float)
FULL = {"a": 1, "b": 2, "name": "IBM", "x": 0.5}


def test_sql_needs_true_and_unknown_is_not_true():
    assert oracle.matches(compare(A, "=", 1), {"a": 1})
    assert not oracle.matches(compare(A, "=", 1), {})
    assert not oracle.matches(Not(compare(A, "=", 1)), {})


def test_strict_needs_every_attribute_of_the_text():
    either = Or((compare(A, "=", 1), compare(B, "=", 1)))
    assert oracle.matches(either, {"a": 1}, "sql")
    assert not oracle.matches(either, {"a": 1}, "strict")
    assert not oracle.matches(either, {"a": 1, "b": math.nan}, "strict")
    assert oracle.matches(either, {"a": 1, "b": [5]}, "strict")
    assert not oracle.matches(IsNull(A), {}, "strict")
    assert not oracle.matches(Or((Constant(True), IsNull(A))), {}, "strict")
    assert oracle.matches(Constant(True), {}, "strict")


def test_total_names_what_is_missing():
    with pytest.raises(MessageError, match="b, x") as caught:
        oracle.matches(compare(A, "=", 1), {"a": 1, "name": ""}, "total", SCHEMA)
    assert "name" not in str(caught.value)
    assert oracle.matches(compare(A, "=", 1), FULL, "total", SCHEMA)
    assert not oracle.matches(compare(A, "=", 2), FULL, "total", SCHEMA)


BOTTOM = [
    (compare(A, "=", -1), True),  # the schema's default
    (compare(NAME, "=", ""), True),
    (compare(B, "=", -1), False),  # no default: bottom
    (compare(B, "<>", -1), True),
    (compare(B, "<>", B), True),
    (compare(B, "=", B), False),
    (compare(B, "<", 1), False),
    (compare(B, ">=", 1), False),
    (Not(compare(B, "<", 1)), True),
    (Not(compare(B, "=", 1)), True),
    (Not(compare(B, "<>", 1)), False),
    (IsNull(B), True),
    (IsNull(A), False),
    (member(B, 1, 2), False),
    (Not(member(B, 1, 2)), True),
    (between(B, 1, 2), False),
    (between(A, -5, B), False),
    (Not(between(B, 1, 2)), True),
    (compare(calc(B, "+", 1), "<>", 5), True),
    (compare(calc(A, "/", 0), "<>", 5), True),
    (compare(calc(A, "/", 0), "=", 5), False),
    (Or((compare(B, "=", 1), compare(A, "=", -1))), True),
]


@pytest.mark.parametrize(("condition", "expected"), BOTTOM)
def test_default_extends_the_message_and_the_rest_is_bottom(condition, expected):
    assert oracle.matches(condition, {}, "default", SCHEMA) is expected


@pytest.mark.parametrize(
    "condition", [text(NAME, "CONTAINS", ""), Like(NAME, "%"), Regex(NAME, "")]
)
def test_default_text_of_bottom_is_false(condition):
    assert oracle.matches(condition, {}, "default") is False
    assert oracle.matches(Not(condition), {}, "default") is True
    assert oracle.matches(condition, {}, "default", SCHEMA) is True  # of the default ""


def test_default_unlike_types_still_compare_false():
    assert not oracle.matches(compare(NAME, "<>", 17), {"name": "IBM"}, "default")
    assert oracle.matches(compare(NAME, "<>", 17), {}, "default")


def test_a_schema_converts_values_first():
    assert oracle.matches(compare(Attribute("x"), "=", 2**53), {"x": 2**53 + 1}, "sql", SCHEMA)
    assert oracle.matches(compare(A, "=", 3), {"a": 3.0}, "sql", SCHEMA)
    for misfit in ({"a": 3.5}, {"a": "3"}, {"name": 3}, {"x": True}, {"b": [1]}):
        with pytest.raises(MessageError):
            oracle.matches(Constant(True), misfit, "sql", SCHEMA)


# --- the strategies are worth their name -------------------------------------


def nodes(node: object) -> Iterator[object]:
    yield node
    if isinstance(node, tuple):
        children: Any = node
    else:
        children = [getattr(node, f) for f in getattr(node, "__dataclass_fields__", ())]
    for child in children:
        yield from nodes(child)


def test_random_pairs_match_often_enough_and_cover_every_kind_of_node():
    rng, truths, kinds = random.Random(7), Counter[object](), Counter[type]()
    for _ in range(3000):
        condition = random_condition(rng, lookups=tuple(LOOKUPS))
        truths[oracle.evaluate(condition, random_message(rng), LOOKUPS)] += 1
        kinds.update({type(node) for node in nodes(condition)})
    assert all(truths[truth] > 300 for truth in (True, False, None)), truths
    wanted = {*TERMS, And, Or, Not, Constant, Compare, Between, In, Text, Like, Regex, IsNull}
    assert all(kinds[kind] > 30 for kind in wanted), kinds


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_random_pairs_with_a_schema_match_often_enough(semantics):
    rng = random.Random(8)
    found = 0
    for _ in range(1000):
        schema = random_schema(rng)
        message = random_message(rng, schema, total=semantics == "total")
        found += oracle.matches(random_condition(rng, schema), message, semantics, schema)
    assert 100 < found < 600


@given(st.data(), schemas(), semantics(total=False))
def test_drawn_messages_fit_their_schema(data, schema, semantics):
    message = data.draw(partial_messages(schema))
    condition = data.draw(conditions(schema))
    assert oracle.matches(condition, message, semantics, schema) in (True, False)


@given(st.data(), st.none() | schemas())
def test_drawn_conditions_are_well_typed(data, schema):
    condition = data.draw(conditions(schema, lookups=tuple(LOOKUPS)))
    assert set(check(condition, schema, lookups=tuple(LOOKUPS))) == set(tree.attributes(condition))


@given(conditions())
def test_drawn_conditions_are_well_formed(condition):
    for node in nodes(condition):
        if isinstance(node, And | Or):
            assert len(node.parts) >= 2
            assert not any(isinstance(part, type(node)) for part in node.parts)
        if isinstance(node, Negate):
            assert not isinstance(node.term, Literal)


@given(conditions(), partial_messages())
def test_unknown_comes_from_undefined_terms_only(condition, message):
    every = {str(t): oracle.value(t, message) for t in tree.terms(condition)}
    if None not in every.values():
        assert oracle.evaluate(condition, message) is not None


# --- docs/semantics.md -------------------------------------------------------


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading of the page, without the backquotes."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]


PAGE_SCHEMA = Schema.of(company=(str, ""), price=(float, -1.0), product=str, discount=float)
LISTS = Schema.of(tags=list[str], prices=list[float], labels=dict[str, str])


@pytest.mark.parametrize(("selector", "message", "sql", "strict", "default"), rows("Lists"))
def test_the_lists_of_the_page(selector, message, sql, strict, default):
    condition, values = parse(selector), json.loads(message)
    check(condition, LISTS)
    found = [oracle.matches(condition, values, s, LISTS) for s in SEMANTICS[:3]]
    assert found == [answer == "yes" for answer in (sql, strict, default)]


@pytest.mark.parametrize(("selector", "message", "sql", "strict", "default"), rows("Examples"))
def test_the_examples_of_the_page(selector, message, sql, strict, default):
    condition, values = parse(selector), json.loads(message)
    found = [oracle.matches(condition, values, s, PAGE_SCHEMA) for s in SEMANTICS[:3]]
    assert found == [answer == "yes" for answer in (sql, strict, default)]


@pytest.mark.parametrize(("selector", "message", "answer"), rows("Without a schema"))
def test_the_examples_of_the_page_without_a_schema(selector, message, answer):
    truth = oracle.evaluate(parse(selector), json.loads(message))
    assert answer == {True: "true", False: "false", None: "unknown"}[truth]


def test_the_page_has_examples():
    assert len(rows("Examples")) >= 12
    assert len(rows("Without a schema")) >= 12
