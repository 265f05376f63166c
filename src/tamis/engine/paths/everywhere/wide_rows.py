"""Cluster 0, which concerns every message: 2,048 messages at a time, in rows of words."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.diagram.bdd import HIGHEST
from tamis.engine.ground.kernel_output import BIT_AT, BITMAP, BITS, COUNT, KEEP, living
from tamis.engine.ground.layout import FLAG_BIT, FLAG_COLUMN
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
)
from tamis.engine.paths.everywhere.words import (
    PLANES,
    consecutive,
    counted,
    emit,
    flag_word,
    part_end,
    picked,
    rank,
    row_of,
    run_sparse,
)
from tamis.jit.kernel import kernel
from tamis.jit.vectors import WIDE, add8, choose, some64

_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
ROWS = 64 + PLANES + 1


@kernel
def _places_wide(clusters, requirements, block, chosen, scratch):
    """Fill the places of cluster 0 before its nodes, for at most 64 * WIDE messages."""
    end = clusters.starts[1]
    value = scratch.wide
    value[0, :], value[1, :] = _ZERO, _ONES
    place = 2
    aligned = chosen[0] & 63 == 0 and consecutive(chosen)
    for g in range(end[GROUP]):
        column, first, count = (
            clusters.group[g, GROUP_COLUMN],
            clusters.group[g, GROUP_FIRST],
            clusters.group[g, GROUP_COUNT],
        )
        row = row_of(block.words.below, column)
        if row >= 0:
            for i in range(count):
                _copy_words(block.words.bits, row + i, chosen, aligned, value[place + i])
            place += count
            continue
        value[place : place + count] = _ZERO
        for j in range(chosen.size):
            key = block.keys[column, chosen[j]]
            if key != HIGHEST:
                r = rank(clusters.threshold, first, count, key)
                if r < count:
                    value[place + r, j >> 6] |= _ONE << np.uint64(j & 63)
        for i in range(1, count):
            for w in range(WIDE):
                value[place + i, w] |= value[place + i - 1, w]
        place += count
    if end[EVENT] > 0:
        for j in range(chosen.size):
            bit = _ONE << np.uint64(j & 63)
            for i in range(block.offsets[chosen[j]], block.offsets[chosen[j] + 1]):
                scratch.event[block.events[i], j >> 6] |= bit
        fired = 0
        for j in range(chosen.size):
            fired += block.offsets[chosen[j] + 1] - block.offsets[chosen[j]]
        for i in range(end[EVENT]):
            row = row_of(block.words.event, clusters.event[i])
            if row >= 0:
                _copy_words(block.words.bits, row, chosen, aligned, value[place])
            else:
                value[place] = scratch.event[clusters.event[i]]
            place += 1
        if fired > scratch.event.shape[0]:
            scratch.event[:] = _ZERO
        else:
            for j in range(chosen.size):
                for i in range(block.offsets[chosen[j]], block.offsets[chosen[j] + 1]):
                    scratch.event[block.events[i], :] = _ZERO
    for f in range(end[FLAG]):
        column, bit = clusters.flag[f, FLAG_COLUMN], clusters.flag[f, FLAG_BIT]
        _flag_words(block.flags, column, bit, chosen, aligned, value[place])
        place += 1
    return place


@kernel
def _flag_words(flags, column, bit, chosen, aligned, out):
    """Who of the chosen has the bit set; `aligned`: they are consecutive."""
    every, first = flags.reshape(flags.size), column * flags.shape[1] + chosen[0]
    for w in range(WIDE):
        left = chosen.size - 64 * w
        if left <= 0:
            out[w] = _ZERO
        elif aligned and left >= 64:
            out[w] = some64(every, first + 64 * w, np.uint8(bit))
        else:
            out[w] = flag_word(flags, column, bit, chosen[64 * w : 64 * w + 64])


@kernel
def _copy_words(bits, row, chosen, aligned, out):
    """The bits of the chosen messages; `aligned`: they stand side by side in whole words."""
    words, first = (chosen.size + 63) >> 6, chosen[0] >> 6
    for w in range(WIDE):
        if w >= words:
            out[w] = _ZERO
        elif aligned:
            out[w] = bits[row, first + w]
        else:
            out[w] = picked(bits, row, chosen[64 * w : 64 * w + 64])


@kernel
def _adequate_wide(clusters, requirements, block, chosen, scratch, active):
    """Who fulfils each requirement of cluster 0; `active`: somebody does."""
    columns = block.flags.shape[0]
    defined, known = np.zeros((columns, WIDE), np.uint64), np.zeros(columns, np.bool_)
    aligned = consecutive(chosen)
    everyone = np.zeros(WIDE, np.uint64)
    for w in range(WIDE):
        left = min(64, max(0, chosen.size - 64 * w))
        everyone[w] = _ONES if left == 64 else (_ONE << np.uint64(left)) - _ONE
    for k in range(clusters.starts[1, NEED]):
        r = clusters.need[k]
        for i in range(requirements.offsets[r], requirements.offsets[r + 1]):
            c = requirements.columns[i]
            if not known[c]:
                known[c] = True
                _flag_words(block.flags, c, 1, chosen, aligned, defined[c])
        some = _ZERO
        for w in range(WIDE):
            word = everyone[w]
            for i in range(requirements.offsets[r], requirements.offsets[r + 1]):
                word &= defined[requirements.columns[i], w]
            scratch.adequate[k, w] = word
            some |= word
        active[k] = some != _ZERO


@kernel
def _part_wide(node, first, last, place, value):
    """Evaluate nodes first to last into places from `place` on."""
    out = np.uint64(place)
    for n in range(first, last):
        choose(
            value,
            np.uint64(node[n, NODE_TEST]),
            np.uint64(node[n, NODE_LOW]),
            np.uint64(node[n, NODE_HIGH]),
            out,
        )
        out += _ONE


@kernel
def _count_wide(rows, planes, carry):
    """Add 8 rows of words to counters that stand upright in `planes`."""
    add8(rows, planes, carry)
    for p in range(3, PLANES):
        some = _ZERO
        for w in range(WIDE):
            over = carry[0, w]
            carry[0, w] = planes[p, w] & over
            planes[p, w] ^= over
            some |= carry[0, w]
        if some == _ZERO:
            break


@kernel
def _transpose(words):
    """Turn 64 x 64 bits about their diagonal."""
    mask = np.uint64(0x00000000FFFFFFFF)
    step = 32
    while step:
        k = 0
        while k < 64:
            t = ((words[k] >> np.uint64(step)) ^ words[k + step]) & mask
            words[k] ^= t << np.uint64(step)
            words[k + step] ^= t
            k = (k + step + 1) & ~step
        step >>= 1
        mask ^= mask << np.uint64(step)


@kernel
def _emit_wide(rows, group, size, chosen, output):
    """Write the results of up to 64 subscriptions (rows of words) message by message."""
    counts, out, slots = output.counts, output.out, output.slots
    words = np.empty(64, np.uint64)
    for w in range(WIDE):
        if 64 * w >= chosen.size:
            break
        for i in range(64):
            words[i] = rows[i, w] if i < size else _ZERO
        _transpose(words)
        for j in range(min(64, chosen.size - 64 * w)):
            word = words[j]
            m = chosen[64 * w + j]
            at = counts[m]
            base = 0
            while word != _ZERO:
                byte = np.int64(word & np.uint64(255))
                for b in range(BITS[byte]):
                    s = group[base + BIT_AT[byte, b]]
                    out[at] = slots[0] + s if slots.size == 1 else slots[s]
                    at += 1
                word >>= np.uint64(8)
                base += 8
            counts[m] = at


@kernel
def _roots_wide(clusters, place, chosen, scratch, active, output, mode):
    """Evaluate the conditions of cluster 0 one by one; count or write them in groups."""
    rows, planes, carry = scratch.rows[:64], scratch.rows[64 : 64 + PLANES], scratch.rows[-1:]
    planes[:] = _ZERO
    group = np.empty(64, np.int64)
    size = 0
    full = 8 if mode == COUNT else 64
    end, alive = clusters.starts[1], output.alive
    for r in range(end[ROOT]):
        s, need = clusters.root[r, ROOT_OWNER], clusters.root[r, ROOT_NEED]
        if not (active[need] and living(alive, s)):
            continue
        last = np.int64(clusters.root[r + 1, ROOT_NODE]) if r + 1 < end[ROOT] else end[NODE]
        _part_wide(clusters.node, clusters.root[r, ROOT_NODE], last, place, scratch.wide)
        value, adequate = scratch.wide[clusters.root[r, ROOT_PLACE]], scratch.adequate[need]
        if mode == BITMAP:
            for w in range(WIDE):
                emit(value[w] & adequate[w], chosen, 64 * w, s, output, BITMAP)
            continue
        for w in range(WIDE):
            rows[size, w] = value[w] & adequate[w]
        group[size] = s
        size += 1
        if size == full:
            if mode == COUNT:
                _count_wide(rows, planes, carry)
            else:
                _emit_wide(rows, group, size, chosen, output)
            size = 0
    if mode == COUNT:
        rows[size:8] = _ZERO
        _count_wide(rows, planes, carry)
        for w in range(WIDE):
            if 64 * w < chosen.size:
                counted(planes[:, w].copy(), chosen, 64 * w, output.counts)
    elif size:
        _emit_wide(rows, group, size, chosen, output)


@kernel
def _is_sparse(by_need, active, scratch):
    """Whether word by word is cheaper: a node takes near 5 ns as a row, near 2 as a word."""
    rows = words = 0
    for k in range(by_need.starts.size - 1):
        if active[k]:
            size = by_need.starts[k + 1] - by_need.starts[k]
            rows += size
            for w in range(WIDE):
                if scratch.adequate[k, w] != _ZERO:
                    words += size
    return 2 * words < 5 * rows


@kernel
def run_wide(clusters, by_need, requirements, block, chosen, scratch, output, mode):
    """Cluster 0 for all messages; conditions whose requirement no message of a block fulfils
    cost nothing but a look."""
    active = np.zeros(clusters.starts[1, NEED] + 1, np.bool_)
    at, end = clusters.starts[0], clusters.starts[1]
    for begin in range(0, chosen.size, 64 * WIDE):
        part = chosen[begin : begin + 64 * WIDE]
        _adequate_wide(clusters, requirements, block, part, scratch, active)
        if _is_sparse(by_need, active, scratch):
            run_sparse(clusters, by_need, requirements, block, part, scratch, output, mode)
            continue
        place = _places_wide(clusters, requirements, block, part, scratch)
        own = place + end[HOIST]
        for h in range(end[HOIST]):
            first, last = clusters.hoist[h], part_end(clusters, at, end, h)
            _part_wide(clusters.node, first, last, own, scratch.wide)
            scratch.wide[place + h] = scratch.wide[own + last - first - 1]
        _roots_wide(clusters, own, part, scratch, active, output, mode)


@kernel
def _grouped(defined, first, last):
    """Messages first to last, those that define the same columns side by side."""
    count = last - first
    size = 16
    while size < 2 * count:
        size *= 2
    group, label = np.full(size, -1, np.int32), np.empty(count, np.int32)
    head, total = np.empty(count, np.int64), np.zeros(count, np.int64)
    groups = 0
    for m in range(count):
        mask = defined[first + m]
        at = np.int64((mask ^ (mask >> np.uint64(29))) & np.uint64(size - 1))
        while group[at] >= 0 and defined[head[group[at]]] != mask:
            at = (at + 1) & (size - 1)
        if group[at] < 0:
            group[at] = groups
            head[groups] = first + m
            groups += 1
        label[m] = group[at]
        total[group[at]] += 1
    start = 0
    for g in range(groups):
        start, total[g] = start + total[g], start
    order = np.empty(count, np.int32)
    for m in range(count):
        order[total[label[m]]] = first + m
        total[label[m]] += 1
    return order


@kernel
def run_everywhere(clusters, by_need, requirements, block, scratch, output, mode):
    """Cluster 0, for more than 64 messages. In mode KEEP they are only counted: the pairs would be
    larger than the result."""
    mode = COUNT if mode == KEEP else mode
    everyone = np.arange(block.flags.shape[1]).astype(np.int32)
    if clusters.starts[1, NEED] > 1:
        everyone = _grouped(block.defined, 0, everyone.size)
    run_wide(clusters, by_need, requirements, block, everyone, scratch, output, mode)
