"""A row for each message and condition that it matches: the join that a user writes by hand.

Where every condition of a grid is a box (`symbol = S AND price < P`), a table has one row for each
condition and value of the key, with the bounds of each term, and messages are joined with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.spark.native.cells import Cluster, Constant
from tamis.spark.native.grid import Grid, arrow_of, comparable
from tamis.spark.native.native_values import NotNative

_LOW, _HIGH, _ASKED = "__tamis_low_{}__", "__tamis_high_{}__", "__tamis_asked_{}__"


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What a condition asks of one term: `low <= term < high`, None for no such bound."""

    low: Constant | None
    high: Constant | None
    asked: bool  # whether the term must be defined at least


def paired(grid: Grid, messages: DataFrame, ids: pa.Array, column: str) -> DataFrame:
    """The messages with the ids in `column`, one to a row. Raises NotNative for other grids."""
    rows = [
        (place, rule, bounds)
        for place, cluster in enumerate(grid.clusters.values())
        for rule, bounds in _bounds(cluster)
    ]
    places = pa.array([place for place, _, _ in rows], pa.int64())
    columns = {name: values.take(places) for name, values in grid.values().items()}
    conditions = [grid.on(), *([] if grid.hashes is None else [grid.found])]
    for term, value in enumerate(grid.terms):
        own = [bounds[term] for _, _, bounds in rows]
        for name, bound in ((_LOW, [b.low for b in own]), (_HIGH, [b.high for b in own])):
            columns[name.format(term)] = pa.array(bound, arrow_of(value))
        columns[_ASKED.format(term)] = pa.array([b.asked for b in own], pa.bool_())
        conditions += _conditions(term, own, comparable(value), value.defined)
    helpers = list(columns)
    columns[column] = ids.take(pa.array([rule for _, rule, _ in rows], pa.int64()))
    right = F.broadcast(messages.sparkSession.createDataFrame(pa.table(columns)))
    return messages.join(right, reduce(and_, conditions)).drop(*helpers)


def _bounds(cluster: Cluster) -> list[tuple[int, list[_Bounds]]]:
    """The rules of a cluster that can match, and what each asks of the terms."""
    if cluster.boxes is None:
        raise NotNative("a condition is no box")
    found = []
    for rule, box in zip(cluster.rules, cluster.boxes, strict=True):
        if all(low < high for low, high in box):
            sides = zip(box, cluster.cuts, strict=True)
            found.append((rule, [_side(low, high, cuts) for (low, high), cuts in sides]))
    return found


def _side(low: int, high: int, cuts: list[Constant]) -> _Bounds:
    last = len(cuts) + 2
    if low == 0 and high < last:
        raise NotNative("a condition asks for what is undefined")
    least, most = cuts[low - 2] if low > 1 else None, cuts[high - 2] if high < last else None
    return _Bounds(least, most, low > 0)


def _conditions(term: int, own: list[_Bounds], held: Column, defined: Column) -> list[Column]:
    """What a joined row must satisfy. NaN is above all for Spark, so a high bound excludes it."""
    low, high = F.col(_LOW.format(term)), F.col(_HIGH.format(term))
    found = []
    if any(b.high is not None for b in own):
        below = held < high
        found.append(below if all(b.high is not None for b in own) else high.isNull() | below)
    if any(b.low is not None for b in own):
        above = held >= low
        found.append(above if all(b.low is not None for b in own) else low.isNull() | above)
    if any(b.asked and b.high is None for b in own):
        found.append(~F.col(_ASKED.format(term)) | defined)
    return found
