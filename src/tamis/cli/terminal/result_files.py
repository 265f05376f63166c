"""Where matches go: JSON lines, CSV or Parquet, to standard output or to a whole file or none."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from tamis.errors import InputError
from tamis.files import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

    from tamis.engine import Matches

Format = Literal["jsonl", "csv", "parquet"]


class Writer(Protocol):
    def write(self, numbers: Sequence[int], matches: Matches, rows: Any = None) -> None:
        """Write the matches of messages; `rows` are what these hold, where that is wanted."""


@contextmanager
def writer(
    path: str, format: Format | None, every: bool, ids: pa.DataType, contents: bool = False
) -> Iterator[Writer]:
    """Open the output. `every`: rows that match nothing are written too."""
    if format is None:
        endings: dict[str, Format] = {".parquet": "parquet", ".csv": "csv"}
        format = endings.get(Path(path).suffix.lower(), "jsonl")
    if format == "parquet" and path == "-" and sys.stdout.isatty():
        raise InputError("Parquet is not for a terminal: give --output FILE")
    with opened(path) as sink:
        if format == "jsonl":
            yield JsonLines(sink, every, ids)
            return
        if format == "csv":
            yield Csv(sink, every, ids, contents)
            return
        import pyarrow.parquet as pq

        kind = _parquet_schema(ids, contents)
        with pq.ParquetWriter(sink, kind) as parquet:
            yield Parquet(parquet, kind, every)


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The output at `path`; a file appears under its name only when it is whole."""
    if path == "-":
        yield sys.stdout.buffer
        return
    if "\0" in path:
        raise InputError(f"{path!r} is not the name of a file")
    try:
        with whole_file(Path(path)) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


class JsonLines:
    def __init__(self, sink: IO[bytes], every: bool, ids: pa.DataType) -> None:
        self.sink, self.every, self.ids = sink, every, ids

    def write(self, numbers: Sequence[int], matches: Matches, rows: Any = None) -> None:
        ids = matches.ids.cast(self.ids).to_pylist()
        ends = matches.offsets.tolist()
        lines = []
        for i in _rows(matches, self.every):
            found = json.dumps(ids[ends[i] : ends[i + 1]], ensure_ascii=False)
            content = "" if rows is None else f', "content": {_content(rows, i)}'
            lines.append(f'{{"message": {numbers[i]}, "subscriptions": {found}{content}}}\n')
        self.sink.write("".join(lines).encode())
        self.sink.flush()  # whoever reads the pipe need not wait for the next batch


class Csv:
    """A line for each message and subscription that it matches.

    With `every`, messages that match nothing have a line without an id.
    """

    def __init__(self, sink: IO[bytes], every: bool, ids: pa.DataType, contents: bool) -> None:
        self.sink, self.every, self.ids = sink, every, ids
        self._put([["message", "subscription", *(["content"] if contents else [])]])

    def write(self, numbers: Sequence[int], matches: Matches, rows: Any = None) -> None:
        ids = matches.ids.cast(self.ids).to_pylist()
        ends, lines = matches.offsets.tolist(), []
        for i in _rows(matches, self.every):
            content = [] if rows is None else [_content(rows, i)]
            found = ids[ends[i] : ends[i + 1]] or [None]
            lines += [[numbers[i], id, *content] for id in found]
        self._put(lines)

    def _put(self, lines: list[list[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(lines)
        self.sink.write(text.getvalue().encode("utf-8", "replace"))
        self.sink.flush()


class Parquet:
    def __init__(self, parquet: pa.parquet.ParquetWriter, schema: pa.Schema, every: bool) -> None:
        self.parquet, self.schema, self.every = parquet, schema, every

    def write(self, numbers: Sequence[int], matches: Matches, rows: Any = None) -> None:
        import pyarrow as pa

        kept = _rows(matches, self.every)
        found = matches.to_arrow().take(pa.array(kept, pa.int64()))
        columns = [np.asarray(numbers, np.int64)[kept], found.cast(self.schema.field(1).type)]
        if rows is not None:
            columns.append(pa.array([_content(rows, i) for i in kept], pa.string()))
        if kept:
            self.parquet.write_batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))


def _content(rows: Any, i: int) -> str:
    """A message as JSON."""
    row = rows[i] if isinstance(rows, list) else rows.slice(i, 1).to_pylist()[0]
    return json.dumps(_plain(row), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """As JSON has it: times and decimals are texts, and so is what no number is."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _rows(matches: Matches, every: bool) -> list[int]:
    counts = matches.counts
    return list(range(len(counts))) if every else np.flatnonzero(counts).tolist()


def id_type(found: set[type]) -> pa.DataType:
    """The type of a column of ids. Where ids are strings and integers, all become strings."""
    import pyarrow as pa

    return pa.int64() if found == {int} else pa.string()


def _parquet_schema(ids: pa.DataType, contents: bool) -> pa.Schema:
    import pyarrow as pa

    fields = {"message": pa.int64(), "subscriptions": pa.list_(ids)}
    return pa.schema(fields | ({"content": pa.string()} if contents else {}))
