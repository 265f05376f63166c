"""Conditions on lists and maps, and messages that hold them: plain-random."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import oracle
import strategies as st
from tamis.errors import MessageError
from tamis.language import tree
from tamis.language.tree import Attribute, Call, Condition
from tamis.logic import Semantics
from tamis.messages.typed_tables import arrow_type
from tamis.schema import Attribute as Column
from tamis.schema import Schema, Shape, Type

LISTS: dict[str, Type] = {
    "tags": Type.STRING,
    "scores": Type.INT,
    "prices": Type.DOUBLE,
    "flags": Type.BOOL,
    "times": Type.TIMESTAMP,
    "items.price": Type.DOUBLE,
    "items.name": Type.STRING,
}
MAPS: dict[str, Type] = {"labels": Type.STRING, "counts": Type.INT}
SCALARS = {name: st.HOMES[name] for name in ("a", "price", "name", "flag", "when")}
CASES = [(s, typed) for s in st.SEMANTICS for typed in (True, False) if typed or s != "total"]
KEYS = ("env", "a.b", "", "ß")


def schema_of(rng: random.Random) -> Schema:
    """All of them; some scalars have defaults."""
    dice = st.Rolled(rng)
    scalars = [
        Column(n, k, st.make_constant(dice, k) if dice.chance(40) else None)
        for n, k in SCALARS.items()
    ]
    lists = [Column(n, k, None, Shape.LIST) for n, k in LISTS.items()]
    maps = [Column(n, k, None, Shape.MAP) for n, k in MAPS.items()]
    return Schema((*scalars, *lists, *maps))


class Maker(st.Maker):
    """Conditions of which most ask for lists or maps."""

    def __init__(self, dice: st.Dice, schema: Schema | None, lookups: Sequence[str] = ()) -> None:
        super().__init__(dice, None, lookups)
        self.dynamic = schema is None
        self.names = {kind: [n for n, k in SCALARS.items() if k is kind] for kind in Type}
        numbers = self.names[Type.INT] + self.names[Type.DOUBLE]
        self.names[Type.INT] = self.names[Type.DOUBLE] = numbers
        self.kinds = [kind for kind in Type if self.names[kind]]

    def predicate(self) -> tree.Predicate:
        roll = self.dice.number(0, 99)
        if roll < 25:
            return super().predicate()
        if roll < 65:
            return self.of_elements()
        if roll < 75:
            size = Call("size", (Attribute(self.dice.pick(tuple(LISTS))),))
            op = self.dice.pick(("=", "<", ">", "<>"))
            return tree.Compare(size, op, tree.Literal.of(self.dice.number(0, 3)))
        if roll < 80:
            return tree.IsNull(Attribute(self.dice.pick((*LISTS, *MAPS))))
        if roll < 90:
            return self.of_map()
        name = self.dice.pick(tuple(LISTS))
        other = self.literal(LISTS[name]) if not self.dynamic else self.literal(Type.STRING)
        return tree.Text(Attribute(name), "CONTAINS", other)

    def of_map(self) -> tree.Predicate:
        name = self.dice.pick(tuple(MAPS))
        key = tree.Literal.of(self.dice.pick(KEYS))
        item = Call("[]", (Attribute(name), key))
        if self.dice.chance(20):
            return tree.IsNull(item)
        op = self.dice.pick(("=", "<", ">", "<>"))
        return tree.Compare(item, op, self.literal(MAPS[name]))

    def of_elements(self) -> tree.Predicate:
        name = self.dice.pick(tuple(LISTS))
        kind = LISTS[name]
        term: tree.Term = Call(self.dice.pick(("any", "all")), (Attribute(name),))
        if kind is Type.STRING and self.dice.chance(15):
            term = Call(self.dice.pick(("lower", "trim")), (term,))
        wanted = kind
        if self.dynamic and self.dice.chance(15) and isinstance(term.arguments[0], Attribute):
            wanted = self.dice.pick(tuple(Type))
        roll = self.dice.number(0, 9)
        if wanted is Type.STRING and roll >= 6:
            return self.of_text(term, roll)
        if roll < 5:
            op = self.dice.pick(("=", "<", ">", "<=", ">=", "<>"))
            sides = term, self.counterpart(wanted)
            left, right = sides[::-1] if self.dice.chance(10) else sides
            return tree.Compare(left, op, right)
        if roll < 7:
            low, high = st.in_order(self.literal(wanted), self.literal(wanted))
            return tree.Between(term, low, high)
        values = dict.fromkeys(self.literal(wanted) for _ in range(self.dice.number(1, 4)))
        return tree.In(term, tuple(values))

    def counterpart(self, kind: Type) -> tree.Term:
        if self.names[kind] and self.dice.chance(15):
            return Attribute(self.dice.pick(self.names[kind]))
        return self.literal(kind)

    def of_text(self, term: tree.Term, roll: int) -> tree.Predicate:
        if roll == 6:
            return tree.Regex(term, self.dice.pick(st.REGEXES))
        if roll == 7:
            any_case = self.dice.chance(40)
            return tree.Like(term, self.dice.pick(st.PATTERNS), None, any_case=any_case)
        op = self.dice.pick(("CONTAINS", "WITHIN", "STARTS WITH", "ENDS WITH"))
        return tree.Text(term, op, self.counterpart(Type.STRING))


def message(rng: random.Random, schema: Schema | None, *, total: bool = False) -> dict[str, object]:
    """With a schema, what fits it."""
    dice, fitting = st.Rolled(rng), schema is not None
    found: dict[str, object] = {}
    for name, kind in SCALARS.items():
        if total or not dice.chance(20):
            found[name] = st.make_value(dice, kind, fitting)
    for name, kind in LISTS.items():
        if not name.startswith("items") and (total or not dice.chance(15)):
            found[name] = elements(dice, kind, fitting)
    for name, kind in MAPS.items():
        if total or not dice.chance(20):
            keys = [key for key in KEYS if dice.chance(50)]
            found[name] = {key: element(dice, kind, fitting) for key in keys}
    if total or not dice.chance(15):
        found["items"] = [item(dice, fitting) for _ in range(dice.number(0, 3))]
    return found


def item(dice: st.Dice, fitting: bool) -> object:
    if not fitting and dice.chance(5):
        return dice.pick((1, "a", None, ["a"]))
    kinds = {"price": Type.DOUBLE, "name": Type.STRING}
    return {n: element(dice, k, fitting) for n, k in kinds.items() if not dice.chance(20)}


def elements(dice: st.Dice, kind: Type, fitting: bool) -> object:
    if not fitting and dice.chance(8):
        return dice.pick(("a", 1, {"a": 1}, ["a", ["b"]], (1, "a"), b"x"))
    return [element(dice, kind, fitting) for _ in range(dice.pick((0, 1, 1, 2, 2, 3, 5)))]


def element(dice: st.Dice, kind: Type, fitting: bool) -> object:
    if dice.chance(8):
        return dice.pick((None, math.nan)) if kind is Type.DOUBLE else None
    return st.make_value(dice, kind, fitting)


# --- many messages at once ---------------------------------------------------


def fitting(
    rng: random.Random, schema: Schema | None, semantics: Semantics, count: int
) -> list[dict[str, object]]:
    """Messages that the semantics takes."""
    found: list[dict[str, object]] = []
    while len(found) < count:
        made = message(rng, schema, total=semantics == "total")
        try:
            oracle.matches(Maker(st.Rolled(rng), schema).condition(0), made, "sql", schema)
        except MessageError:
            continue
        found.append(made)
    return found


def expected(
    conditions: list[Condition], messages: list[Any], semantics: Semantics, schema: Schema | None
) -> list[list[int]]:
    return [
        [i for i, c in enumerate(conditions) if oracle.matches(c, m, semantics, schema)]
        for m in messages
    ]


def table_of(schema: Schema, messages: list[dict[str, object]]) -> pa.Table:
    """The messages as Arrow columns, lists of messages as lists of structs."""
    names = [name for name in schema if not name.startswith("items.")]
    rows = [
        {name: oracle.declared(schema, name, oracle.attribute(name, m)) for name in names}
        for m in messages
    ]
    fields = [(name, type_of(schema[name])) for name in names]
    inner = pa.struct([("price", pa.float64()), ("name", pa.string())])
    made = pa.Table.from_pylist(rows, pa.schema(fields))
    return made.append_column("items", pa.array([items_of(m) for m in messages], pa.list_(inner)))


def type_of(attribute: Column) -> pa.DataType:
    kind = arrow_type(attribute.type)
    if attribute.shape is Shape.MAP:
        return pa.map_(pa.string(), kind)
    return pa.list_(kind) if attribute.shape is Shape.LIST else kind


def items_of(message: dict[str, Any]) -> object:
    held = message.get("items")
    if held is None:
        return None
    return [{name: _field(name, one.get(name)) for name in ("price", "name")} for one in held]


def _field(name: str, given: object) -> object:
    found: Any = oracle.clean(name, given)
    return float(found) if name == "price" and found is not None else found
