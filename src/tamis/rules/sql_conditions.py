"""Conditions of SQL as sqlglot reads them. NULL means the same on both sides, so little changes.

Every kind of node names the parts of it that are understood; one that has others is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from tamis.language import (
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
    Regex,
    Term,
    Text,
)
from tamis.language.tree import CompareOp
from tamis.rules.conditions import all_of, any_of, defined, negated, refuted
from tamis.rules.sql_terms import CASELESS, TERMS, TermReader
from tamis.schema import Shape, Type

_ESCAPING = """
    postgres mysql spark spark2 databricks hive bigquery redshift clickhouse doris starrocks
    singlestore materialize risingwave
"""
ESCAPING = frozenset(_ESCAPING.split())  # there a backslash is the escape of LIKE, if none is named
_OPS: dict[type, CompareOp] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_FLIPPED: dict[CompareOp, CompareOp] = {
    "=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
_TEXTS: dict[type, Any] = {
    exp.StartsWith: "STARTS WITH", exp.EndsWith: "ENDS WITH", exp.Contains: "CONTAINS",
}  # fmt: skip


class Reader(TermReader):
    """One condition on its way."""

    def condition(self, node: exp.Expression | None) -> Condition:
        found = next((CONDITIONS[k] for k in type(node).__mro__ if k in CONDITIONS), None)
        if node is None or found is None:
            self.refuse(node)
        parts, read = found
        self.understand(node, {*parts, "negate"})
        condition = read(self, node)
        return negated(condition) if node.args.get("negate") else condition

    # --- kinds of conditions --------------------------------------------------

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
