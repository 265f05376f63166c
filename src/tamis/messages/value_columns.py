"""Arrow columns of any type as columns of the five types of Tamis.

A value that cannot be held exactly makes its row a misfit; it never changes
silently, and it never stops the rows beside it.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.errors import InputError, MessageError
from tamis.messages.typed_tables import arrow_type
from tamis.schema import INT_MAX, Type, moment

if TYPE_CHECKING:
    import pyarrow as pa

Misfits = dict[int, str]
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST = int((datetime.datetime.min - _EPOCH).total_seconds())
_LAST = int((datetime.datetime(9999, 12, 31) - _EPOCH).total_seconds()) + 86_400
_EXACT_DIGITS = 15  # every decimal of so many digits survives the way to a double and back


@functools.lru_cache(maxsize=512)  # tables may have hundreds of columns, of few types
def column_type(found: pa.DataType) -> Type | None:
    """The type that Tamis gives to a column of Arrow type `found`; None if it has none for it."""
    import pyarrow as pa

    t = pa.types
    if t.is_dictionary(found) or t.is_run_end_encoded(found):
        return column_type(found.value_type)
    if isinstance(found, pa.BaseExtensionType):
        return column_type(found.storage_type)
    if t.is_boolean(found):
        return Type.BOOL
    if t.is_integer(found):
        return Type.INT
    if t.is_floating(found) or t.is_decimal(found):
        return Type.DOUBLE
    if t.is_string(found) or t.is_large_string(found) or t.is_string_view(found):
        return Type.STRING
    return Type.TIMESTAMP if t.is_timestamp(found) or t.is_date(found) else None


def flatten(columns: dict[str, pa.Array], *, structs: bool = False) -> dict[str, pa.Array]:
    """The columns by dotted name: a struct gives way to its fields, or (`structs`) has a name too.

    As in any message the exact name wins, and dots inside the name of a struct or of its field
    are not nesting: such fields cannot be reached and are left out.
    """
    import pyarrow as pa

    nested = {n: c for n, c in columns.items() if pa.types.is_struct(c.type)}
    flat = {n: c for n, c in columns.items() if structs or n not in nested}
    for name, column in columns.items():
        if "." not in name and name not in nested and _holds_structs(column.type):
            from tamis.messages.lists_and_maps import fields_of

            for field, inner in fields_of(column):
                if "." not in field:
                    flat.setdefault(f"{name}.{field}", inner)
    for name, column in nested.items():
        if "." not in name:
            for path, inner in _inside(name, column):
                if structs or not pa.types.is_struct(inner.type):
                    flat.setdefault(path, inner)
    return flat


def _holds_structs(found: pa.DataType) -> bool:
    """Whether these are lists of structs."""
    import pyarrow as pa

    is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
    return bool(is_list and pa.types.is_struct(found.value_type))


def _inside(name: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The fields of a struct, and theirs."""
    import pyarrow as pa

    for field, inner in zip(column.type, column.flatten(), strict=True):
        if "." not in field.name:
            path = f"{name}.{field.name}"
            yield path, inner
            if pa.types.is_struct(inner.type):
                yield from _inside(path, inner)


def normal(name: str, column: pa.Array, misfits: Misfits) -> pa.Array:
    """The column in Tamis's type; a column of another type as it is."""
    import pyarrow as pa

    kind = column_type(column.type)
    if kind is None:
        return column
    if _is_plain(column.type):
        return _NORMAL[kind](name, column, misfits)
    if isinstance(column, pa.ExtensionArray):
        return normal(name, column.storage, misfits)
    if pa.types.is_run_end_encoded(column.type):
        import pyarrow.compute as pc

        return normal(name, pc.run_end_decode(column), misfits)
    return normal(name, column.dictionary_decode(), misfits)


@functools.lru_cache(maxsize=512)
def _is_plain(found: pa.DataType) -> bool:
    """Whether values stand there as they are: no extension, no dictionary, no runs."""
    import pyarrow as pa

    wrapped = isinstance(found, pa.BaseExtensionType) or pa.types.is_dictionary(found)
    return not wrapped and not pa.types.is_run_end_encoded(found)


def fit(name: str, column: pa.Array, kind: Type, misfits: Misfits) -> pa.Array:
    """The column as the schema's type `kind`."""
    import pyarrow as pa

    found = column_type(column.type)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), arrow_type(kind))
    if found is Type.STRING and kind is Type.TIMESTAMP:
        return _moments(name, normal(name, column, misfits), misfits)
    if found is None or not found.like(kind):
        raise InputError(f"column {name} is of type {column.type}, the schema says {kind.value}")
    values = normal(name, column, misfits)
    if found is kind:
        return values
    if kind is Type.DOUBLE:
        return values.cast(pa.float64(), safe=False)
    return _whole(name, values, misfits)


def _moments(name: str, texts: pa.Array, misfits: Misfits) -> pa.Array:
    """ISO 8601 texts as timestamps. Arrow reads the usual forms, all of one kind; of others each
    different text is read by itself."""
    import pyarrow as pa

    for zone in (None, "UTC"):
        with contextlib.suppress(pa.ArrowInvalid):
            return _timestamps(name, texts.cast(pa.timestamp("us", zone)), misfits)
    coded = texts.dictionary_encode()
    found: list[datetime.datetime | None] = []
    reasons: dict[int, str] = {}
    for number, text in enumerate(coded.dictionary.to_pylist()):
        try:
            found.append(moment(name, text))
        except MessageError as error:
            found.append(None)
            reasons[number] = str(error)
    for row, number in enumerate(coded.indices.to_pylist() if reasons else ()):
        if number in reasons:
            misfits.setdefault(row, reasons[number])
    return pa.array(found, arrow_type(Type.TIMESTAMP)).take(coded.indices)


def _whole(name: str, column: pa.Array, misfits: Misfits) -> pa.Array:
    """Doubles as ints, where they are whole numbers of 64 bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    inside = pc.and_(pc.greater_equal(column, -(2.0**63)), pc.less(column, 2.0**63))
    good = pc.and_(inside, pc.equal(pc.floor(column), column))
    column = _masked(name, column, good, "is not of type int", misfits)
    return column.cast(pa.int64())


def _bools(name: str, column: pa.Array, misfits: Misfits) -> pa.Array:
    return column


def _ints(name: str, column: pa.Array, misfits: Misfits) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_uint64(column.type):
        good = pc.less_equal(column, pa.scalar(INT_MAX, pa.uint64()))
        column = _masked(name, column, good, "does not fit into 64 bits", misfits)
    return column.cast(pa.int64())


def _doubles(name: str, column: pa.Array, misfits: Misfits) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_decimal(column.type):
        return _decimals(name, column, misfits)
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64())
    if not column.null_count and not np.isnan(column.to_numpy()).any():
        return column
    nan = pc.is_nan(column)
    return pc.if_else(nan, None, column) if pc.any(nan).as_py() else column


def _decimals(name: str, column: pa.Array, misfits: Misfits) -> pa.Array:
    """Decimals as the nearest doubles, where reading these back gives the same decimals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    doubles = column.cast(pa.string()).cast(pa.float64())  # rounds correctly, unlike a direct cast
    largest = pc.max(pc.abs(doubles)).as_py() or 0.0
    if largest * 10.0**column.type.scale < 10**_EXACT_DIGITS:
        return doubles
    good = [d is None or Decimal(repr(float(d))) == d for d in column.to_pylist()]
    return _masked(name, doubles, pa.array(good), "has more digits than a double", misfits, column)


def _strings(name: str, column: pa.Array, misfits: Misfits) -> pa.Array:
    import pyarrow as pa

    try:
        if _plain_texts(column):
            return column
        column.validate(full=True)
        return column.cast(pa.string())
    except (pa.ArrowInvalid, UnicodeDecodeError):
        bytes_ = column.cast(pa.large_binary())
    try:
        bytes_.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InputError(f"column {name} is broken: {error}") from None
    raw = bytes_.to_pylist()
    for i, value in enumerate(raw):
        if not _is_text(value):
            misfits.setdefault(i, f"{name} holds invalid UTF-8")
            raw[i] = None
    return pa.array(raw, pa.binary()).cast(pa.string())


def _plain_texts(column: pa.Array) -> bool:
    """Whether these are strings of ASCII alone, well laid out: a look at all bytes at once."""
    import pyarrow as pa

    if not pa.types.is_string(column.type) or not len(column):
        return False
    column.validate()
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    if not (bounds[:-1] <= bounds[1:]).all():
        return False
    held = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    return int(held.max(initial=0)) < 128


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _timestamps(name: str, column: pa.Array, misfits: Misfits) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date32(column.type):
        column = _seconds(column)
    elif pa.types.is_date64(column.type):
        column = column.cast(pa.timestamp("ms"))
    unit = _UNITS[column.type.unit]
    moments = column.cast(pa.int64())
    if unit != _UNITS["ns"]:  # 64 bits of nanoseconds end in the year 2262
        inside = pc.and_(pc.greater_equal(moments, _FIRST * unit), pc.less(moments, _LAST * unit))
        moments = _masked(name, moments, inside, "is outside the years 1 to 9999", misfits)
        moments = pc.multiply(moments, _UNITS["us"] // unit)
    else:
        # Down to the microsecond, also before 1970, where division would round up.
        moments = pc.divide(pc.subtract(moments, _remainder(moments, 1000)), 1000)
    return moments.cast(pa.timestamp("us", "UTC"))


def _seconds(dates: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    days = dates.cast(pa.int32()).cast(pa.int64())
    return pc.multiply(days, 86_400).cast(pa.timestamp("s"))


def _remainder(values: pa.Array, divisor: int) -> pa.Array:
    import pyarrow as pa

    mask = values.is_null()
    return pa.array(
        values.fill_null(0).to_numpy(zero_copy_only=False) % divisor, mask=mask.to_numpy(False)
    )


def _masked(
    name: str, column: pa.Array, good: pa.Array, what: str, misfits: Misfits, shown: Any = None
) -> pa.Array:
    """The column with null where it is not good; these rows become misfits."""
    import pyarrow.compute as pc

    bad = pc.invert(pc.fill_null(good, True))
    if not pc.any(bad).as_py():
        return column
    for i in pc.indices_nonzero(bad).to_pylist():
        misfits.setdefault(i, f"{name} = {_value((column if shown is None else shown)[i])} {what}")
    return pc.if_else(bad, None, column)


def _value(scalar: Any) -> str:
    try:
        return str(scalar.as_py())
    except (ValueError, OverflowError):  # a timestamp that Python cannot hold
        return str(scalar.value)


_NORMAL = {
    Type.BOOL: _bools,
    Type.INT: _ints,
    Type.DOUBLE: _doubles,
    Type.STRING: _strings,
    Type.TIMESTAMP: _timestamps,
}
