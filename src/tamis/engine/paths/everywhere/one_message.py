"""Cluster 0 for a single message: one graph of all its conditions, evaluated level by level.

Words of 64 messages hold one here. So the nodes of all conditions are joined, equal ones once,
and sorted by level: what stands side by side does not depend on each other, and the processor
works on several at a time. A node is a byte, and most need two operands only. The graph is made
when a segment meets its first single message.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.diagram.bdd import HIGHEST
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
    ROOT,
    ROOT_NEED,
    ROOT_NODE,
    ROOT_OWNER,
    ROOT_PLACE,
    THRESHOLD,
    Clusters,
)
from tamis.engine.paths.everywhere.words import part_end, rank
from tamis.jit.kernel import arrays_from, kernel

# What a node (test, low, high) is, by which of its successors are constants.
_AND, _OR, _AND_NOT, _OR_NOT, _CHOICE = range(5)
_1, _2, _3, _4 = (np.uint64(i) for i in range(1, 5))
U4 = npt.NDArray[np.uint32]


class Graph(NamedTuple):
    """Nodes by level and operation; run i are nodes run[i, 1] to run[i, 2] of operation run[i, 0].

    Values of the inputs stand before those of the nodes: FALSE, TRUE, then as in Clusters.
    """

    run: I8
    test: U4
    first: U4
    second: U4
    root: U4  # value of each root of cluster 0
    owner: I4  # subscription of each root
    need: U4
    event: I4  # input that each event is, -1: none
    inputs: int


def graph_of(clusters: Clusters) -> Graph:
    """The graph of cluster 0."""
    end = clusters.starts[1]
    inputs = 2 + int(end[THRESHOLD] + end[EVENT] + end[FLAG])
    nodes, level, roots = arrays_from(_unite, clusters, inputs)
    kind = _kinds(nodes)
    order, place = _ordered(nodes, kind, level, inputs)
    nodes, kind, level = place[nodes[order]], kind[order], level[order]
    heads = np.flatnonzero(np.diff(kind, prepend=-1) | np.diff(level, prepend=-1))
    run = np.stack([kind[heads], heads, np.append(heads[1:], len(nodes))], axis=1)
    test, low, high = nodes.T.copy()
    first = np.where((kind == _AND) | (kind == _OR_NOT), high, low)
    own = clusters.root[: end[ROOT]]
    read = (test, first, high, place[roots], own[:, ROOT_NEED])
    test, first, second, root, need = (numbers.astype(np.uint32) for numbers in read)
    fired = clusters.event[: end[EVENT]]
    event = np.full(int(fired.max(initial=-1)) + 1, -1, np.int32)
    event[fired] = 2 + end[THRESHOLD] + np.arange(len(fired))
    run, owner = run.astype(np.int64), own[:, ROOT_OWNER].copy()
    return Graph(run, test, first, second, root, owner, need, event, inputs)


def _ordered(nodes: I4, kind: I8, level: I4, inputs: int) -> tuple[I8, I4]:
    """The nodes by level and operation, and by what they read: so reads go upwards, too. The place
    that each input and node has then."""
    place = np.arange(inputs + len(nodes), dtype=np.int32)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.diff(level[order], prepend=0))
    for begin, end in zip(starts, [*starts[1:], len(nodes)], strict=True):
        own = order[begin:end]
        read = place[nodes[own]].max(axis=1)
        order[begin:end] = own = own[np.lexsort((read, kind[own]))]
        place[inputs + own] = np.arange(inputs + begin, inputs + end)
    return order, place


def _kinds(nodes: I4) -> I8:
    _, low, high = nodes.T
    given = [low == 0, high == 1, high == 0, low == 1]
    return np.select(given, [_AND, _OR, _AND_NOT, _OR_NOT], _CHOICE)


@kernel
def _enter(slots, nodes, level, count, test, low, high, inputs):
    """The number of the node (test, low, high), which may be known; and how many there are."""
    if low == high:
        return low, count
    at = (test * 0x9E3779B1 + low * 0x85EBCA6B + high * 0xC2B2AE35) & 0xFFFFFFFFFFFF
    at ^= at >> 17
    while True:
        at = (at + 1) & (slots.size - 1)
        n = slots[at]
        if n < 0:
            break
        if nodes[n, 0] == test and nodes[n, 1] == low and nodes[n, 2] == high:
            return inputs + np.int64(n), count
    slots[at] = count
    nodes[count, 0], nodes[count, 1], nodes[count, 2] = test, low, high
    above = 0
    for operand in (test, low, high):
        if operand >= inputs:
            above = max(above, level[operand - inputs])
    level[count] = above + 1
    return inputs + np.int64(count), count + 1


@kernel
def _unite(clusters, inputs):
    """The distinct nodes of cluster 0, successors first, as (test, low, high); their levels; and
    the value of each root."""
    at, end = clusters.starts[0], clusters.starts[1]
    size = 64
    while size < 2 * end[NODE]:
        size *= 2
    slots = np.full(size, -1, np.int32)
    nodes = np.empty((end[NODE], 3), np.int32)
    level, roots = np.empty(end[NODE], np.int32), np.empty(end[ROOT], np.int32)
    hoists = end[HOIST]
    own = inputs + hoists
    place = np.empty(own + end[NODE] + 1, np.int64)
    for i in range(inputs):
        place[i] = i
    count = 0
    for part in range(hoists + end[ROOT]):
        if part < hoists:
            first, last = np.int64(clusters.hoist[part]), part_end(clusters, at, end, part)
        else:
            r = part - hoists
            first = np.int64(clusters.root[r, ROOT_NODE])
            last = np.int64(clusters.root[r + 1, ROOT_NODE]) if r + 1 < end[ROOT] else end[NODE]
        to = own
        for n in range(first, last):
            node = clusters.node[n]
            place[to], count = _enter(
                slots, nodes, level, count, place[node[0]], place[node[1]], place[node[2]], inputs
            )
            to += 1
        if part < hoists:
            place[inputs + part] = place[to - 1]
        else:
            roots[part - hoists] = place[clusters.root[part - hoists, ROOT_PLACE]]
    return nodes[:count].copy(), level[:count].copy(), roots


@kernel
def _inputs(clusters, event, block, value):
    """What the message is worth: thresholds, events, flags."""
    end = clusters.starts[1]
    value[0], value[1] = 0, 1
    place = 2
    for g in range(end[GROUP]):
        first, count = clusters.group[g, GROUP_FIRST], clusters.group[g, GROUP_COUNT]
        key = block.keys[clusters.group[g, GROUP_COLUMN], 0]
        below = rank(clusters.threshold, first, count, key) if key != HIGHEST else count
        for i in range(count):
            value[place + i] = i >= below
        place += count
    value[place : place + end[EVENT]] = 0
    for k in range(block.offsets[0], block.offsets[1]):
        e = block.events[k]
        if e < event.size and event[e] >= 0:
            value[event[e]] = 1
    place += end[EVENT]
    for f in range(end[FLAG]):
        value[place] = (
            block.flags[clusters.flag[f, FLAG_COLUMN], 0] & clusters.flag[f, FLAG_BIT] != 0
        )
        place += 1


@kernel
def _evaluate(graph, value):
    """Fill the values of all nodes.

    Indices are unsigned, as numba asks of signed ones whether they are negative; and nodes are read
    some at a time before one is written, as the compiler cannot know that they are of other levels.
    Together that takes a third of the time.
    """
    test, first, second, base = graph.test, graph.first, graph.second, np.uint64(graph.inputs)
    for i in range(graph.run.shape[0]):
        kind, n, end = graph.run[i, 0], np.uint64(graph.run[i, 1]), np.uint64(graph.run[i, 2])
        flip = np.uint8(kind in (_AND_NOT, _OR_NOT))
        if kind in (_AND, _AND_NOT):
            while n + _4 <= end:
                a = (value[test[n]] ^ flip) & value[first[n]]
                b = (value[test[n + _1]] ^ flip) & value[first[n + _1]]
                c = (value[test[n + _2]] ^ flip) & value[first[n + _2]]
                d = (value[test[n + _3]] ^ flip) & value[first[n + _3]]
                at = base + n
                value[at], value[at + _1], value[at + _2], value[at + _3] = a, b, c, d
                n += _4
            while n < end:
                value[base + n] = (value[test[n]] ^ flip) & value[first[n]]
                n += _1
        elif kind in (_OR, _OR_NOT):
            while n + _4 <= end:
                a = (value[test[n]] ^ flip) | value[first[n]]
                b = (value[test[n + _1]] ^ flip) | value[first[n + _1]]
                c = (value[test[n + _2]] ^ flip) | value[first[n + _2]]
                d = (value[test[n + _3]] ^ flip) | value[first[n + _3]]
                at = base + n
                value[at], value[at + _1], value[at + _2], value[at + _3] = a, b, c, d
                n += _4
            while n < end:
                value[base + n] = (value[test[n]] ^ flip) | value[first[n]]
                n += _1
        else:
            while n + _2 <= end:
                a, b = value[first[n]], value[first[n + _1]]
                a ^= value[test[n]] & (a ^ value[second[n]])
                b ^= value[test[n + _1]] & (b ^ value[second[n + _1]])
                value[base + n], value[base + n + _1] = a, b
                n += _2
            while n < end:
                a = value[first[n]]
                value[base + n] = a ^ (value[test[n]] & (a ^ value[second[n]]))
                n += _1


@kernel
def run_one(graph, clusters, requirements, block, value, output):
    """Cluster 0 for the one message of the block: its slots, written as in mode FILL.

    value: working memory, a byte for each input and node. `output.out` has room for one slot more
    than there are roots: each is written, and the next one over it if it does not match.
    """
    _inputs(clusters, graph.event, block, value)
    _evaluate(graph, value)
    needs = clusters.starts[1, NEED]
    adequate = np.ones(needs, np.uint8)
    for k in range(needs):
        r = clusters.need[k]
        for i in range(requirements.offsets[r], requirements.offsets[r + 1]):
            adequate[k] &= block.flags[requirements.columns[i], 0] & 1
    result, owner, need = graph.root, graph.owner, graph.need
    out, alive, slots, at = output.out, output.alive, output.slots, output.counts[0]
    for i in range(result.size):
        s = owner[i]
        holds = value[result[i]] & adequate[need[i]]
        if alive.size > 0:
            holds &= alive[s]
        out[at] = slots[0] + s if slots.size == 1 else slots[s]
        at += np.int64(holds)
    output.counts[0] = at
