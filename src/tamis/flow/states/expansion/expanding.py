"""`expand`: the events that lead most cheaply from one state to another."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping

from tamis.errors import ExpandError, StateError
from tamis.flow.states.definitions.derived import Derived
from tamis.flow.states.definitions.scope import EVENT
from tamis.flow.states.definitions.stepping import Stepper
from tamis.flow.states.definitions.summary import Rule, Summary
from tamis.flow.states.expansion.exact_numbers import number_of
from tamis.flow.states.expansion.rule_cases import OutsideError
from tamis.flow.states.expansion.rule_rows import Moves, moves_of
from tamis.flow.states.expansion.search import BUDGET, Search, Trace
from tamis.flow.states.expansion.searchless import direct, direct_rows
from tamis.flow.states.expansion.solving import Step, parameters
from tamis.flow.states.expansion.zones import Problem
from tamis.language.types import nearest

Event = dict[str, object]
_TRIES = 50  # sequences whose values did not come out, before the search gives up


def expand(
    current: Mapping[str, object],
    goal: Mapping[str, object],
    summary: Summary,
    *,
    through: Derived | None = None,
    key: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    budget: int = BUDGET,
    trace: Trace | None = None,
) -> list[Event]:
    """The cheapest events that lead from `current` to `goal`.

    With `through`, events of that second set, each with its name under `event`. `key` gives the
    attributes that the events share, `after` the order of the last event before them. Raises
    ExpandError where there are none, where the search exceeds `budget` zones, and where the
    summary's form is outside: its `reason` tells which.
    """
    start, end = summary.fit(current), summary.fit(goal)
    shared = _shared(summary, key or {})
    try:
        moves = moves_of(summary, through)
        events = _cheapest(moves, start, end, shared, budget, trace)
    except OutsideError as why:
        raise ExpandError(
            f"{summary.name} cannot be expanded: {why}",
            reason="outside",
            hint="it can be collapsed; send the events themselves, or derive others",
        ) from None
    return [dict(event) for event in numbered(summary, events, shared, after or {}, through)]


def _shared(summary: Summary, key: Mapping[str, object]) -> Event:
    """The attributes that all events share, in the types of their space."""
    for name in key:
        if name not in summary.events:
            hint = nearest(name, summary.events) or f"there are {', '.join(summary.events)}"
            raise StateError(f"the events of {summary.name} have no {name}", hint=hint)
    return {name: summary.events.convert(name, value) for name, value in key.items()}


def _cheapest(
    moves: Moves, start: Event, end: Event, shared: Event, budget: int, trace: Trace | None
) -> list[Event]:
    plain = direct_rows(moves) if trace is None and not shared.keys() & _used(moves) else None
    at_once = direct(plain, start, end) if plain is not None else None
    if at_once is not None and replayed(moves, at_once, start, shared) == end:
        return [{"event": name, **event} if name else event for name, event in at_once]
    fixed = {EVENT + name: value for name, value in shared.items()}
    problem, zone = Problem.of(moves, start, end, fixed)
    search = Search(problem, zone, budget, trace)
    tried = 0
    for _, steps in search.plans():
        events = _events(problem, steps, start, shared)
        if events is not None:
            events = _in_order_of_rules(moves, events, steps, start, shared)
            if replayed(moves, events, start, shared) == end:
                return [{"event": name, **event} if name else event for name, event in events]
        tried += 1
        if tried >= _TRIES:
            break
    way = f"from {_state(start)} to {_state(end)}"
    what = f"{moves.summary.name}: no sequence of events leads {way}"
    hint = search.why or "every way back from the goal ends before it meets the start"
    if tried:
        what = f"{moves.summary.name}: rounding keeps every sequence {way} from meeting the goal"
        hint = "send the events themselves"
    raise ExpandError(what, reason="unreachable", hint=hint)


def _used(moves: Moves) -> set[str]:
    """The attributes that some row looks at."""
    return {p.name.removeprefix(EVENT) for row in moves.rows for p in row.parameters}


Named = tuple[str, Event]


def _events(problem: Problem, steps: list[Step], start: Event, shared: Event) -> list[Named] | None:
    """Values for all steps, forward from the start; None where some have none."""
    moves, state, found = problem.moves, start, []
    for step in steps:
        columns = moves.events[step.row.event]
        numbers = {moves.variable(n): None if state[n] is None else number_of(state[n])
                   for n in moves.summary.scalars}  # fmt: skip
        chosen = parameters(problem, step, numbers, columns)
        if chosen is None:
            return None
        found.append((step.row.event, chosen))
        state = dict(stepper_of(moves, step.row.event).step(state, {**shared, **chosen}))
    return found


def _in_order_of_rules(
    moves: Moves, events: list[Named], steps: list[Step], start: Event, shared: Event
) -> list[Named]:
    """Derived events follow the order of their lines wherever that means the same."""
    if not moves.derived:
        return events
    rules = [step.row.rule for step in steps]
    order = sorted(range(len(events)), key=lambda i: rules[i])
    tidy = [events[i] for i in order]
    same = replayed(moves, tidy, start, shared) == replayed(moves, events, start, shared)
    return tidy if same else events


def replayed(moves: Moves, events: list[Named], start: Event, shared: Event) -> Event:
    """The state after the events."""
    state: Mapping[str, object] = start
    for name, event in events:
        state = stepper_of(moves, name).step(state, {**shared, **event})
    return dict(state)


def stepper_of(moves: Moves, event: str) -> Stepper:
    """What applies one kind of event."""
    return moves.once(("stepper", event), lambda: _stepper(moves, event))


def _stepper(moves: Moves, event: str) -> Stepper:
    summary = moves.summary
    if moves.through is None:
        return Stepper(summary)
    (chosen,) = [e for e in moves.through.events if e.name == event]
    rule = Rule(chosen.where, chosen.changes)
    alike = Summary(summary.name, chosen.columns, summary.components, (rule,))
    return Stepper(alike)


# --- the attributes that no rule looks at ------------------------------------------


def numbered(
    summary: Summary, events: list[Event], shared: Event, after: Mapping[str, object],
    through: Derived | None,
) -> Iterator[Event]:  # fmt: skip
    """The events with key and order; the last order attribute counts on from `after`."""
    last = {name: after.get(name) for name in summary.order}
    for event in events:
        if through is not None:
            yield {**event, **shared}
            continue
        if summary.order and summary.order[-1] not in event:
            last[summary.order[-1]] = _next(last[summary.order[-1]], summary)
        yield {name: event.get(name, shared.get(name, last.get(name))) for name in summary.events}


def _next(value: object, summary: Summary) -> object:
    if isinstance(value, datetime.datetime):
        return value + datetime.timedelta(microseconds=1)
    if isinstance(value, int | float):
        return value + 1
    kind = summary.events[summary.order[-1]].type
    return {"int": 1, "double": 1.0}.get(kind.value)


def _state(state: Mapping[str, object]) -> str:
    return f"<{', '.join(f'{n}: {v}' for n, v in state.items())}>"
