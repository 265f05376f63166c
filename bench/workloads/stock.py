"""Stock alerts: one symbol, a price below, a volume above; and the trades that they watch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamis.schema import Schema

SCHEMA = Schema.of(symbol=str, price=float, volume=int)
EQUALITY_SCHEMA = Schema.of(symbol=str, venue=str, lot=int)
TICKS_SCHEMA = Schema.of(symbol=str, price=float, size=float)
TICKS = Path(__file__).parents[3] / "shared" / "data" / "ticks_us_equity_20131008.parquet"

VENUES = tuple(f"V{n:02d}" for n in range(20))
LOTS = (1, 10, 50, 100, 200, 300, 400, 500, 1_000, 10_000)
_EXPONENT = 1.1  # of the Zipf law over symbols


@dataclass(frozen=True, slots=True)
class Alerts:
    """`symbol = S AND price < P AND <size> > V` as columns; the texts say the same."""

    symbol: np.ndarray
    price: np.ndarray
    volume: np.ndarray
    size: str = "volume"

    def __len__(self) -> int:
        return len(self.symbol)

    def texts(self) -> Iterator[str]:
        for s, p, v in _rows(self.symbol, self.price, self.volume):
            yield f"symbol = '{s}' AND price < {p} AND {self.size} > {v}"

    def table(self) -> pa.Table:
        """The alerts as a join sees them; `id` is the row number."""
        ids = np.arange(len(self))
        columns = {"id": ids, "symbol": self.symbol, "price": self.price, "volume": self.volume}
        return pa.table(columns)


def _rows(*columns: np.ndarray) -> Iterator[tuple[object, ...]]:
    """The rows as Python values, few of them at a time."""
    for start in range(0, len(columns[0]), 4096):
        yield from zip(*(c[start : start + 4096].tolist() for c in columns), strict=True)


def symbols(count: int) -> np.ndarray:
    return np.array([f"S{n:04d}" for n in range(count)], dtype=object)


def alerts(count: int, symbol_count: int = 5000, *, zipf: bool = False, seed: int = 1) -> Alerts:
    """So many alerts. An alert asks for a price some per cent under the symbol's usual one."""
    rng = np.random.default_rng((seed, 1))
    chosen = _choose(count, symbol_count, zipf, rng)
    price = np.round(usual_price(symbol_count)[chosen] * rng.uniform(0.80, 1.0, count), 2)
    volume = rng.integers(1, 20_000, count)
    return Alerts(symbols(symbol_count)[chosen], price, volume)


def trades(count: int, symbol_count: int = 5000, *, zipf: bool = False, seed: int = 1) -> pa.Table:
    """So many trades: prices scatter by 5 % around the usual one, most volumes are small."""
    rng = np.random.default_rng((seed, 2))
    chosen = _choose(count, symbol_count, zipf, rng)
    price = np.round(usual_price(symbol_count)[chosen] * rng.normal(1.0, 0.05, count), 2)
    volume = np.minimum(rng.lognormal(6, 1.5, count), 1e6).astype(np.int64) + 1
    return pa.table({"symbol": symbols(symbol_count)[chosen], "price": price, "volume": volume})


def usual_price(symbol_count: int) -> np.ndarray:
    return np.exp(np.random.default_rng(7).normal(3.5, 1.0, symbol_count))


def _choose(count: int, among: int, zipf: bool, rng: np.random.Generator) -> np.ndarray:
    """Numbers below `among`; by Zipf's law the n-th has weight 1 / n^1.1."""
    if not zipf:
        return rng.integers(0, among, count)
    weight = 1.0 / np.arange(1, among + 1) ** _EXPONENT
    return rng.choice(among, count, p=weight / weight.sum())


# --- equality only -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EqualityAlerts:
    """`symbol = S AND venue = V AND lot = L` as columns; the texts say the same."""

    symbol: np.ndarray
    venue: np.ndarray
    lot: np.ndarray

    def __len__(self) -> int:
        return len(self.symbol)

    def texts(self) -> Iterator[str]:
        for s, v, n in _rows(self.symbol, self.venue, self.lot):
            yield f"symbol = '{s}' AND venue = '{v}' AND lot = {n}"

    def table(self) -> pa.Table:
        ids = np.arange(len(self))
        return pa.table({"id": ids, "symbol": self.symbol, "venue": self.venue, "lot": self.lot})


def equality_alerts(count: int, symbol_count: int = 5000, *, seed: int = 1) -> EqualityAlerts:
    rng = np.random.default_rng((seed, 3))
    return EqualityAlerts(*_equality_columns(count, symbol_count, rng))


def equality_trades(count: int, symbol_count: int = 5000, *, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng((seed, 4))
    columns = _equality_columns(count, symbol_count, rng)
    return pa.table(dict(zip(EQUALITY_SCHEMA, columns, strict=True)))


def _equality_columns(
    count: int, symbol_count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    venue = np.array(VENUES, dtype=object)[rng.integers(0, len(VENUES), count)]
    lot = np.array(LOTS)[rng.integers(0, len(LOTS), count)]
    return symbols(symbol_count)[rng.integers(0, symbol_count, count)], venue, lot


# --- real ticks --------------------------------------------------------------


def ticks(count: int | None = None) -> pa.Table | None:
    """The day's first `count` ticks (symbol, price, size), or None where the file is not there.

    Quotes stand among them as in the file: they have no price and no size.
    """
    if not TICKS.exists():
        return None
    table = pq.read_table(TICKS, columns=list(TICKS_SCHEMA))
    table = table.set_column(0, "symbol", table["symbol"].cast(pa.string()))
    return table if count is None else table.slice(0, count)


def tick_alerts(count: int, day: pa.Table, *, seed: int = 1) -> Alerts:
    """Alerts on the day's symbols: prices between the day's low and high, sizes up to 5,000."""
    rng = np.random.default_rng((seed, 5))
    ranges = day.group_by("symbol").aggregate([("price", "min"), ("price", "max")])
    ranges = ranges.filter(pc.is_valid(ranges["price_min"])).sort_by("symbol")
    chosen = rng.integers(0, len(ranges), count)
    low, high = (ranges[f"price_{end}"].to_numpy()[chosen] for end in ("min", "max"))
    price = np.round(low + (high - low) * rng.random(count) ** 2, 2)
    names = ranges["symbol"].to_numpy(zero_copy_only=False)[chosen]
    return Alerts(names, price, rng.integers(1, 5_000, count), size="size")
