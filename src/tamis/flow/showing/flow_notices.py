"""What is allowed and yet surely not meant: rules that never fire, selects that never hold."""

from __future__ import annotations

from collections.abc import Iterator

from tamis.errors import FlowError
from tamis.flow.graphs.flow_graph import Graph, TypedArc
from tamis.flow.model.elements import Transform
from tamis.flow.model.expressions import TRUE, all_of, not_true, without_calls
from tamis.flow.rewriting import rewrite
from tamis.flow.rewriting.impossible import possible
from tamis.flow.showing.notice import Notice
from tamis.flow.showing.state_notices import of_state
from tamis.flow.text.flow_printer import rule_text, step_text
from tamis.language import Condition
from tamis.reasoning.covers import covers
from tamis.schema import Attribute as Column
from tamis.schema import Schema


def notices(graph: Graph) -> list[Notice]:
    """All notices of the flow, arc by arc; then paths that no message can take."""
    found = [notice for arc in graph.arcs for notice in _of_arc(graph, arc)]
    found += [notice for node in graph.states for notice in of_state(node)]
    if not any(notice.strict for notice in found):
        found += list(_of_paths(graph))
    return found


def _of_arc(graph: Graph, arc: TypedArc) -> Iterator[Notice]:
    for step, schema in zip(arc.steps, arc.schemas, strict=False):
        if isinstance(step, Transform):
            yield from _of_rules(graph, arc, step, schema)
        elif not possible(step.condition, schema, graph):
            yield Notice(arc.title, f"{step_text(step)} can never hold", step.at)


def _of_rules(graph: Graph, arc: TypedArc, step: Transform, schema: Schema) -> Iterator[Notice]:
    earlier: list[Condition] = []
    for number, rule in enumerate(step.rules, 1):
        guard = TRUE if rule.guard is None else rule.guard
        if not possible(all_of([*map(not_true, earlier), guard]), schema, graph):
            reason = _reason(graph, schema, guard, earlier)
            yield Notice(
                arc.title, f"rule {number}, {rule_text(rule)}, can never fire: {reason}", rule.at
            )
        earlier.append(guard)


def _reason(graph: Graph, schema: Schema, guard: Condition, earlier: list[Condition]) -> str:
    if not possible(guard, schema, graph):
        return "its guard can never be true"
    for number, before in enumerate(earlier, 1):
        if before == TRUE or _covers(graph, schema, before, guard):
            return f"rule {number} matches all that it could match"
    return "the rules before it together match all that it could match"


def _covers(graph: Graph, schema: Schema, wide: Condition, narrow: Condition) -> bool:
    types = {name: lookup.value for name, lookup in graph.lookups.items()}
    (a, b), called = without_calls([wide, narrow], types)
    more = tuple(Column(name, kind) for name, kind in called.items())
    return covers(a, b, Schema((*schema.attributes, *more)))


def _of_paths(graph: Graph) -> Iterator[Notice]:
    """None of a flow that has more paths than its limit: each arc was looked at by itself."""
    try:
        plan = rewrite(graph, until="drop_impossible")
    except FlowError as error:
        if error.limit != "paths":
            raise
        return
    for path, reason in plan.dropped:
        if path.rejected:
            continue
        names = [graph.arcs[number].source for number in path.arcs]
        way = " -> ".join([*names, path.target])
        at = graph.arcs[path.arcs[-1]].arc.at if path.arcs else 0
        yield Notice(f"path {way}", f"no message can take it: {reason}", at)
