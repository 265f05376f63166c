"""Clusters that one value leads to, evaluated straight away, message by message."""

from __future__ import annotations

import numpy as np
from numba import njit

from tamis.engine.narrow import SEARCHED, reach
from tamis.engine.outputs import BIT_AT, BITMAP, BITS, COUNT, FILL, KEEP
from tamis.engine.plan import (
    ASKED,
    FIRST,
    KEYS,
    MASK,
    MASKED,
    MOST_TESTS,
    OWNER,
    SHAPE,
    TESTS,
    WANTED,
)
from tamis.engine.plan import COUNT as CUBES
from tamis.engine.vector import agree8, at_most8


@njit(cache=True, nogil=True)
def sign_values(code, shift, signature):
    """Write the numbers of values into their field."""
    for m in range(code.size):
        signature[m] |= np.int64(code[m] + 1) << shift


@njit(cache=True, nogil=True)
def sign_flags(flags, bit, place, signature):
    for m in range(flags.size):
        signature[m] |= np.int64((flags[m] & bit) != 0) << place


@njit(cache=True, nogil=True, inline="always")
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


@njit(cache=True, nogil=True)
def by_value(code, values):
    """The messages that have a value, those with the same one side by side."""
    starts = np.zeros(values + 1, np.int32)
    for m in range(code.size):
        starts[code[m] + 1] += 1
    total = np.int32(0)
    for v in range(1, values + 1):
        total, starts[v] = total + starts[v], total
    order = np.empty(total, np.int32)
    for m in range(code.size):
        v = code[m] + 1
        if v > 0:
            order[starts[v]] = m
            starts[v] += 1
    return order


@njit(cache=True, nogil=True)
def run_direct(rows, begin, code, order, keys, signature, first, alive, slots, output, mode):
    """The cubes of the clusters that messages' codes lead to, from message `first` in order on (no
    order: as they come); how many messages were kept: as in `run_cubes`, there of clusters."""
    row, shape, bound, mask, owner = rows
    counts, all_alive, signed = output.counts, output.all_alive, signature.size > 0
    key = np.empty(MOST_TESTS, np.int64)
    count = order.size if order.size else code.size
    kept, pair = count, output.at[0]
    for i in range(first, count):
        m = np.int64(order[i]) if order.size else i
        v = code[m]
        if v < 0:
            continue
        mark = pair
        for r in range(begin[v], begin[v + 1]):
            s, n = np.int64(row[r, SHAPE]), np.int64(row[r, CUBES])
            tests, masked, must = shape[s, TESTS], shape[s, MASKED], shape[s, ASKED]
            bits = signature[m] if signed else np.int64(0)
            if masked == 0 and bits & must != shape[s, WANTED]:
                continue
            at, its_mask = np.int64(row[r, FIRST]), np.int64(row[r, MASK])
            low, last = np.int64(0), n
            sought = n >= SEARCHED and tests == 0 and masked != 0
            if sought:
                low = _from(mask, its_mask + n, n, must, bits & must)
            for t in range(tests):
                key[t] = keys[shape[s, KEYS + 2 * t], m] ^ shape[s, KEYS + 2 * t + 1]
            if n >= SEARCHED and tests > 0:
                last = reach(bound, at, n, key[0])
            for b in range(low, last, 8):
                if sought and mask[its_mask + n + b] & must > bits & must:
                    break
                found = np.int64(255) if last - b >= 8 else (np.int64(1) << (last - b)) - 1
                for t in range(tests):
                    found &= at_most8(bound, at + t * n + b, key[t])
                if masked != 0 and found != 0:
                    found &= agree8(mask, its_mask + b, its_mask + n + b, bits)
                if found == 0:
                    continue
                if all_alive and mode == COUNT:
                    counts[m] += BITS[found]
                    continue
                for k in range(BITS[found]):
                    subscription = owner[row[r, OWNER] + b + BIT_AT[found, k]]
                    if not alive[subscription]:
                        continue
                    if mode == BITMAP:
                        output.bits[subscription, m >> 6] |= np.uint64(1) << np.uint64(m & 63)
                        continue
                    if mode == FILL:
                        output.out[counts[m]] = slots[subscription]
                    elif mode == KEEP and kept == count:
                        if pair == output.pairs.size:
                            kept, pair = i, mark
                        else:
                            output.pairs[pair] = np.int64(m) << 32 | np.int64(slots[subscription])
                            pair += 1
                    counts[m] += 1
    output.at[0] = pair
    return kept if kept < count else code.size
