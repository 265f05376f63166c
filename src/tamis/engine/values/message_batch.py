"""Batches of messages, as columns on demand: each term is computed once per batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tamis.engine.values.column_texts import Words
from tamis.engine.values.derive import derive
from tamis.engine.values.plain_columns import MANY, PlainColumns
from tamis.engine.values.typed_columns import (
    AnyColumn,
    Column,
    constant,
    containers_from_arrow,
    from_arrow,
    undefined,
)
from tamis.errors import InputError, MessageError
from tamis.language.tree import Attribute as Name
from tamis.logic import Derived, Lookups, Semantics
from tamis.messages.lists_and_maps import fit_attribute, shape_of, with_values
from tamis.messages.value_columns import column_type, flatten, normal
from tamis.schema import Attribute, Schema, Shape, Type

if TYPE_CHECKING:
    import pyarrow as pa


class Messages:
    """A batch. Columns of attributes are given; those of derived terms are made when asked for."""

    def __init__(
        self, length: int, columns: dict[str, AnyColumn], plain: PlainColumns | None = None
    ) -> None:
        self.length, self.columns, self.plain = length, columns, plain
        self.derived: dict[Derived, AnyColumn] = {}

    def __len__(self) -> int:
        return self.length

    def column(self, term: Derived, lookups: Lookups) -> AnyColumn:
        if isinstance(term, Name):
            return self.attribute(term.name)
        if term not in self.derived:
            self.derived[term] = derive(term, self.attribute, self.length, lookups)
        return self.derived[term]

    def has(self, name: str) -> bool:
        return name in self.columns or (self.plain is not None and name in self.plain)

    def attribute(self, name: str) -> AnyColumn:
        if self.plain is not None and name in self.plain and name not in self.columns:
            self.columns[name] = self.plain.column(name)
        return self.columns.get(name) or undefined(self.length)


def roots(names: Sequence[str]) -> set[str]:
    """The columns in which attributes of these names may be found: nested ones have dots."""
    return {name.split(".")[0] for name in names} | set(names)


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
    asked = set(names)
    wanted = roots(names)
    held = [(i, n) for i, n in enumerate(table.schema.names) if n in wanted]
    given = dict(_whole(table, held))
    if len(given) != len(held):
        found = [n for _, n in held]
        twice = next(n for n in found if found.count(n) > 1)
        raise InputError(f"the table has two columns {twice!r}: rename one of them")
    misfits: dict[int, str] = {}
    columns: dict[str, AnyColumn] = {}
    plain = None
    if schema is None or semantics in ("sql", "strict"):
        plain = _plain(table, {n: a for n, a in given.items() if n in asked}, schema)
    known = plain.arrays if plain is not None else {}
    rest = {n: a for n, a in given.items() if n not in known}
    for name, array in flatten(rest, structs=True).items():
        if name not in asked or name in known:
            continue
        own = schema[name] if schema is not None and name in schema else None
        columns[name] = _column(name, array, own, misfits)
    if misfits:
        row, reason = min(misfits.items())
        more = f" (and {len(misfits) - 1} more rows)" if len(misfits) > 1 else ""
        raise MessageError(f"row {first + row}: {reason}{more}")
    columns = _complete(columns, table.num_rows, semantics, schema, first)
    return Messages(table.num_rows, columns, plain)


def _plain(
    table: pa.Table | pa.RecordBatch, given: dict[str, pa.Array], schema: Schema | None
) -> PlainColumns | None:
    """Columns that are read all at once, where there are many."""
    import pyarrow as pa

    if len(given) < MANY or not table.num_rows:
        return None
    try:
        table.validate()
    except pa.ArrowInvalid:  # it will be told which
        return None
    return PlainColumns.of(given, table.num_rows, schema)


def _column(
    name: str, array: pa.Array, own: Attribute | None, misfits: dict[int, str]
) -> AnyColumn:
    """One column, as the schema wants it if that names it."""
    shape = own.shape if own is not None else shape_of(array.type)
    if own is not None:
        array = fit_attribute(name, array, own, misfits)
    elif shape is Shape.SCALAR:
        array = normal(name, array, misfits)
    else:
        array = with_values(name, array, None, misfits)
    if shape is not Shape.SCALAR:
        return containers_from_arrow(array, shape)
    return from_arrow(array, column_type(array.type) if own is None else own.type)


def _whole(
    table: pa.Table | pa.RecordBatch, held: list[tuple[int, str]]
) -> Iterator[tuple[str, pa.Array]]:
    """These columns in one piece. Those of a batch are at hand; a table makes each a list first."""
    import pyarrow as pa

    pieces = table.to_batches() if isinstance(table, pa.Table) else [table]
    for i, name in held:
        yield name, pieces[0].column(i) if len(pieces) == 1 else table.column(i).combine_chunks()


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
            columns[attribute.name] = filled(column, attribute.default, attribute.type)
    return columns


def filled(column: Column, default: object, kind: Type) -> Column:
    """The column with the default where it is undefined."""
    whole = constant(default, kind, len(column))
    if column.type is None:
        return whole
    if kind is Type.STRING:
        texts = Words([*column.texts, str(default)])
        data = np.where(column.valid, column.data, len(texts) - 1).astype(np.int32)
        return Column(kind, whole.valid, data, texts)
    return Column(kind, whole.valid, np.where(column.valid, column.data, whole.data))
