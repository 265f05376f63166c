"""Arithmetic of single values as messages mean it: Java's integers, exact comparison."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import math
from typing import Any

import numpy as np

from tamis.jit.kernel import kernel


def _wrapped(value: int) -> Any:
    return np.int64((value + 2**63) % 2**64 - 2**63)


def _add(a: Any, b: Any) -> Any:
    return _wrapped(int(a) + int(b))


def _sub(a: Any, b: Any) -> Any:
    return _wrapped(int(a) - int(b))


def _mul(a: Any, b: Any) -> Any:
    return _wrapped(int(a) * int(b))


@kernel(inline=True, plain=_add)
def add(a, b):
    return a + b


@kernel(inline=True, plain=_sub)
def sub(a, b):
    return a - b


@kernel(inline=True, plain=_mul)
def mul(a, b):
    return a * b


@kernel(inline=True)
def order_of(i, d):
    """-1, 0 or 1 as the integer is less than, equal to or greater than the double: no rounding."""
    order = np.int64(-1) if d >= 0 else np.int64(1)
    if -9223372036854775808.0 <= d < 9223372036854775808.0:
        whole = math.floor(d)
        near = np.int64(whole)
        order = np.int64(i > near) - np.int64(i < near)
        if order == 0 and d > whole:
            order = np.int64(-1)
    return order


@kernel(inline=True)
def quotient(a, b):
    """Towards zero, as in Java; b is not zero."""
    if b == -1:
        return sub(np.int64(0), a)
    return a // b + np.int64(a % b != 0 and (a < 0) != (b < 0))


@kernel(inline=True)
def remainder(a, b):
    """With the sign of a, as in Java; b is not zero."""
    if b == -1:
        return np.int64(0)
    left = a % b  # has the sign of b
    return left - b if left != 0 and (a < 0) != (b < 0) else left
