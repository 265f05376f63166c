"""Schemas from text, from JSON, and from the columns of a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import MessageError, SchemaError
from tamis.messages.byte_sources import opened, reading
from tamis.messages.columnar import file_schema
from tamis.messages.lists_and_maps import shape_of, values_type
from tamis.messages.tabular import is_pandas
from tamis.messages.texts import from_text
from tamis.messages.value_columns import column_type
from tamis.schema import Attribute, Scalar, Schema, Shape, Type, type_named

if TYPE_CHECKING:
    import pyarrow as pa

_HINT = 'write "price:double,company:string=IBM" or name a .json file'
_ENTRY = re.compile(
    r"""\s*+(?:`(?P<quoted>[^`]++)`|(?P<name>[^\s:=,`'"]++))
        \s*+:\s*+(?P<type>\w++(?:<[\w\s,]++>)?)\s*+
        (?:=\s*+(?:'(?P<text>[^']*+(?:''[^']*+)*+)'\s*+|(?P<default>[^,']*+)))?+(?:,|\Z)""",
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

    A column of a type that Tamis does not know (such as bytes) is no attribute.
    """
    import pyarrow as pa

    found: dict[str, object] = {}
    unread: dict[str, str] = {}
    for field in schema:
        kind = _type_of(field.type)
        if kind is None and not pa.types.is_struct(field.type):
            unread[field.name] = str(field.type)
        elif kind is not None:
            if field.name in found:
                raise SchemaError(f"attribute {field.name!r} is named twice")
            found[field.name] = kind
    for field in schema:
        if "." not in field.name:
            for name, kind in _nested(field):
                found.setdefault(name, kind)
    return Schema(Schema.of(found).attributes, unread)


def attributes_of(data: Any) -> Schema:
    """The names and types of the columns of a schema or a table: of Arrow, pandas, Polars, Spark,
    or of whatever hands its columns over as Arrow."""
    import pyarrow as pa

    spark = data if hasattr(data, "jsonValue") else getattr(data, "schema", None)
    if hasattr(spark, "jsonValue"):
        unread: dict[str, str] = {}
        types = _spark_types(spark.jsonValue(), unread)  # type: ignore[union-attr]
        return Schema(Schema.of(types).attributes, unread)
    if isinstance(data, pa.Schema | pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return arrow_schema(data if isinstance(data, pa.Schema) else data.schema)
    try:
        if hasattr(data, "__arrow_c_schema__"):
            return arrow_schema(pa.schema(data))
        if is_pandas(data):
            return _pandas_schema(data)
        if hasattr(data, "__arrow_c_stream__"):
            return arrow_schema(pa.RecordBatchReader.from_stream(data).schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(
            f"no schema can be read from this {type(data).__name__}: {error}"
        ) from None
    raise SchemaError(f"a {type(data).__name__} has no schema: give a mapping of names to types")


def _pandas_schema(data: Any) -> Schema:
    """A column that Arrow cannot hold, such as one of mixed types, is none for selectors."""
    import pyarrow as pa

    try:
        return arrow_schema(pa.Schema.from_pandas(data, preserve_index=False))
    except (pa.ArrowException, TypeError, ValueError):
        if data.shape[1] < 2 or not data.columns.is_unique:
            raise
    parts = dict[str, object]()
    unread = dict[str, str]()
    for label in data.columns:
        try:
            own = _pandas_schema(data[[label]])
        except (pa.ArrowException, TypeError, ValueError):
            unread[str(label)] = "of mixed types"
            continue
        parts |= own
        unread |= own.unread
    return Schema(Schema.of(parts).attributes, unread)


_WHOLE = re.compile(r"decimal\((\d{1,9}),0\)")
_WHOLE_DIGITS = 18  # every decimal of so many digits and no fraction is a 64-bit integer


def _spark_types(
    struct: Mapping[str, Any], unread: dict[str, str], prefix: str = ""
) -> dict[str, object]:
    """Of a Spark schema as JSON. A column of exactly that name wins over a field of a struct.

    What has no type of ours goes to `unread`.
    """
    found: dict[str, object] = {}
    inner: dict[str, object] = {}
    for field in struct.get("fields", ()):
        name, kind = field["name"], field["type"]
        if isinstance(kind, dict):
            if kind.get("type") == "struct" and "." not in name:
                inner |= _spark_types(kind, unread, f"{prefix}{name}.")
                continue
            inner |= _spark_elements(kind, f"{prefix}{name}.") if "." not in name else {}
        known = _spark_type(kind)
        if known is None and isinstance(kind, dict):
            unread[prefix + name] = str(kind.get("type"))
        elif known is None:
            unread[prefix + name] = str(kind)
        elif not (prefix and "." in name):
            found.setdefault(prefix + name, known)
    exact = {field["name"] for field in struct.get("fields", ())} if not prefix else set()
    return found | {n: kind for n, kind in inner.items() if n not in found and n not in exact}


def _spark_type(kind: Any) -> object | None:
    """What `Schema.of` takes for a type of Spark, as JSON."""
    if isinstance(kind, str):
        whole = _WHOLE.fullmatch(kind)
        return Type.INT if whole and int(whole[1]) <= _WHOLE_DIGITS else type_named(kind)
    if kind.get("type") == "array" and isinstance(found := _spark_type(kind["elementType"]), Type):
        return Attribute("", found, None, Shape.LIST)
    if kind.get("type") == "map" and kind["keyType"] == "string":
        found = _spark_type(kind["valueType"])
        return Attribute("", found, None, Shape.MAP) if isinstance(found, Type) else None
    return None


def _spark_elements(kind: Mapping[str, Any], prefix: str) -> dict[str, object]:
    """The fields of arrays of structs, by dotted name: lists."""
    held = kind.get("elementType")
    if kind.get("type") != "array" or not isinstance(held, dict) or held.get("type") != "struct":
        return {}
    pairs = [(f["name"], _spark_type(f["type"])) for f in held["fields"] if "." not in f["name"]]
    return {
        prefix + name: Attribute("", found, None, Shape.LIST)
        for name, found in pairs
        if isinstance(found, Type)
    }


def _type_of(found: pa.DataType) -> object | None:
    """What `Schema.of` takes for a column of this type; None where Tamis has no type for it."""
    shape = shape_of(found)
    kind = column_type(found) if shape is Shape.SCALAR else values_type(found)
    if kind is None or shape is Shape.SCALAR:
        return kind
    return Attribute("", kind, None, shape)


def _nested(field: pa.Field) -> list[tuple[str, object]]:
    import pyarrow as pa

    if shape_of(field.type) is Shape.LIST and pa.types.is_struct(field.type.value_type):
        kinds = [(f.name, column_type(f.type)) for f in field.type.value_type]
        made = [(n, Attribute("", k, None, Shape.LIST)) for n, k in kinds if k and "." not in n]
        return [(f"{field.name}.{name}", kind) for name, kind in made]
    if not pa.types.is_struct(field.type):
        kind = _type_of(field.type)
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
    found: dict[str, Any] = {}
    for name, spec in pairs:
        if name in found:
            raise SchemaError(f"attribute {name!r} is named twice")
        found[name] = spec
    return found


def _json_entry(name: str, spec: Any) -> object:
    if not isinstance(spec, dict):
        return spec if isinstance(spec, str) else repr(spec)
    unknown = sorted(set(spec) - {"type", "default"})
    if unknown:
        raise SchemaError(f"attribute {name!r} has unknown settings: {', '.join(unknown)}")
    return str(spec.get("type")), spec.get("default")
