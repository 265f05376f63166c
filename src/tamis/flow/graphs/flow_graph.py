"""A checked flow: the schema of every space, and arcs whose steps are written out.

Types go through the arcs in topological order. Holding a Graph means: every name is known, every
type fits, there is no cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tamis.errors import FlowError
from tamis.flow.model.elements import (
    Arc,
    Flow,
    Lookup,
    Output,
    Rule,
    Select,
    Space,
    Step,
    Transform,
)
from tamis.flow.model.expressions import as_double, map_terms
from tamis.flow.model.flow_limits import LIMITS, FlowLimits
from tamis.flow.model.flow_types import FlowChecker, _some, keyed
from tamis.language import Attribute, Condition, Term
from tamis.language.types import nearest
from tamis.schema import Attribute as Column
from tamis.schema import Schema, Type

if TYPE_CHECKING:
    from tamis.flow.graphs.wiring import StateNode


@dataclass(frozen=True, slots=True)
class TypedArc:
    """An arc with explicit steps: every pattern lists its whole space, `...` is written out.

    `schemas[i]` is what step i gets; the last one is what arrives, in the columns of the target.
    """

    number: int
    arc: Arc
    steps: tuple[Step, ...]
    schemas: tuple[Schema, ...]

    @property
    def source(self) -> str:
        return self.arc.source

    @property
    def target(self) -> str:
        return self.arc.target

    @property
    def title(self) -> str:
        return self.arc.title


@dataclass(frozen=True)
class Graph:
    """`schemas` by space in topological order; `published` are the publication points."""

    flow: Flow
    schemas: Mapping[str, Schema]
    arcs: tuple[TypedArc, ...]
    limits: FlowLimits = field(default=LIMITS, repr=False)
    states: tuple[StateNode, ...] = ()  # each after those that it depends on

    def rows_of(self, name: str) -> Schema | None:
        """The columns of a space or a state; None where there is neither."""
        of_states = {node.name: node.schema for node in self.states}
        return self.schemas.get(name) or of_states.get(name)

    @cached_property
    def lookups(self) -> dict[str, Lookup]:
        return self.flow.lookups

    @cached_property
    def published(self) -> tuple[str, ...]:
        """The declared spaces: messages come in here."""
        return tuple(name for name in self.schemas if name in self.flow.spaces)

    @cached_property
    def derived(self) -> tuple[str, ...]:
        """The spaces that an arc leads to."""
        targets = {arc.target for arc in self.arcs}
        return tuple(name for name in self.schemas if name in targets)

    def into(self, space: str) -> tuple[TypedArc, ...]:
        return tuple(arc for arc in self.arcs if arc.target == space)

    def out_of(self, space: str) -> tuple[TypedArc, ...]:
        return tuple(arc for arc in self.arcs if arc.source == space)

    def where(self, space: str) -> Condition | None:
        """What every row of the space must satisfy."""
        declared = self.flow.spaces.get(space)
        return None if declared is None else declared.where

    def space(self, name: str) -> Schema:
        """The schema of a space that a user names."""
        if name not in self.schemas:
            hint = nearest(name, self.schemas) or f"there are {_some(tuple(self.schemas))}"
            raise FlowError(f"there is no space {name}", hint=hint)
        return self.schemas[name]


def check(flow: Flow, limits: FlowLimits = LIMITS) -> Graph:
    """The graph of the flow, or a FlowError that names the statement and its place."""
    from tamis.flow.graphs.notation import Expand, State

    if not any(isinstance(s, State | Expand) for s in flow.statements):
        return _Checking(flow, limits).graph()
    from tamis.flow.graphs.wiring import wire

    plain, states = wire(flow, limits)
    return replace(_Checking(plain, limits).graph(), states=states)


class _Checking:
    def __init__(self, flow: Flow, limits: FlowLimits) -> None:
        self.flow, self.limits, self.text = flow, limits, flow.text
        self.declared, self.lookups = flow.spaces, flow.lookups
        self.schemas: dict[str, Schema] = {}
        self.typed: dict[int, TypedArc] = {}

    def graph(self) -> Graph:
        self.check_names()
        arcs = tuple(enumerate(self.flow.arcs))
        into: dict[str, list[tuple[int, Arc]]] = {}
        for number, arc in arcs:
            into.setdefault(arc.target, []).append((number, arc))
        for name in self.order():
            own = [self.arc(number, arc) for number, arc in into.get(name, ())]
            self.schemas[name] = self.merged(name, own)
            self.typed |= {arc.number: self.converted(arc) for arc in own}
        typed = tuple(self.typed[n] for n, _ in arcs)
        return Graph(self.flow, self.schemas, typed, self.limits)

    def fail(self, what: str, where: str, at: int, hint: str = "") -> FlowError:
        return FlowError(what, where=where, text=self.text, at=at, hint=hint)

    # --- names ---------------------------------------------------------------

    def check_names(self) -> None:
        seen: set[str] = set()
        declared: list[Space | Lookup] = [*self.flow.of(Space), *self.flow.of(Lookup)]
        for found in declared:
            if found.title in seen:
                what = f"{found.title} is declared twice"
                raise self.fail(what, found.title, found.at, "rename or remove one of the two")
            seen.add(found.title)
        for space in self.flow.of(Space):
            self.check_space(space)
        targets = {arc.target for arc in self.flow.arcs}
        for arc in self.flow.arcs:
            if arc.source not in targets and arc.source not in self.declared:
                known = (*self.declared, *targets - {arc.target})
                hint = nearest(arc.source, known) or f"declare it: space {arc.source}(...)"
                raise self.fail(
                    f"there is no space {arc.source}: it is not declared and no arc leads to it",
                    arc.title,
                    arc.at,
                    hint,
                )

    def check_space(self, space: Space) -> None:
        names = [c.name for c in space.columns]
        for i, column in enumerate(space.columns):
            if column.name in names[:i]:
                what = f"column {column.name} is named twice"
                raise self.fail(what, space.title, column.at, "remove one of the two")
        if space.where is not None:
            place = f"space {space.name}"
            FlowChecker(_schema(space), {}, self.text, space.title, place).check(space.where)

    def order(self) -> list[str]:
        """The spaces, each after those that its arcs come from."""
        waiting = dict.fromkeys(self.declared, 0)
        out_of: dict[str, list[str]] = {}
        for arc in self.flow.arcs:
            waiting.setdefault(arc.source, 0)
            waiting[arc.target] = waiting.get(arc.target, 0) + 1
            out_of.setdefault(arc.source, []).append(arc.target)
        ready = [name for name, count in waiting.items() if not count]
        for name in ready:
            for target in out_of.get(name, ()):
                waiting[target] -= 1
                if not waiting[target]:
                    ready.append(target)
        if len(ready) < len(waiting):
            raise self.cycle({name for name in waiting if name not in set(ready)})
        return ready

    def cycle(self, stuck: set[str]) -> FlowError:
        """Of the spaces that are never ready, some lie on a cycle: walk back until one repeats."""
        name, seen = min(stuck), list[str]()
        while name not in seen:
            seen.append(name)
            name = next(a.source for a in self.flow.arcs if a.target == name and a.source in stuck)
        ring = [name, *reversed(seen[seen.index(name) :])]
        arc = next(a for a in self.flow.arcs if a.target == ring[1] and a.source == ring[0])
        what = f"the arcs form a cycle: {' -> '.join(ring)}"
        return self.fail(what, arc.title, arc.at, "messages flow one way: remove an arc of it")

    # --- arcs ----------------------------------------------------------------

    def arc(self, number: int, arc: Arc) -> TypedArc:
        schemas, steps = [self.schemas[arc.source]], list[Step]()
        for step in arc.steps:
            before = schemas[-1]
            if isinstance(step, Select):
                checker = FlowChecker(before, self.lookups, self.text, arc.title)
                checker.check(step.condition)
                steps.append(replace(step, condition=self.keyed(step.condition, before)))
                schemas.append(before)
            else:
                explicit, after = self.transform(arc, step, before)
                steps.append(explicit)
                schemas.append(after)
        return TypedArc(number, arc, tuple(steps), tuple(schemas))

    def keyed(self, condition: Condition, schema: Schema) -> Condition:
        return map_terms(condition, lambda term: keyed(term, self.lookups, schema))

    def transform(self, arc: Arc, step: Transform, before: Schema) -> tuple[Transform, Schema]:
        rules = [self.rule(arc, rule, before) for rule in step.rules]
        schema, others = rules[0][1], rules[1:]
        types = {a.name: a.type for a in schema.attributes}
        for rule, other in others:
            self.same_names(arc, rule.at, tuple(types), tuple(other), "the rule before", "rule")
            for a in other.attributes:
                types[a.name] = self.merged_type(types[a.name], a, arc, rule.at, "the rule before")
        after = Schema.of(types)
        return Transform(tuple(_as_types(r, s, types) for r, s in rules), step.at), after

    def rule(self, arc: Arc, rule: Rule, before: Schema) -> tuple[Rule, Schema]:
        self.check_pattern(arc, rule, before)
        seen = Schema(tuple(before[name] for name in rule.names))
        checker = FlowChecker(seen, self.lookups, self.text, arc.title, "the pattern")
        checker.made = frozenset(output.name for output in rule.outputs)
        if rule.guard is not None:
            checker.check(rule.guard)
        types: dict[str, Type] = {}
        outputs = list(rule.outputs)
        for output in outputs:
            if output.name in types:
                what = f"{output.name} is assigned twice"
                raise self.fail(what, arc.title, output.at, "remove one of the two")
            types[output.name] = checker.type_of(output.term)
        if rule.carry:
            carried = [n for n in before if n not in rule.names]
            for name in carried:
                if name in types:
                    at = next(o.at for o in outputs if o.name == name)
                    what = f"{name} is assigned, and ... carries it over too"
                    raise self.fail(what, arc.title, at, f"name {name} in the pattern")
            types |= {name: before[name].type for name in carried}
            outputs += [Output(name, Attribute(name)) for name in carried]
        explicit = [replace(o, term=keyed(o.term, self.lookups, before)) for o in outputs]
        guard = None if rule.guard is None else self.keyed(rule.guard, before)
        whole = Rule(tuple(before), tuple(explicit), guard, at=rule.at)
        return whole, Schema.of(types)

    def check_pattern(self, arc: Arc, rule: Rule, before: Schema) -> None:
        for i, name in enumerate(rule.names):
            if name not in before:
                what = f"{name} is not in the space before; it has {_some(tuple(before))}"
                raise self.fail(what, arc.title, rule.at, nearest(name, before))
            if name in rule.names[:i]:
                raise self.fail(f"{name} is in the pattern twice", arc.title, rule.at, "remove one")
        left = [name for name in before if name not in rule.names]
        if left and not rule.rest:
            what = f"the pattern does not list {_some(left)}"
            raise self.fail(what, arc.title, rule.at, "list all attributes, or end with ...")
        if rule.carry and not rule.rest:
            what = "... carries over what the pattern does not name, but the pattern has no ..."
            raise self.fail(what, arc.title, rule.at, "end the pattern with ... as well")

    # --- merging -------------------------------------------------------------

    def merged(self, name: str, arcs: list[TypedArc]) -> Schema:
        """The schema of a space: as declared, else that of its arcs."""
        if name in self.declared:
            declared = _schema(self.declared[name])
            for arc in arcs:
                self.check_declared(name, declared, arc)
            return declared
        first, *others = arcs
        types = {a.name: a.type for a in first.schemas[-1].attributes}
        for arc in others:
            other, title = arc.schemas[-1], first.title
            self.same_names(arc.arc, arc.arc.at, tuple(types), tuple(other), title, "arc")
            for a in other.attributes:
                types[a.name] = self.merged_type(types[a.name], a, arc.arc, arc.arc.at, title)
        return Schema.of(types)

    def check_declared(self, name: str, declared: Schema, arc: TypedArc) -> None:
        title = f"the declaration of space {name}"
        found = arc.schemas[-1]
        self.same_names(arc.arc, arc.arc.at, tuple(declared), tuple(found), title, "arc")
        for a in found.attributes:
            wanted = declared[a.name].type
            if a.type is not wanted and not (wanted is Type.DOUBLE and a.type is Type.INT):
                what = f"{a.name} is {a.type.value} here, {wanted.value} in {title}"
                raise self.fail(what, arc.title, arc.arc.at, "make the types agree")

    def same_names(
        self,
        arc: Arc,
        at: int,
        known: tuple[str, ...],
        found: tuple[str, ...],
        other: str,
        one: str,
    ) -> None:
        if set(known) == set(found):
            return
        more = [n for n in found if n not in known]
        less = [n for n in known if n not in found]
        told = [f"adds {_some(more)}"] * bool(more) + [f"lacks {_some(less)}"] * bool(less)
        what = f"this {one} {' and '.join(told)}, compared with {other}"
        raise self.fail(what, arc.title, at, f"{other} gives {_some(known)}")

    def merged_type(self, known: Type, column: Column, arc: Arc, at: int, other: str) -> Type:
        if column.type is known:
            return known
        if column.type.numeric and known.numeric:
            return Type.DOUBLE
        what = f"{column.name} is {column.type.value} here, {known.value} from {other}"
        raise self.fail(what, arc.title, at, "make the types agree")

    def converted(self, arc: TypedArc) -> TypedArc:
        """With a last transform where ints become doubles in the target."""
        found, wanted = arc.schemas[-1], self.schemas[arc.target]
        if all(found[name].type is wanted[name].type for name in wanted):
            return replace(arc, schemas=(*arc.schemas[:-1], wanted)) if arc.steps else arc
        identity = tuple(Output(name, Attribute(name)) for name in found)
        rule = _as_types(
            Rule(tuple(found), identity), found, {a.name: a.type for a in wanted.attributes}
        )
        step = Transform((rule,), arc.arc.at)
        return replace(arc, steps=(*arc.steps, step), schemas=(*arc.schemas, wanted))


def _schema(space: Space) -> Schema:
    return Schema(tuple(Column(c.name, c.type) for c in space.columns))


def _as_types(rule: Rule, found: Schema, wanted: Mapping[str, Type]) -> Rule:
    """The rule with its outputs in the order of `wanted`, ints made doubles where that says so."""
    by_name = {output.name: output for output in rule.outputs}

    def made(name: str) -> Output:
        output = by_name[name]
        term: Term = output.term
        if found[name].type is not wanted[name]:
            term = as_double(term)
        return replace(output, term=term)

    return replace(rule, outputs=tuple(map(made, wanted)))
