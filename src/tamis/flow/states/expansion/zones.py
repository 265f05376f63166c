"""Zones: sets of states from which the rest of a sequence leads to the goal.

A zone is a system of bounds over the components, what must (not) be undefined, and for each
list how many of the goal's elements it holds (None: anything). Working backward through a row
keeps parameters symbolic: the row's changes are put into the bounds, its guard is added, and
the event's parameters are eliminated, so they are solved and never enumerated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tamis.flow.states.definitions.scope import STATE
from tamis.flow.states.expansion.exact_numbers import Number, number_of
from tamis.flow.states.expansion.linear import Linear, System, Variable, constant
from tamis.flow.states.expansion.rule_cases import add
from tamis.flow.states.expansion.rule_rows import Moves, Row

Elements = tuple[tuple[object, ...], ...]


@dataclass(slots=True)
class Zone:
    system: System
    null: dict[Variable, bool]  # True: must be undefined, False: must be defined
    lists: dict[str, int | None]

    def key(self) -> tuple[object, ...]:
        return *self.system.key(), frozenset(self.null.items()), tuple(self.lists.items())

    def within(self, other: Zone) -> bool:
        """True where it is plain that this zone is a part of the other."""
        if any(told is not None and self.lists[name] != told for name, told in other.lists.items()):
            return False
        if any(self.null.get(v) is not told for v, told in other.null.items()):
            return False
        return self.system.within(other.system)


@dataclass(slots=True)
class Problem:
    """One question: from which state to which, by which moves; values as numbers."""

    moves: Moves
    start: dict[Variable, Number | None]
    start_lists: dict[str, Elements]
    goal_lists: dict[str, Elements]
    fixed: dict[Variable, Linear] = field(default_factory=dict)  # what the key settles

    @classmethod
    def of(
        cls, moves: Moves, current: Mapping[str, object], goal: Mapping[str, object],
        fixed: Mapping[str, object],
    ) -> tuple[Problem, Zone]:  # fmt: skip
        """The problem, and the zone that holds the goal alone."""
        names = list(moves.summary.scalars)
        start = {moves.variable(n): _number(current[n]) for n in names}
        system, null = System(), {}
        for name in names:
            variable, told = moves.variable(name), _number(goal[name])
            null[variable] = told is None
            if told is not None:
                system.equal(Linear(((variable, 1),), -told))
        lists = moves.summary.lists
        elements: dict[str, Elements] = {n: tuple(goal[n]) for n in lists}  # type: ignore[arg-type]
        held: dict[str, Elements] = {n: tuple(current[n]) for n in lists}  # type: ignore[arg-type]
        keyed = {v: constant(number_of(fixed[v.name])) for row in moves.rows for v in row.parameters
                 if v.name in fixed and fixed[v.name] is not None}  # fmt: skip
        zone = Zone(system, null, {n: len(rows) for n, rows in elements.items()})
        return cls(moves, start, held, elements, keyed), zone

    def contains_start(self, zone: Zone) -> bool:
        for variable, null in zone.null.items():
            if (self.start[variable] is None) is not null:
                return False
        for name, told in zone.lists.items():
            if told is not None and self.start_lists[name] != self.goal_lists[name][:told]:
                return False
        values = {v: n for v, n in self.start.items() if n is not None}
        return zone.system.holds(values)

    def differing(self, zone: Zone) -> Iterator[str]:
        """Components that some event must still change: the zone has no room for their start."""
        for variable, value in self.start.items():
            null = zone.null.get(variable)
            inside = value is None or _inside(value, zone.system.range_of(variable))
            if not inside or (null is not None and null is not (value is None)):
                yield variable.name.removeprefix(STATE)
        for name, told in zone.lists.items():
            if told is not None and self.start_lists[name] != self.goal_lists[name][:told]:
                yield name

    # --- one step back ---------------------------------------------------------

    def before(self, zone: Zone, row: Row) -> Iterator[Zone]:
        """The zones from which the row leads into `zone`; none where it cannot be the last."""
        lists = self._lists_before(zone, row)
        if lists is None or self._useless(zone, row):
            return
        for null in self.nulls_before(zone, row):
            system = System()
            self.constrain(system, zone, row)
            if system.empty:
                continue
            for parameter in row.parameters:
                system.eliminate(parameter)
            kept = {v: told for v, told in null.items() if v not in row.parameters}
            if system.satisfiable():
                yield Zone(system, kept, lists)

    def constrain(self, system: System, zone: Zone, row: Row) -> None:
        """What must hold before the row, of state and parameters, so that `zone` holds after."""
        add(system, row.guard, row.parameters, self.fixed)
        by = row.sets
        for variable, told in zone.system.solved.items():
            left = by.get(variable, Linear(((variable, 1),)))
            linear = left.plus(told.replaced(by), -1)
            system.equal(linear.replaced(self.fixed), row.parameters)
        for terms, (limit, strict) in zone.system.bounds.items():
            system.at_most(Linear(terms, -limit).replaced(by).replaced(self.fixed), strict)
        for name, told_terms in row.appends.items():
            held = zone.lists[name]
            if held:
                for told, value in zip(told_terms, self.goal_lists[name][held - 1], strict=True):
                    if value is not None:
                        linear = told.plus(constant(number_of(value)), -1)
                        system.equal(linear.replaced(self.fixed), row.parameters)

    def _useless(self, zone: Zone, row: Row) -> bool:
        """A row that changes nothing of what the zone asks for."""
        touched = {v for v in zone.null if v in row.sets} | {
            v for v in row.sets if v in zone.system.solved
            or any(v == w for terms in zone.system.bounds for w, _ in terms)
            or any(v in told.variables for told in zone.system.solved.values())
        }  # fmt: skip
        listed = any(zone.lists[n] is not None for n in (*row.appends, *row.clears))
        return not touched and not listed

    def _lists_before(self, zone: Zone, row: Row) -> dict[str, int | None] | None:
        lists = dict(zone.lists)
        for name in row.appends:
            held = lists[name]
            if held == 0:
                return None
            lists[name] = None if held is None else held - 1
        for name in row.clears:
            if lists[name]:
                return None
            lists[name] = None
        return lists

    def nulls_before(self, zone: Zone, row: Row) -> Iterator[dict[Variable, bool]]:
        """What must (not) be undefined before; several ways where any of two terms may be."""
        ways: list[dict[Variable, bool]] = [dict.fromkeys(row.null, True)
                                            | dict.fromkeys(row.defined, False)]  # fmt: skip
        for variable in {v for a in row.guard for v in a.variables}:
            ways = list(_demand(ways, [variable], False))
        for target, null in zone.null.items():
            told = row.sets.get(target)
            used = [target] if told is None else sorted(told.variables)
            ways = list(_demand(ways, used, null))
        for name, told_terms in row.appends.items():
            held = zone.lists[name]
            if held:
                for told, value in zip(told_terms, self.goal_lists[name][held - 1], strict=True):
                    ways = list(_demand(ways, sorted(told.variables), value is None))
        yield from ways


def _demand(
    ways: Iterable[dict[Variable, bool]], used: list[Variable], null: bool
) -> Iterator[dict[Variable, bool]]:
    """Each way with one of `used` undefined, or with all of them defined."""
    for way in ways:
        if null:
            yield from ({**way, v: True} for v in used if way.get(v, True))
        elif all(not way.get(v, False) for v in used):
            yield way | dict.fromkeys(used, False)


def _inside(value: Number, bounds: tuple[tuple[Number, bool] | None, ...]) -> bool:
    low, high = bounds
    if low is not None and (value < low[0] or (low[1] and value == low[0])):
        return False
    return high is None or value < high[0] or (not high[1] and value == high[0])


def _number(value: object) -> Number | None:
    return None if value is None else number_of(value)
