"""Ticks that a subscriber missed: real option quotes where they are at hand, else random walks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_HERE = Path(__file__).parents[3] / "shared" / "data"
FOLDER = Path(os.environ.get("TAMIS_DATA", _HERE))
QUOTES = FOLDER / "options_goog_minute_quotes_20151224.parquet"


def missed(count: int, issues: int) -> tuple[pa.Table, str]:
    """`count` ticks of `issues` issues in order of time, and which ones they are."""
    if QUOTES.exists():
        return _real(count, issues), "option quotes of one day, over and over"
    return walks(count, issues), "generated random walks (no option quotes: set TAMIS_DATA)"


def _real(count: int, issues: int) -> pa.Table:
    quotes = pq.read_table(QUOTES, columns=["symbol", "ask"])
    day = pa.table({"issue": quotes["symbol"], "price": quotes["ask"]})
    day = day.filter(pc.greater(day["price"], 0.0))
    chosen = pc.unique(day["issue"]).slice(0, issues)
    day = day.filter(pc.is_in(day["issue"], value_set=chosen))
    days = pa.concat_tables([day] * -(-count // day.num_rows)).slice(0, count).combine_chunks()
    return days.append_column("seq", pa.array(np.arange(count)))


def walks(count: int, issues: int, seed: int = 1) -> pa.Table:
    """Every issue walks at random, in steps of a hundredth."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, issues, count)
    prices = 100 + np.cumsum(rng.integers(-5, 6, count)) % 5_000 / 100
    names = pa.array([f"S{i:05d}" for i in range(issues)])
    return pa.table({"issue": names.take(pa.array(rows)), "price": prices, "seq": np.arange(count)})
