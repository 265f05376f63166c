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

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.diagram import packed
from tamis.jit.kernel import kernel

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
U1 = npt.NDArray[np.uint8]

FULL = -1
OVER = -2
PLAIN = -1  # instead of a budget: no diagram, but the condition's own shape
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
    count: I8  # type: ignore[assignment]
    stack: I8  # frames of apply and restrict


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


@kernel
def slot_of(a, b, c, size):
    """Where the search for (a, b, c) starts in a table of 2^k slots."""
    h = np.int64(a) * 0x9E3779B1 + np.int64(b) * 0x85EBCA77 + np.int64(c) * 0xC2B2AE3D
    h = ((h ^ (h >> 29)) & 0x7FFFFFFF) * 0x9E3779B1
    return (h >> 15) & (size - 1)


@kernel
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


@kernel
def _known(nodes, op, f, g):
    """f op g where that takes no work, else -1. Wants f <= g."""
    if f == g:
        return f
    if f <= 1:
        return g if f == 1 - op else f
    cell = nodes.cache[slot_of(op, f, g, nodes.cache.shape[0])]
    if cell[1] == f and cell[2] == g and cell[0] == op:
        return cell[3]
    return np.int32(-1)


@kernel
def apply(nodes, op, f, g):
    """f AND g, f OR g; memoised; OVER when the steps left in count[2] run out.

    Recursion on an explicit stack (f, g, stage, low): compiled recursion cannot be cached.
    """
    stack = nodes.stack
    depth = 0
    stack[0, 0], stack[0, 1], stack[0, 2] = min(f, g), max(f, g), 0
    result = np.int32(0)
    while depth >= 0:
        frame = stack[depth]
        f, g = np.int32(frame[0]), np.int32(frame[1])
        a, b = nodes.test[f], nodes.test[g]
        if frame[2] == 2:
            result = node(nodes, min(a, b), np.int32(frame[3]), result)
            if result < 0:
                return result
            cell = nodes.cache[slot_of(op, f, g, nodes.cache.shape[0])]
            cell[0], cell[1], cell[2], cell[3] = op, f, g, result
            depth -= 1
            continue
        if frame[2] == 0:
            found = _known(nodes, op, f, g)
            if found >= 0:
                result = found
                depth -= 1
                continue
            nodes.count[2] -= 1
            if nodes.count[2] < 0 or depth + 1 >= stack.shape[0]:
                return np.int32(OVER)
            x = nodes.low[f] if a <= b else f
            y = nodes.low[g] if b <= a else g
        else:
            frame[3] = result
            x = nodes.high[f] if a <= b else f
            y = nodes.high[g] if b <= a else g
        frame[2] += 1
        depth += 1
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = min(x, y), max(x, y), 0
    return result


@kernel
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


@kernel
def combine(nodes, op, f, g, atoms):
    """f op g; within budget as one diagram, else as a test of two variables (literal, stratum)."""
    result = apply(nodes, op, f, g)
    if result != OVER:
        return result
    if nodes.low[f] > 1 or nodes.high[f] > 1:
        f = stratum(nodes, f, atoms)
    if nodes.low[g] > 1 or nodes.high[g] > 1:
        g = stratum(nodes, g, atoms)
    if f < 0 or g < 0:
        return np.int32(FULL)
    nodes.count[2] = 8  # enough for two variables, however little is left
    result = apply(nodes, op, f, g)
    nodes.count[2] = 0
    return result


@kernel
def combine_all(nodes, op, operands, atoms):
    """Fold operands, those that test late variables first: each step then adds on top."""
    if operands.size == 2:
        f, g = operands
        late = nodes.test[f] >= nodes.test[g]
        return combine(nodes, op, g if late else f, f if late else g, atoms)
    order = np.argsort(-nodes.test[operands].astype(np.int64), kind="mergesort")
    result = np.int32(1 - op)
    for i in order:
        result = combine(nodes, op, operands[i], result, atoms)
        if result < 0:
            return result
    return result


@kernel
def build_one(nodes, program, stack, atoms, budget):
    """The node of one condition, in at most `budget` steps of apply; PLAIN: in its own shape.

    The words of a program ask for variables (see diagram/packed.py).
    """
    nodes.count[2] = budget
    depth = 0
    for word in program:
        if packed.is_literal(word):
            negated = np.int32(packed.negated(word))
            n = node(nodes, np.int32(packed.asked(word)), negated, np.int32(1 - negated))
        else:
            op = packed.is_or(word)
            width = packed.width(word)
            depth -= width
            operands = stack[depth : depth + width]
            if budget == PLAIN:
                n = _chain(nodes, op, operands, atoms)
            else:
                n = combine_all(nodes, op, operands, atoms)
        if n < 0:
            return n
        stack[depth] = n
        depth += 1
    return stack[0]


@kernel
def _chain(nodes, op, operands, atoms):
    """An AND or OR in its own shape: it tests its operands one after the other, in no order.

    Such nodes may be evaluated, but not combined or restricted; no diagram in order ever leads to
    one. A condition has about one node per literal then.
    """
    result = np.int32(1 - op)
    begun = -1
    for i in range(operands.size):  # start with an operand that is no literal: it needs no test
        if operands[i] > 1 and (nodes.low[operands[i]] > 1 or nodes.high[operands[i]] > 1):
            begun = i
            result = operands[i]
            break
    for i in range(operands.size):
        f = operands[i]
        if i == begun:
            continue
        if f <= 1:
            if f == op:
                return f
            continue
        test, positive = nodes.test[f], nodes.high[f] == 1
        if nodes.low[f] > 1 or nodes.high[f] > 1:
            if stratum(nodes, f, atoms) < 0:
                return np.int32(FULL)
            test, positive = np.int32(atoms + nodes.stratum[f]), True
        if positive == (op == AND):
            result = node(nodes, test, np.int32(op), result)
        else:
            result = node(nodes, test, result, np.int32(op))
        if result < 0:
            return result
    return result


@kernel
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


# Fields of a frame of `restrict`: the call, where it stands, and what its parts gave.
_N, _GROUP, _LOW, _HIGH, _DEPTH, _STAGE, _WHEN, _OTHER, _START, _BASE = range(10)
_ENTER, _PASS, _TRUE, _TRUE_LOW, _FALSE, _FALSE_HIGH, _STRATUM_LOW, _STRATUM_HIGH = range(8)


@kernel
def _call(stack, depth, n, group, low, high, base, known):
    frame = stack[depth]
    frame[_N], frame[_GROUP], frame[_LOW], frame[_HIGH] = n, group, low, high
    frame[_BASE], frame[_DEPTH], frame[_STAGE], frame[_START] = base, known, _ENTER, 0


@kernel
def restrict(nodes, variables, root):
    """Node `root`, simplified by what each path through it knows of the atoms still to come.

    Paths that no message can take vanish (ICSE 2001, sections 6 and 7; US 7,136,899, equations
    14 to 19), and so do tests whose two sides agree wherever the test can matter. Knowledge is an
    interval of positions and the kin decided so far; it ends where the group ends, so the result
    for a node that starts a group is remembered for all conditions. At most count[2] steps; what
    is not reached stays as it is.
    """
    stack = nodes.stack
    known, truth = np.empty(192, np.int32), np.empty(192, np.uint8)
    d = 0
    _call(stack, 0, root, -2, LOWEST, HIGHEST, 0, 0)
    result = np.int32(0)
    while d >= 0:
        frame = stack[d]
        n = np.int32(frame[_N])
        v = nodes.test[n]
        stage = frame[_STAGE]
        if stage == _ENTER:
            if n <= 1:
                result = n
                d -= 1
                continue
            group = variables.group[v] if v < variables.group.size else np.int32(-1)
            if group != frame[_GROUP] or group < 0:
                if nodes.memo[n] >= 0:
                    result = nodes.memo[n]
                    d -= 1
                    continue
                frame[_START], frame[_GROUP], frame[_BASE] = 1, group, frame[_DEPTH]
                frame[_LOW], frame[_HIGH] = LOWEST, HIGHEST
            nodes.count[2] -= 1
            if nodes.count[2] < 0 or frame[_DEPTH] >= known.size or d + 1 >= stack.shape[0]:
                result = n
                d -= 1
                continue
            if group < 0:
                frame[_STAGE] = _STRATUM_LOW
                d += 1
                _call(stack, d, nodes.low[n], -2, LOWEST, HIGHEST, frame[_DEPTH], frame[_DEPTH])
                continue
            base = frame[_BASE]
            value = decided(
                variables,
                v,
                frame[_LOW],
                frame[_HIGH],
                known[base:],
                truth[base:],
                frame[_DEPTH] - base,
            )
            if value >= 0:
                frame[_STAGE] = _PASS
                child = nodes.high[n] if value == 1 else nodes.low[n]
                d += 1
                _call(
                    stack, d, child, group, frame[_LOW], frame[_HIGH], frame[_BASE], frame[_DEPTH]
                )
                continue
        elif stage == _STRATUM_LOW:
            frame[_OTHER] = result
            frame[_STAGE] = _STRATUM_HIGH
            d += 1
            _call(stack, d, nodes.high[n], -2, LOWEST, HIGHEST, frame[_DEPTH], frame[_DEPTH])
            continue
        elif stage == _TRUE:
            frame[_WHEN] = result
        elif stage == _FALSE:
            frame[_OTHER] = result
        # one side is worth the same as the other where the other counts: no test is due
        low_serves = stage == _TRUE_LOW and result == frame[_WHEN]
        high_serves = stage == _FALSE_HIGH and result == frame[_OTHER]
        if low_serves or high_serves:
            frame[_STAGE] = _PASS
            child = nodes.low[n] if low_serves else nodes.high[n]
            d += 1
            _call(
                stack,
                d,
                child,
                frame[_GROUP],
                frame[_LOW],
                frame[_HIGH],
                frame[_BASE],
                frame[_DEPTH],
            )
            continue
        done = stage == _PASS
        if stage == _STRATUM_HIGH:
            result = node(nodes, v, np.int32(frame[_OTHER]), result)
            done = True
        elif stage == _FALSE_HIGH:
            result = node(nodes, v, np.int32(frame[_OTHER]), np.int32(frame[_WHEN]))
            done = True
        if result < 0:
            return result
        if done:
            if frame[_START] == 1:
                nodes.memo[n] = result
            d -= 1
            continue
        # the next part: a side of the node, under the test or its negation
        low, high, depth = frame[_LOW], frame[_HIGH], frame[_DEPTH]
        a, b = variables.low[v], variables.high[v]
        assumed = stage in (_ENTER, _TRUE)
        if a < b:
            if assumed:
                low, high = max(low, a), min(high, b)
            elif a <= low:
                low = max(low, b)
            elif b >= high:
                high = min(high, a)
        if variables.kin[v] >= 0:
            known[depth] = v
            truth[depth] = 1 if assumed else 0
            depth += 1
        child = nodes.high[n] if stage in (_ENTER, _FALSE) else nodes.low[n]
        frame[_STAGE] = _TRUE if stage == _ENTER else stage + 1
        group = np.int32(frame[_GROUP])
        d += 1
        _call(stack, d, child, group, low, high, frame[_BASE], depth)
    return result


@kernel
def build(nodes, variables, offsets, words, roots, first, restricting, budget):
    """Fill roots[first:] with the nodes of the programs words[offsets[i]:offsets[i + 1]].

    Returns the number of the first condition for which there was no room.
    """
    atoms = variables.group.size
    for i in range(first, roots.size):
        program = words[offsets[i] : offsets[i + 1]]
        steps = budget + 32 * program.size
        n = build_one(nodes, program, np.empty(program.size + 1, np.int32), atoms, steps)
        if n >= 0 and restricting:
            nodes.count[2] = steps
            n = restrict(nodes, variables, n)
        if n < 0:
            return i
        roots[i] = n
    return roots.size


@kernel
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


@kernel
def rehash(nodes):
    """Enter all nodes into an empty table of slots."""
    size = nodes.slots.size
    for n in range(2, nodes.count[0]):
        at = slot_of(nodes.test[n], nodes.low[n], nodes.high[n], size)
        while nodes.slots[at] != 0:
            at = (at + 1) & (size - 1)
        nodes.slots[at] = n
