"""Subscriptions on derived spaces: asked of the source channels, and made at delivery.

Gryphon, section 3: the select of each path is pushed to its source; a message that passes there is
transformed on its way to the subscriber.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from tamis.pubsub.broker.records import Record

if TYPE_CHECKING:
    from tamis.flow import Graph
    from tamis.flow.model.lookups import Tables
    from tamis.flow.rewriting.source_selects import OnSource
    from tamis.language import Condition


@dataclass(frozen=True)
class Shape:
    """What becomes of the messages of one channel: one message for each path that they pass."""

    channel: str
    ways: tuple[OnSource, ...]
    tables: Tables
    read: Callable[[bytes], dict[str, Any]]

    def made(self, record: Record) -> list[tuple[int, Record]]:
        """The number of each path that the record passes, and what arrives by it."""
        from tamis.flow.graphs.execution import fitted, holds, stepped

        schema = self.ways[0].path.schema
        message = fitted(schema, self.read(record.body))
        found = []
        for number, way in enumerate(self.ways):
            if holds(way.condition, message, schema, self.tables):
                arrived = stepped(way.path.transform, message, schema, self.tables)
                if arrived is not None:
                    body = msgspec.json.encode(arrived)
                    found.append((number, msgspec.structs.replace(record, body=body)))
        return found


@dataclass(frozen=True)
class Question:
    """What a subscription on a derived space asks of one source.

    `exact`: the selector says all; else what it lets pass is judged once more at delivery, because
    some of it depends on a lookup.
    """

    source: str
    selector: str
    exact: bool
    ways: tuple[OnSource, ...]


def questions(graph: Graph, space: str, selector: str) -> list[Question]:
    """One for each source from which a path leads to the space."""
    from tamis.flow import on_sources, rewrite
    from tamis.flow.model.expressions import TRUE, any_of
    from tamis.language import canonical, parse

    plan = rewrite(graph, [space], until="drop_impossible")
    condition = parse(selector) if selector else TRUE
    ways: dict[str, list[OnSource]] = {}
    for way in on_sources(plan, space, condition, selector):
        ways.setdefault(way.source, []).append(way)
    found = []
    for source, own in ways.items():
        asked = [without_lookups(way.condition, graph.lookups) for way in own]
        exact = all(a is way.condition for a, way in zip(asked, own, strict=True))
        whole = any_of(asked)
        found.append(Question(source, "" if whole == TRUE else canonical(whole), exact, tuple(own)))
    return found


def without_lookups(condition: Condition, lookups: Mapping[str, object]) -> Condition:
    """The condition itself; or a weaker one, if some part of it calls a lookup."""
    from tamis.flow.model.expressions import TRUE, all_of
    from tamis.language import And

    if not _calls(condition, lookups):
        return condition
    if isinstance(condition, And):
        return all_of(part for part in condition.parts if not _calls(part, lookups))
    return TRUE


def _calls(node: Any, lookups: Mapping[str, object]) -> bool:
    from tamis.language import Call
    from tamis.language.measure import children

    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Call) and one.name in lookups:
            return True
        waiting += children(one)
    return False
