"""Conditions of SQL: what each construct becomes, what is refused, and DuckDB as a judge."""

from __future__ import annotations

import json

import pytest

from rules.against_duckdb import compare
from tamis import InputError, RuleError, Schema
from tamis.cli import main
from tamis.language import canonical
from tamis.rules import condition, import_rules


def text(sql, dialect=None, **options):
    return canonical(condition("sql", sql, dialect=dialect, **options))


@pytest.mark.parametrize(
    ("dialect", "sql", "selector"),
    [
        (None, "price < 10 AND NOT company = 'IBM'", "price < 10 AND NOT company = 'IBM'"),
        (None, "a <> -1.5 OR (b IN (1, 2))", "a <> -1.5 OR b IN (1, 2)"),
        (None, "a NOT IN ('x', b)", "NOT (a = 'x' OR a = b)"),
        (None, "a NOT BETWEEN 1 AND 2", "a NOT BETWEEN 1 AND 2"),
        (None, "b IS NOT NULL", "b IS NOT NULL"),
        (None, "a LIKE 'x!%%' ESCAPE '!'", "a LIKE 'x!%%' ESCAPE '!'"),
        (None, "flag AND NOT done", "flag = TRUE AND NOT done = TRUE"),
        (None, "flag IS NOT TRUE", "flag IS NULL OR NOT flag = TRUE"),
        (None, "(a > 1) IS NULL", "(a IS NULL OR NOT a > 1) AND (a IS NULL OR a > 1)"),
        (None, "order_.price * 2 > 1 + b % 3", "order_.price * 2 > 1 + b % 3"),
        (None, "lower(trim(a)) = 'x' AND length(b) > 2", "lower(trim(a)) = 'x' AND length(b) > 2"),
        (None, "coalesce(a, b) = 1", "coalesce(a, b) = 1"),
        (None, "substring(a, 2, 3) = 'x'", "substr(a, 2, 3) = 'x'"),
        (None, "ts >= DATE '2020-02-29'", "ts >= TIMESTAMP '2020-02-29'"),
        (None, "SELECT * FROM trades t WHERE t.price > 1", "price > 1"),
        (None, "SELECT * FROM trades", "TRUE"),
        (None, "a IS NOT DISTINCT FROM b",
         "a IS NOT NULL AND b IS NOT NULL AND a = b OR a IS NULL AND b IS NULL"),
        ("postgres", "a ~* '^x' AND 'y' = ANY(tags)", "a MATCHES '(?i)^x' AND any(tags) = 'y'"),
        ("postgres", r"a LIKE '5\%%'", r"a LIKE '5\%%' ESCAPE '\'"),
        ("postgres", "7 / 2 = 3 AND x / 0.5 > 1", "7 DIV 2 = 3 AND x / 0.5 > 1"),
        ("spark", "a RLIKE 'x' AND array_contains(tags, 'y')", "a MATCHES 'x' AND any(tags) = 'y'"),
        ("spark", "a <=> 1", "a IS NOT NULL AND a = 1"),
        ("spark", "a / 2 > 1", "a / 2 > 1"),
        ("sqlite", "a LIKE 'X%'", "a ILIKE 'X%'"),
        ("bigquery", "STARTS_WITH(a, 'x')", "a STARTS WITH 'x'"),
        ("snowflake", "CONTAINS(a, 'x')", "a CONTAINS 'x'"),
    ],
)  # fmt: skip
def test_a_condition_becomes(dialect, sql, selector):
    assert text(sql, dialect) == selector


def test_texts_under_a_collation():
    with pytest.raises(RuleError, match="say binary or nocase"):
        text("a = 'x'", "mysql")
    assert text("a = 'x' AND n = 1", "mysql", collation="binary") == "a = 'x' AND n = 1"
    nocase = text("a = 'X' AND b LIKE 'Y%'", "mysql", collation="nocase")
    assert nocase == "casefold(a) = casefold('X') AND b ILIKE 'Y%'"


def test_a_schema_tells_types_and_names():
    schema = Schema.of(Price=int, ts="timestamp", tags=list[str])
    assert text("PRICE / 2 = 1", "postgres", schema=schema) == "Price DIV 2 = 1"
    assert text("ts > '2020-01-01'", schema=schema) == "ts > TIMESTAMP '2020-01-01'"
    for sql, construct in [
        ("other = 1", "unknown attribute"),
        ("tags = 'a'", "an array as a value"),
    ]:
        with pytest.raises(RuleError) as caught:
            text(sql, schema=schema)
        assert caught.value.construct == construct


@pytest.mark.parametrize(
    ("dialect", "sql", "construct"),
    [
        (None, "a = NULL", "a comparison with NULL"),
        (None, "a IN (1, NULL)", "a comparison with NULL"),
        (None, "a IN (SELECT b FROM c)", "in with query"),
        (None, "EXISTS (SELECT 1)", "exists"),
        (None, "CASE WHEN a THEN b END", "case"),
        (None, "a || b = 'x'", "dpipe"),
        (None, "f(a) = 1", "anonymous"),
        (None, "CAST(a AS INT) = 1", "CAST to INT"),
        (None, "a LIKE b", "a pattern that is no constant"),
        (None, r"a LIKE 'x\%'", "a backslash in a pattern without a dialect"),
        (None, "a = ?", "placeholder"),
        (None, "a + 1", "add"),
        (None, "SELECT a FROM b JOIN c ON b.x = c.x WHERE a = 1", "a SELECT with joins"),
        (None, "SELECT a FROM b WHERE a = 1 GROUP BY a", "a SELECT with group"),
        (None, "SELECT 1; SELECT 2", "statement"),
        (None, "DROP TABLE x", "SQL"),
        (None, "a = ", "SQL"),
        (None, "", "form"),
        (None, "a = 'x", "SQL"),
        (None, "a = 99999999999999999999999", "number"),
        (None, "ts = TIMESTAMP '2020-02-30'", "timestamp"),
        ("postgres", "a BETWEEN SYMMETRIC 2 AND 1", "between with symmetric"),
        ("postgres", "a / 2 > 1", "/ of what may be whole numbers (a schema tells)"),
        ("snowflake", "RLIKE(a, 'x')", "regexplike with full_match"),
        ("mysql", "length(a) = 1", "length with binary"),
        ("tsql", "a LIKE '[a-z]%'", "LIKE with brackets"),
        ("sqlite", "a GLOB 'x*'", "glob"),
        ("duckdb", "a ~ 'x'", "~ and regexp_matches, which sqlglot does not tell apart,"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(dialect, sql, construct):
    with pytest.raises(RuleError) as caught:
        text(sql, dialect, collation="binary")
    assert caught.value.construct == construct


@pytest.mark.parametrize(
    "sql", ["(" * 3000 + "a" + ")" * 3000, "NOT " * 3000 + "a", "a" * 2_000_000]
)
def test_hostile_conditions_are_refused(sql):
    with pytest.raises(RuleError):
        text(sql)


def test_there_is_no_such_dialect():
    with pytest.raises(InputError, match="basic"):
        text("a = 1", "basic")


def test_files(tmp_path):
    (tmp_path / "cheap.sql").write_text("price < 10")
    rows = [{"id": 7, "where": "a = 1", "Owner": "ann", "tags": ["x"]}, {"id": "n", "note": "?"}, 5]
    (tmp_path / "rules.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "more.csv").write_text("name,condition,severity\nbob,b = 'x',high\n")
    imported = import_rules("sql", tmp_path)
    assert [(rule.id, rule.selector) for rule in imported.rules] == [
        ("cheap", "price < 10"), ("bob", "b = 'x'"), ("7", "a = 1"),
    ]  # fmt: skip
    assert imported.rules[1].about.level == "high"
    assert imported.rules[2].about.owner == "ann"
    assert [one.construct for one in imported.refused] == ["no condition", "form"]


def test_the_command_takes_a_dialect(tmp_path, capfd):
    file = tmp_path / "a.sql"
    file.write_text("a RLIKE 'x'")
    assert main(["import", "sql", str(file), "--sql-dialect", "spark"]) == 0
    assert "a MATCHES 'x'" in capfd.readouterr().out
    assert main(["import", "sql", str(file), "--sql-dialect", "basic"]) == 2


def test_pairs_with_duckdb():
    assert list(compare(2_500, seed=28)) == []
