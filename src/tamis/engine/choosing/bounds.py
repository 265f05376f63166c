"""Bounds of cubes against keys, eight cubes to the vector."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.engine.ground.kernel_output import BIT_AT, BITS
from tamis.jit.kernel import kernel
from tamis.jit.vectors import at_most8

SEARCHED = 64  # cubes from which on a search for the last one that can match pays


@kernel(inline=True)
def reach(bound, first, count, key):
    """How many of the ascending bounds are <= key."""
    low, size = first, count
    while size > 1:
        half = size >> 1
        low += half if bound[low + half - 1] <= key else 0
        size -= half
    return low - first + (1 if bound[low] <= key else 0)


@kernel(inline=True)
def eight(bound, at, n, key, tests, left):
    """Which of the eight cubes whose bounds begin at `at` pass all tests, as bits; at most `left`.

    A test has n bounds, and key[t] must be no less than that of test t.
    """
    found = np.int64(255) if left >= 8 else (np.int64(1) << left) - 1
    for t in range(tests):
        found &= at_most8(bound, at + t * n, key[t])
    return found


@kernel(inline=True)
def enter(hits, size, found, first):
    """Enter the cubes `found` (bits, counted from `first`) into hits[size:]; the new size."""
    for k in range(BITS[found]):
        hits[size + k] = first + BIT_AT[found, k]
    return size + np.int64(BITS[found])
