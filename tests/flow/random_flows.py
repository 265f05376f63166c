"""Random flows and messages for them: diamonds, rules, lookups, several sources, every type."""

from __future__ import annotations

import random
from collections.abc import Mapping

from hypothesis import strategies as st

from strategies import Dice, Drawn, Maker, Rolled, make_constant, make_message
from tamis.errors import FlowError
from tamis.flow import Arc, Flow, Graph, Lookup, Output, Rule, Select, Space, Transform, check
from tamis.flow.model.elements import Column
from tamis.flow.model.flow_types import FlowChecker
from tamis.flow.text import parse_flow, printed
from tamis.language import Arithmetic, Attribute, Call, Condition, Literal, Term
from tamis.schema import Schema, Type

NAMES = ("a", "b", "price", "name", "flag", "at", "odd name", "Größe", "note", "n")
LOOKUPS = {
    "Names": Lookup("Names", Type.STRING, Type.STRING),
    "Sizes": Lookup("Sizes", Type.STRING, Type.INT),
    "Rates": Lookup("Rates", Type.INT, Type.DOUBLE),
    "Labels": Lookup("Labels", Type.DOUBLE, Type.STRING),
    "Days": Lookup("Days", Type.TIMESTAMP, Type.BOOL),
}
TABLES: dict[str, dict[object, object]] = {
    "Names": {"a": "IBM", "b": "ab", "IBM": "a", "": "x", "Straße": "𝒳", "ibm": ""},
    "Sizes": {"a": 1, "b": 2**63 - 1, "IBM": -3, "ab": 0},
    "Rates": {1: 0.5, 2: -0.0, 0: 1.7e308, 17: float("inf"), 2**53 + 1: 3.0},
    "Labels": {1.0: "one", 0.0: "zero", 10.5: "a", 2.0: "b", float("inf"): "IBM"},
    "Days": {},
}


class FlowMaker:
    """Makes one flow; every decision is asked of the dice."""

    def __init__(self, dice: Dice, depth: int = 2, spaces: int = 5) -> None:
        self.dice, self.depth, self.most = dice, depth, spaces

    def graph(self) -> Graph:
        """A flow that is well-typed by construction, printed and read."""
        sources = [self.space(f"S{i}") for i in range(self.dice.number(1, 3))]
        schemas = {space.name: _schema(space) for space in sources}
        statements: list[object] = [*LOOKUPS.values(), *sources]
        for i in range(self.dice.number(1, self.most)):
            name, known = f"D{i}", list(schemas)
            columns = self.columns()
            declared = self.dice.chance(40)
            for _ in range(self.dice.pick((1, 1, 2, 2, 3))):
                start = self.dice.pick(known)
                statements.append(self.arc(start, schemas[start], name, columns, declared))
            if declared:
                statements.append(self.declared(name, columns))
            else:
                flow = Flow(tuple(statements))
                columns = dict(_types(check(parse_flow(printed(flow))).schemas[name]))
            schemas[name] = Schema.of(columns)
        return check(parse_flow(printed(Flow(tuple(statements)))))

    def space(self, name: str) -> Space:
        return self.declared(name, self.columns())

    def declared(self, name: str, columns: Mapping[str, Type]) -> Space:
        where = None
        if self.dice.chance(25):
            where = self.condition(Schema.of(dict(columns)), 1)
        return Space(name, tuple(Column(n, t) for n, t in columns.items()), where)

    def columns(self) -> dict[str, Type]:
        names = dict.fromkeys(self.dice.pick(NAMES) for _ in range(self.dice.number(1, 5)))
        return {name: self.dice.pick(tuple(Type)) for name in names}

    def arc(
        self, start: str, before: Schema, end: str, columns: Mapping[str, Type], exact: bool
    ) -> Arc:
        steps: list[Select | Transform] = []
        schema = before
        for _ in range(self.dice.pick((0, 0, 1, 2))):
            if self.dice.chance(50):
                steps.append(self.select(schema))
            else:
                step, schema = self.transform(schema, self.columns())
                steps.append(step)
        if dict(_types(schema)) != dict(columns) or self.dice.chance(50):
            steps.append(self.transform(schema, columns, exact)[0])
        if self.dice.chance(50):
            steps.append(self.select(Schema.of(dict(columns))))
        return Arc(start, end, tuple(steps))

    def select(self, schema: Schema) -> Select:
        return Select(self.condition(schema, self.depth))

    def condition(self, schema: Schema, depth: int) -> Condition:
        """One that flows take: a coalesce is of one type there."""
        while True:
            made = Maker(self.dice, schema, ()).condition(depth)
            try:
                FlowChecker(schema, LOOKUPS).check(made)
            except FlowError:
                continue
            return made

    def transform(
        self, schema: Schema, columns: Mapping[str, Type], exact: bool = True
    ) -> tuple[Transform, Schema]:
        count = self.dice.pick((1, 1, 1, 2, 3))
        rules, types = [], {}
        for i in range(count):
            guarded = i < count - 1 or self.dice.chance(25)
            guard = self.condition(schema, 1) if guarded else None
            outputs = tuple(Output(n, self.term(schema, t)) for n, t in columns.items())
            rules.append(Rule(tuple(schema), outputs, guard))
            for output in outputs:
                kind = FlowChecker(schema, LOOKUPS).type_of(output.term)
                both = {kind, types.get(output.name, kind)}
                types[output.name] = kind if len(both) == 1 else Type.DOUBLE
        return Transform(tuple(rules)), Schema.of(types)

    def term(self, schema: Schema, kind: Type, depth: int = 2) -> Term:
        """A term of the type; for a double, now and then an int."""
        roll = self.dice.number(0, 99)
        own = [n for n, t in _types(schema) if t is kind]
        if kind is Type.DOUBLE and roll < 15:
            kind = Type.INT
            own = [n for n, t in _types(schema) if t is kind]
        if own and roll < 55:
            return Attribute(self.dice.pick(own))
        if depth and roll < 75:
            calls = [lookup for lookup in LOOKUPS.values() if lookup.value is kind]
            if calls:
                chosen = self.dice.pick(calls)
                return Call(chosen.name, (self.term(schema, chosen.key, depth - 1),))
        if depth and roll < 95 and kind.numeric:
            sides = [self.term(schema, kind, depth - 1) for _ in range(2)]
            op = self.dice.pick(
                ("+", "-", "*", "DIV") if kind is Type.INT else ("+", "*", "/", "-")
            )
            return Arithmetic(op, *sides)
        return Literal(kind, make_constant(self.dice, kind))


def _schema(space: Space) -> Schema:
    return Schema.of({c.name: c.type for c in space.columns})


def _types(schema: Schema) -> list[tuple[str, Type]]:
    return [(a.name, a.type) for a in schema.attributes]


def make_messages(dice: Dice, graph: Graph, most: int = 6) -> dict[str, list[dict[str, object]]]:
    """Partial messages for every publication point."""
    return {
        space: [make_message(dice, graph.schemas[space]) for _ in range(dice.number(0, most))]
        for space in graph.published
    }


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    return FlowMaker(Drawn(draw)).graph()


@st.composite
def runs(draw: st.DrawFn) -> tuple[Graph, dict[str, list[dict[str, object]]]]:
    dice = Drawn(draw)
    graph = FlowMaker(dice).graph()
    return graph, make_messages(dice, graph)


def random_run(
    seed: int, most: int = 12, depth: int = 2, spaces: int = 5
) -> tuple[Graph, dict[str, list[dict[str, object]]]]:
    dice = Rolled(random.Random(seed))
    graph = FlowMaker(dice, depth, spaces).graph()
    return graph, make_messages(dice, graph, most)
