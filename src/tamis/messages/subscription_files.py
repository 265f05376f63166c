"""Files of subscriptions: an id and a selector to a row."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal

from tamis.errors import InputError, MessageError
from tamis.messages import columnar, delimited, jsonlines
from tamis.messages.byte_sources import Source, opened
from tamis.messages.message_files import detect
from tamis.messages.message_values import settle
from tamis.messages.row_batches import BadRow, OnBad, excerpt

_COLUMNS = ("id", "selector")


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Some subscriptions of a file, and the line (or the row of a table) of each."""

    file: str
    pairs: list[tuple[str | int, str]]
    lines: list[int]
    place: Literal["line", "row"] = "line"
    progress: float | None = None


def read_subscriptions(
    path: str | os.PathLike[str], on_bad: OnBad, *, batch_rows: int = 65_536
) -> Iterator[Subscriptions]:
    """The subscriptions of a JSON lines, CSV, Parquet or Arrow file with `id` and `selector`.

    Ids are strings or 64-bit integers, as given; in CSV they are strings. Other columns are
    not looked at. A bad row goes to `on_bad` and is left out.
    """
    with opened(path) as source:
        kind = detect(source, str(path))
        place: Literal["line", "row"] = "row" if kind in ("parquet", "arrow") else "line"
        good = _good(source, _rows(source, kind, on_bad, batch_rows), on_bad, place)
        while some := list(islice(good, batch_rows)):
            pairs = [(id, selector) for _, id, selector in some]
            lines = [line for line, _, _ in some]
            yield Subscriptions(source.name, pairs, lines, place, source.progress())


def _rows(
    source: Source, kind: str, on_bad: OnBad, batch_rows: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    if kind in ("parquet", "arrow"):
        for batch in columnar.batches(source, kind, None, _COLUMNS, on_bad, batch_rows):
            assert not isinstance(batch.rows, list)
            _need(source.name, batch.rows.schema.names)
            yield from zip(batch.lines, batch.rows.to_pylist(), strict=True)
        return
    if kind == "jsonl":
        records = jsonlines.records(source, on_bad)
    elif kind == "csv":
        records = _csv_records(source, on_bad)
    else:
        raise InputError(f"{source.name}: subscriptions are read from JSON lines, CSV or Parquet")
    yield from ((line, row) for line, _, row in records if row is not None)


def _csv_records(source: Source, on_bad: OnBad) -> Iterator[jsonlines.Record]:
    """As from any CSV file, but an empty selector is one: it matches every message."""
    need = partial(_need, source.name)
    for line, size, row in delimited.records(source, on_bad, delimited.as_text, check=need):
        yield line, size, row if row is None else {"selector": "", **row}


def _good(
    source: Source,
    rows: Iterable[tuple[int, dict[str, Any]]],
    on_bad: OnBad,
    place: Literal["line", "row"],
) -> Iterator[tuple[int, str | int, str]]:
    for line, row in rows:
        try:
            yield line, _id(row.get("id")), _selector(row.get("selector"))
        except MessageError as error:
            on_bad(BadRow(source.name, line, str(error), excerpt(row), place))


def _id(value: object) -> str | int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise MessageError(f"the id must be a string or an integer, not {excerpt(repr(value))}")
    settle("id", value)  # raises where it is no 64-bit integer or no text
    return value


def _selector(value: object) -> str:
    if not isinstance(value, str):
        raise MessageError(f"the selector must be a string, not {excerpt(repr(value))}")
    return value


def _need(file: str, names: Iterable[str]) -> None:
    missing = [name for name in _COLUMNS if name not in set(names)]
    if missing:
        raise InputError(f"{file}: there is no column {' and no column '.join(missing)}")
