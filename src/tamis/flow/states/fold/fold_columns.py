"""Arrow columns as the numbers that the kernel works on, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamis.flow.states.definitions.scope import EVENT
from tamis.flow.states.fold.fold_programs import Input
from tamis.language import Attribute, attributes
from tamis.language.tree import In, Like, Regex, Text
from tamis.logic import reduce, satisfied, value
from tamis.messages.typed_tables import arrow_type
from tamis.schema import Schema, Type

I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Numbers = tuple[I8, Mask]


class Strings:
    """Ranks of strings: equal strings have equal ranks, and order is that of code points."""

    def __init__(self, arrays: list[pa.Array]) -> None:
        uniques = [pc.drop_null(pc.unique(a)).cast(pa.string()) for a in arrays]
        every = (
            pc.unique(pa.chunked_array(uniques, pa.string()))
            if uniques
            else pa.array([], pa.string())
        )
        self.sorted = every.take(pc.sort_indices(every))

    def ranks(self, array: pa.Array) -> Numbers:
        coded = array.dictionary_encode()
        table = pc.index_in(coded.dictionary.cast(pa.string()), self.sorted)
        known = ~np.asarray(coded.indices.is_null())
        ranks = np.asarray(table.fill_null(0)).astype(np.int64)
        places = np.asarray(coded.indices.fill_null(0)).astype(np.int64)
        return (ranks[places] if len(ranks) else np.zeros(len(array), np.int64)), known

    def rank(self, text: str) -> int:
        return int(pc.index(self.sorted, pa.scalar(text)).as_py())

    def texts(self, ranks: I8, known: Mask) -> pa.Array:
        if not len(self.sorted):
            return pa.nulls(len(ranks), pa.string())
        return self.sorted.take(pa.array(ranks, mask=~known))


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def to_numbers(array: pa.Array, kind: Type, strings: Strings) -> Numbers:
    """64 bits for each value, and whether it is defined (NaN is not)."""
    if kind is Type.STRING:
        return strings.ranks(array)
    if kind is Type.DOUBLE:
        found = np.asarray(array.cast(pa.float64()).fill_null(np.nan)).astype(
            np.float64, copy=False
        )
        return found.view(np.int64), ~np.isnan(found)
    known = ~np.asarray(array.is_null()) if array.null_count else np.ones(len(array), np.bool_)
    if kind is Type.TIMESTAMP:
        array = array.cast(pa.timestamp("us", "UTC"))
    if kind is Type.BOOL:
        array = array.cast(pa.int8())
    if array.null_count:
        array = array.cast(pa.int64()).fill_null(0)
    return np.asarray(array.cast(pa.int64())).astype(np.int64, copy=False), known


def to_arrow(numbers: I8, known: Mask, kind: Type, strings: Strings) -> pa.Array:
    """The values again."""
    if kind is Type.STRING:
        return strings.texts(numbers, known)
    mask = None if known.all() else ~known
    if kind is Type.DOUBLE:
        return pa.array(np.ascontiguousarray(numbers).view(np.float64), mask=mask)
    return pa.array(np.ascontiguousarray(numbers), mask=mask).cast(arrow_type(kind))


def input_column(node: Input, kind: Type, events: pa.Table, schema: Schema) -> pa.Array:
    """An attribute, or what is computed from one: once for each of its distinct values."""
    name = attributes(node)[0].removeprefix(EVENT)
    column = flat(events[name])
    if isinstance(node, Attribute):
        return column
    coded = column.dictionary_encode()
    find = _evaluator(node, schema)
    worth = pa.array([find(v) for v in coded.dictionary.to_pylist()], arrow_type(kind))
    return worth.take(coded.indices)


def _evaluator(node: Input, schema: Schema) -> Any:
    """The value of a term or the truth of a predicate, given the one attribute in it."""
    if isinstance(node, Text | Like | Regex | In):
        formula = reduce(node, "sql", schema)
        return lambda given: satisfied(formula, lambda _: given, {})
    return lambda given: value(node, lambda _: given, {})  # type: ignore[arg-type]


def key_rows(states: pa.Table, events: pa.Table, names: tuple[str, ...]) -> tuple[I8, pa.Table]:
    """For each event the row of its key, and the keys: those of `states` first, new ones after.

    The keys of `states` are distinct. An undefined part of a key is a value like others.
    """
    if not names:
        rows = max(1, states.num_rows)
        return np.zeros(events.num_rows, np.int64), pa.table({"": pa.nulls(rows)}).select([])
    coded = [_coded(states[n], events[n]) for n in names]
    if len(names) == 1:
        codes, uniques = coded[0]
        return codes[states.num_rows :], pa.table({names[0]: uniques})
    joint = coded[0][0]
    for codes, _ in coded[1:]:
        joint = np.unique(joint * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]
    first, dense = _by_appearance(joint)
    taken = {
        n: uniques.take(pa.array(codes[first]))
        for n, (codes, uniques) in zip(names, coded, strict=True)
    }
    return dense[states.num_rows :], pa.table(taken)


def _coded(of_states: pa.ChunkedArray, of_events: pa.ChunkedArray) -> tuple[I8, pa.Array]:
    joined = pa.chunked_array(
        [*of_states.chunks, *of_events.cast(of_states.type).chunks], of_states.type
    )
    coded = flat(joined).dictionary_encode(null_encoding="encode")
    return np.asarray(coded.indices).astype(np.int64), coded.dictionary


def _by_appearance(codes: I8) -> tuple[I8, I8]:
    """Where each code first stands, and the codes numbered in that order."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse]
