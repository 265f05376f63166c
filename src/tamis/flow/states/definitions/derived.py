"""Derived events: a second set of events that lead to the same state (Gryphon, section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tamis.errors import StateError
from tamis.flow.states.definitions.checking import check_changes, check_condition
from tamis.flow.states.definitions.scope import Scope, read_condition
from tamis.flow.states.definitions.summary import TRUE, Change, Summary, rule_of
from tamis.language import Condition
from tamis.schema import Schema


@dataclass(frozen=True)
class DerivedEvent:
    """`event name(columns) where condition cost number => changes`."""

    name: str
    columns: Schema
    changes: tuple[Change, ...]
    where: Condition = TRUE
    cost: float = 1.0

    @classmethod
    def of(
        cls, name: str, columns: Schema, changes: Mapping[str, object], *, where: str = "",
        cost: float = 1.0,
    ) -> DerivedEvent:  # fmt: skip
        """An event from texts, as in `Summary.of`."""
        return cls(name, columns, rule_of("", changes).changes, read_condition(where), cost)


@dataclass(frozen=True)
class Derived:
    """The events that a state is expanded to."""

    name: str
    events: tuple[DerivedEvent, ...]

    @classmethod
    def of(cls, name: str, summary: Summary, events: Sequence[DerivedEvent]) -> Derived:
        """Checked against the state that they lead to."""
        made = cls(name, tuple(events))
        check_derived(made, summary)
        return made


def check_derived(derived: Derived, summary: Summary) -> None:
    """Raise StateError for what can never work, and for components that no event reaches."""
    names = [event.name for event in derived.events]
    if len(set(names)) != len(names):
        raise StateError(f"{derived.name} has two events of one name")
    reached: set[str] = set()
    for event in derived.events:
        place = f"{derived.name}, event {event.name}"
        visible = Scope(summary.scalars, event.columns).visible
        check_condition(event.where, visible, place)
        check_changes(summary, event.changes, visible, place)
        for name in event.columns:
            if name == "event" or name in summary.key:
                what = "the name of the event" if name == "event" else f"the key of {summary.name}"
                raise StateError(f"{place}: column {name} is there already, it is {what}",
                                 hint="choose another name for it")  # fmt: skip
        if not 0 < event.cost < float("inf"):
            raise StateError(f"{place}: cost {event.cost}", hint="a cost is a positive number")
        reached |= {change.component for change in event.changes}
    missing = [name for name in summary.initial if name not in reached]
    if missing:
        what = f"{derived.name}: no event reaches {', '.join(missing)} of {summary.name}"
        raise StateError(what, hint=f"add an event that sets {missing[0]}")
