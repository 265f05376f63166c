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
