"""Cluster 0, which concerns every message: 2,048 messages at a time, in rows of words."""

from __future__ import annotations

import numpy as np
from numba import njit

from tamis.diagram.kernels import HIGHEST
from tamis.engine.layout import EVENT, FLAG, GROUP, HOIST, NEED, NODE, ROOT
from tamis.engine.outputs import BIT_AT, BITMAP, BITS, COUNT
from tamis.engine.vector import WIDE, add8, choose
from tamis.engine.words import PLANES, counted, emit, flag_word, part_end, rank, run_sparse

_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
ROWS = 64 + PLANES + 1


@njit(cache=True, nogil=True)
def _places_wide(clusters, requirements, block, chosen, scratch):
    """Fill the places of cluster 0 before its nodes, for at most 64 * WIDE messages."""
    end = clusters.starts[1]
    value = scratch.wide
    value[0, :], value[1, :] = _ZERO, _ONES
    place = 2
    for g in range(end[GROUP]):
        column, first, count = clusters.group[g, 0], clusters.group[g, 1], clusters.group[g, 2]
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
            value[place] = scratch.event[clusters.event[i]]
            place += 1
        if fired > scratch.event.shape[0]:
            scratch.event[:] = _ZERO
        else:
            for j in range(chosen.size):
                for i in range(block.offsets[chosen[j]], block.offsets[chosen[j] + 1]):
                    scratch.event[block.events[i], :] = _ZERO
    for f in range(end[FLAG]):
        for w in range(WIDE):
            part = chosen[64 * w : 64 * w + 64]
            value[place, w] = flag_word(block.flags, clusters.flag[f, 0], clusters.flag[f, 1], part)
        place += 1
    return place


@njit(cache=True, nogil=True)
def _adequate_wide(clusters, requirements, block, chosen, scratch, active):
    """Who fulfils each requirement of cluster 0; `active`: somebody does."""
    columns = block.flags.shape[0]
    defined = np.zeros((columns, WIDE), np.uint64)
    for c in range(columns):
        for w in range(WIDE):
            defined[c, w] = flag_word(block.flags, c, 1, chosen[64 * w : 64 * w + 64])
    everyone = np.zeros(WIDE, np.uint64)
    for w in range(WIDE):
        left = min(64, max(0, chosen.size - 64 * w))
        everyone[w] = _ONES if left == 64 else (_ONE << np.uint64(left)) - _ONE
    for k in range(clusters.starts[1, NEED]):
        r = clusters.need[k]
        some = _ZERO
        for w in range(WIDE):
            word = everyone[w]
            for i in range(requirements.offsets[r], requirements.offsets[r + 1]):
                word &= defined[requirements.columns[i], w]
            scratch.adequate[k, w] = word
            some |= word
        active[k] = some != _ZERO


@njit(cache=True, nogil=True)
def _part_wide(node, first, last, place, value):
    """Evaluate nodes first to last into places from `place` on."""
    out = np.uint64(place)
    for n in range(first, last):
        choose(value, np.uint64(node[n, 0]), np.uint64(node[n, 1]), np.uint64(node[n, 2]), out)
        out += _ONE


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _emit_wide(rows, group, size, chosen, slots, output):
    """Write the results of up to 64 subscriptions (rows of words) message by message."""
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
            at = output.counts[m]
            base = 0
            while word != _ZERO:
                byte = np.int64(word & np.uint64(255))
                for b in range(BITS[byte]):
                    output.out[at] = slots[group[base + BIT_AT[byte, b]]]
                    at += 1
                word >>= np.uint64(8)
                base += 8
            output.counts[m] = at


@njit(cache=True, nogil=True)
def _roots_wide(clusters, place, chosen, slots, alive, scratch, active, output, mode):
    """Evaluate the conditions of cluster 0 one by one; count or write them in groups."""
    rows, planes, carry = scratch.rows[:64], scratch.rows[64 : 64 + PLANES], scratch.rows[-1:]
    planes[:] = _ZERO
    group = np.empty(64, np.int64)
    size = 0
    full = 8 if mode == COUNT else 64
    end = clusters.starts[1]
    for r in range(end[ROOT]):
        s, need = clusters.root[r, 2], clusters.root[r, 3]
        if not (active[need] and alive[s]):
            continue
        last = np.int64(clusters.root[r + 1, 0]) if r + 1 < end[ROOT] else end[NODE]
        _part_wide(clusters.node, clusters.root[r, 0], last, place, scratch.wide)
        value, adequate = scratch.wide[clusters.root[r, 1]], scratch.adequate[need]
        if mode == BITMAP:
            for w in range(WIDE):
                emit(value[w] & adequate[w], chosen, 64 * w, s, 0, output, BITMAP)
            continue
        for w in range(WIDE):
            rows[size, w] = value[w] & adequate[w]
        group[size] = s
        size += 1
        if size == full:
            if mode == COUNT:
                _count_wide(rows, planes, carry)
            else:
                _emit_wide(rows, group, size, chosen, slots, output)
            size = 0
    if mode == COUNT:
        rows[size:8] = _ZERO
        _count_wide(rows, planes, carry)
        for w in range(WIDE):
            if 64 * w < chosen.size:
                counted(planes[:, w].copy(), chosen, 64 * w, output.counts)
    elif size:
        _emit_wide(rows, group, size, chosen, slots, output)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def run_wide(clusters, by_need, requirements, block, chosen, slots, alive, scratch, output, mode):
    """Cluster 0 for all messages; conditions whose requirement no message of a block fulfils
    cost nothing but a look."""
    active = np.zeros(clusters.starts[1, NEED] + 1, np.bool_)
    at, end = clusters.starts[0], clusters.starts[1]
    for begin in range(0, chosen.size, 64 * WIDE):
        part = chosen[begin : begin + 64 * WIDE]
        _adequate_wide(clusters, requirements, block, part, scratch, active)
        if _is_sparse(by_need, active, scratch):
            run_sparse(
                clusters, by_need, requirements, block, part, slots, alive, scratch, output, mode
            )
            continue
        place = _places_wide(clusters, requirements, block, part, scratch)
        own = place + end[HOIST]
        for h in range(end[HOIST]):
            first, last = clusters.hoist[h], part_end(clusters, at, end, h)
            _part_wide(clusters.node, first, last, own, scratch.wide)
            scratch.wide[place + h] = scratch.wide[own + last - first - 1]
        _roots_wide(clusters, own, part, slots, alive, scratch, active, output, mode)
