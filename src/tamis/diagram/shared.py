"""The shared diagram of many conditions, as Python sees it: grow, build, collect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.diagram import bdd
from tamis.diagram.bdd import I4, I8, Nodes, Variables
from tamis.jit.kernel import arrays_from

DEPTH = 1 << 14  # frames of the kernels' stacks: no condition goes deeper
BUDGET = 512  # steps that one condition may take beyond some per word, before it is stratified


@dataclass(frozen=True, slots=True)
class Shared:
    """Live nodes in topological order, 0 and 1 first; `roots[i]` is the node of condition i.

    A test below `atoms` is a variable; test atoms + n is the value of node n (a stratum).
    """

    test: I4
    low: I4
    high: I4
    roots: I4
    atoms: int

    def __len__(self) -> int:
        """Nodes, without the two leaves."""
        return len(self.test) - 2


def no_knowledge(count: int) -> Variables:
    """Variables that restriction can say nothing about."""
    return Variables(
        np.arange(count, dtype=np.int32),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.full(count, -1, np.int32),
        np.full(count, -1, np.int64),
        np.zeros(count, np.int32),
        np.zeros(1, np.uint8),
    )


def build(
    offsets: I8, words: I4, variables: Variables, *, restricting: bool = True, budget: int = BUDGET
) -> Shared:
    """The shared diagram of the programs words[offsets[i]:offsets[i + 1]] (bdd.build_one)."""
    conditions = len(offsets) - 1
    roots = np.zeros(conditions, np.int32)
    nodes = allocate(max(1024, 2 * len(words)))
    done = 0
    while True:
        done = bdd.build(nodes, variables, offsets, words, roots, done, restricting, budget)
        if done == conditions:
            return collect(nodes, len(variables.group), roots)
        nodes = grown(nodes)


def allocate(capacity: int) -> Nodes:
    slots = 1 << (4 * capacity - 1).bit_length()
    nodes = Nodes(
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int32),
        np.zeros(slots, np.int32),
        np.zeros((slots // 4, 4), np.int32),
        np.full(capacity, -1, np.int32),
        np.zeros(capacity, np.int32),
        np.full(capacity, -1, np.int32),
        np.array([2, 0, 0], np.int64),
        np.empty((DEPTH, 10), np.int64),
    )
    nodes.test[:2] = bdd.LEAF
    nodes.low[1] = nodes.high[1] = 1
    return nodes


def grown(nodes: Nodes) -> Nodes:
    """Twice the room, the same nodes under the same numbers."""
    larger = allocate(2 * len(nodes.test))
    for name in ("test", "low", "high", "memo", "strata", "stratum"):
        getattr(larger, name)[: len(nodes.test)] = getattr(nodes, name)
    larger.count[:] = nodes.count
    bdd.rehash(larger)
    return larger


def collect(nodes: Nodes, atoms: int, roots: I4) -> Shared:
    """Only the nodes that some root needs, renumbered in the same order."""
    kept = arrays_from(bdd.live, nodes, atoms, roots).astype(bool)
    kept[:2] = True
    number = (np.cumsum(kept) - 1).astype(np.int32)
    size = len(kept)
    test = nodes.test[:size][kept]
    above = (test >= atoms) & (test != bdd.LEAF)
    test[above] = atoms + number[nodes.strata[test[above] - atoms]]
    return Shared(
        test, number[nodes.low[:size][kept]], number[nodes.high[:size][kept]], number[roots], atoms
    )
