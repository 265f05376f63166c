"""What is to be seen of a flow: spaces, the operations between them, and counts after a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tamis.drawing.pictures import MOST_NODES, SOLID, Box, Kind, Picture, clipped
from tamis.errors import FlowError
from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.graphs.wiring import StateNode
from tamis.flow.model.elements import Select, Step
from tamis.flow.rewriting.plan import Plan, node_name, rejection_point, subscription_point
from tamis.flow.text.flow_printer import step_text

STATE = "state\0"  # before the name of a state among the names of spaces
_LONGEST = 48  # characters of one line


@dataclass(frozen=True, slots=True)
class Counts:
    """How many messages each space and each arc (by number) has seen."""

    spaces: Mapping[str, int]
    arcs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Line:
    """One way between two nodes, with what is done on it."""

    start: str
    end: str
    steps: tuple[Step, ...]
    caption: str = ""
    name: str = ""  # of what is done, where that is no steps


def picture(shown: Graph | Plan, counts: Counts | None = None) -> Picture:
    """The picture of a graph as written, or of a plan after some rule."""
    if isinstance(shown, Graph):
        arcs = {} if counts is None else counts.arcs
        spaces = {} if counts is None else counts.spaces
        lines = [
            _Line(a.source, a.target, a.arc.steps, _count(arcs.get(a.number))) for a in shown.arcs
        ]
        for node in shown.states:
            lines.append(_Line(node.source, STATE + node.name, (), name=_collapse(node)))
            lines += [
                _Line(STATE + node.name, e.target, (), name=f"expand: {e.form.kind}")
                for e in node.expansions
            ]
        captions = {name: _count(spaces.get(name)) for name in shown.schemas}
        captions |= {STATE + n.name: _count(spaces.get(n.name)) for n in shown.states}
        names = [*shown.schemas, *(STATE + node.name for node in shown.states)]
        return _picture(names, lines, captions, {STATE + n.name: n for n in shown.states})
    if not shown.paths and not shown.dropped:
        lines = [_Line(e.start, e.end, e.steps) for e in shown.edges]
    else:
        lines = [
            _Line(shown.entry(p.source), _end(p.target, p.rejected), p.steps) for p in shown.paths
        ]
    nodes = dict.fromkeys(node for line in lines for node in (line.start, line.end))
    return _picture(list(nodes), lines, {})


def _end(space: str, rejected: bool) -> str:
    return rejection_point(space) if rejected else subscription_point(space)


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _collapse(node: StateNode) -> str:
    rules = len(node.summary.rules)
    return f"collapse: {rules} rule{'s' * (rules > 1)}"


def _picture(
    names: list[str],
    lines: list[_Line],
    captions: Mapping[str, str],
    states: Mapping[str, StateNode] = MappingProxyType({}),
) -> Picture:
    operations = sum(bool(line.steps) for line in lines)
    if len(names) + operations > MOST_NODES:
        raise FlowError(
            f"a drawing of {len(names) + operations:,} nodes is too large",
            hint=f"at most {MOST_NODES} can be seen at once: choose fewer spaces",
        )
    layers = _layers(names, lines)
    nodes = [
        _state(states[name], 2 * layers[name], captions.get(name, ""))
        if name in states
        else _space(name, 2 * layers[name], captions.get(name, ""))
        for name in names
    ]
    numbers = {name: i for i, name in enumerate(names)}
    edges: list[tuple[int, int, int]] = []
    for line in lines:
        start, end = numbers[line.start], numbers[line.end]
        if line.steps or line.caption or line.name:
            nodes.append(_operation(line, 2 * layers[line.end] - 1))
            edges += [(start, len(nodes) - 1, SOLID), (len(nodes) - 1, end, SOLID)]
        else:
            edges.append((start, end, SOLID))
    return Picture("An information flow graph", dict(enumerate(nodes)), edges)


def _layers(names: Iterable[str], lines: list[_Line]) -> dict[str, int]:
    """The longest way from a source; the graph has no cycle, so this ends."""
    layers = dict.fromkeys(names, 0)
    changed = True
    while changed:
        changed = False
        for line in lines:
            if layers[line.end] <= layers[line.start]:
                layers[line.end] = layers[line.start] + 1
                changed = True
    return layers


def _space(node: str, layer: int, caption: str) -> Box:
    name = node_name(node)
    kind: Kind = "point" if "\0" in node else "space"
    return Box(kind, layer, (_cut(name),), name, caption)


def _state(node: StateNode, layer: int, caption: str) -> Box:
    """Its name, what it is keyed by, and its components."""
    summary = node.summary
    key = f" by {', '.join(summary.key)}" if summary.key else ""
    parts = f"<{', '.join(summary.initial)}>"
    rules = "; ".join(map(str, summary.rules))
    lines = (_cut(node.name + key), _cut(parts))
    return Box("state", layer, lines, rules, caption)


def _operation(line: _Line, layer: int) -> Box:
    texts = [_step(step) for step in line.steps] or [line.name or "all"]
    title = "; ".join(step_text(step) for step in line.steps) or line.name
    title = title or "all messages pass"
    return Box("operation", layer, tuple(map(_cut, texts)), title, line.caption)


def _step(step: Step) -> str:
    if isinstance(step, Select):
        return step_text(step)
    if len(step.rules) > 1:
        return f"{len(step.rules)} rules"
    return step_text(step).split("=> ", 1)[-1]


def _cut(text: str) -> str:
    return clipped(text, _LONGEST)
