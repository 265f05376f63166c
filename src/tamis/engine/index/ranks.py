"""Where numbers stand among sorted constants: buckets first, then a short binary search.

Numbers are 64-bit keys that order as they do (integers, or the bits of doubles), and a bucket is
named by the highest bits of a key. So constants of any scale spread well.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.engine.layout import I4, I8
from tamis.kernel import kernel

_BUCKETS = 4  # for each constant


class Ranks(NamedTuple):
    """Constants, ascending; those of bucket b are bound[start[b]:start[b + 1]]. The bucket of a
    key is (key >> shift) - first."""

    bound: I8
    start: I4
    first: int
    shift: int


def ranks_of(bound: I8) -> Ranks:
    """A table of ascending constants."""
    if not len(bound):
        return Ranks(bound, np.zeros(2, np.int32), 0, 63)
    low, high, shift = int(bound[0]), int(bound[-1]), 0
    while (high >> shift) - (low >> shift) > _BUCKETS * len(bound):
        shift += 1
    buckets = (high >> shift) - (low >> shift) + 1
    ends = (bound >> np.int64(shift)) - np.int64(low >> shift)
    start = np.searchsorted(ends, np.arange(buckets + 1)).astype(np.int32)
    return Ranks(bound, start, low >> shift, shift)


@kernel
def rank(ranks, key, out):
    """out[m]: how many of the constants are not above key[m]."""
    bound, start, first, shift = ranks
    last = first + start.size - 2  # keys may be so far apart that their difference is no number
    for m in range(key.size):
        at = key[m] >> shift
        if at < first:
            out[m] = 0
            continue
        if at > last:
            out[m] = bound.size
            continue
        low, high = np.int64(start[at - first]), np.int64(start[at - first + 1])
        while low < high:
            middle = (low + high) >> 1
            if bound[middle] <= key[m]:
                low = middle + 1
            else:
                high = middle
        out[m] = low
