"""Where kernels put what they found."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.engine.ground.layout import I4, I8, U1, U8
from tamis.jit.kernel import kernel
from tamis.jit.vectors import lowest

COUNT, FILL, BITMAP, KEEP = range(4)
HITS = 4096  # that are collected before they are written
_SHORT = 16  # slots that are sorted by insertion
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class Output(NamedTuple):
    """Where results go, by mode, and whose they are.

    COUNT adds to counts[m]. FILL writes the slot at out[counts[m]] and moves counts[m], a cursor.
    BITMAP sets bit m of row bits[subscription]. KEEP counts, and keeps (message, slot) as one
    number in pairs, of which pairs[0] says how many there are; beyond their room it counts on.
    """

    counts: I8
    out: I4
    bits: U8
    pairs: I8
    alive: U1  # of each subscription whether it lives; empty: all do
    slots: I4  # of each subscription; only one: the others follow without a gap


def _byte_bits() -> tuple[U1, U1]:
    count = np.array([bin(b).count("1") for b in range(256)], np.uint8)
    place = np.zeros((256, 8), np.uint8)
    for b in range(256):
        bits = [i for i in range(8) if b >> i & 1]
        place[b, : len(bits)] = bits
    return count, place


BITS, BIT_AT = _byte_bits()  # how many bits a byte has, and where they are


# numba counts references to arrays that are handed to a function, inlined or not: too dear for
# every hit. So kernels collect hits and hand over many of them at once.


@kernel(inline=True)
def living(alive, s):
    return alive.size == 0 or alive[s] != 0


@kernel
def record(hits, size, owner, output, mode):
    """Write the first hits, message << 32 | cube: those of subscriptions owner[cube] that live."""
    counts, out, bits, pairs, alive, slots = output
    for i in range(size):
        m, s = hits[i] >> 32, np.int64(owner[hits[i] & 0xFFFFFFFF])
        if alive.size > 0 and alive[s] == 0:
            continue
        slot = slots[0] + s if slots.size == 1 else np.int64(slots[s])
        if mode == BITMAP:
            bits[s, m >> 6] |= _ONE << np.uint64(m & 63)
            continue
        if mode == FILL:
            out[counts[m]] = slot
        elif mode == KEEP:
            at = pairs[0] + 1
            if at < pairs.size:
                pairs[at] = m << 32 | slot
            pairs[0] = at
        counts[m] += 1


@kernel
def scatter(pairs, cursor, out):
    """Put kept pairs where they belong: cursor[m] is where the next slot of message m goes."""
    for i in range(1, pairs[0] + 1):
        m = pairs[i] >> 32
        out[cursor[m]] = pairs[i] & 0xFFFFFFFF
        cursor[m] += 1


@kernel
def _insert(row):
    """Sort slots by insertion, each kept once; how many there are."""
    size = 0
    for value in row:
        j = size
        while j > 0 and row[j - 1] > value:
            j -= 1
        if j == 0 or row[j - 1] != value:
            for k in range(size, j, -1):
                row[k] = row[k - 1]
            row[j] = value
            size += 1
    return size


@kernel
def _by_bits(row, levels):
    """Sort slots by bitmap, each kept once; how many there are. A word of a level tells which
    words of the level before are not zero; all are zero between calls."""
    words, above, top = levels
    low, high = np.int64(top.size), np.int64(-1)
    for slot in row:
        w = slot >> 6
        words[w] |= _ONE << np.uint64(slot & 63)
        above[w >> 6] |= _ONE << np.uint64(w & 63)
        t = np.int64(w >> 12)
        top[t] |= _ONE << np.uint64((w >> 6) & 63)
        low, high = min(low, t), max(high, t)
    at = 0
    for t in range(low, high + 1):
        while top[t] != _ZERO:
            a = (t << 6) + lowest(top[t])
            top[t] &= top[t] - _ONE
            while above[a] != _ZERO:
                w = (a << 6) + lowest(above[a])
                above[a] &= above[a] - _ONE
                while words[w] != _ZERO:
                    row[at] = (w << 6) + lowest(words[w])
                    words[w] &= words[w] - _ONE
                    at += 1
    return at


def sort_rows(offsets: I8, slots: I4) -> I4:
    """Each message's slots in ascending order, each once; the offsets follow.

    What is returned is the beginning of `slots`.
    """
    most = int(slots.max(initial=0))
    words, above, top = (np.zeros((most >> shift) + 1, np.uint64) for shift in (6, 12, 18))
    return slots[: _sort_rows(offsets, slots, (words, above, top))]


@kernel
def _sort_rows(offsets, out, levels):
    """As `sort_rows`; how many slots are left. Most rows are short or in order already, and as long
    as none had a slot twice, nothing moves."""
    at = np.int64(0)
    first = offsets[0]
    for m in range(offsets.size - 1):
        last = offsets[m + 1]
        if last - first < 2 and at == first:
            at = first = last
            continue
        row = out[first:last]
        size = row.size
        rises = True
        for i in range(1, size):
            rises &= row[i - 1] < row[i]
        if not rises:
            size = _insert(row) if size <= _SHORT else _by_bits(row, levels)
        if at < first:
            for i in range(size):
                out[at + i] = row[i]
        at += size
        offsets[m + 1] = at
        first = last
    return at
