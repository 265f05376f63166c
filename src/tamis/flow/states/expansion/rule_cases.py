"""Conditions as cases: each a set of equations, bounds, and what is (not) undefined.

An event may lack attributes, so a condition is true, false or unknown, and a rule fires only
where no earlier one is true. Each question (is it true, false, not true, not false) has its
own list of cases; a condition that is no comparison of linear terms has none and is outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import NamedTuple, TypeVar

from tamis.flow.states.expansion.exact_numbers import WHOLE, number_of
from tamis.flow.states.expansion.linear import (
    BoundsError,
    Linear,
    System,
    Variable,
    constant,
    single,
)
from tamis.language import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Condition,
    Constant,
    In,
    IsNull,
    Literal,
    Negate,
    Not,
    Or,
    Term,
    canonical,
)
from tamis.schema import Schema

CASES = 200  # of one rule
_FLIP = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_OPPOSITE = {"true": "false", "false": "true", "not true": "not false", "not false": "not true"}
Item = TypeVar("Item")


class OutsideError(Exception):
    """The summary has a form that expansion does not understand; the text says why."""


class Atom(NamedTuple):
    """`linear op 0`, with op one of = < <=; or that a variable is (not) undefined."""

    op: str
    linear: Linear

    @property
    def variables(self) -> set[Variable]:
        return self.linear.variables


Case = tuple[Atom, ...]
Cases = list[Case]


class Reader:
    """Reads conditions and terms of a scope whose names are written in full."""

    def __init__(self, schema: Schema, place: str) -> None:
        self.schema, self.place = schema, place

    def cases(self, condition: Condition, asked: str = "true") -> Cases:
        """When the condition is what is `asked`."""
        match condition:
            case Constant(value):
                return [()] if value == (asked in ("true", "not false")) else []
            case Not(part):
                return self.cases(part, _OPPOSITE[asked])
            case And(parts):
                found = [self.cases(p, asked) for p in parts]
                return self.all_of(found) if asked in ("true", "not false") else self._any(found)
            case Or(parts):
                found = [self.cases(p, asked) for p in parts]
                return self._any(found) if asked in ("true", "not false") else self.all_of(found)
            case Between(term, low, high):
                both = And((Compare(term, ">=", low), Compare(term, "<=", high)))
                return self.cases(both, asked)
            case In(term, values):
                each = tuple(Compare(term, "=", v) for v in values)
                return self.cases(Or(each) if len(each) > 1 else each[0], asked)
            case IsNull(term):
                return self._null(term, asked in ("true", "not false"))
            case Compare(left, op, right):
                return self._compare(left, op, right, asked)
        raise OutsideError(f"{self.place}: {canonical(condition)} is no comparison")

    def linear(self, term: Term) -> Linear:
        """The term as a linear one; OutsideError where it is not."""
        match term:
            case Literal(_, value):
                return constant(number_of(value))
            case Attribute(name):
                return single(self.variable(name))
            case Negate(part):
                return self.linear(part).times(-1)
            case Arithmetic("+" | "-" as op, left, right):
                return self.linear(left).plus(self.linear(right), 1 if op == "+" else -1)
            case Arithmetic("*", left, right):
                a, b = self.linear(left), self.linear(right)
                if not a.terms or not b.terms:
                    return b.times(a.constant) if not a.terms else a.times(b.constant)
        raise OutsideError(f"{self.place}: {canonical(term)} cannot be solved for its parts")

    def variable(self, name: str) -> Variable:
        return Variable(name, self.schema[name].type in WHOLE)

    # --- predicates ----------------------------------------------------------

    def _compare(self, left: Term, op: str, right: Term, asked: str) -> Cases:
        if isinstance(left, Call) and left.name == "abs":
            return self._absolute(left.arguments[0], op, right, asked)
        if isinstance(right, Call) and right.name == "abs":
            turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
            return self._absolute(right.arguments[0], turned, left, asked)
        difference = self.linear(left).plus(self.linear(right), -1)
        used = self._used(left) | self._used(right)
        wanted = op if asked in ("true", "not false") else _FLIP[op]
        defined = tuple(Atom("defined", single(v)) for v in sorted(used))
        found = [(*defined, atom) for atom in _atoms(difference, wanted)]
        if asked.startswith("not"):
            found += [(Atom("null", single(v)),) for v in sorted(used)]
        return found

    def _absolute(self, inside: Term, op: str, other: Term, asked: str) -> Cases:
        """abs(x) against y, as comparisons of x and -x with y."""
        minus = Negate(inside)
        if op in ("<", "<="):
            same: Condition = And((Compare(inside, op, other), Compare(minus, op, other)))  # type: ignore[arg-type]
        elif op in (">", ">="):
            same = Or((Compare(inside, op, other), Compare(minus, op, other)))  # type: ignore[arg-type]
        else:
            zero = Literal.of(0)
            either = Or((Compare(inside, "=", other), Compare(minus, "=", other)))
            same = And((Compare(other, ">=", zero), either))
            same = Not(same) if op == "<>" else same
        return self.cases(same, asked)

    def _null(self, term: Term, null: bool) -> Cases:
        self.linear(term)
        used = sorted(self._used(term))
        if null:
            return [(Atom("null", single(v)),) for v in used]
        return [tuple(Atom("defined", single(v)) for v in used)]

    def _used(self, term: Term) -> set[Variable]:
        """All variables that the text names: `x - x` is undefined where x is."""
        from tamis.language import attributes

        return {self.variable(name) for name in attributes(term)}

    # --- lists of cases --------------------------------------------------------

    def _any(self, parts: list[Cases]) -> Cases:
        return self._limited([case for cases in parts for case in cases])

    def all_of(self, parts: list[Cases]) -> Cases:
        found: Cases = [()]
        for cases in parts:
            if len(found) * len(cases) > 16 * CASES:
                self._too_many()
            joined = [_joined(a, b) for a, b in product(found, cases)]
            found = self._limited([case for case in joined if case is not None])
        return found

    def _limited(self, cases: Cases) -> Cases:
        distinct = list(dict.fromkeys(cases))
        if len(distinct) > CASES // 4:
            distinct = [case for case in distinct if possible(case)]
        if len(distinct) > CASES:
            self._too_many()
        return distinct

    def _too_many(self) -> None:
        raise OutsideError(f"{self.place}: its conditions have more than {CASES} cases")


def _atoms(difference: Linear, op: str) -> Iterable[Atom]:
    """The atoms, any of which makes `difference op 0` true."""
    negative = difference.times(-1)
    table: dict[str, Callable[[], list[Atom]]] = {
        "=": lambda: [Atom("=", difference)],
        "<": lambda: [Atom("<", difference)],
        "<=": lambda: [Atom("<=", difference)],
        ">": lambda: [Atom("<", negative)],
        ">=": lambda: [Atom("<=", negative)],
        "<>": lambda: [Atom("<", difference), Atom("<", negative)],
    }
    return table[op]()


def add(
    system: System, atoms: Iterable[Atom], first: tuple[Variable, ...] = (),
    by: dict[Variable, Linear] | None = None,
) -> None:  # fmt: skip
    """Add linear atoms to a system, with some variables replaced by linear terms."""
    for atom in atoms:
        if atom.op in ("null", "defined"):
            continue
        linear = atom.linear.replaced(by) if by else atom.linear
        if atom.op == "=":
            system.equal(linear, first)
        else:
            system.at_most(linear, atom.op == "<")


def possible(atoms: Iterable[Atom]) -> bool:
    """Whether some values fulfil all linear atoms."""
    system = System()
    add(system, atoms)
    try:
        return system.satisfiable()
    except BoundsError:
        return True


def _joined(a: Case, b: Case) -> Case | None:
    """Both cases at once; None where one wants undefined what the other wants defined."""
    atoms = tuple(dict.fromkeys((*a, *b)))
    null = {atom.linear for atom in atoms if atom.op == "null"}
    if null and any(atom.op == "defined" and atom.linear in null for atom in atoms):
        return None
    return atoms
