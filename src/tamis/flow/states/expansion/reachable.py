"""What the states after a start have in common: a range and a residue for each component.

An interpretation of the rows over ranges and residues (Cousot and Cousot 1977; Granger 1989),
forward from the start: whatever events come, no component leaves its range or its residue. A goal
outside of them is unreachable, and so is every zone outside on the way back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from tamis.flow.states.definitions.scope import STATE
from tamis.flow.states.expansion.exact_numbers import Number
from tamis.flow.states.expansion.linear import BoundsError, Linear, System, Variable, single
from tamis.flow.states.expansion.rule_cases import add
from tamis.flow.states.expansion.rule_rows import Row
from tamis.flow.states.expansion.zones import Problem, Zone

ROUNDS = 12  # in which ranges may grow; a bound that still moves then is none
_NARROWING = 2  # rounds that take back what was given up too soon
_NEW = Variable("new", whole=False)


@dataclass(frozen=True, slots=True)
class Values:
    """The numbers from `low` to `high` that are `rest` modulo `step`; None is no bound, no step.

    A step of 0 means `rest` alone. `null`: it may also be undefined; `defined`: it may be one of
    the numbers.
    """

    low: Number | None
    high: Number | None
    step: Number | None = None
    rest: Number = 0
    null: bool = False
    defined: bool = True

    @classmethod
    def only(cls, value: Number | None) -> Values:
        if value is None:
            return cls(0, 0, 0, 0, null=True, defined=False)
        return cls(value, value, 0, value)

    def join(self, other: Values) -> Values:
        """All that either allows."""
        if not self.defined or not other.defined:
            kept = self if self.defined else other
            return replace(kept, null=self.null or other.null)
        step = _common(self.step, other.step, self.rest - other.rest)
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        rest = self.rest % step if step else self.rest
        return Values(low, high, step, rest, self.null or other.null)

    def widened(self, after: Values) -> Values:
        """`after` without the bounds that have moved since."""
        if not self.defined:
            return replace(after, low=None, high=None) if after.defined else after
        low = after.low if after.low == self.low else None
        return replace(after, low=low, high=after.high if after.high == self.high else None)

    def has(self, value: Number) -> bool:
        """Whether the residue allows the number."""
        if self.step is None:
            return True
        return value == self.rest if not self.step else not (value - self.rest) % self.step

    def bound(self, system: System, variable: Variable) -> None:
        """Let the system know of the range."""
        if self.low is not None:
            system.at_most(Linear(((variable, -1),), self.low))
        if self.high is not None:
            system.at_most(Linear(((variable, 1),), -self.high))


Box = dict[Variable, Values]


@dataclass(frozen=True, slots=True)
class Reachable:
    """The states that events may lead to, from the start of a problem."""

    box: Box

    @classmethod
    def of(cls, problem: Problem) -> Reachable:
        start = {v: Values.only(value) for v, value in problem.start.items()}
        box = start
        for number in range(2 * ROUNDS):
            after = _joined(start, box, problem, grow=True)
            if after == box:
                break
            if number >= ROUNDS:
                after = {v: box[v].widened(values) for v, values in after.items()}
            box = after
        else:
            return cls({v: Values(None, None, null=True) for v in start})
        for _ in range(_NARROWING):
            box = _joined(start, box, problem, grow=False)
        return cls(box)

    def excludes(self, zone: Zone) -> str:
        """Why no state of the zone can be reached; empty if that cannot be told."""
        for variable, values in self.box.items():
            told = _undefined(variable, values, zone) or _outside(variable, values, zone)
            if told:
                return told
        system = zone.system.copy()
        for variable, values in self.box.items():
            if zone.null.get(variable) is False:
                values.bound(system, variable)
        try:
            return "" if system.satisfiable() else "their bounds exclude each other"
        except BoundsError:
            return ""


def _undefined(variable: Variable, values: Values, zone: Zone) -> str:
    wanted = zone.null.get(variable)
    name = variable.name.removeprefix(STATE)
    if wanted is True and not values.null:
        return f"{name} is never undefined"
    return f"{name} is always undefined" if wanted is False and not values.defined else ""


def _outside(variable: Variable, values: Values, zone: Zone) -> str:
    if zone.null.get(variable) is not False:
        return ""
    name = variable.name.removeprefix(STATE)
    low, high = zone.system.range_of(variable)
    if high is not None and values.low is not None and high[0] < values.low:
        return f"{name} has a lower bound, {_shown(values.low)}"
    if low is not None and values.high is not None and low[0] > values.high:
        return f"{name} has an upper bound, {_shown(values.high)}"
    if low is not None and low == high and not values.has(low[0]):
        if not values.step:
            return f"{name} is always {_shown(values.rest)}"
        return f"{name} is always {_shown(values.rest)} modulo {_shown(values.step)}"
    return ""


def _shown(number: Number) -> str:
    return str(number) if isinstance(number, int) else f"{float(number):g}"


# --- one round ---------------------------------------------------------------------------


def _joined(start: Box, box: Box, problem: Problem, *, grow: bool) -> Box:
    """The box after one more event: with all that was there, or only with the start."""
    found = dict(box if grow else start)
    for row in problem.moves.rows:
        for variable, values in _after(box, row, problem):
            found[variable] = found[variable].join(values)
    return found


def _after(box: Box, row: Row, problem: Problem) -> Iterator[tuple[Variable, Values]]:
    """What the row makes of the components that it sets; nothing if it cannot fire in the box."""
    asked = {v for atom in row.guard for v in atom.variables} | row.defined
    if any(not box[v].defined for v in asked if v in box):
        return
    if any(not box[v].null for v in row.null if v in box):
        return
    system = System()
    add(system, row.guard, (), problem.fixed)
    for variable, values in box.items():
        if variable not in row.null and values.defined:
            values.bound(system, variable)
    if not _satisfiable(system):
        return
    for target, told in row.sets.items():
        yield target, _made(box, row, system, told.replaced(problem.fixed), asked)


def _made(box: Box, row: Row, system: System, told: Linear, asked: set[Variable]) -> Values:
    """The values of a term in the states and events in which the row fires."""
    used = told.variables
    if used & row.null or any(not box[v].defined for v in used if v in box):
        return Values.only(None)
    unsure = [v for v in used - asked if v not in box or box[v].null]
    low, high = _range(system, told)
    if low is not None and low == high:
        return replace(Values.only(low), null=bool(unsure))
    step, rest = _residue(box, system, told)
    return Values(low, high, step, rest, null=bool(unsure))


def _range(system: System, told: Linear) -> tuple[Number | None, Number | None]:
    found = system.copy()
    try:
        found.equal(told.plus(single(_NEW), -1))
        others = {v for terms in found.bounds for v, _ in terms} | set(found.solved)
        others |= {v for linear in found.solved.values() for v in linear.variables}
        for variable in sorted(others - {_NEW}):
            found.eliminate(variable)
    except BoundsError:
        return None, None
    low, high = found.range_of(_NEW)
    return (None if low is None else low[0]), (None if high is None else high[0])


def _residue(box: Box, system: System, told: Linear) -> tuple[Number | None, Number]:
    """Step and rest of a sum: the steps of its parts together. Sums of doubles are rounded, so
    they have none."""
    copied = told.constant == 0 and len(told.terms) == 1 and told.terms[0][1] == 1
    if not copied and not all(variable.whole for variable in told.variables):
        return None, 0
    step: Number | None = 0
    rest = told.constant
    for variable, factor in told.terms:
        low, high = system.range_of(variable)
        if low is not None and low == high:
            rest += factor * low[0]
        elif variable in box:
            own = box[variable].step
            step = _common(step, None if own is None else factor * own)
            rest += factor * box[variable].rest
        else:
            step = _common(step, factor if variable.whole else None)
    return (step, rest % step) if step else (step, rest)


def _common(*numbers: Number | None) -> Number | None:
    """The largest number of which all are multiples; None if one of them is."""
    if None in numbers:
        return None
    return _gcd([n for n in numbers if n is not None])


def _gcd(numbers: list[Number]) -> Number:
    scale = math.lcm(*(Fraction(n).denominator for n in numbers))
    found = Fraction(math.gcd(*(int(n * scale) for n in numbers)), scale)
    return int(found) if found.denominator == 1 else found


def _satisfiable(system: System) -> bool:
    try:
        return system.satisfiable()
    except BoundsError:
        return True
