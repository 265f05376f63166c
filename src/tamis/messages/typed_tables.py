"""Rows of Python values as typed columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tamis.errors import MessageError
from tamis.messages.message_values import lookup
from tamis.schema import Attribute, Schema, Shape, Type

if TYPE_CHECKING:
    import pyarrow as pa

Convert = Callable[[Schema, str, Any], Any]

# Columns of these Python types need no look at the single values.
_PLAIN: dict[Type, frozenset[type]] = {
    Type.INT: frozenset({int, type(None)}),
    Type.DOUBLE: frozenset({float, int, type(None)}),
    Type.STRING: frozenset({str, type(None)}),
    Type.BOOL: frozenset({bool, type(None)}),
    Type.TIMESTAMP: frozenset({type(None)}),
}


def arrow_type(kind: Type) -> pa.DataType:
    import pyarrow as pa

    return {
        Type.INT: pa.int64(),
        Type.DOUBLE: pa.float64(),
        Type.STRING: pa.string(),
        Type.BOOL: pa.bool_(),
        Type.TIMESTAMP: pa.timestamp("us", "UTC"),
    }[kind]


def arrow_type_of(attribute: Attribute) -> pa.DataType:
    """The type of the attribute's columns."""
    import pyarrow as pa

    kind = arrow_type(attribute.type)
    if attribute.shape is Shape.MAP:
        return pa.map_(pa.string(), kind)
    return pa.list_(kind) if attribute.shape is Shape.LIST else kind


def to_batch(
    rows: Sequence[Mapping[str, Any]], schema: Schema, names: Sequence[str], convert: Convert
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """One column per name, and for each row that does not fit the reason why.

    The misfits are rows of the batch too, with nulls where they did not fit.
    """
    misfits: dict[int, str] = {}
    columns = [_column(rows, schema, name, convert, misfits) for name in names]
    return record_batch(names, columns, len(rows)), misfits


def record_batch(names: Sequence[str], columns: Sequence[pa.Array], rows: int) -> pa.RecordBatch:
    """A record batch that keeps its number of rows even without columns."""
    import pyarrow as pa

    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def take(batch: pa.RecordBatch, rows: Sequence[int]) -> pa.RecordBatch:
    import pyarrow as pa

    if not batch.num_columns:
        return record_batch([], [], len(rows))
    return batch.take(pa.array(rows, pa.int64()))


def _column(
    rows: Sequence[Mapping[str, Any]],
    schema: Schema,
    name: str,
    convert: Convert,
    misfits: dict[int, str],
) -> pa.Array:
    import pyarrow as pa

    own = schema[name]
    kind = own.type
    alone = Schema((schema[name],))  # looking a name up in a schema takes as long as it is wide
    if "." in name:
        values = [_found(row, name, i, misfits) for i, row in enumerate(rows)]
    else:
        values = [row.get(name) for row in rows]
    if own.shape is Shape.SCALAR and set(map(type, values)) <= _PLAIN[kind]:
        try:
            if kind is Type.DOUBLE:
                values = [None if v is None else float(v) for v in values]
            return pa.array(values, arrow_type(kind), from_pandas=True)  # NaN becomes null
        except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
            pass  # some value does not fit: find out which
    fitting = [_fitting(alone, name, v, i, convert, misfits) for i, v in enumerate(values)]
    if own.shape is Shape.MAP:
        fitting = [None if v is None else list(v.items()) for v in fitting]
    return pa.array(fitting, arrow_type_of(own), from_pandas=True)


def _found(row: Mapping[str, Any], name: str, i: int, misfits: dict[int, str]) -> Any:
    try:
        return lookup(row, name)
    except MessageError as error:
        misfits.setdefault(i, str(error))
        return None


def _fitting(
    schema: Schema, name: str, value: Any, i: int, convert: Convert, misfits: dict[int, str]
) -> Any:
    if value is None:
        return None
    try:
        return convert(schema, name, value)
    except MessageError as error:
        misfits.setdefault(i, str(error))
        return None
