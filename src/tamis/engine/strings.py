"""A table of strings that kernels look bytes up in: Arrow's strings, straight from its buffers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numba import njit

from tamis.engine.layout import I4, I8, U1
from tamis.engine.vector import mixed, word_at

_SEED = np.uint64(0x9E3779B97F4A7C15)


class Strings(NamedTuple):
    """Strings in UTF-8, one behind the other; string i begins at offsets[i]."""

    data: U1
    offsets: I8


class Table(NamedTuple):
    """Open addressing: a slot holds the number of a string plus one; the table is half empty."""

    slots: I4
    strings: Strings


def table_of(texts: Iterable[str]) -> Table:
    """A table of distinct texts, numbered in their order."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    strings = Strings(np.frombuffer(b"".join(encoded), np.uint8), offsets)
    size = 1 << max(4, (2 * len(encoded)).bit_length())
    slots = np.zeros(size, np.int32)
    _enter(strings.data, strings.offsets, slots)
    return Table(slots, strings)


@njit(cache=True, nogil=True, inline="always")
def _tail(data, at, left):
    """Fewer than eight bytes as one word."""
    if at + 8 <= data.size:
        return word_at(data, at) & ((np.uint64(1) << np.uint64(8 * left)) - np.uint64(1))
    word = np.uint64(0)
    for i in range(left):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@njit(cache=True, nogil=True, inline="always")
def _hash(data, begin, end):
    value = _SEED ^ np.uint64(end - begin)
    at = begin
    while at + 8 <= end:
        value = mixed(value, word_at(data, at))
        at += 8
    return mixed(value, _tail(data, at, end - at))


@njit(cache=True, nogil=True, inline="always")
def _same(data, begin, other, other_begin, length):
    at = 0
    while at + 8 <= length:
        if word_at(data, begin + at) != word_at(other, other_begin + at):
            return False
        at += 8
    left = length - at
    return _tail(data, begin + at, left) == _tail(other, other_begin + at, left)


@njit(cache=True, nogil=True)
def _enter(data, offsets, slots):
    mask = np.uint64(slots.size - 1)
    for i in range(offsets.size - 1):
        at = _hash(data, offsets[i], offsets[i + 1]) & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = i + 1


@njit(cache=True, nogil=True)
def find(data, offsets, valid, table, out):
    """out[m]: which string of the table string m is, -1 where it is none."""
    slots, known, starts = table.slots, table.strings.data, table.strings.offsets
    mask = np.uint64(slots.size - 1)
    for m in range(out.size):
        out[m] = -1
        if not valid[m]:
            continue
        begin, end = np.int64(offsets[m]), np.int64(offsets[m + 1])
        at = _hash(data, begin, end) & mask
        while slots[at] != 0:
            i = slots[at] - 1
            if starts[i + 1] - starts[i] == end - begin and _same(
                data, begin, known, starts[i], end - begin
            ):
                out[m] = i
                break
            at = (at + np.uint64(1)) & mask
