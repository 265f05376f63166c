"""Batches of notifications: Arrow columns to packets, and packets to Arrow columns."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tamis.errors import WireError
from tamis.pubsub.subjects.channel import U32, ChannelAttribute
from tamis.pubsub.subjects.precision import on_grid
from tamis.pubsub.subjects.typecodes import FORMS, TypeCode
from tamis.pubsub.wire import packet_kernels as kernels
from tamis.pubsub.wire.codec import Codec
from tamis.schema import Type

if TYPE_CHECKING:
    import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
I8 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_FIXED = 20  # bytes before the subject
_WRONG = {
    kernels.SHORT: "it ends too early",
    kernels.FOREIGN: "it is for another channel",
    kernels.FIELDS: "its subject is none of a notification",
    kernels.PLACES: "it has more predefined attributes than the channel",
    kernels.PRESENT: "an attribute is present that is not there",
    kernels.ABSENT: "an attribute is absent and has a value",
    kernels.LENGTH: "its length is not that of what it holds",
}


@dataclass(frozen=True, slots=True)
class Packets:
    """Packets one behind the other: packet i is data[starts[i] : starts[i + 1]]."""

    data: Bytes
    starts: I8

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> bytes:
        return self.data[self.starts[i] : self.starts[i + 1]].tobytes()


@dataclass(frozen=True, slots=True)
class Notifications:
    """Notifications as columns. `more` has the discretionary attributes of rows that have some."""

    publisher: npt.NDArray[np.uint32]
    session: npt.NDArray[np.uint32]
    sequence: npt.NDArray[np.uint32]
    subject: pa.DictionaryArray
    attributes: pa.RecordBatch
    more: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sequence)


def arrow_type(code: TypeCode) -> pa.DataType:
    import pyarrow as pa

    if FORMS[code].type is Type.STRING:
        return pa.string()
    if code is TypeCode.TIMESTAMP:
        return pa.timestamp("us", "UTC")
    return {
        TypeCode.CHAR: pa.int8(),
        TypeCode.BOOL: pa.bool_(),
        TypeCode.SHORT: pa.int16(),
        TypeCode.USHORT: pa.uint16(),
        TypeCode.INT: pa.int32(),
        TypeCode.UINT: pa.uint32(),
        TypeCode.LONG: pa.int64(),
        TypeCode.FLOAT: pa.float32(),
        TypeCode.DOUBLE: pa.float64(),
    }[code]


# --- columns to packets ---------------------------------------------------------


def encode_columns(
    codec: Codec,
    batch: pa.RecordBatch | pa.Table,
    subject: str | pa.Array,
    *,
    publisher: int,
    session: int,
    sequence: int,
) -> Packets:
    """A notification for each row, numbered from `sequence` on.

    Columns have the names of predefined attributes; a missing column, a null and NaN are undefined.
    `subject` is one for all rows, or a column of them.
    """
    count, places = batch.num_rows, codec.channel.attributes
    if not 0 <= sequence <= U32 - count or not (0 <= publisher <= U32 and 0 <= session <= U32):
        raise WireError("publisher, session and sequence have 32 bits")
    fields, field_starts, numbers = _packed_subjects(codec, subject, count)
    columns = [_Column.of(batch, place, count) for place in places]
    masks = 4 + 4 * -(-len(places) // 32)
    offsets = _offsets(codec)
    before = _FIXED + np.diff(field_starts)[numbers]
    sizes = before + masks + offsets[-1]
    for column in columns:
        if column.sizes is not None:
            sizes += column.sizes + 3 & -4
    if count and int(sizes.max()) > codec.max_packet:
        raise WireError(f"row {int(sizes.argmax())} is longer than {codec.max_packet:,} bytes")
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    data = np.empty(int(starts[-1]), np.uint8)
    head = np.array([codec.channel.id, publisher, session], ">u4").view(np.uint8)
    kernels.put_heads(data, starts, head, sequence, fields, field_starts, numbers)
    _put_columns(data, starts[:-1] + before, masks, offsets, columns)
    return Packets(data, starts)


def _put_columns(data: Bytes, at: I8, masks: int, offsets: I8, columns: list[_Column]) -> None:
    kernels.put4(data, at, 0, np.full(len(at), len(columns) << 16, np.uint32))
    for first in range(0, len(columns), 32):
        mask = np.zeros(len(at), np.uint32)
        for i, column in enumerate(columns[first : first + 32]):
            there: Any = 1 if column.there is None else column.there.astype(np.uint32)
            mask |= np.uint32(1 << i) * there
        kernels.put4(data, at, 4 + 4 * (first // 32), mask)
    places = at + masks
    cursor = places + offsets[-1]
    for column, offset in zip(columns, offsets.tolist(), strict=False):
        put = kernels.put8 if column.bits.dtype == np.uint64 else kernels.put4
        put(data, places, offset, column.bits)
        if column.sizes is not None:
            kernels.put_texts(data, cursor, column.texts, column.text_starts, column.sizes)


def _offsets(codec: Codec) -> I8:
    """Where the place of each predefined attribute is, and where the last one ends."""
    sizes = [FORMS[place.type].size for place in codec.channel.attributes]
    return np.cumsum([0, *sizes], dtype=np.int64)


def _packed_subjects(codec: Codec, subject: str | pa.Array, count: int) -> tuple[Bytes, I8, I8]:
    """The fields of all subjects, where each starts, and which one each row has."""
    if isinstance(subject, str):
        subjects, numbers = [subject], np.zeros(count, np.int64)
    else:
        if len(subject) != count or subject.null_count:
            raise WireError("each row needs a subject")
        known = getattr(subject, "combine_chunks", lambda: subject)()
        known = known if hasattr(known, "indices") else known.dictionary_encode()
        subjects = known.dictionary.to_pylist()
        numbers = known.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    packed = [codec.packed_subject(one) for one in subjects]
    if any(one[4:6] == b"\0\0" for one in packed):
        raise WireError("notifications have no subject under #")
    starts = np.cumsum([0, *map(len, packed)], dtype=np.int64)
    return np.frombuffer(b"".join(packed) or b"\0", np.uint8), starts, numbers


@dataclass(slots=True)
class _Column:
    """An attribute of all rows: `bits` (uint32 or uint64) as they stand in packets, 0 if undefined.

    Of texts: `bits` are their sizes, and row i has texts[text_starts[i]:], sizes[i] bytes.
    """

    bits: npt.NDArray[Any]
    there: Bools | None  # None: everywhere
    sizes: I8 | None = None
    texts: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    text_starts: I8 = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, batch: pa.RecordBatch | pa.Table, place: ChannelAttribute, count: int) -> _Column:
        size = np.uint64 if FORMS[place.type].size == 8 else np.uint32
        if place.name not in batch.schema.names:
            return cls(np.zeros(count, size), np.zeros(count, np.bool_))
        array = _cast(batch.column(place.name), place)
        there = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
        if FORMS[place.type].type is Type.STRING:
            return cls._of_texts(array, there)
        return cls._of_numbers(array, there, place, size)

    @classmethod
    def _of_texts(cls, array: pa.Array, there: Bools | None) -> _Column:
        _, ends, texts = array.buffers()
        bounds = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1]
        sizes = np.diff(bounds).astype(np.int64)
        if there is not None:
            sizes[~there] = 0
        found = np.frombuffer(texts, np.uint8) if texts is not None else np.empty(0, np.uint8)
        return cls(sizes.astype(np.uint32), there, sizes, found, bounds[:-1].astype(np.int64))

    @classmethod
    def _of_numbers(
        cls, array: pa.Array, there: Bools | None, place: ChannelAttribute, size: type
    ) -> _Column:
        import pyarrow as pa

        if pa.types.is_boolean(array.type):
            array = array.cast(pa.uint8())
        elif pa.types.is_timestamp(array.type):
            array = array.cast(pa.int64())
        values = (array.fill_null(0) if there is not None else array).to_numpy()
        if FORMS[place.type].type is Type.DOUBLE:
            undefined = np.isnan(values)
            if undefined.any():
                there = ~undefined if there is None else there & ~undefined
                values = np.where(undefined, values.dtype.type(0), values)
            _check_decimals(values, place)
            bits = values.view(size)
        elif size is np.uint32:
            bits = values.astype(np.int32 if values.dtype.kind == "i" else np.uint32).view(size)
        else:
            bits = values.view(size)
        return cls(np.ascontiguousarray(bits), there)


def _cast(column: pa.Array | pa.ChunkedArray, place: ChannelAttribute) -> pa.Array:
    """The column in the type of the attribute. Nothing may be lost."""
    import pyarrow as pa

    wanted = arrow_type(place.type)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no chunk at all, or of several that are too large
        column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
    if column.type == wanted:
        return column
    kinds = (pa.types.is_boolean(column.type), pa.types.is_string(column.type))
    if kinds != (pa.types.is_boolean(wanted), pa.types.is_string(wanted)) and not (
        pa.types.is_string(wanted) and _textual(column.type)
    ):
        raise WireError(f"column {place.name} is {column.type}, and needs to be {wanted}")
    try:
        found = column.cast(wanted)
    except pa.ArrowException as error:
        raise WireError(f"column {place.name} does not fit {wanted}: {error}") from None
    if place.type is TypeCode.FLOAT and pa.types.is_float64(column.type):
        wide = found.fill_null(0).to_numpy().astype(np.float64)
        given = column.fill_null(0).to_numpy()
        if not np.array_equal(wide, given, equal_nan=True):
            raise WireError(f"column {place.name} has more than the 24 bits of a float32: round it")
    return found


def _textual(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_decimals(values: npt.NDArray[Any], place: ChannelAttribute) -> None:
    if place.decimals is None:
        return
    scale = 10.0**place.decimals
    with np.errstate(over="ignore", invalid="ignore"):
        odd = np.flatnonzero(np.rint(values * scale) / scale != values)
    for row in odd.tolist():  # mostly none; the large ones among them may be good
        if not on_grid(float(values[row]), place.decimals):
            said = f"the channel says {place.decimals} decimals"
            raise WireError(f"row {row}: {place.name} = {values[row]}: {said}")


# --- packets to columns ---------------------------------------------------------


def decode_columns(codec: Codec, data: bytes | Bytes) -> Notifications:
    """The notifications of whole packets; WireError names the first packet that is bad."""
    import pyarrow as pa

    raw = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
    starts = _frame(raw, codec.max_packet)
    count, offsets = len(starts) - 1, _offsets(codec)
    places = codec.channel.attributes
    text = np.array([FORMS[place.type].type is Type.STRING for place in places], np.bool_)
    at, more = np.empty(count, np.int64), np.empty(count, np.int64)
    present = np.empty((count, 2), np.uint64)
    bad, why = kernels.inspect(raw, starts, codec.channel.id, offsets, text, at, present, more)
    if bad >= 0:
        raise WireError(f"packet {bad}: {_WRONG[why]}", int(starts[bad]))
    cursor = np.empty(count, np.int64)
    kernels.places_of(raw, starts, cursor)
    kernels.text_ends(at, offsets, present, cursor)
    columns = [
        _column(raw, at, int(offsets[i]), present, i, place, cursor)
        for i, place in enumerate(places)
    ]
    schema = pa.schema([(place.name, arrow_type(place.type)) for place in places])
    attributes = pa.RecordBatch.from_arrays(columns, schema=schema)
    if not places:
        attributes = pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    publisher, session, sequence = (_header(raw, starts, i) for i in (8, 12, 16))
    subject, found = _subjects(codec, raw, starts), _more(codec, raw, starts, more)
    return Notifications(publisher, session, sequence, subject, attributes, found)


def _frame(raw: Bytes, most: int) -> I8:
    starts = np.empty(len(raw) // (kernels.HEADER + 4) + 2, np.int64)
    found = kernels.frame(raw, most, starts)
    if found < 0:
        raise WireError(
            f"packet {-1 - found} is cut off, or its length is none", int(starts[-1 - found])
        )
    return starts[: found + 1]


def _header(raw: Bytes, starts: I8, offset: int) -> npt.NDArray[np.uint32]:
    found = np.empty(len(starts) - 1, np.uint32)
    kernels.get4(raw, starts, offset, np.ones(len(found), np.bool_), found)
    return found


def _column(
    raw: Bytes, at: I8, offset: int, present: Any, i: int, place: ChannelAttribute, cursor: I8
) -> pa.Array:
    import pyarrow as pa

    count, form = len(at), FORMS[place.type]
    there = np.empty(count, np.bool_)
    missing = kernels.valid(present, i, there)
    bits: npt.NDArray[Any] = np.empty(count, np.uint64 if form.size == 8 else np.uint32)
    (kernels.get8 if form.size == 8 else kernels.get4)(raw, at, offset, there, bits)
    buffer = pa.array(there).buffers()[1] if missing else None
    if form.type is Type.STRING:
        return _texts(raw, bits, buffer, cursor, place.name)
    values = bits.view(
        {"i": np.int32, "I": np.uint32, "q": np.int64}.get(form.letter, f"f{form.size}")
    )
    _check_numbers(values, place)
    kind = arrow_type(place.type)
    if values.dtype != kind.to_pandas_dtype() and place.type is not TypeCode.TIMESTAMP:
        values = values.astype(kind.to_pandas_dtype())
    if place.type is TypeCode.BOOL:
        return pa.Array.from_buffers(kind, count, [buffer, pa.array(values).buffers()[1]])
    return pa.Array.from_buffers(kind, count, [buffer, pa.py_buffer(values)])


def _check_numbers(values: npt.NDArray[Any], place: ChannelAttribute) -> None:
    form = FORMS[place.type]
    if form.type is Type.DOUBLE:
        bad = np.isnan(values)
    elif form.type is Type.TIMESTAMP:
        bad = (values < _LEAST_TIME) | (values > _MOST_TIME)
    elif form.most < 2**31 - 1:  # fewer than 32 bits
        bad = (values < form.least) | (values > form.most)
    else:
        return
    if bad.any():
        row = int(bad.argmax())
        raise WireError(f"packet {row}: {place.name} = {values[row]} is no {form.toml}")
    if place.decimals is not None:
        _check_decimals(values, place)


_LEAST_TIME, _MOST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999


def _texts(raw: Bytes, sizes: Any, valid: pa.Buffer | None, cursor: I8, name: str) -> pa.Array:
    import pyarrow as pa

    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    if int(starts[-1]) >= 2**31:
        raise WireError(f"the texts of {name} have 2 GB and more: decode fewer packets at once")
    found = np.empty(int(starts[-1]), np.uint8)
    kernels.get_texts(raw, cursor, sizes, starts, found)
    buffers = [valid, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(found)]
    array = pa.Array.from_buffers(pa.string(), len(sizes), buffers)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise WireError(f"{name} is not UTF-8: {error}") from None
    return array


def _subjects(codec: Codec, raw: Bytes, starts: I8) -> pa.DictionaryArray:
    import pyarrow as pa

    count = len(starts) - 1
    table = np.full(1 << max(4, (2 * count).bit_length()), -1, np.int32)
    numbers, first = np.empty(count, np.int32), np.empty(count, np.int64)
    secret = secrets.randbelow(2**30) + 2**30
    found = kernels.number_subjects(raw, starts, secret, table, numbers, first)
    texts = [codec.subject_at(raw, int(starts[i])) for i in first[:found].tolist()]
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(texts, pa.string()))


def _more(codec: Codec, raw: Bytes, starts: I8, more: I8) -> dict[int, dict[str, Any]]:
    """The discretionary attributes, packet by packet: few have them."""
    found = {}
    for i in np.flatnonzero(more).tolist():
        try:
            message: Any = codec.decode_any(raw[starts[i] : starts[i + 1]].tobytes())
        except WireError as error:
            raise WireError(f"packet {i}: {error}", int(starts[i])) from None
        known = codec.channel.positions
        found[i] = {k: v for k, v in message.attributes.items() if k not in known}
    return found
