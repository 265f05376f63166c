"""Terms of SQL as sqlglot reads them: columns, constants, arithmetic and functions.

Every kind of node names the parts of it that are understood; one that has others is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot import exp

from tamis.errors import RuleError
from tamis.language import Arithmetic, Attribute, Call, Literal, Negate, Term
from tamis.language.literals import ConstantError, timestamp
from tamis.rules.conditions import number, string
from tamis.rules.shapes import Shapes
from tamis.schema import Shape, Type

CASELESS = frozenset(("mysql", "tsql", "fabric", "singlestore", "doris", "starrocks"))
_SIGNS: dict[type, Any] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_CALLS: dict[type, str] = {exp.Lower: "lower", exp.Upper: "upper", exp.Abs: "abs"}
_PARTS: dict[type, str] = {
    exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.Hour: "hour", exp.Minute: "minute",
}  # fmt: skip
_MOMENTS = frozenset(("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME"))


class TermReader:
    """The terms of one condition. `table`: what names of columns may begin with."""

    def __init__(self, shapes: Shapes, dialect: str, table: frozenset[str] = frozenset()) -> None:
        self.shapes, self.dialect, self.table = shapes, dialect, table

    def term(self, node: exp.Expression | None) -> Term:
        found = TERMS.get(type(node))
        if node is None or found is None:
            self.refuse(node)
        parts, read = found
        self.understand(node, set(parts))
        return read(self, node)

    def understand(self, node: exp.Expression, parts: set[str]) -> None:
        more = [name for name, value in node.args.items() if value and name not in parts]
        if more:
            self.refuse(node, f"{node.key} with {', '.join(more)}")

    def refuse(self, node: Any, what: str = "") -> NoReturn:
        name = what or (node.key if node is not None else "nothing")
        shown = " ".join(node.sql(dialect=self.dialect or None).split())[:60] if node else ""
        raise RuleError(f"{name} is not supported", construct=name, at=shown)

    # --- kinds of terms -------------------------------------------------------

    def column(self, node: Any) -> Term:
        name = self.name(node)
        shape = self.shapes.known(name, name)
        if shape is Shape.LIST:
            self.refuse(node, "an array as a value")
        return Attribute(name)

    def name(self, node: Any) -> str:
        parts = [string(part.name, "a name") for part in node.parts]
        if len(parts) > 1 and parts[0].lower() in self.table:
            parts = parts[1:]
        name, schema = ".".join(parts), self.shapes.schema
        if schema is None or name in schema or any(part.quoted for part in node.parts):
            return name
        alike = [one for one in schema if one.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else name

    def literal(self, node: Any) -> Term:
        if node.is_string:
            return Literal.of(string(node.this, "a text"))
        return self.numeral(node.this)

    def numeral(self, digits: str) -> Literal:
        try:
            value = int(digits) if digits.isdecimal() else float(digits)
        except ValueError:
            raise RuleError("no number", construct="number", at=digits[:40]) from None
        return Literal.of(number(value, digits[:40], 1.7976931348623157e308))

    def boolean(self, node: Any) -> Term:
        return Literal.of(bool(node.this))

    def brackets(self, node: Any) -> Term:
        return self.term(node.this)

    def minus(self, node: Any) -> Term:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            value = self.numeral(inner.this).value
            return Literal.of(-value)  # type: ignore[operator]
        return Negate(self.term(inner))

    def arithmetic(self, node: Any) -> Term:
        return Arithmetic(_SIGNS[type(node)], self.term(node.this), self.term(node.expression))

    def quotient(self, node: Any) -> Term:
        """`/` divides whole numbers as such in some dialects, which `typed` says."""
        left, right = self.term(node.this), self.term(node.expression)
        if not node.args.get("typed"):
            return Arithmetic("/", left, right)
        wholes = self.whole(left), self.whole(right)
        if wholes == (True, True):
            return Arithmetic("DIV", left, right)
        if False in wholes:
            return Arithmetic("/", left, right)
        self.refuse(node, "/ of what may be whole numbers (a schema tells)")

    def whole_quotient(self, node: Any) -> Term:
        left, right = self.term(node.this), self.term(node.expression)
        if (self.whole(left), self.whole(right)) != (True, True):
            self.refuse(node, "DIV of what may be no whole numbers (a schema tells)")
        return Arithmetic("DIV", left, right)

    def whole(self, term: Term) -> bool | None:
        """Whether the term is a whole number; None is not known."""
        match term:
            case Literal():
                return term.type is Type.INT
            case Attribute():
                kind = self.type(term)
                return None if kind is None else kind is Type.INT
            case Negate(inner) | Call("abs", (inner,)):
                return self.whole(inner)
            case Call("length"):
                return True
            case Arithmetic("/"):
                return False
            case Arithmetic(_, left, right):
                sides = {self.whole(left), self.whole(right)}
                return False if False in sides else None if None in sides else True
        return None

    def call(self, node: Any) -> Term:
        return Call(_CALLS[type(node)], (self.term(node.this),))

    def length(self, node: Any) -> Term:
        return Call("length", (self.term(node.this),))

    def trim(self, node: Any) -> Term:
        return Call("trim", (self.term(node.this),))

    def coalesce(self, node: Any) -> Term:
        return Call("coalesce", tuple(map(self.term, (node.this, *node.expressions))))

    def substring(self, node: Any) -> Term:
        places = [self.term(node.args["start"])]
        if node.args.get("length"):
            places.append(self.term(node.args["length"]))
        for place, least in zip(places, (1, 0), strict=False):
            if not isinstance(place, Literal) or not isinstance(place.value, int):
                self.refuse(node, "SUBSTRING with places that are no constants")
            if place.value < least:
                self.refuse(node, "SUBSTRING before the first character")
        return Call("substr", (self.term(node.this), *places))

    def part(self, node: Any) -> Term:
        inner = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        return Call(_PARTS[type(node)], (self.term(inner),))

    def extract(self, node: Any) -> Term:
        name = node.this.name.lower()
        if name not in _PARTS.values():
            self.refuse(node, f"EXTRACT of {name}")
        return Call(name, (self.term(node.expression),))

    def cast(self, node: Any) -> Term:
        kind = node.to.this.name
        if kind in _MOMENTS and isinstance(node.this, exp.Literal) and node.this.is_string:
            return self.moment(node.this.this)
        self.refuse(node, f"CAST to {kind}")

    def moment(self, text: str) -> Literal:
        try:
            return Literal.of(timestamp(text))
        except ConstantError as error:
            raise RuleError(error.what, construct="timestamp", at=text[:40]) from None

    # --- texts and types ------------------------------------------------------

    def text(self, node: Any, what: str) -> str:
        if not isinstance(node, exp.Literal) or not node.is_string:
            self.refuse(node, what)
        return string(node.this, "a text")

    def type(self, term: Term) -> Type | None:
        return self.shapes.type(term.name) if isinstance(term, Attribute) else None

    def textual(self, term: Term) -> bool:
        if isinstance(term, Literal):
            return term.type is Type.STRING
        if isinstance(term, Call):
            return term.name in ("lower", "upper", "trim", "substr")
        return self.type(term) is Type.STRING

    def collated(self, term: Term, node: Any) -> Term:
        self.check_collation(node)
        if self.shapes.collation != "nocase":
            return term
        return Call("casefold", (term,))

    def check_collation(self, node: Any) -> None:
        if self.dialect in CASELESS and self.shapes.collation is None:
            what = f"text compares by a collation in {self.dialect}; say binary or nocase"
            raise RuleError(what, construct="collation", at=node.sql()[:60])


_TWO, _ONE = ("this", "expression"), ("this",)
TERMS: dict[type, tuple[tuple[str, ...], Callable[[TermReader, Any], Term]]] = {
    exp.Column: (("this", "table", "db", "catalog"), TermReader.column),
    exp.Literal: (("this", "is_string"), TermReader.literal),
    exp.Boolean: (_ONE, TermReader.boolean),
    exp.Paren: (_ONE, TermReader.brackets),
    exp.Neg: (_ONE, TermReader.minus),
    **dict.fromkeys(_SIGNS, (_TWO, TermReader.arithmetic)),
    exp.Div: ((*_TWO, "typed", "safe"), TermReader.quotient),
    exp.IntDiv: (_TWO, TermReader.whole_quotient),
    **dict.fromkeys(_CALLS, (_ONE, TermReader.call)),
    exp.Length: (_ONE, TermReader.length),
    exp.Trim: (_ONE, TermReader.trim),
    exp.Coalesce: (("this", "expressions"), TermReader.coalesce),
    exp.Substring: (("this", "start", "length"), TermReader.substring),
    **dict.fromkeys(_PARTS, (_ONE, TermReader.part)),
    exp.Extract: (_TWO, TermReader.extract),
    exp.Cast: (("this", "to"), TermReader.cast),
}
