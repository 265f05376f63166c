"""Sigma rules, translated, beside what SQLite says of the queries that pySigma's backend makes.

    python tests/rules/against_sqlite.py [PAIRS]

Texts are ASCII, as SQLite ignores the case of nothing else; text and numbers have columns of
their own, as a column of SQLite converts what it is compared with.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import yaml
from sigma.backends.sqlite import sqliteBackend
from sigma.collection import SigmaCollection

from tamis import Matcher
from tamis.language import canonical
from tamis.rules import condition

TEXTS = ["", "a", "A", "ab", "aB", "cmd.exe", "C:\\Win\\cmd.exe", "/c net use", "-enc x", "10"]
TEXTS += ["x%y", "x_y", "a*b", "a'b", "a b", "[x]", "powershell -w hidden", "net", "AAAA"]
PATTERNS = ["a*", "*b", "?b", "*.exe", "*\\\\cmd.exe", "a\\*b", "x?y", "*", "", "x%y", "n?t*"]
NUMBERS = [-1, 0, 1, 2, 3, 10, 2.5]
REGEXES = ["^a", "b$", "x.y", "[ab]+$", "(?i)CMD", "net|cmd", "\\.exe$", "^$", "a{2,}"]
FIELDS, COUNTS = ["t1", "t2", "t3"], ["n1", "n2"]
Json = dict[str, Any]


def rule(random: Random) -> Json:
    names = ["sel_a", "sel_b", "filter_a", "filter_b"][: random.choice([1, 2, 3, 4])]
    detection: Json = {name: selection(random) for name in names}
    return {
        "title": "random",
        "logsource": {"category": "test"},
        "detection": {**detection, "condition": _condition(random, names)},
    }


def _condition(random: Random, names: list[str], depth: int = 0) -> str:
    kind = random.choice(["name", "not", "and", "or", "of", "all", "them"])
    if kind == "them" and depth == 0:
        return random.choice(["1 of them", "all of them", "not 1 of them"])
    if kind == "of":
        return f"1 of {names[0][:3]}*"
    if kind == "all":
        return f"all of {names[-1][:3]}*"
    if kind == "not" and depth < 3:
        return f"not ({_condition(random, names, depth + 1)})"
    if kind in ("and", "or") and depth < 3:
        left, right = (_condition(random, names, depth + 1) for _ in range(2))
        return f"({left}) {kind} ({right})"
    return random.choice(names)


def selection(random: Random) -> Any:
    maps = [_items(random) for _ in range(random.choice([1, 1, 1, 2]))]
    return maps[0] if len(maps) == 1 else maps


def _items(random: Random) -> Json:
    return dict(_item(random) for _ in range(random.choice([1, 1, 2, 3])))


def _item(random: Random) -> tuple[str, Any]:
    field = random.choice(FIELDS)
    kind = random.choice(
        [
            "plain",
            "plain",
            "pattern",
            "contains",
            "startswith",
            "endswith",
            "all",
            "cased",
            "re",
            "number",
            "compare",
            "null",
            "exists",
            "windash",
            "base64",
            "base64offset",
            "wide",
            "fieldref",
            "neq",
            "flags",
            "cased-contains",
        ]
    )
    some = random.sample(TEXTS, random.choice([1, 1, 2, 3]))
    some = [_escaped(text) for text in some]
    one: Any = some[0] if len(some) == 1 else some
    match kind:
        case "plain":
            return field, one
        case "pattern":
            return field, random.sample(PATTERNS, random.choice([1, 2]))
        case "contains" | "startswith" | "endswith":
            return f"{field}|{kind}", one
        case "all":
            return f"{field}|contains|all", some
        case "cased":
            return f"{field}|cased", one
        case "cased-contains":
            return f"{field}|contains|cased", one
        case "re":
            return f"{field}|re", random.choice(REGEXES)
        case "flags":
            return f"{field}|re|{random.choice('ims')}", random.choice(REGEXES[:4])
        case "number":
            return random.choice(COUNTS), random.sample(NUMBERS, random.choice([1, 2]))
        case "compare":
            op = random.choice(["lt", "lte", "gt", "gte"])
            return f"{random.choice(COUNTS)}|{op}", random.choice(NUMBERS)
        case "neq":
            return f"{field}|neq", one
        case "null":
            return field, None
        case "exists":
            return f"{random.choice(FIELDS + COUNTS)}|exists", random.random() < 0.5
        case "windash":
            return f"{field}|windash|contains", random.choice(["-enc", "/c", "-w hidden"])
        case "base64" | "base64offset":
            return f"{field}|{kind}|contains", random.choice(["ab", "net", "\\\\"])
        case "wide":
            return f"{field}|wide|base64offset|contains", random.choice(["ab", "net"])
    return f"{field}|fieldref", random.choice(FIELDS)


def _escaped(text: str) -> str:
    return re.sub(r"([\\*?])", r"\\\1", text)


def event(random: Random) -> Json:
    row: Json = {name: random.choice(TEXTS) for name in FIELDS if random.random() < 0.75}
    return row | {name: random.choice(NUMBERS) for name in COUNTS if random.random() < 0.75}


def table(events: list[Json]) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.create_function("REGEXP", 2, _regexp, deterministic=True)
    texts = ", ".join(f"{name} TEXT COLLATE NOCASE" for name in FIELDS)
    database.execute(f"CREATE TABLE logs ({texts}, {', '.join(f'{n} NUMERIC' for n in COUNTS)})")
    names = FIELDS + COUNTS
    rows = [[one.get(name) for name in names] for one in events]
    database.executemany(f"INSERT INTO logs VALUES ({', '.join('?' * len(names))})", rows)
    return database


def _regexp(pattern: str, value: object) -> bool:
    return isinstance(value, str) and re.search(pattern, value) is not None


def expected(database: sqlite3.Connection, body: Json) -> set[int]:
    """The numbers of the events that the rule matches."""
    (query,) = sqliteBackend().convert(SigmaCollection.from_dicts([json.loads(json.dumps(body))]))
    query = query.replace("SELECT *", "SELECT rowid - 1", 1)
    return {number for (number,) in database.execute(query)}


def compare(pairs: int, seed: int) -> Iterator[str]:
    """What differs, over about so many pairs."""
    random, side = Random(seed), int(pairs**0.5) + 1
    rules = [rule(random) for _ in range(side)]
    events = [event(random) for _ in range(side)]
    matcher = Matcher()
    texts = [canonical(condition("sigma", json.loads(json.dumps(body)))) for body in rules]
    matcher.add_many(enumerate(texts))
    found = matcher.match_batch(events).to_pylist()
    ours: list[set[int]] = [set() for _ in rules]
    for number, ids in enumerate(found):
        for id in ids:
            ours[id].add(number)
    hits, database = 0, table(events)
    for body, text, mine in zip(rules, texts, ours, strict=True):
        theirs = expected(database, body)
        hits += len(theirs)
        for number in sorted(theirs ^ mine)[:1]:
            shown = yaml.safe_dump(body["detection"])
            yield f"{shown}{text}\n{events[number]}\nSQLite says {number in theirs}\n"
    print(f"sigma: {len(rules) * len(events):,} pairs, {hits:,} match")


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if sys.argv[1:] else 10_000
    differing = list(compare(wanted, seed=wanted))
    print(*differing[:4], f"{len(differing):,} rules differ", sep="\n")
    sys.exit(bool(differing))
