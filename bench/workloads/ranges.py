"""Alerts that no equality leads to: thresholds, intervals, boxes, ORs; and messages for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tamis import Schema

Rows = np.ndarray
_CITIES = 2_000


@dataclass(frozen=True, slots=True)
class Case:
    """A set of selectors with messages; `boxes` are (west, south, east, north), if that is it."""

    schema: Schema
    texts: list[str]
    messages: pa.Table
    boxes: Rows | None = None


def price_lt_rare(n: int, messages: int) -> Case:
    rng = np.random.default_rng(5)
    texts = [f"price < {p:.4f}" for p in rng.uniform(0, 1000, n)]
    return Case(Schema.of(price=float), texts, _table(price=rng.uniform(999.9, 1000, messages)))


def between_narrow(n: int, messages: int) -> Case:
    rng = np.random.default_rng(5)
    texts = [f"a BETWEEN {x:.3f} AND {x + 1:.3f}" for x in rng.uniform(0, 1e6, n)]
    return Case(Schema.of(a=float), texts, _table(a=rng.uniform(0, 1e6, messages)))


def between_2d(n: int, messages: int) -> Case:
    rng = np.random.default_rng(5)
    texts = [
        f"a BETWEEN {x:.3f} AND {x + 50:.3f} AND b BETWEEN {y:.3f} AND {y + 50:.3f}"
        for x, y in rng.uniform(0, 1e4, (n, 2))
    ]
    a, b = rng.uniform(0, 1e4, (2, messages))
    return Case(Schema.of(a=float, b=float), texts, _table(a=a, b=b))


def or3_attrs(n: int, messages: int) -> Case:
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 5000, (2, n))
    d = rng.uniform(0, 1e6, n)
    texts = [
        f"a = 'A{i}' OR b = 'B{j}' OR d BETWEEN {x:.2f} AND {x + 1:.2f}"
        for i, j, x in zip(a.tolist(), b.tolist(), d.tolist(), strict=True)
    ]
    names = rng.integers(0, 5000, (2, messages))
    table = _table(
        a=[f"A{i}" for i in names[0].tolist()],
        b=[f"B{i}" for i in names[1].tolist()],
        d=rng.uniform(0, 1e6, messages),
    )
    return Case(Schema.of(a=str, b=str, d=float), texts, table)


def boxes(n: int, messages: int) -> Case:
    """Sides of 0.02 to 0.1 degrees, anywhere on the globe."""
    rng = np.random.default_rng(1)
    return _boxes(rng, *_anywhere(rng, n, messages), rng.uniform(0.02, 0.1, (n, 2)))


def boxes_huge(n: int, messages: int) -> Case:
    """One in a thousand has sides of 10 to 60 degrees."""
    rng = np.random.default_rng(1)
    sides = rng.uniform(0.02, 0.1, (n, 2))
    huge = rng.random(n) < 0.001
    sides[huge] = rng.uniform(10, 60, (int(huge.sum()), 2))
    return _boxes(rng, *_anywhere(rng, n, messages), sides)


def boxes_cities(n: int, messages: int) -> Case:
    """Around 2,000 cities, by Zipf's law."""
    rng = np.random.default_rng(1)
    cities = rng.uniform((-60, -180), (60, 180), (_CITIES, 2))
    chance = 1 / np.arange(1, _CITIES + 1)
    chance /= chance.sum()
    low, points = (
        cities[rng.choice(_CITIES, count, p=chance)] + rng.normal(0, 2, (count, 2))
        for count in (n, messages)
    )
    return _boxes(rng, low, points, rng.uniform(0.02, 0.1, (n, 2)))


def _anywhere(rng: np.random.Generator, n: int, messages: int) -> tuple[Rows, Rows]:
    low, points = (rng.uniform((-90, -180), (90, 180), (k, 2)) for k in (n, messages))
    return low, points


def _boxes(rng: np.random.Generator, low: Rows, points: Rows, sides: Rows) -> Case:
    low, high = low.round(5), (low + sides).round(5)
    texts = [
        f"lat BETWEEN {a} AND {b} AND lon BETWEEN {c} AND {d}"
        for (a, c), (b, d) in zip(low.tolist(), high.tolist(), strict=True)
    ]
    corners = np.concatenate([low[:, ::-1], high[:, ::-1]], axis=1)
    table = _table(lat=points[:, 0], lon=points[:, 1])
    return Case(Schema.of(lat=float, lon=float), texts, table, corners)


def symbol_between(each: int, width: float) -> Callable[[int, int], Case]:
    """So many alerts on each symbol, on prices from 0 to 1,000."""

    def made(n: int, messages: int) -> Case:
        rng = np.random.default_rng(3)
        symbols = max(1, n // each)
        low = rng.uniform(0, 1000, n).tolist()
        texts = [
            f"symbol = 'S{i % symbols}' AND price BETWEEN {x:.3f} AND {x + width:.3f}"
            for i, x in enumerate(low)
        ]
        chosen = [f"S{i}" for i in rng.integers(0, symbols, messages).tolist()]
        table = _table(symbol=chosen, price=rng.uniform(0, 1000, messages))
        return Case(Schema.of(symbol=str, price=float), texts, table)

    return made


def _table(**columns: object) -> pa.Table:
    return pa.table(columns)


CASES: dict[str, Callable[[int, int], Case]] = {
    "boxes": boxes,
    "boxes, 2,000 cities": boxes_cities,
    "boxes, 0.1 % huge": boxes_huge,
    "price_lt_rare": price_lt_rare,
    "between_narrow": between_narrow,
    "between_2d": between_2d,
    "or3_attrs": or3_attrs,
    "20 on each symbol": symbol_between(20, 50.0),
    "1,000 on each symbol": symbol_between(1000, 1.0),
}
