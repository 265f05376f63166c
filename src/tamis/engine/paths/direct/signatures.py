"""Signatures of messages, and messages in the order of their values."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.jit.kernel import kernel


@kernel
def sign_values(code, shift, signature):
    """Write the numbers of values into their field."""
    for m in range(code.size):
        signature[m] |= np.int64(code[m] + 1) << shift


@kernel
def sign_flags(flags, bit, place, signature):
    for m in range(flags.size):
        signature[m] |= np.int64((flags[m] & bit) != 0) << place


@kernel
def by_value(code, values):
    """The messages that have a value, those with the same one side by side."""
    starts = np.zeros(values + 1, np.int32)
    for m in range(code.size):
        starts[code[m] + 1] += 1
    total = np.int32(0)
    for v in range(1, values + 1):
        total, starts[v] = total + starts[v], total
    order = np.empty(total, np.int32)
    for m in range(code.size):
        v = code[m] + 1
        if v > 0:
            order[starts[v]] = m
            starts[v] += 1
    return order
