"""Column lineage: where each attribute of a space comes from."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.model.expressions import lookup_calls
from tamis.flow.rewriting import rewrite
from tamis.flow.rewriting.plan import Path
from tamis.language import attributes, canonical


@dataclass(frozen=True, slots=True)
class Origin:
    """What an attribute is made of on one path: `term` over the attributes of the source.

    `depends` are the attributes that decide whether the message passes, or which rule makes it.
    """

    source: str
    term: str
    attributes: tuple[str, ...]
    lookups: tuple[str, ...]
    depends: tuple[str, ...]
    arcs: tuple[int, ...]


def lineage(graph: Graph, space: str) -> dict[str, tuple[Origin, ...]]:
    """The origins of each attribute of the space, path by path and rule by rule."""
    schema = graph.space(space)
    plan = rewrite(graph, [space], until="drop_impossible")
    found: dict[str, list[Origin]] = {name: [] for name in schema}
    for path in plan.into(space):
        for name, origin in _origins(path):
            if origin not in found[name]:
                found[name].append(origin)
    return {name: tuple(origins) for name, origins in found.items()}


def _origins(path: Path) -> list[tuple[str, Origin]]:
    rules = path.transform.rules
    asked = dict.fromkeys(attributes(path.select))
    for rule in rules:
        if rule.guard is not None:
            asked |= dict.fromkeys(attributes(rule.guard))
    return [
        (
            output.name,
            Origin(
                path.source,
                canonical(output.term),
                attributes(output.term),
                tuple(call.name for call in lookup_calls(output.term)),
                tuple(asked),
                path.arcs,
            ),
        )
        for rule in rules
        for output in rule.outputs
    ]
