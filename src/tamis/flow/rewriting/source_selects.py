"""Subscriptions on any space as subscriptions on the sources, where an edge can use them."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.flow.model.expressions import all_of, substitute
from tamis.flow.model.flow_types import FlowChecker
from tamis.flow.rewriting.impossible import possible
from tamis.flow.rewriting.plan import Path, Plan
from tamis.flow.rewriting.rules import before
from tamis.language import Condition


@dataclass(frozen=True, slots=True)
class OnSource:
    """Messages of `source` that satisfy the condition reach the subscriber by this path."""

    source: str
    condition: Condition
    path: Path


def on_sources(
    plan: Plan, space: str, condition: Condition, text: str = ""
) -> tuple[OnSource, ...]:
    """What a subscription on `space` asks of the messages of each source, path by path.

    The plan must have come through all rules. A message goes to the subscriber as often as
    conditions hold. Paths on which the condition can never hold are left out.
    """
    graph = plan.graph
    place = f"space {space}"
    FlowChecker(graph.space(space), {}, text, f"subscription on {space}", place).check(condition)
    found = []
    for path in plan.into(space):
        whole = all_of([path.select, before(path.transform, condition, graph.limits)])
        for shared in reversed(plan.shared.get(path.source, ())):
            whole = substitute(whole, {shared.name: shared.term})
        if possible(whole, path.schema, graph):
            found.append(OnSource(path.source, whole, path))
    return tuple(found)
