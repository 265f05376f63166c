"""Attributes that may hold one value or a list of them.

In many rule languages a condition on a list holds if it holds of one element, and the rule does
not say which attributes are lists. A schema says it; without one, both are asked: of a value that
is no list, and of the elements of a list. Only one of the two can be true, as a list is unlike
every value, and a value that is no list is, to ANY, one element unlike everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tamis.errors import RuleError
from tamis.language import Attribute, Call, Compare, Condition, IsNull, Literal, Term
from tamis.rules.conditions import all_of, any_of, defined, equal, like, negated
from tamis.schema import Schema, Shape, Type

Predicate = Callable[[Term], Condition]


@dataclass(frozen=True, slots=True)
class Shapes:
    """What is known of the attributes, and how the rules are to be read.

    `keywords`: the attribute that holds the raw message, for Sigma. `dialect` and `collation`
    (binary or nocase): of SQL.
    """

    schema: Schema | None = None
    keywords: str | None = None
    dialect: str | None = None
    collation: str | None = None

    def known(self, name: str, at: str) -> Shape | None:
        if self.schema is None:
            return None
        if name not in self.schema:
            what = f"the schema has no attribute {name}"
            raise RuleError(what, construct="unknown attribute", at=at)
        shape = self.schema[name].shape
        if shape is Shape.MAP:
            raise RuleError(f"{name} is a map", construct="map as a value", at=at)
        return shape

    def type(self, name: str) -> Type | None:
        return self.schema[name].type if self.schema and name in self.schema else None

    def some(self, name: str, predicate: Predicate, at: str) -> Condition:
        """The value is so, or some element of the list."""
        plain, element = Attribute(name), Call("any", (Attribute(name),))
        shape = self.known(name, at)
        if shape is Shape.SCALAR:
            return predicate(plain)
        if shape is Shape.LIST:
            return predicate(element)
        return any_of([predicate(plain), predicate(element)])

    def some_not(self, name: str, predicate: Predicate, at: str) -> Condition:
        """There is a value, or an element of the list, that is not so."""
        plain, every = Attribute(name), Call("all", (Attribute(name),))
        shape = self.known(name, at)
        if shape is Shape.SCALAR:
            return negated(predicate(plain))
        if shape is Shape.LIST:
            return negated(predicate(every))
        one = all_of([_scalar(plain), negated(predicate(plain))])
        return any_of([one, all_of([_some_scalar(plain), negated(predicate(every))])])

    def there(self, name: str, at: str) -> Condition:
        """There is a value, or a list with a value in it."""
        plain = Attribute(name)
        shape = self.known(name, at)
        if shape is Shape.SCALAR:
            return defined(plain)
        if shape is Shape.LIST:
            return Compare(Call("size", (plain,)), ">", Literal.of(0))
        return any_of([_scalar(plain), _some_scalar(plain)])

    def absent(self, name: str, at: str) -> Condition:
        """There is no value, nor a list with a value in it; perhaps a nested message."""
        plain = Attribute(name)
        shape = self.known(name, at)
        if shape is Shape.SCALAR:
            return IsNull(plain)
        if shape is Shape.LIST:
            return any_of([IsNull(plain), Compare(Call("size", (plain,)), "=", Literal.of(0))])
        other = [negated(_scalar(plain)), *map(negated, _kinds(Call("any", (plain,))))]
        return any_of([IsNull(plain), all_of(other)])


def _scalar(term: Term) -> Condition:
    """The term is no list and no nested message: those are unlike everything, also themselves."""
    return Compare(term, "=", term)


def _some_scalar(attribute: Attribute) -> Condition:
    return any_of(_kinds(Call("any", (attribute,))))


def _kinds(term: Term) -> list[Condition]:
    """The term is a text, a number, a truth value."""
    number = [Compare(term, ">=", Literal.of(0)), Compare(term, "<", Literal.of(0))]
    return [like(term, None), *number, equal(term, [False, True])]
