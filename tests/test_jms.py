"""Conformance of dialect="jms" with the Jakarta Messaging 3.1 specification, section 3.8.

Written from the specification's text, not from the parser. A row is a selector, the message's
properties, and whether the message is delivered; the selectors in REFUSED must not be accepted.
Where the specification leaves a result open there is no row.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from tamis import Matcher
from tamis.errors import SelectorError
from tamis.language import parse

Row = tuple[str, dict[str, Any], bool]
LONG_MAX, LONG_MIN = 2**63 - 1, -(2**63)

# --- the truth tables of "Null values" ------------------------------------------

OPERANDS = {"T": "one = 1", "F": "one = 2", "U": "none = 1"}  # of {"one": 1}
PAIRS = ("TT", "TF", "TU", "FT", "FF", "FU", "UT", "UF", "UU")
AND = dict(zip(PAIRS, "TFUFFFUFU", strict=True))
OR = dict(zip(PAIRS, "TTTTFUTUU", strict=True))
NOT = {"T": "F", "F": "T", "U": "U"}


def told_apart(selector: str, truth: str) -> list[Row]:
    """Two rows: the selector matches if true, its negation if false, neither if unknown."""
    return [
        (selector, {"one": 1}, truth == "T"),
        (f"NOT ({selector})", {"one": 1}, truth == "F"),
    ]


TRUTH_TABLES: list[Row] = [
    row
    for name, table in (("AND", AND), ("OR", OR))
    for (left, right), truth in table.items()
    for row in told_apart(f"{OPERANDS[left]} {name} {OPERANDS[right]}", truth)
] + [row for part, truth in NOT.items() for row in told_apart(f"NOT {OPERANDS[part]}", truth)]

LOGIC: list[Row] = [
    ("a = 1 OR a = 2 AND b = 3", {"a": 1, "b": 0}, True),
    ("(a = 1 OR a = 2) AND b = 3", {"a": 1, "b": 0}, False),
    ("a = 2 AND b = 0 OR a = 1", {"a": 1, "b": 3}, True),
    ("NOT a = 1 AND b = 2", {"a": 2, "b": 2}, True),
    ("NOT a = 1 AND b = 2", {"a": 1, "b": 1}, False),
    ("NOT (a = 1 AND b = 2)", {"a": 1, "b": 1}, True),
    ("NOT a = 1 OR b = 2", {"a": 1, "b": 2}, True),
    ("NOT NOT a = 1", {"a": 1}, True),
    ("NOT (NOT (a = 1))", {"a": 1}, True),
    ("((a = 1))", {"a": 1}, True),
    ("a = 1 AND b = 2 AND c = 3", {"a": 1, "b": 2, "c": 3}, True),
    ("a = 1 AND b = 2 AND c = 3", {"a": 1, "b": 2}, False),
    ("a = 9 OR b = 9 OR c = 3", {"c": 3}, True),
    ("a = 1 OR NOT a = 1", {}, False),
    ("a = 1 OR a <> 1", {}, False),
    ("a = 1 OR a IS NULL", {}, True),
]

# --- comparisons ---------------------------------------------------------------

COMPARISONS: list[Row] = [
    ("a = 1", {"a": 1}, True),
    ("a = 1", {"a": 2}, False),
    ("a <> 1", {"a": 2}, True),
    ("a <> 1", {"a": 1}, False),
    ("a < 1", {"a": 0}, True),
    ("a < 1", {"a": 1}, False),
    ("a <= 1", {"a": 1}, True),
    ("a <= 1", {"a": 2}, False),
    ("a > 1", {"a": 2}, True),
    ("a > 1", {"a": 1}, False),
    ("a >= 1", {"a": 1}, True),
    ("a >= 1", {"a": 0}, False),
    ("1 < a", {"a": 2}, True),
    ("1 > a", {"a": 2}, False),
    ("a = b", {"a": 2, "b": 2}, True),
    ("a < b", {"a": 2, "b": 2.5}, True),
    ("a <> b", {"a": "x", "b": "y"}, True),
    ("a = b", {"a": "x"}, False),
    ("s = 'x'", {"s": "x"}, True),
    ("s = 'x'", {"s": "X"}, False),
    ("s = 'x'", {"s": "x "}, False),
    ("s = ''", {"s": ""}, True),
    ("s <> ''", {"s": "a"}, True),
    ("'x' = s", {"s": "x"}, True),
    ("s <> 'x'", {"s": "y"}, True),
    ("s <> 'x'", {}, False),
    ("flag = TRUE", {"flag": True}, True),
    ("flag = TRUE", {"flag": False}, False),
    ("flag <> TRUE", {"flag": False}, True),
    ("flag = FALSE", {"flag": False}, True),
    ("flag = FALSE", {}, False),
    ("TRUE = flag", {"flag": True}, True),
    # exact and approximate numbers are of like type
    ("a = 1.0", {"a": 1}, True),
    ("a = 1", {"a": 1.0}, True),
    ("a < 10.5", {"a": 10}, True),
    ("a > 10.5", {"a": 11}, True),
    ("a = 0", {"a": -0.0}, True),
    # unlike types: false, also for <>
    ("NumberOfOrders > 1", {"NumberOfOrders": "2"}, False),
    ("a = '1'", {"a": 1}, False),
    ("a <> '1'", {"a": 1}, False),
    ("s = 1", {"s": "1"}, False),
    ("s <> 1", {"s": "1"}, False),
    ("s < 1", {"s": "0"}, False),
    ("s >= 1", {"s": "2"}, False),
    ("flag = 1", {"flag": True}, False),
    ("flag <> 1", {"flag": False}, False),
    ("flag = 'TRUE'", {"flag": True}, False),
    ("flag <> 'TRUE'", {"flag": False}, False),
    ("a = TRUE", {"a": 1}, False),
    ("a <> TRUE", {"a": 1}, False),
    ("s = TRUE", {"s": "true"}, False),
    ("a = b", {"a": 1, "b": "1"}, False),
    ("a <> b", {"a": 1, "b": "1"}, False),
    # NaN compares with nothing
    ("a = a", {"a": float("nan")}, False),
    ("a > 0", {"a": float("inf")}, True),
]

# --- arithmetic ----------------------------------------------------------------

ARITHMETIC: list[Row] = [
    ("1 + 2 * 3 = 7", {}, True),
    ("(1 + 2) * 3 = 9", {}, True),
    ("10 - 4 - 3 = 3", {}, True),
    ("10 - (4 - 3) = 9", {}, True),
    ("100 / 10 / 5 = 2", {}, True),
    ("100 / (10 / 5) = 50", {}, True),
    ("2 * 3 + 4 * 5 = 26", {}, True),
    ("12 / 2 * 3 = 18", {}, True),
    ("-2 * -3 = 6", {}, True),
    ("2 - -3 = 5", {}, True),
    ("2 + -3 = -1", {}, True),
    ("a + 1 > b * 2", {"a": 10, "b": 5}, True),
    ("a + 1 > b * 2", {"a": 9, "b": 5}, False),
    ("5 = a - 1", {"a": 6}, True),
    ("a-b = 1", {"a": 3, "b": 2}, True),
    ("-a = 5", {"a": -5}, True),
    ("+a = 5", {"a": 5}, True),
    ("-a + 5 = 0", {"a": 5}, True),
    ("-(a + 5) = 0", {"a": -5}, True),
    ("-(-a) = 5", {"a": 5}, True),
    ("a * -b = -6", {"a": 2, "b": 3}, True),
    ("a = +5", {"a": 5}, True),
    ("a = -5", {"a": -5}, True),
    # the division of integers truncates towards zero
    ("7 / 2 = 3", {}, True),
    ("a / 2 = 3", {"a": 7}, True),
    ("a / 2 = 3.5", {"a": 7}, False),
    ("a / 2 = -3", {"a": -7}, True),
    ("a / -2 = -3", {"a": 7}, True),
    ("1 / 2 = 0", {}, True),
    ("7 / 2 * 2 = 6", {}, True),
    # a double among the operands makes it a double
    ("a / 2 = 3.5", {"a": 7.0}, True),
    ("a / 2.0 = 3.5", {"a": 7}, True),
    ("1.0 / 2 = 0.5", {}, True),
    ("1 / 2 + 0.5 = 0.5", {}, True),
    ("a * 0.5 = 2.5", {"a": 5}, True),
    ("a + b = 3.5", {"a": 1, "b": 2.5}, True),
    ("a - 0.5 = 1", {"a": 1.5}, True),
    # dividing by zero never matches, and is never negated into a match
    ("a / 0 = 1", {"a": 1}, False),
    ("a / 0 <> 1", {"a": 1}, False),
    ("NOT (a / 0 = 1)", {"a": 1}, False),
    ("a / b > 0", {"a": 1, "b": 0}, False),
    ("a / b < 0 OR a / b >= 0", {"a": 1, "b": 0}, False),
    ("a / 0.0 > 1", {"a": 1}, False),
    ("a / 0 = 1 OR a = 1", {"a": 1}, True),
    ("1 / 0 = 1 / 0", {}, False),
    # null and unlike operands
    ("a + 1 = 2", {}, False),
    ("NOT (a + 1 = 2)", {}, False),
    ("a + 1 <> 2", {}, False),
    ("a * 0 = 0", {}, False),
    ("-a = 1", {}, False),
    ("s + 1 = 2", {"s": "1"}, False),
    ("flag + 1 = 2", {"flag": True}, False),
    ("-s < 0", {"s": "1"}, False),
    # 64 bits, as in Java
    ("a + 1 = -9223372036854775808", {"a": LONG_MAX}, True),
    ("a - 1 = 9223372036854775807", {"a": LONG_MIN}, True),
    ("a * 2 = -2", {"a": LONG_MAX}, True),
    ("-a = a", {"a": LONG_MIN}, True),
    ("a / -1 = a", {"a": LONG_MIN}, True),
]

# --- literals ------------------------------------------------------------------

LITERALS: list[Row] = [
    ("a = 57", {"a": 57}, True),
    ("a = -957", {"a": -957}, True),
    ("a = +62", {"a": 62}, True),
    ("a = 0", {"a": 0}, True),
    ("a = 9223372036854775807", {"a": LONG_MAX}, True),
    ("a = 9223372036854775807", {"a": LONG_MAX - 1}, False),
    ("a = -9223372036854775808", {"a": LONG_MIN}, True),
    ("a > -9223372036854775808", {"a": LONG_MIN + 1}, True),
    ("a = 57L", {"a": 57}, True),
    ("a = 57l", {"a": 57}, True),
    ("a = -9223372036854775808L", {"a": LONG_MIN}, True),
    ("a = 0x1d", {"a": 29}, True),
    ("a = 0X1D", {"a": 29}, True),
    ("a = 0x1dL", {"a": 29}, True),
    ("a = 0x7fffffffffffffff", {"a": LONG_MAX}, True),
    ("a = -0x10", {"a": -16}, True),
    ("a = 035", {"a": 29}, True),
    ("a = 035", {"a": 35}, False),
    ("a = 00", {"a": 0}, True),
    ("a = -010", {"a": -8}, True),
    ("a = 017L", {"a": 15}, True),
    ("a = 7E3", {"a": 7000}, True),
    ("a = -57.9E2", {"a": -5790.0}, True),
    ("a = 7.", {"a": 7}, True),
    ("a = -95.7", {"a": -95.7}, True),
    ("a = +6.2", {"a": 6.2}, True),
    ("a = .5", {"a": 0.5}, True),
    ("a = -.5", {"a": -0.5}, True),
    ("a = 1E3", {"a": 1000.0}, True),
    ("a = 1e3", {"a": 1000.0}, True),
    ("a = 1E+3", {"a": 1000}, True),
    ("a = 1E-3", {"a": 0.001}, True),
    ("a = 1.E2", {"a": 100}, True),
    ("a = .5e1", {"a": 5}, True),
    ("a = 2.5F", {"a": 2.5}, True),
    ("a = 2.5f", {"a": 2.5}, True),
    ("a = 2.5D", {"a": 2.5}, True),
    ("a = 5d", {"a": 5}, True),
    ("a = 5F", {"a": 5}, True),
    ("a = 1e2d", {"a": 100}, True),
    ("a = 09.5", {"a": 9.5}, True),
    ("a / 2. = 3.5", {"a": 7}, True),
    ("7F / 2 = 3.5", {}, True),
    ("a < 9223372036854775808.0", {"a": LONG_MAX}, True),
    ("s = 'it''s'", {"s": "it's"}, True),
    ("s = ''''", {"s": "'"}, True),
    ("s = ''''''", {"s": "''"}, True),
    ("s = 'say \"x\"'", {"s": 'say "x"'}, True),
    (r"s = 'a\b'", {"s": r"a\b"}, True),
    (r"s = 'a\nb'", {"s": "a\nb"}, False),
    ("s = 'a\nb'", {"s": "a\nb"}, True),
    ("s = 'größe 数 𝒳'", {"s": "größe 数 𝒳"}, True),
    ("s = ' AND '", {"s": " AND "}, True),
    ("s = 'a -- b'", {"s": "a -- b"}, True),
    ("flag = true", {"flag": True}, True),
    ("flag = False", {"flag": False}, True),
]

# --- identifiers, keywords, white space ----------------------------------------

WORDS: list[Row] = [
    ("$x = 1", {"$x": 1}, True),
    ("_x = 1", {"_x": 1}, True),
    ("a$b_1 = 1", {"a$b_1": 1}, True),
    ("_ = 1", {"_": 1}, True),
    ("$1 > 30", {"$1": 31}, True),
    ("größe = 1", {"größe": 1}, True),
    ("数 = 1", {"数": 1}, True),
    ("x9 = 1", {"x9": 1}, True),
    ("Price = 1", {"price": 1}, False),
    ("Price = 1", {"Price": 1}, True),
    ("price = 1 AND PRICE = 2", {"price": 1, "PRICE": 2}, True),
    ("nullable = 1", {"nullable": 1}, True),
    ("NOTE = 1", {"NOTE": 1}, True),
    ("android = 1 AND inn = 2", {"android": 1, "inn": 2}, True),
    ("order_ = 1", {"order_": 1}, True),
    ("isTrue = 1", {"isTrue": 1}, True),
    # words of Tamis's own language are plain names here
    ("CONTAINS = 1", {"CONTAINS": 1}, True),
    ("matches = 1", {"matches": 1}, True),
    ("ILIKE = 1", {"ILIKE": 1}, True),
    ("TIMESTAMP = 5", {"TIMESTAMP": 5}, True),
    ("DIV = 1", {"DIV": 1}, True),
    ("within = 1", {"within": 1}, True),
    ("STARTS = 1 AND WITH = 2", {"STARTS": 1, "WITH": 2}, True),
    ("abs = 1", {"abs": 1}, True),
    # header fields and defined properties
    ("JMSPriority > 5", {"JMSPriority": 7}, True),
    ("JMSDeliveryMode = 'PERSISTENT'", {"JMSDeliveryMode": "PERSISTENT"}, True),
    ("JMSXGroupID = 'g' AND JMSXGroupSeq = 1", {"JMSXGroupID": "g", "JMSXGroupSeq": 1}, True),
    ("JMSCorrelationID IS NULL", {}, True),
    ("JMSType = 'car' AND color = 'blue' AND weight > 2500",
     {"JMSType": "car", "color": "blue", "weight": 3000}, True),
    ("JMSType = 'car' AND color = 'blue' AND weight > 2500",
     {"JMSType": "car", "color": "blue", "weight": 2500}, False),
    # keywords in any case
    ("a = 1 and b = 2", {"a": 1, "b": 2}, True),
    ("a = 1 oR b = 2", {"a": 2, "b": 2}, True),
    ("not a = 1", {"a": 2}, True),
    ("a bEtWeEn 1 aNd 3", {"a": 2}, True),
    ("a Not Between 1 And 3", {"a": 2}, False),
    ("s in ('x', 'y')", {"s": "y"}, True),
    ("s Not In ('x', 'y')", {"s": "y"}, False),
    ("s like 'x%'", {"s": "xyz"}, True),
    ("s Like 'x!%' Escape '!'", {"s": "x%"}, True),
    ("a is null", {}, True),
    ("a Is Not Null", {"a": 1}, True),
    ("flag = tRuE", {"flag": True}, True),
    # white space: space, tab, form feed, line terminators; none where signs separate
    ("  a = 1  ", {"a": 1}, True),
    ("a\t=\t1", {"a": 1}, True),
    ("a\n=\n1", {"a": 1}, True),
    ("a\r\n=\r\n1", {"a": 1}, True),
    ("a\f=\f1", {"a": 1}, True),
    ("a=1", {"a": 1}, True),
    ("(a=1)AND(b=2)", {"a": 1, "b": 2}, True),
    ("NOT(a=1)", {"a": 2}, True),
    ("a<>-1", {"a": 1}, True),
    ("a>-1", {"a": 0}, True),
    ("a<-1", {"a": -2}, True),
    ("s IN('x','y')", {"s": "x"}, True),
    ("s IN (  'x'\n,\t'y' )", {"s": "y"}, True),
    ("a BETWEEN-1 AND+1", {"a": 0}, True),
    ("s LIKE'x%'", {"s": "xy"}, True),
    ("s IS  \n NOT \t NULL", {"s": "x"}, True),
    ("s NOT\nLIKE 'y'", {"s": "x"}, True),
]  # fmt: skip

# --- the whole selector --------------------------------------------------------

WHOLE: list[Row] = [
    ("", {}, True),
    ("", {"a": 1}, True),
    ("TRUE", {}, True),
    ("FALSE", {}, False),
    ("true", {"a": 1}, True),
    ("NOT FALSE", {}, True),
    ("NOT TRUE", {}, False),
    ("(TRUE)", {}, True),
    ("flag", {"flag": True}, True),
    ("flag", {"flag": False}, False),
    ("flag", {}, False),
    ("flag", {"flag": "TRUE"}, False),
    ("flag", {"flag": 1}, False),
    ("(flag)", {"flag": True}, True),
    ("NOT flag", {"flag": False}, True),
    ("NOT flag", {"flag": True}, False),
    ("NOT flag", {}, False),
    ("flag AND a = 1", {"flag": True, "a": 1}, True),
    ("a = 1 AND flag", {"flag": False, "a": 1}, False),
    ("flag OR a = 1", {"a": 1}, True),
    ("flag AND other", {"flag": True, "other": True}, True),
    ("TRUE AND a = 1", {"a": 1}, True),
    ("FALSE OR a = 1", {"a": 1}, True),
    ("a = 1 AND FALSE", {"a": 1}, False),
    ("none = 1 OR TRUE", {}, True),
    ("TRUE = TRUE", {}, True),
    ("TRUE = FALSE", {}, False),
    ("TRUE <> FALSE", {}, True),
]

# --- BETWEEN, IN, LIKE, IS NULL --------------------------------------------------

BETWEEN: list[Row] = [
    ("age BETWEEN 15 AND 19", {"age": 15}, True),
    ("age BETWEEN 15 AND 19", {"age": 19}, True),
    ("age BETWEEN 15 AND 19", {"age": 17.5}, True),
    ("age BETWEEN 15 AND 19", {"age": 14}, False),
    ("age BETWEEN 15 AND 19", {"age": 20}, False),
    ("age NOT BETWEEN 15 AND 19", {"age": 14}, True),
    ("age NOT BETWEEN 15 AND 19", {"age": 20}, True),
    ("age NOT BETWEEN 15 AND 19", {"age": 15}, False),
    ("age BETWEEN 19 AND 15", {"age": 17}, False),
    ("age NOT BETWEEN 19 AND 15", {"age": 17}, True),
    ("age BETWEEN 15 AND 15", {"age": 15}, True),
    ("age BETWEEN 15 AND 19", {}, False),
    ("age NOT BETWEEN 15 AND 19", {}, False),
    ("age BETWEEN 15 AND 19", {"age": "17"}, False),
    ("age BETWEEN low AND high", {"age": 3, "low": 1, "high": 5}, True),
    ("age BETWEEN low AND 5", {"age": 3}, False),
    ("age NOT BETWEEN low AND 5", {"age": 3}, False),
    ("age BETWEEN low AND 5", {"age": 9}, False),
    ("age NOT BETWEEN low AND 5", {"age": 9}, True),
    ("age BETWEEN 5 AND high", {"age": 3}, False),
    ("age NOT BETWEEN 5 AND high", {"age": 3}, True),
    ("age + 1 BETWEEN 2 * 5 AND 4 * 5", {"age": 9}, True),
    ("age BETWEEN low - 1 AND low + 1", {"age": 4, "low": 5}, True),
    ("5 BETWEEN low AND high", {"low": 1, "high": 9}, True),
    ("age BETWEEN -1 AND 1", {"age": 0}, True),
    ("age BETWEEN 1.5 AND 2.5", {"age": 2}, True),
    ("age BETWEEN 1 AND 3 AND s = 'x'", {"age": 2, "s": "x"}, True),
    ("age BETWEEN 1 AND 3 AND s = 'x'", {"age": 2, "s": "y"}, False),
    ("age BETWEEN 1 AND 3 OR s = 'x'", {"age": 9, "s": "x"}, True),
    ("NOT age BETWEEN 1 AND 3", {"age": 9}, True),
    ("age BETWEEN 1 AND 3 AND low BETWEEN 4 AND 6", {"age": 2, "low": 5}, True),
]

# What a value of another type, or no number, makes of a comparison. x NOT BETWEEN a AND b is
# x < a OR x > b, which is false of unlike types; only = and <> compare strings or Booleans.
UNLIKE: list[Row] = [
    ("age NOT BETWEEN 15 AND 19", {"age": "17"}, False),
    ("age NOT BETWEEN 15 AND 19", {"age": True}, False),
    ("NOT (age NOT BETWEEN 15 AND 19)", {"age": "17"}, True),
    ("NOT (age BETWEEN 15 AND 19)", {"age": "17"}, True),
    ("NOT (age NOT BETWEEN 15 AND 19)", {}, False),
    ("age NOT BETWEEN low AND high", {"age": 3, "low": "1", "high": 5}, False),
    ("age NOT BETWEEN low AND high", {"age": 9, "low": "1", "high": 5}, True),
    ("age NOT BETWEEN low AND high", {"age": "b", "low": "c", "high": "d"}, False),
    ("age BETWEEN low AND high", {"age": "b", "low": "a", "high": "c"}, False),
    ("NOT (age BETWEEN low AND high)", {"age": "b", "low": "a", "high": "c"}, True),
    ("age BETWEEN low AND 5", {"age": True, "low": False}, False),
    ("age + 1 NOT BETWEEN 1 AND 3", {"age": 9}, True),
    ("age + 1 NOT BETWEEN 1 AND 3", {"age": "9"}, False),
    ("a = 1 OR age NOT BETWEEN 15 AND 19", {"a": 1, "age": "x"}, True),
    ("a = 1 AND age NOT BETWEEN 15 AND 19", {"a": 1, "age": "x"}, False),
    *((f"a {op} b", {"a": same, "b": same}, False)
      for op in ("<", "<=", ">", ">=") for same in ("x", True, False)),
    *((f"NOT (a {op} b)", {"a": one, "b": other}, True)
      for op in ("<", "<=", ">", ">=") for one, other in (("x", "y"), (True, False), ("x", 1))),
    *((f"NOT (a {op} b)", message, False)
      for op in ("<", "<=", ">", ">=") for message in ({}, {"a": "x"}, {"b": "x"}, {"a": 1})),
    *((f"a {op} b", {"a": 2, "b": 2.0}, op in ("<=", ">=")) for op in ("<", "<=", ">", ">=")),
    *((f"NOT (a {op} b)", {"a": 2, "b": 2.0}, op in ("<", ">")) for op in ("<", "<=", ">", ">=")),
    ("a <= b AND b <= a", {"a": 3, "b": 3}, True),
    ("a = b", {"a": "x", "b": "x"}, True),
    ("a <> b", {"a": True, "b": False}, True),
    ("a <> b", {"a": True, "b": "x"}, False),
    ("a < b + 1", {"a": 1, "b": 1}, True),
    ("Country NOT IN ('UK', 'US')", {"Country": 5}, False),
    ("Country NOT IN ('UK', 'US')", {"Country": True}, False),
    ("Country NOT IN ('UK', 'US')", {"Country": 2.5}, False),
    ("Country Not In ('1')", {"Country": 1}, False),
    ("NOT Country IN ('UK')", {"Country": 5}, False),
    ("NOT (Country IN ('UK'))", {"Country": 5}, False),
    ("NOT (Country NOT IN ('UK'))", {"Country": 5}, False),
    ("NOT (Country NOT IN ('UK'))", {"Country": "UK"}, True),
    ("NOT (NOT (NOT (Country IN ('UK'))))", {"Country": 5}, False),
    ("NOT (Country IN ('UK') OR a = 1)", {"Country": 5, "a": 2}, False),
    ("NOT (Country IN ('UK') AND a = 1)", {"Country": 5, "a": 2}, True),
    ("NOT (Country IN ('UK') AND a = 1)", {"Country": 5, "a": 1}, False),
    ("(Country IN ('UK')) = (a = 1)", {"Country": 5, "a": 2}, False),
    ("(Country IN ('UK')) <> (a = 1)", {"Country": 5, "a": 1}, False),
    ("Country NOT IN ('UK') AND a = 1", {"Country": "US", "a": 1}, True),
    *((f"s {op} '1%'", {"s": odd}, False)
      for op in ("LIKE", "NOT LIKE") for odd in (12, 1.5, True, False)),
    ("NOT (s LIKE '1%')", {"s": 12}, False),
    ("NOT (s NOT LIKE '1%')", {"s": 12}, False),
    ("NOT (s NOT LIKE '1%')", {"s": "12"}, True),
    ("s NOT LIKE '1!%' ESCAPE '!'", {"s": 12}, False),
    ("NOT (s LIKE '1%' OR a = 1)", {"s": 12, "a": 2}, False),
    ("NOT (s LIKE '1%' AND a = 1)", {"s": 12, "a": 2}, True),
    ("a = 1 OR s NOT LIKE '1%'", {"s": 12, "a": 1}, True),
    ("a = 1 AND s NOT LIKE '1%'", {"s": 12, "a": 1}, False),
    ("a = 1 AND s NOT LIKE '1%'", {"s": "2", "a": 1}, True),
    ("(s LIKE '1%') = (a = 1)", {"s": 12, "a": 2}, False),
    ("(s LIKE '1%') <> (a = 1)", {"s": 12, "a": 1}, False),
]  # fmt: skip

IN: list[Row] = [
    ("Country IN ('UK', 'US', 'France')", {"Country": "UK"}, True),
    ("Country IN ('UK', 'US', 'France')", {"Country": "France"}, True),
    ("Country IN ('UK', 'US', 'France')", {"Country": "Peru"}, False),
    ("Country NOT IN ('UK', 'US', 'France')", {"Country": "UK"}, False),
    ("Country NOT IN ('UK', 'US', 'France')", {"Country": "Peru"}, True),
    ("Country IN ('UK', 'US')", {}, False),
    ("Country NOT IN ('UK', 'US')", {}, False),
    ("NOT (Country IN ('UK', 'US'))", {}, False),
    ("Country IN ('UK')", {"Country": "UK"}, True),
    ("Country IN ('UK')", {"Country": "uk"}, False),
    ("Country IN ('')", {"Country": ""}, True),
    ("Country IN ('it''s', 'x')", {"Country": "it's"}, True),
    ("Country IN ('1', '2')", {"Country": 1}, False),
    ("Country IN ('TRUE')", {"Country": True}, False),
    ("Country IN ('%', '_')", {"Country": "a"}, False),
    ("NOT Country IN ('UK')", {"Country": "US"}, True),
    ("Country IN ('UK') AND a = 1", {"Country": "UK", "a": 1}, True),
    ("Country IN ('UK', 'UK')", {"Country": "UK"}, True),
]

LIKE: list[Row] = [
    ("phone LIKE '12%3'", {"phone": "123"}, True),
    ("phone LIKE '12%3'", {"phone": "12993"}, True),
    ("phone LIKE '12%3'", {"phone": "1234"}, False),
    ("word LIKE 'l_se'", {"word": "lose"}, True),
    ("word LIKE 'l_se'", {"word": "loose"}, False),
    (r"underscored LIKE '\_%' ESCAPE '\'", {"underscored": "_foo"}, True),
    (r"underscored LIKE '\_%' ESCAPE '\'", {"underscored": "bar"}, False),
    ("phone NOT LIKE '12%3'", {"phone": "123"}, False),
    ("phone NOT LIKE '12%3'", {"phone": "12993"}, False),
    ("phone NOT LIKE '12%3'", {"phone": "1234"}, True),
    ("s LIKE '%'", {"s": ""}, True),
    ("s LIKE '%'", {"s": "a\nb"}, True),
    ("s LIKE 'a%b'", {"s": "a\n\r\nb"}, True),
    ("s LIKE ''", {"s": ""}, True),
    ("s LIKE ''", {"s": "a"}, False),
    ("s LIKE '_'", {"s": ""}, False),
    ("s LIKE '_'", {"s": "\n"}, True),
    ("s LIKE '_'", {"s": "𝒳"}, True),
    ("s LIKE '__'", {"s": "𝒳"}, False),
    ("s LIKE '_%_'", {"s": "a"}, False),
    ("s LIKE '_%_'", {"s": "ab"}, True),
    ("s LIKE 'a'", {"s": "A"}, False),
    ("s LIKE 'a'", {"s": "ab"}, False),
    ("s LIKE 'a'", {"s": "ba"}, False),
    ("s LIKE '%a'", {"s": "ba"}, True),
    ("s LIKE '%a%'", {"s": "bab"}, True),
    ("s LIKE '%%'", {"s": ""}, True),
    ("s LIKE '%ab%ab%'", {"s": "xabyab"}, True),
    ("s LIKE '%ab%ab%'", {"s": "xaby"}, False),
    ("s LIKE 'a%'", {}, False),
    ("s NOT LIKE 'a%'", {}, False),
    ("NOT (s LIKE 'a%')", {}, False),
    ("NOT s LIKE 'a%'", {"s": "b"}, True),
    ("s LIKE 'true'", {"s": True}, False),
    # signs of regular expressions are literal
    ("s LIKE 'a.c'", {"s": "abc"}, False),
    ("s LIKE 'a.c'", {"s": "a.c"}, True),
    ("s LIKE 'a*'", {"s": "aaa"}, False),
    ("s LIKE 'a*'", {"s": "a*"}, True),
    ("s LIKE '[ab]'", {"s": "a"}, False),
    ("s LIKE '[ab]'", {"s": "[ab]"}, True),
    ("s LIKE '(a|b)'", {"s": "(a|b)"}, True),
    ("s LIKE '^a$'", {"s": "a"}, False),
    ("s LIKE '^a$'", {"s": "^a$"}, True),
    ("s LIKE 'a+?{2}'", {"s": "a+?{2}"}, True),
    (r"s LIKE '\d'", {"s": "5"}, False),
    (r"s LIKE '\d'", {"s": r"\d"}, True),
    (r"s LIKE '\%'", {"s": r"\anything"}, True),
    # escapes
    ("s LIKE '100!%' ESCAPE '!'", {"s": "100%"}, True),
    ("s LIKE '100!%' ESCAPE '!'", {"s": "100x"}, False),
    ("s LIKE 'a!_b' ESCAPE '!'", {"s": "a_b"}, True),
    ("s LIKE 'a!_b' ESCAPE '!'", {"s": "axb"}, False),
    ("s LIKE '!%%' ESCAPE '!'", {"s": "%abc"}, True),
    ("s LIKE '!%%' ESCAPE '!'", {"s": "abc"}, False),
    ("s LIKE 'a!!b' ESCAPE '!'", {"s": "a!b"}, True),
    ("s LIKE 'a%b' ESCAPE '!'", {"s": "a!b"}, True),
    ("s LIKE 'a''_b' ESCAPE ''''", {"s": "a_b"}, True),
    ("s LIKE 'a''_b' ESCAPE ''''", {"s": "a'xb"}, False),
    ("s LIKE 'a._b' ESCAPE '.'", {"s": "a_b"}, True),
    ("s NOT LIKE '100!%' ESCAPE '!'", {"s": "100x"}, True),
    ("s LIKE 'a!%' ESCAPE '!' AND a = 1", {"s": "a%", "a": 1}, True),
]

IS_NULL: list[Row] = [
    ("prop_name IS NULL", {}, True),
    ("prop_name IS NULL", {"prop_name": None}, True),
    ("prop_name IS NULL", {"prop_name": 0}, False),
    ("prop_name IS NULL", {"prop_name": ""}, False),
    ("prop_name IS NULL", {"prop_name": False}, False),
    ("prop_name IS NOT NULL", {}, False),
    ("prop_name IS NOT NULL", {"prop_name": "x"}, True),
    ("NOT prop_name IS NULL", {"prop_name": "x"}, True),
    ("NOT (prop_name IS NULL)", {}, False),
    ("NOT (prop_name IS NOT NULL)", {}, True),
    ("prop_name IS NULL AND a = 1", {"a": 1}, True),
    ("prop_name IS NULL OR prop_name = 'x'", {"prop_name": "x"}, True),
]

ROWS = [
    *TRUTH_TABLES, *LOGIC, *COMPARISONS, *ARITHMETIC, *LITERALS, *WORDS, *WHOLE,
    *BETWEEN, *UNLIKE, *IN, *LIKE, *IS_NULL,
]  # fmt: skip

# --- what must be refused --------------------------------------------------------

REFUSED = [
    # broken syntax
    "a =", "= 1", "AND", "NOT", "a = 1 AND", "a = 1 OR", "AND a = 1", "a = 1 b = 2",
    "a = 1 AND AND b = 2", "(a = 1", "a = 1)", "()", "a = ()", "(a = 1))", "a 1", "a b", "1 1",
    "a = 1;", "a = 1,", "a NOT = 1", "a = NOT 1", "a = 1 NOT", "a == 1", "a != 1", "a =< 1",
    "a => 1", "a ! = 1", "a < > 1", "a > = 1", "a * = 1", "a + = 1", "a = * 1", "a = 1 +",
    "a ~ 1", "a = 1 /* c */", "a % 2 = 1", "a ^ 2 = 1", "a || 'x' = 'y'", "?", "a = ?", "a = :x",
    "a = #1", "a @ 1", "a = {1}", "a = [1]",
    # the rest of Tamis's language is not this dialect
    'a = "x"', "`a` = 1", "a = 1 & b = 2", "a = 1 | b = 2", "!(a = 1)", "a = 1 ∧ b = 2",
    "a ≠ 1", "a ≤ 1", "a ≥ 1", "¬ a = 1", "a IN [1, 2]", "a ∈ {'x'}", "s CONTAINS 'x'",
    "s WITHIN 'xyz'", "s STARTS WITH 'x'", "s ENDS WITH 'x'", "s ILIKE 'x'", "s MATCHES 'x'",
    "abs(a) = 1", "lower(s) = 'x'", "a DIV 2 = 1", "a.b = 1", "t = TIMESTAMP '2000-02-01'",
    "'x' ⊑ s",
    # literals
    "a = 9223372036854775808", "a = -9223372036854775809", "a = 99999999999999999999",
    "a = -(9223372036854775808)", "a - 9223372036854775808 = 0", "a = 9223372036854775808L",
    "a = 08", "a = 019", "a = 0x", "a = 0xg", "a = 1E", "a = 1E+", "a = .", "a = 1.2.3",
    "a = 1x", "a = 5LL", "a = 1.5L", "a = 1E400", "s = 'x", "s = x'", "s = 'it's'", "s = ''x'",
    "s = '''",
    # identifiers
    "1a = 1", "a-b", "#a = 1", "a# = 1", "@a = 1", "NULL = 1", "null = 1", "AND = 1", "and = 1",
    "OR = 1", "NOT = 1", "BETWEEN = 1", "between = 1", "LIKE = 1", "IN = 1", "IS = 1",
    "ESCAPE = 1", "Escape = 1", "a = NULL", "a <> NULL", "a = like", "a > in",
    # BETWEEN
    "a BETWEEN 1", "a BETWEEN 1 AND", "a BETWEEN 1 OR 2", "a BETWEEN 1, 2", "a BETWEEN AND 2",
    "BETWEEN 1 AND 2", "a BETWEEN (1 AND 2)", "a IS BETWEEN 1 AND 2", "s BETWEEN 'a' AND 'c'",
    "a BETWEEN 1 AND 'c'", "a BETWEEN TRUE AND 2", "'b' BETWEEN 1 AND 2",
    # IN
    "s IN ()", "s IN", "s IN 'x'", "s IN ('x'", "s IN ('x',)", "s IN (,'x')", "s IN ('x' 'y')",
    "IN ('x')", "a IN (1)", "a IN (1, 2)", "s IN ('x', 1)", "s IN (TRUE)", "s IN (x)",
    "s IN (NULL)", "'x' IN ('x')", "5 IN ('5')", "a + 1 IN ('x')", "s IN ('x') IN ('y')",
    "s IN ('a' + 'b')", "s NOT ('x')", "s IN (('x'))",
    # LIKE
    "s LIKE", "LIKE 'x'", "s LIKE x", "s LIKE 5", "s LIKE TRUE", "s LIKE NULL", "5 LIKE '5'",
    "'x' LIKE 'x'", "a + 1 LIKE 'x'", "s LIKE 'x' ESCAPE", "s LIKE 'x' ESCAPE 'ab'",
    "s LIKE 'x' ESCAPE ''", "s LIKE 'x' ESCAPE 5", "s LIKE 'x' ESCAPE y", "s ESCAPE 'x'",
    "s = 'x' ESCAPE '!'", "s LIKE ('x', 'y')", "s LIKE NOT 'x'",
    # IS NULL
    "a IS", "a IS 5", "a IS NOT", "a NOT NULL", "a NOT IS NULL", "IS NULL", "a IS TRUE",
    "a IS NULL NULL", "5 IS NULL", "'x' IS NULL", "TRUE IS NULL", "a + 1 IS NULL",
    "-a IS NULL", "NULL", "NULL IS NULL", "NOT NULL",
    # ordering of strings and booleans
    "s > 'a'", "s >= 'a'", "s < 'a'", "s <= 'a'", "'a' < s", "'a' < 'b'", "flag > TRUE",
    "flag >= FALSE", "flag < TRUE", "flag <= FALSE", "TRUE > flag", "TRUE > FALSE",
    # arithmetic on what is no number
    "s + 'x' = 'y'", "'a' + 'b' = 'ab'", "'1' + 1 = 2", "1 * 'x' = 1", "-'x' = 1", "+'x' = 'x'",
    "TRUE + 1 = 2", "-TRUE = 1", "a / 'x' = 1", "a - FALSE = 1", "(a = 1) + 1 = 2",
    "-(a = 1) = 1",
    # the whole selector, and every operand of AND, OR, NOT, is a condition
    "5", "1.5", "'x'", "(5)", "('x')", "a + 1", "-a", "+5", "a * b", "NOT 5", "NOT 'x'",
    "NOT (a + 1)", "5 AND TRUE", "TRUE AND 5", "a = 1 AND 5", "a = 1 OR 'x'", "'x' OR a = 1",
    "a = 1 AND b + 1",
]  # fmt: skip


@pytest.mark.parametrize(("selector", "properties", "expected"), ROWS)
def test_selector(selector: str, properties: dict[str, Any], expected: bool):
    assert oracle.matches(parse(selector, dialect="jms"), properties, "sql") is expected


# --- every operator on every two types, from the words of section 3.8.1 ----------

SOME = (None, 1, 2, 2.0, -0.5, "x", "y", "", True, False)
Truth = bool | None


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def compared(a: Any, op: str, b: Any) -> Truth:
    """ "Only like type values can be compared"; "string and Boolean comparison is restricted to =
    and <>"; of NULL the result is unknown."""
    if a is None or b is None:
        return None
    if is_number(a) and is_number(b):
        return oracle.COMPARISONS[op](a, b)
    return type(a) is type(b) and op in ("=", "<>") and oracle.COMPARISONS[op](a, b)


def negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def either(*truths: Truth) -> Truth:
    return True if True in truths else None if None in truths else False


def facts(a: Any, b: Any, c: Any) -> dict[str, Truth]:
    """Selectors over a, b and c with what the specification says of them."""
    inside = negated(either(negated(compared(a, ">=", b)), negated(compared(a, "<=", c))))
    outside = either(compared(a, "<", b), compared(a, ">", c))
    within = a in ("x", "y") if isinstance(a, str) else None
    alike = a.startswith("x") if isinstance(a, str) else None
    found = {f"a {op} b": compared(a, op, b) for op in oracle.COMPARISONS}
    found |= {f"a {op} 2": compared(a, op, 2) for op in oracle.COMPARISONS}
    found |= {f"a {op} '{b}'": compared(a, op, str(b)) for op in ("=", "<>")}
    found |= {f"a {op} FALSE": compared(a, op, False) for op in ("=", "<>")}
    return found | {
        "a BETWEEN b AND c": inside,
        "a NOT BETWEEN b AND c": outside,
        "a BETWEEN b AND 2": negated(
            either(negated(compared(a, ">=", b)), negated(compared(a, "<=", 2)))
        ),
        "a NOT BETWEEN 1 AND 2": either(compared(a, "<", 1), compared(a, ">", 2)),
        "a IN ('x', 'y')": within,
        "a NOT IN ('x', 'y')": negated(within),
        "a LIKE 'x%'": alike,
        "a NOT LIKE 'x%'": negated(alike),
        "a IS NULL": a is None,
    }


def test_every_operator_on_every_two_types():
    rows = [
        ({"a": a, "b": b, "c": c}, selector, truth)
        for a in SOME for b in SOME for c in SOME
        for selector, truth in facts(a, b, c).items()
    ]  # fmt: skip
    matcher = Matcher(dialect="jms")
    for selector in dict.fromkeys(selector for _, selector, _ in rows):
        matcher.add(selector, selector)
        matcher.add(f"NOT {selector}", f"NOT ({selector})")
        matcher.add(f"NOT NOT {selector}", f"NOT (NOT ({selector}))")
    messages = list({repr(message): message for message, _, _ in rows}.values())
    found = dict(zip(map(repr, messages), matcher.match_many(messages).to_pylist(), strict=True))
    chosen = {key: set(ids) for key, ids in found.items()}
    for message, selector, truth in rows:
        ids = chosen[repr(message)]
        told = (selector in ids, f"NOT {selector}" in ids, f"NOT NOT {selector}" in ids)
        assert told == (truth is True, truth is False, truth is True), (message, selector)


@st.composite
def nested_facts(draw: st.DrawFn) -> tuple[dict[str, Any], str, Truth]:
    """A message, and a selector of NOT, AND, OR over `facts` with what they make of it."""
    values = st.sampled_from((*SOME, math.nan, math.inf, 2**63 - 1, "𝒳"))
    message = {name: draw(values) for name in "abc"}
    a, b, c = (None if value != value else value for value in message.values())
    known = facts(a, b, c)

    def fact(depth: int) -> tuple[str, Truth]:
        kind = draw(st.sampled_from(("fact", "NOT", "AND", "OR"))) if depth else "fact"
        if kind == "fact":
            return draw(st.sampled_from(list(known.items())))
        left, truth = fact(depth - 1)
        if kind == "NOT":
            return f"NOT ({left})", negated(truth)
        right, other = fact(depth - 1)
        if kind == "OR":
            return f"({left}) OR ({right})", either(truth, other)
        return f"({left}) AND ({right})", negated(either(negated(truth), negated(other)))

    return message, *fact(3)


@settings(max_examples=40)
@given(st.lists(nested_facts(), min_size=1, max_size=20))
def test_nested_facts_hold_in_the_matcher_and_the_oracle(rows: list[tuple[Any, str, Truth]]):
    matcher = Matcher(dialect="jms")
    matcher.add_many((i, selector) for i, (_, selector, _) in enumerate(rows))
    matcher.add_many((-1 - i, f"NOT ({selector})") for i, (_, selector, _) in enumerate(rows))
    messages = [message for message, _, _ in rows]
    batch = matcher.match_many(messages).to_pylist()
    for i, ((message, selector, truth), ids) in enumerate(zip(rows, batch, strict=True)):
        assert (i in ids, -1 - i in ids) == (truth is True, truth is False), (message, selector)
        assert sorted(matcher.match(message)) == sorted(ids)
        for text, due in ((selector, truth), (f"NOT ({selector})", negated(truth))):
            assert oracle.matches(parse(text, dialect="jms"), message, "sql") is (due is True)


def test_the_matcher_says_so_too():
    """All selectors in one matcher, which reads most of them by a shorter way."""
    selectors = list(dict.fromkeys(selector for selector, _, _ in ROWS))
    matcher = Matcher(dialect="jms")
    matcher.add_many(enumerate(selectors))
    messages = [properties for _, properties, _ in ROWS]
    both = zip(ROWS, matcher.match_many(messages).to_pylist(), strict=True)
    for (selector, properties, expected), found in both:
        number = selectors.index(selector)
        assert (number in found) is expected, (selector, properties)
        assert (number in matcher.match(properties)) is expected, (selector, properties)


@pytest.mark.parametrize("selector", REFUSED)
def test_refused(selector: str):
    with pytest.raises(SelectorError):
        parse(selector, dialect="jms")


def test_the_table_says_nothing_twice():
    said = [(selector, repr(properties)) for selector, properties, _ in ROWS]
    assert len(set(said)) == len(said) >= 250
    assert len(set(REFUSED)) == len(REFUSED)
    assert not {selector for selector, *_ in ROWS} & set(REFUSED)


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_de_morgan_holds_with_unknown(left: str, right: str):
    both, either = (f"{OPERANDS[left]} {op} {OPERANDS[right]}" for op in ("AND", "OR"))
    apart = f"NOT {OPERANDS[left]} OR NOT {OPERANDS[right]}"
    for selector in (f"NOT ({both})", apart):
        found = oracle.evaluate(parse(selector, dialect="jms"), {"one": 1})
        assert found is {"T": True, "F": False, "U": None}[NOT[AND[left + right]]]
    found = oracle.evaluate(parse(either, dialect="jms"), {"one": 1})
    assert found is {"T": True, "F": False, "U": None}[OR[left + right]]
