"""Rows of words as vectors: the two operations that wide blocks spend their time in.

LLVM does not find these vectors by itself (rows may overlap for all it knows), so they
are written in its own language: load rows, compute, store. With the JIT off, numpy does
the same. Rows are WIDE words, 64-byte aligned (`aligned`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from tamis.engine.layout import U8

WIDE = 32  # words of a row: 2,048 messages; measured best of 4, 8, 16, 32 on AVX-512
_ALIGNMENT = 64


def aligned(rows: int) -> U8:
    """Rows of zeros whose first stands on a cache line."""
    memory = np.zeros(rows * WIDE + _ALIGNMENT // 8, np.uint64)
    skip = -memory.ctypes.data % _ALIGNMENT // 8
    return memory[skip : skip + rows * WIDE].reshape(rows, WIDE)


def _full_adder(builder: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Sum and carry of three vectors of bits."""
    u = builder.xor(a, b)
    return builder.xor(u, c), builder.or_(builder.and_(a, b), builder.and_(u, c))


class _Rows:
    """Access to the rows of a two-dimensional array in generated code."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any) -> None:
        self.builder = builder
        self.data = context.make_array(kind)(context, builder, array).data
        self.vector = ir.VectorType(ir.IntType(64), WIDE)

    def _at(self, row: Any) -> Any:
        word = ir.IntType(64)
        index = self.builder.mul(row, ir.Constant(word, WIDE))
        place = self.builder.gep(self.data, [index], source_etype=word)
        return self.builder.bitcast(place, self.vector.as_pointer())

    def load(self, row: Any) -> Any:
        loaded = self.builder.load(self._at(row), typ=self.vector)
        loaded.align = _ALIGNMENT
        return loaded

    def store(self, row: Any, value: Any) -> None:
        self.builder.store(value, self._at(row)).align = _ALIGNMENT


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def choose(value: U8, test: int, low: int, high: int, out: int) -> None:
        value[out] = value[low] ^ (value[test] & (value[low] ^ value[high]))

    def add8(rows: U8, planes: U8, carry: U8) -> None:
        sums = [planes[0], planes[1], planes[2]]
        over = np.zeros(WIDE, np.uint64)
        for i in range(8):
            bits = rows[i].copy()
            for p in range(3):
                sums[p], bits = sums[p] ^ bits, sums[p] & bits
            over ^= bits
        planes[0], planes[1], planes[2], carry[0] = *sums, over

else:

    @intrinsic
    def choose(typing: Any, value: Any, test: Any, low: Any, high: Any, out: Any) -> Any:
        """value[out] = value[high] where value[test], else value[low]: one node of a diagram."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows = _Rows(context, builder, signature.args[0], arguments[0])
            t, a, b = (rows.load(row) for row in arguments[1:4])
            rows.store(arguments[4], builder.xor(a, builder.and_(t, builder.xor(a, b))))
            return context.get_dummy_value()

        return types.void(value, *[types.uint64] * 4), generate

    @intrinsic
    def add8(typing: Any, rows: Any, planes: Any, carry: Any) -> Any:
        """Add the bits of rows 0 to 7 to counters that stand upright in planes 0 to 2.

        carry[0] gets the eights: at most one, as seven and eight make fifteen.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds = signature.args
            given = _Rows(context, builder, kinds[0], arguments[0])
            sums = _Rows(context, builder, kinds[1], arguments[1])
            over = _Rows(context, builder, kinds[2], arguments[2])
            number = [ir.Constant(ir.IntType(64), i) for i in range(8)]
            ones, twos, fours = (sums.load(number[i]) for i in range(3))
            two, four = [], []
            for i in range(0, 8, 2):
                ones, c = _full_adder(
                    builder, ones, given.load(number[i]), given.load(number[i + 1])
                )
                two.append(c)
            for i in range(0, 4, 2):
                twos, c = _full_adder(builder, twos, two[i], two[i + 1])
                four.append(c)
            fours, eights = _full_adder(builder, fours, four[0], four[1])
            for i, plane in enumerate((ones, twos, fours)):
                sums.store(number[i], plane)
            over.store(number[0], eights)
            return context.get_dummy_value()

        return types.void(rows, planes, carry), generate
