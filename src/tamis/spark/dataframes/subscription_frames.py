"""Tables of subscriptions: an id, a selector and perhaps a subscriber to a row."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark

from tamis.engine import Id, Matcher
from tamis.engine.ground.ids import blamed
from tamis.engine.sharding.shard_routes import Routes
from tamis.errors import InputError, SelectorError, SubscriptionError
from tamis.messages.tabular import arrow_of, as_mapping, subscription_rows
from tamis.spark.dataframes.spark_types import quoted

_IDS = (spark.StringType, spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
Problem = SelectorError | SubscriptionError
_COLUMNS = ("id", "selector", "subscriber")
_log = logging.getLogger("tamis")


@dataclass(slots=True)
class Table:
    """The rows of a table of subscriptions, once read, so that all who use them see the same."""

    rows: pa.Table
    bad: dict[int, Problem] = field(default_factory=dict)

    @classmethod
    def read(cls, subscriptions: Any, more: Sequence[str] = ()) -> Table:
        """Of a frame of Spark, a table of another library, or a list of pairs or mappings.

        `more` are further columns, kept where the table has them.
        """
        if not isinstance(subscriptions, DataFrame):
            return cls(_local(subscriptions, more))
        types = {f.name: f.dataType for f in subscriptions.schema}
        for name, allowed in (("id", _IDS), ("selector", (spark.StringType,))):
            if name not in types:
                given = ", ".join(types) or "no column at all: is the file empty?"
                raise InputError(f"the subscriptions have no column {name}; they have {given}")
            if not isinstance(types[name], allowed):
                shown = types[name].simpleString()
                raise InputError(f"the subscriptions' column {name} cannot be of type {shown}")
        names = dict.fromkeys(n for n in (*_COLUMNS, *more) if n in types)
        return cls(subscriptions.select(*(F.col(quoted(name)) for name in names)).toArrow())

    def add_to(self, matcher: Matcher | Routes, *, report: bool) -> None:
        """Add all that are good; the others stay in `bad`, or the first of them raises."""
        places: dict[tuple[Id, str], deque[int]] = {}
        late: list[Problem] = []

        def pairs() -> Iterator[tuple[Any, str]]:
            for row, (id, selector) in enumerate(self._pairs()):
                if id is not None and selector is not None:
                    yield id, selector
                    continue
                lacking = "id" if id is None else "selector"
                error = SubscriptionError(f"the {lacking} is NULL")
                if not report:  # after what is wrong before it
                    late.append(blamed(id, error))
                    return
                self.bad[row] = error

        def refuse(id: Id, selector: str, error: Problem) -> None:
            if report and not places:  # made only when something is wrong: most tables are good
                for row, pair in enumerate(self._pairs()):
                    places.setdefault(pair, deque()).append(row)
            rows = places.get((id, selector), deque([0]))
            # An id that stands twice is bad where it stands again.
            keep(rows.pop() if isinstance(error, SubscriptionError) else rows.popleft(), id, error)

        def keep(row: int, id: Id, error: Problem) -> None:
            if not report:
                raise blamed(id, error)
            self.bad[row] = error

        matcher.add_many(pairs(), refuse)
        if late:
            raise late[0]
        self.note_empty()

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

    def note_empty(self) -> None:
        """An empty selector matches every message, which hardly anybody means."""
        empty = pc.equal(
            pc.utf8_trim_whitespace(self.rows.column("selector").cast(pa.string())), ""
        )
        ids = self.rows.column("id").filter(empty)
        if len(ids):
            more = f" and {len(ids) - 1:,} more" if len(ids) > 1 else ""
            _log.warning(
                "subscription %r%s: the selector is empty, so it matches every message",
                ids[0].as_py(),
                more,
            )

    def repeated(self) -> frozenset[Id]:
        """The ids that more than one row has."""
        counted = pc.value_counts(self.rows.column("id"))
        several = pc.greater(counted.field("counts"), 1)
        return frozenset(counted.field("values").filter(several).to_pylist())


def _local(data: Any, more: Sequence[str]) -> pa.Table:
    """Subscriptions that are here already, as Spark would give them."""
    table = arrow_of(data, lambda: (*_COLUMNS, *more))
    if table is None and more and not isinstance(data, Mapping | str | bytes):
        given = list(data)
        if given and all(isinstance(row, Mapping) or hasattr(row, "asDict") for row in given):
            found = [as_mapping(row) for row in given]
            list(subscription_rows(found))  # raises where one has no id or no selector
            names = dict.fromkeys(n for row in found for n in row if n in (*_COLUMNS, *more))
            table = _made({name: [row.get(name) for row in found] for name in names})
        data = given
    if table is None:
        rows = list(subscription_rows(data))
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        named = dict(zip(("id", "selector", "subscriber"), columns, strict=True))
        if not any(one is not None for one in columns[2]):
            del named["subscriber"]
        table = _made(named if rows else {n: pa.array([], "str") for n in named})
    for name in ("id", "selector"):
        if name not in table.schema.names:
            raise InputError(f"the subscriptions have no column {name}")
    kept = dict.fromkeys(n for n in (*_COLUMNS, *more) if n in table.schema.names)
    columns_of = {n: table.column(n) for n in kept}
    return pa.table({n: _plain(n, c) if n in _COLUMNS else c for n, c in columns_of.items()})


def _made(columns: Mapping[str, Any]) -> pa.Table:
    try:
        return pa.table(columns)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InputError(f"the subscriptions make no table: {error}") from None


def _plain(name: str, column: Any) -> Any:
    """A column of texts as string, of ids that are integers as int64."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    whole = name == "id" and pa.types.is_integer(kind)
    text = kind in (pa.string(), pa.large_string(), pa.string_view(), pa.null())
    if not whole and not text:
        raise InputError(f"the subscriptions' column {name} cannot be of type {kind}")
    try:
        return column.cast(pa.int64() if whole else pa.string())
    except pa.ArrowException as error:
        raise InputError(f"the subscriptions' column {name}: {error}") from None
