"""Many keys at once: plans applied to columns of starts and goals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from tamis.flow.states.expansion.exact_numbers import Number, number_of, value_of
from tamis.flow.states.expansion.key_plans import Plan, component, plans_of
from tamis.flow.states.expansion.linear import Linear, System, Terms, Variable
from tamis.flow.states.expansion.rule_rows import Moves
from tamis.flow.states.fold.fold_columns import I8, Mask, Strings, flat, to_numbers
from tamis.messages.typed_tables import arrow_type
from tamis.schema import Type

UNSOLVED = -1


class NotPlainError(Exception):
    """A condition or a value of a plan is no comparison of two values."""


@dataclass(slots=True)
class Columns:
    """Starts and goals of all keys as numbers."""

    moves: Moves
    start: pa.Table
    goal: pa.Table
    strings: Strings
    numbers: dict[tuple[bool, str], I8]
    defined: Mask

    @classmethod
    def of(cls, moves: Moves, start: pa.Table, goal: pa.Table) -> Columns:
        """Row i of both tables belongs to one key."""
        scalars = moves.summary.scalars
        texts = [
            flat(t[n]) for t in (start, goal) for n in scalars if scalars[n].type is Type.STRING
        ]
        strings = Strings([*texts, pa.array(_literals(moves), pa.string())] if texts else [])
        numbers, defined = {}, np.ones(goal.num_rows, np.bool_)
        for of_goal, table in ((False, start), (True, goal)):
            for name in scalars:
                numbers[of_goal, name], known = to_numbers(
                    flat(table[name]), scalars[name].type, strings
                )
                defined &= known
        return cls(moves, start, goal, strings, numbers, defined)

    def side(self, variable: Variable) -> tuple[I8, Type]:
        of_goal, name = component(variable)
        return self.numbers[of_goal, name], self.moves.summary.scalars[name].type

    def constant(self, number: Number, kind: Type) -> I8:
        value = value_of(number, kind)
        if value is None or number_of(value) != number:
            raise NotPlainError
        return to_numbers(pa.array([value], arrow_type(kind)), kind, self.strings)[0]

    # --- conditions ----------------------------------------------------------------

    def holds(self, system: System) -> Mask:
        """For each key whether the condition on start and goal is true."""
        found = np.ones(self.goal.num_rows, np.bool_)
        for variable, told in system.solved.items():
            terms = ((variable, 1), *((v, -c) for v, c in told.terms))
            found &= self._compared(terms, told.constant, "=")
        for terms, (limit, strict) in system.bounds.items():
            found &= self._compared(terms, limit, "<" if strict else "<=")
        return found

    def _compared(self, terms: Terms, limit: Number, op: str) -> Mask:
        """`terms op limit`, where that is a comparison of two values."""
        if len(terms) == 1 and terms[0][1] in (1, -1):
            variable, sign = terms[0]
            numbers, kind = self.side(variable)
            bound = self.constant(limit * sign, kind)
            pair = (numbers, bound) if sign == 1 else (bound, numbers)
            return _compare(*pair, op, kind)
        if len(terms) != 2 or {c for _, c in terms} != {1, -1}:
            raise NotPlainError
        low = next(v for v, c in terms if c == 1)
        high = next(v for v, c in terms if c == -1)
        if limit == -1 and op == "<=" and low.whole and high.whole:
            limit, op = 0, "<"
        (a, of_a), (b, of_b) = self.side(low), self.side(high)
        if limit != 0 or of_a is not of_b:
            raise NotPlainError
        return _compare(a, b, op, of_a)

    # --- values ----------------------------------------------------------------------

    def values(self, linear: Linear, rows: I8, kind: Type) -> pa.Array:
        """A parameter of some keys, as the attribute's type."""
        if not linear.terms:
            value = value_of(linear.constant, kind)
            return pa.array([value] * len(rows), arrow_type(kind))
        if len(linear.terms) != 1 or linear.terms[0][1] != 1 or linear.constant != 0:
            raise NotPlainError
        of_goal, name = component(linear.terms[0][0])
        if self.moves.summary.scalars[name].type is not kind:
            raise NotPlainError
        table = self.goal if of_goal else self.start
        return flat(table[name]).take(pa.array(rows))


def _compare(a: I8, b: I8, op: str, kind: Type) -> Mask:
    if kind is Type.DOUBLE:
        left, right = a.view(np.float64), b.view(np.float64)
        return left == right if op == "=" else left < right if op == "<" else left <= right
    return a == b if op == "=" else a < b if op == "<" else a <= b


def _literals(moves: Moves) -> list[str]:
    """Every string that a row compares with."""
    numbers: set[Number] = set()
    for row in moves.rows:
        for linear in (*(a.linear for a in row.guard), *row.sets.values()):
            numbers |= {linear.constant, -linear.constant}
    found = (value_of(Fraction(n), Type.STRING) for n in numbers)
    return [t for t in found if isinstance(t, str)]


@dataclass(slots=True)
class Answer:
    """For each key the number of its plan, or UNSOLVED."""

    chosen: I8
    plans: tuple[Plan, ...]
    columns: Columns


def answer(moves: Moves, start: pa.Table, goal: pa.Table) -> Answer:
    """The cheapest plan of every key that has one."""
    columns = Columns.of(moves, start, goal)
    chosen = np.full(goal.num_rows, UNSOLVED, np.int64)
    plans = plans_of(moves)
    if plans is None:
        return Answer(chosen, (), columns)
    open_keys = columns.defined.copy()
    try:
        for number, plan in enumerate(plans):
            if not open_keys.any():
                break
            fits = columns.holds(plan.system) & open_keys
            open_keys &= ~fits
            if plan.values is not None:
                chosen[fits] = number
    except NotPlainError:
        chosen[:] = UNSOLVED
    return Answer(chosen, plans, columns)
