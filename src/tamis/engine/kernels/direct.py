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


@kernel
def run_direct(rows, way, keys, flags, signature, output, mode):
    """The cubes of the clusters that messages' codes lead to.

    way: (first row of each code, codes of the messages, order of messages; none: as they come).
    """
    begin, code, order = way
    counts, plain = output.counts, mode == COUNT and output.alive.size == 0
    hits, size = np.empty(HITS, np.int64), 0
    row, shape, bound, mask, owner, least = rows
    signed = signature.size > 0
    key = np.empty(MOST_TESTS, np.int64)
    count = order.size if order.size else code.size
    for i in range(count):
        m = np.int64(order[i]) if order.size else i
        v = code[m]
        if v < 0:
            continue
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
                    if found == 0:
                        continue
                    if plain:
                        counts[m] += BITS[found]
                        continue
                    if size > HITS - 8:
                        record(hits, size, owner, output, mode)
                        size = 0
                    size = enter(hits, size, found, np.int64(m) << 32 | (row[r, OWNER] + b))
    record(hits, size, owner, output, mode)
