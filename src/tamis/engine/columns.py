"""One term's values in a batch: typed, with what is undefined marked."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tamis.logic.atoms import plain
from tamis.schema import Type, type_of

if TYPE_CHECKING:
    import pyarrow as pa

Mask = npt.NDArray[np.bool_]
_OTHER = object()  # a value of a type that is none of ours


@dataclass(frozen=True, slots=True)
class Column:
    """Values of one type. Strings are codes into `texts`; timestamps are microseconds.

    `type` None: values that compare with nothing (`valid` still says where there is one).
    """

    type: Type | None
    valid: Mask
    data: npt.NDArray[Any]
    texts: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.valid)


@dataclass(frozen=True, slots=True)
class Mixed:
    """Values of several types, as Python objects; None is undefined."""

    values: list[object]

    def __len__(self) -> int:
        return len(self.values)


AnyColumn = Column | Mixed


def undefined(length: int) -> Column:
    return Column(None, np.zeros(length, bool), np.zeros(length, np.int64))


def constant(value: Any, kind: Type, length: int) -> Column:
    valid = np.ones(length, bool)
    if kind is Type.STRING:
        return Column(kind, valid, np.zeros(length, np.int32), [value])
    dtype = np.float64 if kind is Type.DOUBLE else np.int64
    return Column(kind, valid, np.full(length, plain(value), dtype))


def from_arrow(array: pa.Array, kind: Type | None) -> Column:
    """A column of Tamis's own Arrow types (see messages.columns) as numpy arrays."""
    import pyarrow as pa
    import pyarrow.compute as pc

    valid = np.ones(len(array), bool)
    if array.null_count:
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
    if kind is None:
        return Column(None, valid, np.zeros(len(array), np.int64))
    if kind is Type.STRING:
        coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        codes = pc.fill_null(coded.indices, 0).cast(pa.int32()).to_numpy(zero_copy_only=False)
        return Column(kind, valid, codes, coded.dictionary.to_pylist() or [""])
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0).cast(array.type))
    if kind is Type.BOOL:
        array = array.cast(pa.int8())
    data = array.to_numpy(zero_copy_only=False)
    if kind is Type.TIMESTAMP:
        data = data.astype("datetime64[us]").view(np.int64)
    elif kind is not Type.DOUBLE:
        data = data.astype(np.int64, copy=False)
    else:
        nan = np.isnan(data)
        if nan.any():
            valid = valid & ~nan
            data = np.where(nan, 0.0, data)
    return Column(kind, valid, data)


def from_values(values: list[object]) -> AnyColumn:
    """Python values (None: undefined) as a typed column where they are all of one type."""
    kinds = {type_of(v) for v in values if v is not None}
    if len(kinds) > 1 or kinds == {None}:
        return Mixed(values)
    valid = np.array([v is not None for v in values], bool)
    if not kinds:
        return undefined(len(values))
    kind = kinds.pop()
    if kind is Type.STRING:
        number: dict[Any, int] = {}
        codes = [0 if v is None else number.setdefault(v, len(number)) for v in values]
        return Column(kind, valid, np.array(codes, np.int32), list(number))
    dtype = np.float64 if kind is Type.DOUBLE else np.int64
    return Column(kind, valid, np.array([0 if v is None else plain(v) for v in values], dtype))


def to_values(column: AnyColumn) -> list[object]:
    """The values as Python objects."""
    if isinstance(column, Mixed):
        return column.values
    shown = _SHOWN.get(column.type, _same)
    data = (
        [column.texts[c] for c in column.data.tolist()]
        if column.type is Type.STRING
        else column.data.tolist()
    )
    return [shown(d) if v else None for d, v in zip(data, column.valid.tolist(), strict=True)]


def _same(data: Any) -> object:
    return data


def _moment(microseconds: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=microseconds)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SHOWN: dict[Type | None, Callable[[Any], object]] = {
    Type.BOOL: bool,
    Type.TIMESTAMP: _moment,
    None: lambda data: _OTHER,
}
