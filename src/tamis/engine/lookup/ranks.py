"""Where numbers stand among sorted constants: buckets first, then eight constants at once.

Numbers are 64-bit keys that order as they do (integers, or the bits of doubles), and a bucket is
named by the highest bits of a key. So constants of any scale spread well.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.engine.ground.layout import I4, I8
from tamis.jit.kernel import kernel
from tamis.jit.vectors import at_most8, lowest

_BUCKETS = 2  # for each constant
_FAR = 256  # one constant of so many, at either end, may share a bucket with all beyond it
_SPARE = 8  # bounds behind the last: eight are read at a time
_HIGHEST = np.iinfo(np.int64).max


class Ranks(NamedTuple):
    """Constants, ascending, and a few more; those of bucket b are bound[start[b]:start[b + 1]].

    The bucket of a key is (key >> shift) - first, or the nearest that there is.
    """

    bound: I8
    start: I4
    first: int
    shift: int


def ranks_of(bound: I8) -> Ranks:
    """A table of ascending constants.

    Buckets span all but the farthest: a single zero among prices would take nearly all of them, as
    there are a thousand powers of two between.
    """
    count, shift = len(bound), 0
    padded = np.append(bound, np.full(_SPARE, _HIGHEST))
    if not count:
        return Ranks(padded, np.zeros(2, np.int32), 0, 63)
    far = count // _FAR
    low, high = int(bound[far]), int(bound[-1 - far])
    while (high >> shift) - (low >> shift) > _BUCKETS * count:
        shift += 1
    first, last = low >> shift, high >> shift
    bucket = np.clip(bound >> np.int64(shift), first, last) - first
    start = np.searchsorted(bucket, np.arange(last - first + 2)).astype(np.int32)
    return Ranks(padded, start, first, shift)


@kernel
def rank(ranks, key, out):
    """out[m]: how many of the constants are not above key[m]."""
    bound, start, first, shift = ranks
    size, last = bound.size - _SPARE, first + start.size - 2
    for m in range(key.size):
        at = min(max(key[m] >> shift, first), last) - first
        low, high = np.int64(start[at]), np.int64(start[at + 1])
        while high - low > 8:
            middle = (low + high) >> 1
            if bound[middle] <= key[m]:
                low = middle + 1
            else:
                high = middle
        # What is behind the bucket is above the key, but for spare bounds.
        not_above = at_most8(bound, low, key[m])
        out[m] = min(low + lowest(np.uint64(not_above ^ 511)), size)
