"""Of what matched, what is valid at the message's time, and the first few in an order."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.jit.kernel import kernel

UNKNOWN = np.iinfo(np.int64).min  # the time of a message that does not tell it
ALWAYS, FOREVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max  # no bound


@kernel
def pick(offsets, slots, rank, valid, limit, kept, out):
    """Keep up to `limit` slots of each message; how many are kept in all.

    offsets[messages + 1] and slots are the matches. rank[slot] says which slots come first; where
    it is empty, those that stand first. valid is (times[messages], since[slot], until[slot]);
    where times is empty, all are valid. Writes kept[messages + 1], and ranks (or slots, where
    there are none) to out; those of one message are in no order, unless rank is empty.
    """
    times, since, until = valid
    at = np.int64(0)
    kept[0] = 0
    for m in range(offsets.size - 1):
        heap = out[at : at + min(limit, offsets[m + 1] - offsets[m])]
        size = 0
        for i in range(offsets[m], offsets[m + 1]):
            s = slots[i]
            if times.size > 0:
                t = times[m]
                if t == UNKNOWN:
                    if since[s] != ALWAYS or until[s] != FOREVER:
                        continue
                elif t < since[s] or t >= until[s]:
                    continue
            if size < limit:
                heap[size] = s if rank.size == 0 else rank[s]
                size += 1
                if size == limit and rank.size > 0:
                    for place in range(size // 2 - 1, -1, -1):
                        _sink(heap, place)
            elif rank.size == 0:
                break
            elif rank[s] < heap[0]:
                heap[0] = rank[s]
                _sink(heap, 0)
        at += size
        kept[m + 1] = at
    return at


@kernel
def _sink(heap, at):
    """Let heap[at] go down to where no child is larger."""
    value = heap[at]
    while 2 * at + 1 < heap.size:
        child = 2 * at + 1
        if child + 1 < heap.size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
