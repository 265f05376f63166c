"""A flow in plain Python, message by message and arc by arc: what a flow means.

The Spark forms are compared with this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tamis.errors import MessageError
from tamis.flow.graphs.flow_graph import Graph, TypedArc
from tamis.flow.model.elements import Rule, Select, Step
from tamis.flow.model.lookups import Tables
from tamis.language import Condition, canonical
from tamis.logic import Formula, reduce, satisfied, value
from tamis.messages import lookup
from tamis.schema import Scalar, Schema

Message = dict[str, Scalar]  # what is undefined is left out


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that does not fit its space, and why."""

    space: str
    row: Mapping[str, object]
    reason: str


@dataclass(slots=True)
class Result:
    """The messages of every space, how many passed each arc, and the rows that do not fit."""

    spaces: dict[str, list[Message]] = field(default_factory=dict)
    arcs: dict[int, int] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)


def run(
    graph: Graph,
    messages: Mapping[str, Iterable[Mapping[str, Any]]],
    tables: Tables | None = None,
) -> Result:
    """Publish the messages of each space, and let them flow. Cost: messages times arcs.

    States collapse all messages at once, and expand from their initial values.
    """
    for name in messages:
        graph.space(name)
    if graph.states:
        from tamis.flow.graphs.stateful_running import run_with_states

        return run_with_states(graph, messages, tables or {})
    return run_plain(graph, messages, tables)


def run_plain(
    graph: Graph,
    messages: Mapping[str, Iterable[Mapping[str, Any]]],
    tables: Tables | None = None,
) -> Result:
    """`run` without states: spaces and arcs alone."""
    done = Result()
    for space, schema in graph.schemas.items():
        found = _published(space, schema, messages.get(space, ()), done)
        for arc in graph.into(space):
            sent = _sent(arc, done.spaces[arc.source], tables or {})
            done.arcs[arc.number] = len(sent)
            found += sent
        done.spaces[space] = _fitting(graph, space, found, done)
    return done


def _published(
    space: str, schema: Schema, rows: Iterable[Mapping[str, Any]], done: Result
) -> list[Message]:
    found = []
    for row in rows:
        try:
            found.append(fitted(schema, row))
        except MessageError as error:
            done.rejected.append(Rejected(space, row, str(error)))
    return found


def fitted(schema: Schema, row: Mapping[str, Any]) -> Message:
    """The row as a message of the schema; MessageError where it does not fit."""
    values = {name: schema.convert(name, lookup(row, name)) for name in schema}
    return {name: worth for name, worth in values.items() if worth is not None}


def _fitting(graph: Graph, space: str, found: list[Message], done: Result) -> list[Message]:
    where = graph.where(space)
    if where is None:
        return found
    schema, kept = graph.schemas[space], []
    for message in found:
        if holds(where, message, schema, {}):
            kept.append(message)
        else:
            reason = f"it breaks the space's where: {canonical(where)}"
            done.rejected.append(Rejected(space, message, reason))
    return kept


def _sent(arc: TypedArc, messages: list[Message], tables: Tables) -> list[Message]:
    found = []
    for message in messages:
        passed = through(arc, message, tables)
        if passed is not None:
            found.append(passed)
    return found


def through(arc: TypedArc, message: Message, tables: Tables) -> Message | None:
    """What comes out of the arc; None where the message does not pass."""
    passed: Message | None = message
    for step, schema in zip(arc.steps, arc.schemas, strict=False):
        assert passed is not None
        passed = stepped(step, passed, schema, tables)
        if passed is None:
            return None
    return passed


def stepped(step: Step, message: Message, schema: Schema, tables: Tables) -> Message | None:
    """What comes out of one step that gets messages of `schema`."""
    if isinstance(step, Select):
        return message if holds(step.condition, message, schema, tables) else None
    rule = fired(step.rules, message, schema, tables)
    return None if rule is None else made(rule, message, tables)


def fired(rules: Iterable[Rule], message: Message, schema: Schema, tables: Tables) -> Rule | None:
    """The first rule whose guard is true."""
    for rule in rules:
        if rule.guard is None or holds(rule.guard, message, schema, tables):
            return rule
    return None


def made(rule: Rule, message: Message, tables: Tables) -> Message:
    values = {o.name: value(o.term, message.get, tables) for o in rule.outputs}
    return {name: worth for name, worth in values.items() if worth is not None}  # type: ignore[misc]


def holds(condition: Condition, message: Message, schema: Schema, tables: Tables) -> bool:
    """Whether the condition is true, in SQL's three-valued logic."""
    return satisfied(_formula(condition, schema), message.get, tables)


@lru_cache(maxsize=4096)
def _formula(condition: Condition, schema: Schema) -> Formula:
    return reduce(condition, "sql", schema)
