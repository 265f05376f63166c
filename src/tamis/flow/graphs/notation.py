"""`state` and `expand` as they are written in a flow; `wiring` makes summaries of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tamis.flow.model.elements import Column
from tamis.flow.states.definitions.summary import Change, Component
from tamis.language import Condition


def _at() -> Any:
    return field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StateRule:
    """`rule [condition] => changes`; `condition` None is always true."""

    condition: Condition | None
    changes: tuple[Change, ...]
    at: int = _at()


@dataclass(frozen=True, slots=True)
class State:
    """`state NAME keyed by ... from SPACE ordered by ... (components)`, and its rules."""

    name: str
    source: str
    key: tuple[str, ...]
    order: tuple[str, ...]
    components: tuple[Component, ...]
    rules: tuple[StateRule, ...]
    at: int = _at()

    @property
    def title(self) -> str:
        return f"state {self.name}"


@dataclass(frozen=True, slots=True)
class EventLine:
    """`event NAME(columns) [where condition] [cost number] => changes`."""

    name: str
    columns: tuple[Column, ...]
    changes: tuple[Change, ...]
    where: Condition | None = None
    cost: float = 1.0
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Expand:
    """`expand STATE -> SPACE as SPACE`, or with `event` lines.

    `only`: the components that the events tell of; all of them where it is empty.
    """

    state: str
    target: str
    like: str | None = None
    events: tuple[EventLine, ...] = ()
    only: tuple[str, ...] = ()
    at: int = _at()

    @property
    def title(self) -> str:
        return f"expand {self.state} -> {self.target}"
