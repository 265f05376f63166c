"""CONTAINS: each pattern is entered by four of its bytes (fewer, where it has fewer).

A scan looks at every four bytes of a text: a hash of them picks a bit of a small map, and only
where that is set the patterns that were entered there are compared. Patterns are entered by the
four bytes that are likely to be rare. The work for one text is bounded: where it would be much
more than a look at every byte, the text is left to the automaton, which takes linear time.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.engine.ground.layout import I4, I8, U1, U8
from tamis.engine.lookup.affixes import FULL, joined
from tamis.engine.lookup.likes import add_like
from tamis.jit.kernel import kernel
from tamis.jit.vectors import half_at, word_at

F8 = npt.NDArray[np.float64]
HARD = -2  # what a scan returns for a text that is too much work
_WIDTHS = 4
_BITS = 64  # of the map for each distinct gram, up to
_MOST_BITS = 1 << 18  # in all: 32 KB, which the nearest cache holds
_WORK = 8  # steps for each byte of a text, and so many bytes' worth to begin with:
_START = 64
_COUNTED = 16  # bits of a hash by which grams are counted
_PRIME = np.uint64(0x9E3779B1)
_HALF = np.uint64(0xFFFFFFFF)
MAP, SHIFT, ENTRIES, ENTRY_SHIFT, SIZE = range(5)  # columns of `head`


class Grams(NamedTuple):
    """Row 4 * k + w - 1 of `head` is about the grams of w bytes of term k; its map is -1 where it
    has none. Grams of one row stand side by side, with the patterns that were entered by them."""

    head: I8
    map: U8
    entry: I4  # open addressing: number of a gram plus one, 0: none
    gram: I8
    members: I4  # those of gram g are members[g] to members[g + 1] - 1
    pattern: I4  # of each member
    place: I4  # where in its pattern the gram stands
    data: U1
    offsets: I8  # of the distinct patterns
    firing: I4  # pattern p fires event[firing[p]:firing[p + 1]]; ~i: where LIKE pattern i fits
    event: I4


def grams_of(texts: Sequence[dict[bytes, list[int]]]) -> Grams:
    """From the patterns of each term, and the events of each pattern."""
    patterns = [pattern for own in texts for pattern in own]
    data, offsets = joined(patterns)
    events = [events for own in texts for events in own.values()]
    firing = np.zeros(len(events) + 1, np.int32)
    np.cumsum([len(e) for e in events], out=firing[1:])
    owner = np.repeat(np.arange(len(texts)), [len(own) for own in texts])
    widths = np.minimum(np.diff(offsets), _WIDTHS)
    place, gram = np.zeros(len(patterns), np.int32), np.zeros(len(patterns), np.int64)
    _choose(data, offsets, _rarity(data), place, gram)
    row = owner * _WIDTHS + widths - 1
    order = np.lexsort((gram, row))
    row, gram = row[order], gram[order]
    starts = np.flatnonzero(np.diff(row, prepend=-1) | np.diff(gram, prepend=-1))
    head, map, entry = _tables(row[starts], gram[starts], _WIDTHS * len(texts))
    return Grams(
        head,
        map,
        entry,
        gram[starts],
        np.append(starts, len(order)).astype(np.int32),
        order.astype(np.int32),
        place[order],
        data,
        offsets,
        firing,
        np.array([e for own in events for e in own], np.int32),
    )


def _rarity(data: U1) -> F8:
    """How common each byte is, as the logarithm of its number: bytes of patterns tell of texts."""
    counts = np.bincount(data, minlength=256) + _USUAL * len(data) // 64
    rarity: F8 = np.log2(counts + 1.0)
    return rarity


def _usual() -> I8:
    """A guess of how often bytes stand in texts of any kind, in 64ths."""
    counts = np.zeros(256, np.int64)
    counts[list(b" etaoinsrlcdum")] = 2
    counts[list(b"hpgbfywkvxEST012\\./-:_=")] = 1
    return counts


_USUAL = _usual()


def _tables(row: I8, gram: I8, rows: int) -> tuple[I8, U8, I4]:
    """Head, maps and entries of sorted rows and grams."""
    sizes = np.bincount(row, minlength=rows)
    head = np.full((rows, 5), -1, np.int64)
    maps = entries = 0
    for r in np.flatnonzero(sizes).tolist():
        size = int(sizes[r])
        bits = (min(_BITS * size, _MOST_BITS) - 1).bit_length()
        slots = (2 * size - 1).bit_length() + 1
        head[r] = maps, 32 - bits, entries, 32 - slots, 1 << slots
        maps += (1 << bits) // 64
        entries += 1 << slots
    map, entry = np.zeros(maps, np.uint64), np.zeros(entries, np.int32)
    _enter(head, row, gram, map, entry)
    return head, map, entry


@kernel(inline=True)
def _hash(gram):
    """32 bits; the highest are the best."""
    return np.int64((np.uint64(gram) * _PRIME) & _HALF)


@kernel
def _enter(head, row, gram, map, entry):
    for g in range(gram.size):
        own = head[row[g]]
        mixed = _hash(gram[g])
        bit = mixed >> own[SHIFT]
        map[own[MAP] + (bit >> 6)] |= np.uint64(1) << np.uint64(bit & 63)
        at = mixed >> own[ENTRY_SHIFT]
        while entry[own[ENTRIES] + at] != 0:
            at = (at + 1) & (own[SIZE] - 1)
        entry[own[ENTRIES] + at] = g + 1


@kernel
def _gram(data, at, width):
    gram = np.int64(0)
    for j in range(width):
        gram |= np.int64(data[at + j]) << (8 * j)
    return gram


@kernel
def _choose(data, offsets, rarity, place, gram):
    """The best gram of each pattern, where it stands and which it is: of rare bytes, and shared
    with few other patterns, as all that share it are compared where it is found."""
    shared = np.zeros(1 << _COUNTED, np.int32)
    for p in range(place.size):
        width = min(offsets[p + 1] - offsets[p], np.int64(_WIDTHS))
        for i in range(offsets[p], offsets[p + 1] - width + 1):
            shared[_hash(_gram(data, i, width)) >> (32 - _COUNTED)] += 1
    for p in range(place.size):
        begin, end = offsets[p], offsets[p + 1]
        width = min(end - begin, np.int64(_WIDTHS))
        best = np.inf
        for i in range(begin, end - width + 1):
            cost = np.log2(float(shared[_hash(_gram(data, i, width)) >> (32 - _COUNTED)]))
            for j in range(width):
                cost += rarity[data[i + j]]
            if cost < best:
                best, place[p] = cost, i - begin
        gram[p] = _gram(data, begin + place[p], width)


@kernel
def _same(data, at, other, other_at, size):
    """How many steps it takes to see that the bytes differ; 0 where they do not."""
    i = 0
    while i + 8 <= size:
        if word_at(data, at + i) != word_at(other, other_at + i):
            return i + 1
        i += 8
    while i < size:
        if data[at + i] != other[other_at + i]:
            return i + 1
        i += 1
    return 0


@kernel
def _hit(tables, row, gram, at, text, found, state):
    """The gram stands at `at`: enter the events of its patterns that stand around it.

    text: (data, begin, end). state: events written, work left. False where there is no room for
    an event, or too much work.
    """
    grams, likes = tables
    data, begin, end = text
    seen, mark, out = found
    own = grams.head[row]
    slot = _hash(gram) >> own[ENTRY_SHIFT]
    while True:
        state[1] -= 1
        g = grams.entry[own[ENTRIES] + slot] - 1
        if g < 0:
            return state[1] >= 0
        if grams.gram[g] == gram:
            break
        slot = (slot + 1) & (own[SIZE] - 1)
    for m in range(grams.members[g], grams.members[g + 1]):
        p = grams.pattern[m]
        state[1] -= 1
        if seen[p] == mark:
            continue
        size = grams.offsets[p + 1] - grams.offsets[p]
        from_ = at - grams.place[m]
        if from_ < begin or from_ + size > end:
            continue
        steps = _same(data, from_, grams.data, grams.offsets[p], size)
        if steps > 0:
            state[1] -= steps >> 3
            continue
        state[1] -= size >> 3
        seen[p] = mark
        for e in range(grams.firing[p], grams.firing[p + 1]):
            event, count = np.int64(grams.event[e]), state[0]
            if event < 0:
                count = add_like(likes, ~event, data, begin, end, out, count)
            elif count < out.size:
                out[count] = event
                count += 1
            else:
                count = np.int64(FULL)
            if count < 0:
                state[0] = count
                return False
            state[0] = count
    return state[1] >= 0


@kernel
def add_contained(grams, likes, k, data, begin, end, found, count):
    """Write the events of the patterns that data[begin:end] contains, from out[count] on.

    Returns the new count, FULL or HARD.
    """
    state = np.empty(2, np.int64)
    state[0], state[1] = count, _WORK * (end - begin + _START)
    tables, text = (grams, likes), (data, begin, end)
    for width in range(_WIDTHS, 0, -1):
        row = _WIDTHS * k + width - 1
        map, shift = grams.head[row, MAP], grams.head[row, SHIFT]
        if map < 0 or end - begin < width:
            continue
        if width == _WIDTHS:
            for at in range(begin, end - 3):
                gram = np.int64(half_at(data, at))
                bit = _hash(gram) >> shift
                if grams.map[map + (bit >> 6)] >> np.uint64(bit & 63) & np.uint64(1) and not _hit(
                    tables, row, gram, at, text, found, state
                ):
                    return np.int64(FULL if state[0] < 0 else HARD)
            continue
        gram, top = np.int64(0), 8 * (width - 1)
        for at in range(begin, end):
            gram = gram >> 8 | np.int64(data[at]) << top
            bit = _hash(gram) >> shift
            if (
                grams.map[map + (bit >> 6)] >> np.uint64(bit & 63) & np.uint64(1)
                and at + 1 - width >= begin
            ):
                place = at + 1 - width
                if not _hit(tables, row, gram, place, text, found, state):
                    return np.int64(FULL if state[0] < 0 else HARD)
    return state[0]
