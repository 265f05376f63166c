"""One term's values in a batch: typed, with what is undefined marked."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tamis.engine.strings import Table, find
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


class Texts(Column):
    """Strings as Arrow holds them; codes and texts are made where they are asked for."""

    __slots__ = ("_coded", "array")
    array: pa.Array
    _coded: tuple[npt.NDArray[Any], Sequence[str]] | None

    def __init__(self, array: pa.Array, valid: Mask) -> None:
        set_ = object.__setattr__
        set_(self, "type", Type.STRING)
        set_(self, "valid", valid)
        set_(self, "array", array)
        set_(self, "_coded", None)

    @property
    def data(self) -> npt.NDArray[Any]:
        return self._codes()[0]

    @property
    def texts(self) -> Sequence[str]:
        return self._codes()[1]

    def _codes(self) -> tuple[npt.NDArray[Any], Sequence[str]]:
        if self._coded is None:
            import pyarrow as pa
            import pyarrow.compute as pc

            coded = self.array.dictionary_encode()
            codes = pc.fill_null(coded.indices, 0).cast(pa.int32()).to_numpy(zero_copy_only=False)
            object.__setattr__(self, "_coded", (codes, coded.dictionary.to_pylist() or [""]))
        assert self._coded is not None
        return self._coded

    def find(self, table: Table) -> npt.NDArray[np.int32]:
        """Which string of the table each value is, -1 where it is none."""
        _, offsets, data = self.array.buffers()
        begin, length = self.array.offset, len(self.array)
        found = np.empty(length, np.int32)
        if not length:
            return found
        bounds = np.frombuffer(offsets, np.int32)[begin : begin + length + 1]
        held = np.frombuffer(data or b"", np.uint8)
        bounds.flags.writeable = held.flags.writeable = False  # kernels are compiled for that
        find(held, bounds, self.valid, table, found)
        return found


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
        return Texts(array, valid)
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
