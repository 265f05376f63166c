"""The addresses that the distinct texts of a column are, as numbers (language/addresses.py)."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.engine.values.column_texts import Words
from tamis.engine.ground.layout import I8
from tamis.jit.kernel import kernel
from tamis.language.addresses import number_of

_DOT, _ZERO, _COLON = 46, 48, 58
_NONE, _IPV6 = -2, -3


def addresses(name: str, words: Words) -> tuple[npt.NDArray[np.bool_], I8]:
    """Which texts have the number `name` of an address, and the numbers."""
    numbers = np.empty(len(words), np.int64)
    _ipv4(words.values.data, words.values.offsets, numbers)
    valid = numbers >= 0 if name == "ipv4" else np.zeros(len(words), bool)
    for i in np.flatnonzero(numbers == _IPV6).tolist():
        value = number_of(name, words.values.bytes(i).decode())
        if value is not None:
            valid[i], numbers[i] = True, value
    return valid, np.where(valid, numbers, 0)


@kernel
def _ipv4(data, offsets, out):
    """out[t]: the number of the t-th text, which is data[offsets[t]:offsets[t + 1]]; _NONE where it
    is no IPv4 address, _IPV6 where it has a colon. Each text is read once."""
    for t in range(out.size):
        value, part, digits, dots = 0, 0, 0, 0
        right = True
        for i in range(offsets[t], offsets[t + 1]):
            byte = data[i]
            if byte == _COLON:
                value, right, dots = _IPV6, True, 3
                digits = 1
                break
            if not right:
                continue
            if byte == _DOT:
                right = digits > 0 and dots < 3
                value = value * 256 + part
                part, digits, dots = 0, 0, dots + 1
            elif _ZERO <= byte <= _ZERO + 9:
                right = digits < 3 and (digits == 0 or part > 0)
                part = part * 10 + (np.int64(byte) - _ZERO)
                right = right and part < 256
                digits += 1
            else:
                right = False
        if value == _IPV6:
            out[t] = _IPV6
        elif right and dots == 3 and digits > 0:
            out[t] = value * 256 + part
        else:
            out[t] = _NONE
