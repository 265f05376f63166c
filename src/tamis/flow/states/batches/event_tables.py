"""Tables of events and of states: their columns, and which rows belong together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tamis.flow.states.definitions.derived import Derived
from tamis.flow.states.definitions.keyed import arrow_schema
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.fold.fold_columns import I8, flat, key_rows
from tamis.messages.typed_tables import arrow_type
from tamis.schema import Attribute, Schema, Type

EVENT_NAME = "event"


def event_schema(summary: Summary, through: Derived | None = None) -> Schema:
    """The columns of expanded events: those of the space; or the event's name, the key, and all
    columns of the derived events."""
    if through is None:
        return summary.events
    columns = {EVENT_NAME: Attribute(EVENT_NAME, Type.STRING)}
    columns |= {n: summary.events[n] for n in summary.key}
    for event in through.events:
        columns |= {a.name: a for a in event.columns.attributes if a.name not in columns}
    return Schema(tuple(Attribute(a.name, a.type) for a in columns.values()))


def arrow_events(schema: Schema) -> pa.Schema:
    return pa.schema([(a.name, arrow_type(a.type)) for a in schema.attributes])


def state(summary: Summary, row: dict[str, object]) -> dict[str, object]:
    """A row of a table of states as a state."""
    return {n: tuple(tuple(e.values()) for e in row[n])  # type: ignore[attr-defined]
            if n in summary.lists else row[n] for n in summary.initial}  # fmt: skip


def starts_of(summary: Summary, before: pa.Table, after: pa.Table) -> pa.Table:
    """The states before, row for row with those after; new keys have the initial state."""
    more = after.num_rows - before.num_rows
    if not more:
        return before
    schema = arrow_schema(summary)
    columns = []
    for column in schema:
        if column.name in summary.initial:
            first = summary.initial[column.name]
            first = [] if column.name in summary.lists else first
            fresh = pa.repeat(pa.scalar(first, column.type), more)
        elif column.name in summary.key:
            fresh = flat(after[column.name]).slice(before.num_rows)
        else:
            fresh = pa.nulls(more, column.type)
        columns.append(pa.chunked_array([*before[column.name].chunks, fresh]))
    return pa.table(columns, schema=schema)


def touched_rows(summary: Summary, states: pa.Table, events: pa.Table) -> I8:
    """The rows of the states whose keys have events, in order."""
    rows, _ = key_rows(states, events, summary.key)
    return np.unique(rows)
