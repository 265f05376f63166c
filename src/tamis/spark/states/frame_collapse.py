"""`collapse` of a whole frame: each bucket folds its keys at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from tamis.errors import StateError
from tamis.flow.states.definitions.keyed import arrow_schema
from tamis.flow.states.definitions.stepping import DEFAULT, Limits
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.equivalence import warm
from tamis.flow.states.sequences.collapsing import collapse_table, typed_events
from tamis.spark.states.exchange import bucketed, default_buckets, typed
from tamis.spark.states.native_aggregates import aggregated


def collapse_frame(
    events: DataFrame,
    summary: Summary,
    *,
    buckets: int | None = None,
    limits: Limits = DEFAULT,
    plan: Literal["auto", "native", "fold"] = "auto",
) -> DataFrame:
    """One row for each key: key, components, and the order of its last event.

    Summaries that need no fold (highest, lowest, latest, sums of integers) are Spark's own
    aggregates; `plan` insists on one way, `native` with a StateError where there is none.
    """
    own = aggregated(typed(events, summary), summary) if plan != "fold" else None
    if own is not None:
        return own
    if plan == "native":
        hint = "only highest, lowest and latest values and sums of integers are native"
        raise StateError(f"{summary.name} needs the fold", hint=hint)
    count = buckets or default_buckets(events.sparkSession)
    schema = arrow_schema(summary)
    warm()

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = list(batches)
        if rows:
            table = typed_events(summary, pa.Table.from_batches(rows))
            states = collapse_table(table, summary, None, limits).to_table()
            yield from states.cast(schema).to_batches()

    frame = bucketed(events, summary, count if summary.key else 1)
    return frame.mapInArrow(fold, from_arrow_schema(schema))
