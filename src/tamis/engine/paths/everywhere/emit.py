"""Kernels that turn programs into clusters."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.diagram import packed
from tamis.diagram.bdd import (
    FULL,
    HIGHEST,
    LOWEST,
    PLAIN,
    Nodes,
    Variables,
    build_one,
    decided,
    live,
    node,
    restrict,
)
from tamis.diagram.packed import FALSE, TRUE
from tamis.engine.ground.layout import FLAG_BIT, FLAG_COLUMN, I4, I8
from tamis.engine.paths.everywhere.straight_line import (
    EVENT,
    FLAG,
    GROUP,
    GROUP_COLUMN,
    GROUP_COUNT,
    GROUP_FIRST,
    HOIST,
    NEED,
    NODE,
    NODE_HIGH,
    NODE_LOW,
    NODE_TEST,
    ROOT,
    ROOT_NEED,
    ROOT_NODE,
    ROOT_OWNER,
    ROOT_PLACE,
    THRESHOLD,
)
from tamis.jit.kernel import kernel
from tamis.logic.atoms import Kind

_BELOW = int(Kind.BELOW)
_DEFINED = int(Kind.DEFINED)
_SEEN = 1 << 30  # taken from a node's stratum number while it is counted
_BOUND = 512  # words; of a longer condition no diagram is tried
_SHARED = 4  # parents of a large part that make it worth a place of its own
_LARGE = 24  # nodes from which on a shared part is worth a place of its own


class Given(NamedTuple):
    """What is to be compiled: clusters of subscriptions, and the programs of these."""

    variables: Variables
    question: I4  # of each variable
    key: I8  # its constant, among all thresholds of the term
    source: I4  # its place in the messages: a column or an event
    offsets: I8  # subscription -> its words
    words: I4
    pair_at: I8  # cluster -> its pairs of
    member: I4  # a subscription
    access: I4  # cluster -> the variable that leads to it, or -1
    needs: I4  # subscription -> its requirement


class Places(NamedTuple):
    """Where the values of the cluster that is being written stand (see engine/ground/layout.py)."""

    variable: I4  # -1: it has no place
    hoist: I4  # node -> its number among the hoisted ones, or -1
    node: I4  # node -> its place, where `part` says so
    part: I8  # node -> first row of the part that it was written in last
    need: I4  # requirement -> its number in the cluster, or -1
    stack: I4  # working memory


@kernel
def assume(program, variables, access, out):
    """The program where variable `access` is true: what that decides becomes constant."""
    known, truth = np.empty(1, np.int32), np.ones(1, np.uint8)
    known[0] = access
    group, low, high = variables.group[access], variables.low[access], variables.high[access]
    if low >= high:
        low, high = LOWEST, HIGHEST
    kin = 1 if variables.kin[access] >= 0 else 0
    for i in range(program.size):
        word = program[i]
        out[i] = word
        if packed.is_literal(word):
            v = packed.asked(word)
            value = -1
            if v == access:
                value = 1
            elif variables.group[v] == group:
                value = decided(variables, v, low, high, known, truth, kin)
            if value >= 0:
                out[i] = TRUE if value != packed.negated(word) else FALSE


@kernel
def _scratch(nodes, words, stretch):
    """The same arrays, emptied, with tables just large enough for programs of that many words."""
    size = 64
    while size < 8 * words * stretch and size < nodes.slots.size:
        size *= 2
    memory = max(16, min(size // 4, nodes.cache.shape[0]))
    nodes.slots[:size] = 0
    nodes.cache[:memory] = 0
    nodes.count[0], nodes.count[1] = 2, 0
    return Nodes(
        nodes.test,
        nodes.low,
        nodes.high,
        nodes.slots[:size],
        nodes.cache[:memory],
        nodes.memo,
        nodes.strata,
        nodes.stratum,
        nodes.count,
        nodes.stack,
    )


@kernel
def _roots(given, nodes, apart, members, access, budget, roots):
    """Build the conditions of one cluster; False where there was no room.

    Each is built in `apart`, which is small and stays in the nearest cache, and only what is left
    of it goes into `nodes`.
    """
    variables, offsets = given.variables, given.offsets
    atoms = variables.group.size
    for i in range(members.size):
        s = members[i]
        program = given.words[offsets[s] : offsets[s + 1]]
        if access >= 0:
            reduced = np.empty_like(program)
            assume(program, variables, access, reduced)
            program = reduced
        small = _scratch(apart, program.size, 1)
        n = _root(small, variables, program, atoms, budget)
        if n >= 0 and small.count[1] == 0:
            n = _copied(small, n, nodes)
        else:
            n = _root(nodes, variables, program, atoms, budget)
        if n < 0:
            return False
        roots[i] = n
    return True


@kernel
def _copied(small, root, nodes):
    """The same condition in `nodes`: its node, or FULL. Without strata."""
    if root <= 1:
        return root
    there = small.memo  # no longer needed
    there[: root + 1] = -1
    there[0], there[1], there[root] = 0, 1, 2
    for n in range(root, 1, -1):
        if there[n] == 2:
            for child in (small.low[n], small.high[n]):
                if child > 1:
                    there[child] = 2
    for n in range(2, root + 1):
        if there[n] == 2:
            there[n] = node(nodes, small.test[n], there[small.low[n]], there[small.high[n]])
            if there[n] < 0:
                return np.int32(FULL)
    return there[root]


@kernel
def _root(nodes, variables, program, atoms, budget):
    """The restricted diagram of a condition; its own shape where the diagram is no smaller."""
    stack = np.empty(program.size + 1, np.int32)
    if program.size <= _BOUND:
        strata = nodes.count[1]
        n = build_one(nodes, program, stack, atoms, budget + 8 * program.size)
        if n >= 0 and nodes.count[1] == strata:
            nodes.count[2] = budget + 8 * program.size
            n = restrict(nodes, variables, n)
            if n < 0 or _within(nodes, n, atoms, 8 + 2 * program.size):
                return n
    return build_one(nodes, program, stack, atoms, PLAIN)


@kernel
def _within(nodes, root, atoms, limit):
    """Whether at most `limit` nodes stand below root."""
    if root <= 1:
        return True
    seen = np.empty(limit + 3, np.int32)
    seen[0] = root
    count, at = 1, 0
    while at < count:
        n = seen[at]
        at += 1
        test = nodes.strata[nodes.test[n] - atoms] if nodes.test[n] >= atoms else np.int32(0)
        for child in (nodes.low[n], nodes.high[n], test):
            if child > 1 and nodes.stratum[child] > -2:
                nodes.stratum[child] -= _SEEN
                seen[count] = child
                count += 1
                if count > limit:
                    break
        if count > limit:
            break
    for i in range(1, count):
        nodes.stratum[seen[i]] += _SEEN
    return count <= limit


@kernel
def _used(nodes, mark, atoms, place, used):
    """The variables that marked nodes test, ascending."""
    count = 0
    for n in range(2, mark.size):
        v = nodes.test[n]
        if mark[n] and v < atoms and place[v] < 0:
            place[v] = 0
            used[count] = v
            count += 1
    chosen = used[:count]
    chosen[:] = chosen[np.argsort(chosen.astype(np.int64))]  # as elsewhere: one sort to compile
    return count


@kernel
def _hoisted(nodes, mark, atoms, hoist):
    """Give every large node with many parents a number in `hoist`; how many there are.

    hoist[n] is -1 for the others. Sizes are those of the tree below a node.
    """
    size = np.zeros(mark.size, np.int32)
    parents = np.zeros(mark.size, np.int32)
    count = 0
    for n in range(2, mark.size):
        hoist[n] = -1
        if mark[n]:
            low, high = nodes.low[n], nodes.high[n]
            size[n] = min(1 + size[low] + size[high], _LARGE)
            parents[low] += 1
            parents[high] += 1
            if nodes.test[n] >= atoms:
                parents[nodes.strata[nodes.test[n] - atoms]] += 1
    for n in range(2, mark.size):
        if mark[n] and size[n] >= _LARGE and parents[n] >= _SHARED:
            hoist[n] = count
            count += 1
    return count


@kernel
def _write_part(nodes, places, root, first, own, out, at):
    """Write the nodes below `root`, lowest first, from row `at` of out; the row after the last,
    or FULL.

    `first` is the place of hoisted node 0, `own` that of the part's own first node.
    """
    start, stack, atoms = at, places.stack, places.variable.size
    stack[0] = root
    depth = 1
    while depth:
        n = stack[depth - 1]
        test = nodes.strata[nodes.test[n] - atoms] if nodes.test[n] >= atoms else np.int32(0)
        ready = True
        for child in (nodes.low[n], nodes.high[n], test):
            if child > 1 and places.hoist[child] < 0 and places.part[child] != start:
                stack[depth] = child
                depth += 1
                ready = False
        if not ready:
            continue
        depth -= 1
        if places.part[n] == start:
            continue
        if at >= out.shape[0]:
            return FULL
        places.part[n] = start
        places.node[n] = own + at - start
        out[at, NODE_TEST] = _at(places, first, test) if test else places.variable[nodes.test[n]]
        out[at, NODE_LOW] = _at(places, first, nodes.low[n])
        out[at, NODE_HIGH] = _at(places, first, nodes.high[n])
        at += 1
    return at


@kernel
def _at(places, first, n):
    """The place of node n."""
    if n <= 1:
        return n
    return first + places.hoist[n] if places.hoist[n] >= 0 else places.node[n]


@kernel
def _write_rows(given, used, place, c, out):
    """Give the used variables of cluster c places: thresholds, then events, then flags."""
    question, source = given.question, given.source
    at, end = out.starts[c], out.starts[c + 1]
    row = 2
    column = -1
    for v in used:
        if packed.kind(question[v]) == _BELOW:
            if packed.line(question[v]) != column:
                column = packed.line(question[v])
                g = end[GROUP]
                out.group[g, GROUP_COLUMN] = source[v]
                out.group[g, GROUP_FIRST] = end[THRESHOLD] - at[THRESHOLD]
                out.group[g, GROUP_COUNT] = 0
                end[GROUP] += 1
            out.group[end[GROUP] - 1, GROUP_COUNT] += 1
            out.threshold[end[THRESHOLD]] = given.key[v]
            end[THRESHOLD] += 1
            place[v] = row
            row += 1
    for v in used:
        if packed.kind(question[v]) > _BELOW:
            out.event[end[EVENT]] = source[v]
            end[EVENT] += 1
            place[v] = row
            row += 1
    for v in used:
        kind = packed.kind(question[v])
        if kind < _BELOW:
            out.flag[end[FLAG], FLAG_COLUMN] = source[v]
            family = packed.family(question[v])
            out.flag[end[FLAG], FLAG_BIT] = 1 if kind == _DEFINED else 2 << family
            end[FLAG] += 1
            place[v] = row
            row += 1
    return row


@kernel
def _write_hoisted(nodes, mark, places, c, first, own, out):
    """Write the hoisted parts of cluster c; False where there was no room."""
    hoist, base, end = places.hoist, out.starts[c, NODE], out.starts[c + 1]
    for n in range(2, mark.size):
        if mark[n] and hoist[n] >= 0:
            number = hoist[n]
            hoist[n] = -1
            out.hoist[end[HOIST]] = end[NODE] - base
            end[HOIST] += 1
            end[NODE] = _write_part(nodes, places, n, first, own, out.node, end[NODE])
            hoist[n] = number
            if end[NODE] < 0:
                return False
    return True


@kernel
def _write_roots(given, nodes, places, roots, c, first, own, out):
    """Write the conditions of cluster c, and what they need; False where there was no room."""
    at, end, member = out.starts[c], out.starts[c + 1], given.pair_at[c]
    for i in range(roots.size):
        s = given.member[member + i]
        need = given.needs[s]
        if places.need[need] < 0:
            places.need[need] = end[NEED] - at[NEED]
            out.need[end[NEED]] = need
            end[NEED] += 1
        root = out.root[end[ROOT]]
        root[ROOT_NODE] = end[NODE] - at[NODE]
        if roots[i] > 1 and places.hoist[roots[i]] < 0:
            end[NODE] = _write_part(nodes, places, roots[i], first, own, out.node, end[NODE])
            if end[NODE] < 0:
                return False
        root[ROOT_PLACE] = _at(places, first, roots[i])
        root[ROOT_OWNER], root[ROOT_NEED] = s, places.need[need]
        end[ROOT] += 1
    places.need[out.need[at[NEED] : end[NEED]]] = -1
    return True


@kernel
def _room(at, count, members, parts, out):
    """Whether `out` has room for a cluster of so many variables, members and parts."""
    return (
        at[GROUP] + count <= out.group.shape[0]
        and at[THRESHOLD] + count <= out.threshold.size
        and at[EVENT] + count <= out.event.size
        and at[FLAG] + count <= out.flag.shape[0]
        and at[NEED] + members <= out.need.size
        and at[HOIST] + parts <= out.hoist.size
        and at[ROOT] + members <= out.root.shape[0]
    )


@kernel
def clusters(given, nodes, apart, first, out, budget, stretch):
    """Compile clusters first, first + 1, ... into `out`, and return how many are done.

    Where `out` has no room for cluster c it returns c, where `nodes` has none, -c - 1. `apart` are
    nodes too: room for one condition.
    """
    atoms = given.variables.group.size
    places = _no_places(given, nodes.test.size)
    used = np.empty(atoms, np.int32)
    for c in range(first, given.pair_at.size - 1):
        members = given.member[given.pair_at[c] : given.pair_at[c + 1]]
        words = 0
        for s in members:
            words += given.offsets[s + 1] - given.offsets[s]
        small = _scratch(nodes, words, stretch)
        roots = np.empty(members.size, np.int32)
        if not _roots(given, small, apart, members, given.access[c], budget, roots):
            return -c - 1
        mark = live(small, atoms, roots)
        chosen = used[: _used(small, mark, atoms, places.variable, used)]
        hoists = _hoisted(small, mark, atoms, places.hoist)
        out.starts[c + 1] = out.starts[c]
        if not _room(out.starts[c], chosen.size, members.size, hoists, out):
            return c
        row = _write_rows(given, chosen, places.variable, c, out)
        if not _write_hoisted(small, mark, places, c, row, row + hoists, out):
            return c
        if not _write_roots(given, small, places, roots, c, row, row + hoists, out):
            return c
        places.variable[chosen] = -1
    return given.pair_at.size - 1


@kernel
def _no_places(given, capacity):
    """Places before anything has one."""
    return Places(
        np.full(given.variables.group.size, -1, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.full(capacity, -1, np.int64),
        np.full(given.needs.max() + 1 if given.needs.size else 1, -1, np.int32),
        np.empty(3 * capacity, np.int32),
    )
