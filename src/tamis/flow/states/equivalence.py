"""Shorter sequences that mean the same: `equivalent`, `catch_up`; `expand_all` for many keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tamis.errors import StateError
from tamis.flow.states.definitions.keyed import States
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.expansion.expanding import Event, expand
from tamis.flow.states.expansion.search import BUDGET
from tamis.flow.states.sequences.collapsing import is_table, typed_events
from tamis.flow.states.sequences.shortening import catch_up_rows


def equivalent(events: Any, summary: Summary, *, budget: int = BUDGET) -> Any:
    """A sequence that collapses to the same states, never longer than `events`.

    Mappings in, a list out; an Arrow table in, a table out. Where a key's events cannot be
    replaced by fewer, they stay as they are. The new events carry the orders of the last ones.
    """
    return catch_up(States(summary), events, summary, budget=budget)


def catch_up(
    last_seen: States | Mapping[str, object],
    missed: Any,
    summary: Summary,
    *,
    budget: int = BUDGET,
) -> Any:
    """The shortest events that bring a subscriber from `last_seen` to where `missed` would.

    `last_seen` are States, or the one state of a summary without a key.
    """
    if not isinstance(last_seen, States):
        if summary.key:
            raise StateError(f"{summary.name} has a key: give States, one state for each key")
        last_seen = States(summary, {(): summary.fit(last_seen)})
    if is_table(missed):
        from tamis.flow.states.batches.catching_up import catch_up_table

        return catch_up_table(last_seen, typed_events(summary, missed), summary, budget)
    return catch_up_rows(last_seen, missed, summary, budget)


def expand_all(
    current: States, goal: States, summary: Summary, *, through: Any = None, budget: int = BUDGET
) -> list[Event]:
    """The cheapest events from `current` to `goal` for every key of `goal`, key by key."""
    found: list[Event] = []
    for key, state in goal.rows.items():
        shared = dict(zip(summary.key, key, strict=True))
        found += expand(current.at(key), state, summary, through=through, key=shared,
                        after=current.last(key), budget=budget)  # fmt: skip
    return found


def warm() -> None:
    """Compile the kernels, or load them: better once here than in every worker at once."""
    import pyarrow as pa

    from tamis.schema import Schema

    summary = Summary.of(
        "warm", Schema.of(k=int, v=float, n=int), {"x": (float, 0.0)}, [("v > x", {"x": "v"})],
        key="k", order="n",
    )  # fmt: skip
    equivalent(pa.table({"k": [1, 1, 1], "v": [1.0, 2.0, 3.0], "n": [1, 2, 3]}), summary)
