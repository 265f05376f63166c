"""Plans: sequences of rows worked out once for all keys, with the goal left symbolic.

Working backward from `component = goal.component` gives for a sequence of rows the condition on
start and goal under which it does its work, and each parameter as one of their components. Where
all of that is plain comparison (replacement form), many keys are answered at once: each by the
first plan, in order of cost, whose condition holds. What no plan answers is left to A*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from tamis.flow.states.definitions.scope import EVENT, STATE
from tamis.flow.states.expansion.linear import BoundsError, Linear, System, Variable, single
from tamis.flow.states.expansion.rule_rows import Moves, Row
from tamis.flow.states.expansion.search import Node
from tamis.flow.states.expansion.solving import Step
from tamis.flow.states.expansion.zones import Problem, Zone

PLANS = 300  # of one summary
GOAL = "goal."


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows, first to last; `values[i]` has the parameters of event i by attribute.

    A value is linear over `state.x` (the start) and `goal.x`. None as `values`: the parameters
    are not determined, so a key that fulfils `system` is left to the search.
    """

    cost: float
    rows: tuple[Row, ...]
    system: System
    values: tuple[dict[str, Linear], ...] | None


def plans_of(moves: Moves) -> tuple[Plan, ...] | None:
    """All plans in order of cost; None where the moves have too many, or keys decide in them."""
    return moves.once("plans", lambda: _plans(moves))


def _plans(moves: Moves) -> tuple[Plan, ...] | None:
    summary = moves.summary
    keys = {EVENT + name for name in summary.key}
    if summary.lists or any(p.name in keys for row in moves.rows for p in row.parameters):
        return None
    try:
        return tuple(_search(moves))
    except (BoundsError, OverflowError):
        return None


def _search(moves: Moves) -> Iterator[Plan]:
    """Breadth first by cost; a zone is a condition on start and goal."""
    problem = Problem(moves, {}, {}, {})
    frontier: list[tuple[float, int, Node]] = []
    ticket, best = count(), {}
    goal = Node(_goal(moves), 0.0, 0.0)
    best[goal.zone.key()] = 0.0
    heappush(frontier, (0.0, next(ticket), goal))
    found = 0
    while frontier:
        _, _, node = heappop(frontier)
        found += 1
        if found > PLANS:
            raise OverflowError
        if not any(node.zone.null.values()):
            yield _plan(problem, node)
        for row in reversed(moves.rows):
            for zone in problem.before(node.zone, row):
                key, cost = zone.key(), node.cost + row.cost
                if cost < best.get(key, float("inf")) and not node.follows(zone):
                    best[key] = cost
                    made = Node(zone, cost, 0.0, Step(row, node.zone), node)
                    heappush(frontier, (cost, next(ticket), made))


def _goal(moves: Moves) -> Zone:
    system, null = System(), {}
    for name in moves.summary.scalars:
        variable = moves.variable(name)
        system.equal(
            single(variable).plus(single(Variable(GOAL + name, variable.whole)), -1), (variable,)
        )
        null[variable] = False
    return Zone(system, null, {})


def _plan(problem: Problem, node: Node) -> Plan:
    steps = list(node.steps())
    rows = tuple(step.row for step in steps)
    return Plan(node.cost, rows, node.zone.system, _values(problem, steps))


def _values(problem: Problem, steps: list[Step]) -> tuple[dict[str, Linear], ...] | None:
    """Each event's parameters, forward from the start."""
    now: dict[Variable, Linear] = {}  # components that are no longer those of the start
    found = []
    for step in steps:
        system = System()
        problem.constrain(system, step.zone, step.row)
        chosen: dict[str, Linear] = {}
        by = dict(now)
        for parameter in step.row.parameters:
            if parameter in step.row.null:
                continue
            told = system.solved.get(parameter)
            if told is None or any(v.name.startswith(EVENT) for v in told.variables):
                return None
            by[parameter] = chosen[parameter.name.removeprefix(EVENT)] = told.replaced(now)
        now = {**now, **{v: worth.replaced(by) for v, worth in step.row.sets.items()}}
        found.append(chosen)
    return tuple(found)


def component(variable: Variable) -> tuple[bool, str]:
    """Whether the variable is of the goal, and which component it is."""
    of_goal = variable.name.startswith(GOAL)
    return of_goal, variable.name.removeprefix(GOAL if of_goal else STATE)
