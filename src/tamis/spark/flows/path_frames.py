"""A rewritten flow: each source is read once, filtered natively, and projected path by path.

scan -> native filter (OR of the path selects) -> the lookups that selects need -> which paths each
row takes -> the other lookups -> projection. Merging is a union inside one query.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from tamis.engine import Matcher
from tamis.flow.graphs.flow_graph import Graph
from tamis.flow.model.elements import Output, Rule
from tamis.flow.model.expressions import TRUE, all_of, any_of, lookup_calls, map_term, map_terms
from tamis.flow.rewriting import Path, Plan, rewrite
from tamis.flow.rewriting.decisions import spaces_read, weight
from tamis.language import And, Attribute, Call, Condition, Term, attributes, canonical
from tamis.language import terms as terms_of
from tamis.schema import Attribute as Attr
from tamis.schema import Schema
from tamis.spark.flows.counting import Counting
from tamis.spark.flows.flow_rows import rows_of
from tamis.spark.flows.levels import Levels
from tamis.spark.flows.lookup_tables import table_frames
from tamis.spark.flows.step_columns import Flowing, Tables
from tamis.spark.flows.streams import (
    REASON,
    ROW,
    Layout,
    Streams,
    Target,
    as_json,
    broken,
)
from tamis.spark.message_questions import match
from tamis.spark.native.native_values import cases

# A flow that rewriting makes larger than this, and larger than twice what is written, is run level
# by level. Both cost the same at a weight of 14; from 68 on levels are cheaper (`python -m
# bench.spark.flows quick sharing`).
MOST_WEIGHT = 24
# Of one source; beyond, the matcher finds the paths of a row faster (`python -m bench flow`).
NATIVE_PATHS = 10
_PATH = "__tamis_path__"
_CALL = "__tamis_call{}__"


def rewritten(
    graph: Graph,
    sources: Mapping[str, DataFrame],
    lookups: Mapping[str, object] | None = None,
    wanted: Iterable[str] | None = None,
    *,
    errors: bool = True,
    native_paths: int = NATIVE_PATHS,
    levels: bool | None = None,
    folder: str | os.PathLike[str] = ".",
    counting: Counting | None = None,
) -> Streams:
    """The frames of the wanted spaces (all that arcs lead to, if not said).

    Without `errors`, rows that do not fit are left out and not reported. Files of lookups are
    looked for in `folder`. `levels` says whether the flow runs level by level, in place of path by
    path; None decides by how much rewriting would make of it.
    """
    tables = table_frames(graph, sources, lookups or {}, folder)
    rows = {s: rows_of(s, frame, graph.schemas[s]) for s, frame in sources.items()}
    bad = {s: found.bad for s, found in rows.items() if found.bad is not None and errors}
    good = {s: found.good for s, found in rows.items()}
    chosen = _chosen(graph, wanted)
    given = graph, chosen, good, tables, tuple(bad)
    if _large(graph, chosen, counting is not None) if levels is None else levels:
        layout, parts = _by_levels(*given, errors, counting)
    else:
        layout, parts = _by_paths(*given, errors, counting, native_paths)
    parts += [_misfits(layout, space, frame) for space, frame in bad.items()]
    wide = reduce(DataFrame.unionByName, parts) if parts else _nothing(sources, layout)
    wide = wide if counting is None else counting.wide(wide, layout)
    frames = {space: layout.view(wide, Target(space)) for space in chosen}
    return Streams(graph, frames, layout.rejected(wide), wide, layout)


Parts = tuple[Layout, list[DataFrame]]


def _chosen(graph: Graph, wanted: Iterable[str] | None) -> tuple[str, ...]:
    chosen = graph.derived if wanted is None else tuple(dict.fromkeys(wanted))
    for space in chosen:
        graph.space(space)
    return chosen


def _large(graph: Graph, wanted: tuple[str, ...], counted: bool) -> bool:
    """Counting by paths asks all their selects once more; by levels it costs next to nothing."""
    by_paths, by_arcs = weight(graph, wanted)
    return by_paths > (MOST_WEIGHT if counted else max(MOST_WEIGHT, 2 * by_arcs))


def _by_levels(
    graph: Graph,
    wanted: tuple[str, ...],
    sources: Mapping[str, DataFrame],
    tables: Tables,
    bad: tuple[str, ...],
    errors: bool,
    counting: Counting | None,
) -> Parts:
    read = spaces_read(graph, wanted)
    broken = [s for s in graph.schemas if errors and s in read and graph.where(s) is not None]
    layout = _layout(graph, wanted, (*broken, *bad))
    given = {s: frame for s, frame in sources.items() if s in read or counting is not None}
    levels = Levels(graph, layout, tables, read, counting)
    return layout, [levels.wide(given)] if given else []


def _by_paths(
    graph: Graph,
    wanted: tuple[str, ...],
    sources: Mapping[str, DataFrame],
    tables: Tables,
    bad: tuple[str, ...],
    errors: bool,
    counting: Counting | None,
    native_paths: int,
) -> Parts:
    plan = rewrite(graph, wanted)
    kept = tuple(p for p in plan.paths if p.source in sources and (errors or not p.rejected))
    plan = replace(plan, paths=kept)
    layout = _layout(graph, wanted, (*(p.target for p in kept if p.rejected), *bad))
    parts = []
    for source in plan.sources:
        found = Flowing(sources[source], graph.schemas[source], tables, may_be_nan=True)
        if counting is not None:
            found = replace(found, frame=counting.source(source, found))
        parts.append(_Source(plan, layout, source, tables, native_paths).wide(found))
    return layout, parts


def _layout(graph: Graph, wanted: Iterable[str], rejecting: Iterable[str]) -> Layout:
    targets = [*map(Target, wanted), *(Target(space, rejected=True) for space in rejecting)]
    return Layout(graph, tuple(dict.fromkeys(targets)))


def _nothing(sources: Mapping[str, DataFrame], layout: Layout) -> DataFrame:
    frame = next(iter(sources.values()))
    return frame.where(F.lit(False)).select(*layout.row(F.lit(0), lambda name, kind: None))


def _misfits(layout: Layout, space: str, frame: DataFrame) -> DataFrame:
    """Rows that do not fit the schema, as rows of the layout."""
    columns = {REASON: F.col("reason"), ROW: F.col("row")}
    number = F.lit(layout.number(Target(space, rejected=True)))
    return frame.select(*layout.row(number, lambda name, kind: columns.get(name)))


@dataclass(slots=True)
class _Source:
    """The paths of one source."""

    plan: Plan
    layout: Layout
    source: str
    tables: Tables
    native_paths: int

    @property
    def paths(self) -> list[Path]:
        return [path for path in self.plan.paths if path.source == self.source]

    def wide(self, found: Flowing) -> DataFrame:
        """Rows of the layout: one for each message and path that it takes."""
        paths, shared = self.paths, self.plan.shared.get(self.source, ())
        early = _needed(shared, [path.select for path in paths])
        types = self.plan.schema_of(self.source)
        found = self._filtered(found, early, types)
        found = self._on_paths(found, paths)
        late = [output for output in shared if output not in early]
        found = self._with_lookups(found, paths, late)
        found = found.with_terms(late, types, inline=len(paths) == 1)
        found = self._with_lookups(found, paths, [])  # those whose key is a shared term
        return found.frame.select(*self._row(found, paths))

    def _filtered(self, found: Flowing, early: list[Output], types: Schema) -> Flowing:
        """Only rows that some path wants: first by what needs no lookup, then by all."""
        selects = [path.select for path in self.paths]
        values = {output.name: output.term for output in early}
        plain = any_of(all_of(_without_lookups(select, values)) for select in selects)
        natives = [o for o in early if not _calls_in(o.term, values)]
        inline = len(self.paths) == 1
        found = found.with_terms(natives, types, inline=inline)
        if plain != TRUE:
            found = found.selected(plain)
        found = found.with_terms([o for o in early if o not in natives], types, inline=inline)
        whole = any_of(selects)
        return found if whole in (TRUE, plain) else found.selected(whole)

    def _on_paths(self, found: Flowing, paths: list[Path]) -> Flowing:
        """A row for each path that a message takes, with the path's number."""
        if len(paths) == 1:
            return found
        found = found.looked_up([path.select for path in paths])
        if len(paths) > self.native_paths:
            return self._by_matcher(found, paths)
        translation = found.translation
        flags = [
            F.lit(number)
            if path.select == TRUE
            else F.when(translation.condition(path.select), F.lit(number))
            for number, path in enumerate(paths)
        ]
        taken = found.frame.select("*", F.explode(F.array(*flags)).alias(_PATH))
        return replace(found, frame=taken.where(F.col(_PATH).isNotNull()))

    def _by_matcher(self, found: Flowing, paths: list[Path]) -> Flowing:
        """The selects of the paths as subscriptions; values of lookups are attributes."""
        names = {call: _CALL.format(i) for i, call in enumerate(found.calls)}
        types = [Attr(n, self.tables.lookups[c.name].value) for c, n in names.items()]
        matcher = Matcher(Schema((*found.schema.attributes, *types)))

        def named(term: Term) -> Term | None:
            return Attribute(names[term]) if isinstance(term, Call) and term in names else None

        for number, path in enumerate(paths):
            condition = map_terms(path.select, lambda term: map_term(term, named))
            matcher.add(number, canonical(condition))
        columns = {names[call]: value.settled for call, value in found.calls.items()}
        frame = found.frame.withColumns(columns) if columns else found.frame
        matched = match(frame, matcher, column="__tamis_paths__", plan="matcher")
        taken = matched.select("*", F.explode("__tamis_paths__").alias(_PATH))
        return replace(found, frame=taken.drop("__tamis_paths__", *columns))

    def _with_lookups(self, found: Flowing, paths: list[Path], late: list[Output]) -> Flowing:
        """The lookups of transforms, asked only in rows whose path needs them."""
        values = {output.name: output.term for output in late}
        users: dict[Call, set[int]] = {}
        for number, path in enumerate(paths):
            for term in _terms(path):
                for call in _calls_in(term, values):
                    users.setdefault(call, set()).add(number)
        when = {
            call: F.col(_PATH).isin(sorted(numbers))
            for call, numbers in users.items()
            if len(numbers) < len(paths)
        }
        plain = [call for call in users if not _names_shared(call, values)]
        return found.looked_up(plain, when)

    def _row(self, found: Flowing, paths: list[Path]) -> list[Column]:
        targets = [Target(p.target, p.rejected) for p in paths]
        numbers = [self.layout.number(target) for target in targets]
        target = _by_path(numbers, lambda i: F.lit(numbers[i]))
        made = [_Made(self.plan.graph, found, path) for path in paths]

        def value(name: str, kind: str) -> Column | None:
            having = [(name, kind) in self.layout.keys(target) for target in targets]
            keys = [made[i].key(name) if has else None for i, has in enumerate(having)]
            return _by_path(keys, lambda i: made[i].column(name))

        assert target is not None
        return self.layout.row(target, value)


def _by_path(keys: Sequence[Hashable | None], column: Callable[[int], Column]) -> Column | None:
    """A column that depends on the path: `column(i)` for path i. Equal keys share one branch, and
    paths without a key have no value."""
    groups: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        if key is not None:
            groups.setdefault(key, []).append(i)
    if not groups:
        return None
    if len(groups) == 1 and None not in keys:
        return column(0)
    return cases((F.col(_PATH).isin(own), column(own[0])) for own in groups.values())


@dataclass(slots=True)
class _Made:
    """What one path makes of a message."""

    graph: Graph
    found: Flowing
    path: Path

    def key(self, name: str) -> Hashable:
        """Equal for paths whose column `name` is computed alike."""
        if name in (ROW, REASON):
            return name, self.path.target, self.path.transform
        return tuple((rule.guard, _term(rule, name)) for rule in self.rules)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.path.transform.rules

    def column(self, name: str) -> Column:
        if name == REASON:
            return F.lit(broken(self.graph, self.path.target))
        if name == ROW:
            outputs = self.rules[0].outputs
            return as_json({o.name: self._value(o.name) for o in outputs})
        return self._value(name)

    def _value(self, name: str) -> Column:
        """By the first rule that matches; the last needs no look, since one of them does."""
        translation = self.found.translation
        terms = [_term(rule, name) for rule in self.rules]
        if all(term == terms[0] for term in terms):
            return translation.term(terms[0])
        guards = [rule.guard for rule in self.rules[:-1] if rule.guard is not None]
        branches = [
            (translation.condition(guard), translation.term(term))
            for guard, term in zip(guards, terms, strict=False)
        ]
        return cases(branches, translation.term(terms[-1]))


def _term(rule: Rule, name: str) -> Term:
    return next(output.term for output in rule.outputs if output.name == name)


def _terms(path: Path) -> list[Term]:
    found: list[Term] = []
    for rule in path.transform.rules:
        found += [output.term for output in rule.outputs]
        if rule.guard is not None:
            found += terms_of(rule.guard)
    return found


def _needed(shared: tuple[Output, ...], selects: list[Condition]) -> list[Output]:
    """The shared terms that selects use, directly or through others."""
    names = {name for select in selects for name in attributes(select)}
    for output in reversed(shared):
        if output.name in names:
            names |= set(attributes(output.term))
    return [output for output in shared if output.name in names]


def _without_lookups(select: Condition, shared: Mapping[str, Term]) -> list[Condition]:
    """The parts of a conjunction that ask no lookup."""
    parts = select.parts if isinstance(select, And) else (select,)
    return [part for part in parts if not _calls_in(part, shared)]


def _calls_in(node: Condition | Term, shared: Mapping[str, Term]) -> tuple[Call, ...]:
    """The lookups of a node, also of the shared terms that it uses."""
    found = list(lookup_calls(node))
    for name in attributes(node):
        if name in shared:
            found = [*_calls_in(shared[name], shared), *found]
    return tuple(dict.fromkeys(found))


def _names_shared(call: Call, shared: Mapping[str, Term]) -> bool:
    return any(name in shared for name in attributes(call))
