"""LIKE patterns for kernels: compared part by part over UTF-8 bytes, as logic/wildcards.py does."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.engine.ground.layout import I4, I8
from tamis.engine.lookup.affixes import FULL
from tamis.jit.kernel import kernel
from tamis.language.patterns import like_parts
from tamis.logic.wildcards import ESCAPE

ONE, MANY = 256, 257  # codes: a byte is itself
_TOO_LONG = -1
_STEPS = 16  # that comparing may take for each byte of the text, and as many to begin with


class Likes(NamedTuple):
    """Pattern i is code[offsets[i]:offsets[i + 1]]. Any text of term k may fit those without a
    text in them: blind[first[k]:first[k + 1]]."""

    code: npt.NDArray[np.int16]
    offsets: I8
    event: I4
    first: I8
    blind: I4


def likes_of(
    patterns: Sequence[str], events: Sequence[int], blind: Sequence[Sequence[int]]
) -> Likes:
    """The patterns, and the numbers of those of each term that have no text."""
    codes = [_codes(pattern) for pattern in patterns]
    offsets = np.zeros(len(codes) + 1, np.int64)
    np.cumsum([len(code) for code in codes], out=offsets[1:])
    first = np.zeros(len(blind) + 1, np.int64)
    np.cumsum([len(own) for own in blind], out=first[1:])
    return Likes(
        np.array([c for code in codes for c in code], np.int16),
        offsets,
        np.array(events, np.int32),
        first,
        np.array([i for own in blind for i in own], np.int32),
    )


def _codes(pattern: str) -> list[int]:
    codes: list[int] = []
    for i, part in enumerate(like_parts(pattern, ESCAPE)):
        codes += [MANY] * (i > 0)
        for j, text in enumerate(part):
            codes += [ONE] * (j > 0)
            codes += text.encode()
    return codes


@kernel
def _stands(code, first, last, data, at, end):
    """Where the part code[first:last] ends that stands at `at`; ~i where code i of it shows that it
    does not stand there."""
    for c in range(first, last):
        if at >= end:
            return ~np.int64(c - first)
        if code[c] == ONE:
            at += 1
            while at < end and data[at] & 0xC0 == 0x80:
                at += 1
        elif data[at] == code[c]:
            at += 1
        else:
            return ~np.int64(c - first)
    return at


@kernel
def _ends(code, first, last, data, begin, at):
    """Where the part begins that ends at `at`, not before `begin`; -1: it does not."""
    for c in range(last - 1, first - 1, -1):
        if at <= begin:
            return -1
        at -= 1
        if code[c] == ONE:
            while at > begin and data[at] & 0xC0 == 0x80:
                at -= 1
        elif data[at] != code[c]:
            return -1
    return at


@kernel
def like(likes, i, data, begin, end):
    """Whether the text is LIKE pattern i: 1, 0, or -1 where that would take too long to say."""
    code, first, last = likes.code, likes.offsets[i], likes.offsets[i + 1]
    stop = first
    while stop < last and code[stop] != MANY:
        stop += 1
    at = _stands(code, first, stop, data, begin, end)
    if at < 0 or stop == last:
        return np.int64(at == end)
    tail = last
    while code[tail - 1] != MANY:
        tail -= 1
    end = _ends(code, tail, last, data, at, end)
    steps = _STEPS * (end - at + 16)
    first = stop + 1
    while first < tail and end >= 0:
        stop = first
        while code[stop] != MANY:
            stop += 1
        found = np.int64(-1)
        while found < 0 and at < end:
            found = _stands(code, first, stop, data, at, end)
            if found < 0:
                steps -= ~found + 1
                at += 1
                while at < end and data[at] & 0xC0 == 0x80:
                    at += 1
                if steps < 0:
                    return _TOO_LONG
        if found < 0:
            return 0
        at, first = found, stop + 1
    return np.int64(end >= 0)


@kernel
def add_like(likes, i, data, begin, end, out, count):
    """Write the event of pattern i to out[count] where the text fits; ~i where that is open."""
    fits = like(likes, i, data, begin, end)
    if fits == 0:
        return count
    if count >= out.size:
        return np.int64(FULL)
    out[count] = likes.event[i] if fits > 0 else ~i
    return count + 1


@kernel
def add_blind(likes, k, data, begin, end, out, count):
    """The same of the patterns of term k that any text may fit."""
    for j in range(likes.first[k], likes.first[k + 1]):
        count = add_like(likes, np.int64(likes.blind[j]), data, begin, end, out, count)
        if count < 0:
            return count
    return count
