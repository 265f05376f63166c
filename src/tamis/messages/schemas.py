"""Schemas from text, from JSON, and from the columns of a file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import MessageError, SchemaError
from tamis.messages.columnar import file_schema
from tamis.messages.columns import column_type
from tamis.messages.source import opened, reading
from tamis.messages.texts import from_text, timestamp
from tamis.schema import Scalar, Schema, Type

if TYPE_CHECKING:
    import pyarrow as pa

_HINT = 'write "price:double,company:string=IBM" or name a .json file'
_ENTRY = re.compile(
    r"""\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\s:=,`'"]+))
        \s*:\s*(?P<type>\w+)
        \s*(?:=\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<default>[^,']*)))?\s*(?:,|$)""",
    re.VERBOSE,
)
_COLUMNAR = {".parquet": "parquet", ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow"}


def read_schema(text: str | os.PathLike[str]) -> Schema:
    """The schema that is written in `text`, or in the file that it names.

    `price:double,company:string` lists names and types; `price:double=-1.0` gives a default.
    A .json file holds {"price": "double", "company": {"type": "string", "default": ""}}; of a
    Parquet or Arrow file the columns are taken.
    """
    ending = Path(text).suffix.lower()
    if ending == ".json":
        return _from_json(Path(text))
    if ending in _COLUMNAR:
        with opened(text) as source:
            return arrow_schema(file_schema(source, _COLUMNAR[ending]))
    return _from_text(str(text))


def arrow_schema(schema: pa.Schema) -> Schema:
    """The attributes that columns of this Arrow schema hold, structs by dotted name.

    A column of a type that Tamis does not know (a list, bytes) is no attribute.
    """
    found: dict[str, object] = {}
    for field in schema:
        kind = column_type(field.type)
        if kind is not None:
            if field.name in found:
                raise SchemaError(f"attribute {field.name!r} is named twice")
            found[field.name] = kind
    for field in schema:
        if "." not in field.name:
            for name, kind in _nested(field):
                found.setdefault(name, kind)
    return Schema.of(found)


def _nested(field: pa.Field) -> list[tuple[str, Type]]:
    import pyarrow as pa

    if not pa.types.is_struct(field.type):
        kind = column_type(field.type)
        return [] if kind is None else [(field.name, kind)]
    inner = [pair for f in field.type if "." not in f.name for pair in _nested(f)]
    return [(f"{field.name}.{name}", kind) for name, kind in inner]


def _from_text(text: str) -> Schema:
    types: dict[str, object] = {}
    at = 0
    while at < len(text):
        entry = _ENTRY.match(text, at)
        if entry is None:
            raise SchemaError(f"cannot read the schema from {text[at : at + 40]!r} on: {_HINT}")
        name = entry["quoted"] or entry["name"]
        if name in types:
            raise SchemaError(f"attribute {name!r} is named twice")
        types[name] = _with_default(name, entry)
        at = entry.end()
    if not types:
        raise SchemaError(f"the schema is empty: {_HINT}")
    return Schema.of(types)


def _with_default(name: str, entry: re.Match[str]) -> object:
    if entry["text"] is None and entry["default"] is None:
        return entry["type"]
    schema = Schema.of({name: entry["type"]})
    if entry["text"] is not None:
        text = entry["text"].replace("''", "'")
        if schema[name].type is Type.STRING:
            return (schema[name].type, text)  # also the empty string
    else:
        text = entry["default"].strip()
    return (schema[name].type, _default(schema, name, text))


def _default(schema: Schema, name: str, text: str) -> Scalar | None:
    try:
        value = from_text(schema, name, text)
    except MessageError as error:
        raise SchemaError(f"a default does not fit: {error}") from None
    if value is None:
        raise SchemaError(f"attribute {name!r} has an empty default: leave out the = sign")
    return value


def _from_json(path: Path) -> Schema:
    with reading(str(path)):
        data = path.read_bytes()
    try:
        types = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{path}: not a JSON schema file: {error}") from None
    if not isinstance(types, dict):
        raise SchemaError(f'{path}: expected an object such as {{"price": "double"}}')
    try:
        return Schema.of({name: _json_entry(name, spec) for name, spec in types.items()})
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f"attribute {name!r} is named twice")
    return dict(pairs)


def _json_entry(name: str, spec: Any) -> object:
    if not isinstance(spec, dict):
        return spec if isinstance(spec, str) else repr(spec)
    unknown = sorted(set(spec) - {"type", "default"})
    if unknown:
        raise SchemaError(f"attribute {name!r} has unknown settings: {', '.join(unknown)}")
    kind, default = str(spec.get("type")), spec.get("default")
    is_timestamp = Schema.of({name: kind})[name].type is Type.TIMESTAMP
    if is_timestamp and isinstance(default, str):
        try:
            default = timestamp(name, default)
        except MessageError as error:
            raise SchemaError(f"a default does not fit: {error}") from None
    return (kind, default)
