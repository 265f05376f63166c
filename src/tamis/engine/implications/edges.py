"""Implication edges between the trees of a forest (US 7,136,899, figures 9 to 12).

For a node X of one tree, t(X) is the lowest node Y of another with pre(X) => pre(Y). A reader that
reaches X may go on with the other subscription at Y. An edge X -> t(X) is worth having where Y is
lower than X in predicate order, or a leaf.

Pairs of trees are not tried one by one. What a literal decides stands near it in predicate order,
so the trees are sorted by their first test, and each node looks at its neighbours there, nearest
first; what a parent has found its children follow further. Both are bounded.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.diagram.bdd import HIGHEST
from tamis.engine.ground.layout import I4, I8, U1, U8
from tamis.engine.implications.condition_trees import (
    MOST_VARIABLES,
    OVER,
    START,
    answered,
    narrowed,
    related,
)
from tamis.engine.implications.forest import Forest
from tamis.jit.kernel import kernel

TARGETS = 12  # targets of a node that are followed
EDGES = 4  # edges of a node that are kept
LOOK = 3 * TARGETS  # neighbours that a node looks at, each way
REACH = 64  # nodes that the search for a second way to a target looks at


class Near(NamedTuple):
    """Trees in the order of their first tests: those of variable v from starts[v] on."""

    trees: I4
    starts: I4


class Edges(NamedTuple):
    """The edges of node n lead to target[offsets[n]:offsets[n + 1]]."""

    offsets: I8
    target: I4


class Found(NamedTuple):
    """Targets of each node, nearest first; `fresh` where the parent did not get so far."""

    target: I4  # node x TARGETS
    fresh: U1
    size: I4
    width: U8  # of what the path knows; less known is wider


class Path(NamedTuple):
    """The tests on the way to a node: all of them, and those with kin. Each a stack."""

    test: I4
    truth: U1
    kin: I4
    kin_truth: U1


def no_edges(nodes: int) -> Edges:
    return Edges(np.zeros(nodes + 1, np.int64), np.empty(0, np.int32))


def nothing_found(forest: Forest) -> Found:
    nodes = len(forest.trees.test)
    return Found(
        np.empty((nodes, TARGETS), np.int32),
        np.zeros((nodes, TARGETS), np.uint8),
        np.zeros(nodes, np.int32),
        np.zeros(nodes, np.uint64),
    )


def find(forest: Forest, found: Found, first: int, last: int) -> None:
    """Find the targets of the nodes of trees first, ..., last - 1."""
    trees, variables = forest.trees, forest.atoms.variables
    atoms = len(variables.group)
    tests = np.full(len(trees.root), atoms, np.int32)
    small = trees.root != OVER
    tests[small] = trees.test[trees.root[small]]
    sorted_trees = np.argsort(tests, kind="stable").astype(np.int32)
    starts = np.searchsorted(tests[sorted_trees], np.arange(atoms + 1)).astype(np.int32)
    room = MOST_VARIABLES + 2
    path = Path(
        _empty(room), _empty(room).view(np.uint8), _empty(room), _empty(room).view(np.uint8)
    )
    all_targets(trees, variables, first, last, Near(sorted_trees, starts), path, found)


def _empty(room: int) -> I4:
    return np.empty(room, np.int32)


def edges_of(forest: Forest, found: Found, budget: int = EDGES) -> Edges:
    """The non-redundant edges among what was found, at most `budget` from a node.

    Leaves come first, those with the weakest precondition before the others; then nodes from the
    last test up. So what an edge leads to has its own edges already.
    """
    trees = forest.trees
    order = np.lexsort((~found.width, -trees.test)).astype(np.int32)
    kept = np.empty((len(order), budget), np.int32)
    count = np.zeros(len(order), np.int32)
    marks = np.zeros((2, len(forest) + 1), np.int32)
    thin(trees, found, order, kept, count, marks, len(forest.atoms.question))
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(count, out=offsets[1:])
    return Edges(offsets, kept[np.arange(budget) < count[:, None]])


# --- kernels -------------------------------------------------------------------


@kernel
def follow(trees, variables, node, knowledge, path):
    """Go down from `node` as far as the path decides its tests (figure 12).

    `knowledge` is (group, low, high, void) of the path, and where in its two stacks the tests of
    the group stand: [first, tests) and [first kin, kin).
    """
    group, low, high, void, first, tests, first_kin, kin = knowledge
    atoms = variables.group.size
    while trees.test[node] < atoms:
        v = trees.test[node]
        if variables.group[v] != group:
            break
        answer = -1
        for i in range(first, tests):
            if path.test[i] == v:
                answer = np.int64(path.truth[i])
        if answer < 0:
            answer = answered(variables, v, low, high, void)
        if answer < 0:
            answer = related(variables, v, path.kin, path.kin_truth, first_kin, kin)
        if answer < 0:
            break
        node = trees.high[node] if answer == 1 else trees.low[node]
    return node


@kernel
def _learn(variables, v, assumed, knowledge, path):
    """What is known once variable v is true or false. Knowledge ends where its group ends."""
    group, low, high, void, first, tests, first_kin, kin = knowledge
    if variables.group[v] != group:
        group, low, high = np.int64(variables.group[v]), np.int64(START), np.int64(HIGHEST)
        void, first, first_kin = np.int64(1), tests, kin
    low, high, void = narrowed(variables, v, assumed, low, high, void)
    path.test[tests] = v
    path.truth[tests] = 1 if assumed else 0
    if variables.kin[v] >= 0:
        path.kin[kin] = v
        path.kin_truth[kin] = 1 if assumed else 0
        kin += 1
    return group, low, high, void, first, tests + 1, first_kin, kin


@kernel
def _add(found, node, target, fresh):
    k = found.size[node]
    found.target[node, k] = target
    found.fresh[node, k] = fresh
    found.size[node] = k + 1


@kernel
def _has(trees, found, node, tree):
    found_in = False
    for k in range(found.size[node]):
        found_in |= trees.owner[found.target[node, k]] == tree
    return found_in


@kernel
def _look(trees, variables, node, v, near, knowledge, path, found):
    """Trees whose first test stands near v: the same one, the following, the ones before."""
    own, starts = trees.owner[node], near.starts
    after, before = starts[v], starts[v] - 1
    for step in range(2 * LOOK):
        if found.size[node] == TARGETS:
            return
        same = after < starts[v + 1]
        if same or step % 2 == 0:
            at = after
            after += 1
        else:
            at = before
            before -= 1
        if at < 0 or at >= starts[starts.size - 1]:
            continue
        other = near.trees[at]
        root = trees.root[other]
        if other == own or variables.group[trees.test[root]] != variables.group[v]:
            continue
        target = follow(trees, variables, root, knowledge, path)
        if target != root and not _has(trees, found, node, other):
            _add(found, node, target, 1)


@kernel
def targets(trees, variables, tree, near, path, found):
    """t(X) for the nodes X of one tree, in preorder (figure 11)."""
    atoms = variables.group.size
    stack = np.empty((path.test.size, 10), np.int64)  # node, stage, knowledge before its test
    root = trees.root[tree]
    stack[0] = 0
    stack[0, 0], stack[0, 2] = root, -1
    found.size[root] = 0
    d = 0
    while d >= 0:
        frame = stack[d]
        n = frame[0]
        if trees.test[n] == atoms or frame[1] == 2:
            d -= 1
            continue
        assumed = frame[1] == 0
        frame[1] += 1
        v = trees.test[n]
        child = trees.high[n] if assumed else trees.low[n]
        where = (frame[6], frame[7], frame[8], frame[9])
        before = (frame[2], frame[3], frame[4], frame[5], *where)
        knowledge = _learn(variables, v, assumed, before, path)
        found.size[child] = 0
        found.width[child] = np.uint64(knowledge[2]) - np.uint64(knowledge[1])
        for k in range(found.size[n]):
            target = found.target[n, k]
            lower = follow(trees, variables, target, knowledge, path)
            _add(found, child, lower, 1 if lower != target else 0)
        _look(trees, variables, child, v, near, knowledge, path, found)
        d += 1
        stack[d, 0], stack[d, 1] = child, 0
        for k in range(8):
            stack[d, 2 + k] = knowledge[k]


@kernel
def all_targets(trees, variables, first, last, near, path, found):
    """The same for trees first, ..., last - 1."""
    for tree in range(first, last):
        if trees.root[tree] >= 0:
            targets(trees, variables, tree, near, path, found)


@kernel
def _mark(trees, kept, count, start, stamp, marks, stack):
    """Mark all that edges from `start` lead to, as far as REACH."""
    stack[0] = start
    depth, seen = 1, 0
    while depth > 0 and seen < REACH:
        depth -= 1
        node = stack[depth]
        tree = trees.owner[node]
        if marks[0, tree] == stamp and marks[1, tree] >= trees.test[node]:
            continue
        seen += 1
        marks[0, tree], marks[1, tree] = stamp, trees.test[node]
        for k in range(count[node]):
            if depth < stack.size:
                stack[depth] = kept[node, k]
                depth += 1


@kernel
def thin(trees, found, order, kept, count, marks, atoms):
    """Keep the edges that no chain of kept ones replaces (figure 10); leaves, then the others."""
    stack = np.empty(4 * REACH, np.int32)
    for i in range(order.size):
        node = order[i]
        marks[0, trees.owner[node]], marks[1, trees.owner[node]] = i + 1, atoms
        for leaves in (True, False):
            for k in range(found.size[node]):
                target = found.target[node, k]
                leaf = trees.test[target] == atoms
                if leaf != leaves or found.fresh[node, k] == 0 or count[node] == kept.shape[1]:
                    continue
                tree = trees.owner[target]
                lower = leaf or trees.test[target] > trees.test[node]
                if not lower or (marks[0, tree] == i + 1 and marks[1, tree] >= trees.test[target]):
                    continue
                kept[node, count[node]] = target
                count[node] += 1
                _mark(trees, kept, count, target, i + 1, marks, stack)
