"""Kernels that turn programs into clusters."""

from __future__ import annotations

import numpy as np
from numba import njit

from tamis.diagram.kernels import (
    FULL,
    HIGHEST,
    LOWEST,
    Nodes,
    build_one,
    build_plain,
    decided,
    live,
    node,
    restrict,
)
from tamis.engine.layout import EVENT, FLAG, GROUP, HOIST, NEED, NODE, ROOT, THRESHOLD
from tamis.logic.atoms import Kind

_BELOW = int(Kind.BELOW)
_DEFINED = int(Kind.DEFINED)
_SEEN = 1 << 30  # taken from a node's stratum number while it is counted
_BOUND = 512  # words; of a longer condition no diagram is tried
_SHARED = 4  # parents of a large part that make it worth a place of its own
_LARGE = 24  # nodes from which on a shared part is worth a place of its own


@njit(cache=True, nogil=True)
def literals(offsets, words, template, asked):
    """Copy the question of every literal of every subscription, in order, into `asked`."""
    at = 0
    for t in template:
        for i in range(offsets[t], offsets[t + 1]):
            if words[i] >= 0:
                asked[at] = words[i] >> 1
                at += 1


@njit(cache=True, nogil=True)
def expand(offsets, words, template, variable, out_offsets, out):
    """Programs over variables: each literal's question replaced by its variable."""
    at = 0
    literal = 0
    for s in range(template.size):
        t = template[s]
        out_offsets[s] = at
        for i in range(offsets[t], offsets[t + 1]):
            word = words[i]
            if word >= 0:
                word = 2 * variable[literal] + (word & 1)
                literal += 1
            out[at] = word
            at += 1
    out_offsets[template.size] = at


@njit(cache=True, nogil=True)
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
        if word >= 0:
            v = word >> 1
            value = -1
            if v == access:
                value = 1
            elif variables.group[v] == group:
                value = decided(variables, v, low, high, known, truth, kin)
            if value >= 0:
                out[i] = -1 if value != (word & 1) else -2


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _roots(nodes, apart, variables, offsets, words, members, access, budget, roots):
    """Build the conditions of one cluster; False where there was no room.

    Each is built in `apart`, which is small and stays in the nearest cache, and only what is left
    of it goes into `nodes`.
    """
    atoms = variables.group.size
    for i in range(members.size):
        s = members[i]
        program = words[offsets[s] : offsets[s + 1]]
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
    return build_plain(nodes, program, stack, atoms)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
    chosen.sort()
    return count


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _write_part(nodes, atoms, root, first, place, hoist, base, local, stamp, part, stack, out, at):
    """Write the nodes below `root`, lowest first, from row `at` of out; the row after the last,
    or FULL.

    `first` is the place of hoisted node 0, `base` that of the part's own first node.
    """
    start = at
    stack[0] = root
    depth = 1
    while depth:
        n = stack[depth - 1]
        test = nodes.strata[nodes.test[n] - atoms] if nodes.test[n] >= atoms else np.int32(0)
        ready = True
        for child in (nodes.low[n], nodes.high[n], test):
            if child > 1 and hoist[child] < 0 and stamp[child] != part:
                stack[depth] = child
                depth += 1
                ready = False
        if not ready:
            continue
        depth -= 1
        if stamp[n] == part:
            continue
        if at >= out.shape[0]:
            return FULL
        stamp[n] = part
        local[n] = base + at - start
        out[at, 0] = _at(test, first, hoist, local) if test else place[nodes.test[n]]
        out[at, 1] = _at(nodes.low[n], first, hoist, local)
        out[at, 2] = _at(nodes.high[n], first, hoist, local)
        at += 1
    return at


@njit(cache=True, nogil=True)
def _at(n, first, hoist, local):
    """The place of node n."""
    if n <= 1:
        return n
    return first + hoist[n] if hoist[n] >= 0 else local[n]


@njit(cache=True, nogil=True)
def _write_rows(asked, used, place, at, end, out):
    """Give the used variables places: thresholds, then events, then flags."""
    question, key, source = asked
    row = 2
    column = -1
    for v in used:
        if question[v] & 15 == _BELOW:
            if question[v] >> 4 != column:
                column = question[v] >> 4
                g = end[GROUP]
                out.group[g, 0] = source[v]
                out.group[g, 1] = end[THRESHOLD] - at[THRESHOLD]
                out.group[g, 2] = 0
                end[GROUP] += 1
            out.group[end[GROUP] - 1, 2] += 1
            out.threshold[end[THRESHOLD]] = key[v]
            end[THRESHOLD] += 1
            place[v] = row
            row += 1
    for v in used:
        if question[v] & 15 > _BELOW:
            out.event[end[EVENT]] = source[v]
            end[EVENT] += 1
            place[v] = row
            row += 1
    for v in used:
        kind = question[v] & 15
        if kind < _BELOW:
            out.flag[end[FLAG], 0] = source[v]
            out.flag[end[FLAG], 1] = 1 if kind == _DEFINED else 2 << ((question[v] >> 4) & 15)
            end[FLAG] += 1
            place[v] = row
            row += 1
    return row


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def clusters(
    nodes, apart, variables, asked, programs, pairs, needs, starts, first, out, budget, stretch
):
    """Compile clusters first, first + 1, ... into `out`, and return how many are done.

    Where `out` has no room for cluster c it returns c, where `nodes` has none, -c - 1. `apart` are
    nodes too: room for one condition.
    asked: (question, key, place in the messages: column or event) of each variable. programs:
    (offsets, words). pairs: (offsets, subscription, access variable of each cluster). needs:
    requirement of each subscription.
    """
    offsets, words = programs
    pair_at, pair_subscription, pair_access = pairs
    atoms = variables.group.size
    place = np.full(max(atoms, 1), -1, np.int32)
    used = np.empty(max(atoms, 1), np.int32)
    capacity = nodes.test.size
    local, hoist = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    stamp, stack = np.zeros(capacity, np.int64), np.empty(3 * capacity, np.int32)
    need_place = np.full(needs.max() + 1 if needs.size else 1, -1, np.int32)
    part = 0
    for c in range(first, pair_at.size - 1):
        members = pair_subscription[pair_at[c] : pair_at[c + 1]]
        total = 0
        for s in members:
            total += offsets[s + 1] - offsets[s]
        small = _scratch(nodes, total, stretch)
        roots = np.empty(members.size, np.int32)
        if not _roots(
            small, apart, variables, offsets, words, members, pair_access[c], budget, roots
        ):
            return -c - 1
        mark = live(small, atoms, roots)
        count = _used(small, mark, atoms, place, used)
        hoists = _hoisted(small, mark, atoms, hoist)
        at, end = starts[c], starts[c + 1]
        end[:] = at
        fits = _room(at, count, members.size, hoists, out)
        if fits:
            row = _write_rows(asked, used[:count], place, at, end, out)
            base = row + hoists
        for n in range(2, mark.size):
            if fits and mark[n] and hoist[n] >= 0:
                number = hoist[n]
                hoist[n] = -1
                part += 1
                out.hoist[end[HOIST]] = end[NODE] - at[NODE]
                end[HOIST] += 1
                after = _write_part(
                    small,
                    atoms,
                    n,
                    row,
                    place,
                    hoist,
                    base,
                    local,
                    stamp,
                    part,
                    stack,
                    out.node,
                    end[NODE],
                )
                hoist[n] = number
                fits = after >= 0
                end[NODE] = after
        for i in range(members.size):
            if not fits:
                break
            r = needs[members[i]]
            if need_place[r] < 0:
                need_place[r] = end[NEED] - at[NEED]
                out.need[end[NEED]] = r
                end[NEED] += 1
            o = end[ROOT]
            out.root[o, 0] = end[NODE] - at[NODE]
            if roots[i] > 1 and hoist[roots[i]] < 0:
                part += 1
                after = _write_part(
                    small,
                    atoms,
                    roots[i],
                    row,
                    place,
                    hoist,
                    base,
                    local,
                    stamp,
                    part,
                    stack,
                    out.node,
                    end[NODE],
                )
                fits = after >= 0
                end[NODE] = after
            out.root[o, 1] = _at(roots[i], row, hoist, local)
            out.root[o, 2] = members[i]
            out.root[o, 3] = need_place[r]
            end[ROOT] += 1
        for i in range(at[NEED], end[NEED]):
            need_place[out.need[i]] = -1
        for i in range(count):
            place[used[i]] = -1
        if not fits:
            return c
    return pair_at.size - 1
