"""The rows of the paper's table: what an event can do to a state, and when (section 4.3).

A rule becomes one row for each case in which it fires: its own condition is true, the space's
`where` is true, and no earlier rule's condition is. Expansion searches over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from tamis.flow.states.definitions.derived import Derived
from tamis.flow.states.definitions.scope import EVENT, STATE, Scope
from tamis.flow.states.definitions.summary import Append, Assign, Change, Summary
from tamis.flow.states.expansion.linear import Linear, System, Variable, single
from tamis.flow.states.expansion.rule_cases import Atom, Case, OutsideError, Reader, add, possible
from tamis.language import Condition
from tamis.schema import Schema, Type

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One way in which an event changes the state.

    `guard` are linear atoms over components and parameters; `null` and `defined` name variables
    that must (not) be undefined. `sets` has the new value of every component that changes.
    """

    rule: int
    event: str
    cost: float
    guard: tuple[Atom, ...]
    null: frozenset[Variable]
    defined: frozenset[Variable]
    sets: dict[Variable, Linear]
    appends: dict[str, tuple[Linear, ...]]
    clears: frozenset[str]
    parameters: tuple[Variable, ...] = field(default=())

    @property
    def changed(self) -> set[str]:
        return {v.name.removeprefix(STATE) for v in self.sets} | {*self.appends} | self.clears


@dataclass(frozen=True)
class Moves:
    """All that events can do: the rows, and the columns of each kind of event by name."""

    summary: Summary
    rows: tuple[Row, ...]
    events: dict[str, Schema]
    through: Derived | None = None
    memory: dict[object, Any] = field(default_factory=dict, repr=False)

    def once(self, name: object, make: Callable[[], T]) -> T:
        """What `make` gives, made when it is first asked for."""
        if name not in self.memory:
            self.memory[name] = make()
        found: T = self.memory[name]
        return found

    @property
    def derived(self) -> bool:
        return self.through is not None

    def variable(self, component: str) -> Variable:
        return _reader(self.summary.scope, "").variable(STATE + component)


@lru_cache(maxsize=64)
def moves_of(summary: Summary, derived: Derived | None = None) -> Moves:
    """The rows of a summary, or of the derived events that lead to the same state.

    Raises OutsideError where some rule's form cannot be worked backward.
    """
    if derived is None:
        rows = tuple(_summary_rows(summary))
        return Moves(summary, rows, {"": summary.events})
    rows = tuple(_derived_rows(summary, derived))
    return Moves(summary, rows, {e.name: e.columns for e in derived.events}, derived)


def _summary_rows(summary: Summary) -> Iterator[Row]:
    scope = summary.scope
    where = event_only(summary.where)
    earlier: list[Condition] = []
    always = _always_defined(summary)
    for number, rule in enumerate(summary.rules):
        reader = _reader(scope, f"{summary.name}, rule {number + 1}")
        own = scope.qualified(rule.condition)
        parts = [reader.cases(where), reader.cases(own)]
        parts += [reader.cases(c, "not true") for c in earlier]
        earlier.append(own)
        for case in reader.all_of(parts):
            yield from _row(summary, scope, reader, number, "", 1.0, case, rule.changes, always)


def _derived_rows(summary: Summary, derived: Derived) -> Iterator[Row]:
    for number, event in enumerate(derived.events):
        scope = Scope(summary.scalars, event.columns)
        reader = _reader(scope, f"event {event.name}")
        for case in reader.cases(scope.qualified(event.where)):
            yield from _row(
                summary, scope, reader, number, event.name, event.cost, case, event.changes,
                frozenset(),
            )  # fmt: skip


def _row(
    summary: Summary,
    scope: Scope,
    reader: Reader,
    number: int,
    event: str,
    cost: float,
    case: Case,
    changes: tuple[Change, ...],
    always: frozenset[Variable],
) -> Iterator[Row]:
    """The row of one case, or nothing where the case cannot be."""
    null = frozenset(v for a in case if a.op == "null" for v in a.variables)
    defined = frozenset(v for a in case if a.op == "defined" for v in a.variables)
    if null & (defined | always):
        return
    guard = tuple(a for a in case if a.op not in ("null", "defined"))
    sets, appends, clears = _changes(summary, scope, reader, changes)
    used = {v for a in guard for v in a.variables} | null | defined
    used |= {v for told in (*sets.values(), *(t for ts in appends.values() for t in ts))
             for v in told.variables}  # fmt: skip
    parameters = tuple(sorted(v for v in used if v.name.startswith(EVENT)))
    guard += tuple(_bits(scope, parameters))
    guard = _without_settled(guard)
    if possible(guard):
        yield Row(number, event, cost, guard, null, defined, sets, appends, clears, parameters)


def _changes(
    summary: Summary, scope: Scope, reader: Reader, changes: tuple[Change, ...]
) -> tuple[dict[Variable, Linear], dict[str, tuple[Linear, ...]], frozenset[str]]:
    sets: dict[Variable, Linear] = {}
    appends: dict[str, tuple[Linear, ...]] = {}
    clears: set[str] = set()
    for change in changes:
        if isinstance(change, Assign):
            target = reader.variable(STATE + change.component)
            told = reader.linear(scope.qualified(change.term))
            _refuse_counting(summary, reader, target, told)
            sets[target] = told
        elif isinstance(change, Append):
            appends[change.component] = tuple(
                reader.linear(scope.qualified(t)) for t in change.terms
            )
        else:
            clears.add(change.component)
    return sets, appends, frozenset(clears)


def _refuse_counting(summary: Summary, reader: Reader, target: Variable, told: Linear) -> None:
    """`n := n + 1` counts events: whatever means the same has as many of them."""
    if told.terms == ((target, 1),) and told.constant:
        name = target.name.removeprefix(STATE)
        raise OutsideError(
            f"{reader.place}: {name} counts events, so no shorter sequence means the same"
        )


def _bits(scope: Scope, parameters: Iterable[Variable]) -> Iterator[Atom]:
    """A Boolean is 0 or 1."""
    for variable in parameters:
        if scope.full[variable.name].type is Type.BOOL:
            yield Atom("<=", single(variable).times(-1))
            yield Atom("<=", Linear(((variable, 1),), -1))


def _without_settled(guard: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """The atoms without those that equalities among them make plainly true."""
    system = System()
    add(system, (a for a in guard if a.op == "="))

    def settled(atom: Atom) -> bool:
        told = atom.linear.replaced(system.solved)
        return atom.op != "=" and not told.terms and (told.constant < 0 or (
            told.constant == 0 and atom.op == "<="))  # fmt: skip

    return tuple(atom for atom in guard if not settled(atom))


def _always_defined(summary: Summary) -> frozenset[Variable]:
    """What is never undefined: components under all rules, attributes that all events have."""
    reader = _reader(summary.scope, summary.name)
    where = reader.cases(event_only(summary.where))
    sure = (
        {v for v in _defined_by(where[0]) if all(v in _defined_by(c) for c in where)}
        if where
        else set()
    )
    found = {reader.variable(STATE + n) for n in summary.scalars if summary.initial[n] is not None}
    while True:
        kept = {v for v in found if all(_keeps(summary, v, sure | found))}
        if kept == found:
            return frozenset(sure | found)
        found = kept


def _keeps(summary: Summary, target: Variable, sure: set[Variable]) -> Iterator[bool]:
    """For each rule whether it leaves the component defined."""
    name = target.name.removeprefix(STATE)
    for number, rule in enumerate(summary.rules, 1):
        reader = _reader(summary.scope, f"{summary.name}, rule {number}")
        told = [c.term for c in rule.changes if isinstance(c, Assign) and c.component == name]
        if told:
            cases = reader.cases(summary.scope.qualified(rule.condition))
            used = reader.linear(summary.scope.qualified(told[0])).variables
            yield all(used <= sure | _defined_by(case) for case in cases)


def _defined_by(case: Case) -> set[Variable]:
    return {v for a in case if a.op == "defined" for v in a.variables}


def event_only(where: Condition) -> Condition:
    from tamis.flow.states.definitions.scope import renamed

    return renamed(where, lambda name: EVENT + name)


def _reader(scope: Scope, place: str) -> Reader:
    return Reader(scope.full, place)
