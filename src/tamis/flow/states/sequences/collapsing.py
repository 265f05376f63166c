"""`collapse`: a sequence of events to the states that it means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tamis.errors import MessageError, StateError
from tamis.flow.states.definitions.keyed import Key, State, States, arrow_schema
from tamis.flow.states.definitions.stepping import DEFAULT, Limits, Stepper
from tamis.flow.states.definitions.summary import Summary
from tamis.messages.typed_tables import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

Events = "Iterable[Mapping[str, object]] | pa.Table"


def collapse(
    events: Any, summary: Summary, states: States | None = None, *, limits: Limits = DEFAULT
) -> States:
    """The states after all events, beginning with `states` (or with initial ones).

    Events are mappings or an Arrow table. Those of one key are taken in the order of `ordered
    by`; equal orders keep arrival, an undefined order comes first. A table goes through the
    compiled fold where the state has no lists, else events go one by one.
    """
    if is_table(events):
        return collapse_table(typed_events(summary, events), summary, states, limits)
    return _in_python(events, summary, states, limits)


def collapse_table(
    events: pa.Table, summary: Summary, states: States | None, limits: Limits = DEFAULT
) -> States:
    """`collapse` of a table whose columns have the types of the space."""
    from tamis.flow.states.fold.fold_programs import UnsupportedError
    from tamis.flow.states.fold.table_fold import fold_table

    try:
        held = states.to_table() if states is not None else arrow_schema(summary).empty_table()
        folded = fold_table(summary, held, events)
    except UnsupportedError:
        return _in_python(events.to_pylist(), summary, states, limits)
    _check_keys(summary, folded.table.num_rows, limits)
    return States(summary, table=folded.table, late=folded.late)


def typed_events(summary: Summary, events: Any) -> pa.Table:
    """The events' columns in the types of the space; MessageError where a value does not fit."""
    import pyarrow as pa

    from tamis.messages.columnar import typed

    table = pa.Table.from_batches([events]) if isinstance(events, pa.RecordBatch) else events
    names = list(summary.events)
    wanted = pa.schema([(n, arrow_type(summary.events[n].type)) for n in names])
    have = [n for n in names if n in table.column_names]
    if len(have) == len(names) and table.select(names).schema.equals(wanted):
        return table.select(names)
    fitted = []
    for batch in table.select(have).to_batches():
        rows, misfits = typed("the events", batch, summary.events, names)
        if misfits:
            row = min(misfits)
            raise MessageError(f"event {row + 1}: {misfits[row]}")
        fitted.append(rows.select(names).cast(wanted))
    return pa.Table.from_batches(fitted, wanted)


def is_table(events: Any) -> bool:
    return type(events).__module__.partition(".")[0] == "pyarrow"


# --- one by one -----------------------------------------------------------------


def _in_python(
    events: Iterable[Mapping[str, object]], summary: Summary, states: States | None, limits: Limits
) -> States:
    stepper = Stepper(summary, limits)
    rows: dict[Key, Any] = dict(states.rows) if states is not None else {}
    last = dict(states._last) if states is not None else {}
    was = dict(last)
    late = 0
    for key, order, event in in_order(summary, [stepper.event(e) for e in events]):
        rows[key] = stepper.step(rows.get(key, summary.initial), event)
        _check_keys(summary, len(rows), limits)
        if summary.order and order[0][0]:
            late += key in was and order < ordering(was[key])
            if key not in last or order >= ordering(last[key]):
                last[key] = tuple(event[n] for n in summary.order)
    return States(summary, rows, last=last, late=late)


def _check_keys(summary: Summary, count: int, limits: Limits) -> None:
    if count > limits.keys:
        raise StateError(f"{summary.name} has more than {limits.keys:,} keys",
                         hint="raise Limits(keys=...)", limit="keys")  # fmt: skip


def in_order(
    summary: Summary, events: list[State]
) -> list[tuple[Key, tuple[tuple[bool, Any], ...], State]]:
    """Events with key and order, sorted by order; equal orders keep arrival."""
    found = [
        (tuple(e[n] for n in summary.key), ordering(tuple(e[n] for n in summary.order)), e)
        for e in events
    ]
    return sorted(found, key=lambda item: item[1]) if summary.order else found


def ordering(values: Key) -> tuple[tuple[bool, Any], ...]:
    """Order attributes as something that sorts, the undefined first."""
    return tuple((v is not None, 0 if v is None else v) for v in values)
