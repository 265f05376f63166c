"""The shared decision diagram in flat arrays: hash-consing, apply, restriction (ICSE 2001, 5 to 7).

A node is a row (test, low, high). Node 0 is FALSE, node 1 is TRUE. Tests are
variable numbers; along every path they increase. Successors are always made
before a node, so low[n] < n and high[n] < n.

A variable is an atom (below `atoms`) or a *stratum*: the value of an earlier
node. Strata are how a condition whose diagram would explode keeps its own size:
over budget, the two sides of an AND or OR become two variables.

Kernels return FULL where the arrays are too small: the caller grows them and asks
again; nothing is lost but a few dead nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
U1 = npt.NDArray[np.uint8]

FULL = -1
OVER = -2
AND, OR = 0, 1
LEAF = np.int32(2**31 - 1)  # the test of FALSE and TRUE: after every variable
LOWEST = -(2**63)
HIGHEST = 2**63 - 1


class Nodes(NamedTuple):
    """The diagram. `count` is [nodes, strata, steps left]; `slots` and `cache` have 2^k rows."""

    test: I4
    low: I4
    high: I4
    slots: I4  # hash table of node numbers, 0: free
    cache: I4  # rows (op, f, g, result) of apply
    memo: I4  # restriction of a node entered with no knowledge, -1: not yet known
    strata: I4  # stratum number -> node
    stratum: I4  # node -> its stratum number, -1: none
    count: I8


class Variables(NamedTuple):
    """What restriction knows of each variable: its group, and where in the group it is true.

    Variable v is true just where the value's position lies in [low[v], high[v]); an empty
    interval says nothing. `kin` numbers the variables of a group that has a table of relations.
    """

    group: I4
    low: I8
    high: I8
    kin: I4
    table: I8  # group -> offset of its table, -1: none
    width: I4  # group -> variables in its table
    relation: U1  # row u, column v: 1 u implies v, 2 u excludes v


@njit(cache=True, nogil=True)
def slot_of(a, b, c, size):
    """Where the search for (a, b, c) starts in a table of 2^k slots."""
    h = a * 0x9E3779B1 + b * 0x85EBCA77 + c * 0xC2B2AE3D
    h ^= h >> 29
    h = (h & 0xFFFFFFFF) * 0x9E3779B1
    return (h >> 15) & (size - 1)


@njit(cache=True, nogil=True)
def node(nodes, test, low, high):
    """The one node (test, low, high)."""
    if low == high:
        return low
    size = nodes.slots.size
    at = slot_of(test, low, high, size)
    while nodes.slots[at] != 0:
        n = nodes.slots[at]
        if nodes.test[n] == test and nodes.low[n] == low and nodes.high[n] == high:
            return n
        at = (at + 1) & (size - 1)
    n = np.int32(nodes.count[0])
    if n >= nodes.test.size or 2 * n >= size:
        return np.int32(FULL)
    nodes.test[n], nodes.low[n], nodes.high[n] = test, low, high
    nodes.memo[n] = -1
    nodes.stratum[n] = -1
    nodes.slots[at] = n
    nodes.count[0] = n + 1
    return n


@njit(cache=True, nogil=True)
def apply(nodes, op, f, g):
    """f AND g, f OR g; memoised; OVER when the steps left in count[2] run out."""
    if f == g:
        return f
    if f > g:
        f, g = g, f
    if f <= 1:
        if op == AND:
            return g if f == 1 else f
        return g if f == 0 else f
    cell = nodes.cache[slot_of(op, f, g, nodes.cache.shape[0])]
    if cell[1] == f and cell[2] == g and cell[0] == op:
        return cell[3]
    nodes.count[2] -= 1
    if nodes.count[2] < 0:
        return np.int32(OVER)
    a, b = nodes.test[f], nodes.test[g]
    f0 = f1 = f
    g0 = g1 = g
    if a <= b:
        f0, f1 = nodes.low[f], nodes.high[f]
    if b <= a:
        g0, g1 = nodes.low[g], nodes.high[g]
    low = apply(nodes, op, f0, g0)
    if low < 0:
        return low
    high = apply(nodes, op, f1, g1)
    if high < 0:
        return high
    result = node(nodes, min(a, b), low, high)
    if result >= 0:
        cell[0], cell[1], cell[2], cell[3] = op, f, g, result
    return result


@njit(cache=True, nogil=True)
def stratum(nodes, f, atoms):
    """A variable that stands for the value of node f, as a node."""
    if f <= 1:
        return f
    k = nodes.stratum[f]
    if k < 0:
        k = np.int32(nodes.count[1])
        if k >= nodes.strata.size:
            return np.int32(FULL)
        nodes.strata[k] = f
        nodes.stratum[f] = k
        nodes.count[1] = k + 1
    return node(nodes, np.int32(atoms + k), np.int32(0), np.int32(1))


@njit(cache=True, nogil=True)
def combine(nodes, op, f, g, atoms):
    """f op g; within budget as one diagram, else as a test of two strata."""
    result = apply(nodes, op, f, g)
    if result != OVER:
        return result
    f, g = stratum(nodes, f, atoms), stratum(nodes, g, atoms)
    if f < 0 or g < 0:
        return np.int32(FULL)
    nodes.count[2] = 8  # enough for two variables, however little is left
    result = apply(nodes, op, f, g)
    nodes.count[2] = 0
    return result


@njit(cache=True, nogil=True)
def combine_all(nodes, op, operands, atoms):
    """Fold operands, those that test late variables first: each step then adds on top."""
    order = np.argsort(-nodes.test[operands])
    result = np.int32(1 - op)
    for i in order:
        result = combine(nodes, op, operands[i], result, atoms)
        if result < 0:
            return result
    return result


@njit(cache=True, nogil=True)
def build_one(nodes, program, stack, atoms, budget):
    """The node of one condition.

    Program words, in postfix order: 2 * variable (+ 1 where negated), or -2 * n - 1 (AND) and
    -2 * n - 2 (OR) of the last n operands.
    """
    nodes.count[2] = budget
    depth = 0
    for word in program:
        if word >= 0:
            negated = np.int32(word & 1)
            n = node(nodes, np.int32(word >> 1), negated, np.int32(1 - negated))
        else:
            op = (-word - 1) & 1
            width = (-word - 1) >> 1
            depth -= width
            n = combine_all(nodes, op, stack[depth : depth + width], atoms)
        if n < 0:
            return n
        stack[depth] = n
        depth += 1
    return stack[0]


@njit(cache=True, nogil=True)
def decided(variables, v, low, high, known, truth, depth):
    """1 or 0 where what the path knows decides variable v, else -1."""
    a, b = variables.low[v], variables.high[v]
    if a < b:
        if a <= low and high <= b:
            return 1
        if b <= low or high <= a:
            return 0
    kin = variables.kin[v]
    if kin < 0:
        return -1
    g = variables.group[v]
    at, width = variables.table[g], variables.width[g]
    for i in range(depth):
        u = variables.kin[known[i]]
        if truth[i] == 1:
            relation = variables.relation[at + u * width + kin]
            if relation > 0:
                return 1 if relation == 1 else 0
        elif variables.relation[at + kin * width + u] == 1:
            return 0  # v implies u, and u is false
    return -1


@njit(cache=True, nogil=True)
def restrict(nodes, variables, n, group, low, high, known, truth, depth):
    """Node n, simplified by what the path above it knows of the same group.

    Paths that no message can take vanish (ICSE 2001, sections 6 and 7; US 7,136,899, equations
    14 to 19), and so do tests whose two sides agree wherever the test can matter. Knowledge is an
    interval of positions and the kin decided so far; it ends where the group ends, so the result
    for a node that starts a group is remembered for all conditions.
    """
    if n <= 1:
        return n
    v = nodes.test[n]
    start = False
    if v >= variables.group.size or variables.group[v] != group:
        if nodes.memo[n] >= 0:
            return nodes.memo[n]
        start = True
        group = variables.group[v] if v < variables.group.size else np.int32(-1)
        low, high, depth = LOWEST, HIGHEST, 0
    nodes.count[2] -= 1
    if nodes.count[2] < 0 or depth >= known.size:
        return n
    if group < 0:
        truth_of_v = -1
    else:
        truth_of_v = decided(variables, v, low, high, known, truth, depth)
    if truth_of_v == 1:
        result = restrict(nodes, variables, nodes.high[n], group, low, high, known, truth, depth)
    elif truth_of_v == 0:
        result = restrict(nodes, variables, nodes.low[n], group, low, high, known, truth, depth)
    elif group < 0:
        a = restrict(nodes, variables, nodes.low[n], group, low, high, known, truth, depth)
        b = restrict(nodes, variables, nodes.high[n], group, low, high, known, truth, depth)
        if a < 0 or b < 0:
            return np.int32(FULL)
        result = node(nodes, v, a, b)
    else:
        a, b = variables.low[v], variables.high[v]
        high_low, high_high, low_low, low_high = low, high, low, high
        if a < b:
            high_low, high_high = max(low, a), min(high, b)
            if a <= low:
                low_low = max(low, b)
            elif b >= high:
                low_high = min(high, a)
        more = depth
        if variables.kin[v] >= 0:
            known[depth] = v
            more = depth + 1
        if more > depth:
            truth[depth] = 1
        when = restrict(nodes, variables, nodes.high[n], group, high_low, high_high, known, truth, more)
        # what the low side would be worth where the test is true: the same? then no test is due
        spare = restrict(nodes, variables, nodes.low[n], group, high_low, high_high, known, truth, more)
        if more > depth:
            known[depth] = v
            truth[depth] = 0
        other = restrict(nodes, variables, nodes.low[n], group, low_low, low_high, known, truth, more)
        if when < 0 or spare < 0 or other < 0:
            return np.int32(FULL)
        if when == spare:
            result = other
        else:
            spare = restrict(nodes, variables, nodes.high[n], group, low_low, low_high, known, truth, more)
            if spare < 0:
                return np.int32(FULL)
            result = when if spare == other else node(nodes, v, other, when)
    if start and result >= 0:
        nodes.memo[n] = result
    return result


@njit(cache=True, nogil=True)
def build(nodes, variables, offsets, words, roots, first, restricting, budget):
    """Fill roots[first:] with the nodes of the programs words[offsets[i]:offsets[i + 1]].

    Returns the number of the first condition for which there was no room.
    """
    atoms = variables.group.size
    known, truth = np.empty(24, np.int32), np.empty(24, np.uint8)
    for i in range(first, roots.size):
        program = words[offsets[i] : offsets[i + 1]]
        steps = budget + 32 * program.size
        n = build_one(nodes, program, np.empty(program.size + 1, np.int32), atoms, steps)
        if n >= 0 and restricting:
            nodes.count[2] = steps
            n = restrict(nodes, variables, n, np.int32(-2), LOWEST, HIGHEST, known, truth, 0)
        if n < 0:
            return i
        roots[i] = n
    return roots.size


@njit(cache=True, nogil=True)
def live(nodes, atoms, roots):
    """Which nodes some root needs, its strata included: a mark per node."""
    size = nodes.count[0]
    mark = np.zeros(size, np.uint8)
    for r in roots:
        mark[r] = 1
    for n in range(size - 1, 1, -1):
        if mark[n]:
            mark[nodes.low[n]] = 1
            mark[nodes.high[n]] = 1
            if nodes.test[n] >= atoms:
                mark[nodes.strata[nodes.test[n] - atoms]] = 1
    return mark


@njit(cache=True, nogil=True)
def rehash(nodes):
    """Enter all nodes into an empty table of slots."""
    size = nodes.slots.size
    for n in range(2, nodes.count[0]):
        at = slot_of(nodes.test[n], nodes.low[n], nodes.high[n], size)
        while nodes.slots[at] != 0:
            at = (at + 1) & (size - 1)
        nodes.slots[at] = n
