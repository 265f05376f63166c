"""Catching up, many keys at once: tables in and tables out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tamis.flow.states.batches.event_tables import arrow_events, starts_of, state
from tamis.flow.states.definitions.keyed import States
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.expansion.many_keys import UNSOLVED, Answer, NotPlainError, answer
from tamis.flow.states.expansion.rule_cases import OutsideError
from tamis.flow.states.expansion.rule_rows import moves_of
from tamis.flow.states.fold import fold_kernels as kernels
from tamis.flow.states.fold.fold_columns import I8, Mask, flat
from tamis.flow.states.fold.fold_programs import UnsupportedError
from tamis.flow.states.fold.table_fold import Folded, fold_table
from tamis.flow.states.sequences.shortening import catch_up_rows, decides
from tamis.jit.kernel import arrays_from
from tamis.messages.typed_tables import arrow_type


def catch_up_table(last_seen: States, missed: pa.Table, summary: Summary, budget: int) -> pa.Table:
    """`catch_up` of a table, sorted by the order attributes."""
    schema = arrow_events(summary.events)
    try:
        moves_of(summary)
        folded = fold_table(summary, last_seen.to_table(), missed)
    except OutsideError:
        return _sorted(missed.cast(schema), summary)
    except UnsupportedError:
        rows = catch_up_rows(last_seen, missed.to_pylist(), summary, budget)
        return pa.Table.from_pylist(rows, schema)
    start = starts_of(summary, last_seen.to_table(), folded.table)
    counts = np.bincount(folded.rows, minlength=folded.table.num_rows)
    touched = np.flatnonzero(counts)
    found, kept = _replaced(summary, start, folded, missed, counts, touched, budget)
    rest = missed.filter(pa.array(kept[folded.rows]))
    return _sorted(pa.concat_tables([found, rest.cast(schema)]), summary)


def _replaced(
    summary: Summary, start: pa.Table, folded: Folded, missed: pa.Table, counts: I8,
    touched: I8, budget: int,
) -> tuple[pa.Table, Mask]:  # fmt: skip
    """New events for the keys that get fewer of them, and which keys keep their own."""
    schema = arrow_events(summary.events)
    kept = np.zeros(len(counts), np.bool_)
    places = pa.array(touched)
    told = answer(moves_of(summary), start.take(places), folded.table.take(places))
    parts, left = _planned(summary, told, touched, folded, missed, counts)
    undone = touched[left]
    lengths = _lengths(told)
    kept[touched[(~left) & (lengths >= counts[touched])]] = True
    if len(undone):
        rows = _searched(summary, start, folded, missed, undone, budget)
        parts.append(pa.Table.from_pylist(rows, schema))
    return pa.concat_tables([schema.empty_table(), *parts]), kept


def _lengths(told: Answer) -> I8:
    sizes = np.array([len(p.rows) for p in told.plans] + [0], np.int64)
    return sizes[told.chosen]


def _planned(
    summary: Summary, told: Answer, touched: I8, folded: Folded, missed: pa.Table, counts: I8
) -> tuple[list[pa.Table], Mask]:
    """The events of all keys with a plan that is shorter than what they missed."""
    lengths = _lengths(told)
    solved = told.chosen != UNSOLVED
    use = solved & (lengths < counts[touched])
    if any(decides(summary, n) for n in summary.order):
        return [], np.ones(len(touched), np.bool_)
    wanted = np.zeros(len(counts), np.int64)
    wanted[touched[use]] = lengths[use]
    starts = np.cumsum(wanted) - wanted
    carriers = arrays_from(kernels.last_events, folded.rows, folded.turn, wanted, starts)
    parts = []
    try:
        for number in np.unique(told.chosen[use]):
            parts += _plan_events(summary, told, int(number), touched, use, starts, carriers,
                                  folded, missed)  # fmt: skip
    except NotPlainError:
        return [], np.ones(len(touched), np.bool_)
    return parts, ~solved


def _plan_events(
    summary: Summary, told: Answer, number: int, touched: I8, use: Mask, starts: I8,
    carriers: I8, folded: Folded, missed: pa.Table,
) -> list[pa.Table]:  # fmt: skip
    """One table for each event of the plan: a row for each key that follows it."""
    plan = told.plans[number]
    chosen = np.flatnonzero(use & (told.chosen == number))
    keys = touched[chosen]
    tables = []
    for i, values in enumerate(plan.values or ()):
        carrier = pa.array(carriers[starts[keys] + i])
        columns = []
        for column in summary.events.attributes:
            kind = arrow_type(column.type)
            if column.name in values:
                columns.append(told.columns.values(values[column.name], chosen, column.type))
            elif column.name in summary.key:
                columns.append(flat(folded.table[column.name]).take(pa.array(keys)).cast(kind))
            elif column.name in summary.order:
                columns.append(flat(missed[column.name]).take(carrier).cast(kind))
            else:
                columns.append(pa.nulls(len(keys), kind))
        tables.append(pa.table(columns, schema=arrow_events(summary.events)))
    return tables


def _searched(
    summary: Summary, start: pa.Table, folded: Folded, missed: pa.Table, keys: I8, budget: int
) -> list[dict[str, object]]:
    """The keys that no plan answers, one by one."""
    from tamis.flow.states.sequences.shortening import shortened

    chosen = np.zeros(folded.table.num_rows, np.bool_)
    chosen[keys] = True
    turn = folded.turn if len(folded.turn) else np.arange(len(folded.rows))
    turn = turn[chosen[folded.rows[turn]]]
    by_key: dict[int, list[dict[str, object]]] = {}
    rows = missed.take(pa.array(turn)).to_pylist()
    for key, event in zip(folded.rows[turn].tolist(), rows, strict=True):
        by_key.setdefault(key, []).append(event)
    places = pa.array(keys)
    before = _states(summary, start.take(places))
    after = _states(summary, folded.table.take(places))
    found: list[dict[str, object]] = []
    for key, (old, (named, new)) in zip(
        keys.tolist(), zip(before, after, strict=True), strict=True
    ):
        found += shortened(old[1], new, by_key[key], summary, named, budget)
    return found


def _states(
    summary: Summary, table: pa.Table
) -> list[tuple[tuple[object, ...], dict[str, object]]]:
    rows = table.to_pylist()
    keys = [tuple(row[n] for n in summary.key) for row in rows]
    return [(key, state(summary, row)) for key, row in zip(keys, rows, strict=True)]


def _sorted(events: pa.Table, summary: Summary) -> pa.Table:
    keys = [(n, "ascending") for n in (*summary.order, *summary.key)]
    return events.sort_by(keys) if keys else events
