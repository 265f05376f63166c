"""States in a flow: where their events come from, and which spaces their expansion fills.

A flow with states is a flow without them whose expanded spaces are declared: everything that
knows only spaces and arcs works on that one. States join its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from tamis.errors import FlowError, StateError
from tamis.flow.graphs.flow_graph import Graph, check
from tamis.flow.graphs.notation import EventLine, Expand, State, StateRule
from tamis.flow.model.elements import Arc, Column, Flow, Space
from tamis.flow.model.flow_limits import FlowLimits
from tamis.flow.states.batches.event_tables import event_schema
from tamis.flow.states.definitions.checking import COMPONENTS
from tamis.flow.states.definitions.derived import Derived, DerivedEvent
from tamis.flow.states.definitions.summary import TRUE, Rule, Summary, rule_text
from tamis.flow.states.expansion.forms import Form, form_of
from tamis.language.types import nearest
from tamis.schema import Attribute, Schema


@dataclass(frozen=True)
class Expansion:
    """Where a state's events go, and which they are; `summary` is what they tell of."""

    statement: Expand
    summary: Summary
    through: Derived | None
    schema: Schema
    form: Form

    @property
    def target(self) -> str:
        return self.statement.target


@dataclass(frozen=True)
class StateNode:
    """A state of a flow."""

    statement: State
    summary: Summary
    expansions: tuple[Expansion, ...]

    @property
    def name(self) -> str:
        return self.statement.name

    @property
    def source(self) -> str:
        return self.statement.source

    @property
    def schema(self) -> Schema:
        """The rows of the state: key and scalar components."""
        key = [self.summary.events[n] for n in self.summary.key]
        own = [Attribute(a.name, a.type) for a in self.summary.scalars.attributes
               if a.name not in self.summary.key]  # fmt: skip
        return Schema((*(Attribute(a.name, a.type) for a in key), *own))


def wire(flow: Flow, limits: FlowLimits) -> tuple[Flow, tuple[StateNode, ...]]:
    """The flow without states, and its states, each after those that it depends on."""
    return _Wiring(flow, limits).wired()


class _Wiring:
    def __init__(self, flow: Flow, limits: FlowLimits) -> None:
        self.flow, self.limits = flow, limits
        self.states = {s.name: s for s in flow.of(State)}
        self.expands = list(flow.of(Expand))
        self.plain = [s for s in flow.statements if not isinstance(s, State | Expand)]
        self.declared = dict(flow.spaces)

    def wired(self) -> tuple[Flow, tuple[StateNode, ...]]:
        self.check_names()
        waiting = dict(self.states)
        nodes: list[StateNode] = []
        while waiting:
            graph = check(self.known(), self.limits)
            ready = [s for s in waiting.values() if s.source in graph.schemas]
            if not ready:
                self.stuck(next(iter(waiting.values())), graph)
            for statement in ready:
                nodes.append(self.node(statement, graph))
                del waiting[statement.name]
        return self.known(), tuple(nodes)

    def known(self) -> Flow:
        """The statements without states, as far as the spaces that they name are known."""
        unknown = {e.target for e in self.expands} - set(self.declared)
        arcs = [s for s in self.plain if isinstance(s, Arc)]
        while True:
            blocked = {a.target for a in arcs if a.source in unknown} - set(self.declared)
            if blocked <= unknown:
                break
            unknown |= blocked
        made = [s for n, s in self.declared.items() if n not in self.flow.spaces]
        kept = [
            s for s in self.plain if not (isinstance(s, Arc) and {s.source, s.target} & unknown)
        ]
        return Flow((*made, *kept), self.flow.text)

    # --- names ---------------------------------------------------------------------

    def check_names(self) -> None:
        spaces = set(self.flow.spaces) | {a.target for a in self.flow.arcs}
        seen: set[str] = set()
        for state in self.flow.of(State):
            if state.name in seen or state.name in spaces:
                other = "state" if state.name in seen else "space"
                self.fail(f"there is a {other} {state.name} already", state, "choose another name")
            seen.add(state.name)
        for expand in self.expands:
            if expand.state not in self.states:
                hint = nearest(expand.state, self.states) or "declare it: state NAME keyed by ..."
                self.fail(f"there is no state {expand.state}", expand, hint)
        targets = [e.target for e in self.expands]
        for expand in self.expands:
            if targets.count(expand.target) > 1:
                self.fail(f"two expands fill {expand.target}", expand, "merge them by arcs")

    def stuck(self, statement: State, graph: Graph) -> NoReturn:
        known = {
            *graph.schemas,
            *(a.target for a in self.flow.arcs),
            *(e.target for e in self.expands),
        }
        if statement.source not in known:
            what = f"there is no space {statement.source}"
            self.fail(what, statement, nearest(statement.source, known) or "declare it")
        what = f"{statement.name} depends on its own expansion"
        self.fail(what, statement, "events flow one way: remove an arc or an expand")

    # --- one state -------------------------------------------------------------------

    def node(self, statement: State, graph: Graph) -> StateNode:
        rules = tuple(_rule(rule) for rule in statement.rules)
        where = graph.where(statement.source) or TRUE
        if len(statement.components) > COMPONENTS:
            self.fail(f"more than {COMPONENTS} components", statement, "split the state")
        try:
            summary = Summary(
                statement.name,
                graph.schemas[statement.source],
                statement.components,
                rules,
                statement.key,
                statement.order,
                where,
                statement.source,
            )
        except StateError as error:
            self.fail(error.what.removeprefix(f"{statement.name}, "), statement, error.hint,
                      _place(error, statement))  # fmt: skip
        expands = [e for e in self.expands if e.state == statement.name]
        return StateNode(statement, summary, tuple(self.expansion(e, summary) for e in expands))

    def expansion(self, statement: Expand, whole: Summary) -> Expansion:
        summary = self.part(statement, whole) if statement.only else whole
        through = None
        if statement.like is None:
            try:
                through = Derived.of(
                    statement.target, summary, [_event(e) for e in statement.events]
                )
            except StateError as error:
                self.fail(error.what.removeprefix(f"{statement.target}, "), statement, error.hint)
        elif statement.like != summary.source:
            what = f"the events of {summary.name} are {summary.source}, not {statement.like}"
            self.fail(what, statement, f"write as {summary.source}")
        form = form_of(summary, through)
        if form.kind == "outside":
            self.fail(f"{summary.name} can only be collapsed: {form.reason}", statement,
                      "remove this expand, or derive other events from the state")  # fmt: skip
        schema = event_schema(summary, through)
        self.declare(statement, schema)
        return Expansion(statement, summary, through, schema, form)

    def part(self, statement: Expand, whole: Summary) -> Summary:
        """The state as far as the expansion tells of it; rules are left out."""
        known = {c.name: c for c in whole.components}
        for name in statement.only:
            if name not in known:
                hint = nearest(name, known) or f"it has {', '.join(known)}"
                self.fail(f"{whole.name} has no component {name}", statement, hint)
        chosen = tuple(c for c in whole.components if c.name in statement.only)
        return Summary(
            whole.name, whole.events, chosen, (), whole.key, whole.order, whole.where, whole.source
        )

    def declare(self, statement: Expand, schema: Schema) -> None:
        columns = tuple(Column(a.name, a.type) for a in schema.attributes)
        known = self.declared.get(statement.target)
        if known is None:
            self.declared[statement.target] = Space(statement.target, columns, at=statement.at)
        elif {(c.name, c.type) for c in known.columns} != {(c.name, c.type) for c in columns}:
            shown = ", ".join(f"{c.name}: {c.type.value}" for c in columns)
            self.fail(f"space {statement.target} is declared with other columns", statement,
                      f"the expansion gives {shown}")  # fmt: skip

    def fail(
        self, what: str, statement: State | Expand, hint: str = "", at: int | None = None
    ) -> NoReturn:
        place = statement.at if at is None else at
        raise FlowError(what, where=statement.title, text=self.flow.text, at=place, hint=hint)


def _place(error: StateError, statement: State) -> int:
    """The position of the rule that is wrong, or of the statement."""
    return statement.rules[error.rule - 1].at if error.rule else statement.at


def _rule(rule: StateRule) -> Rule:
    condition = rule.condition or TRUE
    return Rule(condition, rule.changes, rule_text(condition, rule.changes))


def _event(line: EventLine) -> DerivedEvent:
    columns = Schema(tuple(Attribute(c.name, c.type) for c in line.columns))
    return DerivedEvent(line.name, columns, line.changes, line.where or TRUE, line.cost)
