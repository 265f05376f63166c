"""Where atoms are true: intervals of positions in the order of a term's values."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.diagram import packed
from tamis.diagram.bdd import HIGHEST, LOWEST
from tamis.jit.kernel import kernel
from tamis.logic.atoms import Kind

_BELOW, _MEMBER = int(Kind.BELOW), int(Kind.MEMBER)
_START = LOWEST + 2  # the first position of a value; LOWEST is "undefined, or of another type"


@kernel
def intervals(asked, position):
    """Of each atom: where it is true, from low to before high, and its shape (0: asks whether there
    is a value, 1: where it stands, 2: something else).

    The interval is empty where that is no interval, or reaches the last number.
    """
    low, high = np.zeros(asked.size, np.int64), np.zeros(asked.size, np.int64)
    shape = np.empty(asked.size, np.int8)
    for i in range(asked.size):
        kind, at = packed.kind(asked[i]), position[i]
        shape[i] = 0 if kind < _BELOW else 1 if kind <= _MEMBER else 2
        if kind < _BELOW:
            low[i], high[i] = _START, HIGHEST
        elif kind == _BELOW and at < HIGHEST:
            low[i], high[i] = _START, at
        elif kind == _MEMBER and _START < at < HIGHEST - 1:
            low[i], high[i] = at, at + 1
    return low, high, shape
