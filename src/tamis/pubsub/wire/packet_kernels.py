"""Kernels between packets and columns. Packets stand one behind the other in `data` (uint8).

Arrays of one entry per packet: `starts` (one more: where the last one ends), `at` (its first place
of a predefined attribute). Each kernel writes the arrays that its docstring names, and no others.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.jit.kernel import kernel

HEADER, MAX_FIELDS = 24, 64
_PRIME = 2**31 - 1
# What `inspect` finds wrong with a packet.
FINE, SHORT, FOREIGN, FIELDS, PLACES, PRESENT, ABSENT, LENGTH = range(8)


@kernel
def _u32(data, at):
    return (
        np.int64(data[at]) << 24
        | np.int64(data[at + 1]) << 16
        | np.int64(data[at + 2]) << 8
        | np.int64(data[at + 3])
    )


@kernel
def _u16(data, at):
    return np.int64(data[at]) << 8 | np.int64(data[at + 1])


@kernel
def _put32(data, at, value):
    data[at] = value >> 24 & 255
    data[at + 1] = value >> 16 & 255
    data[at + 2] = value >> 8 & 255
    data[at + 3] = value & 255


# --- columns to packets ---------------------------------------------------------


@kernel
def put_heads(data, starts, head, sequence, fields, field_starts, subject):
    """Write each packet's length, the same 12 bytes `head`, its sequence number, and its subject.

    Packet i has fields[field_starts[s] : field_starts[s + 1]], s = subject[i].
    """
    for i in range(starts.size - 1):
        at = starts[i]
        _put32(data, at, starts[i + 1] - at)
        for j in range(12):
            data[at + 4 + j] = head[j]
        _put32(data, at + 16, sequence + i)
        at += 20
        for j in range(field_starts[subject[i]], field_starts[subject[i] + 1]):
            data[at] = fields[j]
            at += 1


@kernel
def put4(data, at, offset, values):
    """Write values[i] (uint32) at at[i] + offset."""
    for i in range(values.size):
        _put32(data, at[i] + offset, np.int64(values[i]))


@kernel
def put8(data, at, offset, values):
    """Write values[i] (uint64) at at[i] + offset."""
    for i in range(values.size):
        _put32(data, at[i] + offset, np.int64(values[i] >> np.uint64(32)))
        _put32(data, at[i] + offset + 4, np.int64(values[i] & np.uint64(0xFFFFFFFF)))


@kernel
def put_texts(data, cursor, texts, text_starts, sizes):
    """Write the text of each packet at cursor[i], which moves behind it and its padding."""
    for i in range(sizes.size):
        at, first = cursor[i], text_starts[i]
        for j in range(sizes[i]):
            data[at + j] = texts[first + j]
        cursor[i] = at + (sizes[i] + 3 & -4)
        for j in range(at + sizes[i], cursor[i]):
            data[j] = 0


# --- packets to columns ---------------------------------------------------------


@kernel
def frame(data, most, starts):
    """Write where packets start, and where the last one ends; returns how many there are.

    -1 - i: packet i has a length that none can have, or is cut off.
    """
    at, found = 0, 0
    while at < data.size:
        starts[found] = at
        if data.size - at < HEADER + 4:
            return -1 - found
        length = _u32(data, at)
        if length < HEADER + 4 or length > most or length > data.size - at:
            return -1 - found
        at += length
        found += 1
    starts[found] = at
    return found


@kernel
def inspect(data, starts, channel, offsets, text, at, present, more):
    """Check the form of each packet; returns (-1, FINE) or the first bad one and what is wrong.

    Attribute j has its place at at[i] + offsets[j], and `text[j]` says that it is a text; offsets
    has one more. Writes `at`, `present` (n x 2, bits of the attributes that are there) and `more`,
    the number of discretionary attributes: what they are is not checked.
    """
    places_known = text.size
    for i in range(starts.size - 1):
        start, end = starts[i], starts[i + 1]
        if _u32(data, start + 4) != channel:
            return i, FOREIGN
        fields = _u32(data, start + 20)
        if fields < 1 or fields > MAX_FIELDS:
            return i, FIELDS
        here = start + HEADER + (2 * fields + 3 & -4)
        if here + 4 > end:
            return i, SHORT
        if _u16(data, start + HEADER) == 0:
            return i, FIELDS
        places, more[i] = _u16(data, here), _u16(data, here + 2)
        if places > places_known:
            return i, PLACES
        words = (places + 31) // 32
        first = here + 4 + 4 * words
        if first + offsets[places] > end:
            return i, SHORT
        present[i, 0] = present[i, 1] = np.uint64(0)
        for w in range(words):
            bits = np.uint64(_u32(data, here + 4 + 4 * w))
            present[i, w // 2] |= bits << np.uint64(32 * (w % 2))
        beyond = present[i, 1] >> np.uint64(max(places - 64, 0))
        if places < 64:
            beyond |= present[i, 0] >> np.uint64(places)
        if beyond != 0:
            return i, PRESENT
        texts = first + offsets[places]
        for j in range(places):
            if not present[i, j // 64] >> np.uint64(j % 64) & np.uint64(1):
                for b in range(first + offsets[j], first + offsets[j + 1]):
                    if data[b] != 0:
                        return i, ABSENT
            elif text[j]:
                texts += _u32(data, first + offsets[j]) + 3 & -4
                if texts > end:
                    return i, LENGTH
        if texts != end and more[i] == 0:
            return i, LENGTH
        at[i] = first
    return -1, FINE


@kernel
def valid(present, place, there):
    """Write for each packet whether the attribute is there; returns how many are not."""
    missing = 0
    for i in range(there.size):
        there[i] = present[i, place // 64] >> np.uint64(place % 64) & np.uint64(1)
        missing += not there[i]
    return missing


@kernel
def get4(data, at, offset, there, values):
    """Write values[i] (uint32), 0 where the attribute is not there."""
    for i in range(values.size):
        values[i] = _u32(data, at[i] + offset) if there[i] else 0


@kernel
def get8(data, at, offset, there, values):
    """Write values[i] (uint64), 0 where the attribute is not there."""
    for i in range(values.size):
        if there[i]:
            high = np.uint64(_u32(data, at[i] + offset))
            low = np.uint64(_u32(data, at[i] + offset + 4))
            values[i] = high << np.uint64(32) | low
        else:
            values[i] = 0


@kernel
def text_ends(at, offsets, present, cursor):
    """Write where the texts of each packet begin: behind the places that it has.

    A packet has as many places as its header says; `cursor` holds that number at first.
    """
    for i in range(cursor.size):
        cursor[i] = at[i] + offsets[cursor[i]]


@kernel
def places_of(data, starts, places):
    """Write how many predefined attributes each packet has places for."""
    for i in range(places.size):
        fields = _u32(data, starts[i] + 20)
        places[i] = _u16(data, starts[i] + HEADER + (2 * fields + 3 & -4))


@kernel
def get_texts(data, cursor, sizes, text_starts, texts):
    """Copy the text at cursor[i] to texts[text_starts[i]:]; the cursor moves behind its padding."""
    for i in range(cursor.size):
        at, first = cursor[i], text_starts[i]
        for j in range(sizes[i]):
            texts[first + j] = data[at + j]
        cursor[i] = at + (np.int64(sizes[i]) + 3 & -4)


@kernel
def number_subjects(data, starts, secret, table, numbers, first):
    """Number subjects in the order in which they occur; returns how many there are.

    Writes numbers[i], and first[s], a packet that has subject s. `table` (int32, -1, a power of
    two larger than twice the packets) is a hash table; `secret` keeps others from filling
    one slot.
    """
    found, mask = 0, table.size - 1
    for i in range(starts.size - 1):
        start = starts[i] + 20
        size = 4 + 2 * _u32(data, start)
        mixed = np.int64(0)
        for b in range(2, size, 2):
            mixed = ((mixed + _u16(data, start + b)) * secret + 1) % _PRIME
        slot = mixed & mask
        while table[slot] >= 0:
            other, same = starts[first[table[slot]]] + 20, True
            for b in range(size):
                if data[start + b] != data[other + b]:
                    same = False
                    break
            if same:
                break
            slot = slot + 1 & mask
        if table[slot] < 0:
            table[slot], first[found] = found, i
            found += 1
        numbers[i] = table[slot]
    return found
