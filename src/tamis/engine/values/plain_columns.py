"""Plain columns of Arrow, read all at once: strings of ASCII, doubles and integers.

A step that takes Python some microseconds takes milliseconds in a batch of hundreds of columns,
more than the kernels do with the values. So kernels get the addresses of all columns together.
Whatever is not plain takes the way of `columns.py`, one by one.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from tamis.diagram.bdd import HIGHEST
from tamis.engine.ground.layout import I4, I8, U1
from tamis.engine.lookup.string_table import DATA, FIRST, MARKS, SIZE, VALUES, find
from tamis.engine.lookup.term_index import Index, Points, TermIndex
from tamis.engine.values.typed_columns import Column, from_arrow
from tamis.jit.kernel import kernel
from tamis.jit.vectors import bytes_from, halves_from, word_at, words_from
from tamis.language.tree import Attribute as Name
from tamis.logic.atoms import family_of
from tamis.messages.value_columns import normal
from tamis.schema import Schema, Shape, Type

if TYPE_CHECKING:
    import pyarrow as pa

MANY = 16  # columns from which on this pays
COLUMN, TERM, BITS, PLACE, DOUBLE = range(5)  # of what is asked
_BEYOND = np.uint64(0x8080808080808080)  # bits that no byte of ASCII has
_INFINITY = np.int64(0x7FF0000000000000)
_LOWEST = np.int64(-(2**63))
_HIGHEST = np.int64(HIGHEST)


class PlainColumns:
    """Columns of a batch by name; `at` has a row for each: where its buffers are."""

    def __init__(self, arrays: dict[str, pa.Array], types: tuple[Type, ...], at: I8) -> None:
        self.arrays, self.types, self.at = arrays, types, at
        self.names = tuple(arrays)
        self.number = {name: i for i, name in enumerate(arrays)}

    @classmethod
    def of(cls, given: Mapping[str, pa.Array], length: int, schema: Schema | None) -> Self | None:
        """The plain ones among these; None where there are few. They have passed `validate`."""
        arrays: dict[str, pa.Array] = {}
        types: list[Type] = []
        at: list[tuple[int, ...]] = []
        kinds = _plain_types()
        for name, array in given.items():
            kind = kinds.get(array.type.id)
            if kind is None or (schema is not None and not _fits(schema, name, kind)):
                continue
            marks, values, *more = array.buffers()
            data = more[0] if more else None
            if values is None:
                continue
            arrays[name] = array
            types.append(kind)
            at.append(
                (
                    array.offset,
                    0 if marks is None else marks.address,
                    values.address + (4 if more else 8) * array.offset,
                    0 if data is None else data.address,
                    0 if data is None else data.size,
                )
            )
        if len(at) < MANY:
            return None
        return cls._good(arrays, types, np.array(at, np.int64), length)

    @classmethod
    def _good(
        cls, arrays: dict[str, pa.Array], types: list[Type], at: I8, length: int
    ) -> Self | None:
        """Without strings that are not ASCII, or not laid out well."""
        texts = np.array([i for i, kind in enumerate(types) if kind is Type.STRING], np.int64)
        good = np.ones(len(types), np.uint8)
        check_texts(at, texts, length, good)
        if good.all():
            return cls(arrays, tuple(types), at)
        kept = np.flatnonzero(good).tolist()
        names = list(arrays)
        chosen = {names[i]: arrays[names[i]] for i in kept}
        return cls(chosen, tuple(types[i] for i in kept), at[kept]) if len(kept) >= MANY else None

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def column(self, name: str) -> Column:
        """One of them by itself."""
        array, kind = self.arrays[name], self.types[self.number[name]]
        return from_arrow(normal(name, array, {}) if kind is Type.DOUBLE else array, kind)

    def asked(self, index: Index) -> Asked:
        """What a segment asks of these columns; kept for the next batch, which is often alike.
        Several threads may ask, for batches that are not."""
        known: tuple[Any, Asked] | None = index.asked[0] if index.asked else None  # one at a time
        if known is None or known[0] != (self.names, self.types):
            known = (self.names, self.types), _asked(index, self.names, self.types)
            index.asked[:] = [known]
        return known[1]


class Asked(NamedTuple):
    """Terms of an index that are plain columns, and what is asked of them."""

    terms: frozenset[int]
    numbers: I8  # rows of COLUMN, TERM, BITS (of flags), PLACE (among keys, or -1), DOUBLE
    texts: I8  # rows of COLUMN, TERM, BITS
    tables: I8  # of the first texts: `at` of their tables of strings
    points: list[tuple[Points, tuple[int, int]]]  # of the same, and their fields
    others: I8  # places among keys of other terms

    def read(self, at: I8, keys: I8, flags: U1) -> I4:
        """Write keys and flags; the codes of strings."""
        codes = np.empty((len(self.points), flags.shape[1]), np.int32)
        read_numbers(at, self.numbers, keys, flags)
        read_texts(at, self.texts, self.tables, codes, flags)
        return codes


def _asked(index: Index, names: tuple[str, ...], types: tuple[Type, ...]) -> Asked:
    number = {name: i for i, name in enumerate(names)}
    numbers, coded, others = [], [], []
    free = set(range(index.key_columns))
    for i, term in enumerate(index.terms):
        column = number.get(term.term.name) if isinstance(term.term, Name) else None
        if column is None or not _is_simple(term, types[column]):
            continue
        kind, family = types[column], family_of(types[column])
        place, _ = term.below.get(family, (-1, None))
        row = column, i, 1 | 2 << family
        if kind is not Type.STRING:
            numbers.append((*row, place, kind is Type.DOUBLE))
            free.discard(place)
        elif family in term.points:
            coded.append((row, term.points[family], (term.number, family)))
        else:
            others.append(row)
    texts = [row for row, _, _ in coded] + others
    tables = [points.table().at for _, points, _ in coded]
    done = frozenset(row[TERM] for row in (*numbers, *texts))
    return Asked(
        done,
        np.array(numbers, np.int64).reshape(-1, 5),
        np.array(texts, np.int64).reshape(-1, 3),
        np.array(tables, np.int64).reshape(-1, 8),
        [(points, field) for _, points, field in coded],
        np.array(sorted(free), np.int64),
    )


def _is_simple(term: TermIndex, kind: Type) -> bool:
    """Whether a look at a value answers all that is asked."""
    family = family_of(kind)
    if kind is Type.STRING:
        return term.texts < 0 and family not in term.below
    return family not in term.points and not term.below.get(family, (0, []))[1]


def _plain_types() -> dict[int, Type]:
    from pyarrow import lib

    return {
        lib.Type_STRING: Type.STRING,
        lib.Type_DOUBLE: Type.DOUBLE,
        lib.Type_INT64: Type.INT,
    }


def _fits(schema: Schema, name: str, kind: Type) -> bool:
    own = schema.get(name)
    return own is None or (own.shape is Shape.SCALAR and own.type is kind)


# --- kernels -------------------------------------------------------------------


@kernel
def check_texts(at, texts, length, good):
    """Clear good[c] of columns of strings that are not ASCII, or whose places do not rise."""
    for c in texts:
        bounds = halves_from(at[c, VALUES], length + 1)
        steps = np.int64(0)  # below 0 if any of them is
        for m in range(length):
            steps |= np.int64(bounds[m + 1]) - np.int64(bounds[m])
        if steps < 0:
            good[c] = 0
            continue
        data = bytes_from(at[c, DATA], at[c, SIZE])
        i, last, bits = np.int64(bounds[0]), np.int64(bounds[length]), np.uint64(0)
        while i + 8 <= last:
            bits |= word_at(data, i)
            i += 8
        for k in range(i, last):
            bits |= np.uint64(data[k])
        good[c] = bits & _BEYOND == 0


@kernel(inline=True)
def _marked(at, c, valid):
    """Which values of column c are there."""
    marks, first = bytes_from(at[c, MARKS], (at[c, FIRST] + valid.size + 7) >> 3), at[c, FIRST]
    for m in range(valid.size):
        valid[m] = (marks[(first + m) >> 3] >> np.uint8((first + m) & 7)) & 1 != 0


@kernel
def read_texts(at, asked, tables, codes, flags):
    """codes[j]: which string of its table each value of the j-th asked column is, -1 for none."""
    length = flags.shape[1]
    every, some = np.ones(length, np.bool_), np.ones(length, np.bool_)
    for j in range(asked.shape[0]):
        c, bits = asked[j, COLUMN], np.uint8(asked[j, BITS])
        own = flags[asked[j, TERM]]
        own[:] = bits
        if at[c, MARKS] != 0:
            _marked(at, c, some)
            for m in range(length):
                own[m] = bits if some[m] else np.uint8(0)
        if j < codes.shape[0]:
            find(at[c], tables[j], some if at[c, MARKS] != 0 else every, codes[j])


@kernel
def read_numbers(at, asked, keys, flags):
    """Keys in the order of the numbers, the highest where there is none."""
    length = flags.shape[1]
    some = np.ones(length, np.bool_)
    for j in range(asked.shape[0]):
        c, bits, place = asked[j, COLUMN], np.uint8(asked[j, BITS]), asked[j, PLACE]
        own = flags[asked[j, TERM]]
        numbers = words_from(at[c, VALUES], length)
        if at[c, MARKS] != 0:
            _marked(at, c, some)
        else:
            some[:] = True
        if asked[j, DOUBLE] != 0:
            for m in range(length):
                some[m] &= numbers[m] & _HIGHEST <= _INFINITY  # else it is no number
        for m in range(length):
            own[m] = bits if some[m] else np.uint8(0)
        if place < 0:
            continue
        out = keys[place]
        for m in range(length):
            key = numbers[m]
            if asked[j, DOUBLE] != 0:
                key = np.int64(0) if key == _LOWEST else key  # -0.0 is 0.0
                key ^= (key >> 63) & _HIGHEST
            out[m] = key if some[m] else _HIGHEST
