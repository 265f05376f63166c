"""Flows in which many paths share arcs, and 80 orders and returns that pass through them."""

from __future__ import annotations

import json
import random
from pathlib import Path

LEVELS = 5  # of spaces, one after the other
MESSAGES = 80  # half of them orders, half of them returns

_ATTRIBUTES = "id: int, customer: string, region: string, amount: double, units: int, at: timestamp"
_SOURCES = f"space Orders({_ATTRIBUTES})\nspace Returns({_ATTRIBUTES})\n"
ONE_ARC = _SOURCES + "Orders -> Large : select amount > 10\n"

# Seven spaces and eight arcs. One path into Alerts has 2 * 4 * 3 * 3 cases.
SHARED = (
    _SOURCES
    + """
Orders  -> Moves : [amount, units, ...] => [value := amount * units, units, ...]
Returns -> Moves : [amount, units, ... when units > 5] => [value := -amount * units, units := -units, ...]
    | [amount, units, ...] => [value := -amount, units := -units, ...]
Moves -> Banded : [id, value, region, ... when value > 1000] => [id, band := 'high', weight := value * 0.9, region]
    | [id, value, region, ... when value > 100] => [id, band := 'mid', weight := value * 0.95, region]
    | [id, value, region, ... when value > 0] => [id, band := 'low', weight := value, region]
    | [id, value, region, ...] => [id, band := 'back', weight := -value / 2, region]
Banded -> Scored : [band, region, weight, ... when band = 'high'] => [band, region, score := weight * 2 + 1, ...]
    | [band, region, weight, ... when band = 'mid' AND region <> 'EU'] => [band, region, score := weight * 1.5, ...]
    | [band, region, weight, ...] => [band, region, score := weight, ...]
Banded -> Watched : select band IN ('high', 'back'); [band, region, weight, ...] => [band, region, score := weight / 3, ...]
Scored -> Watched : select score > 50
Watched -> Alerts : [id, score, region, ... when score > 500] => [id, level := 3, region]
    | [id, score, region, ... when score > 200] => [id, level := 2, region]
    | [id, score, region, ...] => [id, level := 1, region]
Scored -> Alerts : select score > 900; [id, score, region, ...] => [id, level := 4, region]
"""  # noqa: E501 (a rule to the line)
)


def layered(arcs: int) -> str:
    """A flow of that many arcs, two into each space, from the level before; at most five levels.

    Of the two, one has three rules, the other a select and one rule.
    """
    width = -(-arcs // (2 * LEVELS))
    before, text = ["Orders", "Returns"], [_SOURCES]
    for level in range(LEVELS):
        names = [f"Level{level}x{i}" for i in range(width)]
        for i, name in enumerate(names):
            one, other = before[i % len(before)], before[(i + 1) % len(before)]
            text += [_rules(one, name, 10 * i), _select(other, name, 10 * i, level)]
        before = names
    return "".join(text[: arcs + 1])


def _rules(source: str, target: str, least: int) -> str:
    return (
        f"{source} -> {target} : [amount, ... when amount > {least + 100}] => "
        f"[amount := amount * 0.9, ...] | [amount, ... when amount > {least}] => "
        f"[amount := amount + 1, ...] | [amount, ... when amount < {least}] => "
        "[amount := amount - 1, ...]\n"
    )


def _select(source: str, target: str, least: int, level: int) -> str:
    return (
        f"{source} -> {target} : select amount > {least} AND region <> 'X{level}'; "
        f"[units, ...] => [units := units + {level}, ...]\n"
    )


def messages() -> dict[str, list[dict[str, object]]]:
    """Of each source, with a fixed seed."""
    rng = random.Random(22)
    return {
        space: [
            {
                "id": i,
                "customer": rng.choice("abcd"),
                "region": rng.choice(("EU", "US", "AP")),
                "amount": round(rng.expovariate(0.02), 2),
                "units": rng.randrange(20),
                "at": f"2026-01-{i % 28 + 1:02}T10:00:00Z",
            }
            for i in range(MESSAGES // 2)
        ]
        for space in ("Orders", "Returns")
    }


def save(folder: Path) -> dict[str, Path]:
    """The messages as JSON lines, a file for each source."""
    found = {}
    for space, rows in messages().items():
        found[space] = folder / f"{space}.json"
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        found[space].write_text(lines, encoding="utf-8")
    return found
