"""Linear terms and systems of bounds over them, with exact numbers.

A system is kept solved: a variable that an equation determines occurs nowhere else. What
remains are bounds `terms <= limit` or `< limit`, the tightest one for each left side; for
components that rules only compare and replace these are the difference bounds of timed
automata. Bounds over integers alone are rounded to integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from tamis.flow.states.expansion.exact_numbers import Number

BOUNDS = 400  # of one system: elimination squares them in the worst case


class Variable(NamedTuple):
    """A component, an event's parameter, or a goal's component; `whole` where it is an integer."""

    name: str
    whole: bool


Terms = tuple[tuple[Variable, Number], ...]


class BoundsError(Exception):
    """A system outgrew its limit."""


class Linear(NamedTuple):
    """`c1*v1 + c2*v2 + ... + constant`, variables in order, no coefficient zero."""

    terms: Terms
    constant: Number = 0

    def plus(self, other: Linear, factor: Number = 1) -> Linear:
        sums = dict(self.terms)
        for variable, coefficient in other.terms:
            sums[variable] = sums.get(variable, 0) + factor * coefficient
        kept = tuple(sorted((v, c) for v, c in sums.items() if c))
        return Linear(kept, self.constant + factor * other.constant)

    def times(self, factor: Number) -> Linear:
        if not factor:
            return Linear(())
        return Linear(tuple((v, c * factor) for v, c in self.terms), self.constant * factor)

    def replaced(self, by: dict[Variable, Linear]) -> Linear:
        if not any(v in by for v, _ in self.terms):
            return self
        found = Linear(tuple((v, c) for v, c in self.terms if v not in by), self.constant)
        for v, c in self.terms:
            if v in by:
                found = found.plus(by[v], c)
        return found

    @property
    def variables(self) -> set[Variable]:
        return {v for v, _ in self.terms}


def constant(number: Number) -> Linear:
    return Linear((), number)


def single(variable: Variable) -> Linear:
    return Linear(((variable, 1),))


class System:
    """Equations and bounds. `empty` is True once a contradiction was met."""

    __slots__ = ("bounds", "empty", "solved")

    def __init__(self) -> None:
        self.solved: dict[Variable, Linear] = {}
        self.bounds: dict[Terms, tuple[Number, bool]] = {}
        self.empty = False

    def copy(self) -> System:
        made = System()
        made.solved, made.bounds, made.empty = dict(self.solved), dict(self.bounds), self.empty
        return made

    def equal(self, linear: Linear, first: Iterable[Variable] = ()) -> None:
        """`linear = 0`; where possible it is solved for one of `first`."""
        linear = linear.replaced(self.solved)
        if not linear.terms:
            self.empty |= linear.constant != 0
            return
        wanted = set(first)
        chosen = next((v for v, _ in linear.terms if v in wanted), linear.terms[0][0])
        factor = dict(linear.terms)[chosen]
        rest = Linear(tuple((v, c) for v, c in linear.terms if v != chosen), linear.constant)
        worth = rest.times(_over(-1, factor))
        if chosen.whole and not worth.terms and Fraction(worth.constant).denominator != 1:
            self.empty = True
            return
        by = {chosen: worth}
        self.solved = {v: told.replaced(by) for v, told in self.solved.items()}
        self.solved[chosen] = worth
        # One bound at a time: adding it again may solve, and so replace, others.
        while (terms := self._using(chosen)) is not None and not self.empty:
            limit, strict = self.bounds.pop(terms)
            self.at_most(Linear(terms, -limit), strict)

    def _using(self, variable: Variable) -> Terms | None:
        return next((t for t in self.bounds if any(v == variable for v, _ in t)), None)

    def at_most(self, linear: Linear, strict: bool = False) -> None:
        """`linear <= 0`, or `< 0`."""
        linear = linear.replaced(self.solved)
        if not linear.terms:
            self.empty |= linear.constant > 0 or (strict and linear.constant == 0)
            return
        terms, limit, strict = _normal(linear, strict)
        known = self.bounds.get(terms)
        if known is not None and (known[0], not known[1]) <= (limit, not strict):
            return
        opposite = tuple((v, -c) for v, c in terms)
        other = self.bounds.get(opposite)
        if other is not None:
            room = limit + other[0]
            if room < 0 or (room == 0 and (strict or other[1])):
                self.empty = True
                return
            if room == 0:
                del self.bounds[opposite]
                self.bounds.pop(terms, None)
                self.equal(Linear(terms, -limit))
                return
        self.bounds[terms] = (limit, strict)

    def eliminate(self, variable: Variable) -> None:
        """Drop the variable: what remains is true of the others wherever a value for it exists."""
        if self.solved.pop(variable, None) is not None:
            return
        using = next((v for v, told in self.solved.items() if variable in told.variables), None)
        if using is not None:
            told = self.solved.pop(using)
            self.equal(told.plus(single(using), -1), (variable,))
            del self.solved[variable]
            return
        self._combine(variable)

    def _combine(self, variable: Variable) -> None:
        """Fourier and Motzkin: each lower bound with each upper bound."""
        upper: list[tuple[Linear, bool]] = []
        lower: list[tuple[Linear, bool]] = []
        for terms in [t for t in self.bounds if any(v == variable for v, _ in t)]:
            limit, strict = self.bounds.pop(terms)
            factor = dict(terms)[variable]
            scaled = Linear(terms, -limit).times(_over(1, size(factor)))
            (upper if factor > 0 else lower).append((scaled, strict))
        if len(upper) * len(lower) + len(self.bounds) > BOUNDS:
            raise BoundsError
        for high, high_strict in upper:
            for low, low_strict in lower:
                self.at_most(high.plus(low), high_strict or low_strict)

    def satisfiable(self) -> bool:
        """Whether some values fulfil all of it (of integers: some rational ones)."""
        if self.empty or not self.bounds:
            return not self.empty
        rest = System()
        rest.bounds = dict(self.bounds)
        while rest.bounds and not rest.empty:
            variable = next(iter(rest.bounds))[0][0]
            rest.eliminate(variable)
        return not rest.empty

    def holds(self, values: dict[Variable, Number]) -> bool:
        """Whether values of all variables fulfil it."""
        if self.empty:
            return False
        for variable, told in self.solved.items():
            if values[variable] != _worth(told, values):
                return False
        for terms, (limit, strict) in self.bounds.items():
            found = sum(c * values[v] for v, c in terms)
            if found > limit or (strict and found == limit):
                return False
        return True

    def key(self) -> tuple[object, ...]:
        return frozenset(self.solved.items()), frozenset(self.bounds.items())

    def within(self, other: System) -> bool:
        """True where it is plain that `other` holds wherever this does."""
        for variable, told in other.solved.items():
            if self.solved.get(variable) != told:
                return False
        for terms, (limit, strict) in other.bounds.items():
            own = self.bounds.get(terms)
            if own is None:
                worth = Linear(terms).replaced(self.solved)
                if worth.terms:
                    return False
                own = (worth.constant, False)
            if (own[0], not own[1]) > (limit, not strict):
                return False
        return True

    def range_of(self, variable: Variable) -> tuple[tuple[Number, bool] | None, ...]:
        """The plain lower and upper bound of one variable, each with whether it is strict."""
        told = self.solved.get(variable)
        if told is not None and not told.terms:
            return (told.constant, False), (told.constant, False)
        low = self.bounds.get(((variable, -1),))
        high = self.bounds.get(((variable, 1),))
        return (None if low is None else (-low[0], low[1])), high


def _worth(linear: Linear, values: dict[Variable, Number]) -> Number:
    return sum((c * values[v] for v, c in linear.terms), linear.constant)


def size(number: Number) -> Number:
    return number if number >= 0 else -number


def _over(number: Number, divisor: Number) -> Number:
    if divisor in (1, -1):
        return number * divisor
    found = Fraction(number) / divisor
    return int(found) if found.denominator == 1 else found


def _normal(linear: Linear, strict: bool) -> tuple[Terms, Number, bool]:
    """One spelling: the first coefficient is 1 or -1; over integers all are coprime integers."""
    terms, limit = linear.terms, -linear.constant
    if not all(v.whole for v, _ in terms):
        factor = size(terms[0][1])
        if factor == 1:
            return terms, limit, strict
        return tuple((v, _over(c, factor)) for v, c in terms), _over(limit, factor), strict
    if any(not isinstance(c, int) for _, c in terms):
        scale = math.lcm(*(Fraction(c).denominator for _, c in terms))
        terms, limit = tuple((v, int(c * scale)) for v, c in terms), limit * scale
    shared = math.gcd(*(int(c) for _, c in terms))
    if shared != 1:
        terms, limit = tuple((v, int(c) // shared) for v, c in terms), Fraction(limit) / shared
    rounded = math.floor(limit)
    return terms, rounded - (1 if strict and rounded == limit else 0), False
