"""The tables of lookups: mappings, and CSV or Parquet files with the columns key and value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tamis.errors import FlowError, InputError, MessageError
from tamis.flow.model.elements import Lookup
from tamis.messages import read, refuse
from tamis.messages.byte_sources import opened
from tamis.messages.message_files import detect
from tamis.messages.message_values import settle
from tamis.schema import Scalar, Schema, Type

Table = dict[Scalar, Scalar]
Tables = Mapping[str, Mapping[Scalar, Scalar]]
Given = Mapping[Any, Any] | str | os.PathLike[str]


def tables(
    lookups: Mapping[str, Lookup],
    given: Mapping[str, Given] | None = None,
    folder: str | os.PathLike[str] = ".",
    text: str = "",
) -> dict[str, Table]:
    """The table of each lookup: as given, else from the file that the flow names.

    `text` is that of the flow: errors then name the line of the lookup.
    """
    given = given or {}
    for name in given:
        if name not in lookups:
            raise InputError(f"the flow declares no lookup {name}; it has {_names(lookups)}")
    return {name: table(lookup, given.get(name), folder, text) for name, lookup in lookups.items()}


def table(
    lookup: Lookup, given: Given | None, folder: str | os.PathLike[str], text: str = ""
) -> Table:
    """The table of one lookup. A key that is there twice is an error."""
    try:
        return _table(lookup, given, folder)
    except InputError as error:
        raise at_lookup(lookup, str(error), text) from None


def at_lookup(lookup: Lookup, what: str, text: str) -> FlowError:
    """An error of a lookup's table, at the line that declares the lookup."""
    return FlowError(what, where=lookup.title, text=text, at=lookup.at)


def _table(lookup: Lookup, given: Given | None, folder: str | os.PathLike[str]) -> Table:
    if isinstance(given, Mapping):
        return _checked(lookup, given.items(), "")
    path = Path(folder) / lookup.source if given is None and lookup.source else given
    if path is None:
        raise InputError("it has no table: give one, or write from 'file.csv' in the flow")
    return _checked(lookup, _file(lookup, Path(path)), f"{path}: ")


def _names(lookups: Mapping[str, Lookup]) -> str:
    return ", ".join(lookups) or "none"


def _file(lookup: Lookup, path: Path) -> Iterable[tuple[Any, Any]]:
    columns = _columns(path)
    for wanted in ("key", "value"):
        if wanted not in columns:
            shown = ", ".join(columns) or "none"
            raise InputError(f"{path} has no column {wanted}; it has {shown}")
    schema = Schema.of(key=lookup.key, value=lookup.value)
    try:
        for batch in read(path, on_bad=refuse, schema=schema):
            rows: Any = batch.rows
            keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
            yield from zip(keys, values, strict=True)
    except MessageError as error:
        raise InputError(str(error)) from None


def _columns(path: Path) -> list[str]:
    with opened(path) as source:
        kind = detect(source, str(path))
    if kind == "parquet":
        import pyarrow.parquet as pq

        return list(pq.read_schema(path).names)
    if kind != "csv":
        raise InputError(f"{path}: a lookup's table is a CSV or a Parquet file")
    import csv

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(file), [])
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8") from None


def _checked(lookup: Lookup, pairs: Iterable[tuple[Any, Any]], where: str) -> Table:
    schema = Schema.of(key=lookup.key, value=lookup.value)
    plain_key, plain_value = lookup.key is Type.STRING, lookup.value is Type.STRING
    found: Table = {}
    for key, value in pairs:
        try:
            known = key if plain_key and _plain(key) else schema.convert("key", settle("key", key))
            worth = value
            if not (plain_value and _plain(value)):
                worth = schema.convert("value", settle("value", value))
        except MessageError as error:
            raise InputError(f"{where}{error}") from None
        if known is None:
            raise InputError(f"{where}a key is undefined")
        if known in found:
            raise InputError(f"{where}the key {known!r} is there twice")
        if worth is not None:
            found[known] = worth
    return found


def _plain(text: Any) -> bool:
    """Whether it is surely a text that needs no look: most are, and tables can be large."""
    return type(text) is str and text.isascii()
