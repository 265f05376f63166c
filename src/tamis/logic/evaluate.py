"""Formulas and conditions on one message: the plain way, used to explain and to prepare a match."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tamis.errors import MessageError
from tamis.logic.atoms import All, Formula, Literal
from tamis.logic.reduce import Semantics
from tamis.logic.terms import Find, Lookups, value
from tamis.messages import lookup
from tamis.messages.message_values import fitted
from tamis.schema import Schema


def finder(message: Mapping[str, object], semantics: Semantics, schema: Schema | None) -> Find:
    """How terms see the message: values fit the schema, defaults filled in.

    Under total semantics a missing attribute is a MessageError that names all of them.
    """
    if schema is None:
        return lambda name: lookup(message, name)
    known = schema

    def find(name: str) -> object:
        found = lookup(message, name)
        if name not in known:
            return found
        converted = fitted(known, name, found)
        if converted is None and semantics == "default":
            return known[name].default
        return converted

    if semantics == "total":
        require_total(find, known)
    return find


def require_total(find: Callable[[str], object], schema: Schema) -> None:
    missing = [name for name in schema if find(name) is None]
    if missing:
        raise MessageError(
            f"the message does not define {', '.join(missing)}: "
            "total semantics needs every attribute"
        )


def satisfied(formula: Formula, find: Find, lookups: Lookups) -> bool:
    """Whether the formula is true of the message."""
    if isinstance(formula, Literal):
        return formula.atom.holds(value(formula.atom.term, find, lookups)) == formula.positive
    if isinstance(formula, All):
        return all(satisfied(part, find, lookups) for part in formula.parts)
    return any(satisfied(part, find, lookups) for part in formula.parts)
