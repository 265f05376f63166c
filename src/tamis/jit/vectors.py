"""Rows of words as vectors: the two operations that wide blocks spend their time in.

LLVM does not find these vectors by itself (rows may overlap for all it knows), so they
are written in its own language: load rows, compute, store. Where kernels are not compiled,
numpy does the same. Rows are WIDE words, 64-byte aligned (`aligned`).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from tamis.jit.kernel import kernel, vector

I8 = npt.NDArray[np.int64]
U1 = npt.NDArray[np.uint8]
U8 = npt.NDArray[np.uint64]
WIDE = 32  # words of a row: 2,048 messages; measured best of 4, 8, 16, 32 on AVX-512
_ALIGNMENT = 64
_PRIME = np.uint64(0xFF51AFD7ED558CCD)


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


# --- in plain Python ----------------------------------------------------------


def _choose(value: U8, test: int, low: int, high: int, out: int) -> None:
    value[out] = value[low] ^ (value[test] & (value[low] ^ value[high]))


def _add8(rows: U8, planes: U8, carry: U8) -> None:
    sums = [planes[0], planes[1], planes[2]]
    over = np.zeros(WIDE, np.uint64)
    for i in range(8):
        bits = rows[i].copy()
        for p in range(3):
            sums[p], bits = sums[p] ^ bits, sums[p] & bits
        over ^= bits
    planes[0], planes[1], planes[2], carry[0] = *sums, over


def _at_most8(array: I8, at: int, key: int) -> int:
    return _packed(array[at : at + 8] <= key)


def _agree8(array: I8, must: int, want: int, bits: int) -> int:
    return _packed(array[must : must + 8] & bits == array[want : want + 8])


def _some64(array: U1, at: int, bit: int) -> Any:
    return np.packbits(array[at : at + 64] & bit != 0, bitorder="little").view(np.uint64)[0]


def _packed(holds: Any) -> int:
    return int(np.packbits(holds, bitorder="little")[0])


def _lowest(word: Any) -> int:
    return (int(word) & -int(word)).bit_length() - 1


def _word_at(array: U1, at: int) -> Any:
    return array[at : at + 8].view(np.uint64)[0]


def _half_at(array: U1, at: int) -> Any:
    return array[at : at + 4].view(np.uint32)[0]


def _mixed(value: Any, word: Any) -> Any:
    product = (int(value) ^ int(word)) * int(_PRIME) & 0xFFFFFFFFFFFFFFFF
    return np.uint64(product ^ product >> 32)


def _entry_of(word: Any, entries: int) -> Any:
    product = int(_mixed(0, word)) * int(_PRIME) & 0xFFFFFFFFFFFFFFFF
    return (product >> 32) * entries >> 32


# --- compiled -----------------------------------------------------------------


@vector(_choose)
def choose(typing: Any, value: Any, test: Any, low: Any, high: Any, out: Any) -> Any:
    """value[out] = value[high] where value[test], else value[low]: one node of a diagram."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature.args[0], arguments[0])
        t, a, b = (rows.load(row) for row in arguments[1:4])
        rows.store(arguments[4], builder.xor(a, builder.and_(t, builder.xor(a, b))))
        return context.get_dummy_value()

    return types.void(value, *[types.uint64] * 4), generate


@vector(_add8)
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
            ones, c = _full_adder(builder, ones, given.load(number[i]), given.load(number[i + 1]))
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


def _eight(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """The vector of array[at] to array[at + 7]."""
    data = context.make_array(kind)(context, builder, array).data
    place = builder.gep(data, [at], source_etype=ir.IntType(64))
    vector = ir.VectorType(ir.IntType(64), 8)
    loaded = builder.load(builder.bitcast(place, vector.as_pointer()), typ=vector)
    loaded.align = 8
    return loaded


def _spread(builder: Any, value: Any) -> Any:
    vector = ir.VectorType(ir.IntType(64), 8)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _lane(0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), 8), None)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), lanes)


def _lane(number: int) -> Any:
    return ir.Constant(ir.IntType(32), number)


def _bits(builder: Any, holds: Any) -> Any:
    return builder.zext(builder.bitcast(holds, ir.IntType(8)), ir.IntType(64))


@vector(_at_most8)
def at_most8(typing: Any, array: Any, at: Any, key: Any) -> Any:
    """Bit i: array[at + i] <= key, for i below 8."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = _eight(context, builder, signature.args[0], *arguments[:2])
        return _bits(builder, builder.icmp_signed("<=", values, _spread(builder, arguments[2])))

    return types.int64(array, types.int64, types.int64), generate


@vector(_agree8)
def agree8(typing: Any, array: Any, must: Any, want: Any, bits: Any) -> Any:
    """Bit i: array[must + i] & bits == array[want + i], for i below 8."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        asked = _eight(context, builder, kind, *arguments[:2])
        wanted = _eight(context, builder, kind, arguments[0], arguments[2])
        found = builder.and_(asked, _spread(builder, arguments[3]))
        return _bits(builder, builder.icmp_signed("==", found, wanted))

    return types.int64(array, types.int64, types.int64, types.int64), generate


@vector(_some64)
def some64(typing: Any, array: Any, at: Any, bit: Any) -> Any:
    """Bit i: array[at + i], a byte, has the bit set, for i below 64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [arguments[1]], source_etype=ir.IntType(8))
        vector = ir.VectorType(ir.IntType(8), 64)
        loaded = builder.load(builder.bitcast(place, vector.as_pointer()), typ=vector)
        loaded.align = 1
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[2], _lane(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), 64), None)
        asked = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), lanes)
        holds = builder.icmp_signed("!=", builder.and_(loaded, asked), ir.Constant(vector, None))
        return builder.bitcast(holds, ir.IntType(64))

    return types.uint64(array, types.int64, types.uint8), generate


@vector(_lowest)
def lowest(typing: Any, word: Any) -> Any:
    """The place of the lowest bit that is set, of one at least."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@kernel(inline=True, plain=_mixed)
def mixed(value: Any, word: Any) -> Any:
    """A hash so far and eight bytes more: the hash of both."""
    product = (value ^ word) * _PRIME
    return product ^ (product >> np.uint64(32))


@kernel(inline=True, plain=_entry_of)
def entry_of(word: Any, entries: Any) -> Any:
    """Where in a table of so many entries (below 2^32) to look for the word first."""
    product = word * _PRIME
    high = ((product ^ (product >> np.uint64(32))) * _PRIME) >> np.uint64(32)
    return np.int64((high * np.uint64(entries)) >> np.uint64(32))


def _bytes_at(bits: int) -> Any:
    """Code that loads a word of so many bits from any place among bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [arguments[1]], source_etype=ir.IntType(8))
        word = ir.IntType(bits)
        loaded = builder.load(builder.bitcast(place, word.as_pointer()), typ=word)
        loaded.align = 1
        return loaded

    return generate


@vector(_word_at)
def word_at(typing: Any, array: Any, at: Any) -> Any:
    """The eight bytes from array[at] on as one word."""
    return types.uint64(array, types.int64), _bytes_at(64)


@vector(_half_at)
def half_at(typing: Any, array: Any, at: Any) -> Any:
    """The four bytes from array[at] on as half a word."""
    return types.uint32(array, types.int64), _bytes_at(32)


# --- memory of others ----------------------------------------------------------


def _as_pointer(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


_pointer: Any = intrinsic(_as_pointer)


def _from(kind: Any) -> Any:
    def found(address: int, count: int) -> Any:
        return np.ctypeslib.as_array((kind * int(count)).from_address(int(address)))

    return found


@kernel(inline=True, plain=_from(ctypes.c_uint8))
def bytes_from(address: Any, count: Any) -> Any:
    """So many bytes that begin at an address. Whoever calls keeps their owner alive."""
    return carray(_pointer(address), (count,), np.uint8)


@kernel(inline=True, plain=_from(ctypes.c_int32))
def halves_from(address: Any, count: Any) -> Any:
    """The same of numbers of four bytes."""
    return carray(_pointer(address), (count,), np.int32)


@kernel(inline=True, plain=_from(ctypes.c_int64))
def words_from(address: Any, count: Any) -> Any:
    """The same of numbers of eight bytes."""
    return carray(_pointer(address), (count,), np.int64)


@kernel(inline=True, plain=_from(ctypes.c_uint64))
def tags_from(address: Any, count: Any) -> Any:
    """The same of eight bytes without a sign."""
    return carray(_pointer(address), (count,), np.uint64)
