"""From graph to paths: make points of internal spaces, leave out what nobody reads, enumerate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tamis.flow.model.elements import Select, Step
from tamis.flow.model.expressions import not_true
from tamis.flow.rewriting.plan import Edge, Path, Plan, rejection_point, subscription_point


def externalise(plan: Plan) -> Plan:
    """Give every point a terminal node of its own: `Combined_p -> Combined -> Combined_s`.

    A `where` is a select at the end of everything that leads into its space; what it stops goes
    to a node for rejected messages.
    """
    graph = plan.graph
    edges: list[Edge] = []
    for space in graph.published:
        if plan.entry(space) != space:
            edges += _checked(plan, Edge(plan.entry(space), space, ()))
    for arc in graph.arcs:
        edges += _checked(plan, Edge(arc.source, arc.target, arc.steps, arc.number))
    edges += [Edge(space, subscription_point(space), ()) for space in plan.wanted]
    return replace(plan, edges=tuple(edges))


def _checked(plan: Plan, edge: Edge) -> Iterator[Edge]:
    """The edge, and the one that takes away what does not fit."""
    where = plan.graph.where(edge.end)
    if where is None:
        yield edge
        return
    yield replace(edge, steps=(*edge.steps, Select(where)))
    rejected: tuple[Step, ...] = (*edge.steps, Select(not_true(where)))
    yield Edge(edge.start, rejection_point(edge.end), rejected, edge.arc)


def drop_unread(plan: Plan) -> Plan:
    """Leave out the arcs that lead to no subscription point."""
    read = {subscription_point(space) for space in plan.wanted}
    before: dict[str, list[str]] = {}
    for edge in plan.edges:
        before.setdefault(edge.end, []).append(edge.start)
    spaces = _reached(read, before)
    read |= {rejection_point(s) for s in plan.graph.schemas if s in spaces}
    reached = _reached(read, before)
    return replace(plan, edges=tuple(e for e in plan.edges if e.end in reached))


def _reached(ends: set[str], before: dict[str, list[str]]) -> set[str]:
    """The nodes from which a path leads to one of the ends."""
    found, waiting = set(ends), list(ends)
    while waiting:
        for start in before.get(waiting.pop(), ()):
            if start not in found:
                found.add(start)
                waiting.append(start)
    return found


def enumerate_paths(plan: Plan) -> Plan:
    """One path for each way from a publication to a subscription point.

    The paper makes one arc for each pair of points; where two ways join the pair, a message that
    passes both arrives twice, and one arc would lose that.
    """
    out: dict[str, list[Edge]] = {}
    for edge in plan.edges:
        out.setdefault(edge.start, []).append(edge)
    ends = {subscription_point(space): (space, False) for space in plan.wanted}
    ends |= {rejection_point(space): (space, True) for space in plan.graph.schemas}
    paths: list[Path] = []
    for space in plan.graph.published:
        schema = plan.graph.schemas[space]
        for edges in _ways(plan.entry(space), out, ends):
            target, rejected = ends[edges[-1].end]
            arcs = tuple(e.arc for e in edges if e.arc is not None)
            steps = tuple(step for e in edges for step in e.steps)
            paths.append(Path(space, target, arcs, schema, steps, rejected))
            _check_number(plan, len(paths))
    return replace(plan, paths=tuple(paths))


def _ways(
    start: str, out: dict[str, list[Edge]], ends: dict[str, tuple[str, bool]]
) -> Iterator[tuple[Edge, ...]]:
    """Every way from `start` to an end, without recursion: flows can be long."""
    waiting: list[tuple[str, tuple[Edge, ...]]] = [(start, ())]
    while waiting:
        node, taken = waiting.pop()
        if node in ends and node not in out:
            yield taken
            continue
        for edge in reversed(out.get(node, ())):
            waiting.append((edge.end, (*taken, edge)))


def _check_number(plan: Plan, count: int) -> None:
    limits = plan.graph.limits
    if count > limits.paths:
        raise limits.crossed("paths", f"the flow has more than {limits.paths:,} paths")
