"""Conditions of SQL as sqlglot reads them. NULL means the same on both sides, so little changes.

Every kind of node names the parts of it that are understood; one that has others is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot import exp

from tamis.errors import RuleError
from tamis.language import (
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Condition,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Regex,
    Term,
    Text,
)
from tamis.language.literals import ConstantError, timestamp
from tamis.language.tree import CompareOp
from tamis.rules.conditions import all_of, any_of, defined, negated, number, refuted, string
from tamis.rules.shapes import Shapes
from tamis.schema import Shape, Type

_ESCAPING = """
    postgres mysql spark spark2 databricks hive bigquery redshift clickhouse doris starrocks
    singlestore materialize risingwave
"""
ESCAPING = frozenset(_ESCAPING.split())  # there a backslash is the escape of LIKE, if none is named
CASELESS = frozenset(("mysql", "tsql", "fabric", "singlestore", "doris", "starrocks"))
_OPS: dict[type, CompareOp] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_FLIPPED: dict[CompareOp, CompareOp] = {
    "=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
_SIGNS: dict[type, Any] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_CALLS: dict[type, str] = {exp.Lower: "lower", exp.Upper: "upper", exp.Abs: "abs"}
_PARTS: dict[type, str] = {
    exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.Hour: "hour", exp.Minute: "minute",
}  # fmt: skip
_TEXTS: dict[type, Any] = {
    exp.StartsWith: "STARTS WITH", exp.EndsWith: "ENDS WITH", exp.Contains: "CONTAINS",
}  # fmt: skip
_MOMENTS = frozenset(("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME"))


class Reader:
    """One condition on its way. `table`: what names of columns may begin with."""

    def __init__(self, shapes: Shapes, dialect: str, table: frozenset[str] = frozenset()) -> None:
        self.shapes, self.dialect, self.table = shapes, dialect, table

    def condition(self, node: exp.Expression | None) -> Condition:
        found = next((CONDITIONS[k] for k in type(node).__mro__ if k in CONDITIONS), None)
        if node is None or found is None:
            self.refuse(node)
        parts, read = found
        self.understand(node, {*parts, "negate"})
        condition = read(self, node)
        return negated(condition) if node.args.get("negate") else condition

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

    # --- conditions -----------------------------------------------------------

    def both(self, node: Any) -> Condition:
        return all_of([self.condition(node.this), self.condition(node.expression)])

    def either(self, node: Any) -> Condition:
        return any_of([self.condition(node.this), self.condition(node.expression)])

    def inverse(self, node: Any) -> Condition:
        inner = node.this.unnest()
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Boolean):
            return refuted(self.truth(inner))
        return negated(self.condition(node.this))

    def truth(self, node: Any) -> Condition:
        """What is to be true, for IS TRUE and IS FALSE."""
        self.understand(node, {"this", "expression"})
        inner = self.condition(node.this.unnest())
        return inner if node.expression.this else negated(inner)

    def inner(self, node: Any) -> Condition:
        return self.condition(node.this)

    def constant(self, node: Any) -> Condition:
        return Constant(bool(node.this))

    def flag(self, node: Any) -> Condition:
        """A column as a condition."""
        term = self.column(node)
        if isinstance(term, Attribute) and self.type(term) not in (None, Type.BOOL):
            self.refuse(node, "a column that is no truth value as a condition")
        return Compare(term, "=", Literal.of(True))

    def compare(self, node: Any) -> Condition:
        op, left, right = _OPS[type(node)], node.this, node.expression
        if isinstance(left, exp.Any):
            op, left, right = _FLIPPED[op], right, left
        if isinstance(right, exp.Any):  # a value and the elements of an array
            element = self.elements(right)
            test = Compare(element, _FLIPPED[op], self.scalar(left))
            if self.dialect == "duckdb":  # there ANY of NULL is false
                return all_of([defined(element.arguments[0]), test])
            return test
        a, b = self.pair(left, right)
        return Compare(a, op, b)

    def pair(self, left: Any, right: Any) -> tuple[Term, Term]:
        """Both sides; a text beside a timestamp of the schema is a timestamp."""
        a, b = self.scalar(left), self.scalar(right)
        a, b = self.as_moment(a, b), self.as_moment(b, a)
        if self.textual(a) or self.textual(b):
            return self.collated(a, left), self.collated(b, right)
        return a, b

    def scalar(self, node: Any) -> Term:
        if isinstance(node, exp.Null):
            self.refuse(node.parent, "a comparison with NULL")
        return self.term(node)

    def as_moment(self, term: Term, other: Term) -> Term:
        if not isinstance(term, Literal) or self.type(other) is not Type.TIMESTAMP:
            return term
        return self.moment(str(term.value)) if term.type is Type.STRING else term

    def moment(self, text: str) -> Literal:
        try:
            return Literal.of(timestamp(text))
        except ConstantError as error:
            raise RuleError(error.what, construct="timestamp", at=text[:40]) from None

    def between(self, node: Any) -> Condition:
        term, low = self.pair(node.this, node.args["low"])
        _, high = self.pair(node.this, node.args["high"])
        return Between(term, low, high)

    def among(self, node: Any) -> Condition:
        values = node.expressions
        if not values:
            self.refuse(node, "IN of a subquery")
        pairs = [self.pair(node.this, value) for value in values]
        term, constants = pairs[0][0], [value for _, value in pairs]
        if all(isinstance(value, Literal) for value in constants):
            return In(term, tuple(dict.fromkeys(constants)))  # type: ignore[arg-type]
        return any_of(Compare(term, "=", value) for value in constants)

    def like(self, node: Any, escape: str | None = None) -> Condition:
        any_case = isinstance(node, exp.ILike) or self.caseless_like
        pattern = self.text(node.expression, "a pattern that is no constant")
        escape = escape or self.default_escape(pattern, node)
        if self.dialect in ("tsql", "fabric") and "[" in pattern:
            self.refuse(node, "LIKE with brackets")
        term = self.term(node.this)
        self.check_collation(node)
        return Like(term, pattern, escape if escape in pattern else None, any_case=any_case)

    def default_escape(self, pattern: str, node: Any) -> str:
        if "\\" in pattern and not self.dialect:
            self.refuse(node, "a backslash in a pattern without a dialect")
        return "\\" if self.dialect in ESCAPING else "\0"

    @property
    def caseless_like(self) -> bool:
        return self.dialect == "sqlite" or self.shapes.collation == "nocase"

    def escaped(self, node: Any) -> Condition:
        escape = self.text(node.expression, "an escape that is no constant")
        if not isinstance(node.this, exp.Like | exp.ILike) or len(escape) != 1:
            self.refuse(node)
        self.understand(node.this, {"this", "expression", "negate"})
        condition = self.like(node.this, escape)
        return negated(condition) if node.this.args.get("negate") else condition

    def matching(self, node: Any) -> Condition:
        if self.dialect == "duckdb":
            what = "~ and regexp_matches, which sqlglot does not tell apart,"
            self.refuse(node, what)
        pattern = self.text(node.expression, "a pattern that is no constant")
        flags = self.text(node.args["flag"], "flags") if node.args.get("flag") else ""
        if set(flags) - set("ic"):
            self.refuse(node, f"the flags {flags!r}")
        if isinstance(node, exp.RegexpILike) or flags == "i":
            pattern = f"(?i){pattern}"
        elif self.dialect in CASELESS:
            self.refuse(node, "a regular expression under a collation")
        return Regex(self.term(node.this), pattern)

    def text_test(self, node: Any) -> Condition:
        self.check_collation(node)
        return Text(self.term(node.this), _TEXTS[type(node)], self.term(node.expression))

    def holds(self, node: Any) -> Condition:
        element = Call("any", (self.list_of(node.this),))
        return Compare(element, "=", self.scalar(node.expression))

    def elements(self, node: Any) -> Call:
        inner = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
        return Call("any", (self.list_of(inner),))

    def list_of(self, node: Any) -> Attribute:
        if not isinstance(node, exp.Column):
            self.refuse(node, "an array that is no column")
        name = self.name(node)
        if self.shapes.known(name, name) is Shape.SCALAR:
            self.refuse(node, "an array function of what is no array")
        return Attribute(name)

    # --- NULL -----------------------------------------------------------------

    def is_(self, node: Any) -> Condition:
        left, right = node.this.unnest(), node.expression
        if isinstance(right, exp.Null):
            if isinstance(left, exp.Column):
                return IsNull(Attribute(self.name(left)))
            if type(left) in TERMS:
                return IsNull(self.term(left))
            inner = self.condition(left)
            return all_of([refuted(inner), refuted(negated(inner))])
        if isinstance(right, exp.Boolean):
            return refuted(refuted(self.truth(node)))
        self.refuse(node)

    def same(self, node: Any) -> Condition:
        return self.null_safe(node.this, node.expression, equal=True)

    def not_same(self, node: Any) -> Condition:
        return self.null_safe(node.this, node.expression, equal=False)

    def null_safe(self, left: Any, right: Any, equal: bool) -> Condition:
        if isinstance(left, exp.Null):
            left, right = right, left
        if isinstance(right, exp.Null):
            test = IsNull(self.scalar(left))
            return test if equal else negated(test)
        a, b = self.pair(left, right)
        no_a, no_b = (
            Constant(False) if isinstance(term, Literal) else IsNull(term) for term in (a, b)
        )
        values = Compare(a, "=" if equal else "<>", b)
        there = [defined(term) for term in (a, b) if not isinstance(term, Literal)]
        known = all_of([*there, values])
        if equal:
            return any_of([known, all_of([no_a, no_b])])
        one = [all_of([no_a, negated(no_b)]), all_of([no_b, negated(no_a)])]
        return any_of([known, *one])

    # --- terms ----------------------------------------------------------------

    def name(self, node: Any) -> str:
        parts = [string(part.name, "a name") for part in node.parts]
        if len(parts) > 1 and parts[0].lower() in self.table:
            parts = parts[1:]
        name, schema = ".".join(parts), self.shapes.schema
        if schema is None or name in schema or any(part.quoted for part in node.parts):
            return name
        alike = [one for one in schema if one.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else name

    def column(self, node: Any) -> Term:
        name = self.name(node)
        shape = self.shapes.known(name, name)
        if shape is Shape.LIST:
            self.refuse(node, "an array as a value")
        return Attribute(name)

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

    # --- texts ----------------------------------------------------------------

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


Condition_ = tuple[tuple[str, ...], Callable[[Reader, Any], Condition]]
_TWO, _ONE = ("this", "expression"), ("this",)
CONDITIONS: dict[type, Condition_] = {
    exp.And: (_TWO, Reader.both),
    exp.Or: (_TWO, Reader.either),
    exp.Not: (_ONE, Reader.inverse),
    exp.Paren: (_ONE, Reader.inner),
    exp.Boolean: (_ONE, Reader.constant),
    exp.Column: (("this", "table", "db", "catalog"), Reader.flag),
    **dict.fromkeys(_OPS, (_TWO, Reader.compare)),
    exp.Between: (("this", "low", "high"), Reader.between),
    exp.In: (("this", "expressions"), Reader.among),
    exp.Like: (_TWO, Reader.like),
    exp.ILike: (_TWO, Reader.like),
    exp.Escape: (_TWO, Reader.escaped),
    exp.RegexpLike: ((*_TWO, "flag"), Reader.matching),
    exp.RegexpILike: (_TWO, Reader.matching),
    **dict.fromkeys(_TEXTS, (_TWO, Reader.text_test)),
    exp.ArrayContains: (_TWO, Reader.holds),
    exp.Is: (_TWO, Reader.is_),
    exp.NullSafeEQ: (_TWO, Reader.same),
    exp.NullSafeNEQ: (_TWO, Reader.not_same),
}
TERMS: dict[type, tuple[tuple[str, ...], Callable[[Reader, Any], Term]]] = {
    exp.Column: (("this", "table", "db", "catalog"), Reader.column),
    exp.Literal: (("this", "is_string"), Reader.literal),
    exp.Boolean: (_ONE, Reader.boolean),
    exp.Paren: (_ONE, Reader.brackets),
    exp.Neg: (_ONE, Reader.minus),
    **dict.fromkeys(_SIGNS, (_TWO, Reader.arithmetic)),
    exp.Div: ((*_TWO, "typed", "safe"), Reader.quotient),
    exp.IntDiv: (_TWO, Reader.whole_quotient),
    **dict.fromkeys(_CALLS, (_ONE, Reader.call)),
    exp.Length: (_ONE, Reader.length),
    exp.Trim: (_ONE, Reader.trim),
    exp.Coalesce: (("this", "expressions"), Reader.coalesce),
    exp.Substring: (("this", "start", "length"), Reader.substring),
    **dict.fromkeys(_PARTS, (_ONE, Reader.part)),
    exp.Extract: (_TWO, Reader.extract),
    exp.Cast: (("this", "to"), Reader.cast),
}
