"""Tables of subscriptions: an id, a selector and perhaps a subscriber to a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from tamis.engine import Id, Matcher
from tamis.engine.ids import blamed
from tamis.engine.routing import Routes
from tamis.errors import InputError, SelectorError, SubscriptionError

_IDS = (spark.StringType, spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
Problem = SelectorError | SubscriptionError


@dataclass(slots=True)
class Table:
    """The rows of a table of subscriptions, once read, so that all who use them see the same."""

    rows: pa.Table
    bad: dict[int, Problem] = field(default_factory=dict)

    @classmethod
    def read(cls, subscriptions: DataFrame) -> Table:
        types = {f.name: f.dataType for f in subscriptions.schema}
        for name, allowed in (("id", _IDS), ("selector", (spark.StringType,))):
            if name not in types:
                given = ", ".join(types) or "no column at all: is the file empty?"
                raise InputError(f"the subscriptions have no column {name}; they have {given}")
            if not isinstance(types[name], allowed):
                shown = types[name].simpleString()
                raise InputError(f"the subscriptions' column {name} cannot be of type {shown}")
        names = ["id", "selector", *(["subscriber"] if "subscriber" in types else [])]
        return cls(subscriptions.select(*names).toArrow())

    def add_to(self, matcher: Matcher | Routes, *, report: bool) -> None:
        """Add all that are good; the others stay in `bad`, or the first of them raises."""
        row = -1

        def pairs() -> Iterator[tuple[Any, str]]:
            nonlocal row
            for id, selector in self._pairs():
                row += 1  # what is refused next is this row
                if id is not None and selector is not None:
                    yield id, selector
                else:
                    lacking = "id" if id is None else "selector"
                    refuse(id, selector, SubscriptionError(f"the {lacking} is NULL"))

        def refuse(id: Id, selector: str, error: Problem) -> None:
            if not report:
                raise blamed(id, error)
            self.bad[row] = error

        matcher.add_many(pairs(), refuse)

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        for batch in self.rows.to_batches():
            ids, selectors = batch.column("id"), batch.column("selector")
            yield from zip(ids.to_pylist(), selectors.to_pylist(), strict=True)

    def problems(self) -> pa.Table:
        """The bad rows, each with the reason."""
        rows = sorted(self.bad)
        reasons = pa.array([str(self.bad[row]) for row in rows], pa.string())
        found = self.rows.select(["id", "selector"]).take(pa.array(rows, pa.int64()))
        return found.append_column("reason", reasons)

    def subscribers(self) -> pa.Table | None:
        """The subscriber of each good id; None where the table does not name them."""
        if "subscriber" not in self.rows.column_names:
            return None
        return self.rows.select(["id", "subscriber"]).take(pa.array(self.good()))

    def good(self) -> npt.NDArray[np.int64]:
        """The rows that are not bad."""
        good = np.ones(self.rows.num_rows, bool)
        good[list(self.bad)] = False
        return np.flatnonzero(good)

    def repeated(self) -> frozenset[Id]:
        """The ids that more than one row has."""
        counted = pc.value_counts(self.rows.column("id"))
        several = pc.greater(counted.field("counts"), 1)
        return frozenset(counted.field("values").filter(several).to_pylist())
