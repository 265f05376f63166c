"""Paths that no message can take, and rules that can never fire: proved by reasoning."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.model.expressions import FALSE, TRUE, without_calls
from tamis.flow.rewriting.plan import Path, Plan
from tamis.language import Condition, canonical
from tamis.reasoning.covers import satisfiable
from tamis.schema import Attribute as Column
from tamis.schema import Schema

_SHOWN = 120


def drop_impossible(plan: Plan) -> Plan:
    """Leave out the paths whose select can never hold."""
    kept: list[Path] = []
    dropped = list(plan.dropped)
    for path in plan.paths:
        if possible(path.select, path.schema, plan.graph):
            kept.append(path)
        else:
            dropped.append((path, _reason(path.select)))
    return replace(plan, paths=tuple(kept), dropped=tuple(dropped))


def _reason(select: Condition) -> str:
    if select == FALSE:
        return "what its transforms make is never what its selects ask for"
    shown = canonical(select)
    return f"no message satisfies {shown[:_SHOWN]}{'…' if len(shown) > _SHOWN else ''}"


def possible(condition: Condition, schema: Schema, graph: Graph) -> bool:
    """False where it is proved that no message of the schema satisfies the condition."""
    if condition in (TRUE, FALSE):
        return condition == TRUE
    types = {name: lookup.value for name, lookup in graph.lookups.items()}
    (plain,), called = without_calls([condition], types)
    more = tuple(Column(name, kind) for name, kind in called.items())
    return _satisfiable(plain, Schema((*schema.attributes, *more)))


@lru_cache(maxsize=1024)
def _satisfiable(condition: Condition, schema: Schema) -> bool:
    return satisfiable(condition, schema)  # paths of one source often share their select
