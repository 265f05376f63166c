"""The paper's own evaluators, compiled: one message, one pass over all nodes (ICSE 2001, 6).

They are kept for tests and benchmarks; the engine sweeps many messages at once.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tamis.diagram.bdd import I4, U1
from tamis.diagram.conditions import Diagram
from tamis.diagram.shared import Shared
from tamis.diagram.wording import atom_of
from tamis.jit.kernel import kernel
from tamis.language import attributes
from tamis.logic import Lookups, Semantics, finder, value

STAR = 2  # undefined


def eval_bdd(shared: Shared, truth: U1) -> U1:
    """EvalBDD, figure 3: the value of every node where truth[a] is the truth of atom a.

    The value of condition i is that of node shared.roots[i] (Proposition 10).
    """
    return _eval_bdd(shared.test, shared.low, shared.high, shared.atoms, _checked(shared, truth))


def mv_eval_bdd(shared: Shared, truth: U1) -> U1:
    """MVEvalBDD, figure 5: atoms and nodes are 0, 1 or STAR.

    A node is STAR where any node below it asks a STAR atom. With STAR taken for false this is
    the strict semantics, provided that every attribute of a condition is asked somewhere below
    its root: diagrams built with semantics="strict" ask for all of them, other diagrams may
    have lost some (`price < 1000 OR price > 500` is restricted to TRUE).
    """
    return _mv_eval_bdd(shared.test, shared.low, shared.high, shared.atoms, _checked(shared, truth))


def truths_of(
    diagram: Diagram,
    message: Mapping[str, object],
    semantics: Semantics = "sql",
    *,
    lookups: Lookups | None = None,
    star: bool = False,
) -> U1:
    """The assignment alpha_m of section 6: the truth of each atom for one message.

    `star`: STAR where an attribute of the atom's term is undefined; else such atoms are false.
    """
    find = finder(message, semantics, diagram.vocabulary.terms.schema)
    truth = np.zeros(diagram.shared.atoms, np.uint8)
    for variable in range(len(truth)):
        atom = atom_of(diagram, variable)
        if star and any(find(name) is None for name in attributes(atom.term)):
            truth[variable] = STAR
        else:
            truth[variable] = atom.holds(value(atom.term, find, lookups or {}))
    return truth


def _checked(shared: Shared, truth: U1) -> U1:
    if len(truth) != shared.atoms:
        raise ValueError(f"{len(truth)} truth values for {shared.atoms} atoms")
    return np.ascontiguousarray(truth, np.uint8)


@kernel
def _eval_bdd(test: I4, low: I4, high: I4, atoms: int, truth: U1) -> U1:
    """Successors have smaller numbers, so one ascending pass is a topological order."""
    value = np.empty(test.size, np.uint8)
    value[0], value[1] = 0, 1
    for v in range(2, test.size):
        label = test[v]
        chosen = truth[label] if label < atoms else value[label - atoms]
        value[v] = value[high[v]] if chosen else value[low[v]]
    return value


@kernel
def _mv_eval_bdd(test: I4, low: I4, high: I4, atoms: int, truth: U1) -> U1:
    """As above with ITE*: it takes both successors, and is undefined where one of them is."""
    value = np.empty(test.size, np.uint8)
    value[0], value[1] = 0, 1
    for v in range(2, test.size):
        label = test[v]
        chosen = truth[label] if label < atoms else value[label - atoms]
        if chosen == STAR:
            value[v] = STAR
            continue
        no, yes = value[low[v]], value[high[v]]
        if no == STAR or yes == STAR:
            value[v] = STAR
        else:
            value[v] = yes if chosen else no
    return value
