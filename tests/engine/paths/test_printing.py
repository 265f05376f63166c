"""Compiled segments as text: golden, and true. The text alone decides what a message matches."""

from __future__ import annotations

import datetime
import random
import re
from pathlib import Path

import pytest

import oracle
from engine.test_ranges import SCHEMA as RANGES
from engine.test_ranges import everything_leads, some_condition, some_message  # noqa: F401
from tamis import Matcher, Schema
from tamis.language import parse
from tamis.logic import SEMANTICS, Semantics

GOLDEN = Path(__file__).parents[2] / "golden"
TRADES = Schema.of(symbol=str, price=float, volume=int)
ALERTS = [f"symbol = 'S{i:02d}' AND price < {i}.5 AND volume <> {i % 2}" for i in range(16)]
EVERYWHERE = [
    "price >= 10 OR symbol CONTAINS 'x' AND volume = 9",
    "symbol IS NULL",
    "volume = 1 AND volume = 2",
    "volume > 3 OR volume <= 3 OR volume IS NULL",
]
WIDE = " OR ".join(f"price > {n} AND price < {n}.5 AND volume = {n}" for n in range(5))
BOXES = [f"price BETWEEN {9 * i} AND {9 * i + 3} AND volume > {i}" for i in range(64)]
CHECKED = [f"price BETWEEN {9 * i} AND {9 * i + 3} AND symbol <> 'n'" for i in range(64)]


def printed(
    selectors: list[str], schema: Schema | None = TRADES, semantics: Semantics = "sql"
) -> str:
    matcher = Matcher(schema, semantics=semantics)
    matcher.add_many((f"s{i}", selector) for i, selector in enumerate(selectors))
    return matcher.compiled()


@pytest.mark.parametrize(
    ("name", "selectors", "semantics"),
    [
        ("segment_clusters", [*ALERTS, *EVERYWHERE, f"symbol = 'S03' AND ({WIDE})"], "sql"),
        ("segment_strict", EVERYWHERE, "strict"),
        ("segment_trees", [*BOXES, *CHECKED], "sql"),
    ],
)
def test_golden(name: str, selectors: list[str], semantics: Semantics) -> None:
    golden = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert printed(selectors, TRADES, semantics) == golden


# --- what the text says ----------------------------------------------------------


FAMILIES = {"a string": str, "a number": (int, float), "a timestamp": datetime.datetime}


def top_level(text: str, word: str) -> list[str]:
    """The parts between ` word `, but for those inside of brackets and quotes."""
    parts, depth, quoted, begin = [], 0, False, 0
    for i, c in enumerate(text):
        quoted ^= c == "'"
        if not quoted:
            depth += (c == "(") - (c == ")")
            if depth == 0 and text.startswith(f" {word} ", i):
                parts.append(text[begin:i])
                begin = i + len(word) + 2
    return [*parts, text[begin:]]


def truth(text: str, message: dict[str, object]) -> bool:
    """Brackets, AND, OR and NOT of two truth values; the oracle judges the atoms, one by one."""
    for word, joined in (("AND", all), ("OR", any)):
        if len(parts := top_level(text, word)) > 1:
            return joined(truth(part, message) for part in parts)
    text = text.removeprefix("then ")
    if text.startswith("NOT (") and text.endswith(")"):
        return not truth(text[5:-1], message)
    if text.startswith("(") and text.endswith(")"):
        return truth(text[1:-1], message)
    if found := re.fullmatch(r"(\w+) is (a \w+)", text):
        value = oracle.attribute(found[1], message)
        return isinstance(value, FAMILIES[found[2]]) and not isinstance(value, bool)
    return oracle.matches(parse(text), message)


class Told:
    """What a printed segment says of a message, line by line."""

    def __init__(self, text: str, message: dict[str, object]) -> None:
        self.message, self.matched = message, set[str]()
        self.fired, self.touched = dict[int, bool](), {0}
        self.here, self.places = False, dict[int, bool]()
        for line in text.splitlines():
            if line.startswith("  ") and self.here:
                self.row(*line[2:].split(": ", 1))
            elif not line.startswith("  "):
                self.head(line)

    def head(self, line: str) -> None:
        if found := re.fullmatch(r"event (\d+): (.*)", line):
            self.fired[int(found[1])] = truth(found[2], self.message)
        elif found := re.fullmatch(r"event (\d+) leads to cluster (.*)", line):
            if self.fired[int(found[1])]:
                self.touched.update(map(int, found[2].split(", ")))
        else:
            kind, number = line.split(" ", 1)
            self.here = kind == "tree" or (kind == "cluster" and int(number) in self.touched)
            self.places = {0: False, 1: True}

    def row(self, head: str, said: str) -> None:
        if head == "all":
            self.here = truth(said, self.message)
        elif head.isdigit():
            self.places[int(head)] = truth(said, self.message)
        elif head.endswith(", shared"):
            self.places[int(head.removesuffix(", shared"))] = self.nodes(said)
        elif "result " in said:
            code, _, needed = said.partition("; needs ")
            self.nodes(code)
            if self.places[int(code.split("result ")[1])] and truth(needed or "TRUE", self.message):
                self.matched.add(head.removeprefix("id ").strip("'"))
        elif truth(said, self.message):
            self.matched.add(head.removeprefix("id ").strip("'"))

    def nodes(self, text: str) -> bool:
        value = False
        for place, test, high, low in re.findall(r"(\d+) = (\d+) \? (\d+) : (\d+)", text):
            value = self.places[int(high if self.places[int(test)] else low)]
            self.places[int(place)] = value
        return value


@pytest.mark.usefixtures("everything_leads")
@pytest.mark.parametrize("semantics", SEMANTICS[:3])
@pytest.mark.parametrize("schema", [RANGES, None], ids=["typed", "untyped"])
def test_the_text_says_what_a_message_matches(schema: Schema | None, semantics: Semantics) -> None:
    rng = random.Random(f"{schema} {semantics}")
    selectors = [some_condition(rng) for _ in range(60)]
    selectors += [f"u = '{chr(97 + i)}' AND i > {i}" for i in range(8)]
    selectors += [
        f"u = 'a' AND ({' OR '.join(f'i = {n} AND j < {n + i}' for n in range(6))})"
        for i in range(3)
    ]
    text = printed(selectors, schema, semantics)
    conditions = {f"s{i}": parse(selector) for i, selector in enumerate(selectors)}
    assert all(word in text for word in ("tree 0", "leads to", "result"))
    for message in (some_message(rng) for _ in range(25)):
        due = {id for id, c in conditions.items() if oracle.matches(c, message, semantics, schema)}
        assert Told(text, message).matched == due, message


def test_shared_parts_are_written_once() -> None:
    shared = " OR ".join(f"price > {n} AND price < {n}.5 AND volume < {n}" for n in range(30))
    selectors = [f"symbol CONTAINS '{i}' AND ({shared})" for i in range(8)]
    text = printed(selectors)
    assert ", shared: " in text
    for price in (0.25, 7.25, 9.75):
        for volume in (0, 3, 7):
            message: dict[str, object] = {"price": price, "volume": volume, "symbol": "137"}
            due = {f"s{i}" for i, s in enumerate(selectors) if oracle.matches(parse(s), message)}
            assert Told(text, message).matched == due
