"""Rules over the ten columns of ICSE 2001 that also fit into a table: one bound to a column.

Every rule is a conjunction: ranges of numbers, one text that is equal, one that is contained, one
that is different. A user who joins messages with a table of rules can write just these.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from bench.workloads import icse

Op = Literal[">=", "<", "=", "<>", "CONTAINS"]
Bound = tuple[str, Op, int | float | str]
_LOWS, _HIGHS = (10, 20, 30, 40, 50), (30, 40, 50, 60, 70)
_PARTS = ("a", "b", "aa", "cd")

# The columns of the table of rules: which bound each of them holds.
COLUMNS: dict[str, tuple[str, Op]] = {
    **{f"low_{name}": (name, ">=") for name in ("i1", "i2", "i3", "d1", "d2", "d3")},
    **{f"high_{name}": (name, "<") for name in ("i1", "i2", "i3", "d1", "d2", "d3")},
    **{"same_s1": ("s1", "="), "same_s2": ("s2", "=")},
    **{"part_s3": ("s3", "CONTAINS"), "not_s4": ("s4", "<>")},
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules as bounds; number n has id n."""

    bounds: tuple[tuple[Bound, ...], ...]

    def __len__(self) -> int:
        return len(self.bounds)

    def texts(self) -> Iterator[str]:
        """As selectors."""
        for rule in self.bounds:
            yield " AND ".join(f"{name} {op} {_quoted(value)}" for name, op, value in rule)

    def sql(self) -> Iterator[str]:
        """As conditions of Spark SQL."""
        for rule in self.bounds:
            yield " AND ".join(_sql(*bound) for bound in rule)

    def table(self) -> pa.Table:
        """A row for each rule; a bound that it does not have is null."""
        found: dict[str, list[int | float | str | None]] = {name: [] for name in COLUMNS}
        for rule in self.bounds:
            given = {(name, op): value for name, op, value in rule}
            for column, bound in COLUMNS.items():
                found[column].append(given.get(bound))
        kinds = {"i": pa.int64(), "d": pa.float64(), "s": pa.string()}
        columns = {c: pa.array(v, kinds[COLUMNS[c][0][0]]) for c, v in found.items()}
        return pa.table({"id": pa.array(range(len(self)), pa.int64()), **columns})


def rules(count: int, seed: int = 1) -> Rules:
    chance = random.Random(seed)
    return Rules(tuple(_rule(chance) for _ in range(count)))


def _rule(chance: random.Random) -> tuple[Bound, ...]:
    bounds: list[Bound] = []
    for name in ("i1", "i2", "i3", "d1", "d2", "d3"):
        if chance.random() < 0.5:
            convert = float if name.startswith("d") else int
            low, high = convert(chance.choice(_LOWS)), convert(chance.choice(_HIGHS))
            bounds += [(name, ">=", low)] if chance.random() < 0.7 or low >= high else []
            bounds += [(name, "<", high)] if low < high else []
    bounds.append((chance.choice(("s1", "s2")), "=", chance.choice(icse.ALTERNATIVES)))
    if chance.random() < 0.5:
        bounds.append(("s3", "CONTAINS", chance.choice(_PARTS)))
    if chance.random() < 0.5:
        bounds.append(("s4", "<>", chance.choice(icse.ALTERNATIVES)))
    return tuple(bounds)


def _quoted(value: float | str) -> str:
    return f"'{value}'" if isinstance(value, str) else f"{value}"


def _sql(name: str, op: Op, value: float | str) -> str:
    if op == "CONTAINS":
        return f"contains({name}, {_quoted(value)})"
    return f"{name} {op} {_quoted(value)}{'D' if isinstance(value, float) else ''}"
