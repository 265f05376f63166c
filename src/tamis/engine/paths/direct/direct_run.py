"""Clusters that one value leads to, evaluated straight away, message by message."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.engine.choosing.bounds import SEARCHED, eight, enter, reach
from tamis.engine.ground.kernel_output import BITS, COUNT, HITS, record
from tamis.engine.paths.direct.direct_rows import (
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
from tamis.engine.paths.direct.direct_rows import COUNT as CUBES
from tamis.jit.kernel import kernel
from tamis.jit.vectors import agree8

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
def _gather(ways, w, first, count, whose):
    """Enter whose[:3]: the messages from `first` on whose value of way w leads to rows, the first
    of these, and the end of them; how many these are."""
    begin, base, codes, order, places = ways
    ordered, found = places[w + 1] > places[w], 0
    for i in range(first, first + count):
        m = np.int64(order[places[w] + i]) if ordered else i
        v = codes[w, m]
        has = v >= 0
        v = base[w] + max(v, 0)
        whose[0, found], whose[1, found], whose[2, found] = m, begin[v], begin[v + 1]
        found += has & (begin[v] < begin[v + 1])
    return found


@kernel(inline=True)
def _further(whose, count):
    """Those of so many messages that have another row."""
    found = 0
    for i in range(count):
        r = whose[1, i] + 1
        whose[0, found], whose[1, found], whose[2, found] = whose[0, i], r, whose[2, i]
        found += r < whose[2, found]
    return found


@kernel
def run_direct(rows, ways, keys, flags, signature, output, mode):
    """The cubes of the clusters that messages' values lead to, one way after the other.

    Messages with a value are gathered first, some hundreds at a time, and counts are added up
    without asking whether there are any: the processor would guess both wrong.
    """
    _, base, codes, _, places = ways
    counts, plain = output.counts, mode == COUNT and output.alive.size == 0
    hits, size = np.empty(HITS, np.int64), 0
    row, shape, bound, mask, owner, least = rows
    signed = signature.size > 0
    key = np.empty(MOST_TESTS, np.int64)
    whose = np.empty((3, _AT_ONCE), np.int32)
    for w in range(base.size):
        led = places[w + 1] - places[w]
        led = 0 if base[w] < 0 else led if led else codes.shape[1]
        for first in range(0, led, _AT_ONCE):
            count = _gather(ways, w, first, min(led - first, _AT_ONCE), whose)
            while count:
                for i in range(count):
                    m, r = np.int64(whose[0, i]), np.int64(whose[1, i])
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
                    at_least, some = np.int64(row[r, LEAST]), np.int64(0)
                    if at_least < 0 and n >= SEARCHED and tests > 0:
                        last = reach(bound, at, n, key[0])
                    total = np.int64(0)
                    while low < last:
                        stop = last
                        if at_least >= 0:
                            chunk, stop = low // CHUNK, min(low + CHUNK, last)
                            if chunk & 7 == 0:
                                some = eight(
                                    least, at_least + chunk, (n + CHUNK - 1) // CHUNK, key, tests, 8
                                )
                            if (some >> (chunk & 7)) & 1 == 0:
                                low = stop
                                continue
                        for b in range(low, stop, 8):
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
                        low = stop
                    if plain:
                        counts[m] += total
                count = _further(whose, count)
    record(hits, size, owner, output, mode)


@kernel
def run_lone(lone, ways, keys, output, mode):
    """The lone cubes that messages' values lead to, one way after the other."""
    _, base, codes, _, places = ways
    _, column, bound, owner = lone
    counts, plain = output.counts, mode == COUNT and output.alive.size == 0
    hits, size = np.empty(HITS, np.int64), 0
    whose = np.empty((3, _AT_ONCE), np.int32)
    for w in range(base.size):
        led = places[w + 1] - places[w]
        led = 0 if base[w] < 0 else led if led else codes.shape[1]
        for first in range(0, led, _AT_ONCE):
            count = _gather(ways, w, first, min(led - first, _AT_ONCE), whose)
            while count:
                if size > HITS - _AT_ONCE:
                    record(hits, size, owner, output, mode)
                    size = 0
                for i in range(count):
                    m, r = np.int64(whose[0, i]), np.int64(whose[1, i])
                    c = np.int64(column[r])
                    flip = c >> 63  # all bits of a column that is complemented
                    holds = bound[r] <= keys[c ^ flip, m] ^ flip
                    if plain:
                        counts[m] += holds
                    else:
                        hits[size] = m << 32 | r
                        size += holds
                count = _further(whose, count)
    record(hits, size, owner, output, mode)
