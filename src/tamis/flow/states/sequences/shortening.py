"""Shorter sequences of events with the same meaning, key by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tamis.errors import ExpandError
from tamis.flow.states.definitions.keyed import Key, States
from tamis.flow.states.definitions.stepping import Stepper
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.expansion.expanding import Event, expand
from tamis.flow.states.expansion.search import BUDGET
from tamis.flow.states.sequences.collapsing import collapse, in_order


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
    from tamis.flow.states.definitions.scope import EVENT
    from tamis.flow.states.expansion.rule_rows import moves_of

    return any(p.name == EVENT + name for row in moves_of(summary).rows for p in row.parameters)


def in_sequence(summary: Summary, events: list[Event]) -> bool:
    """Whether `ordered by` leaves the events in this order."""
    return [e for _, _, e in in_order(summary, events)] == events
