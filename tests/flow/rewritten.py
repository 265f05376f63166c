"""Plans in plain Python: path by path, and in the single-source form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tamis.errors import MessageError
from tamis.flow import Graph, Plan
from tamis.flow.graphs.execution import Message, fired, fitted, holds, made
from tamis.logic import value

Bag = Counter[tuple[tuple[str, object], ...]]


def bag(rows: Iterable[Mapping[str, Any]]) -> Bag:
    """The rows as a multiset. A double and an int of the same value stay apart."""
    return Counter(
        tuple(sorted((n, _exact(v)) for n, v in row.items() if v is not None)) for row in rows
    )


def _exact(value: object) -> object:
    return (type(value).__name__, 0.0 if value == 0 else value)


def published(graph: Graph, messages: Mapping[str, Iterable[Mapping[str, Any]]]) -> Any:
    """The rows that fit the schema of their space; the others are errors in every form."""
    for space, rows in messages.items():
        for row in rows:
            try:
                yield space, fitted(graph.schemas[space], row)
            except MessageError:
                continue


def run_plan(
    plan: Plan, messages: Mapping[str, Iterable[Mapping[str, Any]]], tables: Any
) -> dict[tuple[str, bool], list[Message]]:
    """What arrives in each space, and what is rejected there, by (space, rejected)."""
    found: dict[tuple[str, bool], list[Message]] = {}
    for space, message in published(plan.graph, messages):
        whole, schema = dict(message), plan.schema_of(space)
        for output in plan.shared.get(space, ()):
            worth = value(output.term, whole.get, tables)
            if worth is not None:
                whole[output.name] = worth
        for path in plan.paths:
            if path.source == space and holds(path.select, whole, schema, tables):
                rule = fired(path.transform.rules, whole, schema, tables)
                assert rule is not None, "the select lets through what no rule matches"
                key = path.target, path.rejected
                found.setdefault(key, []).append(made(rule, whole, tables))
    return found


def run_single_source(
    plan: Plan, messages: Mapping[str, Iterable[Mapping[str, Any]]], tables: Any
) -> dict[str, list[Message]]:
    """All sources as one space: tagged messages, one set of selects, a table of transforms."""
    single = plan.single
    assert single is not None
    found: dict[str, list[Message]] = {}
    for space, message in published(plan.graph, messages):
        if space not in single.names:
            continue
        whole = dict(message)
        for output in plan.shared.get(space, ()):
            worth = value(output.term, whole.get, tables)
            if worth is not None:
                whole[output.name] = worth
        tagged = {single.names[space][n]: v for n, v in whole.items()} | {single.tag: space}
        passed = {
            i for i, c in enumerate(single.selects) if holds(c, tagged, single.schema, tables)
        }
        for (source, target), entries in single.transforms.items():
            if source != space:
                continue
            for number, transform in entries:
                if number in passed:
                    rule = fired(transform.rules, tagged, single.schema, tables)
                    assert rule is not None
                    found.setdefault(target, []).append(made(rule, tagged, tables))
    return found
