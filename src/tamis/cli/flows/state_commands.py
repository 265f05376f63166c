"""`tamis flow expand` and `tamis flow state`: states by hand and on disk."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from tamis.errors import InputError, TamisError

if TYPE_CHECKING:
    from tamis.flow.graphs.flow_graph import Graph
    from tamis.flow.graphs.wiring import StateNode
    from tamis.flow.states.definitions.summary import Summary

Text = Annotated[str, Parameter(allow_leading_hyphen=True)]


def expand(
    file: Path,
    state: str,
    /,
    *,
    to: Text,
    from_: Annotated[str, Parameter(name="--from", allow_leading_hyphen=True)] = "[]",
    key: str = "{}",
    into: str | None = None,
    budget: int = 10_000,
    steps: bool = False,
) -> None:
    """Print the cheapest events from one state to another, a JSON object on each line.

    Parameters
    ----------
    file
        The flow.
    state
        The name of the state.
    to
        The state to reach: a JSON array of its components in order, or an object by name.
    from_
        The state to begin with; what is not given has its initial value.
    key
        The key of the events, as a JSON object.
    into
        The space whose derived events are meant; without it, the state's own events.
    budget
        How many zones the search may look at.
    steps
        Also print the zones that the search looked at, on standard error.
    """
    from tamis.flow.states import Trace
    from tamis.flow.states import expand as find

    summary, through = _chosen(_node(file, state), into)
    trace = Trace() if steps else None
    events = find(
        _state(summary, from_, "--from"),
        _state(summary, to, "--to"),
        summary,
        through=through,
        key=_json(key, dict, "--key"),
        budget=budget,
        trace=trace,
    )
    for visit in trace.visits if trace is not None else ():
        rule = "" if visit.rule is None else f"  before rule {visit.rule + 1}"
        total = f"{visit.cost:g} + {visit.estimate:g}"
        print(f"{total}  {visit.zone}{rule}", file=sys.stderr)
    for event in events:
        print(json.dumps(event, ensure_ascii=False, default=str))


def state(
    folder: Path, /, *, format: Literal["json", "csv"] = "json", limit: int | None = None,
    counts: bool = False,
) -> None:  # fmt: skip
    """Print the newest states that a run keeps in FOLDER, a row for each key.

    Parameters
    ----------
    folder
        Where the run keeps the state: `states/NAME` in the run's folder.
    format
        json: an object on each line; csv: with a header, lists as JSON.
    limit
        Print at most so many.
    counts
        Print what the state has seen instead: events, late ones, emitted ones, failures.
    """
    from tamis.flow.states.batches.state_store import StateFiles

    files = StateFiles(str(folder))
    files.meta()  # tells of a folder that holds no states
    table, counters = files.read()
    if counts:
        print(json.dumps({"keys": table.num_rows, **vars(counters)}))
        return
    rows = table.slice(0, limit).to_pylist() if limit is not None else table.to_pylist()
    if format == "json":
        for row in rows:
            print(json.dumps(row, ensure_ascii=False, default=str))
        return
    _csv(table.column_names, rows)


def describe(graph: Graph) -> None:
    """Print the states of a flow, and what their expansions are."""
    from tamis.flow.text.stateful import component_text

    for node in graph.states:
        key = f" keyed by {', '.join(node.summary.key)}" if node.summary.key else ""
        parts = ", ".join(map(component_text, node.summary.components))
        print(f"state {node.name}{key} ({parts})")
        for expansion in node.expansions:
            print(f"  expand -> {expansion.target}: {expansion.form.kind}")


def _csv(names: list[str], rows: list[dict[str, Any]]) -> None:
    import csv

    writer = csv.writer(sys.stdout)
    writer.writerow(names)
    for row in rows:
        writer.writerow([json.dumps(v) if isinstance(v, list) else v for v in row.values()])


def _node(file: Path, name: str) -> StateNode:
    from tamis.flow import check, read_flow
    from tamis.language.types import nearest

    known = {node.name: node for node in check(read_flow(file)).states}
    if name not in known:
        hint = nearest(name, known) or f"it has {', '.join(known) or 'none'}"
        raise InputError(f"{file} has no state {name}: {hint}")
    return known[name]


def _chosen(node: StateNode, into: str | None) -> tuple[Summary, Any]:
    """What is expanded, and by which events."""
    if into is None:
        return node.summary, None
    for expansion in node.expansions:
        if expansion.target == into:
            return expansion.summary, expansion.through
    raise InputError(f"{node.name} is not expanded into {into}")


def _state(summary: Summary, text: str, option: str) -> dict[str, object]:
    given = _json(text, (dict, list), option)
    if isinstance(given, dict):
        return summary.state(**given)
    return summary.state(*given)


def _json(text: str, kinds: Any, option: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TamisError(f"{option}: not JSON: {error}") from None
    if not isinstance(found, kinds):
        raise TamisError(f"{option}: not what is expected: {text[:60]}")
    return found
