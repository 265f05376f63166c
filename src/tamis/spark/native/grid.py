"""A table to join messages with: for each value of one attribute, the cells of its conditions.

See `cells` for what a cell is. A message finds the row of its value by a broadcast join, and among
the constants of that row, by halving, its cell. Strings are joined by their hashes, which Spark
does faster, and compared afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.logic.atoms import Formula
from tamis.messages.typed_tables import arrow_type
from tamis.schema import Type
from tamis.spark.native.cells import Cluster, Constant, clusters_of
from tamis.spark.native.hashing import xxhash64
from tamis.spark.native.native_conditions import Translation, sure
from tamis.spark.native.native_values import NotNative, Value, micros

_VALUE, _CELLS, _HASH = "__tamis_value__", "__tamis_cells__", "__tamis_hash__"
_MOST_IDS = 1 << 20  # in all cells


@dataclass(frozen=True, slots=True)
class Grid:
    """The clusters by the value of `key`; `terms` are what cuts them into cells."""

    name: str  # of the key
    key: Value
    terms: tuple[Value, ...]
    clusters: Mapping[Constant, Cluster]

    @classmethod
    def of(cls, formulas: Sequence[Formula], translation: Translation, most_cuts: int) -> Grid:
        """Raises NotNative where the formulas are not of the kind, or a term has more constants
        with one value of the key."""
        return cls(*clusters_of(formulas, translation, most_cuts))

    @property
    def found(self) -> Column:
        """Whether a joined message has the value of the row: it is sound then."""
        return sure(comparable(self.key) == F.col(_VALUE))

    @property
    def names(self) -> list[str]:
        """The columns that the join brings."""
        cuts = [_cut(t, i) for t in range(len(self.terms)) for i in range(self.width(t))]
        return [_VALUE, _HASH, _CELLS, *map(_size, range(1, len(self.terms))), *cuts]

    def width(self, term: int) -> int:
        return max((len(c.cuts[term]) for c in self.clusters.values()), default=0)

    @property
    def hashes(self) -> list[int] | None:
        """Of the values; None where they are not strings, or two have the same."""
        if self.key.type is not Type.STRING:
            return None
        found = list(map(xxhash64, self.clusters))
        return found if len(set(found)) == len(found) else None

    def joined(self, messages: DataFrame, ids: pa.Array | None) -> DataFrame:
        """The messages with the row of their value. Cells hold ids, or (None) how many."""
        right = F.broadcast(messages.sparkSession.createDataFrame(self.table(ids)))
        return messages.join(right, self.on(), "left")

    def on(self) -> Column:
        if self.hashes is None:
            return comparable(self.key) == F.col(_VALUE)
        return F.xxhash64(self.key.column) == F.col(_HASH)

    def cell(self) -> Column:
        """What the cell of a joined message holds; NULL where its value has no row."""
        place = self._place(0) if self.terms else F.lit(0)
        for term in range(1, len(self.terms)):
            place = place * F.col(_size(term)) + self._place(term)
        held = F.get(F.col(_CELLS), place)
        return held if self.hashes is None else F.when(self.found, held)

    def _place(self, term: int) -> Column:
        value = self.terms[term]
        held = comparable(value)

        def between(low: int, high: int) -> Column | int:
            """So many constants are not above: at least `low`, at most `high`. Rows with fewer
            constants have NULL for the last ones, which is above all."""
            if low == high:
                return low + 1
            middle = (low + high) // 2
            above = F.when(held >= F.col(_cut(term, middle)), between(middle + 1, high))
            return above.otherwise(between(low, middle))

        return F.when(value.defined, between(0, self.width(term))).otherwise(0)

    def table(self, ids: pa.Array | None) -> pa.Table:
        clusters = list(self.clusters.values())
        cells = _counts(clusters) if ids is None else _lists(clusters, ids)
        columns = {**self.values(), _CELLS: cells}
        for t in range(1, len(self.terms)):
            columns[_size(t)] = pa.array([len(c.cuts[t]) + 2 for c in clusters], pa.int32())
        for t, value in enumerate(self.terms):
            for i in range(self.width(t)):
                held = [c.cuts[t][i] if i < len(c.cuts[t]) else None for c in clusters]
                columns[_cut(t, i)] = pa.array(held, arrow_of(value))
        return pa.table(columns)

    def values(self) -> dict[str, pa.Array]:
        """The columns that messages are joined on, a row for each cluster."""
        found = {_VALUE: pa.array(list(self.clusters), arrow_of(self.key))}
        hashes = self.hashes
        return found if hashes is None else {**found, _HASH: pa.array(hashes, pa.int64())}


def _cut(term: int, number: int) -> str:
    return f"__tamis_cut_{term}_{number}__"


def _size(term: int) -> str:
    return f"__tamis_size_{term}__"


def comparable(value: Value) -> Column:
    return micros(value) if value.type is Type.TIMESTAMP else value.column


def arrow_of(value: Value) -> pa.DataType:
    assert value.type is not None
    return pa.int64() if value.type is Type.TIMESTAMP else arrow_type(value.type)


def _counts(clusters: Sequence[Cluster]) -> pa.Array:
    return pa.array([c.matched.sum(axis=0).tolist() for c in clusters], pa.list_(pa.int64()))


def _lists(clusters: Sequence[Cluster], ids: pa.Array) -> pa.Array:
    """For each cluster its cells, each a list of ids in the order of the rules."""
    sizes = np.concatenate([c.matched.sum(axis=0) for c in clusters])
    if sizes.sum() > _MOST_IDS:
        raise NotNative(f"cells would hold more than {_MOST_IDS:,} ids")
    # Transposed: cell after cell, and the rules of each in their order.
    rules = [np.array(c.rules)[np.nonzero(c.matched.T)[1]] for c in clusters]
    inner = pa.ListArray.from_arrays(_offsets(sizes), ids.take(pa.array(np.concatenate(rules))))
    outer = np.array([c.matched.shape[1] for c in clusters])
    return pa.ListArray.from_arrays(_offsets(outer), inner)


def _offsets(sizes: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
