"""Segments to look into: compiled from selectors alone, without a matcher around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tamis.diagram.variables import Atoms, order
from tamis.diagram.wording import atom_of
from tamis.engine.choosing.claims import Compiling
from tamis.engine.ground.layout import I4
from tamis.engine.ground.sources import Source
from tamis.engine.lookup.term_index import Index, indexes
from tamis.engine.reading.intake import Intake
from tamis.engine.reading.template_programs import literals
from tamis.language.limits import Limits
from tamis.logic import Atom, Semantics
from tamis.schema import Schema


@dataclass(frozen=True)
class Read:
    """Selectors as far as compiling knows them before it clusters anything."""

    intake: Intake
    source: Source
    atoms: Atoms
    variable: I4  # of each literal
    index: Index

    @property
    def vocabulary(self):
        return self.intake.vocabulary

    def all_atoms(self) -> list[Atom]:
        return [atom_of(self, v) for v in range(len(self.atoms.question))]

    def compiling(self) -> Compiling:
        used = self.intake.templates.used(self.source.template)
        return Compiling(self.vocabulary, used, self.source, self.atoms, self.variable, self.index)


def read(
    selectors: Sequence[str], schema: Schema | None = None, semantics: Semantics = "sql"
) -> Read:
    intake = Intake(schema, semantics, "tamis", Limits(), {})
    found = [intake.read(selector) for selector in selectors]
    offsets = np.cumsum([0, *(len(keys) for _, keys in found)]).astype(np.int64)
    source = Source(
        np.arange(len(found), dtype=np.int32),
        np.array([template for template, _ in found], np.int32),
        offsets,
        np.array([key for _, keys in found for key in keys], np.int64),
    )
    used = intake.templates.used(source.template)
    asked = np.empty(len(source.keys), np.int32)
    literals(used.offsets, used.words, used.which, asked)
    atoms, variable = order(intake.vocabulary, asked, source.keys)
    return Read(intake, source, atoms, variable, indexes(intake.vocabulary, atoms, used.items))
