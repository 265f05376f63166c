"""Shorter sequences that mean the same: `equivalent`, `catch_up`; `expand_all` for many keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tamis.errors import ExpandError, StateError
from tamis.flow.states.collapsing import _is_table, collapse, in_order, typed_events
from tamis.flow.states.expansion.expanding import Event, expand
from tamis.flow.states.expansion.search import BUDGET
from tamis.flow.states.keyed import Key, States
from tamis.flow.states.stepping import Stepper
from tamis.flow.states.summary import Summary


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
    if _is_table(missed):
        from tamis.flow.states.batches.catching_up import catch_up_table

        return catch_up_table(last_seen, typed_events(summary, missed), summary, budget)
    return catch_up_rows(last_seen, missed, summary, budget)


def catch_up_rows(
    last_seen: States, missed: Iterable[Mapping[str, object]], summary: Summary, budget: int
) -> list[Event]:
    stepper = Stepper(summary)
    taken = in_order(summary, [stepper.event(e) for e in missed])
    by_key: dict[Key, list[Event]] = {}
    for key, _, event in taken:
        by_key.setdefault(key, []).append(event)
    goal = collapse([e for _, _, e in taken], summary, last_seen)
    found = [
        event
        for key, events in by_key.items()
        for event in shortened(last_seen.at(key), goal[key], events, summary, key, budget)
    ]
    return [e for _, _, e in in_order(summary, found)]


def shortened(
    start: Mapping[str, object],
    goal: Mapping[str, object],
    events: list[Event],
    summary: Summary,
    key: Key,
    budget: int = BUDGET,
) -> list[Event]:
    """The events of one key, or fewer that lead from `start` to `goal` as well."""
    shared = dict(zip(summary.key, key, strict=True))
    try:
        found = expand(start, goal, summary, key=shared, budget=budget)
    except ExpandError:
        return events
    if len(found) >= len(events):
        return events
    orders = events[len(events) - len(found) :] if found else []
    free = [n for n in summary.order if not decides(summary, n)]
    made = [e | {n: o[n] for n in free} for e, o in zip(found, orders, strict=True)]
    return made if in_sequence(summary, made) else events


def decides(summary: Summary, name: str) -> bool:
    """Whether rules look at the order attribute, so that its values are solved for."""
    from tamis.flow.states.expansion.rows import moves_of
    from tamis.flow.states.scope import EVENT

    return any(p.name == EVENT + name for row in moves_of(summary).rows for p in row.parameters)


def in_sequence(summary: Summary, events: list[Event]) -> bool:
    """Whether `ordered by` leaves the events in this order."""
    return [e for _, _, e in in_order(summary, events)] == events


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
