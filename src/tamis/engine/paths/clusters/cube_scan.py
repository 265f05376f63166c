"""Cubes evaluated message by message, eight subscriptions to the vector."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.engine.choosing.bounds import SEARCHED, eight, enter, reach
from tamis.engine.ground.kernel_output import BITS, COUNT, HITS, record
from tamis.engine.ground.layout import (
    EVENT_BIT,
    EVENT_FEATURE,
    EVENT_WORD,
    EVENT_WORDS,
    FLAG_BIT,
    FLAG_COLUMN,
)
from tamis.engine.paths.clusters.cubes import BIT, BOUND, CUBE, MUST, TEST, WANT
from tamis.engine.paths.everywhere.straight_line import EVENT, FLAG, NEED
from tamis.engine.paths.everywhere.words import known_events
from tamis.jit.kernel import kernel
from tamis.jit.vectors import agree8


@kernel
def _whole_columns(flags):
    """Which columns every message defines."""
    whole = np.empty(flags.shape[0], np.bool_)
    for c in range(flags.shape[0]):
        every = np.uint8(1)
        for m in range(flags.shape[1]):
            every &= flags[c, m]
        whole[c] = every != 0
    return whole


@kernel(inline=True)
def _fired(clusters, c, bit, block, m):
    """The bits of cluster c that are events, and that message m fires."""
    first = clusters.starts[c, EVENT]
    events = clusters.starts[c + 1, EVENT] - first
    bits = np.int64(0)
    for b in range(bit.size):
        if bit[b] < events:
            ask = block.asks[clusters.event[first + bit[b]]]
            feature = ask[EVENT_FEATURE]
            code = block.codes[feature, m] if feature >= 0 else np.int32(-1)
            if code >= 0:
                word = block.fires[ask[EVENT_WORD] + code * ask[EVENT_WORDS]]
                word >>= np.uint64(ask[EVENT_BIT])
                bits |= np.int64(word & np.uint64(1)) << b
    return bits


@kernel(inline=True)
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


@kernel(inline=True)
def _row_bits(clusters, requirements, block, m, opened):
    """The opened bits of message m."""
    bits = np.int64(0)
    for i in range(opened.shape[0]):
        f = opened[i, 1]
        if f >= 0:
            holds = block.flags[clusters.flag[f, FLAG_COLUMN], m] & clusters.flag[f, FLAG_BIT] != 0
        else:
            holds = True
            for k in range(requirements.offsets[-1 - f], requirements.offsets[-f]):
                holds &= block.flags[requirements.columns[k], m] & 1 != 0
        if holds:
            bits |= np.int64(1) << opened[i, 0]
    return bits


@kernel
def run_cubes(clusters, cubes, requirements, block, work, output, mode):
    """The cubes of the touched clusters.

    work: (touched clusters, starts, messages of each behind the other, a place for each event,
    which is zero between calls).
    """
    touched, starts, chosen, place = work
    counts, plain = output.counts, mode == COUNT and output.alive.size == 0
    hits, size = np.empty(HITS, np.int64), 0
    keys, bound, owner = block.keys, cubes.bound, cubes.subscription
    key, opened = np.empty(2 * keys.shape[0] + 1, np.int64), np.empty((64, 2), np.int64)
    whole = _whole_columns(block.flags)
    for i in range(touched.size):
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
                found = eight(bound, at + b, n, key, tests, last - b)
                if masked and found != 0:
                    found &= agree8(bound, at + tests * n + b, at + (tests + 1) * n + b, bits)
                if found == 0:
                    continue
                if plain:
                    counts[m] += BITS[found]
                    continue
                if size > HITS - 8:
                    record(hits, size, owner, output, mode)
                    size = 0
                size = enter(hits, size, found, np.int64(m) << 32 | (begin[CUBE] + b))
        if fired:
            first_event = clusters.starts[c, EVENT]
            for e in range(first_event, clusters.starts[c + 1, EVENT]):
                place[clusters.event[e]] = 0
    record(hits, size, owner, output, mode)
