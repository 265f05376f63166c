"""One term's values in a batch: typed, with what is undefined marked."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tamis.engine.lookup.string_table import Table, find
from tamis.engine.values.column_texts import NO_WORDS, Words
from tamis.logic.atoms import plain
from tamis.schema import Shape, Type, type_of

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
    texts: Words = NO_WORDS

    def __len__(self) -> int:
        return len(self.valid)

    def whole(self) -> bool:
        """Whether all values are defined."""
        return self.valid is all_valid(len(self.valid)) or bool(self.valid.all())


class Texts(Column):
    """Strings as Arrow holds them; codes and texts are made where they are asked for."""

    __slots__ = ("_coded", "array")
    array: pa.Array
    _coded: tuple[npt.NDArray[Any], Words] | None

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
    def texts(self) -> Words:
        return self._codes()[1]

    def _codes(self) -> tuple[npt.NDArray[Any], Words]:
        if self._coded is None:
            import pyarrow as pa
            import pyarrow.compute as pc

            coded = self.array.dictionary_encode()
            codes = pc.fill_null(coded.indices, 0).cast(pa.int32()).to_numpy(zero_copy_only=False)
            object.__setattr__(self, "_coded", (codes, Words.of_arrow(coded.dictionary)))
        assert self._coded is not None
        return self._coded

    def find(self, table: Table) -> npt.NDArray[np.int32]:
        """Which string of the table each value is, -1 where it is none."""
        _, offsets, data = self.array.buffers()
        begin, length = self.array.offset, len(self.array)
        found = np.empty(length, np.int32)
        if not length:
            return found
        held = (0, 0) if data is None else (data.address, data.size)
        column = np.array((0, 0, offsets.address + 4 * begin, *held), np.int64)
        find(column, table.at, self.valid, found)
        return found


@dataclass(frozen=True, slots=True)
class Lists(Column):
    """Lists: those of row i are the elements from offsets[i] to offsets[i + 1].

    A value that is no list is one element of no type.
    """

    offsets: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    elements: AnyColumn = field(default_factory=lambda: undefined(0))
    plain: Mask | None = None  # where something is no list; None: nowhere

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The row of each element."""
        return np.repeat(np.arange(len(self.valid)), np.diff(self.offsets))


@dataclass(frozen=True, slots=True)
class Maps(Column):
    """Maps from texts: those of row i are the entries from offsets[i] to offsets[i + 1]."""

    offsets: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: Words = NO_WORDS
    key: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int32))
    values: AnyColumn = field(default_factory=lambda: undefined(0))


@dataclass(frozen=True, slots=True)
class Mixed:
    """Values of several types, as Python objects; None is undefined."""

    values: list[object]

    def __len__(self) -> int:
        return len(self.values)


AnyColumn = Column | Mixed


@lru_cache(maxsize=4)
def all_valid(length: int) -> Mask:
    """Marks of values that are all defined. Columns share them: nobody writes to them."""
    return np.ones(length, bool)


def undefined(length: int) -> Column:
    return Column(None, np.zeros(length, bool), np.zeros(length, np.int64))


def constant(value: Any, kind: Type, length: int) -> Column:
    valid = np.ones(length, bool)
    if kind is Type.STRING:
        return Column(kind, valid, np.zeros(length, np.int32), Words([value]))
    dtype = np.float64 if kind is Type.DOUBLE else np.int64
    return Column(kind, valid, np.full(length, plain(value), dtype))


def from_arrow(array: pa.Array, kind: Type | None) -> Column:
    """A column of Tamis's own Arrow types (see messages.columns: NaN is null) as numpy arrays."""
    import pyarrow as pa
    import pyarrow.compute as pc

    valid = all_valid(len(array))
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
    return Column(kind, valid, data)


def containers_from_arrow(array: pa.Array, shape: Shape) -> Lists | Maps:
    """Lists or maps that messages.containers made."""
    from tamis.messages.value_columns import column_type

    valid = ~array.is_null().to_numpy(zero_copy_only=False)
    offsets = array.offsets.to_numpy().astype(np.int64)
    nothing = np.zeros(len(array), np.int64)
    if shape is Shape.LIST:
        elements = from_arrow(array.values, column_type(array.values.type))
        return Lists(None, valid, nothing, NO_WORDS, offsets, elements)
    named = from_arrow(array.keys, Type.STRING)
    known = from_arrow(array.items, column_type(array.items.type))
    return Maps(None, valid, nothing, NO_WORDS, offsets, named.texts, named.data, known)


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
        return Column(kind, valid, np.array(codes, np.int32), Words(list(number)))
    dtype = np.float64 if kind is Type.DOUBLE else np.int64
    return Column(kind, valid, np.array([0 if v is None else plain(v) for v in values], dtype))


def lists_of(column: AnyColumn) -> Lists:
    """The column as lists, whatever it holds."""
    if isinstance(column, Lists):
        return column
    held: list[object] = to_values(column)
    flat: list[object] = []
    offsets = np.zeros(len(held) + 1, np.int64)
    for i, one in enumerate(held):
        if isinstance(one, list):
            flat += one
        elif one is not None:
            flat.append(_OTHER)
        offsets[i + 1] = len(flat)
    valid = np.array([one is not None for one in held], bool)
    plain = np.array([one is not None and not isinstance(one, list) for one in held], bool)
    nothing = np.zeros(len(held), np.int64)
    return Lists(None, valid, nothing, NO_WORDS, offsets, from_values(flat), plain)


def maps_of(column: AnyColumn) -> Maps:
    """Python mappings from texts as maps; what is none is an empty one."""
    held: list[object] = to_values(column)
    number: dict[str, int] = {}
    keys: list[int] = []
    flat: list[object] = []
    offsets = np.zeros(len(held) + 1, np.int64)
    for i, one in enumerate(held):
        if isinstance(one, dict):
            keys += [number.setdefault(key, len(number)) for key in one]
            flat += one.values()
        offsets[i + 1] = len(flat)
    valid, nothing = np.array([one is not None for one in held], bool), np.zeros(len(held))
    key = np.array(keys, np.int32)
    return Maps(
        None, valid, nothing, NO_WORDS, offsets, Words(list(number)), key, from_values(flat)
    )


def taken(column: AnyColumn, rows: npt.NDArray[np.int64]) -> AnyColumn:
    """The values of these rows."""
    if isinstance(column, Mixed):
        return Mixed([column.values[i] for i in rows.tolist()])
    return Column(column.type, column.valid[rows], column.data[rows], column.texts)


def to_values(column: AnyColumn) -> list[object]:
    """The values as Python objects."""
    if isinstance(column, Mixed):
        return column.values
    if isinstance(column, Lists):
        return _as_lists(column)
    if isinstance(column, Maps):
        return _as_maps(column)
    shown = _SHOWN.get(column.type, _same)
    data = (
        [column.texts[c] for c in column.data.tolist()]
        if column.type is Type.STRING
        else column.data.tolist()
    )
    return [shown(d) if v else None for d, v in zip(data, column.valid.tolist(), strict=True)]


def _as_lists(column: Lists) -> list[object]:
    flat, bounds = to_values(column.elements), column.offsets.tolist()
    found: list[object] = []
    for i, there in enumerate(column.valid.tolist()):
        no_list = column.plain is not None and column.plain[i]
        own = flat[bounds[i] : bounds[i + 1]]
        found.append(None if not there else own[0] if no_list else own)
    return found


def _as_maps(column: Maps) -> list[object]:
    names, values, bounds = column.keys, to_values(column.values), column.offsets.tolist()
    keys = [names[k] for k in column.key.tolist()]
    pairs = list(zip(keys, values, strict=True))
    return [
        dict(pairs[bounds[i] : bounds[i + 1]]) if there else None
        for i, there in enumerate(column.valid.tolist())
    ]


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
