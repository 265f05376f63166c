"""A*: backward from the goal, the most promising zone first (Gryphon, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from tamis.errors import ExpandError
from tamis.flow.states.definitions.scope import STATE
from tamis.flow.states.expansion.estimate import Estimator, estimator
from tamis.flow.states.expansion.exact_numbers import Number, value_of
from tamis.flow.states.expansion.linear import BOUNDS, BoundsError, Terms
from tamis.flow.states.expansion.reachable import Reachable
from tamis.flow.states.expansion.solving import Step
from tamis.flow.states.expansion.zones import Problem, Zone

BUDGET = 10_000  # zones that are looked at before the search gives up
PLAIN = 100  # zones that are looked at before it is worth asking which states can be reached


@dataclass(slots=True)
class Node:
    """A zone, what leads from it to the goal, and how much that costs."""

    zone: Zone
    cost: float
    estimate: float
    step: Step | None = None  # the first event of the rest
    rest: Node | None = None

    def steps(self) -> Iterator[Step]:
        node: Node | None = self
        while node is not None and node.step is not None:
            yield node.step
            node = node.rest

    def follows(self, zone: Zone) -> bool:
        """Whether the zone is part of one that is nearer to the goal on the same way."""
        node: Node | None = self
        while node is not None:
            if zone.within(node.zone):
                return True
            node = node.rest
        return False


@dataclass(frozen=True, slots=True)
class Visit:
    """What the search looked at: a zone as text, the cost behind it and the estimate before it."""

    zone: str
    cost: float
    estimate: float
    rule: int | None


@dataclass(slots=True)
class Trace:
    """The zones in the order in which A* took them up."""

    visits: list[Visit] = field(default_factory=list)


class Search:
    """One run of A*; `plans` yields sequences from cheap to dear."""

    def __init__(self, problem: Problem, goal: Zone, budget: int, trace: Trace | None) -> None:
        self.problem, self.budget, self.trace = problem, budget, trace
        self.estimator: Estimator = estimator(problem.moves)
        self._ticket = count()
        self._frontier: list[tuple[float, float, int, Node]] = []
        self._best: dict[tuple[object, ...], float] = {}
        self._goal = goal
        self.why = ""  # why there is no sequence at all, if that was found
        self._reachable: Reachable | None = None
        self._push(Node(goal, 0.0, self.estimate(goal)))

    def plans(self) -> Iterator[tuple[float, list[Step]]]:
        """Cost and steps of every sequence found, cheapest first; ends where there is no other."""
        taken = 0
        while self._frontier:
            _, _, _, node = heappop(self._frontier)
            if node.cost > self._best[node.zone.key()] or self._beyond(node.zone):
                continue
            taken += 1
            self._note(node)
            if self.problem.contains_start(node.zone):
                yield node.cost, list(node.steps())
            if taken in (PLAIN, self.budget) and self._hopeless():
                return
            if taken >= self.budget:
                raise ExpandError(
                    f"no sequence found among {taken:,} zones",
                    reason="budget",
                    hint="raise budget=..., or send the events themselves",
                )
            self._extend(node)

    def _hopeless(self) -> bool:
        """Whether no events at all lead to the goal; from here on zones are asked the same."""
        if self._reachable is None:
            self._reachable = Reachable.of(self.problem)
        self.why = self._reachable.excludes(self._goal)
        return bool(self.why)

    def _beyond(self, zone: Zone) -> bool:
        return self._reachable is not None and bool(self._reachable.excludes(zone))

    def estimate(self, zone: Zone) -> float:
        missing = {n: told - len(self.problem.start_lists[n])
                   for n, told in zone.lists.items() if told is not None}  # fmt: skip
        return self.estimator.cost(self.problem.differing(zone), missing)

    def _extend(self, node: Node) -> None:
        # The last rule first: where sequences tie, events follow the order of the rules.
        for row in reversed(self.problem.moves.rows):
            try:
                found = list(self.problem.before(node.zone, row))
            except BoundsError:
                what = f"a zone has more than {BOUNDS} bounds between components"
                hint = "send the events themselves"
                raise ExpandError(what, reason="budget", hint=hint) from None
            for zone in found:
                estimate = self.estimate(zone)
                if math.isinf(estimate) or node.follows(zone):
                    continue
                step = Step(row, node.zone)
                self._push(Node(zone, node.cost + row.cost, estimate, step, node))

    def _push(self, node: Node) -> None:
        key = node.zone.key()
        if node.cost < self._best.get(key, math.inf):
            self._best[key] = node.cost
            total = node.cost + node.estimate
            heappush(self._frontier, (total, node.estimate, next(self._ticket), node))

    def _note(self, node: Node) -> None:
        if self.trace is not None:
            rule = node.step.row.rule if node.step else None
            self.trace.visits.append(
                Visit(zone_text(self.problem, node.zone), node.cost, node.estimate, rule)
            )


def zone_text(problem: Problem, zone: Zone) -> str:
    """The zone as in the paper: `[200, *]`; bounds that are no single value follow after a bar."""
    summary = problem.moves.summary
    cells = []
    for component in summary.components:
        if component.name in summary.lists:
            told = zone.lists[component.name]
            cells.append("*" if told is None else f"{told} elements")
            continue
        variable = problem.moves.variable(component.name)
        worth = zone.system.solved.get(variable)
        if zone.null.get(variable) is True:
            cells.append("undefined")
        elif worth is not None and not worth.terms:
            cells.append(_shown(value_of(worth.constant, component.type)))  # type: ignore[arg-type]
        else:
            cells.append("*")
    bounds = [_bound(terms, limit, strict) for terms, (limit, strict) in zone.system.bounds.items()]
    bounds += [_bound(((v, 1), *((w, -c) for w, c in told.terms)), told.constant, None)
               for v, told in zone.system.solved.items() if told.terms]  # fmt: skip
    return f"[{', '.join(cells)}]" + (f" | {', '.join(sorted(bounds))}" if bounds else "")


def _product(factor: Number, name: str) -> str:
    return f"{'' if factor == 1 else '-' if factor == -1 else f'{factor}*'}{name}"


def _bound(terms: Terms, limit: object, strict: bool | None) -> str:
    sign = "=" if strict is None else "<" if strict else "<="
    shown = " + ".join(_product(c, v.name.removeprefix(STATE)) for v, c in terms)
    return f"{shown.replace('+ -', '- ')} {sign} {_shown(limit)}"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
