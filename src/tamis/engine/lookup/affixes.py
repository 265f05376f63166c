"""Prefixes (or suffixes, read backwards) of many terms: sorted, and found by binary search.

All prefixes of a text that are in the table are prefixes of its predecessor there, so one search
and a walk along `shorter` find them: the cost follows the text and what it has, not the table.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tamis.engine.ground.layout import I4, I8, U1
from tamis.jit.kernel import kernel

FULL = -1  # what kernels of this room return where `out` has no room left


class Found(NamedTuple):
    """Where a scan writes the events of a text, each once: seen[p] is `mark` for the patterns that
    it has met already."""

    seen: I4
    mark: int
    out: I4


class Affixes(NamedTuple):
    """Those of term k are first[k] to first[k + 1] - 1, ascending by their bytes."""

    first: I8
    data: U1
    offsets: I8
    shorter: I4  # the longest other one that this one begins with, -1: none
    event: I4


def affixes_of(texts: Sequence[Sequence[tuple[bytes, int]]]) -> Affixes:
    """From the texts and events of each term; suffixes are given reversed."""
    rows = [row for own in texts for row in sorted(own)]
    first = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(own) for own in texts], out=first[1:])
    data, offsets = joined([text for text, _ in rows])
    shorter = np.full(len(rows), -1, np.int32)
    _link(first, data, offsets, shorter)
    return Affixes(first, data, offsets, shorter, np.array([e for _, e in rows], np.int32))


def joined(texts: Sequence[bytes]) -> tuple[U1, I8]:
    """Bytes one behind the other, and where each begins."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return np.frombuffer(b"".join(texts), np.uint8), offsets


@kernel
def _link(first, data, offsets, shorter):
    for k in range(first.size - 1):
        for p in range(first[k], first[k + 1]):
            q = p - 1 if p > first[k] else -1
            while q >= 0 and not _begins(data, offsets, p, q):
                q = shorter[q]
            shorter[p] = q


@kernel
def _begins(data, offsets, p, q):
    """Whether text p begins with text q."""
    size = offsets[q + 1] - offsets[q]
    if size > offsets[p + 1] - offsets[p]:
        return False
    i = 0
    while i < size and data[offsets[p] + i] == data[offsets[q] + i]:
        i += 1
    return i == size


@kernel
def _common(known, at, size, data, begin, end, backwards):
    """How many bytes the text and known[at:at + size] have in common from their starts on."""
    most = min(size, end - begin)
    if backwards:
        for i in range(most):
            if data[end - 1 - i] != known[at + i]:
                return i
    else:
        for i in range(most):
            if data[begin + i] != known[at + i]:
                return i
    return most


@kernel
def add_affixes(table, k, data, begin, end, backwards, out, count):
    """Write the events of the text data[begin:end] to out[count:]; the new count, or FULL."""
    low, high = table.first[k], table.first[k + 1]
    if low == high:
        return count
    best = np.int64(-1)  # the last one that is not above the text, and what they have in common
    same = np.int64(0)
    while low < high:
        p = (low + high) >> 1
        at, size = table.offsets[p], table.offsets[p + 1] - table.offsets[p]
        common = _common(table.data, at, size, data, begin, end, backwards)
        above = common < size
        if above and common < end - begin:
            byte = data[end - 1 - common] if backwards else data[begin + common]
            above = table.data[at + common] > byte
        if above:
            high = p
        else:
            best, same, low = p, common, p + 1
    while best >= 0:
        if table.offsets[best + 1] - table.offsets[best] <= same:
            if count >= out.size:
                return FULL
            out[count] = table.event[best]
            count += 1
        best = np.int64(table.shorter[best])
    return count
