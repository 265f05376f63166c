"""Batches of messages, as columns on demand: each term is computed once per batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tamis.engine.columns import AnyColumn, Column, constant, from_arrow, from_values, undefined
from tamis.engine.derive import derive
from tamis.errors import MessageError
from tamis.language.tree import Attribute
from tamis.logic import Derived, Lookups, Semantics, finder
from tamis.schema import Schema, Type

if TYPE_CHECKING:
    import pyarrow as pa


class Messages:
    """A batch. Columns of attributes are given; those of derived terms are made when asked for."""

    def __init__(self, length: int, columns: Mapping[str, AnyColumn]) -> None:
        self.length, self.columns = length, columns
        self.derived: dict[Derived, AnyColumn] = {}

    def __len__(self) -> int:
        return self.length

    def column(self, term: Derived, lookups: Lookups) -> AnyColumn:
        if isinstance(term, Attribute):
            return self.attribute(term.name)
        if term not in self.derived:
            self.derived[term] = derive(term, self.attribute, self.length, lookups)
        return self.derived[term]

    def attribute(self, name: str) -> AnyColumn:
        return self.columns.get(name) or undefined(self.length)


class _Mappings(Messages):
    """Python mappings: an attribute is looked up in all of them when it is first asked for."""

    def __init__(
        self, messages: Sequence[Mapping[str, object]], semantics: Semantics, schema: Schema | None
    ) -> None:
        super().__init__(len(messages), {})
        self.finders = [finder(m, semantics, schema) for m in messages]
        self.known: dict[str, AnyColumn] = {}

    def attribute(self, name: str) -> AnyColumn:
        if name not in self.known:
            self.known[name] = from_values([find(name) for find in self.finders])
        return self.known[name]


def from_mappings(
    messages: Sequence[Mapping[str, object]], semantics: Semantics, schema: Schema | None
) -> Messages:
    return _Mappings(messages, semantics, schema)


def from_table(
    table: pa.Table | pa.RecordBatch,
    names: Sequence[str],
    semantics: Semantics,
    schema: Schema | None,
    first: int = 0,
) -> Messages:
    """Only the named columns are read; nested ones by dotted name. `first`: the number of row 0.

    A value that the schema (or 64 bits, or UTF-8) cannot hold is a MessageError naming its row.
    """
    from tamis.messages.columns import column_type, fit, flatten, normal

    roots = {name.split(".")[0] for name in names} | set(names)
    given = {n: _whole(table.column(n)) for n in table.schema.names if n in roots}
    misfits: dict[int, str] = {}
    columns: dict[str, AnyColumn] = {}
    for name, array in flatten(given, structs=True).items():
        if name not in names:
            continue
        if schema is not None and name in schema:
            kind: Type | None = schema[name].type
            array = fit(name, array, schema[name].type, misfits)
        else:
            kind = column_type(array.type)
            array = normal(name, array, misfits)
        columns[name] = from_arrow(array, kind)
    if misfits:
        row, reason = min(misfits.items())
        more = f" (and {len(misfits) - 1} more rows)" if len(misfits) > 1 else ""
        raise MessageError(f"row {first + row}: {reason}{more}")
    return Messages(table.num_rows, _complete(columns, table.num_rows, semantics, schema, first))


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _complete(
    columns: dict[str, AnyColumn],
    length: int,
    semantics: Semantics,
    schema: Schema | None,
    first: int,
) -> dict[str, AnyColumn]:
    """Fill in defaults; under total semantics, insist that nothing is missing."""
    if schema is None or semantics not in ("default", "total"):
        return columns
    for attribute in schema.attributes:
        column = columns.get(attribute.name) or undefined(length)
        assert isinstance(column, Column)
        if column.valid.all() and length:
            continue
        if semantics == "total":
            if length:
                row = int(np.flatnonzero(~column.valid)[0])
                raise MessageError(
                    f"row {first + row} does not define {attribute.name}: "
                    "total semantics needs every attribute"
                )
        elif attribute.default is not None:
            columns[attribute.name] = _filled(column, attribute.default, attribute.type)
    return columns


def _filled(column: Column, default: object, kind: Type) -> Column:
    whole = constant(default, kind, len(column))
    if column.type is None:
        return whole
    if kind is Type.STRING:
        texts = [*column.texts, str(default)]
        data = np.where(column.valid, column.data, len(texts) - 1).astype(np.int32)
        return Column(kind, whole.valid, data, texts)
    return Column(kind, whole.valid, np.where(column.valid, column.data, whole.data))
