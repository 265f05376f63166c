"""One event after the other, in plain Python: the way for lists, and for single events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tamis.errors import StateError
from tamis.flow.states.definitions.scope import EVENT, STATE
from tamis.flow.states.definitions.summary import Append, Assign, Change, Summary
from tamis.language import Condition, Constant, Term
from tamis.logic import reduce, satisfied, value
from tamis.messages import lookup
from tamis.schema import Schema, Type

Test = Callable[[Callable[[str], object]], bool]


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a state may grow. Crossing a limit is a StateError that names it.

    `elements`: entries of one list of one key. `keys`: keys of one state; on
    Spark, those of one bucket.
    """

    elements: int = 10_000
    keys: int = 5_000_000


DEFAULT = Limits()


class Stepper:
    """Applies the rules of a summary to one state and one event at a time."""

    def __init__(self, summary: Summary, limits: Limits = DEFAULT) -> None:
        self.summary, self.limits = summary, limits
        scope = summary.scope
        self._rules = [
            (_test(scope.qualified(rule.condition), scope.full),
             [_prepared(summary, change) for change in rule.changes])
            for rule in summary.rules
        ]  # fmt: skip

    def fired(self, state: Mapping[str, object], event: Mapping[str, object]) -> int | None:
        """The number of the first rule that fits, from 0; None where none does."""
        find = self._finder(state, event)
        return next((i for i, (test, _) in enumerate(self._rules) if test(find)), None)

    def step(
        self, state: Mapping[str, object], event: Mapping[str, object]
    ) -> Mapping[str, object]:
        """The state after the event; `state` itself where no rule fits."""
        find = self._finder(state, event)
        for test, changes in self._rules:
            if test(find):
                return {**state, **{n: made(state[n], find, self.limits) for n, made in changes}}
        return state

    def event(self, given: Mapping[str, object]) -> dict[str, object]:
        """A message as an event of the space: values in their types, None where undefined."""
        events = self.summary.events
        return {name: events.convert(name, lookup(given, name)) for name in events}

    def _finder(
        self, state: Mapping[str, object], event: Mapping[str, object]
    ) -> Callable[[str], object]:
        def find(name: str) -> object:
            if name.startswith(STATE):
                return state[name[len(STATE) :]]
            return event.get(name[len(EVENT) :])

        return find


def _test(condition: Condition, schema: Schema) -> Test:
    if isinstance(condition, Constant):
        truth = condition.value
        return lambda find: truth
    formula = reduce(condition, "sql", schema)
    return lambda find: satisfied(formula, find, {})


Made = Callable[[object, Callable[[str], object], Limits], object]


def _prepared(summary: Summary, change: Change) -> tuple[str, Made]:
    """The component, and what it becomes given what it was."""
    scope = summary.scope
    if isinstance(change, Assign):
        kind = summary.scalars[change.component].type
        term = scope.qualified(change.term)
        return change.component, lambda _, find, __: _typed(term, kind, find)
    if isinstance(change, Append):
        fields = summary.lists[change.component].attributes
        parts = [(scope.qualified(t), f.type) for t, f in zip(change.terms, fields, strict=True)]
        name = f"{summary.name}.{change.component}"
        return change.component, lambda old, find, limits: _appended(name, old, parts, find, limits)
    return change.component, lambda *_: ()


def _typed(term: Term, kind: Type, find: Callable[[str], object]) -> object:
    found = value(term, find, {})
    return float(found) if kind is Type.DOUBLE and isinstance(found, int) else found


def _appended(
    name: str,
    old: object,
    parts: list[tuple[Term, Type]],
    find: Callable[[str], object],
    limits: Limits,
) -> object:
    rows: tuple[object, ...] = old  # type: ignore[assignment]
    if len(rows) >= limits.elements:
        what = f"{name} has {len(rows):,} entries for one key: the limit is {limits.elements:,}"
        hint = "empty the list by a rule (:= ()), or raise Limits(elements=...)"
        raise StateError(what, hint=hint, limit="elements")
    return (*rows, tuple(_typed(term, kind, find) for term, kind in parts))
