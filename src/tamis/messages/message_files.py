"""Files of messages: found out what they are, and read batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from tamis.errors import InputError, MessageError
from tamis.messages import columnar, delimited, jsonlines, xml
from tamis.messages.byte_sources import MAX_LINE, Source, lines, opened
from tamis.messages.jsonlines import Record
from tamis.messages.message_values import lookup, settle
from tamis.messages.row_batches import BadRow, Batch, OnBad, excerpt
from tamis.messages.texts import from_text, from_value
from tamis.messages.typed_tables import take, to_batch
from tamis.schema import Schema

Format = Literal["auto", "jsonl", "csv", "parquet", "arrow", "xml"]
BATCH_BYTES = 64 * 2**20  # a batch of long rows ends early
_ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".xml": "xml",
}


def read(
    path: str | os.PathLike[str],
    *,
    on_bad: OnBad,
    format: Format = "auto",
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = 65_536,
    max_line: int = MAX_LINE,
) -> Iterator[Batch]:
    """The messages of a file ("-": standard input), packed with gzip or not, in order.

    With a schema, or from a columnar file, a batch holds typed columns by dotted name; else it
    holds mappings. `columns` names the attributes that are needed: others need not be read or
    checked. A bad row goes to `on_bad` and is left out. Raises InputError where the file cannot
    be read at all.
    """
    if format not in get_args(Format):
        raise InputError(f"format {format!r} is unknown: choose {', '.join(get_args(Format))}")
    with opened(path) as source:
        kind = detect(source, str(path)) if format == "auto" else format
        if kind in ("parquet", "arrow"):
            yield from columnar.batches(source, kind, schema, columns, on_bad, batch_rows)
        else:
            records = _records(source, kind, schema, columns, on_bad, max_line)
            collector = _Collector(source, schema, columns, on_bad, kind)
            yield from collector.batches(records, batch_rows)


def detect(source: Source, path: str) -> str:
    """The format, by the ending of the file's name, else by its first bytes."""
    ending = Path(path.lower().removesuffix(".gz")).suffix
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    start = source.peek(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(columnar.PARQUET):
        return "parquet"
    if start.startswith((columnar.ARROW_FILE, columnar.ARROW_STREAM)):
        return "arrow"
    if start.startswith(b"<"):
        return "xml"
    return "jsonl" if start.startswith((b"{", b"[")) or not start else "csv"


def _records(
    source: Source,
    kind: str,
    schema: Schema | None,
    columns: Sequence[str] | None,
    on_bad: OnBad,
    limit: int,
) -> Iterator[Record]:
    if kind == "jsonl":
        return jsonlines.records(source, on_bad, limit)
    if kind == "csv":
        value = delimited.as_text if schema is not None else delimited.by_looking(columns)
        return delimited.records(source, on_bad, value, limit)
    return _xml_records(source, schema, on_bad, limit)


def _xml_records(
    source: Source, schema: Schema | None, on_bad: OnBad, limit: int
) -> Iterator[Record]:
    # Broken UTF-8 becomes lone surrogates, which parse_xml refuses.
    decoded = ((n, line.decode(errors="surrogateescape")) for n, line in lines(source, limit))
    for line, document in xml.documents(decoded):
        row: dict[str, Any] | None = None
        try:
            row = dict(xml.parse_xml(document, schema))
        except MessageError as error:
            on_bad(BadRow(source.name, line, str(error), excerpt(document)))
        yield line, len(document), row


class _Collector:
    """Makes batches of records, and drops the rows that do not fit."""

    def __init__(
        self,
        source: Source,
        schema: Schema | None,
        columns: Sequence[str] | None,
        on_bad: OnBad,
        kind: str,
    ) -> None:
        self.source, self.schema, self.columns, self.on_bad = source, schema, columns, on_bad
        self.convert: Any = from_text if kind == "csv" else from_value
        self.checked = kind != "jsonl"  # texts are looked at one by one as they are read

    def batches(self, records: Iterator[Record], batch_rows: int) -> Iterator[Batch]:
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        places: list[int] = []
        bytes_held = 0
        for number, (line, size, row) in enumerate(records):
            if row is None:
                continue
            rows.append(row)
            numbers.append(number)
            places.append(line)
            bytes_held += size
            if len(rows) >= batch_rows or bytes_held >= BATCH_BYTES:
                yield self.batch(rows, numbers, places)
                rows, numbers, places, bytes_held = [], [], [], 0
        if rows:
            yield self.batch(rows, numbers, places)

    def batch(self, rows: list[dict[str, Any]], numbers: list[int], places: list[int]) -> Batch:
        build = self._mappings if self.schema is None else partial(self._typed, self.schema)
        built, misfits = build(rows)
        if misfits:
            for i, reason in sorted(misfits.items()):
                self.on_bad(BadRow(self.source.name, places[i], reason, excerpt(rows[i])))
            kept = [i for i in range(len(rows)) if i not in misfits]
            built = [built[i] for i in kept] if isinstance(built, list) else take(built, kept)
            numbers, places = [numbers[i] for i in kept], [places[i] for i in kept]
        progress = self.source.progress()
        return Batch(self.source.name, built, numbers, places, progress=progress)

    def _typed(self, schema: Schema, rows: list[dict[str, Any]]) -> tuple[Any, dict[int, str]]:
        names = [n for n in schema if self.columns is None or n in self.columns]
        return to_batch(rows, schema, names, self.convert)

    def _mappings(self, rows: list[dict[str, Any]]) -> tuple[Any, dict[int, str]]:
        misfits: dict[int, str] = {}
        for i, row in enumerate(rows if not self.checked else ()):
            try:
                if self.columns is None:
                    _check(row)
                else:
                    for name in self.columns:
                        lookup(row, name)
            except MessageError as error:
                misfits[i] = str(error)
        return rows, misfits


def _check(row: dict[str, Any], path: str = "") -> None:
    """Raise MessageError if some value, however nested, cannot be a value of a message."""
    for key, value in row.items():
        kind = type(value)
        if kind is float or kind is bool or value is None or (kind is str and value.isascii()):
            continue
        if kind is dict:
            _check(value, f"{path}{key}.")
        else:
            settle(path + key, value)
