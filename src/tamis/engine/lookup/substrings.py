"""WITHIN: which texts a value is a part of. A sorted array of all their suffixes says it.

Suffixes are sorted by doubling (Manber and Myers 1990): log(length) sorts, whatever the texts are.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tamis.engine.ground.layout import I4, I8, U1, U8
from tamis.engine.lookup.affixes import FULL, joined
from tamis.jit.kernel import kernel

_FIRST = 7  # bytes by which suffixes are sorted to begin with


class Substrings(NamedTuple):
    """The texts of term k are first[k] to first[k + 1] - 1; its suffixes begin at
    suffix[offsets[first[k]]] and there are as many as its texts have bytes."""

    first: I8
    data: U1
    offsets: I8
    suffix: I4  # where suffixes begin in `data`, those of one term side by side and ascending
    event: I4


def substrings_of(texts: Sequence[Sequence[tuple[bytes, int]]]) -> Substrings:
    """From the texts and events of each term."""
    first = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(own) for own in texts], out=first[1:])
    rows = [row for own in texts for row in own]
    data, offsets = joined([text for text, _ in rows])
    owner = np.repeat(np.arange(len(texts)), np.diff(offsets[first]))
    suffix = _sorted(data, offsets, owner).astype(np.int32)
    return Substrings(first, data, offsets, suffix, np.array([e for _, e in rows], np.int32))


def _sorted(data: U1, offsets: I8, owner: I8) -> I8:
    """Where suffixes begin, ascending within each owner. A suffix ends where its text does."""
    size = len(data)
    if not size:
        return np.empty(0, np.int64)
    ends = np.repeat(offsets[1:], np.diff(offsets))
    words = np.empty(size, np.uint64)
    _words(data, ends, words)
    order = np.lexsort((words, owner))
    length = _FIRST
    rank = _ranks(order, words[order], owner[order])
    while rank.max() < size - 1:
        after = np.arange(size) + length
        inside = after < ends
        behind = np.where(inside, rank[np.minimum(after, size - 1)] + 1, 0)
        both = rank * (size + 1) + behind
        order = np.argsort(both, kind="stable")
        known, rank = rank, _ranks(order, both[order], owner[order])
        length *= 2
        if np.array_equal(known, rank) and length > int(np.diff(offsets).max()):
            break  # equal suffixes of different texts
    return order


def _ranks(order: I8, key: I8 | U8, owner: I8) -> I8:
    """The number of the distinct key of each suffix."""
    changed = np.ones(len(order), np.int64)
    changed[0] = 0
    changed[1:] = (key[1:] != key[:-1]) | (owner[1:] != owner[:-1])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(changed)
    return rank


@kernel
def _words(data, ends, words):
    """Seven bytes from each place on, and how many there were: they sort as the texts do."""
    for i in range(data.size):
        word, count = np.uint64(0), min(ends[i] - i, np.int64(_FIRST))
        for j in range(count):
            word |= np.uint64(data[i + j]) << np.uint64(56 - 8 * j)
        words[i] = word | np.uint64(count)


@kernel
def _compare(table, at, end, data, begin, stop):
    """-1, 0 or 1: the suffix table.data[at:end] is below the text, begins with it, or is above."""
    for i in range(stop - begin):
        if at + i >= end or table.data[at + i] < data[begin + i]:
            return -1
        if table.data[at + i] > data[begin + i]:
            return 1
    return 0


@kernel
def _text_of(table, low, high, at):
    """Which of the texts low to high - 1 has byte `at`."""
    while high - low > 1:
        middle = (low + high) >> 1
        if table.offsets[middle] <= at:
            low = middle
        else:
            high = middle
    return low


@kernel
def add_substrings(table, k, data, begin, end, found, base, count):
    """Write the events of the texts that data[begin:end] is a part of, from out[count] on.

    Text i is pattern base + i of `found`. Returns the new count, or FULL.
    """
    seen, mark, out = found
    first, last = table.first[k], table.first[k + 1]
    if begin == end:
        for i in range(first, last):
            if count >= out.size:
                return np.int64(FULL)
            out[count] = table.event[i]
            count += 1
        return count
    low, stop = table.offsets[first], table.offsets[last]
    high = stop
    while low < high:
        middle = (low + high) >> 1
        at = np.int64(table.suffix[middle])
        own = table.offsets[_text_of(table, first, last, at) + 1]
        if _compare(table, at, own, data, begin, end) < 0:
            low = middle + 1
        else:
            high = middle
    while low < stop:
        at = np.int64(table.suffix[low])
        i = _text_of(table, first, last, at)
        if _compare(table, at, table.offsets[i + 1], data, begin, end) != 0:
            break
        if seen[base + i] != mark:
            if count >= out.size:
                return np.int64(FULL)
            seen[base + i] = mark
            out[count] = table.event[i]
            count += 1
        low += 1
    return count
