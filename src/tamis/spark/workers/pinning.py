"""One version of a table for each micro-batch, also when it is done again after a crash.

The first task of a batch pins it to the version that is current then; all other tasks, and
a replay, find the pin. A batch is known by the id of its query, which is kept in the
checkpoint and stays over restarts, and by its number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from tamis.engine import Matches
from tamis.engine.ground.layout import I8
from tamis.errors import InputError
from tamis.logic import Lookups, Semantics
from tamis.recent import Recent
from tamis.schema import Schema
from tamis.table import Subscriptions
from tamis.table.following import Follower, View
from tamis.table.table_changes import IdKind

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_KEPT = 4  # tables that a worker follows at once


@dataclass(frozen=True, slots=True)
class Following:
    """A table that workers follow, and for how many batches of a query its pins are kept.

    `call` tells calls with lookups of their own apart; all others share what a worker holds.
    """

    path: str
    ids: IdKind
    retained: int
    call: str = ""

    def opened(self, lookups: Lookups) -> Pinned:
        """On a worker: the table at the version of the micro-batch that is being done."""
        context = TaskContext.get()
        query, batch = (context.getLocalProperty(k) if context else None for k in (QUERY, BATCH))
        if query is None or batch is None:
            raise InputError("Spark does not say which micro-batch this is: a stream is needed")
        table, follower = _followed(self, lookups)
        version = pinned(table, query, int(batch), self.retained, follower.newest)
        return Pinned(follower.at(version), self.ids)


def pinned(
    table: Subscriptions, query: str, batch: int, retained: int, newest: Callable[[], int]
) -> int:
    """The version that the batch uses; the first who asks decides, and clears old pins away."""
    known = table.pins.pinned(query, batch)
    if known is not None:
        return known
    version = table.pins.pin(query, batch, newest())
    table.pins.prune(query, batch - retained)
    return version


_tables: Recent[tuple[str, str], tuple[Subscriptions, Follower]] = Recent(_KEPT)


def _followed(following: Following, lookups: Lookups) -> tuple[Subscriptions, Follower]:
    """What this process holds of the table from the last task."""
    return _tables.get((following.path, following.call), lambda: _open(following, lookups))


def _open(following: Following, lookups: Lookups) -> tuple[Subscriptions, Follower]:
    if not Path(following.path, "settings").exists():
        raise InputError(
            f"{following.path}: this worker does not see the table: it must be on a file"
            " system that the driver and all workers share"
        )
    table = Subscriptions.open(following.path, lookups=lookups)
    return table, table.follower()


class Pinned:
    """A table at one version. Stands in for its matcher in a worker."""

    def __init__(self, view: View, ids: IdKind) -> None:
        self._view, self._ids = view, ids
        self._names: pa.Array | None = None
        self.version = view.version
        self.schema: Schema | None = view.matcher.schema
        self.semantics: Semantics = view.matcher.semantics
        self.attributes = view.matcher.attributes

    def match_batch(self, batch: pa.RecordBatch) -> Matches:
        """The ids that each row matches, of the type that the stream began with."""
        found = self._view.matcher.match_batch(batch)
        if self._names is None:
            wanted = pa.int64() if self._ids == "int" else pa.string()
            self._names = found.names.cast(wanted)
        return Matches(found.offsets, found.slots, self._names)

    def count_batch(self, batch: pa.RecordBatch) -> I8:
        """How many subscriptions each row matches."""
        return self._view.matcher.count_batch(batch)

    def with_subscribers(self, matches: Matches) -> Matches:
        """The same, with structs of an id, its subscriber and what it carries in place of ids."""
        names, fields = matches.names, dict[str, pa.Array]()
        if pa.types.is_struct(names.type):
            carried = (field.name for field in names.type)
            fields = dict(zip(carried, names.flatten(), strict=True))
            names = fields.pop("id")
        columns = {"id": names, "subscriber": self._view.subscribers.array(), **fields}
        structs = pa.StructArray.from_arrays(list(columns.values()), list(columns))
        return Matches(matches.offsets, matches.slots, structs)
