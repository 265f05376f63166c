"""Tokens to a condition tree: a Pratt parser, one for both dialects.

Every operator has a power; `expression(power)` reads an operand and then every
operator that binds tighter than `power`. An operand is a term or a condition: which
of the two is meant shows only at the operator after it, so both come out of the same
function, and `term` and `condition` turn one into what the place needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from tamis.errors import SelectorError
from tamis.language.addresses import in_networks, network
from tamis.language.cursor import CLOSING
from tamis.language.functions import FUNCTIONS
from tamis.language.lexer import SOFT, unquote
from tamis.language.limits import Limits
from tamis.language.literals import ConstantError
from tamis.language.measure import height, size
from tamis.language.operands import JOINED, Operands, name_of
from tamis.language.patterns import check_like, compile_regex, longest_search
from tamis.language.tree import (
    And,
    Arithmetic,
    ArithmeticOp,
    Attribute,
    Between,
    Call,
    Compare,
    CompareOp,
    Condition,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Regex,
    Term,
    Text,
    TextOp,
    flat,
    quantifier,
)
from tamis.schema import Type

OR, AND, NOT, COMPARE, ADD, MULTIPLY = range(10, 70, 10)
TERMS = (Attribute, Literal, Arithmetic, Negate, Call)
Node = Term | Condition


class Parser(Operands):
    """Reads one selector."""

    expanded = 0  # nodes copied where conditions are compared
    nesting = 0
    outside = False  # whether x NOT BETWEEN a AND b is x < a OR x > b, as JMS says

    def selector(self) -> Condition:
        """The whole text as one condition. The empty selector is TRUE."""
        if self.kinds[0] == "end":
            return Constant(True)
        result = self.condition(0)
        if self.kinds[self.i] != "end":
            self.fail_after_condition()
        return result

    # --- the Pratt loop ------------------------------------------------------

    def expression(self, power: int) -> Node:
        prefix = PREFIX.get(self.kinds[self.i])
        if prefix is None or (prefix is Parser.negation and power > NOT):
            self.fail_before_operand()
        node = prefix(self)
        while True:
            infix = INFIX.get(self.kinds[self.i])
            if infix is None or infix[0] <= power:
                return node
            node = infix[1](self, node)

    def nested(self, power: int) -> Node:
        """An expression one level deeper: inside brackets, NOT, a sign or a call."""
        self.nesting += 1
        if self.nesting > self.limits.depth:
            raise self.limits.crossed(
                "depth", "the selector is nested too deeply", self.text, self.places[self.i]
            )
        node = self.expression(power)
        self.nesting -= 1
        return node

    def nested_term(self, power: int) -> Term:
        at = self.places[self.i]
        return self.as_term(self.nested(power), at)

    def term(self, power: int) -> Term:
        at = self.places[self.i]
        return self.as_term(self.expression(power), at)

    def as_term(self, node: Node, at: int) -> Term:
        if isinstance(node, TERMS):
            return node
        self.fail("expected a value, not a condition", at, "conditions are joined with AND and OR")

    def condition(self, power: int) -> Condition:
        return self.as_condition(self.expression(power))

    def as_condition(self, node: Node) -> Condition:
        """`node` as a condition: `flag` means `flag = TRUE`."""
        if not isinstance(node, TERMS):
            return node
        if isinstance(node, Literal) and isinstance(node.value, bool):
            return Constant(node.value, node.at)
        if self.may_be_bool(node):
            return Compare(node, "=", Literal(Type.BOOL, True, node.at), node.at)
        what = f"{name_of(node)} is not a condition"
        hint = JOINED if "||" in self.values else "compare it with something, for example x = 5"
        self.fail(what, node.at, hint)

    def may_be_bool(self, term: Term) -> bool:
        if isinstance(term, Call):
            return term.name not in FUNCTIONS or term.name == "coalesce"
        return isinstance(term, Attribute) and term.at not in self.signed

    # --- brackets, NOT and ⊥ -------------------------------------------------

    def group(self) -> Node:
        opening = self.i
        self.i += 1
        if self.kinds[self.i] == CLOSING[self.kinds[opening]]:
            self.fail("expected a condition between the brackets", self.places[self.i], "add one")
        node = self.nested(0)
        self.close(self.kinds[opening], self.places[opening])
        return node

    def negation(self) -> Condition:
        at = self.take()[2]
        return Not(self.as_condition(self.nested(NOT)), at)

    def bottom(self) -> Condition:
        """`⊥ = v`: the undefined value of ICSE 2001, section 4."""
        at = self.take()[2]
        kind = self.kinds[self.i]
        if kind not in ("=", "<>"):
            self.fail("⊥ can only be compared with = or ≠", at, "write v = ⊥, or v IS NULL")
        self.i += 1
        null = IsNull(self.nested_term(COMPARE), at)
        self.forbid_chain()
        return null if kind == "=" else Not(null, at)

    # --- operators -----------------------------------------------------------

    def conjunction(self, left: Node) -> Condition:
        return And(*self.parts(left, AND, "AND", And))

    def disjunction(self, left: Node) -> Condition:
        return Or(*self.parts(left, OR, "OR", Or))

    def parts(
        self, left: Node, power: int, kind: str, join: type[And | Or]
    ) -> tuple[tuple[Condition, ...], int]:
        """All parts of a chain `a AND b AND ...`, flat, and where it starts."""
        found = [self.as_condition(left)]
        while self.kinds[self.i] == kind:
            self.i += 1
            found.append(self.condition(power))
        all_parts = flat(join, found)
        return all_parts, all_parts[0].at

    def arithmetic(self, left: Node) -> Term:
        kind = self.take()[0]
        first = self.as_term(left, left.at)
        return Arithmetic(cast("ArithmeticOp", kind), first, self.term(INFIX[kind][0]), first.at)

    def compare(self, left: Node) -> Condition:
        kind, _, at = self.take()
        if self.kinds[self.i] == "⊥":
            return self.compare_with_bottom(left, kind)
        right = self.expression(COMPARE)
        self.forbid_chain()
        if isinstance(left, TERMS) and isinstance(right, TERMS):
            return Compare(left, cast("CompareOp", kind), right, left.at)
        if kind not in ("=", "<>"):
            self.fail("conditions have no order", at, "join conditions with AND, or use = or <>")
        return self.equate(left, right, kind == "=", at)

    def compare_with_bottom(self, left: Node, kind: str) -> Condition:
        at = self.take()[2]
        if kind not in ("=", "<>"):
            self.fail("⊥ can only be compared with = or ≠", at, "write v = ⊥, or v IS NULL")
        null = IsNull(self.as_term(left, left.at), left.at)
        self.forbid_chain()
        return null if kind == "=" else Not(null, left.at)

    def equate(self, left: Node, right: Node, equal: bool, at: int) -> Condition:
        """`left = right` or `left <> right`, where one at least is a condition."""
        p, not_p = self.truths(left, equal)
        q, not_q = self.truths(right, equal)
        for one, negative, other in ((p, not_p, q), (q, not_q, p)):
            if isinstance(other, Constant):
                return one if other.value == equal else negative
        self.expanded += size(p, self.limits.expansion) + size(q, self.limits.expansion)
        if self.expanded > self.limits.expansion:
            what = "= between conditions makes this selector too big"
            raise self.limits.crossed("expansion", what, self.text, at)
        if not equal and not isinstance(left, TERMS) and not isinstance(right, TERMS):
            q, not_q = not_q, q
        cases = And(flat(And, (p, q)), p.at), And(flat(And, (not_p, not_q)), p.at)
        return Or(cases, p.at)

    def truths(self, node: Node, equal: bool) -> tuple[Condition, Condition]:
        """That `node` is true, and that it is not.

        A term is a value: that it is equal (or not) to TRUE, and to FALSE. Of a string none holds.
        """
        condition = self.as_condition(node)
        if isinstance(node, Attribute | Call):
            op: CompareOp = "=" if equal else "<>"
            with_true = Compare(node, op, Literal(Type.BOOL, True, node.at), node.at)
            return with_true, Compare(node, op, Literal(Type.BOOL, False, node.at), node.at)
        return condition, Not(condition, condition.at)

    def infix_not(self, left: Node) -> Condition:
        at = self.places[self.i]
        if self.kinds[self.i + 1] not in NEGATABLE:
            self.fail("expected AND, OR or a comparison", at, "NOT stands before a condition")
        self.i += 1
        found = cast("Condition", INFIX[self.kinds[self.i]][1](self, left))
        if isinstance(left, Call) and (call := quantifier(left)) is not None:
            other = "all" if call.name == "any" else "any"
            return Not(_with_quantifier(found, other), left.at)  # some are not: not all are
        if isinstance(found, Between) and self.outside:
            below = Compare(found.term, "<", found.low, left.at)
            return Or((below, Compare(found.term, ">", found.high, left.at)), left.at)
        return Not(found, left.at)

    def between(self, left: Node) -> Condition:
        self.i += 1
        term = self.as_term(left, left.at)
        low = self.term(COMPARE)
        if self.kinds[self.i] != "AND":
            self.fail("BETWEEN needs two bounds", self.places[self.i], "write BETWEEN 1 AND 10")
        self.i += 1
        found = Between(term, low, self.term(COMPARE), left.at)
        self.forbid_chain()
        return found

    def is_null(self, left: Node) -> Condition:
        self.i += 1
        negative = self.kinds[self.i] == "NOT"
        self.i += negative
        if self.kinds[self.i] != "NULL":
            self.fail("expected NULL", self.places[self.i], "write IS NULL or IS NOT NULL")
        self.i += 1
        null = IsNull(self.as_term(left, left.at), left.at)
        self.forbid_chain()
        return Not(null, left.at) if negative else null

    def membership(self, left: Node) -> Condition:
        self.i += 1
        term = self.as_term(left, left.at)
        opening, at = self.kinds[self.i], self.places[self.i]
        if opening == "name" and self.values[self.i].upper() == "CIDR" and self.sql:
            return self.networks(term)
        if opening not in CLOSING:
            self.fail("IN needs a list", at, "write IN (1, 2), IN {a, b} or the range IN [1, 9]")
        self.i += 1
        found = self.range(term, at) if opening == "[" else self.listed(term, opening, at)
        self.forbid_chain()
        return found

    def networks(self, term: Term) -> Condition:
        """`IN CIDR '10.0.0.0/8'`, or a list of such."""
        self.i += 1
        opening, at = self.kinds[self.i], self.places[self.i]
        if opening in ("(", "{"):
            self.i += 1
            listed = self.listed(term, opening, at)
            assert isinstance(listed, In)
            items = listed.values
        else:
            items = (self.item(bare=False),)
        try:
            for one in items:
                if one.type is not Type.STRING:
                    raise ConstantError("networks are strings", "write '10.0.0.0/8'")
            found = in_networks(term, [network(str(one.value)) for one in items])
        except ConstantError as error:
            self.fail(error.what, at, error.hint)
        self.forbid_chain()
        return found

    def range(self, term: Term, opening: int) -> Condition:
        low = self.nested_term(0)
        if self.kinds[self.i] != ",":
            self.fail("a range needs two bounds", self.places[self.i], "write IN [1, 10]")
        self.i += 1
        high = self.nested_term(0)
        self.close("[", opening)
        return Between(term, low, high, term.at)

    def listed(self, term: Term, opening: str, at: int) -> Condition:
        items: list[Literal] = []
        while True:
            items.append(self.item(bare=opening == "{"))
            if len(items) > self.limits.items:
                what = "this IN list has too many constants"
                raise self.limits.crossed("items", what, self.text, items[-1].at)
            if self.kinds[self.i] != ",":
                break
            self.i += 1
        self.close(opening, at)
        return In(term, tuple(items), term.at)

    def item(self, bare: bool) -> Literal:
        """One constant of a list; a bare word in braces is a string (ICSE 2001: car ∈ {GM, VW})."""
        kind, value, at = self.kinds[self.i], self.values[self.i], self.places[self.i]
        is_moment = self.is_moment()
        if bare and value[:1].isalpha() and kind not in LITERALS and not is_moment:
            self.i += 1
            return Literal(Type.STRING, value, at)
        if kind not in LITERALS and not is_moment:
            self.fail("IN lists hold constants only", at, _item_hint(kind))
        found = PREFIX[kind](self)
        if not isinstance(found, Literal):
            self.fail("IN lists hold constants only", at, "write x = a OR x = b")
        return found

    def text_test(self, left: Node) -> Condition:
        op = kind = self.take()[0]
        if kind in ("STARTS", "ENDS"):
            op = f"{kind} WITH"
            if self.kinds[self.i] != "WITH":
                self.fail(f"expected WITH after {kind}", self.places[self.i], f"write {op}")
            self.i += 1
        term, other = self.as_term(left, left.at), self.term(COMPARE)
        self.forbid_chain()
        return Text(term, cast("TextOp", op), other, left.at)

    def substring(self, left: Node) -> Condition:
        """`l ⊑ r`: l is a substring of r. A constant on the left asks what the right contains."""
        self.i += 1
        term, other = self.as_term(left, left.at), self.term(COMPARE)
        self.forbid_chain()
        if isinstance(term, Literal) and term.type is Type.STRING:
            return Text(other, "CONTAINS", term, left.at)
        return Text(term, "WITHIN", other, left.at)

    def like(self, left: Node) -> Condition:
        kind = self.take()[0]
        term = self.as_term(left, left.at)
        pattern, at = self.pattern(kind)
        escape = self.escape()
        self.forbid_chain()
        try:
            check_like(pattern, escape)
        except ConstantError as bad:
            self.fail(bad.what, at, bad.hint)
        if longest_search(pattern, escape) > self.limits.pattern:
            what = "the part between two % is too long for one that holds a _"
            raise self.limits.crossed("pattern", what, self.text, at)
        return Like(term, pattern, escape, left.at, any_case=kind == "ILIKE")

    def escape(self) -> str | None:
        if self.kinds[self.i] != "ESCAPE":
            return None
        self.i += 1
        escape, at = self.pattern("ESCAPE")
        if len(escape) != 1:
            self.fail("ESCAPE takes exactly one character", at, "for example ESCAPE '!'")
        return escape

    def matches(self, left: Node) -> Condition:
        self.i += 1
        term = self.as_term(left, left.at)
        pattern, at = self.pattern("MATCHES")
        self.forbid_chain()
        if len(pattern) > self.limits.pattern:
            raise self.limits.crossed("pattern", "this pattern is too long", self.text, at)
        try:
            compile_regex(pattern)
        except ConstantError as bad:
            self.fail(bad.what, at, bad.hint)
        return Regex(term, pattern, left.at)

    def pattern(self, keyword: str) -> tuple[str, int]:
        kind, value, at = self.take()
        if kind != "string":
            self.fail(f"{keyword} needs a string constant", at, f"write {keyword} '...'")
        return unquote(value), at

    def forbid_chain(self) -> None:
        """Comparisons do not chain: `1 < x < 9` would compare a condition with a number."""
        infix = INFIX.get(self.kinds[self.i])
        if infix is not None and infix[0] == COMPARE:
            hint = "join two comparisons with AND, or put the first in ( )"
            self.fail("comparisons do not chain", self.places[self.i], hint)


def check_height(condition: Node, text: str, limits: Limits) -> None:
    """Refuse a tree that is higher than the limit, or than Python can walk."""
    top, at = height(condition)
    if top > limits.depth:
        raise limits.crossed("depth", "the selector is nested too deeply", text, at)
    if top > sys.getrecursionlimit() // 4:
        raise too_deep_for_python(limits, text, at)


def too_deep_for_python(limits: Limits, text: str, at: int = 0) -> SelectorError:
    what = "the selector is nested too deeply for Python's stack"
    hint = "nest less, or call sys.setrecursionlimit as well"
    return limits.crossed("depth", what, text, at, hint)


def _with_quantifier(predicate: Condition, name: str) -> Condition:
    """The predicate with the quantifier of its term replaced."""
    assert isinstance(predicate, Between | In | Text | Like | Regex)

    def change(term: Term) -> Term:
        assert isinstance(term, Call)
        if quantifier(term) is term:
            return replace(term, name=name)
        return replace(term, arguments=tuple(map(change, term.arguments)))

    return replace(predicate, term=change(predicate.term))


def _item_hint(kind: str) -> str:
    if kind in (")", "}", ","):
        return "add a constant"
    if kind == "NULL":
        return "write OR x IS NULL"
    return "for an attribute, write x = a OR x = b; for a string, add quotes"


LITERALS = frozenset(("string", "number", "TRUE", "FALSE", "-", "+"))
NEGATABLE = frozenset(
    ("BETWEEN", "IN", "LIKE", "ILIKE", "CONTAINS", "WITHIN", "STARTS", "ENDS", "MATCHES")
)
PREFIX: dict[str, Callable[[Parser], Node]] = {
    "name": Parser.name,
    "string": Parser.string,
    "number": Parser.number_literal,
    "TRUE": Parser.boolean,
    "FALSE": Parser.boolean,
    "-": Parser.minus,
    "+": Parser.plus,
    "(": Parser.group,
    "[": Parser.group,
    "NOT": Parser.negation,
    "⊥": Parser.bottom,
    **dict.fromkeys(SOFT, Parser.name),
}
INFIX: dict[str, tuple[int, Callable[[Parser, Node], Node]]] = {
    "OR": (OR, Parser.disjunction),
    "AND": (AND, Parser.conjunction),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), (COMPARE, Parser.compare)),
    **dict.fromkeys(("CONTAINS", "WITHIN", "STARTS", "ENDS"), (COMPARE, Parser.text_test)),
    "⊑": (COMPARE, Parser.substring),
    "NOT": (COMPARE, Parser.infix_not),
    "BETWEEN": (COMPARE, Parser.between),
    "IN": (COMPARE, Parser.membership),
    "IS": (COMPARE, Parser.is_null),
    "LIKE": (COMPARE, Parser.like),
    "ILIKE": (COMPARE, Parser.like),
    "MATCHES": (COMPARE, Parser.matches),
    "+": (ADD, Parser.arithmetic),
    "-": (ADD, Parser.arithmetic),
    "*": (MULTIPLY, Parser.arithmetic),
    "/": (MULTIPLY, Parser.arithmetic),
    "DIV": (MULTIPLY, Parser.arithmetic),
    "%": (MULTIPLY, Parser.arithmetic),
}
