"""The shared diagram of conditions: from trees to nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tamis.diagram import packed
from tamis.diagram.questions import Terms, Vocabulary
from tamis.diagram.shared import BUDGET, Shared, build, no_knowledge
from tamis.diagram.variables import Atoms, order, with_variables
from tamis.language.tree import Condition
from tamis.logic import Formula, Reducer, Semantics
from tamis.logic.atoms import all_of
from tamis.schema import Schema


@dataclass(frozen=True, slots=True)
class Diagram:
    """The nodes of some conditions, the atoms that they test, and the terms of these."""

    shared: Shared
    atoms: Atoms
    vocabulary: Vocabulary


def diagram_of(
    conditions: Sequence[Condition],
    schema: Schema | None = None,
    semantics: Semantics = "sql",
    *,
    restricting: bool = True,
    budget: int = BUDGET,
) -> Diagram:
    """Root i is condition i, requirements included: no attribute is taken for granted."""
    reducer = Reducer(semantics, schema)
    formulas = [all_of([reducer.adequacy(c), reducer.holds(c)]) for c in conditions]
    return diagram_of_formulas(formulas, schema, restricting=restricting, budget=budget)


def diagram_of_formulas(
    formulas: Sequence[Formula],
    schema: Schema | None = None,
    *,
    restricting: bool = True,
    budget: int = BUDGET,
) -> Diagram:
    """Root i is formula i."""
    vocabulary = Vocabulary(Terms(schema))
    programs = [vocabulary.program(formula, whole=True) for formula in formulas]
    literals = [w for p in programs for w in p.words if packed.is_literal(w)]
    asked = packed.asked(np.array(literals, np.int32))
    keys = np.array([k for p in programs for k in p.keys], np.int64)
    atoms, variable = order(vocabulary, asked, keys)
    offsets = np.cumsum([0, *(len(p.words) for p in programs)]).astype(np.int64)
    words = with_variables(np.array([w for p in programs for w in p.words], np.int32), variable)
    knowledge = atoms.variables if restricting else no_knowledge(len(atoms.question))
    shared = build(offsets, words, knowledge, restricting=restricting, budget=budget)
    return Diagram(shared, atoms, vocabulary)
