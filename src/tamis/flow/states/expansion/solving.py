"""From rows to events: values for the parameters, forward from the start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tamis.flow.states.definitions.scope import EVENT
from tamis.flow.states.expansion.exact_numbers import Number, between, number_of, value_of
from tamis.flow.states.expansion.linear import Linear, System, Variable
from tamis.flow.states.expansion.rule_rows import Row
from tamis.flow.states.expansion.zones import Problem, Zone
from tamis.schema import Schema, Type

Values = dict[str, object]


class Step(NamedTuple):
    """A row, and the zone in which the state must be after it."""

    row: Row
    zone: Zone


def parameters(
    problem: Problem, step: Step, state: dict[Variable, Number | None], columns: Schema
) -> Values | None:
    """The event's attributes that lead from `state` into the step's zone; None where none do."""
    system = System()
    for variable, value in state.items():
        if value is not None:
            system.equal(Linear(((variable, 1),), -value))
    problem.constrain(system, step.zone, step.row)
    if not system.satisfiable():
        return None
    chosen: Values = {}
    demanded = _demanded(problem, step)
    for parameter in step.row.parameters:
        name = parameter.name.removeprefix(EVENT)
        if parameter.name not in _full(columns) or demanded.get(parameter) is True:
            continue
        if parameter in problem.fixed:
            system.equal(Linear(((parameter, 1),)).plus(problem.fixed[parameter], -1))
            continue
        needed = demanded.get(parameter) is False
        found = _pick(system, parameter, columns[name].type, needed)
        if found is None and needed:
            return None
        if found is not None:
            number, chosen[name] = found
            system.equal(Linear(((parameter, 1),), -number))
            if system.empty:
                return None
    return chosen


def _full(columns: Schema) -> set[str]:
    return {EVENT + name for name in columns}


def _demanded(problem: Problem, step: Step) -> dict[Variable, bool]:
    """Which parameters must (not) be undefined; the first of several ways."""
    return next(iter(problem.nulls_before(step.zone, step.row)), {})


def _pick(
    system: System, parameter: Variable, kind: Type, needed: bool
) -> tuple[Number, object] | None:
    """A number for one parameter and the value that stands for it; None where there is none.

    A parameter that nothing decides is left out unless it is `needed`.
    """
    alone = system.copy()
    used = {v for t in alone.bounds for v, _ in t}
    used |= {v for t in alone.solved.values() for v in t.variables}
    for other in sorted(used - {parameter}):
        alone.eliminate(other)
    low, high = alone.range_of(parameter)
    if alone.empty or (low is None and high is None and not needed):
        return None
    for number in _candidates(low, high, kind):
        value = value_of(number, kind)
        # The nearest double may have to do: the sequence is replayed before it is handed out.
        near = kind is Type.DOUBLE and low == high
        if value is not None and (near or _fits(number_of(value), low, high)):
            return number if near else number_of(value), value
    return None


def _candidates(
    low: tuple[Number, bool] | None, high: tuple[Number, bool] | None, kind: Type
) -> Sequence[Number]:
    """The closed ends first, then what lies between."""
    ends = [end[0] for end in (low, high) if end is not None and not end[1]]
    return [*ends, *between(low and low[0], high and high[0], kind)]


def _fits(
    number: Number, low: tuple[Number, bool] | None, high: tuple[Number, bool] | None
) -> bool:
    above = low is None or number > low[0] or (number == low[0] and not low[1])
    return above and (high is None or number < high[0] or (number == high[0] and not high[1]))
