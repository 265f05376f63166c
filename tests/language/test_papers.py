"""Every selector printed in the papers parses, and says what the paper says."""

from __future__ import annotations

import pytest

from tamis.language import attributes, canonical, parse

PRINTED = {
    "icse2001_section_3_cars": (
        "car ∈ {GM, BMW, VW} AND name ∈ {Liz, Bob, Al} AND (year < 78 OR year = 80 OR year > 90)",
        "car IN ('GM', 'BMW', 'VW') AND name IN ('Liz', 'Bob', 'Al')"
        " AND (year < 78 OR year = 80 OR year > 90)",
    ),
    "icse2001_example_4_sales": (
        'company ∈ {"IBM", "Dell", "Siemens"} AND "PC" ⊑ product AND "1000Mhz" ⊑ product'
        " AND price ≤ 1000",
        "company IN ('IBM', 'Dell', 'Siemens') AND product CONTAINS 'PC'"
        " AND product CONTAINS '1000Mhz' AND price <= 1000",
    ),
    "icse2001_example_5_alice_and_bob": (
        "price < 1000 OR price > 500",
        "price < 1000 OR price > 500",
    ),
    "icse2001_semantic_adequacy": (
        "y AND (x OR ¬x)",
        "y = TRUE AND (x = TRUE OR NOT x = TRUE)",
    ),
    "icse2001_bottom": ("v ≠ ⊥", "v IS NOT NULL"),
    "icse2001_example_8": ("x AND (y OR z)", "x = TRUE AND (y = TRUE OR z = TRUE)"),
    "icse2001_example_11_q1": (
        'price < 1500 AND "IBM" ⊑ company',
        "price < 1500 AND company CONTAINS 'IBM'",
    ),
    "us7136899_s1": ("a>5 and b>3", "a > 5 AND b > 3"),
    "us7136899_equation_5_form": ("(A) AND (B) AND (C)", "A = TRUE AND B = TRUE AND C = TRUE"),
    "us7136899_equation_7": (
        "(Symbol=\"MSFT\") AND (Price>=95.00) AND (Date>=TIMESTAMP '2000-02-01')",
        "Symbol = 'MSFT' AND Price >= 95.0 AND Date >= TIMESTAMP '2000-02-01'",
    ),
    "us7136899_equation_20": (
        "[(x=3) AND (y>1) AND (y<4)] OR (x=5)",
        "x = 3 AND y > 1 AND y < 4 OR x = 5",
    ),
    "us7136899_equation_21": (
        "[(x=2) AND (y=3)] OR [(x>4) AND (y>2)] OR (Z>4)",
        "x = 2 AND y = 3 OR x > 4 AND y > 2 OR Z > 4",
    ),
    "us6910033_table_2": ("(Symbol == SNE) & (Price > 55)", "Symbol = SNE AND Price > 55"),
    "us6910033_table_16_quote": (
        'sub = "quote.optimist" & ( ($1 > 5 & $2 = "LU") | ($1 > 30 & $2 = "T"))',
        "sub = 'quote.optimist' AND ($1 > 5 AND $2 = 'LU' OR $1 > 30 AND $2 = 'T')",
    ),
    "us6910033_table_16_sony": (
        '( sub = "sony.music" | sub = "sony.movie" ) & $1 > 30 & $4 = "Beethoven"',
        "(sub = 'sony.music' OR sub = 'sony.movie') AND $1 > 30 AND $4 = 'Beethoven'",
    ),
    "us6910033_table_16_ratings": (
        'sub = "movie.ratings" & ($1 > 1999 | $2 = "Kurosawa") & $3 = "**"',
        "sub = 'movie.ratings' AND ($1 > 1999 OR $2 = 'Kurosawa') AND $3 = '**'",
    ),
    "gryphon_section_2_select": (
        '(issue="IBM" & price < 120 & volume > 1000)',
        "issue = 'IBM' AND price < 120 AND volume > 1000",
    ),
    "gryphon_figure_2_capital": (
        "price * volume > 1000000 AND NYSEdb(issue) = 'IBM'",
        "price * volume > 1000000 AND NYSEdb(issue) = 'IBM'",
    ),
}


@pytest.mark.parametrize("name", PRINTED)
def test_printed_selector(name: str) -> None:
    text, expected = PRINTED[name]
    assert canonical(parse(text)) == expected
    assert parse(expected) == parse(text)


def test_icse2001_var_of_a_query_is_syntactic() -> None:
    assert attributes(parse("y AND (x OR ¬x)")) == ("y", "x")
