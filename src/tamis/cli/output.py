"""Where matches go: JSON lines or Parquet, to standard output or to a whole file or none."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, Protocol

import numpy as np

from tamis.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from tamis.engine import Matches

Format = Literal["jsonl", "parquet"]


class Writer(Protocol):
    def write(self, numbers: Sequence[int], matches: Matches) -> None: ...


@contextmanager
def writer(path: str, format: Format | None, every: bool, ids: pa.DataType) -> Iterator[Writer]:
    """Open the output. `every`: rows that match nothing are written too."""
    if format is None:
        format = "parquet" if path.endswith(".parquet") else "jsonl"
    if format == "parquet" and path == "-" and sys.stdout.isatty():
        raise InputError("Parquet is not for a terminal: give --output FILE")
    with whole_file(path) as sink:
        if format == "jsonl":
            yield JsonLines(sink, every, ids)
            return
        import pyarrow.parquet as pq

        kind = _parquet_schema(ids)
        with pq.ParquetWriter(sink, kind) as parquet:
            yield Parquet(parquet, kind, every)


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """The output at `path`; a file appears under its name only when it is whole."""
    if path == "-":
        yield sys.stdout.buffer
        return
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            file = part.open("wb")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from None
        with file:
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


class JsonLines:
    def __init__(self, sink: IO[bytes], every: bool, ids: pa.DataType) -> None:
        self.sink, self.every, self.ids = sink, every, ids

    def write(self, numbers: Sequence[int], matches: Matches) -> None:
        ids = matches.ids.cast(self.ids).to_pylist()
        ends = matches.offsets.tolist()
        lines = []
        for i in _rows(matches, self.every):
            found = json.dumps(ids[ends[i] : ends[i + 1]], ensure_ascii=False)
            lines.append(f'{{"message": {numbers[i]}, "subscriptions": {found}}}\n')
        self.sink.write("".join(lines).encode())
        self.sink.flush()  # whoever reads the pipe need not wait for the next batch


class Parquet:
    def __init__(self, parquet: pa.parquet.ParquetWriter, schema: pa.Schema, every: bool) -> None:
        self.parquet, self.schema, self.every = parquet, schema, every

    def write(self, numbers: Sequence[int], matches: Matches) -> None:
        import pyarrow as pa

        rows = _rows(matches, self.every)
        found = matches.to_arrow().take(pa.array(rows, pa.int64()))
        columns = [np.asarray(numbers, np.int64)[rows], found.cast(self.schema.field(1).type)]
        if rows:
            self.parquet.write_batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))


def _rows(matches: Matches, every: bool) -> list[int]:
    counts = matches.counts
    return list(range(len(counts))) if every else np.flatnonzero(counts).tolist()


def id_type(found: set[type]) -> pa.DataType:
    """The type of a column of ids. Where ids are strings and integers, all become strings."""
    import pyarrow as pa

    return pa.int64() if found == {int} else pa.string()


def _parquet_schema(ids: pa.DataType) -> pa.Schema:
    import pyarrow as pa

    return pa.schema({"message": pa.int64(), "subscriptions": pa.list_(ids)})
