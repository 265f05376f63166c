"""Names in rules: a bare name is the component, else the attribute; `event.x` is the event's.

Inside, every name is written in full: `state.max`, `event.price`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from tamis.errors import SelectorError
from tamis.flow.model.expressions import map_term, map_terms
from tamis.language import Attribute, Condition, Constant, Limits, Term, parse
from tamis.language.lexer import tokenize
from tamis.language.literals import number
from tamis.language.parser import TERMS, Parser
from tamis.schema import Attribute as Column
from tamis.schema import Schema

EVENT, STATE = "event.", "state."
Node = TypeVar("Node", bound="Condition | Term")


class Scope:
    """The names that a rule can use, and what each stands for."""

    def __init__(self, scalars: Schema, events: Schema) -> None:
        self.scalars, self.events = scalars, events

    @cached_property
    def visible(self) -> Schema:
        """Every name that a rule may write, with its type."""
        bare = [Column(a.name, a.type) for a in self.scalars.attributes]
        bare += [Column(a.name, a.type) for a in self.events.attributes
                 if a.name not in self.scalars]  # fmt: skip
        known = {a.name for a in bare}
        return Schema((*bare, *(a for a in self._prefixed(EVENT) if a.name not in known)))

    @cached_property
    def full(self) -> Schema:
        """Every name as it is written in full, with its type."""
        return Schema((*self._prefixed(STATE), *self._prefixed(EVENT)))

    def _prefixed(self, prefix: str) -> list[Column]:
        columns = (self.scalars if prefix == STATE else self.events).attributes
        return [Column(prefix + a.name, a.type) for a in columns]

    def full_name(self, name: str) -> str:
        if name in self.scalars:
            return STATE + name
        bare = name.removeprefix(EVENT) if name not in self.events else name
        return EVENT + bare

    def qualified(self, node: Node) -> Node:
        """`node` with all names in full."""
        return renamed(node, self.full_name)


def read_condition(text: str) -> Condition:
    return parse(text) if text.strip() else Constant(True)


def read_term(text: str) -> Term:
    """The term that `text` says; SelectorError where it is none."""
    parser = Parser(text, tokenize(text), Limits(), number)
    found = parser.term(0)
    if parser.kinds[parser.i] != "end":
        raise SelectorError("expected the end of the term", text=text, at=parser.places[parser.i])
    return found


def renamed(node: Node, rename: Callable[[str], str]) -> Node:
    """`node` with every attribute's name changed."""

    def change(term: Term) -> Term:
        return map_term(term, _renaming)

    def _renaming(part: Term) -> Term | None:
        return Attribute(rename(part.name), part.at) if isinstance(part, Attribute) else None

    if isinstance(node, TERMS):
        return change(node)  # type: ignore[return-value]
    return map_terms(node, change)  # type: ignore[return-value]
