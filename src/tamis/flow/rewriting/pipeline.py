"""The rules in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tamis.errors import FlowError
from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.model.flow_limits import FlowLimits
from tamis.flow.rewriting import rules
from tamis.flow.rewriting.impossible import drop_impossible
from tamis.flow.rewriting.path_rules import drop_unread, enumerate_paths, externalise
from tamis.flow.rewriting.plan import Path, Plan
from tamis.flow.rewriting.sharing import share_terms
from tamis.flow.rewriting.tagging import combine_sources

RuleOfPlan = Callable[[Plan], Plan]


def _each_path(rule: Callable[[Path, FlowLimits], Path]) -> RuleOfPlan:
    def all_paths(plan: Plan) -> Plan:
        limits = plan.graph.limits
        return replace(plan, paths=tuple(rule(path, limits) for path in plan.paths))

    all_paths.__name__, all_paths.__doc__ = rule.__name__, rule.__doc__
    return all_paths


RULES: tuple[RuleOfPlan, ...] = (
    externalise,
    drop_unread,
    enumerate_paths,
    _each_path(rules.selects_of_guards),
    _each_path(rules.push_selects),
    _each_path(rules.join_selects),
    _each_path(rules.join_transforms),
    drop_impossible,
    share_terms,
    combine_sources,
)


def rewrite(
    graph: Graph, wanted: Iterable[str] | None = None, until: str = combine_sources.__name__
) -> Plan:
    """The graph as one (select; transform) for each path into the spaces that are wanted.

    Without `wanted`, into every space that an arc leads to. `until` names the last rule to apply.
    """
    for name, plan in stages(graph, wanted):
        if name == until:
            return plan
    raise ValueError(f"there is no rule {until}")


def stages(graph: Graph, wanted: Iterable[str] | None = None) -> Iterator[tuple[str, Plan]]:
    """The name of each rule, and the plan after it."""
    chosen = graph.derived if wanted is None else tuple(dict.fromkeys(wanted))
    for space in chosen:
        graph.space(space)
    plan = Plan(graph, chosen)
    for rule in RULES:
        try:
            plan = rule(plan)
        except RecursionError:
            raise FlowError(
                "a path is too long: its terms are nested too deeply for Python's stack",
                hint="shorten the chain of arcs, or call sys.setrecursionlimit",
            ) from None
        yield rule.__name__, plan
