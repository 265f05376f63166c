"""The tamis dialect: text to tree, text to canonical text, and where each node stands."""

from __future__ import annotations

import datetime

import pytest

from tamis.errors import SelectorError
from tamis.language import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Condition,
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
    canonical,
    parse,
)
from tamis.schema import INT_MIN, Scalar

a, b = Attribute("a"), Attribute("b")


def lit(value: Scalar) -> Literal:
    return Literal.of(value)


TREES: list[tuple[str, Condition]] = [
    ("a = 1", Compare(a, "=", lit(1))),
    ("a == 1.0", Compare(a, "=", lit(1.0))),
    ("1 < a", Compare(lit(1), "<", a)),
    ("a <> b", Compare(a, "<>", b)),
    ("a", Compare(a, "=", lit(True))),
    ("(a)", Compare(a, "=", lit(True))),
    ("f(a)", Compare(Call("f", (a,)), "=", lit(True))),
    ("TRUE", Constant(True)),
    ("NOT false", Not(Constant(False))),
    ("", Constant(True)),
    (" \t\n", Constant(True)),
    ("a = TRUE", Compare(a, "=", lit(True))),
    ("TRUE = a", Compare(lit(True), "=", a)),
    ("a BETWEEN 1 AND b", Between(a, lit(1), b)),
    ("a NOT BETWEEN 1 AND 2", Not(Between(a, lit(1), lit(2)))),
    ("a IN [1, b + 1]", Between(a, lit(1), Arithmetic("+", b, lit(1)))),
    ("a ∈ [1, 2]", Between(a, lit(1), lit(2))),
    ("a IN (1, -2.5, 'x', TRUE)", In(a, (lit(1), lit(-2.5), lit("x"), lit(True)))),
    ("a NOT IN ('x')", Not(In(a, (lit("x"),)))),
    ("a ∈ {GM, BMW, 'V W', 7, x.y}", In(a, tuple(map(lit, ("GM", "BMW", "V W", 7, "x.y"))))),
    ("a IN {in, or, true}", In(a, (lit("in"), lit("or"), lit(True)))),
    ("a LIKE 'x%'", Like(a, "x%")),
    ("a NOT LIKE 'x!%' ESCAPE '!'", Not(Like(a, "x!%", "!"))),
    ("a ILIKE 'X%'", Like(a, "X%", any_case=True)),
    ("a ILIKE 'XYX%' ESCAPE 'X'", Like(a, "XYX%", "X", any_case=True)),
    ("a ILIKE 'A!_' ESCAPE '!'", Like(a, "A!_", "!", any_case=True)),
    ("a MATCHES '^x+'", Regex(a, "^x+")),
    ("a CONTAINS 'x'", Text(a, "CONTAINS", lit("x"))),
    ("a NOT STARTS WITH b", Not(Text(a, "STARTS WITH", b))),
    ("a ends  with 'x'", Text(a, "ENDS WITH", lit("x"))),
    ("a WITHIN 'text'", Text(a, "WITHIN", lit("text"))),
    ("a ⊑ 'text'", Text(a, "WITHIN", lit("text"))),
    ("'PC' ⊑ a", Text(a, "CONTAINS", lit("PC"))),
    ("a ⊑ b", Text(a, "WITHIN", b)),
    ("a IS NULL", IsNull(a)),
    ("a + 1 IS NOT NULL", Not(IsNull(Arithmetic("+", a, lit(1))))),
    ("a = ⊥", IsNull(a)),
    ("⊥ ≠ a", Not(IsNull(a))),
    ("(a > 1) = TRUE", Compare(a, ">", lit(1))),
    ("FALSE = (a > 1)", Not(Compare(a, ">", lit(1)))),
    ("(a > 1) <> TRUE", Not(Compare(a, ">", lit(1)))),
    ("a > -5", Compare(a, ">", lit(-5))),
    ("a > --5", Compare(a, ">", lit(5))),
    ("a > -(5)", Compare(a, ">", lit(-5))),
    ("a > +5", Compare(a, ">", lit(5))),
    ("a > - 5", Compare(a, ">", lit(-5))),
    ("a > -b", Compare(a, ">", Negate(b))),
    ("a > -9223372036854775808", Compare(a, ">", lit(INT_MIN))),
    ("a > - -9223372036854775808", Compare(a, ">", lit(INT_MIN))),
    ("a = 9223372036854775807", Compare(a, "=", lit(2**63 - 1))),
    ("a = 9223372036854775808.0", Compare(a, "=", lit(2.0**63))),
    ("a = 007", Compare(a, "=", lit(7))),
    ("a = 'it''s'", Compare(a, "=", lit("it's"))),
    ('a = "say ""x"" \\n"', Compare(a, "=", lit('say "x" \\n'))),
    ("a = ''", Compare(a, "=", lit(""))),
    ("`odd ``name` = 1", Compare(Attribute("odd `name"), "=", lit(1))),
    ("x.`y z`.in = 1", Compare(Attribute("x.y z.in"), "=", lit(1))),
    ("`AND` = 1", Compare(Attribute("AND"), "=", lit(1))),
    ("Größe = 1", Compare(Attribute("Größe"), "=", lit(1))),
    ("नाम_1 = 1", Compare(Attribute("नाम_1"), "=", lit(1))),
    ("$1 = 1", Compare(Attribute("$1"), "=", lit(1))),
    ("contains CONTAINS with", Text(Attribute("contains"), "CONTAINS", Attribute("with"))),
    ("div DIV timestamp > 1", Compare(
        Arithmetic("DIV", Attribute("div"), Attribute("timestamp")), ">", lit(1))),
    ("LOWER(a) = upper('x')", Compare(Call("lower", (a,)), "=", Call("upper", (lit("x"),)))),
    ("NYSEdb(a, b) = now()", Compare(Call("NYSEdb", (a, b)), "=", Call("now", ()))),
    ("a = 1 AND (b = 2 AND a = 3)", And((
        Compare(a, "=", lit(1)), Compare(b, "=", lit(2)), Compare(a, "=", lit(3))))),
    ("a = 1 OR b = 2 AND NOT a = 3", Or((Compare(a, "=", lit(1)), And((
        Compare(b, "=", lit(2)), Not(Compare(a, "=", lit(3)))))))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tree"), TREES, ids=[text for text, _ in TREES])
def test_text_to_tree_and_back(text: str, tree: Condition) -> None:
    assert parse(text) == tree
    assert parse(canonical(tree)) == tree


CANONICAL = [
    ("a<1&b>=2|!(c≠3)", "a < 1 AND b >= 2 OR NOT c <> 3"),
    ("a ≤ 1 ∧ (b ≥ 2 ∨ ¬ c != 3)", "a <= 1 AND (b >= 2 OR NOT c <> 3)"),
    ("a = 1 && b = 2 || c", "a = 1 AND b = 2 OR c = TRUE"),
    ("[a = 1 or b = 2] and c = 3", "(a = 1 OR b = 2) AND c = 3"),
    ("not not a", "NOT NOT a = TRUE"),
    ("not (a and b)", "NOT (a = TRUE AND b = TRUE)"),
    ("not a in (1)", "a NOT IN (1)"),
    ("a - (b - c) - d > 0", "a - (b - c) - d > 0"),
    ("a - b - c > 0", "a - b - c > 0"),
    ("(a + b) * -(c * d) > 0", "(a + b) * -(c * d) > 0"),
    ("a / (b * c) / d DIV 2 > 0", "a / (b * c) / d DIV 2 > 0"),
    ("-(-a) > - (b)", "-(-a) > -b"),
    ("a = 1E3 OR a = 7. OR a = .5 OR a = 1e-7", "a = 1000.0 OR a = 7.0 OR a = 0.5 OR a = 1e-07"),
    ("div = `with` ", "`div` = `with`"),
    ("DATE '2000-02-01' < date", "TIMESTAMP '2000-02-01' < date"),
    ("a IN (date '2000-02-01')", "a IN (TIMESTAMP '2000-02-01')"),
    ("a % 2 * 3 = (b + 1) % c", "a % 2 * 3 = (b + 1) % c"),
    ("Substring(a, 1, 2) = NVL(b, 'x')", "substr(a, 1, 2) = coalesce(b, 'x')"),
    ("timestamp '2000-02-01' < a", "TIMESTAMP '2000-02-01' < a"),
    ("a > TIMESTAMP '2000-02-01 10:30'", "a > TIMESTAMP '2000-02-01T10:30:00Z'"),
    ("a > TIMESTAMP '2000-02-01T01:30:00.5+02:00'", "a > TIMESTAMP '2000-01-31T23:30:00.500000Z'"),
    ("(a = 1) = (b = 2)", "a = 1 AND b = 2 OR NOT a = 1 AND NOT b = 2"),
    ("(a = 1) <> (b = 2)", "a = 1 AND NOT b = 2 OR NOT a = 1 AND b = 2"),
    ("(a = 1) <> b", "a = 1 AND b <> TRUE OR NOT a = 1 AND b <> FALSE"),
    ("f(a) = (b IS NULL)", "f(a) = TRUE AND b IS NULL OR f(a) = FALSE AND b IS NOT NULL"),
    ("a NOT MATCHES 'x' AND a NOT CONTAINS 'y'", "a NOT MATCHES 'x' AND a NOT CONTAINS 'y'"),
    ("a NOT WITHIN 'x' AND a NOT ENDS WITH 'y'", "a NOT WITHIN 'x' AND a NOT ENDS WITH 'y'"),
]


@pytest.mark.parametrize(("text", "expected"), CANONICAL)
def test_canonical(text: str, expected: str) -> None:
    assert canonical(parse(text)) == expected
    assert parse(expected) == parse(text)


def test_a_term_has_a_text_too() -> None:
    assert canonical(Arithmetic("*", Arithmetic("+", a, b), lit(2))) == "(a + b) * 2"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2000-02-01", (2000, 2, 1)),
        ("0001-01-01", (1, 1, 1)),
        ("2000-02-01 23:59", (2000, 2, 1, 23, 59)),
        ("2000-02-01T23:59:58.000001Z", (2000, 2, 1, 23, 59, 58, 1)),
        ("2000-02-01T23:59:58.12-01:30", (2000, 2, 2, 1, 29, 58, 120000)),
    ],
)
def test_timestamps(text: str, moment: tuple[int, ...]) -> None:
    expected = datetime.datetime(*moment, tzinfo=datetime.UTC)  # type: ignore[arg-type, misc]
    condition = parse(f"a = TIMESTAMP '{text}'")
    assert condition == Compare(a, "=", lit(expected))
    assert parse(canonical(condition)) == condition


def test_keywords_in_other_scripts_are_names() -> None:
    assert parse("ıN = 1") == Compare(Attribute("ıN"), "=", lit(1))
    for text in ("a LI\u212aE 'x'", "a ı\u0307N (1)", "a CONTAIN\u017f 'x'"):
        with pytest.raises(SelectorError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("  a > 5", {"Compare": 2, "Attribute": 2, "Literal": 6}),
        ("1 = 1 AND NOT (lower( a ) = 'x')", {"Not": 10, "Call": 15, "Attribute": 22}),
        ("a + 1 IN (7)", {"In": 0, "Arithmetic": 0}),
        ("x=1 and y not between 3 and 4", {"Between": 8, "Not": 8}),
    ],
)
def test_every_node_knows_where_it_stands(text: str, places: dict[str, int]) -> None:
    found = dict(_places(parse(text)))
    assert places.items() <= found.items()


def _places(node: object) -> list[tuple[str, int]]:
    from dataclasses import fields, is_dataclass

    here = []
    if isinstance(node, tuple):
        for part in node:
            here += _places(part)
    elif is_dataclass(node):
        here.append((type(node).__name__, node.at))  # type: ignore[attr-defined]
        for field in fields(node):
            here += _places(getattr(node, field.name))
    return here
