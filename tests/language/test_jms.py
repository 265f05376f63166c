"""dialect="jms": the message selector of Jakarta Messaging 3.1, section 3.8.1."""

from __future__ import annotations

import pytest

from tamis.errors import SelectorError
from tamis.language import Compare, Literal, canonical, parse

LEGAL = [
    # the specification's own examples
    ("JMSType = 'car' AND color = 'blue' AND weight > 2500", None),
    ("age BETWEEN 15 AND 19", None),
    ("age NOT BETWEEN 15 AND 19", "age < 15 OR age > 19"),
    ("Country IN (' UK', 'US', 'France')", None),
    ("Country NOT IN (' UK', 'US')", "NOT (Country IN (' UK', 'US') OR Country NOT LIKE '%')"),
    ("phone LIKE '12%3'", None),
    ("word LIKE 'l_se'", None),
    ("underscored LIKE '\\_%' ESCAPE '\\'", None),
    # what is no string is neither like the pattern nor unlike it
    ("phone NOT LIKE '12%3'", "NOT (phone LIKE '12%3' OR phone NOT LIKE '%')"),
    ("prop_name IS NULL", None),
    ("prop_name IS NOT NULL", None),
    # conditions
    ("", "TRUE"),
    (" \t\f\r\n ", "TRUE"),
    ("TRUE", "TRUE"),
    ("NOT FALSE", "NOT FALSE"),
    ("flag", "flag = TRUE"),
    ("NOT flag AND (other)", "NOT flag = TRUE AND other = TRUE"),
    ("flag = TRUE", "flag = TRUE"),
    ("TRUE = flag", "TRUE = flag"),
    ("flag <> false", "flag <> FALSE"),
    ("(a > 1) = TRUE", "a > 1"),
    ("1 < 2", "1 < 2"),
    ("a = b", "a = b"),
    ("a > b", "a > b AND (a <= 0 OR a > 0 OR b IS NULL)"),
    ("'x' = a", "'x' = a"),
    ("a = 5 aNd b = 6 oR nOt c = 7", "a = 5 AND b = 6 OR NOT c = 7"),
    ("a BETWEEN b - 1 AND b * 2", "a BETWEEN b - 1 AND b * 2"),
    ("-a + +b * 2 - 3 / c >= 0", "-a + b * 2 - 3 DIV c >= 0"),
    ("a LIKE 'x' ESCAPE ''''", "a LIKE 'x' ESCAPE ''''"),
    ("a LIKE '.*[x]'", "a LIKE '.*[x]'"),
    # names
    ("A = a", "A = a"),
    ("$a_1 = été", "$a_1 = été"),
    ("a€b = 1 AND ‿ = 1", "a€b = 1 AND ‿ = 1"),
    ("JMSXGroupID = 'g' AND JMS_x = 1", "JMSXGroupID = 'g' AND JMS_x = 1"),
    ("contains = 1 AND div = 2", "`contains` = 1 AND `div` = 2"),
    ("matches = 'x' AND timestamp > 5", "`matches` = 'x' AND `timestamp` > 5"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LEGAL)
def test_legal(text: str, expected: str | None) -> None:
    condition = parse(text, dialect="jms")
    assert canonical(condition) == (text if expected is None else expected)
    assert parse(canonical(condition)) == condition


NUMBERS: list[tuple[str, int | float]] = [
    ("7", 7), ("0", 0), ("-957", -957), ("+62", 62), ("5L", 5), ("5l", 5), ("1_000", 1000),
    ("0x1d", 29), ("0X1D", 29), ("035", 29), ("0b101", 5), ("0_7", 7), ("00", 0),
    ("0xFFFFFFFF", 2**32 - 1), ("0xFFFFFFFFFFFFFFFF", -1), ("0x8000000000000000L", -(2**63)),
    ("01777777777777777777777", -1), ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)), ("-9223372036854775808L", -(2**63)), ("-0x1", -1),
    ("7.", 7.0), (".5", 0.5), ("7E3", 7000.0), ("-57.9E2", -5790.0), ("-95.7", -95.7),
    ("+6.2", 6.2), ("1e3f", 1000.0), ("2d", 2.0), ("2F", 2.0), ("0.1f", 0.10000000149011612),
    ("1_0.5_0", 10.5), ("0x1.8p3", 12.0), ("0x.8P0f", 0.5), ("0x1p-1d", 0.5), ("0f", 0.0),
    ("09.", 9.0), ("1.7976931348623157e308", 1.7976931348623157e308),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), NUMBERS)
def test_numbers_as_java_writes_them(text: str, value: float) -> None:
    condition = parse(f"a = {text}", dialect="jms")
    assert isinstance(condition, Compare)
    assert condition.right == Literal.of(value)


ILLEGAL = [
    # numbers
    "a = 9223372036854775808", "a = -9223372036854775809", "a = -(9223372036854775808)", "a = 08",
    "a = 1_", "a = _1x y", "a = 0x", "a = 0x1_", "a = 0b2", "a = 1e", "a = 1.5L", "a = 5x",
    "a = 0x10000000000000000", "a = 1e400", "a = 1e39f", "a = 1e-400", "a = 1e-60f", "a = 0x1.8",
    # conditions that are none
    "5", "'a'", "a + 1", "-a", "+a", "(+a)", "a AND 5", "NOT 'x'", "5 OR a", "NOT 5",
    "a AND b + 1",
    # types
    "a > 'x'", "'x' <= a", "a < TRUE", "FALSE >= a", "TRUE > FALSE", "a IN (1)", "a IN ('x', 1)",
    "a IN (TRUE)", "5 LIKE 'x'", "'x' LIKE 'x'", "a + 1 LIKE 'x'", "5 IN ('x')", "'x' IN ('x')",
    "5 IS NULL", "a + 1 IS NULL", "'x' IS NOT NULL", "a + 'x' = 1", "TRUE * 2 = 1", "-'a' = 1",
    "+'a' = 1", "-TRUE = 1", "(a > 1) + 1 = 2", "a BETWEEN 'x' AND 'y'", "'x' BETWEEN 1 AND 2",
    "a BETWEEN TRUE AND 1", "(a > 1) > (b > 1)", "(a > 1) BETWEEN 1 AND 2", "(a = 1) = 5",
    "(a = 1) IS NULL",
    # NULL
    "a = NULL", "NULL", "NULL IS NULL", "a IN (NULL)", "NOT NULL",
    # what the tamis dialect has and JMS has not
    "a != 5", "a == 5", 'a = "x"', "a & b", "a | b", "!a", "a ≤ 5", "a ∈ ('x')", "a.b = 1",
    "`a` = 1", "lower(a) = 'x'", "f(a)", "[a = 1]", "a IN {x}", "a IN [1, 2]", "a CONTAINS 'x'",
    "a ILIKE 'x'", "a MATCHES 'x'", "a STARTS WITH 'x'", "a DIV 2 = 1",
    "a = TIMESTAMP '2000-02-01'", "a = ⊥",
    # syntax
    "a = ", "= 5", "a =", "a 5", "a = 5 b", "a = 5)", "(a = 5", "a = 5 AND", "AND a = 5",
    "a = 5 AND OR b", "a IN ()", "a IN ('x'", "a IN 'x'", "a IN ('x',)", "a LIKE b", "a LIKE 5",
    "a LIKE", "a LIKE 'x' ESCAPE", "a LIKE 'x' ESCAPE ''", "a LIKE 'x' ESCAPE 'ab'",
    "a LIKE 'x' ESCAPE 5", "a BETWEEN 1", "a NOT = 5", "a BETWEEN 1 AND", "a IS", "a IS 5",
    "a IS NOT", "a IS TRUE", "a = 'x", "a = 'x''", "not = 5", "in = 5", "escape = 1",
    "like LIKE 'x'", "a = 5;", "a = 5 -- why", "a = 5 /* why */", "a <= >= 5", "a => 5",
    "a\u00a0= 5", "a = 5\x0b", "1a = 5", "a# = 5", "a = \0", "a = '\ud800'", "a = 1 = 1", "()",
    "JMSDestination = 'x'", "JMSRedelivered",
]  # fmt: skip


@pytest.mark.parametrize("text", ILLEGAL)
def test_illegal(text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text, dialect="jms")
    assert caught.value.text == text
    assert caught.value.hint


def test_names_may_hold_what_java_ignores() -> None:
    assert canonical(parse("a\u200db\x01 = 1", dialect="jms")) == "`a\u200db\x01` = 1"


def test_an_unknown_dialect_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="sql92"):
        parse("a = 1", dialect="sql92")  # type: ignore[arg-type]
