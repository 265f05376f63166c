"""A table of strings that kernels look bytes up in: Arrow's strings, straight from its buffers."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.engine.ground.layout import I8, U1, U8
from tamis.jit.kernel import kernel
from tamis.jit.vectors import (
    bytes_from,
    entry_of,
    halves_from,
    mixed,
    tags_from,
    word_at,
    words_from,
)

_SEED = np.uint64(0x9E3779B97F4A7C15)
_FEW = 512  # words: their slots may be sparse and still stay in the nearest cache
_AT_ONCE = 512
_LONG = np.uint64(1 << 63)
# Where Arrow holds a column, in a row of numbers: the first value among the marks of those that are
# there, and addresses: of these marks (0: all are there), of places or numbers, of bytes; and how
# many bytes these are.
FIRST, MARKS, VALUES, DATA, SIZE = range(5)


class Strings(NamedTuple):
    """Strings in UTF-8, one behind the other; string i begins at offsets[i]."""

    data: U1
    offsets: I8


class Entries(NamedTuple):
    """Words by open addressing: a slot is 0, or the place of a word in `words`; half of the slots
    or more are empty. words[0] is none, so word i has place i + 1."""

    slots: npt.NDArray[np.uint32]
    words: U8


class Table(NamedTuple):
    """Strings by their tags.

    The tag of fewer than eight bytes is these and their number: it says it all. That of more is a
    hash, with its highest bit set.
    """

    entries: Entries
    strings: Strings
    at: I8  # the address and the size of each of their four arrays


def table_of(texts: Iterable[str]) -> Table:
    """A table of distinct texts, numbered in their order."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    data = np.frombuffer(bytearray().join(encoded), np.uint8)  # that may be written, as others are
    strings = Strings(data, offsets)
    tags = np.empty(len(encoded), np.uint64)
    _tags(strings.data, strings.offsets, tags)
    entries = entries_of(tags)
    at = [n for array in (*entries, *strings) for n in (array.ctypes.data, array.size)]
    return Table(entries, strings, np.array(at, np.int64))


def entries_of(words: U8) -> Entries:
    """A table of words alone, numbered in their order."""
    spare = 8 if len(words) <= _FEW else 2  # a short search is guessed right by the processor
    slots = np.zeros(1 << max(4, (spare * len(words)).bit_length()), np.uint32)
    placed = np.concatenate([np.zeros(1, np.uint64), words])
    _enter(placed, slots)
    return Entries(slots, placed)


@kernel(inline=True)
def _tail(data, at, left):
    """Fewer than eight bytes as one word."""
    if at + 8 <= data.size:
        return word_at(data, at) & ((np.uint64(1) << np.uint64(8 * left)) - np.uint64(1))
    word = np.uint64(0)
    for i in range(left):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@kernel
def _hash(data, begin, end):
    value = _SEED ^ np.uint64(end - begin)
    at = begin
    while at + 8 <= end:
        value = mixed(value, word_at(data, at))
        at += 8
    return mixed(value, _tail(data, at, end - at))


@kernel
def _same(data, begin, other, other_begin, length):
    at = 0
    while at + 8 <= length:
        if word_at(data, begin + at) != word_at(other, other_begin + at):
            return False
        at += 8
    left = length - at
    return _tail(data, begin + at, left) == _tail(other, other_begin + at, left)


@kernel(inline=True)
def _tag(data, begin, end):
    length = end - begin
    if length < 8:
        return _tail(data, begin, length) | np.uint64(length) << np.uint64(56)
    return _hash(data, begin, end) | _LONG


@kernel
def _tags(data, offsets, tags):
    for i in range(tags.size):
        tags[i] = _tag(data, offsets[i], offsets[i + 1])


@kernel
def _enter(words, slots):
    size = slots.size
    for i in range(1, words.size):
        at = entry_of(words[i], size)
        while slots[at] != 0:
            at = (at + 1) & (size - 1)
        slots[at] = i


@kernel
def find(column, table, valid, out):
    """out[m]: which string of the table string m of the column is, -1 where it is none.

    Column and table (`at` of one) are addresses: batches have hundreds of both, and arrays from
    there need no count of their references. Tags come first, some hundreds at a time: two short
    loops are faster than one long one.
    """
    offsets = halves_from(column[VALUES], out.size + 1)
    data = bytes_from(column[DATA], column[SIZE])
    slots, words = halves_from(table[0], table[1]), tags_from(table[2], table[3])
    known, starts = bytes_from(table[4], table[5]), words_from(table[6], table[7])
    tags = np.empty(_AT_ONCE, np.uint64)
    for first in range(0, out.size, _AT_ONCE):
        last = min(first + _AT_ONCE, out.size)
        for m in range(first, last):
            tags[m - first] = _tag(data, np.int64(offsets[m]), np.int64(offsets[m + 1]))
        for m in range(first, last):
            tag = tags[m - first]
            at = _reached(slots, words, tag, entry_of(tag, slots.size))
            i = np.int64(slots[at]) - 1
            while tag >= _LONG and i >= 0 and not _equal(data, offsets, m, known, starts, i):
                at = _reached(slots, words, tag, (at + 1) & (slots.size - 1))
                i = np.int64(slots[at]) - 1
            out[m] = i if valid[m] else -1


@kernel(inline=True)
def _reached(slots, words, word, at):
    """The first slot from `at` on that is empty or has the word.

    The smaller of two numbers is 0 where either is: asked in this way it is one branch, nearly
    always taken. Two would be guessed wrong for every other string that is not in the table.
    """
    i = np.uint64(slots[at])
    while min(i, words[i] ^ word) != 0:
        at = (at + 1) & (slots.size - 1)
        i = np.uint64(slots[at])
    return at


@kernel(inline=True)
def _equal(data, offsets, m, known, starts, i):
    begin = np.int64(offsets[m])
    length = np.int64(offsets[m + 1]) - begin
    return starts[i + 1] - starts[i] == length and _same(data, begin, known, starts[i], length)


@kernel
def find_words(entries, wanted, valid, out):
    """out[m]: the number of the word that wanted[m] is, -1 where it is none."""
    slots, words = entries
    for m in range(out.size):
        at = _reached(slots, words, wanted[m], entry_of(wanted[m], slots.size))
        out[m] = np.int64(slots[at]) - 1 if valid[m] else -1
