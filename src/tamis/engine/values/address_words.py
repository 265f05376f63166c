"""The addresses that the distinct texts of a column are, as numbers (language/addresses.py)."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.engine.ground.layout import I8
from tamis.engine.values.column_texts import Words
from tamis.jit.kernel import kernel
from tamis.language.addresses import V6

_DOT, _ZERO, _COLON, _A = 46, 48, 58, 97
_HALF = 32768  # 2^15: what is taken from the first group of a half


def addresses(name: str, words: Words) -> tuple[npt.NDArray[np.bool_], I8]:
    """Which texts have the number `name` of an address, and the numbers."""
    data, offsets = words.values.data, words.values.offsets
    if name == "ipv4":
        numbers = np.empty(len(words), np.int64)
        _ipv4(data, offsets, np.empty(8, np.int64), numbers)
        return numbers >= V6, numbers
    halves = np.zeros((len(words), 2), np.int64)
    valid = np.zeros(len(words), np.bool_)
    _ipv6(data, offsets, np.empty(8, np.int64), valid, halves)
    return valid, halves[:, 0 if name == "ipv6_high" else 1]


@kernel
def _ipv4(data, offsets, groups, out):
    """out[t]: the number of the t-th text, which is data[offsets[t]:offsets[t + 1]]; -1 if it is an
    address of IPv6, -2 if it is none. `groups` has room for eight numbers."""
    for t in range(out.size):
        first, end = offsets[t], offsets[t + 1]
        out[t] = _number(data, first, end)
        if out[t] < 0 and _groups(data, first, end, groups):
            out[t] = -1


@kernel
def _ipv6(data, offsets, groups, valid, out):
    """out[t]: the halves of the t-th text, less 2^63, if it is valid[t] as an address of IPv6."""
    for t in range(valid.size):
        valid[t] = _groups(data, offsets[t], offsets[t + 1], groups)
        if valid[t]:
            for half in range(2):
                g = 4 * half
                top = (groups[g] - _HALF) * 281474976710656 + groups[g + 1] * 4294967296
                out[t, half] = top + groups[g + 2] * 65536 + groups[g + 3]


@kernel
def _number(data, first, end):
    """The number of an IPv4 address, -2 if the text is none."""
    value, part, digits, dots = 0, 0, 0, 0
    for i in range(first, end):
        sign = np.int64(data[i])
        if sign == _DOT and digits > 0 and dots < 3:
            value = value * 256 + part
            part, digits, dots = 0, 0, dots + 1
        elif _ZERO <= sign <= _ZERO + 9 and digits < 3 and (digits == 0 or part > 0):
            part = part * 10 + sign - _ZERO
            digits += 1
            if part > 255:
                return -2
        else:
            return -2
    return value * 256 + part if dots == 3 and digits > 0 else -2


@kernel
def _groups(data, first, end, groups):
    """Fill the eight groups of an IPv6 address; False if the text is none. A :: stands for the
    groups that are missing, one at least; the last two may be written as IPv4."""
    count, gap, digits, value, start, i = 0, -1, 0, 0, first, first
    if end - first < 2:
        return False
    if np.int64(data[first]) == _COLON:
        if np.int64(data[first + 1]) != _COLON:
            return False
        i = first + 1
    while i < end:
        sign = np.int64(data[i])
        i += 1
        digit = -1
        if _ZERO <= sign <= _ZERO + 9:
            digit = sign - _ZERO
        elif _A <= (sign | 32) <= _A + 5:
            digit = (sign | 32) - _A + 10
        if digit >= 0:
            value = value * 16 + digit
            digits += 1
            if digits > 4:
                return False
        elif sign == _COLON:
            start = i
            if digits == 0:
                if gap >= 0:
                    return False
                gap = count
                continue
            if i == end or count >= 8:
                return False
            groups[count] = value
            count, digits, value = count + 1, 0, 0
        else:
            number = _number(data, start, end) if sign == _DOT and count <= 6 else -2
            if number < 0:
                return False
            groups[count], groups[count + 1] = number // 65536, number % 65536
            count, digits, i = count + 2, 0, end
    if digits > 0:
        if count >= 8:
            return False
        groups[count] = value
        count += 1
    if gap < 0:
        return count == 8
    if count == 8:
        return False
    missing = 8 - count
    for k in range(7, gap - 1, -1):
        groups[k] = groups[k - missing] if k - missing >= gap else 0
    return True
