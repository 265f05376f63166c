"""An arc as a decision tree: which rule takes a message, and what that rule makes of it.

Paths multiply where arcs share spaces, and so do the rules along a path. Each arc is decided by
itself instead, so a flow has as many trees as arcs, however many ways lead through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tamis.flow.graphs.flow_graph import Graph, TypedArc
from tamis.flow.model.elements import Rule, Select, Step, Transform
from tamis.flow.model.expressions import FALSE, TRUE, substitute, substitute_term
from tamis.flow.rewriting.rules import check_size
from tamis.language import Attribute, Condition, Term

Values = Mapping[str, Term]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A message arrives: `values` are the attributes of the target, over those of the source.

    `rejected`: it breaks the `where` of the target.
    """

    arc: TypedArc
    values: Values
    rejected: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The first case whose condition is true leads on; without one, the message does not pass."""

    cases: tuple[tuple[Condition, Decision], ...]


Decision = Leaf | Choice


def decision(graph: Graph, arc: TypedArc) -> Decision:
    """The tree of one arc; conditions and terms are over the attributes of its source."""
    first = {name: Attribute(name) for name in graph.schemas[arc.source]}
    return _Deciding(graph, arc).decide(arc.steps, first)


def leaves(decided: Decision) -> Iterator[Leaf]:
    """The leaves in order."""
    if isinstance(decided, Leaf):
        yield decided
        return
    for _, then in decided.cases:
        yield from leaves(then)


def conditions(decided: Decision) -> Iterator[Condition]:
    """All conditions of the tree."""
    if isinstance(decided, Choice):
        for condition, then in decided.cases:
            yield condition
            yield from conditions(then)


@dataclass(slots=True)
class _Deciding:
    graph: Graph
    arc: TypedArc
    made: int = field(default=0)  # leaves so far

    def decide(self, steps: tuple[Step, ...], values: Values) -> Decision:
        if not steps:
            return self.arrived(values)
        step, rest = steps[0], steps[1:]
        if isinstance(step, Select):
            return self.choice([(self.before(step.condition, values), rest, values)])
        return self.choice(
            (self.before(rule.guard or TRUE, values), rest, self.after(rule, values))
            for rule in step.rules
        )

    def choice(self, cases: Iterable[tuple[Condition, tuple[Step, ...], Values]]) -> Decision:
        """Without the cases that cannot be reached."""
        kept: list[tuple[Condition, Decision]] = []
        for condition, rest, values in cases:
            if condition == FALSE:
                continue
            kept.append((condition, self.decide(rest, values)))
            if condition == TRUE:
                break
        return kept[0][1] if len(kept) == 1 and kept[0][0] == TRUE else Choice(tuple(kept))

    def arrived(self, values: Values) -> Decision:
        self.made += 1
        limits = self.graph.limits
        if self.made > limits.paths:
            what = f"{self.arc.title}: its rules make more than {limits.paths:,} cases"
            raise limits.crossed("paths", what)
        where = self.graph.where(self.arc.target)
        fits = Leaf(self.arc, values)
        if where is None:
            return fits
        asked = self.before(where, values)
        return Choice(((asked, fits), (TRUE, Leaf(self.arc, values, rejected=True))))

    def before(self, condition: Condition, values: Values) -> Condition:
        check_size([condition], values, self.graph.limits)
        return substitute(condition, values)

    def after(self, rule: Rule, values: Values) -> Values:
        check_size([o.term for o in rule.outputs], values, self.graph.limits)
        return {o.name: substitute_term(o.term, values) for o in rule.outputs}


def weight(graph: Graph, wanted: tuple[str, ...]) -> tuple[int, int]:
    """How much rewriting makes of the flow, and how much it is as written.

    The first is the number of rules of all paths into the wanted spaces, each as often as its path
    has arcs; the second that of all arcs.
    """
    ways: dict[str, int] = {}  # rules of the paths into a space
    long: dict[str, int] = {}  # the same, each times the length of its path
    written = 0
    for space in graph.schemas:
        ways[space], long[space] = int(space in graph.published), 0
        for arc in graph.into(space):
            rules = 1
            for step in arc.steps:
                rules *= len(step.rules) if isinstance(step, Transform) else 1
            written += rules
            ways[space] += ways[arc.source] * rules
            long[space] += (long[arc.source] + ways[arc.source]) * rules
    return sum(long[space] for space in wanted), written


def spaces_read(graph: Graph, wanted: Iterable[str]) -> frozenset[str]:
    """The wanted spaces, and those from which arcs lead to them."""
    found = set(wanted)
    for space in reversed(tuple(graph.schemas)):
        if any(arc.target in found for arc in graph.out_of(space)):
            found.add(space)
    return frozenset(found)
