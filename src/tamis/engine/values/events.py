"""What the values of messages fire: events, keys and bits, on their way to the kernels."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.jit.kernel import kernel

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@kernel
def count_events(codes, bases, offsets, out_offsets):
    """Where the events of each message begin: those of its code in every feature."""
    for f in range(codes.shape[0]):
        for m in range(codes.shape[1]):
            code = codes[f, m]
            if code >= 0:
                at = bases[f] + code
                out_offsets[m + 1] += offsets[at + 1] - offsets[at]
    for m in range(codes.shape[1]):
        out_offsets[m + 1] += out_offsets[m]


@kernel
def merge_events(codes, bases, offsets, events, cursor, out):
    """Write each message's events from cursor[m] on."""
    for f in range(codes.shape[0]):
        for m in range(codes.shape[1]):
            code = codes[f, m]
            if code >= 0:
                begin, end = offsets[bases[f] + code], offsets[bases[f] + code + 1]
                at = cursor[m]
                for i in range(begin, end):
                    out[at + i - begin] = events[i]
                cursor[m] = at + end - begin


@kernel
def fire_elements(bounds, codes, bases, offsets, events, seen, out_offsets, out):
    """Write the events of each message: those of all its elements, each once; how many in all.

    The elements of message m stand from bounds[m] to bounds[m + 1]; codes: feature x element, as
    in `merge_events`. seen, zeros: the last message (plus one) that fired an event.
    """
    size = 0
    for m in range(bounds.size - 1):
        for e in range(bounds[m], bounds[m + 1]):
            for f in range(codes.shape[0]):
                code = codes[f, e]
                if code >= 0:
                    for i in range(offsets[bases[f] + code], offsets[bases[f] + code + 1]):
                        event = events[i]
                        if seen[event] != m + 1:
                            seen[event] = m + 1
                            out[size] = event
                            size += 1
        out_offsets[m + 1] = size
    return size


@kernel
def mark_events(offsets, number, words, table):
    """Set the bit of every code and event: of code c, those numbered by its part of `number`."""
    for code in range(offsets.size - 1):
        for i in range(offsets[code], offsets[code + 1]):
            table[code * words + (number[i] >> 6)] |= _ONE << np.uint64(number[i] & 63)


@kernel
def defined_columns(flags, out):
    """Bit c of out[m]: message m defines column c, of the first 64."""
    out[:] = _ZERO
    for c in range(min(64, flags.shape[0])):
        shift = np.uint64(c)
        for m in range(out.size):
            out[m] |= np.uint64(flags[c, m] & 1) << shift
