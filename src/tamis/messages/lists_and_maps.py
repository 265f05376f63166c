"""Arrow columns that hold lists and maps, with values of Tamis's own types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tamis.errors import InputError
from tamis.messages.typed_tables import arrow_type_of
from tamis.messages.value_columns import Misfits, column_type, fit, normal
from tamis.schema import Attribute, Shape, Type

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = npt.NDArray[np.int64]


def shape_of(found: pa.DataType) -> Shape:
    """Whether a column of this type holds lists, maps from texts, or neither."""
    import pyarrow as pa

    t = pa.types
    if t.is_map(found):
        return Shape.MAP if column_type(found.key_type) is Type.STRING else Shape.SCALAR
    is_list = t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found)
    return Shape.LIST if is_list else Shape.SCALAR


def values_type(found: pa.DataType) -> Type | None:
    """The type of what stands in such lists or maps; None if Tamis has none for it."""
    inner = found.item_type if shape_of(found) is Shape.MAP else found.value_type
    return column_type(inner)


def fit_attribute(name: str, column: pa.Array, own: Attribute, misfits: Misfits) -> pa.Array:
    """The column as the schema's attribute."""
    import pyarrow as pa

    if own.shape is Shape.SCALAR:
        return fit(name, column, own.type, misfits)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), arrow_type_of(own))
    if shape_of(column.type) is not own.shape:
        raise InputError(f"column {name} is of type {column.type}, the schema says {own.kind}")
    return with_values(name, column, own.type, misfits)


def with_values(name: str, column: pa.Array, kind: Type | None, misfits: Misfits) -> pa.Array:
    """Lists or maps with values of the type; of their own where that is None."""
    import pyarrow as pa

    a_map = shape_of(column.type) is Shape.MAP
    offsets, values = taken_apart(column)
    keys = None
    if a_map:
        keys, values = values.flatten()
        keys = normal(name, keys, {})
    bad: Misfits = {}
    made = normal(name, values, bad) if kind is None else fit(name, values, kind, bad)
    for at in sorted(bad):
        misfits.setdefault(int(np.searchsorted(offsets, at, side="right")) - 1, bad[at])
    mask = column.is_null() if column.null_count else None
    bounds = pa.array(offsets.astype(np.int32))
    if keys is None:
        return pa.ListArray.from_arrays(bounds, made, mask=mask)
    return pa.MapArray.from_arrays(bounds, keys, made, mask=mask)


def taken_apart(column: pa.Array) -> tuple[Offsets, pa.Array]:
    """Where the values of each row begin, and the values; those of a map are structs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_map(column.type):
        entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
        column = column.cast(pa.list_(entry))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, column.flatten()


def fields_of(column: pa.Array) -> list[tuple[str, pa.Array]]:
    """The fields of lists of structs, each as lists of its own."""
    import pyarrow as pa

    offsets, values = taken_apart(column)
    mask = column.is_null() if column.null_count else None
    bounds = pa.array(offsets.astype(np.int32))
    parts: Any = zip(values.type, values.flatten(), strict=True)
    return [(f.name, pa.ListArray.from_arrays(bounds, part, mask=mask)) for f, part in parts]
