"""A summary: what a sequence of events means, as a state and the rules that change it.

Gryphon, section 4.1: an initial state and an incremental operation, written as rules that
are tried in order. The first rule whose condition is true of event and state makes its
changes, all at once; an event that fits no rule leaves the state as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tamis.errors import StateError
from tamis.flow.states.definitions.scope import Scope, read_condition, read_term
from tamis.language import Attribute as Attr
from tamis.language import Condition, Constant, Term, canonical
from tamis.schema import Attribute, Scalar, Schema, Type

TRUE = Constant(True)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of tuples with these fields, in the order in which they were appended."""

    fields: Schema


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the state. `initial` None means undefined; a list begins empty."""

    name: str
    type: Type | ListOf
    initial: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """`component := term`; an undefined term leaves the component undefined."""

    component: str
    term: Term


@dataclass(frozen=True, slots=True)
class Append:
    """`component += (term, ...)`: one more tuple at the end of a list."""

    component: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    """`component := ()`: the list is empty again."""

    component: str


Change = Assign | Append | Clear


@dataclass(frozen=True, slots=True)
class Rule:
    """Where `condition` is true of event and state, make all `changes` at once."""

    condition: Condition
    changes: tuple[Change, ...]
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Summary:
    """How events of one space collapse to a state for each key.

    Holding one means that it was checked: names, types and changes fit. A bare name in a rule
    is the component, else the event's attribute; `event.x` is always the event's.
    """

    name: str
    events: Schema
    components: tuple[Component, ...]
    rules: tuple[Rule, ...]
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    where: Condition = TRUE
    source: str = "events"

    def __post_init__(self) -> None:
        from tamis.flow.states.definitions.checking import check_summary

        check_summary(self)

    @classmethod
    def of(
        cls,
        name: str,
        events: Schema,
        components: Mapping[str, object],
        rules: Sequence[tuple[str, Mapping[str, object]]],
        *,
        key: str | Sequence[str] = (),
        order: str | Sequence[str] = (),
        where: str = "",
        source: str = "events",
    ) -> Summary:
        """A summary from Python values and texts.

        A component is a type, a pair of type and initial value, or `[Schema]` for a list. A rule
        is a condition and the changes by component: a term, a tuple of terms to append to a
        list, or `()` to empty it.
        """
        parts = tuple(component_of(n, spec) for n, spec in components.items())
        made = tuple(rule_of(condition, changes) for condition, changes in rules)
        return cls(name, events, parts, made, _names(key), _names(order),
                   read_condition(where), source)  # fmt: skip

    @cached_property
    def scope(self) -> Scope:
        """What the names in a rule stand for."""
        return Scope(self.scalars, self.events)

    @cached_property
    def scalars(self) -> Schema:
        """The components that are no lists, with their initial values as defaults."""
        found = [c for c in self.components if isinstance(c.type, Type)]
        return Schema(tuple(Attribute(c.name, c.type, c.initial) for c in found))  # type: ignore[arg-type]

    @cached_property
    def lists(self) -> dict[str, Schema]:
        """The components that are lists, and their fields."""
        return {c.name: c.type.fields for c in self.components if isinstance(c.type, ListOf)}

    @cached_property
    def initial(self) -> dict[str, object]:
        """The state before any event."""
        return {c.name: c.initial if isinstance(c.type, Type) else () for c in self.components}

    def state(self, *values: object, **named: object) -> dict[str, object]:
        """A state from its components, in order or by name; the others are as at the beginning."""
        if len(values) > len(self.components):
            raise StateError(f"{self.name} has {len(self.components)} components: {values!r}")
        given = {c.name: v for c, v in zip(self.components, values, strict=False)}
        return self.fit({**self.initial, **given, **named})

    def fit(self, state: Mapping[str, object]) -> dict[str, object]:
        """`state` with every component in its type; StateError where that cannot be."""
        from tamis.flow.states.definitions.checking import fitting

        return fitting(self, state)


def component_of(name: str, spec: object) -> Component:
    """A component as `Summary.of` takes it."""
    if isinstance(spec, list) and len(spec) == 1 and isinstance(spec[0], Schema):
        return Component(name, ListOf(spec[0]))
    one = Schema.of({name: spec}).attributes[0]
    return Component(name, one.type, one.default)


def rule_of(condition: str, changes: Mapping[str, object]) -> Rule:
    """A rule as `Summary.of` takes it."""
    made = tuple(_change(name, given) for name, given in changes.items())
    return Rule(read_condition(condition), made, rule_text(read_condition(condition), made))


def rule_text(condition: Condition, changes: Iterable[Change]) -> str:
    """A rule as it is written in a flow."""
    head = "" if condition == TRUE else f"{canonical(condition)} "
    return f"{head}=> {', '.join(map(change_text, changes))}"


def change_text(change: Change) -> str:
    name = canonical(Attr(change.component))
    match change:
        case Assign(_, term):
            return f"{name} := {canonical(term)}"
        case Append(_, terms):
            return f"{name} += ({', '.join(map(canonical, terms))})"
        case Clear(_):
            return f"{name} := ()"


def _change(name: str, given: object) -> Change:
    if isinstance(given, tuple):
        return Append(name, tuple(read_term(str(t)) for t in given)) if given else Clear(name)
    return Assign(name, read_term(str(given)))


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
