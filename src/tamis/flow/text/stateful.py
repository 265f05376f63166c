"""States and their expansion: `state`, `expand`, and how they are printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tamis.flow.graphs.notation import EventLine, Expand, State, StateRule
from tamis.flow.model.elements import Column
from tamis.flow.states.definitions.summary import (
    Append,
    Assign,
    Change,
    Clear,
    Component,
    ListOf,
    change_text,
)
from tamis.flow.text.flow_parser import StatementParser
from tamis.flow.text.flow_printer import columns_text, name_text, scalar_text
from tamis.language import Attribute, Literal, canonical
from tamis.schema import Attribute as Field
from tamis.schema import Scalar, Schema, Type


def state(p: StatementParser, at: int) -> State:
    """`state NAME [keyed by names] from SPACE ordered by names (components) { rule }`."""
    name, _ = p.identifier("the name of the state")
    p.title = f"state {name}"
    key = _names(p) if p.word("keyed", "by") else ()
    if not p.word("from"):
        p.fail_here("expected from and the space of the events", "write keyed by k from Space")
    source, _ = p.identifier("the space of the events")
    if not p.word("ordered", "by"):
        hint = "say which attribute orders the events of a key: ordered by seq"
        p.fail("a state needs ordered by", at, hint)
    order = _names(p)
    p.need("(", "and the components", "write (max: double := 0, ...)")
    components = p.listed_items(lambda: _component(p))
    p.need(")", "after the components")
    rules = []
    while p.kinds[p.i] != "end":
        rules.append(_rule(p))
    if not rules:
        p.fail("a state without rules never changes", at, "write rule => component := term")
    return State(name, source, key, order, components, tuple(rules), at)


def expand(p: StatementParser, at: int) -> Expand:
    """`expand STATE [(components)] -> SPACE (as SPACE | { event ... })`."""
    name, _ = p.identifier("the name of the state")
    only: tuple[str, ...] = ()
    if p.sign("("):
        only = _names(p)
        p.need(")", "after the components")
    p.need("->", "and the space of the events", f"write expand {name} -> Space")
    target, _ = p.identifier("the space of the events")
    p.title = f"expand {name} -> {target}"
    if p.word("as"):
        if only:
            hint = "name no components, or write event lines"
            p.fail("as makes the state's own events, which tell of all of it", at, hint)
        return Expand(name, target, p.identifier("the space whose events are made")[0], at=at)
    events = []
    while p.kinds[p.i] != "end":
        events.append(_event(p))
    if not events:
        p.fail("expand needs events", at, "write as SPACE, or lines event NAME(...) => ...")
    return Expand(name, target, None, tuple(events), only, at)


def _names(p: StatementParser) -> tuple[str, ...]:
    return p.listed_items(lambda: p.identifier("the name of an attribute")[0])


def _component(p: StatementParser) -> Component:
    name, _ = p.identifier("the name of a component")
    p.need(":", "and the component's type", f"write {name}: double := 0")
    if p.word("list", "of"):
        fields = Schema(tuple(Field(c.name, c.type) for c in p.columns()))
        if p.sign(":="):
            p.need("(", "and )", "a list begins empty: write := ()")
            p.need(")", "after (", "a list begins empty: write := ()")
        return Component(name, ListOf(fields))
    kind = p.type()
    first = _initial(p, name, kind) if p.sign(":=") else None
    if p.kinds[p.i] == "=":
        p.fail_here(
            "= compares; an initial value is written :=", f"write {name}: {kind.value} := 0"
        )
    return Component(name, kind, first)


def _initial(p: StatementParser, name: str, kind: Type) -> Scalar | None:
    at = p.at
    if p.sign("NULL"):
        return None
    found = p.whole_term()
    if not isinstance(found, Literal):
        p.fail("an initial value is a constant", at, "a string stands in quotes")
    if found.type is Type.INT and kind is Type.DOUBLE:
        return float(found.value)  # type: ignore[arg-type]
    if found.type is not kind:
        p.fail(f"{name} is {kind.value}, its initial value is {found.type.value}", at, "")
    return found.value


def _rule(p: StatementParser) -> StateRule:
    at = p.at
    if not p.word("rule"):
        p.fail_here("expected rule", "a rule is written: rule condition => component := term")
    condition = None if p.kinds[p.i] == "=>" else p.whole_condition()
    return StateRule(condition, _changes(p), at)


def _event(p: StatementParser) -> EventLine:
    at = p.at
    if not p.word("event"):
        p.fail_here("expected event", "write event NAME(column: type) => component := term")
    name, _ = p.identifier("the name of the event")
    columns: tuple[Column, ...] = p.columns()
    where = p.whole_condition() if p.word("where") else None
    cost = _cost(p) if p.word("cost") else 1.0
    return EventLine(name, columns, _changes(p), where, cost, at)


def _cost(p: StatementParser) -> float:
    at = p.at
    found = p.whole_term()
    if not isinstance(found, Literal) or not found.type.numeric or not found.value > 0:  # type: ignore[operator]
        p.fail("a cost is a positive number", at, "write cost 2")
    return float(found.value)  # type: ignore[arg-type]


def _changes(p: StatementParser) -> tuple[Change, ...]:
    p.need("=>", "and the changes", "write => component := term")
    return p.listed_items(lambda: _change(p))


def _change(p: StatementParser) -> Change:
    name, _ = p.identifier("the component that changes")
    if p.sign("+="):
        p.need("(", "and the values to append", f"write {name} += (a, b)")
        terms = p.listed_items(p.whole_term)
        p.need(")", "after the values")
        return Append(name, terms)
    if p.kinds[p.i] == "=":
        p.fail_here("= compares; a change is written :=", f"write {name} := ...")
    p.need(":=", "and the new value", f"write {name} := term")
    if p.kinds[p.i] == "(" and p.kinds[p.i + 1] == ")":
        p.i += 2
        return Clear(name)
    return Assign(name, p.whole_term())


# --- and back -----------------------------------------------------------------------


def state_text(shown: State) -> str:
    key = f" keyed by {_listed(shown.key)}" if shown.key else ""
    head = f"state {name_text(shown.name)}{key} from {name_text(shown.source)}"
    parts = ", ".join(map(component_text, shown.components))
    lines = [f"{head} ordered by {_listed(shown.order)}", f"  ({parts})"]
    lines += [f"  rule {_rule_text(rule)}" for rule in shown.rules]
    return "\n".join(lines)


def _rule_text(rule: StateRule) -> str:
    head = "" if rule.condition is None else f"{canonical(rule.condition)} "
    return f"{head}=> {_changes_text(rule.changes)}"


def component_text(shown: Component) -> str:
    name = name_text(shown.name)
    if isinstance(shown.type, ListOf):
        fields = tuple(Column(f.name, f.type) for f in shown.type.fields.attributes)
        return f"{name}: list of ({columns_text(fields)}) := ()"
    first = "" if shown.initial is None else f" := {scalar_text(shown.initial)}"
    return f"{name}: {shown.type.value}{first}"


def expand_text(shown: Expand) -> str:
    only = f" ({_listed(shown.only)})" if shown.only else ""
    head = f"expand {name_text(shown.state)}{only} -> {name_text(shown.target)}"
    if shown.like is not None:
        return f"{head} as {name_text(shown.like)}"
    return "\n".join([head, *(f"  event {event_text(e)}" for e in shown.events)])


def event_text(shown: EventLine) -> str:
    where = "" if shown.where is None else f" where {canonical(shown.where)}"
    cost = "" if shown.cost == 1 else f" cost {shown.cost!r}"
    columns = columns_text(shown.columns)
    return f"{name_text(shown.name)}({columns}){where}{cost} => {_changes_text(shown.changes)}"


def _changes_text(changes: tuple[Change, ...]) -> str:
    return ", ".join(map(change_text, changes))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(canonical(Attribute(n)) for n in names)


PRINTERS: dict[type, Callable[[Any], str]] = {State: state_text, Expand: expand_text}
