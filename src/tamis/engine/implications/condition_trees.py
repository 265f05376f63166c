"""Conditions as ordered, unreduced trees in if-then-else normal form (US 7,136,899, eq. 4 to 19).

A node is a row (test, low, high); tests are variable numbers that increase along every path. A
leaf tests `atoms`, the number that follows all variables, and both its sides are its value. Every
node has its own place: trees share nothing, so the path to a node is its precondition.

The nodes of a tree stand in preorder, the high side first: high[n] == n + 1.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.diagram import packed
from tamis.diagram.bdd import HIGHEST, LOWEST, decided
from tamis.engine.ground.layout import I4
from tamis.jit.kernel import kernel
from tamis.logic import Family, Kind

FULL = -1  # the arrays are too small
OVER = -2  # the tree is too large
MOST_VARIABLES = 48
MOST_WORDS = 512
START = LOWEST + 2  # the first position of a value (see diagram.variables)
DEFINED = packed.question(0, Family.ANY, Kind.DEFINED)  # is term 0 defined?


class Trees(NamedTuple):
    """The trees of some conditions. root[s] is OVER where condition s has none."""

    test: I4
    low: I4
    high: I4
    owner: I4  # node -> condition
    root: I4  # condition -> node


@kernel
def narrowed(variables, v, assumed, low, high, void):
    """What is known of a group's value after variable v turned out true or false.

    The value stands at a position in [low, high), or (where `void` is 1) it may be undefined or of
    another type. No variable is true of the void.
    """
    a, b = variables.low[v], variables.high[v]
    if a < b:
        if assumed:
            return max(low, a), min(high, b), np.int64(0)
        if a <= low:
            return max(low, b), high, void
        if b >= high:
            return low, min(high, a), void
    return low, high, np.int64(0) if assumed else void


@kernel
def within(a, b, low, high, void):
    """1 or 0 where that knowledge decides a variable that is true in [a, b), else -1."""
    if a < b:
        if b <= low or high <= a or high <= low:
            return 0
        if void == 0 and a <= low and high <= b:
            return 1
    return -1


@kernel
def answered(variables, v, low, high, void):
    """The same for variable v."""
    return within(variables.low[v], variables.high[v], low, high, void)


@kernel
def related(variables, v, known, truth, base, end):
    """1 or 0 where the tests known[base:end] of its group decide variable v as its kin, else -1."""
    return decided(variables, v, LOWEST, HIGHEST, known[base:], truth[base:], end - base)


@kernel
def _value(program, slot, assigned, live, stack, starts):
    """The program's truth where `assigned` decides it, else -1; `live` marks what still matters."""
    depth = 0
    for i in range(program.size):
        word = program[i]
        start = i
        if packed.is_literal(word):
            known = assigned[slot[i]]
            value = known if known < 0 else known ^ packed.negated(word)
            live[i] = known < 0
        else:
            absorbing = packed.is_or(word)  # OR is true where one part is, AND false
            width = packed.width(word)
            depth -= width
            value = 1 - absorbing
            for k in range(depth, depth + width):
                if stack[k] == absorbing:
                    value = absorbing
                    break
                if stack[k] < 0:
                    value = -1
            live[i] = False
            start = starts[depth] if width else i
            if value >= 0:
                live[start:i] = False
        stack[depth], starts[depth] = value, start
        depth += 1
    return stack[0]


@kernel
def _next(program, slot, live):
    """The first variable in order that still matters."""
    best = 1 << 30
    for i in range(program.size):
        if live[i] and slot[i] < best:
            best = slot[i]
    return best


@kernel
def _slots(program, own):
    slot = np.zeros(program.size, np.int32)
    for i in range(program.size):
        if packed.is_literal(program[i]):
            slot[i] = np.searchsorted(own, packed.asked(program[i]))
    return slot


@kernel
def _distinct(numbers):
    """Sorted, each once. As np.unique, with a sort that is compiled anyway."""
    own, count = np.empty(numbers.size, np.int64), 0
    for i in np.argsort(numbers.astype(np.int64), kind="mergesort"):
        if count == 0 or own[count - 1] != numbers[i]:
            own[count] = numbers[i]
            count += 1
    return own[:count]


# Fields of a frame of `tree`: its node, variable, stage, and what the path knows of the group.
_NODE, _VARIABLE, _STAGE, _GROUP, _LOW, _HIGH, _VOID, _BASE, _KIN = range(9)


@kernel
def tree(program, variables, trees, first, budget):
    """Write the tree of one program to places first, first + 1, ...; how many, or FULL, or OVER.

    Shannon expansion over the ordered variables. A test that the path decides is left out, on
    both sides (equations 14 to 19), and so is one whose sides are the same leaf.
    """
    if program.size > MOST_WORDS:
        return OVER
    own = _distinct(packed.asked(program[packed.is_literal(program)]))
    if own.size > MOST_VARIABLES:
        return OVER
    atoms = variables.group.size
    slot = _slots(program, own)
    live = np.zeros(program.size, np.bool_)
    stack, starts = np.empty(program.size + 1, np.int32), np.empty(program.size + 1, np.int32)
    assigned = np.full((own.size + 2, own.size + 1), -1, np.int8)
    known, truth = np.empty(own.size + 1, np.int32), np.empty(own.size + 1, np.uint8)
    frames = np.zeros((own.size + 2, 9), np.int64)
    frames[0, _GROUP] = -1
    size, inner, d = 0, 0, 0
    while d >= 0:
        frame = frames[d]
        if frame[_STAGE] == 0:
            if first + size >= trees.test.size:
                return FULL
            n = first + size
            size += 1
            frame[_NODE] = n
            chosen = -1
            value = _value(program, slot, assigned[d], live, stack, starts)
            while value < 0:
                chosen = _next(program, slot, live)
                v = own[chosen]
                if variables.group[v] != frame[_GROUP]:
                    frame[_GROUP], frame[_BASE] = variables.group[v], frame[_KIN]
                    frame[_LOW], frame[_HIGH], frame[_VOID] = START, HIGHEST, 1
                    break
                answer = answered(variables, v, frame[_LOW], frame[_HIGH], frame[_VOID])
                if answer < 0:
                    answer = related(variables, v, known, truth, frame[_BASE], frame[_KIN])
                if answer < 0:
                    break
                assigned[d, chosen] = answer
                value = _value(program, slot, assigned[d], live, stack, starts)
            if value >= 0:
                trees.test[n], trees.low[n], trees.high[n] = atoms, value, value
                d -= 1
                continue
            inner += 1
            if inner > budget:
                return OVER
            frame[_VARIABLE] = chosen
            trees.test[n] = own[chosen]
            trees.high[n] = n + 1
        elif frame[_STAGE] == 1:
            trees.low[frame[_NODE]] = first + size
        else:
            n = frame[_NODE]
            yes, no = trees.high[n], trees.low[n]
            leaves = trees.test[yes] == atoms and trees.test[no] == atoms
            if leaves and trees.low[yes] == trees.low[no]:
                value = trees.low[no]
                trees.test[n], trees.low[n], trees.high[n] = atoms, value, value
                size -= 2
                inner -= 1
            d -= 1
            continue
        assumed = frame[_STAGE] == 0
        frame[_STAGE] += 1
        v = own[frame[_VARIABLE]]
        child = frames[d + 1]
        child[_STAGE], child[_GROUP] = 0, frame[_GROUP]
        child[_BASE], child[_KIN] = frame[_BASE], frame[_KIN]
        known_now = narrowed(variables, v, assumed, frame[_LOW], frame[_HIGH], frame[_VOID])
        child[_LOW], child[_HIGH], child[_VOID] = known_now
        if variables.kin[v] >= 0:
            known[frame[_KIN]] = v
            truth[frame[_KIN]] = 1 if assumed else 0
            child[_KIN] += 1
        assigned[d + 1] = assigned[d]
        assigned[d + 1, frame[_VARIABLE]] = 1 if assumed else 0
        d += 1
    return size


@kernel
def grow(offsets, words, variables, trees, progress, budget):
    """Trees for the programs from number progress[0] on, to places from progress[1] on.

    Stops where the arrays are full; progress says how far it got.
    """
    for s in range(progress[0], offsets.size - 1):
        first = progress[1]
        program = words[offsets[s] : offsets[s + 1]]
        size = tree(program, variables, trees, first, budget)
        if size == FULL:
            return
        trees.root[s] = OVER if size == OVER else first
        if size > 0:
            trees.owner[first : first + size] = s
            progress[1] += size
        progress[0] = s + 1


# --- requirements --------------------------------------------------------------


@kernel
def _follows(program, term, stack):
    """Whether a program can only be true where `term` is defined.

    An undefined term makes all its atoms false. Values on the stack: 0, 1, or -1 where open.
    """
    depth = 0
    for word in program:
        if packed.is_literal(word):
            value = packed.negated(word) if packed.term(packed.asked(word)) == term else -1
        else:
            absorbing = packed.is_or(word)
            width = packed.width(word)
            depth -= width
            value = 1 - absorbing
            for k in range(depth, depth + width):
                if stack[k] == absorbing:
                    value = absorbing
                    break
                if stack[k] < 0:
                    value = -1
        stack[depth] = value
        depth += 1
    return stack[0] == 0


@kernel
def complete(offsets, words, needed, terms, out_offsets, out):
    """Templates with their requirements written out: `defined(term) AND ...`, where that says more.

    Template t requires terms[needed[t]:needed[t + 1]]. Returns the number of words; writes them
    only where `out` is large enough.
    """
    at = 0
    for t in range(offsets.size - 1):
        program = words[offsets[t] : offsets[t + 1]]
        stack = np.empty(program.size + 1, np.int32)
        out_offsets[t] = at
        fits = at + program.size + needed[t + 1] - needed[t] + 1 <= out.size
        if fits:
            out[at : at + program.size] = program
        at += program.size
        more = 0
        for term in terms[needed[t] : needed[t + 1]]:
            if not _follows(program, term, stack):
                if fits:
                    out[at] = packed.literal(packed.with_term(DEFINED, term), 0)
                at += 1
                more += 1
        if more:
            if fits:
                out[at] = packed.conjunction(more + 1)
            at += 1
    out_offsets[offsets.size - 1] = at
    return at
