"""Cubes evaluated message by message, eight subscriptions to the vector."""

from __future__ import annotations

import numpy as np
from numba import njit

from tamis.engine.layout import BIT, BOUND, CUBE, EVENT, FLAG, MUST, NEED, TEST, WANT
from tamis.engine.outputs import BIT_AT, BITMAP, BITS, COUNT, FILL, KEEP
from tamis.engine.vector import agree8, at_most8

SEARCHED = 64  # cubes from which on a search for the last one that can match pays


@njit(cache=True, nogil=True)
def _whole_columns(flags):
    """Which columns every message defines."""
    whole = np.empty(flags.shape[0], np.bool_)
    for c in range(flags.shape[0]):
        every = np.uint8(1)
        for m in range(flags.shape[1]):
            every &= flags[c, m]
        whole[c] = every != 0
    return whole


@njit(cache=True, nogil=True)
def known_events(event, first, last, block):
    """Whether the block knows events first to last, so that nobody need go through those that
    messages fire."""
    known = block.asks.shape[0] > 0
    for i in range(first, last if known else first):
        known &= block.asks[event[i], 0] >= 0
    return known


@njit(cache=True, nogil=True, inline="always")
def _fired(clusters, c, bit, block, m):
    """The bits of cluster c that are events, and that message m fires."""
    first = clusters.starts[c, EVENT]
    events = clusters.starts[c + 1, EVENT] - first
    bits = np.int64(0)
    for b in range(bit.size):
        if bit[b] < events:
            ask = block.asks[clusters.event[first + bit[b]]]
            code = block.codes[ask[0], m] if ask[0] >= 0 else np.int32(-1)
            if code >= 0:
                word = block.fires[ask[1] + code * ask[3]] >> np.uint64(ask[2])
                bits |= np.int64(word & np.uint64(1)) << b
    return bits


@njit(cache=True, nogil=True, inline="always")
def reach(bound, first, count, key):
    """How many of the ascending bounds are <= key."""
    low, size = first, count
    while size > 1:
        half = size >> 1
        low += half if bound[low + half - 1] <= key else 0
        size -= half
    return low - first + (1 if bound[low] <= key else 0)


@njit(cache=True, nogil=True, inline="always")
def _open_bits(clusters, c, bit, requirements, whole, place, opened):
    """Prepare the bits of cluster c: those that every message has; how many are flags or needs to
    be asked for (`opened`: bits and numbers); whether some are events (they get a place)."""
    at, end = clusters.starts[c], clusters.starts[c + 1]
    events, flags = end[EVENT] - at[EVENT], end[FLAG] - at[FLAG]
    always, count, fired = np.int64(0), 0, False
    for b in range(bit.size):
        number = np.int64(bit[b])
        if number < events:
            place[clusters.event[at[EVENT] + number]] = b + 1
            fired = True
            continue
        if number >= events + flags:
            r = clusters.need[at[NEED] + number - events - flags]
            adequate = True
            for i in range(requirements.offsets[r], requirements.offsets[r + 1]):
                adequate &= whole[requirements.columns[i]]
            if adequate:
                always |= np.int64(1) << b
                continue
            number = -1 - r
        else:
            number = at[FLAG] + number - events
        opened[count, 0], opened[count, 1] = b, number
        count += 1
    return always, count, fired


@njit(cache=True, nogil=True, inline="always")
def _row_bits(clusters, requirements, block, m, opened):
    """The opened bits of message m."""
    bits = np.int64(0)
    for i in range(opened.shape[0]):
        f = opened[i, 1]
        if f >= 0:
            holds = block.flags[clusters.flag[f, 0], m] & clusters.flag[f, 1] != 0
        else:
            holds = True
            for k in range(requirements.offsets[-1 - f], requirements.offsets[-f]):
                holds &= block.flags[requirements.columns[k], m] & 1 != 0
        if holds:
            bits |= np.int64(1) << opened[i, 0]
    return bits


@njit(cache=True, nogil=True)
def run_cubes(clusters, cubes, requirements, block, work, first, alive, slots, output, mode):
    """The cubes of the touched clusters from number `first` on; how many clusters were kept.

    work: (touched clusters, starts, messages of each behind the other, a place for each event,
    which is zero between calls). In mode KEEP `output.at[0]` moves on; a cluster for whose pairs
    there is no room is not kept, nor any behind it: these are only counted.
    """
    touched, starts, chosen, place = work
    keys, bound, counts = block.keys, cubes.bound, output.counts
    key, opened = np.empty(2 * keys.shape[0] + 1, np.int64), np.empty((64, 2), np.int64)
    kept, pair = touched.size, output.at[0]
    all_alive = output.all_alive
    whole = _whole_columns(block.flags)
    for i in range(first, touched.size):
        c = touched[i]
        begin, end = cubes.starts[c], cubes.starts[c + 1]
        n = end[CUBE] - begin[CUBE]
        if n == 0:
            continue
        test, tests, at = begin[TEST], end[TEST] - begin[TEST], begin[BOUND]
        masked = end[BOUND] - at > tests * n
        must, want = begin[MUST], begin[WANT]
        asked = cubes.bit[begin[BIT] : end[BIT]]
        always, open_bits, fired = _open_bits(
            clusters, c, asked, requirements, whole, place, opened
        )
        known = fired and known_events(
            clusters.event, clusters.starts[c, EVENT], clusters.starts[c + 1, EVENT], block
        )
        mark = pair
        for j in range(starts[i], starts[i + 1]):
            m = chosen[j]
            bits = always
            if open_bits:
                bits |= _row_bits(clusters, requirements, block, m, opened[:open_bits])
            if fired and block.asks.shape[0] > 0:
                bits |= _fired(clusters, c, asked, block, m)
            if fired and not known:
                for k in range(block.offsets[m], block.offsets[m + 1]):
                    if place[block.events[k]] > 0:
                        bits |= np.int64(1) << (place[block.events[k]] - 1)
            if bits & must != want:
                continue
            for t in range(tests):
                column = cubes.test[test + t]
                key[t] = keys[column, m] if column >= 0 else ~keys[~column, m]
            last = n
            if n >= SEARCHED and tests > 0:
                last = reach(bound, at, n, key[0])
            for b in range(0, last, 8):
                found = np.int64(255) if last - b >= 8 else (np.int64(1) << (last - b)) - 1
                for t in range(tests):
                    found &= at_most8(bound, at + t * n + b, key[t])
                if masked and found != 0:
                    found &= agree8(bound, at + tests * n + b, at + (tests + 1) * n + b, bits)
                if found == 0:
                    continue
                if all_alive and mode == COUNT:
                    counts[m] += BITS[found]
                    continue
                for k in range(BITS[found]):
                    s = cubes.subscription[begin[CUBE] + b + BIT_AT[found, k]]
                    if not alive[s]:
                        continue
                    if mode == BITMAP:
                        output.bits[s, m >> 6] |= np.uint64(1) << np.uint64(m & 63)
                        continue
                    if mode == FILL:
                        output.out[counts[m]] = slots[s]
                    elif mode == KEEP and kept == touched.size:
                        if pair == output.pairs.size:
                            kept, pair = i, mark
                        else:
                            output.pairs[pair] = np.int64(m) << 32 | np.int64(slots[s])
                            pair += 1
                    counts[m] += 1
        if fired:
            first_event = clusters.starts[c, EVENT]
            for e in range(first_event, clusters.starts[c + 1, EVENT]):
                place[clusters.event[e]] = 0
    output.at[0] = pair
    return kept
