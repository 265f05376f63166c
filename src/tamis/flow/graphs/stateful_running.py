"""A flow with states in plain Python: one trigger, from initial states to the final ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tamis.errors import ExpandError
from tamis.flow.graphs.execution import Message, Rejected, Result, run_plain
from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.graphs.wiring import Expansion, StateNode
from tamis.flow.model.lookups import Tables
from tamis.flow.states.definitions.keyed import Key, States
from tamis.flow.states.expansion.expanding import Event, expand
from tamis.flow.states.sequences.collapsing import collapse
from tamis.flow.states.sequences.shortening import shortened


def run_with_states(
    graph: Graph, messages: Mapping[str, Iterable[Mapping[str, Any]]], tables: Tables
) -> Result:
    """Publish, collapse, expand, and publish what was expanded, state by state."""
    given: dict[str, list[Mapping[str, Any]]] = {n: list(rows) for n, rows in messages.items()}
    collapsed: dict[str, list[Message]] = {}
    problems: list[Rejected] = []
    for node in graph.states:
        events = run_plain(graph, given, tables).spaces[node.source]
        states = collapse(events, node.summary)
        collapsed[node.name] = rows_of(node, states)
        for expansion in node.expansions:
            found = given.setdefault(expansion.target, [])
            for key, state in states.rows.items():
                found += expanded(node, expansion, key, state, events, problems)
    done = run_plain(graph, given, tables)
    done.spaces |= collapsed
    done.rejected += problems
    return done


def expanded(
    node: StateNode, expansion: Expansion, key: Key, state: Mapping[str, object],
    events: list[Message], problems: list[Rejected],
) -> list[Event]:  # fmt: skip
    """The events of one key; where none lead there, the key is reported."""
    summary = expansion.summary
    state = {name: state[name] for name in summary.initial}
    shared = dict(zip(summary.key, key, strict=True))
    try:
        found = expand(summary.initial, state, summary, through=expansion.through, key=shared)
    except ExpandError as error:
        problems.append(Rejected(expansion.target, {**shared, **state}, str(error)))
        return []
    if expansion.through is not None:
        return found
    whole: list[Event] = [{n: e.get(n) for n in summary.events} for e in events]
    own: list[Event] = [e for e in whole if tuple(e[n] for n in summary.key) == key]
    return shortened(summary.initial, state, own, summary, key) if len(found) <= len(own) else found


def rows_of(node: StateNode, states: States) -> list[Message]:
    """The states as messages: key and scalar components."""
    names = list(node.schema)
    found = []
    for key, state in states.rows.items():
        row = {**dict(zip(node.summary.key, key, strict=True)), **state}
        found.append({n: row[n] for n in names if row[n] is not None})
    return found  # type: ignore[return-value]
