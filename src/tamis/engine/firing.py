"""What the values of messages fire: events, keys and bits, on their way to the kernels."""

from __future__ import annotations

import numpy as np
from numba import njit

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def merge_events(codes, bases, offsets, events, out_offsets, out):
    """Each message's events: those of its code in every feature. An empty `out`: count."""
    at = 0
    filling = out.size > 0
    for m in range(codes.shape[1]):
        out_offsets[m] = at
        for f in range(codes.shape[0]):
            code = codes[f, m]
            if code >= 0:
                begin, end = offsets[bases[f] + code], offsets[bases[f] + code + 1]
                if filling:
                    for i in range(begin, end):
                        out[at + i - begin] = events[i]
                at += end - begin
    out_offsets[codes.shape[1]] = at


@njit(cache=True, nogil=True)
def mark_events(offsets, number, words, table):
    """Set the bit of every code and event: of code c, those numbered by its part of `number`."""
    for code in range(offsets.size - 1):
        for i in range(offsets[code], offsets[code + 1]):
            table[code * words + (number[i] >> 6)] |= _ONE << np.uint64(number[i] & 63)


@njit(cache=True, nogil=True)
def defined_columns(flags, out):
    """Bit c of out[m]: message m defines column c, of the first 64."""
    out[:] = _ZERO
    for c in range(min(64, flags.shape[0])):
        shift = np.uint64(c)
        for m in range(out.size):
            out[m] |= np.uint64(flags[c, m] & 1) << shift
