"""Selectors in, templates and keys out."""

from __future__ import annotations

from typing import Literal

from tamis.diagram.questions import Terms, Vocabulary
from tamis.engine.templates import Templates
from tamis.language import Limits, check, parse
from tamis.language.tree import Condition
from tamis.logic import Lookups, Reducer, Semantics
from tamis.logic.atoms import all_of
from tamis.schema import Schema

Dialect = Literal["tamis", "jms"]


class Intake:
    """How one matcher reads selectors: schema, semantics, dialect, limits, lookups."""

    def __init__(
        self,
        schema: Schema | None,
        semantics: Semantics,
        dialect: Dialect,
        limits: Limits,
        lookups: Lookups,
    ) -> None:
        self.schema, self.semantics, self.dialect = schema, semantics, dialect
        self.limits, self.lookups = limits, lookups
        self.reducer = Reducer(semantics, schema)
        self.vocabulary = Vocabulary(Terms(schema))
        self.templates = Templates()

    def condition(self, selector: str) -> Condition:
        """The checked condition of a selector, or SelectorError."""
        condition = parse(selector, dialect=self.dialect, limits=self.limits)
        check(condition, self.schema, text=selector, lookups=tuple(self.lookups))
        return condition

    def read(self, selector: str) -> tuple[int, tuple[int, ...]]:
        """The template and the keys of a selector."""
        condition = self.condition(selector)
        formula = all_of([self.reducer.adequacy(condition), self.reducer.holds(condition)])
        program = self.vocabulary.program(formula)
        return self.templates.number(program.words, program.required), program.keys
