"""A small matcher for snapshots, and what it answers."""

from __future__ import annotations

import math
from pathlib import Path

from tamis import Matcher


def again(matcher: Matcher, path: Path, **options) -> Matcher:
    matcher.save(path)
    return Matcher.load(path, lookups=matcher.lookups, **options)


def small() -> Matcher:
    """Clusters of cubes, other roots, texts, sets, numbers without a type and a derived term, in
    few bytes."""
    matcher = Matcher()
    matcher.add_many((f"s{i}", f"symbol = 'S{i}' AND price < {i}.5") for i in range(20))
    matcher.add("ü", "symbol IN ('S1', 'S2') OR name CONTAINS 'ab' AND a + b > 3")
    matcher.add(7, "name MATCHES '^x' OR price > 1e300 OR a = b OR c IS NULL")
    paths = " OR ".join(f"price < {n}.5 AND c = {n}" for n in range(6))
    others = [f"symbol = 'S4' AND ({paths})", "symbol = 'S5' AND name <> 'x' AND c >= 2"]
    matcher.add_many(enumerate(others, 100))
    matcher.remove("s3")
    return matcher


MESSAGES = [
    {"symbol": "S1", "price": 0.5, "c": 1},
    {"symbol": "S19", "price": 3, "name": "xab", "a": 2, "b": 2},
    {"symbol": 5, "price": math.inf, "c": "x"},
    {"name": "cab", "a": 3, "b": 1, "c": True},
    {"symbol": "S4", "price": 4, "c": 4},
    {"symbol": "S5", "price": 1.5, "name": "y", "c": 2},
    {},
]


def answers(matcher: Matcher) -> list[list[str | int]]:
    return [matcher.match(message) for message in MESSAGES]
