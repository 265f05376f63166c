"""How a question is answered: by Columns and joins of Spark alone, or by the matcher in workers.

docs/decisions/018-native-plans.md has the measurements behind the constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce as fold
from typing import Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.engine import Id, Matcher
from tamis.language.tree import Arithmetic, Call, Compare, Negate
from tamis.logic import Derived
from tamis.logic.atoms import FALSE, All, Formula, Kind, atoms
from tamis.logic.atoms import Literal as Lit
from tamis.schema import Type
from tamis.spark.dataframes.spark_types import argument
from tamis.spark.native.grid import Grid
from tamis.spark.native.misfits import Misfit, checked, misfit, misfits
from tamis.spark.native.native_conditions import Translation
from tamis.spark.native.native_values import NotNative
from tamis.spark.native.pairs import paired
from tamis.spark.workers.worker import Wanted

PlanName = Literal["auto", "native", "matcher"]
_STEP = 8  # predicates that a step of arithmetic (see `terms`) weighs as much as


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """Up to where plans are native; `python -m bench native` measures both sides of each.

    Spark makes one method of all conditions. Java compiles none of more than 8,000 bytes, and a
    predicate takes 60 to 100 of them: more are planned as methods of their own (see `_apart`).
    """

    rules: int = 4_000  # subscriptions that are looked at
    together: int = 60  # predicates of all columns, in one method
    weight: int = 300  # ... in a method for each condition
    forced: int = 1_500  # ... where somebody insists: right, but Spark plans for long
    cuts: int = 40  # constants of one term with one value of the key of a join


@dataclass(frozen=True, slots=True)
class Plan:
    """How a question will be answered. `how` is `columns`, `join` or `matcher`."""

    how: Literal["columns", "join", "matcher"]
    why: str

    @property
    def native(self) -> bool:
        return self.how != "matcher"

    def __str__(self) -> str:
        return f"{self.how}: {self.why}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The messages, the column of their results, and the columns that are to be dropped again."""

    messages: DataFrame
    result: Column
    helpers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class NativePlan(Plan):
    """A plan without any Python worker."""

    ids: pa.Array
    conditions: tuple[Column, ...]
    grid: Grid | None
    wrong: Sequence[Misfit]  # what can be wrong with a message
    # The same for those that a grid is joined with: its key, and the rest.
    wrong_key: Sequence[Misfit] = ()
    wrong_rest: Sequence[Misfit] = ()
    apart: Column | None = None  # any attribute, where conditions are too many for one method

    def answer(self, messages: DataFrame, wanted: Wanted, *, report: bool) -> Answer:
        if self.grid is None:
            result = self._listed() if wanted == "ids" else self._counted()
            result = checked(result, self.wrong, report=report)
            return Answer(messages, result if self.apart is None else _apart(result, self.apart))
        ids = self.ids if wanted == "ids" else None
        none = self._empty() if wanted == "ids" else F.lit(0).cast("long")
        joined, cell = self.grid.joined(messages, ids), self.grid.cell()
        if report:
            result = checked(F.coalesce(cell, none), self.wrong, report=True)
        else:  # a key that is one of ours is sound: only others are looked at
            none = checked(none, self.wrong_key, report=False)
            result = checked(F.coalesce(cell, none), self.wrong_rest, report=False)
        return Answer(joined, result, self.grid.names)

    def pairs(self, messages: DataFrame, column: str) -> DataFrame | None:
        """A row for each message and id that it matches, where a join finds them faster than
        arrays of ids do; None where not. A message that does not fit makes the job fail."""
        if self.grid is None:
            return None
        if wrong := [*self.wrong_key, *self.wrong_rest]:
            messages = messages.where(checked(F.lit(True), wrong, report=False))
        try:
            return paired(self.grid, messages, self.ids, column)
        except NotNative:
            return None

    def _listed(self) -> Column:
        """An array for each condition, of its id or of nothing, and all of them joined.

        Most conditions do not hold: one array of all ids, in which most would have to be removed
        again, costs more.
        """
        empty = self._empty()
        if not self.conditions:
            return empty
        ids = self.ids.to_pylist()
        chosen = [
            F.when(condition, F.array(F.lit(id).cast(self._kind()))).otherwise(empty)
            for condition, id in zip(self.conditions, ids, strict=True)
        ]
        return F.concat(*chosen)

    def _counted(self) -> Column:
        if self.apart is not None:  # Spark makes no methods of the parts of a sum
            return F.size(self._listed()).cast("long")
        ones = [F.when(c, F.lit(1)).otherwise(F.lit(0)) for c in self.conditions]
        return balanced(ones, Column.__add__, F.lit(0)).cast("long")

    def _empty(self) -> Column:
        return F.array().cast(f"array<{self._kind()}>")

    def _kind(self) -> str:
        return "string" if pa.types.is_string(self.ids.type) else "bigint"


def _apart(result: Column, attribute: Column) -> Column:
    """The result by methods of its own, outside the one that Spark writes for a whole stage.

    That is what Spark does where an expression has no code, as `zip_with` has none; here one stands
    in a branch that no row takes.
    """
    never = F.pmod(F.hash(attribute), F.lit(2)) > F.lit(2)
    codeless = F.zip_with(F.array(attribute), F.array(attribute), lambda one, other: one)
    return F.when(never & (F.size(codeless) > 0), F.lit(None)).otherwise(result)


def balanced(
    parts: Sequence[Column], join: Callable[[Column, Column], Column], empty: Column
) -> Column:
    """As a tree that is not deep: Spark goes down trees by recursion."""
    found = list(parts) or [empty]
    while len(found) > 1:
        found = [fold(join, found[i : i + 2]) for i in range(0, len(found), 2)]
    return found[0]


# --- choosing ------------------------------------------------------------------------


def choose(
    messages: DataFrame,
    matcher: Matcher,
    wanted: PlanName,
    *,
    texts: bool,
    limits: PlanLimits = PlanLimits(),  # noqa: B008 (it is frozen)
) -> Plan:
    """The plan; NotNative reasons become those of the matcher."""
    if wanted == "matcher":
        return Plan("matcher", "asked for")
    if len(matcher) > limits.rules:
        return Plan("matcher", f"more than {limits.rules:,} subscriptions")
    for name in matcher.attributes:
        argument(messages, name, matcher.schema)  # raises where schema and frame contradict
    try:
        weight = limits.forced if wanted == "native" else limits.weight
        return _native(messages, matcher, texts, limits, weight)
    except NotNative as reason:
        return Plan("matcher", str(reason))


def _native(
    messages: DataFrame, matcher: Matcher, texts: bool, limits: PlanLimits, most: int
) -> Plan:
    translation = Translation.of(messages, matcher.semantics, matcher.schema)
    ids, formulas = _read(matcher)
    names = pa.array([str(i) if texts else i for i in ids], pa.string() if texts else pa.int64())
    weight = sum(map(_weight, formulas))
    told = f"{len(ids):,} subscriptions"
    if weight > limits.together:
        try:
            grid = Grid.of(formulas, translation, limits.cuts)
            told += f" in {len(grid.clusters):,} clusters"
            wrong = misfits(messages, matcher, {grid.name: ~grid.found})
            of_key = misfit(messages, matcher, grid.name)
            rest = misfits(messages, matcher, without=grid.name)
            keys = () if of_key is None else (of_key,)
            return NativePlan("join", told, names, (), grid, wrong, keys, rest)
        except NotNative:
            if weight > most:
                raise
    conditions = tuple(translation.formula(_equal_first(f)) for f in formulas)
    wrong = misfits(messages, matcher)
    apart = _plainest(translation, matcher) if weight > limits.together else None
    return NativePlan("columns", told, names, conditions, None, wrong, apart=apart)


def _plainest(translation: Translation, matcher: Matcher) -> Column | None:
    """The attribute that is hashed fastest: any but a text, if there is one."""
    values = [translation.find(name) for name in matcher.attributes]
    found = [value for value in values if value is not None]
    return min(found, key=lambda v: v.type is Type.STRING).column if found else None


def _weight(formula: Formula) -> int:
    """How much code the formula takes, in predicates."""
    return sum(1 + _STEP * _steps(atom.term) for atom in atoms(formula))


def _steps(term: Derived) -> int:
    match term:
        case Arithmetic(_, left, right):
            return 1 + _steps(left) + _steps(right)
        case Compare(left, _, right):
            return 1 + _steps(left) + _steps(right)
        case Negate(inner):
            return 1 + _steps(inner)
        case Call(_, arguments):
            return 1 + sum(map(_steps, arguments))
    return 0


def _read(matcher: Matcher) -> tuple[list[Id], list[Formula]]:
    """The ids in their order, and what their selectors mean, without those that never match."""
    kept = {id: found for id, found in matcher._formulas().items() if found != FALSE}
    return list(kept), list(kept.values())


def _equal_first(formula: Formula) -> Formula:
    """A conjunction that begins with what is rarely true: Spark then skips the rest."""
    if not isinstance(formula, All):
        return formula
    return All(tuple(sorted(formula.parts, key=_rank)))


def _rank(part: Formula) -> int:
    equal = isinstance(part, Lit) and part.positive and part.atom.kind is Kind.MEMBER
    return 0 if equal else 1 if isinstance(part, Lit) else 2
