"""Tables of other libraries: what it takes to bring them in, and whether they are copied."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from bench import progress
from bench.measure import wall_by_turns
from bench.report import Result, Table
from bench.workloads import stock
from tamis import Matcher, Schema
from tamis.messages.tabular import arrow_of

ABOUT = (
    "Trades as a table of several libraries, matched against stock alerts. Bringing a table in is "
    "what happens before matching; new memory is what Arrow allocates for it. All of them give the "
    "same ids."
)


@dataclass(frozen=True, slots=True)
class Scale:
    rows: int
    subscriptions: int
    repeat: int


SCALES = {
    "full": Scale(1_000_000, 10_000, 5),
    "quick": Scale(100_000, 1_000, 3),
    "tiny": Scale(500, 20, 1),
}
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow table": lambda table: table,
    "Arrow, record batch reader": lambda table: table.to_reader(),
    "pandas, numpy types": lambda table: table.to_pandas(),
    "pandas, Arrow types": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": lambda table: pl.from_arrow(table),
    "DuckDB relation": lambda table: duckdb.from_arrow(table),
}


def run(scale: str) -> Result:
    s = SCALES[scale]
    table = stock.trades(s.rows)
    matcher = Matcher(Schema.of(table))
    matcher.add_many(enumerate(stock.alerts(s.subscriptions).texts()))
    expected = matcher.match_batch(table)
    rows = list(_rows(matcher, table, expected, s))
    columns = ("table", "to bring in, ms", "new memory, MB", "numbers are shared", "matched, ms",
               "times Arrow", "same ids")  # fmt: skip
    title = f"{s.rows:,} rows of {table.nbytes / 1e6:.0f} MB, {s.subscriptions:,} alerts"
    out = ("results as", "to hand over, ms", "new memory, MB", "offsets are shared", "same ids")
    given = list(_given(expected.to_arrow()))
    size = f"The results: {len(expected.ids):,} ids of {len(expected):,} rows"
    return Result("frames", ABOUT, [Table(title, columns, rows), Table(size, out, given)])


def _rows(matcher: Matcher, table: pa.Table, expected: Any, s: Scale) -> Iterator[list[Any]]:
    made = {name: form(table) for name, form in FORMS.items() if "reader" not in name}
    fresh = {name: (lambda name=name: made.get(name)) for name in FORMS}
    fresh["Arrow, record batch reader"] = table.to_reader  # it can be read once
    works = [lambda take=take: matcher.match_batch(take()) for take in fresh.values()]
    progress.say("matching")
    times = wall_by_turns(works, s.repeat)
    for (name, take), taken in zip(fresh.items(), times, strict=True):
        progress.say(name)
        found = matcher.match_batch(take())
        same = np.array_equal(found.offsets, expected.offsets) and found.ids == expected.ids
        seconds, memory, shared = _brought_in(take())
        yield [name, round(1e3 * seconds, 2), round(memory / 1e6, 1), shared, round(1e3 * taken, 1),
               round(taken / times[0], 2), _yes(same)]  # fmt: skip


BACK: dict[str, tuple[Callable[[Any], Any], Callable[[Any], pa.Array]]] = {
    "pandas, Arrow types": (
        lambda found: pd.Series(pd.arrays.ArrowExtensionArray(found)),
        lambda series: pa.chunked_array(series.array.__arrow_array__()).chunk(0),
    ),
    "Polars": (lambda found: pl.Series(found), lambda series: series.to_arrow()),
    "DuckDB relation": (
        lambda found: duckdb.from_arrow(pa.table({"ids": found})),
        lambda relation: pa.table(relation).column("ids").combine_chunks(),
    ),
}


def _given(found: pa.Array) -> Iterator[list[Any]]:
    """What it takes to hand results over, and whether what is held then is the same memory."""
    address = found.buffers()[1].address
    for name, (hand_over, again) in BACK.items():
        progress.say(f"results to {name}")
        before, start = pa.total_allocated_bytes(), time.perf_counter()
        held = hand_over(found)
        seconds, memory = time.perf_counter() - start, pa.total_allocated_bytes() - before
        back = again(held)
        shared = "-" if "DuckDB" in name else _yes(back.buffers()[1].address == address)
        same = _yes(back.cast(found.type).equals(found))
        yield [name, round(1e3 * seconds, 2), round(memory / 1e6, 1), shared, same]


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


def _brought_in(data: Any) -> tuple[float, int, str]:
    """Seconds, bytes that were allocated, and whether the prices are where they were."""
    before, start = pa.total_allocated_bytes(), time.perf_counter()
    table = arrow_of(data, tuple)
    seconds, memory = time.perf_counter() - start, pa.total_allocated_bytes() - before
    address = table.column("price").chunk(0).buffers()[1].address
    return seconds, memory, {None: "-", True: "yes", False: "no"}[_is_at(data, address)]


def _is_at(data: Any, address: int) -> bool | None:
    if isinstance(data, pa.Table):
        return True
    if isinstance(data, pl.DataFrame):
        return bool(data["price"].to_arrow().buffers()[1].address == address)
    if isinstance(data, pd.DataFrame):
        held = data["price"].array
        if hasattr(held, "__arrow_array__") and isinstance(data["price"].dtype, pd.ArrowDtype):
            chunk = pa.chunked_array(held.__arrow_array__()).chunk(0)
            return bool(chunk.buffers()[1].address == address)
        return bool(data["price"].to_numpy().ctypes.data == address)
    return None
