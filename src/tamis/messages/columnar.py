"""Parquet and Arrow files, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tamis.errors import InputError
from tamis.messages.byte_sources import Source, reading
from tamis.messages.lists_and_maps import fit_attribute
from tamis.messages.row_batches import BadRow, Batch, OnBad, excerpt
from tamis.messages.typed_tables import arrow_type_of, record_batch, take
from tamis.messages.value_columns import Misfits, flatten, normal
from tamis.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

MAX_IN_MEMORY = 1 << 28  # bytes of a file that is held whole: one that is packed, or a pipe
PARQUET, ARROW_FILE, ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


def batches(
    source: Source,
    format: str,
    schema: Schema | None,
    columns: Sequence[str] | None,
    on_bad: OnBad,
    batch_rows: int,
) -> Iterator[Batch]:
    """The file's rows as batches of typed columns, misfits left out and reported."""
    names = list(schema) if schema is not None else None
    if columns is not None:
        names = [n for n in columns if schema is None or n in schema]
    number = 0
    for raw, progress in raw_batches(source, format, names, batch_rows):
        rows, misfits = typed(source.name, raw, schema, names)
        for i, reason in sorted(misfits.items()):
            shown = excerpt(raw.slice(i, 1).to_pylist()[0]) if _printable(raw) else ""
            on_bad(BadRow(source.name, number + i, reason, shown, "row"))
        kept = [i for i in range(raw.num_rows) if i not in misfits] if misfits else range(len(raw))
        numbers = [number + i for i in kept] if misfits else range(number, number + len(raw))
        number += raw.num_rows
        if misfits:
            rows = take(rows, kept)
        yield Batch(source.name, rows, numbers, numbers, "row", progress)


def typed(
    file: str, raw: pa.RecordBatch, schema: Schema | None, names: Sequence[str] | None
) -> tuple[pa.RecordBatch, Misfits]:
    """The columns of `names` (all if None) in Tamis's types, by dotted name, and the misfits."""
    import pyarrow as pa

    given = dict(zip(raw.schema.names, raw.columns, strict=True))
    # A struct that is asked for by its own name is defined, though it has no type.
    flat = flatten(given, structs=names is not None)
    misfits: Misfits = {}
    if names is None:
        found = {name: normal(name, column, misfits) for name, column in flat.items()}
    elif schema is None:
        found = {name: normal(name, flat[name], misfits) for name in names if name in flat}
    else:
        found = {}
        for name in names:
            column = flat.get(name, pa.nulls(raw.num_rows))
            try:
                found[name] = fit_attribute(name, column, schema[name], misfits)
            except InputError as error:
                raise InputError(f"{file}: {error}") from None
            assert found[name].type == arrow_type_of(schema[name])
    return record_batch(list(found), list(found.values()), raw.num_rows), misfits


def raw_batches(
    source: Source, format: str, names: Sequence[str] | None, batch_rows: int
) -> Iterator[tuple[pa.RecordBatch, float | None]]:
    """The record batches of the file as they are, with at least the columns of `names`."""
    with reading(source.name), _arrow(source.name, format):
        read = _parquet if format == "parquet" else _arrow_ipc
        yield from read(source, names, batch_rows)


def file_schema(source: Source, format: str) -> pa.Schema:
    """The Arrow schema of a Parquet or Arrow file."""
    import pyarrow.parquet as pq

    with reading(source.name), _arrow(source.name, format):
        parquet = format == "parquet"
        found = (
            pq.ParquetFile(_seekable(source)).schema_arrow if parquet else _open_ipc(source).schema
        )
        _names(source.name, found)
        return found


def _parquet(source: Source, names: Sequence[str] | None, batch_rows: int) -> Iterator[Any]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(_seekable(source))
    present = _names(source.name, file.schema_arrow)
    roots = None if names is None else _roots(present, names)
    done, total = 0, file.metadata.num_rows
    for batch in file.iter_batches(batch_rows, columns=roots):
        done += batch.num_rows
        yield batch, done / total


def _names(file: str, fields: Any) -> list[str]:
    """The names of columns, or of a struct's fields; they are told apart, all the way down."""
    import pyarrow as pa

    names = [field.name for field in fields]  # UnicodeDecodeError where one is not text
    if len(set(names)) != len(names):
        raise InputError(f"{file}: two columns have the same name")
    for field in fields:
        if pa.types.is_struct(field.type):
            _names(file, field.type)
    return names


def _roots(present: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns that hold the attributes `names`, whole."""
    wanted = set(names) | {name.partition(".")[0] for name in names}
    return [column for column in present if column in wanted]


def _arrow_ipc(source: Source, names: Sequence[str] | None, batch_rows: int) -> Iterator[Any]:
    reader = _open_ipc(source)
    present = _names(source.name, reader.schema)
    roots = present if names is None else _roots(present, names)
    if hasattr(reader, "num_record_batches"):
        stream = map(reader.get_batch, range(reader.num_record_batches))
    else:
        stream = iter(reader)
    for whole in stream:
        _check_sound(whole)
        chosen = whole.select(roots) if roots else record_batch([], [], whole.num_rows)
        for start in range(0, whole.num_rows, batch_rows):
            yield chosen.slice(start, batch_rows), None


def _check_sound(batch: pa.RecordBatch) -> None:
    """Raise ArrowInvalid where offsets point outside: Arrow takes the file's word for them."""
    batch.validate()
    for column in batch.columns:
        _check_column(column)


def _check_column(column: pa.Array) -> None:
    import pyarrow as pa

    if pa.types.is_struct(column.type):
        for inner in column.flatten():
            _check_column(inner)
        return
    bytes_of = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    # Strings are looked at as bytes: broken UTF-8 makes a bad row, not a bad file.
    kind = bytes_of.get(column.type)
    (column if kind is None else column.view(kind)).validate(full=True)


def _open_ipc(source: Source) -> Any:
    import pyarrow as pa

    if source.peek(len(ARROW_FILE)) == ARROW_FILE:
        return pa.ipc.open_file(_seekable(source))
    return pa.ipc.open_stream(source.stream)


def _seekable(source: Source) -> Any:
    """The file itself, or all of it in memory where it is packed or a pipe: within a bound, as a
    few bytes of gzip may stand for any number."""
    import pyarrow as pa

    if source.stream is source.raw and source.size:
        return pa.OSFile(source.name)
    data = source.stream.read(MAX_IN_MEMORY + 1)
    if len(data) > MAX_IN_MEMORY:
        raise InputError(
            f"{source.name}: a packed file, or one from a pipe, is read into memory, "
            f"up to {MAX_IN_MEMORY:,} bytes: unpack it to a file first"
        )
    return pa.BufferReader(data)


def _printable(batch: pa.RecordBatch) -> bool:
    """Whether Python can hold every value (not so for broken UTF-8 and far-off timestamps)."""
    try:
        batch.to_pylist()
    except (ValueError, OverflowError):
        return False
    return True


@contextmanager
def _arrow(name: str, format: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{name}: not a whole {format} file: {excerpt(reason)}") from None
