"""A flow level by level: all sources in one frame, and every arc once, however many paths share it.

A row says in which space its message is. A level takes the spaces at one distance from the
sources: each of their rows becomes one row for every arc that it passes, and stays as well if
its own space is read. The plan grows with the arcs, where a plan by paths grows with the ways
through them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.model.expressions import TRUE, any_of, lookup_calls, not_true
from tamis.flow.rewriting.decisions import (
    Choice,
    Decision,
    Leaf,
    conditions,
    decision,
    leaves,
)
from tamis.language import Attribute, Call, Condition
from tamis.spark.flows.counting import Cause, Counting
from tamis.spark.flows.slots import Slots
from tamis.spark.flows.step_columns import Flowing, Tables, borrows
from tamis.spark.flows.streams import REASON, ROW, TARGET, Layout, Target, as_json, broken
from tamis.spark.native import Translation, Value
from tamis.spark.native.native_values import cases

_MOVE, _CAUSE = "__tamis_move__", "__tamis_cause__"
_STAY = 0  # the move of a row that stays where it is


@dataclass(slots=True)
class Levels:
    """A flow and the rows of its layout that are wanted. `read`: the spaces that lead to them."""

    graph: Graph
    layout: Layout
    tables: Tables
    read: frozenset[str]
    counting: Counting | None = None
    slots: Slots = field(init=False)
    causes: list[Cause] = field(default_factory=list)
    _numbers: dict[Target, int] = field(init=False)
    _decided: dict[str, list[Decision]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = Slots(self.graph)
        self._numbers = {target: i for i, target in enumerate(self.layout.targets)}

    def wide(self, sources: Mapping[str, DataFrame]) -> DataFrame:
        """Rows of the layout, from the messages of all sources."""
        frame = reduce(DataFrame.union, [self._entered(s, rows) for s, rows in sources.items()])
        for spaces in self._order(sources):
            frame = _Level(self, spaces).passed(frame)
        if self.counting is not None:
            frame = self.counting.levels(frame, F.col(_CAUSE), self.causes)
        if len(self._numbers) > len(self.layout.targets):
            frame = frame.where(F.col(TARGET) < len(self.layout.targets))
        return frame.select(*self.layout.row(F.col(TARGET), self._column))

    def number(self, target: Target) -> int:
        """What stands for it in the column TARGET; those of the layout come first."""
        return self._numbers.setdefault(target, len(self._numbers))

    def keeps(self, target: Target) -> bool:
        return self.counting is not None or target in self.layout.targets

    def cause(self, target: Target, *arcs: int) -> int:
        self.causes.append(Cause(target.space, arcs, target.rejected))
        return len(self.causes) - 1

    def decisions(self, space: str) -> list[Decision]:
        """Those of the arcs that lead on to what is read."""
        if space not in self._decided:
            arcs = self.graph.out_of(space)
            kept = [arc for arc in arcs if self.counting is not None or arc.target in self.read]
            self._decided[space] = [decision(self.graph, arc) for arc in kept]
        return self._decided[space]

    def _order(self, sources: Iterable[str]) -> list[list[str]]:
        """The spaces that messages come to, by the most arcs that lead there."""
        level: dict[str, int] = dict.fromkeys(sources, 0)
        for space in self.graph.schemas:
            before = [level[a.source] for a in self.graph.into(space) if a.source in level]
            if before:
                level[space] = max(before) + 1
        found: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
        for space, distance in level.items():
            found[distance].append(space)
        return found

    # --- in and out ------------------------------------------------------------------

    def _entered(self, space: str, rows: DataFrame) -> DataFrame:
        """The messages of a source, NaN settled, those that break its `where` set apart."""
        source = Flowing(rows, self.graph.schemas[space], self.tables, may_be_nan=True)
        if (wanted := self._wanted(space)) != TRUE:
            source = source.selected(wanted)
        ways: list[tuple[Condition, Target]] = [(TRUE, Target(space))]
        if (where := self.graph.where(space)) is not None:
            ways = [(where, Target(space)), (TRUE, Target(space, rejected=True))]
        values = {self.slots.of[space][name]: Attribute(name) for name in source.schema}
        made = source.translation
        columns = [
            (made.term(values[slot]) if slot in values else F.lit(None)).cast(kind).alias(slot)
            for slot, kind in self.slots.types.items()
        ]
        target = _first(made, [(c, self.number(t)) for c, t in ways])
        found = [target.cast("int").alias(TARGET)]
        if self.counting is not None:
            cause = _first(made, [(c, self.cause(t)) for c, t in ways])
            found.append(cause.cast("int").alias(_CAUSE))
        return source.frame.select(*found, *columns)

    def _wanted(self, space: str) -> Condition:
        """What some arc, or the space itself, asks of its messages, as far as the source alone can
        tell: Spark can push it down to a file."""
        if self.keeps(Target(space)):
            return TRUE
        asked = []
        for decided in self.decisions(space):
            if isinstance(decided, Leaf):
                return TRUE
            asked += [c for c, _ in decided.cases]
        if self.keeps(Target(space, rejected=True)) and (where := self.graph.where(space)):
            asked.append(not_true(where))
        return TRUE if any(map(lookup_calls, asked)) else any_of(asked)

    def _column(self, name: str, kind: str) -> Column | None:
        """A column of the layout, from the slots of the spaces that have it."""
        found: dict[Hashable, tuple[Column, list[int]]] = {}
        for number, target in enumerate(self.layout.targets):
            if target.rejected and self.graph.where(target.space) is None:
                continue  # only rows that did not come in
            if (name, kind) in self.layout.keys(target):
                key, column = self._value(target, name)
                found.setdefault(key, (column, []))[1].append(number)
        if not found:
            return None
        return cases((F.col(TARGET).isin(own), column) for column, own in found.values())

    def _value(self, target: Target, name: str) -> tuple[Hashable, Column]:
        slots = self.slots.of[target.space]
        if name == REASON:
            return (name, target), F.lit(broken(self.graph, target.space))
        if name == ROW:
            return (name, target), as_json({n: F.col(slot) for n, slot in slots.items()})
        return slots[name], F.col(slots[name])


@dataclass(slots=True)
class _Place:
    """Rows of one space, or of one move out of it: what they hold, and which lookups are joined."""

    when: Column
    translation: Translation
    calls: dict[Call, Value]


class _Level:
    """The spaces of one level, the decisions of their arcs, and a number for each leaf."""

    def __init__(self, flow: Levels, spaces: list[str]) -> None:
        self.flow = flow
        self.decided = {s: found for s in spaces if (found := flow.decisions(s))}
        self.moves: dict[Leaf, int] = {}
        self.joins = 0
        for decided in (d for found in self.decided.values() for d in found):
            for leaf in leaves(decided):
                if not leaf.rejected or flow.keeps(Target(leaf.arc.target, rejected=True)):
                    self.moves[leaf] = len(self.moves) + 1
        self.places = {s: self._place(s, F.col(TARGET) == flow.number(Target(s))) for s in spaces}

    def passed(self, frame: DataFrame) -> DataFrame:
        """The rows after this level."""
        if not self.moves:
            return frame
        asked = {
            space: [c for d in found for c in conditions(d)]
            for space, found in self.decided.items()
        }
        frame = self._looked_up(frame, [(self.places[s], calls_in(c)) for s, c in asked.items()])
        taken = F.explode(F.array(*self._flags())).alias(_MOVE)
        frame = frame.select("*", taken).where(F.col(_MOVE).isNotNull())
        leaf_places = {leaf: self._on_move(leaf) for leaf in self.moves}
        calls = [(p, calls_in(leaf.values.values())) for leaf, p in leaf_places.items()]
        frame = self._looked_up(frame, calls)
        return frame.select(*self._row(leaf_places))

    def _place(self, space: str, when: Column, known: Mapping[Call, Value] | None = None) -> _Place:
        schema, slots = self.flow.graph.schemas[space], self.flow.slots.of[space]
        calls = dict(known or {})

        def find(name: str) -> Value | None:
            return Value(F.col(slots[name]), schema[name].type) if name in slots else None

        return _Place(when, Translation(find, "sql", schema, calls, python=True), calls)

    def _on_move(self, leaf: Leaf) -> _Place:
        """The rows that take a leaf; with lookups of its own, these have a place of their own."""
        before = self.places[leaf.arc.source]
        if not set(calls_in(leaf.values.values())) - set(before.calls):
            return before
        return self._place(leaf.arc.source, F.col(_MOVE) == self.moves[leaf], before.calls)

    # --- which rows go where ----------------------------------------------------------

    def _flags(self) -> list[Column]:
        """The moves of a row: that it stays, and one for each arc out of its space at most."""
        gone = [self.flow.number(Target(s)) for s in self.places if not self._stays(s)]
        stay = F.lit(_STAY)
        found = [F.when(~F.col(TARGET).isin(gone), stay) if gone else stay]
        for i in range(max(map(len, self.decided.values()))):
            own = [(s, d[i]) for s, d in self.decided.items() if i < len(d)]
            found.append(cases((self.places[s].when, self._flag(s, d)) for s, d in own))
        return found

    def _stays(self, space: str) -> bool:
        return self.flow.keeps(Target(space))

    def _flag(self, space: str, decided: Decision) -> Column:
        """The number of the leaf that a message comes to, NULL if it does not pass."""
        if isinstance(decided, Leaf):
            number = self.moves.get(decided)
            return F.lit(None).cast("int") if number is None else F.lit(number)
        return self._chosen(space, decided)

    def _chosen(self, space: str, choice: Choice) -> Column:
        made, otherwise = self.places[space].translation, None
        branches = [
            (made.condition(c), self._flag(space, then)) for c, then in choice.cases if c != TRUE
        ]
        if choice.cases and choice.cases[-1][0] == TRUE:
            otherwise = self._flag(space, choice.cases[-1][1])
        if not branches:
            return F.lit(None).cast("int") if otherwise is None else otherwise
        return cases(branches, otherwise)

    # --- lookups ----------------------------------------------------------------------

    def _looked_up(
        self, frame: DataFrame, wanted: Iterable[tuple[_Place, Iterable[Call]]]
    ) -> DataFrame:
        """With the calls of every place joined; one join serves a call of each place."""
        left = [(p, [c for c in calls if c not in p.calls]) for p, calls in wanted]
        while left := [(place, calls) for place, calls in left if calls]:
            (name, _), *_ = Counter(calls[0].name for _, calls in left).most_common(1)
            mine = [(place, calls.pop(0)) for place, calls in left if calls[0].name == name]
            key = cases((p.when, p.translation.term(call.arguments[0])) for p, call in mine)
            self.joins += 1
            borrowed = any(borrows(call) for _, call in mine)
            frame, value = self.flow.tables.joined(frame, name, key, self.joins, borrowed=borrowed)
            for place, call in mine:
                place.calls[call] = value
        return frame

    # --- what becomes of them -----------------------------------------------------------

    def _row(self, places: Mapping[Leaf, _Place]) -> list[Column]:
        flow = self.flow
        targets = {leaf: flow.number(Target(leaf.arc.target, leaf.rejected)) for leaf in self.moves}
        found = [self._by_move(targets, TARGET)]
        if flow.counting is not None:
            causes: dict[tuple[int, bool], int] = {}
            for leaf in self.moves:
                key = (leaf.arc.number, leaf.rejected)
                if key not in causes:
                    target = Target(leaf.arc.target, leaf.rejected)
                    causes[key] = flow.cause(target, leaf.arc.number)
            by_leaf = {leaf: causes[leaf.arc.number, leaf.rejected] for leaf in self.moves}
            found.append(self._by_move(by_leaf, _CAUSE))
        return found + [self._slot(slot, places) for slot in flow.slots.types]

    def _by_move(self, numbers: Mapping[Leaf, int], column: str) -> Column:
        groups: dict[int, list[int]] = {}
        for leaf, number in numbers.items():
            groups.setdefault(number, []).append(self.moves[leaf])
        branches = [(F.col(_MOVE).isin(own), F.lit(number)) for number, own in groups.items()]
        return cases(branches, F.col(column)).alias(column)

    def _slot(self, slot: str, places: Mapping[Leaf, _Place]) -> Column:
        """Equal terms share a branch; what keeps its slot, or has no use for it, needs none."""
        groups: dict[Hashable, tuple[Column, list[int]]] = {}
        for leaf, place in places.items():
            names = {s: n for n, s in self.flow.slots.of[leaf.arc.target].items()}
            if slot not in names:
                continue
            term, own = leaf.values[names[slot]], self.flow.slots.of[leaf.arc.source]
            if isinstance(term, Attribute) and own[term.name] == slot:
                continue
            shared = place is self.places[leaf.arc.source] or not lookup_calls(term)
            key: Hashable = (leaf.arc.source, term, None if shared else self.moves[leaf])
            if isinstance(term, Attribute):
                key = own[term.name]
            if key not in groups:
                column = place.translation.term(term).cast(self.flow.slots.types[slot])
                groups[key] = column, []
            groups[key][1].append(self.moves[leaf])
        if not groups:
            return F.col(slot)
        branches = [(F.col(_MOVE).isin(own), column) for column, own in groups.values()]
        return cases(branches, F.col(slot)).alias(slot)


def _first(made: Translation, ways: list[tuple[Condition, int]]) -> Column:
    """The number of the first condition that is true; the last one always is."""
    *before, (_, last) = ways
    if not before:
        return F.lit(last)
    return cases([(made.condition(c), F.lit(n)) for c, n in before], F.lit(last))


def calls_in(nodes: Iterable[object]) -> list[Call]:
    """The lookups of conditions or terms, inner ones before those that use them."""
    return list(dict.fromkeys(call for node in nodes for call in lookup_calls(node)))  # type: ignore[arg-type]
