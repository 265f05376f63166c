"""Conditions, schemas and messages to test with: for hypothesis, and plain-random for big runs.

Each thing is made by one function that asks a `Dice` for every decision; hypothesis and
random.Random are two kinds of dice. Names and constants come from small pools, so that they
collide and matches happen; the pools hold the traps (edges of int and double, -0.0, astral
characters, odd names).
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from tamis.language import tree
from tamis.language.functions import CALENDAR
from tamis.schema import INT_MAX, INT_MIN, Attribute, Scalar, Schema, Type

T = TypeVar("T")
SEMANTICS = ("sql", "strict", "default", "total")

# --- the pools: frequent values first, then the edges ------------------------

INTS = (1, 2, 0, -1, 10, 17, 3)
INT_EDGES = (2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, INT_MAX, INT_MAX - 1, INT_MIN, INT_MIN + 1)
DOUBLES = (1.0, 2.0, 0.0, -1.0, 10.5, 0.1, 17.0)
DOUBLE_EDGES = (-0.0, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1.7e308, -1.7e308, 5e-324, 0.3)
DECIMALS = tuple(
    map(decimal.Decimal, ("1", "10.50", "0.1", "-1", "17", "1E+3", "0.30", "Infinity"))
)
STRINGS = ("a", "b", "ab", "", "IBM", "ibm", "PC 10", "10")
STRING_EDGES = (
    "aab%b_",
    "it's",
    'a"b',
    "back\\slash`tick",
    "line\nline",
    "Straße",
    "STRASSE",
    "İstanbul",
    "ΟΔΟΣ",
    "οδος",
    "ẞtraße",
    "e\u0301",
    "\u00e9",
    "\uffff",  # before the astral signs by code point, after them by UTF-16 unit
    "𝒳",
    "a𝒳b",
    "x" * 300,
    " a ",
)
START = datetime.datetime(2000, 2, 1, tzinfo=datetime.UTC)
TIMES = (START, START + datetime.timedelta(days=1), START - datetime.timedelta(days=1))
TIME_EDGES = (
    START + datetime.timedelta(microseconds=1),
    datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC),
)
POOLS: dict[Type, tuple[Sequence[Scalar], Sequence[Scalar]]] = {
    Type.INT: (INTS, INT_EDGES),
    Type.DOUBLE: (DOUBLES, DOUBLE_EDGES),
    Type.STRING: (STRINGS, STRING_EDGES),
    Type.BOOL: ((True, False), (True, False)),
    Type.TIMESTAMP: (TIMES, TIME_EDGES),
}
OTHERS: tuple[object, ...] = ([], ["a"], b"a", {"a": 1}, {}, (1,), 1j)
PATTERNS = (
    "%σ",
    "_STANBUL",
    "%ß%",
    "%",
    "a%",
    "%b",
    "_",
    "__",
    "%a%",
    "I_M",
    "",
    "a",
    "_%_",
    "%\n%",
    "%𝒳%",
    "[a]%",
    "x%x",
)
ESCAPED = (("a!%", "!"), ("%b!_", "!"), ("a%%", "%"), ("%!!", "!"), ("\\_%", "\\"), ("__a", "_"))
REGEXES = ("a", "^a", "b$", "[0-9]+", "(?i)^ibm$", "a.b", "", "x{2,}", r"\bPC\b", "é|𝒳", "^$")

# A name has a home type: without a schema, most constants and values for it are of that type.
HOMES: dict[str, Type] = {
    "a": Type.INT,
    "b": Type.INT,
    "price": Type.DOUBLE,
    "name": Type.STRING,
    "flag": Type.BOOL,
    "when": Type.TIMESTAMP,
    "order.price": Type.DOUBLE,
    "order.to.name": Type.STRING,
    "odd name": Type.STRING,
    "Größe": Type.INT,
    "$_1": Type.DOUBLE,
    "between": Type.INT,
}
NAMES = tuple(HOMES)

# Registered lookups for conditions that call them: a mapping and a callable.
LOOKUPS: dict[str, Mapping[object, object] | Callable[..., object]] = {
    "NYSEdb": {"IBM": "a", "a": "IBM", "b": None, "ab": 10, "": math.nan},
    "scaled": lambda x: x * 2.0 if isinstance(x, int | float) and abs(x) < 1e6 else None,
}


class Dice:
    """Where decisions come from. Option 0 is the simplest: hypothesis shrinks towards it."""

    def number(self, low: int, high: int) -> int:
        raise NotImplementedError

    def wild(self, kind: Type) -> Scalar:
        """Any value of the type, for the few cases in which the pools are not asked."""
        raise NotImplementedError

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent


class Drawn(Dice):
    """Decisions by hypothesis."""

    WILD: Mapping[Type, st.SearchStrategy[Any]] = {
        Type.INT: st.integers(INT_MIN, INT_MAX),
        Type.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
        Type.STRING: st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        Type.BOOL: st.booleans(),
        Type.TIMESTAMP: st.datetimes(timezones=st.just(datetime.UTC)),
    }

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def wild(self, kind: Type) -> Scalar:
        return self.draw(self.WILD[kind])


class Rolled(Dice):
    """Decisions by a pseudo-random generator: no shrinking, and a hundred times faster."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def number(self, low: int, high: int) -> int:
        return low + int(self.rng.random() * (high - low + 1))

    def wild(self, kind: Type) -> Scalar:
        if kind is Type.INT:
            return self.rng.randint(INT_MIN, INT_MAX)
        if kind is Type.DOUBLE:
            return self.rng.uniform(-1, 1) * 10.0 ** self.rng.randint(-300, 300)
        if kind is Type.STRING:
            return "".join(self.rng.choices("abIM10%_ é𝒳\n\t'\"", k=self.rng.randint(0, 12)))
        if kind is Type.BOOL:
            return self.rng.random() < 0.5
        return START + datetime.timedelta(microseconds=self.rng.randint(-(10**16), 10**16))


# --- strategies for hypothesis -----------------------------------------------


def semantics(*, total: bool = True) -> st.SearchStrategy[str]:
    """One of the four; `total` needs a schema, so it can be left out."""
    return st.sampled_from(SEMANTICS if total else SEMANTICS[:-1])


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    return make_schema(Drawn(draw))


@st.composite
def conditions(
    draw: st.DrawFn,
    schema: Schema | None = None,
    depth: int = 3,
    lookups: Sequence[str] = (),
) -> tree.Condition:
    """A condition; well-typed if a schema is given. `lookups` are names of LOOKUPS to call."""
    return Maker(Drawn(draw), schema, lookups).condition(depth)


@st.composite
def partial_messages(draw: st.DrawFn, schema: Schema | None = None) -> dict[str, object]:
    return make_message(Drawn(draw), schema)


@st.composite
def total_messages(draw: st.DrawFn, schema: Schema | None = None) -> dict[str, object]:
    return make_message(Drawn(draw), schema, total=True)


# --- the same, plain-random --------------------------------------------------


def random_schema(rng: random.Random) -> Schema:
    return make_schema(Rolled(rng))


def random_condition(
    rng: random.Random,
    schema: Schema | None = None,
    depth: int = 3,
    lookups: Sequence[str] = (),
) -> tree.Condition:
    return Maker(Rolled(rng), schema, lookups).condition(depth)


def random_message(
    rng: random.Random, schema: Schema | None = None, *, total: bool = False
) -> dict[str, object]:
    return make_message(Rolled(rng), schema, total=total)


# --- making schemas and messages ---------------------------------------------


def make_schema(dice: Dice) -> Schema:
    names = dict.fromkeys(dice.pick(NAMES) for _ in range(dice.number(2, 8)))
    return Schema(tuple(make_attribute(dice, name) for name in names))


def make_attribute(dice: Dice, name: str) -> Attribute:
    kind = dice.pick(tuple(Type)) if dice.chance(20) else HOMES[name]
    return Attribute(name, kind, make_constant(dice, kind) if dice.chance(40) else None)


def make_constant(dice: Dice, kind: Type) -> Scalar:
    """A finite value of the type: what can stand in a selector or be a default."""
    roll = dice.number(0, 99)
    if roll >= 97:
        return dice.wild(kind)
    return dice.pick(POOLS[kind][0 if roll < 85 else 1])


def make_message(dice: Dice, schema: Schema | None, total: bool = False) -> dict[str, object]:
    """Without a schema a value may be of any type; with one it fits, perhaps after conversion."""
    message: dict[str, object] = {}
    kinds = HOMES if schema is None else {name: a.type for name, a in schema.items()}
    for name, kind in kinds.items():
        if total:
            put(dice, message, name, make_value(dice, kind, fitting=schema is not None))
        elif not dice.chance(20):
            put(dice, message, name, make_partial(dice, kind, fitting=schema is not None))
    return message


def make_partial(dice: Dice, kind: Type, fitting: bool) -> object:
    roll = dice.number(0, 99)
    if roll >= 95:
        return dice.pick((None, math.nan, decimal.Decimal("NaN")))
    if roll >= 90 and not fitting:
        return dice.pick(OTHERS)
    return make_value(dice, kind, fitting)


def make_value(dice: Dice, kind: Type, fitting: bool) -> object:
    """A defined value of the type, often in a form that is to be converted first."""
    if not fitting and dice.chance(15):
        kind = dice.pick(tuple(Type))
    if kind is Type.DOUBLE and dice.chance(10):
        return dice.pick((math.inf, -math.inf))
    if kind is Type.DOUBLE and dice.chance(20):
        return make_constant(dice, Type.INT)
    if kind is Type.DOUBLE and dice.chance(20):
        return dice.pick(DECIMALS)
    if kind is Type.INT and dice.chance(5):
        return dice.pick((1.0, 2.0, 0.0, -0.0, 2.0**53))
    if kind is Type.STRING and dice.chance(2):
        return "a\0b"  # no selector may hold a NUL, but a message may
    value = make_constant(dice, kind)
    if isinstance(value, datetime.datetime) and dice.chance(25):
        return elsewhere(dice, value)
    return value


def elsewhere(dice: Dice, moment: datetime.datetime) -> datetime.date:
    """The same moment without a time zone or in another one; or its day."""
    if dice.chance(30):
        return moment.date()
    if dice.chance(50) or not 1 < moment.year < 9999:
        return moment.replace(tzinfo=None)
    return moment.astimezone(datetime.timezone(datetime.timedelta(hours=-5, minutes=-30)))


def put(dice: Dice, message: dict[str, object], name: str, value: object) -> None:
    """Under its dotted name, or inside of nested messages."""
    *path, last = name.split(".")
    if not path or dice.chance(30):
        message[name] = value
        return
    inner: Any = message
    for key in path:
        inner = inner.setdefault(key, {})
    inner[last] = value


# --- making conditions -------------------------------------------------------


class Maker:
    """Makes conditions over one schema, or over HOMES with unlike types mixed in."""

    def __init__(self, dice: Dice, schema: Schema | None, lookups: Sequence[str]) -> None:
        self.dice, self.lookups, self.dynamic = dice, lookups, schema is None
        kinds = HOMES if schema is None else {name: a.type for name, a in schema.items()}
        self.names = {kind: [n for n, k in kinds.items() if k is kind] for kind in Type}
        numbers = self.names[Type.INT] + self.names[Type.DOUBLE]
        self.names[Type.INT] = self.names[Type.DOUBLE] = numbers  # the two compare
        self.kinds = [kind for kind in Type if self.names[kind]]

    def condition(self, depth: int, outside: type[object] | None = None) -> tree.Condition:
        """`outside` is the kind of node that this one will stand in: And and Or stay flat."""
        roll = self.dice.number(0, 99)
        if depth == 0 or roll < 30:
            return self.predicate()
        if roll < 32:
            return tree.Constant(self.dice.chance(50))
        if roll < 45:
            return tree.Not(self.condition(depth - 1, tree.Not))
        node = tree.And if roll < 70 else tree.Or
        if node is outside:
            node = tree.Or if node is tree.And else tree.And
        count = self.dice.pick((2, 2, 2, 3, 4))
        return node(tuple(self.condition(depth - 1, node) for _ in range(count)))

    def predicate(self) -> tree.Predicate:
        kind = self.dice.pick(self.kinds)
        makers = [self.compare, self.compare, self.compare, self.between, self.member, self.null]
        if kind is Type.STRING:
            makers += [self.text, self.text, self.like, self.regex]
        return self.dice.pick(makers)(kind)

    def compare(self, kind: Type) -> tree.Compare:
        op = self.dice.pick(("=", "<", ">", "<=", ">=", "<>"))
        left = self.term(kind)
        right = self.other(self.mixed(kind, left))
        return tree.Compare(*((right, op, left) if self.dice.chance(10) else (left, op, right)))

    def between(self, kind: Type) -> tree.Between:
        term = self.term(kind)
        low, high = (self.other(self.mixed(kind, term)) for _ in range(2))
        if isinstance(low, tree.Literal) and isinstance(high, tree.Literal):
            low, high = in_order(low, high)
        return tree.Between(term, low, high)

    def member(self, kind: Type) -> tree.In:
        term, count = self.term(kind), self.dice.number(1, 5)
        values = [self.literal(self.mixed(kind, term)) for _ in range(count)]
        return tree.In(term, tuple(dict.fromkeys(values)))

    def null(self, kind: Type) -> tree.IsNull:
        return tree.IsNull(self.term(kind))

    def text(self, kind: Type) -> tree.Text:
        op = self.dice.pick(("CONTAINS", "WITHIN", "STARTS WITH", "ENDS WITH"))
        return tree.Text(self.term(kind), op, self.other(kind))

    def like(self, kind: Type) -> tree.Like:
        pattern, escape = self.dice.pick(PATTERNS), None
        if self.dice.chance(30):
            pattern, escape = self.dice.pick(ESCAPED)
        any_case = self.dice.chance(30)
        return tree.Like(self.term(kind), pattern, escape, any_case=any_case)

    def regex(self, kind: Type) -> tree.Regex:
        return tree.Regex(self.term(kind), self.dice.pick(REGEXES))

    def term(self, kind: Type, depth: int = 2) -> tree.Term:
        """A term of the type that reads at least one attribute."""
        if depth and self.dice.chance(20):
            return self.derived(kind, depth - 1)
        return tree.Attribute(self.dice.pick(self.names[kind]))

    def derived(self, kind: Type, depth: int) -> tree.Term:
        if self.lookups and self.dice.chance(30):
            return tree.Call(self.dice.pick(self.lookups), (self.term(kind, depth),))
        if self.dice.chance(15):
            return tree.Call("coalesce", (self.term(kind, depth), self.other(kind)))
        if kind is Type.STRING and self.dice.chance(30):
            bounds = (self.literal_of(Type.INT), self.literal_of(Type.INT))
            return tree.Call("substr", (self.term(kind, depth), *bounds[: self.dice.number(1, 2)]))
        if kind is Type.STRING:
            changes = ("lower", "upper", "casefold", "trim")
            return tree.Call(self.dice.pick(changes), (self.term(kind, depth),))
        if not kind.numeric:
            return self.term(kind, 0)
        roll = self.dice.number(0, 10)
        if roll == 10 and self.names[Type.TIMESTAMP]:
            return tree.Call(self.dice.pick(CALENDAR), (self.term(Type.TIMESTAMP, depth),))
        if roll == 9 and self.names[Type.STRING]:
            return tree.Call("length", (self.term(Type.STRING, depth),))
        if roll >= 7:
            return tree.Call("abs", (self.term(kind, depth),))
        if roll == 6:
            return tree.Negate(self.term(kind, depth))
        sides = self.term(kind, depth), self.other(kind)
        left, right = sides[::-1] if self.dice.chance(30) else sides
        return tree.Arithmetic(self.dice.pick(("+", "-", "*", "/", "DIV", "%")), left, right)

    def other(self, kind: Type) -> tree.Term:
        """What a term of the type is compared with: mostly a constant."""
        roll = self.dice.number(0, 99)
        if roll >= 90:
            return self.term(kind)
        if roll >= 87 and kind.numeric:
            return tree.Arithmetic("+", self.literal(kind), self.literal(Type.INT))
        return self.literal(kind)

    def mixed(self, kind: Type, term: tree.Term) -> Type:
        """The type to compare a term with: without a schema an attribute can be of any type."""
        if self.dynamic and isinstance(term, tree.Attribute) and self.dice.chance(10):
            return self.dice.pick(tuple(Type))
        return kind

    def literal(self, kind: Type) -> tree.Literal:
        if kind.numeric:
            kind = self.dice.pick((Type.INT, Type.DOUBLE))
        return self.literal_of(kind)

    def literal_of(self, kind: Type) -> tree.Literal:
        return tree.Literal(kind, make_constant(self.dice, kind))


def in_order(low: tree.Literal, high: tree.Literal) -> tuple[tree.Literal, tree.Literal]:
    """Mostly sensible ranges; unlike ones stay as they are."""
    if low.type.like(high.type) and low.value > high.value:  # type: ignore[operator]
        return high, low
    return low, high
