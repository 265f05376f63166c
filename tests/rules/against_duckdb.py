"""Conditions of SQL, translated, beside what DuckDB says on random rows.

python tests/rules/against_duckdb.py [PAIRS]
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from tamis import Matcher, Schema
from tamis.language import canonical
from tamis.rules import condition

TEXTS = ["", "a", "A", "ab", "aB", "b%c", "b_c", "a'b", "x!y", "abc", "Zz"]
WHOLE = [-7, -1, 0, 1, 2, 3, 10]
REAL = [-2.5, 0.0, 0.5, 2.0, 3.25, 10.0]
PATTERNS = ["a%", "%b", "%b%", "a_", "_", "%", "", "b\\%c", "A%", "%!%%"]
DAYS = ["2020-01-01", "2020-02-29", "2021-07-15"]
TYPES = {"i": "BIGINT", "j": "BIGINT", "x": "DOUBLE", "s": "VARCHAR", "t": "VARCHAR"}
TYPES |= {"b": "BOOLEAN", "ts": "TIMESTAMP", "tags": "VARCHAR[]"}
SCHEMA = Schema.of(
    i=int, j=int, x=float, s=str, t=str, b=bool, ts=datetime.datetime, tags=list[str]
)
Row = dict[str, Any]


def where(random: Random, depth: int = 0) -> str:
    kind = random.choice(["and", "or", "not", "leaf", "leaf", "is"])
    if depth > 2 or kind == "leaf":
        return leaf(random)
    if kind == "not":
        return f"NOT ({where(random, depth + 1)})"
    if kind == "is":
        wanted = random.choice(["TRUE", "FALSE", "NULL"])
        return f"({leaf(random)}) IS {random.choice(['', 'NOT '])}{wanted}"
    left, right = where(random, depth + 1), where(random, depth + 1)
    return f"({left}) {kind.upper()} ({right})"


def leaf(random: Random) -> str:
    kind = random.choice(
        [
            "compare",
            "compare",
            "texts",
            "in",
            "between",
            "like",
            "null",
            "safe",
            "list",
            "date",
            "flag",
        ]
    )
    op = random.choice(["=", "<>", "!=", "<", "<=", ">", ">="])
    no = random.choice(["", "NOT "])
    column = random.choice("st")
    match kind:
        case "compare":
            return f"{number(random)} {op} {number(random)}"
        case "texts":
            return f"{text(random)} {op} {text(random)}"
        case "in":
            if random.random() < 0.5:
                return f"{column} {no}IN ({', '.join(quoted(t) for t in random.sample(TEXTS, 3))})"
            return f"{random.choice('ijx')} {no}IN ({', '.join(map(str, random.sample(WHOLE, 3)))})"
        case "between":
            low, high = random.choice(WHOLE), random.choice(REAL)
            return f"{number(random)} {no}BETWEEN {low} AND {high}"
        case "like":
            word = random.choice(["LIKE", "ILIKE"])
            escape = random.choice(["", "", " ESCAPE '!'", " ESCAPE '\\'"])
            pattern = random.choice(PATTERNS if "!" in escape else PATTERNS[:-1])
            return f"{column} {no}{word} {quoted(pattern)}{escape}"
        case "null":
            return f"{random.choice(list(TYPES))} IS {no}NULL"
        case "safe":
            other = random.choice(["j", "NULL", "2"])
            return f"i IS {no}DISTINCT FROM {other}"
        case "list":
            value = quoted(random.choice(TEXTS))
            return random.choice([f"{value} = ANY(tags)", f"list_contains(tags, {value})"])
        case "date":
            day = random.choice(DAYS)
            return random.choice(
                [f"ts {op} TIMESTAMP '{day}'", f"ts {op} '{day}'", f"year(ts) {op} 2020"]
            )
    return random.choice(["b", "NOT b", "b = TRUE", "b IS NOT TRUE", "starts_with(s, 'a')"])


def number(random: Random, depth: int = 0) -> str:
    kind = random.choice(
        ["i", "j", "x", "whole", "real", "+", "*", "/", "//", "%", "abs", "length"]
    )
    if kind in "ijx":
        return kind
    if depth > 1 or kind in ("whole", "real"):
        return str(random.choice(REAL if kind == "real" else WHOLE))
    if kind == "length":
        return "length(s)"
    if kind == "abs":
        return f"abs({number(random, depth + 1)})"
    if kind == "//":
        return f"(i // {random.choice([2, 3])})"
    right = random.choice([2, 3, 0.5]) if kind in "/%" else number(random, depth + 1)
    left = random.choice("ij") if kind == "%" else number(random, depth + 1)
    return f"({left} {kind} {int(right) or 2 if kind == '%' else right})"


def text(random: Random) -> str:
    kind = random.choice(["s", "t", "constant", "lower", "upper", "substring", "coalesce"])
    if kind in "st":
        return kind
    if kind == "constant":
        return quoted(random.choice(TEXTS))
    if kind == "substring":
        return f"substring(s, {random.choice([1, 2])}, {random.choice([0, 1, 2])})"
    if kind == "coalesce":
        return f"coalesce(s, t, {quoted(random.choice(TEXTS))})"
    return f"{kind}({random.choice('st')})"


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def row(random: Random) -> Row:
    moments = [datetime.datetime.fromisoformat(day) for day in DAYS]
    moments.append(datetime.datetime(2020, 2, 29, 12, 30))
    pools = {"i": WHOLE, "j": WHOLE, "x": REAL, "s": TEXTS, "t": TEXTS, "b": [True, False]}
    values: Row = {name: random.choice(pool) for name, pool in pools.items()}
    values["ts"] = random.choice(moments)
    values["tags"] = random.sample(TEXTS, random.choice([0, 1, 2]))
    return {name: None if random.random() < 0.2 else value for name, value in values.items()}


def compare(pairs: int, seed: int) -> Iterator[str]:
    """What differs, over about so many pairs."""
    random, side = Random(seed), int(pairs**0.5) + 1
    rows = [row(random) for _ in range(side)]
    fields = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "VARCHAR": pa.string()}
    fields |= {
        "BOOLEAN": pa.bool_(),
        "TIMESTAMP": pa.timestamp("us"),
        "VARCHAR[]": pa.list_(pa.string()),
    }
    table = pa.Table.from_pylist(rows, pa.schema([(n, fields[kind]) for n, kind in TYPES.items()]))
    texts = [where(random) for _ in range(side)]
    selectors = [canonical(condition("sql", t, schema=SCHEMA, dialect="duckdb")) for t in texts]
    matcher = Matcher(SCHEMA)
    matcher.add_many(enumerate(selectors))
    ours: list[set[int]] = [set() for _ in texts]
    for number, ids in enumerate(matcher.match_batch(table).to_pylist()):
        for id in ids:
            ours[id].add(number)
    hits, database = 0, duckdb.connect()
    database.register("arrow", table)
    database.execute("CREATE TABLE data AS SELECT row_number() OVER () - 1 AS n, * FROM arrow")
    for given, selector, mine in zip(texts, selectors, ours, strict=True):
        theirs = {n for (n,) in database.execute(f"SELECT n FROM data WHERE {given}").fetchall()}
        hits += len(theirs)
        for number in sorted(theirs ^ mine)[:1]:
            yield f"{given}\n{selector}\n{rows[number]}\nDuckDB says {number in theirs}\n"
    print(f"sql: {len(texts) * len(rows):,} pairs, {hits:,} match")


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if sys.argv[1:] else 10_000
    differing = list(compare(wanted, seed=wanted))
    print(*differing[:4], f"{len(differing):,} conditions differ", sep="\n")
    sys.exit(bool(differing))
