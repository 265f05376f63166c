"""Why, as a column: what of a selector a message satisfies and what not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as spark

from tamis.engine import Id, Matcher
from tamis.errors import InputError, SubscriptionError
from tamis.logic import Lookups
from tamis.logic import explain as explained
from tamis.logic.distance import distance
from tamis.messages.typed_tables import record_batch
from tamis.spark.dataframes.spark_types import argument
from tamis.spark.message_questions import Options, Question, _function
from tamis.spark.workers.shipping import Shipment, ship
from tamis.spark.workers.worker import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tamis.spark.message_questions import Source

_MOST = 10_000  # subscriptions that are looked at for each row
_ROWS = 1_000  # messages that are explained at once


def explain(
    messages: DataFrame,
    subscriptions: Source,
    *,
    ids: Sequence[Id] | None = None,
    nearest: int | None = None,
    column: str = "why",
    **options: Unpack[Options],
) -> DataFrame:
    """The messages with an array that tells why: `id`, `matches`, `fails` and `why` of each.

    Either of the `ids` that are given, in that order, or of the `nearest` so many misses: the
    subscriptions that the message fails by the fewest predicates. `fails` is how many these are.
    Each row is explained by itself, so ask for few rows. Takes what `match` takes for a frame at
    rest.
    """
    if (ids is None) == (nearest is None):
        raise InputError("explain tells of ids=[...], or of the nearest=N misses: give one of them")
    own: Any = {"shards": 1, **options, "plan": "matcher"}
    question = Question.of(messages, subscriptions, own)
    matcher = question.matcher
    if messages.isStreaming or question.details is not None or question.report:
        raise InputError("explain is for frames at rest, and takes no on_error, order or limit")
    question.check_free(column)
    for id in ids or ():
        if id not in matcher:
            raise SubscriptionError(f"there is no subscription {id!r}")
    if nearest is not None and len(matcher) > _MOST:
        raise InputError(
            f"nearest looks at each of {len(matcher):,} subscriptions for each row: "
            f"{_MOST:,} are the most; give ids, or fewer subscriptions"
        )
    schema = matcher.schema
    found = {name: argument(messages, name, schema) for name in matcher.attributes}
    columns = {name: one for name, one in found.items() if one is not None}
    shipment = ship(messages.sparkSession, matcher, question.saved)
    work = Telling(shipment, tuple(columns), None if ids is None else tuple(ids), nearest or 0)
    work.lookups, work.texts = matcher.lookups, question._texts()
    given = list(columns.values()) or [F.lit(0)]
    function = _function(work, _kind(work.texts), len(given))  # type: ignore[arg-type]
    return messages.select("*", function(*given).alias(column))


def _kind(texts: bool) -> spark.DataType:
    id = spark.StringType() if texts else spark.LongType()
    one = spark.StructType().add("id", id).add("matches", spark.BooleanType())
    return spark.ArrayType(one.add("fails", spark.IntegerType()).add("why", spark.StringType()))


@dataclass(slots=True)
class Telling:
    """What a worker does: explain each message of its batches."""

    shipment: Shipment
    names: tuple[str, ...]
    ids: tuple[Id, ...] | None
    nearest: int
    lookups: Lookups = None  # type: ignore[assignment]
    texts: bool = True

    def __call__(self, batches: Iterator[Columns]) -> Iterator[pa.Array]:
        matcher = self.shipment.opened(self.lookups)
        known = {id: matcher._condition(id) for id in (matcher if self.ids is None else self.ids)}
        for columns in batches:
            given = list(columns) if isinstance(columns, tuple) else [columns]
            batch = record_batch(self.names, given[: len(self.names)], len(given[0]))
            for first in range(0, batch.num_rows, _ROWS):
                rows = _rows(batch.slice(first, _ROWS))
                told = [list(self._told(matcher, known, row)) for row in rows]
                yield pa.array(told, self._kind())

    def _told(
        self, matcher: Matcher, known: dict[Id, Any], row: dict[str, object]
    ) -> Iterator[dict[str, object]]:
        how = matcher.schema, matcher.semantics, matcher.lookups
        far = {id: distance(condition, row, *how) for id, condition in known.items()}
        chosen: Sequence[Id] = self.ids or ()
        if self.ids is None:
            chosen = nsmallest(self.nearest, (id for id in known if far[id]), key=far.__getitem__)
        for id in chosen:
            told = explained(known[id], row, *how)
            shown = str(id) if self.texts else id
            fails = min(far[id], 2**31 - 1)
            yield {"id": shown, "matches": told.matches, "fails": fails, "why": str(told)}

    def _kind(self) -> pa.DataType:
        one = {"id": pa.string() if self.texts else pa.int64(), "matches": pa.bool_()}
        return pa.list_(pa.struct({**one, "fails": pa.int32(), "why": pa.string()}))


def _rows(batch: pa.RecordBatch) -> list[dict[str, object]]:
    if not batch.num_columns:
        return [{}] * batch.num_rows
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in batch.to_pylist()
    ]
