"""Kernels that turn programs into clusters."""

from __future__ import annotations

import numpy as np
from numba import njit

from tamis.diagram.kernels import (
    HIGHEST,
    LOWEST,
    Nodes,
    build_one,
    decided,
    live,
    restrict,
)
from tamis.engine.layout import EVENT, FLAG, GROUP, NEED, NODE, ROOT, THRESHOLD
from tamis.logic.atoms import Kind

_BELOW = int(Kind.BELOW)
_DEFINED = int(Kind.DEFINED)
_TYPED = int(Kind.TYPED)


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
def _roots(nodes, variables, offsets, words, members, access, budget, roots):
    """Build the conditions of one cluster; False where there was no room."""
    atoms = variables.group.size
    for i in range(members.size):
        s = members[i]
        program = words[offsets[s] : offsets[s + 1]]
        if access >= 0:
            reduced = np.empty_like(program)
            assume(program, variables, access, reduced)
            program = reduced
        steps = budget + 32 * program.size
        n = build_one(nodes, program, np.empty(program.size + 1, np.int32), atoms, steps)
        if n >= 0:
            nodes.count[2] = steps
            n = restrict(nodes, variables, n)
        if n < 0:
            return False
        roots[i] = n
    return True


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
def clusters(
    nodes, variables, asked, programs, pairs, needs, starts, first, out, budget, stretch
):
    """Compile clusters first, first + 1, ... into `out`, and return how many are done.

    Where `out` has no room for cluster c it returns c, where `nodes` has none, -c - 1.

    asked: (question, key, place in the messages: column or event) of each variable. programs:
    (offsets, words).
    pairs: (offsets, subscription, access variable of each cluster). needs: requirement of each
    subscription.
    """
    question, key, source = asked
    offsets, words = programs
    pair_at, pair_subscription, pair_access = pairs
    atoms = variables.group.size
    place = np.full(max(atoms, 1), -1, np.int32)
    used = np.empty(max(atoms, 1), np.int32)
    local = np.empty(nodes.test.size, np.int32)
    need_place = np.full(needs.max() + 1 if needs.size else 1, -1, np.int32)
    for c in range(first, pair_at.size - 1):
        members = pair_subscription[pair_at[c] : pair_at[c + 1]]
        total = 0
        for s in members:
            total += offsets[s + 1] - offsets[s]
        small = _scratch(nodes, total, stretch)
        roots = np.empty(members.size, np.int32)
        if not _roots(small, variables, offsets, words, members, pair_access[c], budget, roots):
            return -c - 1
        mark = live(small, atoms, roots)
        count = _used(small, mark, atoms, place, used)
        at = starts[c]
        end = starts[c + 1]
        end[:] = at
        fits = (
            at[GROUP] + count <= out.group.shape[0]
            and at[THRESHOLD] + count <= out.threshold.size
            and at[EVENT] + count <= out.event.size
            and at[FLAG] + count <= out.flag.shape[0]
            and at[NEED] + members.size <= out.need.size
            and at[NODE] + mark.size <= out.test.size
            and at[ROOT] + members.size <= out.root.shape[0]
        )
        if not fits:
            for i in range(count):
                place[used[i]] = -1
            return c
        row = 2
        column = -1
        for i in range(count):
            v = used[i]
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
        for i in range(count):
            v = used[i]
            kind = question[v] & 15
            if kind > _BELOW:
                out.event[end[EVENT]] = source[v]
                end[EVENT] += 1
                place[v] = row
                row += 1
        for i in range(count):
            v = used[i]
            kind = question[v] & 15
            if kind < _BELOW:
                out.flag[end[FLAG], 0] = source[v]
                out.flag[end[FLAG], 1] = 1 if kind == _DEFINED else 2 << ((question[v] >> 4) & 15)
                end[FLAG] += 1
                place[v] = row
                row += 1
        local[0], local[1] = 0, 1
        for n in range(2, mark.size):
            if mark[n]:
                v = small.test[n]
                o = end[NODE]
                out.test[o] = place[v] if v < atoms else local[small.strata[v - atoms]]
                out.low[o] = local[small.low[n]]
                out.high[o] = local[small.high[n]]
                local[n] = row
                row += 1
                end[NODE] += 1
        for i in range(members.size):
            r = needs[members[i]]
            if need_place[r] < 0:
                need_place[r] = end[NEED] - at[NEED]
                out.need[end[NEED]] = r
                end[NEED] += 1
            o = end[ROOT]
            out.root[o, 0] = local[roots[i]]
            out.root[o, 1] = members[i]
            out.root[o, 2] = need_place[r]
            end[ROOT] += 1
        for i in range(at[NEED], end[NEED]):
            need_place[out.need[i]] = -1
        for i in range(count):
            place[used[i]] = -1
    return pair_at.size - 1


@njit(cache=True, nogil=True)
def gate_masks(clusters, need_mask, place, mask):
    """mask[n]: the columns that every message must define to whom node n of cluster 0 matters.

    That is what all roots above it require; so a node's mask is within those of its parents.
    """
    mask[:] = np.uint64(0xFFFFFFFFFFFFFFFF)
    for r in range(clusters.starts[1, ROOT]):
        n = clusters.root[r, 0] - place
        if n >= 0:
            mask[n] &= need_mask[clusters.need[clusters.root[r, 2]]]
    for n in range(mask.size - 1, -1, -1):
        for child in (clusters.low[n], clusters.high[n], clusters.test[n]):
            if child >= place:
                mask[child - place] &= mask[n]
