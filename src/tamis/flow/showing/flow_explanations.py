"""Why a message did or did not arrive in a space, arc by arc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tamis.errors import FlowError, MessageError
from tamis.flow.graphs.execution import Message, fired, fitted, holds, made
from tamis.flow.graphs.flow_graph import Graph, TypedArc
from tamis.flow.model.elements import Select, Step, Transform
from tamis.flow.model.lookups import Tables
from tamis.flow.text.flow_printer import rule_text, step_text
from tamis.language import Condition
from tamis.logic import explain as explain_condition
from tamis.schema import Schema

MOST_WAYS = 100


def explain(
    graph: Graph, source: str, row: Mapping[str, Any], target: str, tables: Tables | None = None
) -> str:
    """What becomes of a row that is published in `source`, on every way to `target`."""
    schema = graph.space(source)
    graph.space(target)
    if source not in graph.published:
        raise FlowError(
            f"nothing can be published in {source}: it is not declared",
            hint=f"publish in {', '.join(graph.published)}",
        )
    told = _Telling(graph, target, tables or {})
    try:
        message = fitted(schema, row)
    except MessageError as error:
        return f"{source} rejects it: {error}\n=> 0 messages arrive in {target}"
    lines = [f"{source} {_shown(message)}", *told.enter(source, message, 1)]
    if not told.ways and source != target:
        lines.append(f"no way leads from {source} to {target}")
    number = "1 message arrives" if told.arrived == 1 else f"{told.arrived} messages arrive"
    return "\n".join([*lines, f"=> {number} in {target}"])


class _Telling:
    def __init__(self, graph: Graph, target: str, tables: Tables) -> None:
        self.graph, self.target, self.tables = graph, target, tables
        self.arrived = self.ways = 0
        self.near = _leading_to(graph, target)

    def enter(self, space: str, message: Message, depth: int) -> Iterator[str]:
        """The message comes into the space: it must fit, and goes on."""
        where, schema = self.graph.where(space), self.graph.schemas[space]
        if where is not None and not holds(where, message, schema, {}):
            yield f"{'  ' * depth}{space} rejects it: it breaks the space's where"
            yield from self.reasons(where, message, schema, depth + 1)
            return
        if space == self.target:
            self.arrived += 1
            yield f"{'  ' * depth}arrives in {space}"
        for arc in self.graph.out_of(space):
            if arc.target in self.near:
                yield from self.take(arc, message, depth)

    def take(self, arc: TypedArc, message: Message, depth: int) -> Iterator[str]:
        self.ways += 1
        if self.ways > MOST_WAYS:
            raise FlowError(
                f"more than {MOST_WAYS} arcs lead to {self.target}", hint="explain one nearer space"
            )
        yield f"{'  ' * depth}arc {arc.source} -> {arc.target}"
        for step, schema in zip(arc.steps, arc.schemas, strict=False):
            passed, lines = self.step(step, message, schema, depth + 1)
            yield from lines
            if passed is None:
                return
            message = passed
        yield from self.enter(arc.target, message, depth + 1)

    def step(
        self, step: Step, message: Message, schema: Schema, depth: int
    ) -> tuple[Message | None, list[str]]:
        pad = "  " * depth
        if isinstance(step, Select):
            if holds(step.condition, message, schema, self.tables):
                return message, [f"{pad}passes {step_text(step)}"]
            head = f"{pad}stops at {step_text(step)}"
            return None, [head, *self.reasons(step.condition, message, schema, depth + 1)]
        return self.transform(step, message, schema, depth)

    def transform(
        self, step: Transform, message: Message, schema: Schema, depth: int
    ) -> tuple[Message | None, list[str]]:
        pad = "  " * depth
        rule = fired(step.rules, message, schema, self.tables)
        if rule is not None:
            after = made(rule, message, self.tables)
            return after, [f"{pad}becomes {_shown(after)} by {rule_text(rule)}"]
        lines = [f"{pad}stops: no rule matches"]
        for one in step.rules:
            assert one.guard is not None
            lines += self.reasons(one.guard, message, schema, depth + 1)
        return None, lines

    def reasons(
        self, condition: Condition, message: Message, schema: Schema, depth: int
    ) -> list[str]:
        told = str(explain_condition(condition, message, schema, "sql", self.tables))
        return ["  " * depth + line for line in told.splitlines()[:-1]]


def _leading_to(graph: Graph, target: str) -> set[str]:
    near, waiting = {target}, [target]
    while waiting:
        for arc in graph.into(waiting.pop()):
            if arc.source not in near:
                near.add(arc.source)
                waiting.append(arc.source)
    return near


def _shown(message: Message) -> str:
    return "{" + ", ".join(f"{name}: {value!r}" for name, value in message.items()) + "}"
