"""Sets that no equality leads into: texts, terms, many attributes, no schema. And real rules.

The real rules and events are not part of the repository. TAMIS_BENCH_DATA names a folder with
`detection_rules_half.jsonl.gz` (id, selector) and `windows_events.jsonl.gz` (one message a line).
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tamis import Schema

LETTERS = "abcdefghijklmnopqrstuvwxyz"
RULES, EVENTS = "detection_rules_half.jsonl.gz", "windows_events.jsonl.gz"


class Workload(NamedTuple):
    schema: Schema | None
    selectors: list[str]
    table: pa.Table


def real() -> tuple[list[tuple[str, str]], list[dict[str, Any]]] | None:
    """The real rules and events, where TAMIS_BENCH_DATA leads to them."""
    folder = os.environ.get("TAMIS_BENCH_DATA")
    if not folder or not all((Path(folder) / name).exists() for name in (RULES, EVENTS)):
        return None
    rules, events = (_lines(Path(folder) / name) for name in (RULES, EVENTS))
    return [(rule["id"], rule["selector"]) for rule in rules], events


def _lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def as_table(events: list[dict[str, Any]]) -> pa.Table:
    """Events as columns; each column has the type that most of its values have."""
    names = sorted({name for event in events for name in event})
    return pa.table({name: _column([event.get(name) for event in events]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    numbers = sum(isinstance(v, int) for v in values)
    kind = int if numbers > sum(isinstance(v, str) for v in values) else str
    held = [v if isinstance(v, kind) else None for v in values]
    return pa.array(held, pa.int64() if kind is int else pa.string())


def _words(chance: random.Random, count: int, size: int) -> list[str]:
    return ["".join(chance.choices(LETTERS, k=size)) for _ in range(count)]


def _lines_of(chance: random.Random, words: list[str], count: int) -> pa.Table:
    return pa.table({"t": [" ".join(chance.choices(words, k=10)) for _ in range(count)]})


def like_underscore(size: float, chance: random.Random) -> Workload:
    words = _words(chance, int(20_000 * size), 4)
    selectors = [f"t LIKE '%{w[0]}_{w[2:]}%'" for w in words]
    return Workload(Schema.of(t=str), selectors, _lines_of(chance, words, 8192))


def contains_short(size: float, chance: random.Random) -> Workload:
    pairs = [a + b for a in LETTERS for b in LETTERS]
    selectors = [
        f"t CONTAINS '{chance.choice(pairs)}' AND t CONTAINS '{chance.choice(pairs)}'"
        for _ in range(int(50_000 * size))
    ]
    table = pa.table({"t": ["".join(chance.choices(LETTERS, k=200)) for _ in range(8192)]})
    return Workload(Schema.of(t=str), selectors, table)


def within(size: float, chance: random.Random) -> Workload:
    words = _words(chance, 5_000, 5)
    selectors = [
        f"t WITHIN '{' '.join(chance.choices(words, k=10))}'" for _ in range(int(20_000 * size))
    ]
    return Workload(Schema.of(t=str), selectors, pa.table({"t": chance.choices(words, k=8192)}))


def arithmetic(size: float, chance: random.Random) -> Workload:
    rng = np.random.default_rng(5)
    selectors = [f"a * {i}.5 + b > {chance.uniform(0, 1e4):.2f}" for i in range(int(10_000 * size))]
    table = pa.table({name: rng.uniform(0, 100, 8192) for name in "ab"})
    return Workload(Schema.of(a=float, b=float), selectors, table)


def attribute_pairs(size: float, chance: random.Random) -> Workload:
    rng = np.random.default_rng(5)
    names = [f"c{i}" for i in range(60)]
    selectors = [
        f"{chance.choice(names)} < {chance.choice(names)} AND {chance.choice(names)} > "
        f"{chance.random():.4f}"
        for _ in range(int(20_000 * size))
    ]
    table = pa.table({name: rng.uniform(0, 1, 8192) for name in names})
    return Workload(Schema.of(dict.fromkeys(names, float)), selectors, table)


def wide(size: float, chance: random.Random) -> Workload:
    rng = np.random.default_rng(5)
    names = {f"c{i}": float if i % 2 else str for i in range(500)}
    selectors = [
        f"c{2 * chance.randrange(250)} = 'v{chance.randrange(1000)}' AND "
        f"c{2 * chance.randrange(250) + 1} < {chance.random():.4f}"
        for _ in range(int(100_000 * size))
    ]
    values = [f"v{i}" for i in range(1000)]
    columns = {
        name: rng.uniform(0, 1, 2048) if kind is float else chance.choices(values, k=2048)
        for name, kind in names.items()
    }
    return Workload(Schema.of(names), selectors, pa.table(columns))


def many_attributes(size: float, chance: random.Random) -> Workload:
    selectors = [f"k{i} = 1" for i in range(int(20_000 * size))]
    return Workload(None, selectors, pa.table({"k0": [1] * 4096, "k1": [1] * 4096}))


def alerts(size: float, chance: random.Random, schema: Schema | None) -> Workload:
    rng = np.random.default_rng(5)
    symbols = [f"S{i}" for i in range(5_000)]
    selectors = [
        f"sym = '{chance.choice(symbols)}' AND price < {chance.uniform(0, 1000):.2f}"
        for _ in range(int(200_000 * size))
    ]
    rows = int(262_144 * min(1.0, 4 * size))
    prices = rng.uniform(0, 1000, rows)
    return Workload(
        schema, selectors, pa.table({"sym": chance.choices(symbols, k=rows), "price": prices})
    )


SETS: dict[str, Callable[[float, random.Random], Workload]] = {
    "LIKE with _ (20,000)": like_underscore,
    "CONTAINS of two letters (50,000)": contains_short,
    "WITHIN (20,000)": within,
    "arithmetic terms (10,000)": arithmetic,
    "attribute against attribute (20,000)": attribute_pairs,
    "500 attributes (100,000)": wide,
}
