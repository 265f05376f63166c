"""Shards on their way to the workers, and what a worker does with the one that it is given."""

from __future__ import annotations

import gc
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from tamis.engine import Matcher, Matches
from tamis.engine.sharding.united import ShardPart, United
from tamis.logic import Lookups, Semantics
from tamis.messages.typed_tables import take
from tamis.recent import Recent
from tamis.schema import Schema
from tamis.spark.workers.shipping import Shipment, folder, load_shipped, located, send, ship

_KEPT = 2  # calls whose rest and last shard a worker holds on to
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shard:
    """A saved matcher, and the number of each of its subscriptions among all."""

    matcher: Shipment
    numbers: Shipment


def ship_shard(spark: SparkSession, matcher: Matcher, numbers: Numbers) -> Shard:
    path = folder() / f"tamis-{uuid.uuid4().hex}.npy"
    np.save(path, numbers)
    return Shard(ship(spark, matcher), send(spark, path))


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of one call. The column `key` of a message is its shard's number * tasks + n."""

    rest: Shard
    parts: tuple[Shard | None, ...]  # None: it has no subscriptions
    tasks: int
    attributes: tuple[str, ...]
    texts: bool
    key: str

    def opened(self, lookups: Lookups) -> Sharded:
        """The one that the last task of this call has used in this process, if it is known."""
        return _opened.get(self.rest.matcher.name, lambda: Sharded(self, lookups))


class Sharded:
    """Stands in for a matcher in a worker. Holds the rest, and the last shard that was needed."""

    def __init__(self, shards: Shards, lookups: Lookups) -> None:
        self._shards, self._lookups = shards, lookups
        self._rest = self._part(shards.rest)
        self._own, self._united = -1, self._with(None)
        self.schema: Schema | None = self._united.schema
        self.semantics: Semantics = self._united.semantics
        self.attributes = shards.attributes

    def match_batch(self, batch: pa.RecordBatch) -> Matches:
        """The ids that each row matches, in the order of adding."""
        groups = self._groups(batch)
        if len(groups) == 1:
            return self._for(groups[0][0]).match_batch(batch)
        found = [self._for(n).match_batch(take(batch, rows.tolist())) for n, rows in groups]
        of_row = [np.repeat(r, m.counts) for (_, r), m in zip(groups, found, strict=True)]
        order = np.argsort(np.concatenate(of_row), kind="stable").astype(np.int32)
        counts = np.zeros(len(batch) + 1, np.int64)
        for (_, rows), own in zip(groups, found, strict=True):
            counts[1 + rows] = own.counts
        return Matches(np.cumsum(counts), order, pa.concat_arrays([own.ids for own in found]))

    def count_batch(self, batch: pa.RecordBatch) -> Numbers:
        """How many subscriptions each row matches."""
        counts = np.zeros(len(batch), np.int64)
        for shard, rows in self._groups(batch):
            own = batch if len(rows) == len(batch) else take(batch, rows.tolist())
            counts[rows] = self._for(shard).count_batch(own)
        return counts

    def _groups(self, batch: pa.RecordBatch) -> list[tuple[int, Numbers]]:
        """The shards of the rows, and the rows of each; as a rule one shard has them all."""
        tasks: Any = batch.column(self._shards.key).to_numpy()
        shard = tasks // self._shards.tasks
        return [(int(n), np.flatnonzero(shard == n)) for n in np.unique(shard)] or [(-1, shard)]

    def _for(self, shard: int) -> United:
        if shard not in (self._own, -1):
            # The last one goes before the next one comes, so that a worker never holds two. A
            # matcher and its parts know each other: only the collector can free them.
            self._united, self._own = self._with(None), -1
            gc.collect()
            self._united, self._own = self._with(self._shards.parts[shard]), shard
        return self._united

    def _with(self, shard: Shard | None) -> United:
        parts = [self._rest] if shard is None else [self._rest, self._part(shard)]
        return United(parts, self._shards.attributes, texts=self._shards.texts)

    def _part(self, shard: Shard) -> ShardPart:
        numbers: Any = np.load(located(shard.numbers), mmap_mode="r")
        return ShardPart(load_shipped(shard.matcher, self._lookups), numbers)


_opened: Recent[str, Sharded] = Recent(_KEPT)
