"""Operands of a selector: names, calls and constants, and the signs before them."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

from tamis.language.cursor import Cursor
from tamis.language.functions import ALIASES, FUNCTIONS, ITEM
from tamis.language.lexer import Tokens, unquote
from tamis.language.limits import Limits
from tamis.language.literals import MAGNITUDE, ConstantError, date, in_range, negated, timestamp
from tamis.language.tree import Attribute, Call, Literal, Negate, Term
from tamis.schema import Type

JOINED = "|| means OR; strings cannot be joined, so compare them one by one"
UNARY = 70  # the power of a sign: no operator binds tighter


class Operands(Cursor, ABC):
    """Reads what can stand before or after an operator.

    `number` gives the value of the dialect's number tokens.
    """

    sql = True  # whether DATE '2013-01-01' is a constant, as it is everywhere but in JMS

    def __init__(
        self, text: str, tokens: Tokens, limits: Limits, number: Callable[[str], int | float]
    ) -> None:
        super().__init__(text, tokens)
        self.limits, self.number = limits, number
        self.signed: set[int] = set()  # where attributes stand that had a plus: they are numbers

    @abstractmethod
    def nested_term(self, power: int) -> Term:
        """A term one level deeper, with the operators that bind tighter than `power`."""

    def name(self) -> Term:
        is_moment = self.is_moment()
        _, value, at = self.take()
        if is_moment:
            return self.moment(timestamp if value.upper() == "TIMESTAMP" else date, at)
        if self.kinds[self.i] == "[" and self.sql:
            return self.keyed(Attribute(value, at))
        if self.kinds[self.i] != "(":
            return Attribute(value, at)
        lower = value.lower()
        lower = ALIASES.get(lower, lower)
        return Call(lower if lower in FUNCTIONS else value, self.arguments(), at)

    def keyed(self, name: Attribute) -> Term:
        """`labels['env']`: the value of a map."""
        opening = self.take()[2]
        kind, key, at = self.take()
        if kind != "string":
            hint = f"write {name.name}['key'] for a map, ANY({name.name}) for a list"
            self.fail("only strings stand in brackets behind a name", at, hint)
        self.close("[", opening)
        return Call(ITEM, (name, Literal(Type.STRING, unquote(key), at)), name.at)

    def is_moment(self) -> bool:
        """Whether TIMESTAMP '...' or DATE '...' comes next."""
        if self.kinds[self.i + 1 : self.i + 2] != ["string"]:
            return False
        if self.kinds[self.i] == "name":
            return self.sql and self.values[self.i].upper() == "DATE"
        return self.kinds[self.i] == "TIMESTAMP"

    def arguments(self) -> tuple[Term, ...]:
        opening = self.take()[2]
        found: list[Term] = []
        while self.kinds[self.i] != ")" or found:
            found.append(self.nested_term(0))
            if self.kinds[self.i] != ",":
                break
            self.i += 1
        self.close("(", opening)
        return tuple(found)

    def moment(self, read: Callable[[str], datetime.datetime], at: int) -> Literal:
        _, value, place = self.take()
        try:
            return Literal(Type.TIMESTAMP, read(unquote(value)), at)
        except ConstantError as bad:
            self.fail(bad.what, place, bad.hint)

    def string(self) -> Literal:
        _, value, at = self.take()
        return Literal(Type.STRING, unquote(value), at)

    def boolean(self) -> Literal:
        kind, _, at = self.take()
        return Literal(Type.BOOL, kind == "TRUE", at)

    def number_literal(self) -> Literal:
        _, value, at = self.take()
        try:
            return Literal.of(in_range(self.number(value)), at)
        except ConstantError as bad:
            self.fail(bad.what, at, bad.hint)

    def minus(self) -> Term:
        at = self.take()[2]
        if self.kinds[self.i] == "number":
            return self.negative(at)
        operand = self.nested_term(UNARY)
        if isinstance(operand, Literal) and operand.type.numeric:
            return Literal.of(negated(cast("int | float", operand.value)), at)
        return Negate(operand, at)

    def negative(self, at: int) -> Literal:
        """A minus and a number are one constant: only so can the smallest integer be written."""
        _, text, place = self.take()
        try:
            value = self.number(text)
            return Literal.of(negated(value if value == MAGNITUDE else in_range(value)), at)
        except ConstantError as bad:
            self.fail(bad.what, place, bad.hint)

    def plus(self) -> Term:
        self.i += 1
        at = self.places[self.i]
        operand = self.nested_term(UNARY)
        if isinstance(operand, Literal) and not operand.type.numeric:
            self.fail(f"{name_of(operand)} has no sign", at, "remove the +")
        self.signed.add(operand.at)
        return operand


def name_of(term: Term) -> str:
    match term:
        case Literal(kind):
            return "a number" if kind.numeric else f"a {kind.value}"
        case Call(name):
            return f"{name}(...)"
        case Attribute(name):
            return f"+{name}"
    return "arithmetic"
