"""Clusters evaluated by words: 64 messages to the word, one condition after the other."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.diagram.bdd import HIGHEST
from tamis.engine.ground.kernel_output import BIT_AT, BITS, COUNT, living, record
from tamis.engine.ground.layout import EVENT_FEATURE, FLAG_BIT, FLAG_COLUMN, I4, U8
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
from tamis.jit.vectors import some64

_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
PLANES = 32


class Scratch(NamedTuple):
    """Working memory of one thread; what counts or marks is zero between calls."""

    event: U8  # event x WIDE: who fires it
    value: U8  # place
    wide: U8  # place x WIDE
    adequate: U8  # need x WIDE
    rows: U8  # 64 + PLANES + 1 rows: results of a group, counters, carry
    count: I4  # type: ignore[assignment]  # of messages, per cluster
    last: I4  # message that touched the cluster last, per cluster
    place: I4  # of an event among those of the cluster at work, plus one
    asked: U8  # columns that each requirement asks for, of the first 64, as bits


@kernel
def known_events(event, first, last, block):
    """Whether the block knows events first to last, so that nobody need go through those that
    messages fire."""
    known = block.asks.shape[0] > 0
    for i in range(first, last if known else first):
        known &= block.asks[event[i], EVENT_FEATURE] >= 0
    return known


@kernel
def _event_word(block, event, chosen):
    """Who of the chosen fires the event; it is one that the block knows."""
    feature, first, bit, words = block.asks[event]
    word, shift = _ZERO, np.uint64(bit)
    for j in range(chosen.size):
        code = block.codes[feature, chosen[j]]
        if code >= 0:
            word |= ((block.fires[first + code * words] >> shift) & _ONE) << np.uint64(j)
    return word


@kernel(inline=True)
def rank(threshold, first, count, key):
    """How many of the ascending thresholds are <= key."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if threshold[first + middle] > key:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _sweep_word(clusters, c, requirements, block, chosen, scratch):
    """Fill the places of cluster c that its conditions share; the place of their own first node."""
    at, end = clusters.starts[c], clusters.starts[c + 1]
    value = scratch.value
    value[0], value[1] = _ZERO, _ONES
    place = 2
    for g in range(at[GROUP], end[GROUP]):
        column = clusters.group[g, GROUP_COLUMN]
        first = at[THRESHOLD] + clusters.group[g, GROUP_FIRST]
        count = clusters.group[g, GROUP_COUNT]
        row = row_of(block.words.below, column) if c == 0 else np.int64(-1)
        if row >= 0:
            for i in range(count):
                value[place + i] = picked(block.words.bits, row + i, chosen)
            place += count
            continue
        for i in range(count):
            value[place + i] = _ZERO
        for j in range(chosen.size):
            key = block.keys[column, chosen[j]]
            if key != HIGHEST:  # else undefined, or not below any threshold
                r = rank(clusters.threshold, first, count, key)
                if r < count:
                    value[place + r] |= _ONE << np.uint64(j)
        for i in range(1, count):
            value[place + i] |= value[place + i - 1]
        place += count
    if known_events(clusters.event, at[EVENT], end[EVENT], block):
        for i in range(at[EVENT], end[EVENT]):
            value[place] = _event_word(block, clusters.event[i], chosen)
            place += 1
    elif end[EVENT] > at[EVENT]:
        known = block.asks.shape[0] > 0 and c > 0
        for j in range(chosen.size):
            bit = _ONE << np.uint64(j)
            for i in range(block.offsets[chosen[j]], block.offsets[chosen[j] + 1]):
                scratch.event[block.events[i], 0] |= bit
        for i in range(at[EVENT], end[EVENT]):
            e = clusters.event[i]
            row = row_of(block.words.event, e) if c == 0 else np.int64(-1)
            if row >= 0:
                value[place] = picked(block.words.bits, row, chosen)
            elif known and block.asks[e, EVENT_FEATURE] >= 0:
                value[place] = _event_word(block, e, chosen)
            else:
                value[place] = scratch.event[e, 0]
            place += 1
        for j in range(chosen.size):
            for i in range(block.offsets[chosen[j]], block.offsets[chosen[j] + 1]):
                scratch.event[block.events[i], 0] = _ZERO
    for f in range(at[FLAG], end[FLAG]):
        value[place] = flag_word(
            block.flags, clusters.flag[f, FLAG_COLUMN], clusters.flag[f, FLAG_BIT], chosen
        )
        place += 1
    _adequate_word(clusters.need[at[NEED] : end[NEED]], requirements, block, chosen, scratch)
    for h in range(at[HOIST], end[HOIST]):
        first = at[NODE] + clusters.hoist[h]
        last = part_end(clusters, at, end, h)
        value[place + h - at[HOIST]] = _part_word(
            clusters.node, first, last, place + end[HOIST] - at[HOIST], value
        )
    return place + end[HOIST] - at[HOIST]


@kernel
def _adequate_word(needs, requirements, block, chosen, scratch):
    """Who fulfils each requirement. Each column is looked at once; of many requirements, each once
    for messages that define the same columns."""
    columns = block.flags.shape[0]
    if needs.size > 64 and columns <= 64:
        _adequate_alike(needs, block.defined, chosen, scratch)
        return
    defined, known = np.empty(columns, np.uint64), np.zeros(columns, np.bool_)
    for k in range(needs.size):
        word = _ONES if chosen.size == 64 else (_ONE << np.uint64(chosen.size)) - _ONE
        for i in range(requirements.offsets[needs[k]], requirements.offsets[needs[k] + 1]):
            c = requirements.columns[i]
            if not known[c]:
                known[c] = True
                defined[c] = flag_word(block.flags, c, 1, chosen)
            word &= defined[c]
        scratch.adequate[k, 0] = word


@kernel
def _adequate_alike(needs, defined, chosen, scratch):
    """The same by masks of columns: chosen messages that define the same ones stand together."""
    lacking, who = np.empty(64, np.uint64), np.empty(64, np.uint64)
    alike = 0
    for j in range(chosen.size):
        missing = ~defined[chosen[j]]
        if alike == 0 or lacking[alike - 1] != missing:
            lacking[alike], who[alike] = missing, _ZERO
            alike += 1
        who[alike - 1] |= _ONE << np.uint64(j)
    for k in range(needs.size):
        asked = scratch.asked[needs[k]]
        word = _ZERO
        for a in range(alike):
            if asked & lacking[a] == _ZERO:
                word |= who[a]
        scratch.adequate[k, 0] = word


@kernel(inline=True)
def part_end(clusters, at, end, h):
    """The row after the last node of hoisted part h."""
    if h + 1 < end[HOIST]:
        return at[NODE] + clusters.hoist[h + 1]
    return at[NODE] + clusters.root[at[ROOT], ROOT_NODE] if end[ROOT] > at[ROOT] else end[NODE]


@kernel(inline=True)
def _part_word(node, first, last, place, value):
    """Evaluate nodes first to last into places from `place` on; the last one's word."""
    word = _ZERO
    for n in range(first, last):
        low = value[node[n, NODE_LOW]]
        word = low ^ (value[node[n, NODE_TEST]] & (low ^ value[node[n, NODE_HIGH]]))
        value[place] = word
        place += 1
    return word


@kernel(inline=True)
def row_of(rows, number):
    """The row of words that a column of keys or an event has, -1: none."""
    return np.int64(rows[number]) if rows.size > 0 else np.int64(-1)


@kernel
def consecutive(chosen):
    """Whether these are messages one after the other."""
    first, same = np.int64(chosen[0]) if chosen.size > 0 else np.int64(0), True
    for j in range(chosen.size):
        same &= chosen[j] == first + j
    return same


@kernel
def picked(bits, row, chosen):
    """The bits of the chosen messages, at most 64, from a row of words."""
    word = _ZERO
    for j in range(chosen.size):
        m = np.int64(chosen[j])
        word |= ((bits[row, m >> 6] >> np.uint64(m & 63)) & _ONE) << np.uint64(j)
    return word


@kernel
def flag_word(flags, column, bit, chosen):
    """Who of at most 64 chosen messages has the bit set."""
    if chosen.size == 64 and consecutive(chosen):
        every = flags.reshape(flags.size)
        return some64(every, column * flags.shape[1] + chosen[0], np.uint8(bit))
    word = _ZERO
    for j in range(chosen.size):
        if flags[column, chosen[j]] & bit:
            word |= _ONE << np.uint64(j)
    return word


@kernel
def emit(word, chosen, first, subscription, output, mode):
    """Write one subscription's word of results (bit j: message chosen[first + j])."""
    hits, owner, size = np.empty(64, np.int64), np.empty(1, np.int32), 0
    owner[0] = subscription
    base = first
    while word != _ZERO:
        byte = np.int64(word & np.uint64(255))
        for b in range(BITS[byte]):
            hits[size] = np.int64(chosen[base + BIT_AT[byte, b]]) << 32
            size += 1
        word >>= np.uint64(8)
        base += 8
    record(hits, size, owner, output, mode)


@kernel(inline=True)
def _add(planes, word):
    """Add a word of ones to 64 counters that stand upright in `planes`."""
    p = 0
    while word != _ZERO:
        carry = planes[p] & word
        planes[p] ^= word
        word = carry
        p += 1


@kernel
def counted(planes, chosen, first, counts):
    for j in range(min(64, chosen.size - first)):
        total = 0
        for p in range(PLANES):
            total += np.int64((planes[p] >> np.uint64(j)) & _ONE) << p
        counts[chosen[first + j]] += total


@kernel
def run_sparse(clusters, by_need, requirements, block, chosen, scratch, output, mode):
    """Cluster 0 for few relevant subscriptions: only roots whose requirement somebody fulfils."""
    planes = np.zeros(PLANES, np.uint64)
    node, root, value, alive = clusters.node, clusters.root, scratch.value, output.alive
    end = clusters.starts[1]
    for first in range(0, chosen.size, 64):
        part = chosen[first : first + 64]
        place = _sweep_word(clusters, 0, requirements, block, part, scratch)
        for k in range(end[NEED]):
            adequate = scratch.adequate[k, 0]
            if adequate == _ZERO:
                continue
            for i in range(by_need.starts[k], by_need.starts[k + 1]):
                r = by_need.roots[i]
                s = root[r, ROOT_OWNER]
                if not living(alive, s):
                    continue
                last = np.int64(root[r + 1, ROOT_NODE]) if r + 1 < end[ROOT] else end[NODE]
                _part_word(node, np.int64(root[r, ROOT_NODE]), last, place, value)
                word = value[root[r, ROOT_PLACE]] & adequate
                if word != _ZERO:
                    if mode == COUNT:
                        _add(planes, word)
                    else:
                        emit(word, part, 0, s, output, mode)
        if mode == COUNT:
            counted(planes, part, 0, output.counts)
            planes[:] = _ZERO


@kernel
def run_cluster(clusters, c, requirements, block, chosen, scratch, output, mode):
    """Evaluate the roots of cluster c for the chosen messages, 64 at a time."""
    planes = np.zeros(PLANES, np.uint64)
    at, end, alive = clusters.starts[c], clusters.starts[c + 1], output.alive
    for first in range(0, chosen.size, 64):
        part = chosen[first : first + 64]
        place = _sweep_word(clusters, c, requirements, block, part, scratch)
        for r in range(at[ROOT], end[ROOT]):
            adequate = scratch.adequate[clusters.root[r, ROOT_NEED], 0]
            s = clusters.root[r, ROOT_OWNER]
            if adequate == _ZERO or not living(alive, s):
                continue
            last = at[NODE] + clusters.root[r + 1, ROOT_NODE] if r + 1 < end[ROOT] else end[NODE]
            _part_word(
                clusters.node, at[NODE] + clusters.root[r, ROOT_NODE], last, place, scratch.value
            )
            word = scratch.value[clusters.root[r, ROOT_PLACE]] & adequate
            if word != _ZERO:
                if mode == COUNT:
                    _add(planes, word)
                else:
                    emit(word, part, 0, s, output, mode)
        if mode == COUNT:
            counted(planes, part, 0, output.counts)
            planes[:] = _ZERO
