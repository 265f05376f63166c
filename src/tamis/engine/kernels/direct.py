"""Clusters that one value leads to, evaluated straight away, message by message."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.engine.compile.direct_rows import (
    ASKED,
    CHUNK,
    FIRST,
    KEYS,
    LEAST,
    MASK,
    MASKED,
    MOST_TESTS,
    NEEDED,
    NEEDS,
    OWNER,
    SHAPE,
    TESTS,
    WANTED,
)
from tamis.engine.compile.direct_rows import COUNT as CUBES
from tamis.engine.kernels.cube_scan import SEARCHED, eight, enter, reach
from tamis.engine.kernels.output import BITS, COUNT, HITS, record
from tamis.engine.simd import agree8, at_most8
from tamis.kernel import kernel

_AT_ONCE = 512


@kernel(inline=True)
def _from(mask, first, count, common, wanted):
    """The first of the ascending wants that is not below `wanted`, of the bits in common."""
    low, size = first, count
    while size > 0:
        half = size >> 1
        if mask[low + half] & common < wanted:
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low - first


@kernel(inline=True)
def _gather(codes, w, first, who):
    """Write the messages from `first` on that have a value of way w; how many these are."""
    count = 0
    for m in range(first, min(first + who.size, codes.shape[1])):
        who[count] = m
        count += codes[w, m] >= 0
    return count


@kernel
def run_direct(rows, ways, keys, flags, signature, output, mode):
    """The cubes of the clusters that messages' values lead to, one way after the other.

    Messages with a value are gathered first, some hundreds at a time, and counts are added up
    without asking whether there are any: the processor would guess both wrong.
    """
    begin, base, codes, order, places = ways
    counts, plain = output.counts, mode == COUNT and output.alive.size == 0
    hits, size = np.empty(HITS, np.int64), 0
    row, shape, bound, mask, owner, least = rows
    signed = signature.size > 0
    key = np.empty(MOST_TESTS, np.int64)
    who = np.empty(_AT_ONCE, np.int32)
    for w in range(base.size):
        ordered = places[w + 1] - places[w]
        for first in range(0, ordered if ordered else codes.shape[1], _AT_ONCE):
            if ordered:
                count = min(ordered - first, _AT_ONCE)
                for i in range(count):
                    who[i] = order[places[w] + first + i]
            else:
                count = _gather(codes, w, first, who)
            for i in range(count):
                m = np.int64(who[i])
                v = base[w] + codes[w, m]
                for r in range(begin[v], begin[v + 1]):
                    s, n = np.int64(row[r, SHAPE]), np.int64(row[r, CUBES])
                    tests, masked, must = shape[s, TESTS], shape[s, MASKED], shape[s, ASKED]
                    bits = signature[m] if signed else np.int64(0)
                    if masked == 0 and bits & must != shape[s, WANTED]:
                        continue
                    defined = np.uint8(1)
                    for k in range(shape[s, NEEDS]):
                        defined &= flags[shape[s, NEEDED + k], m]
                    if defined & 1 == 0:
                        continue
                    at, its_mask = np.int64(row[r, FIRST]), np.int64(row[r, MASK])
                    low, last = np.int64(0), n
                    sought = n >= SEARCHED and tests == 0 and masked != 0
                    if sought:
                        low = _from(mask, its_mask + n, n, must, bits & must)
                    for t in range(tests):
                        key[t] = keys[shape[s, KEYS + 2 * t], m] ^ shape[s, KEYS + 2 * t + 1]
                    at_least, chunks, some = np.int64(row[r, LEAST]), 1, np.int64(1)
                    if at_least >= 0:
                        chunks = (n + CHUNK - 1) // CHUNK
                    elif n >= SEARCHED and tests > 0:
                        last = reach(bound, at, n, key[0])
                    total = np.int64(0)
                    for chunk in range(chunks):
                        start, stop = low, last
                        if at_least >= 0:
                            if chunk & 7 == 0:
                                some = np.int64(255)
                                for t in range(tests):
                                    some &= at_most8(least, at_least + t * chunks + chunk, key[t])
                            if (some >> (chunk & 7)) & 1 == 0:
                                continue
                            start = chunk * CHUNK
                            stop = min(n, start + CHUNK)
                        for b in range(start, stop, 8):
                            if sought and mask[its_mask + n + b] & must > bits & must:
                                break
                            found = eight(bound, at + b, n, key, tests, stop - b)
                            if masked != 0 and found != 0:
                                found &= agree8(mask, its_mask + b, its_mask + n + b, bits)
                            total += BITS[found]
                            if plain or found == 0:
                                continue
                            if size > HITS - 8:
                                record(hits, size, owner, output, mode)
                                size = 0
                            size = enter(hits, size, found, np.int64(m) << 32 | (row[r, OWNER] + b))
                    if plain:
                        counts[m] += total
    record(hits, size, owner, output, mode)
