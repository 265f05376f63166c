"""CSV files with a header."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

from tamis.errors import InputError, MessageError
from tamis.messages.byte_sources import MAX_LINE, Source, lines
from tamis.messages.jsonlines import Record
from tamis.messages.row_batches import BadRow, OnBad, excerpt
from tamis.messages.texts import guess


def records(
    source: Source,
    on_bad: OnBad,
    value: Callable[[str, str], Any],
    limit: int = MAX_LINE,
    check: Callable[[list[str]], None] = lambda header: None,
) -> Iterator[Record]:
    """(line, size, row) for every row that is not blank; None stands for a bad row.

    `value(column, text)` makes a value of each field that is not empty; an empty field is
    undefined and has no key. `check` may refuse the header.
    """
    rows = _Rows(source, limit)
    header = _header(source, rows)
    check(header)
    for line, size, fields, reason in rows:
        if reason is None and len(fields) != len(header):
            reason = f"expected {len(header)} fields, found {len(fields)}"
        if reason is None:
            try:
                pairs = zip(header, fields, strict=True)
                row = {name: value(name, text) for name, text in pairs if text}
            except MessageError as error:
                reason = str(error)
        if reason is None:
            yield line, size, row
        else:
            on_bad(BadRow(source.name, line, reason, excerpt(",".join(fields))))
            yield line, size, None


def as_text(name: str, text: str) -> str:
    return text


def by_looking(columns: Collection[str] | None) -> Callable[[str, str], Any]:
    """Fields as what they look like; those that are not needed stay text, and are never bad."""
    if columns is None:
        return guess
    needed = frozenset(columns)
    return lambda name, text: guess(name, text) if name in needed else text


def _header(source: Source, rows: _Rows) -> list[str]:
    for _, _, fields, reason in rows:
        if reason is not None:
            raise InputError(f"{source.name}: the header cannot be read: {reason}")
        if len(set(fields)) != len(fields):
            twice = next(f for f in fields if fields.count(f) > 1)
            raise InputError(f"{source.name}: the header names column {twice!r} twice")
        return fields
    return []


class _Rows:
    """Iterates over (line, size, fields, what is wrong with them) of a CSV file."""

    def __init__(self, source: Source, limit: int) -> None:
        self.lines = _Lines(source, limit)
        self.reader = csv.reader(self.lines, strict=True)

    def __iter__(self) -> Iterator[tuple[int, int, list[str], str | None]]:
        while True:
            self.lines.begin_row()
            fields, wrong = [""], ""
            try:
                fields = next(self.reader)
            except StopIteration:
                return
            except csv.Error as error:
                wrong = str(error)
            taken = self.lines.taken
            size = sum(len(line) for _, line in taken)
            if wrong:
                # A stray quote swallows the lines after it: only the first line is to blame.
                self.lines.again.extendleft(reversed(taken[1:]))
                first = taken[0][1].decode(errors="replace").rstrip()
                yield taken[0][0], size, [first], wrong
            elif any(map(str.strip, fields)):
                yield taken[0][0], size, fields, None


class _Lines:
    """Feeds the CSV reader, which takes several lines where a quoted field goes on."""

    def __init__(self, source: Source, limit: int) -> None:
        self.source, self.limit = lines(source, limit), limit
        self.taken: list[tuple[int, bytes]] = []
        self.again: deque[tuple[int, bytes]] = deque()
        self.size = 0

    def begin_row(self) -> None:
        self.taken, self.size = [], 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        number, line = self.again.popleft() if self.again else next(self.source)
        self.taken.append((number, line))
        self.size += len(line)
        if self.size > self.limit:
            raise csv.Error(f"the row is longer than {self.limit} bytes")
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise csv.Error(f"invalid UTF-8 at byte {error.start + 1}") from None
