"""Expanding states, many keys at once: plans answer what they can, the search the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tamis.errors import ExpandError
from tamis.flow.states.batches.event_tables import EVENT_NAME, arrow_events, event_schema, state
from tamis.flow.states.definitions.derived import Derived
from tamis.flow.states.definitions.keyed import LAST
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.expansion.expanding import expand
from tamis.flow.states.expansion.linear import Linear
from tamis.flow.states.expansion.many_keys import UNSOLVED, Answer, NotPlainError, answer
from tamis.flow.states.expansion.rule_rows import Moves, moves_of
from tamis.flow.states.fold.fold_columns import I8, flat
from tamis.schema import Type


def expand_tables(
    before: pa.Table, after: pa.Table, summary: Summary, through: Derived | None, budget: int
) -> tuple[pa.Table, list[tuple[int, str]]]:
    """The cheapest events from each state of `before` to that of `after`, row by row.

    Also the rows that have none, each with the reason. Plans answer what they can at once.
    """
    schema = arrow_events(event_schema(summary, through))
    parts, places, left = _from_plans(before, after, summary, through, schema)
    found: list[dict[str, object]] = []
    owners: list[int] = []
    failed: list[tuple[int, str]] = []
    rest = pa.array(left)
    olds, news = before.take(rest).to_pylist(), after.take(rest).to_pylist()
    for place, old, new in zip(left.tolist(), olds, news, strict=True):
        key = {n: new[n] for n in summary.key}
        last = {n: old[LAST + n] for n in summary.order}
        try:
            made = expand(state(summary, old), state(summary, new), summary, through=through,
                          key=key, after=last, budget=budget)  # fmt: skip
        except ExpandError as error:
            failed.append((place, str(error)))
            continue
        found += made
        owners += [place] * len(made)
    every = pa.concat_tables([*parts, pa.Table.from_pylist(found, schema)])
    owner = np.concatenate([*places, np.array(owners, np.int64)])
    return every.take(pa.array(np.argsort(owner, kind="stable"))), failed


def _from_plans(
    before: pa.Table, after: pa.Table, summary: Summary, through: Derived | None, schema: pa.Schema
) -> tuple[list[pa.Table], list[I8], I8]:
    """Tables of events with the row of each, and the rows that no plan answers."""
    everything = np.arange(after.num_rows)
    counted = [n for n in summary.order if summary.events[n].type is not Type.INT]
    if summary.lists or (through is None and counted):
        return [], [], everything
    moves = moves_of(summary, through)
    told = answer(moves, before, after)
    parts: list[pa.Table] = []
    places: list[I8] = []
    try:
        for number in np.unique(told.chosen[told.chosen != UNSOLVED]):
            rows = np.flatnonzero(told.chosen == number)
            plan = told.plans[int(number)]
            for i, (row, values) in enumerate(zip(plan.rows, plan.values or (), strict=True)):
                made = _Made(summary, moves, told, before, after, schema)
                parts.append(made.events(row.event, values, rows, i))
                places.append(rows)
    except NotPlainError:
        return [], [], everything
    return parts, places, np.flatnonzero(told.chosen == UNSOLVED)


@dataclass(frozen=True)
class _Made:
    """Events of plans as tables."""

    summary: Summary
    moves: Moves
    told: Answer
    before: pa.Table
    after: pa.Table
    schema: pa.Schema

    def events(self, event: str, values: dict[str, Linear], rows: I8, place: int) -> pa.Table:
        """The event at this place of the plan, for each of the keys."""
        columns = [self._column(c.name, c.type, event, values, rows, place) for c in self.schema]
        return pa.table(columns, schema=self.schema)

    def _column(
        self,
        name: str,
        kind: pa.DataType,
        event: str,
        values: dict[str, Linear],
        rows: I8,
        place: int,
    ) -> pa.Array:
        if name == EVENT_NAME and self.moves.through is not None:
            return pa.repeat(pa.scalar(event, kind), len(rows))
        if name in values:
            return self.told.columns.values(values[name], rows, self.moves.events[event][name].type)
        if name in self.summary.key:
            return flat(self.after[name]).take(pa.array(rows))
        if self.moves.through is None and name in self.summary.order:
            last = flat(self.before[LAST + name]).take(pa.array(rows))
            step = place + 1 if name == self.summary.order[-1] else 0
            return pc.add(last.fill_null(0), step) if step else last
        return pa.nulls(len(rows), kind)
