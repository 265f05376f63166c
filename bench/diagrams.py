"""Shared diagrams of the ICSE queries, for counting nodes and for the one-message evaluators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from bench.workloads import icse
from tamis.diagram.conditions import Diagram
from tamis.diagram.shared import Shared, build, no_knowledge
from tamis.language import And, Condition, Not, Or, attributes, parse
from tamis.logic import Reducer, atoms

_PRINTED = {parse(atom): number for number, atom in enumerate(icse.ATOMS)}


def printed(conditions: Sequence[Condition]) -> Shared:
    """The diagram over the 208 atoms as printed, with no knowledge of what they mean.

    This is the paper's "before restriction": `i1 < 10` and `i1 >= 10` are two variables.
    """
    programs = [list(_words(condition)) for condition in conditions]
    offsets = np.cumsum([0, *map(len, programs)]).astype(np.int64)
    words = np.array([word for program in programs for word in program], np.int32)
    variables = no_knowledge(len(icse.ATOMS))
    return build(offsets, words, variables, restricting=False, budget=1_000_000)


def _words(condition: Condition, negated: bool = False) -> Iterator[int]:
    """The condition in postfix words (see diagram.kernels.build_one), NOT pushed to the atoms."""
    match condition:
        case Not(part):
            yield from _words(part, not negated)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _words(part, negated)
            conjunction = isinstance(condition, And) != negated
            yield -2 * len(parts) - (1 if conjunction else 2)
        case _:
            yield 2 * _PRINTED[condition] + negated


def truths(diagram: Diagram, table: pa.Table) -> np.ndarray:
    """A row for each message, a column for each variable: 1 true, 0 false, 2 undefined.

    Undefined (the paper's star) is every variable whose attribute the message leaves undefined.
    """
    rows = table.to_pylist()
    result = np.empty((len(rows), len(diagram.atoms.question)), np.uint8)
    known = _atoms(diagram)
    for v, key in enumerate(zip(diagram.atoms.question, diagram.atoms.key, strict=True)):
        atom = known[int(key[0]), int(key[1])]
        (name,) = attributes(atom.term)
        result[:, v] = [2 if row[name] is None else atom.holds(row[name]) for row in rows]
    return result


def _atoms(diagram: Diagram) -> dict[tuple[int, int], object]:
    """The atoms that the printed ones become under total and strict semantics, by number."""
    found = {}
    for semantics in ("total", "strict"):
        reducer = Reducer(semantics, icse.SCHEMA)
        for text in icse.ATOMS:
            condition = parse(text)
            for formula in (reducer.holds(condition), reducer.adequacy(condition)):
                found.update({diagram.vocabulary.ask(a): a for a in atoms(formula)})
    return found
