"""Where kernels put what they found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tamis.engine.layout import I4, I8, U1, U8

COUNT, FILL, BITMAP, KEEP = range(4)


class Output(NamedTuple):
    """Where results go, by mode.

    COUNT adds to counts[m]. FILL writes the slot at out[counts[m]] and moves counts[m], a cursor.
    BITMAP sets bit m of row bits[subscription]. KEEP counts, and keeps (message, slot) as one
    number in pairs[at[0]] as long as there is room.
    """

    counts: I8
    out: I4
    bits: U8
    pairs: I8
    at: I8
    all_alive: bool


def _byte_bits() -> tuple[U1, U1]:
    count = np.array([bin(b).count("1") for b in range(256)], np.uint8)
    place = np.zeros((256, 8), np.uint8)
    for b in range(256):
        bits = [i for i in range(8) if b >> i & 1]
        place[b, : len(bits)] = bits
    return count, place


BITS, BIT_AT = _byte_bits()  # how many bits a byte has, and where they are


@njit(cache=True, nogil=True)
def scatter(pairs, cursor, out):
    """Put kept pairs where they belong: cursor[m] is where the next slot of message m goes."""
    for i in range(pairs.size):
        m = pairs[i] >> 32
        out[cursor[m]] = pairs[i] & 0xFFFFFFFF
        cursor[m] += 1


@njit(cache=True, nogil=True)
def _insert(row):
    for i in range(1, row.size):
        value, j = row[i], i
        while j > 0 and row[j - 1] > value:
            row[j] = row[j - 1]
            j -= 1
        row[j] = value


@njit(cache=True, nogil=True)
def _by_digits(row, spare, count):
    """Sort slots (never negative) by one byte after the other, the last first."""
    most, shift = row.max(), 0
    given, made = row, spare[: row.size]
    while shift < 32 and most >> shift > 0:
        count[:] = 0
        for i in range(given.size):
            count[(given[i] >> shift) & 255] += 1
        at = 0
        for d in range(256):
            at, count[d] = at + count[d], at
        for i in range(given.size):
            d = (given[i] >> shift) & 255
            made[count[d]] = given[i]
            count[d] += 1
        given, made = made, given
        shift += 8
    if shift & 8:
        row[:] = given


@njit(cache=True, nogil=True)
def sort_rows(offsets, out):
    """Each message's slots in ascending order; most rows are short or in order already."""
    spare, count = np.empty(0, np.int32), np.empty(256, np.int64)
    for m in range(offsets.size - 1):
        if offsets[m + 1] - offsets[m] < 2:
            continue
        row = out[offsets[m] : offsets[m + 1]]
        for i in range(1, row.size):
            if row[i] < row[i - 1]:
                if row.size <= 24:
                    _insert(row)
                elif row.size <= 256:
                    row.sort()
                else:
                    if spare.size < row.size:
                        spare = np.empty(2 * row.size, np.int32)
                    _by_digits(row, spare, count)
                break
