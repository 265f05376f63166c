"""Attributes, their types and defaults: the event schema of ICSE 2001, section 4."""

from __future__ import annotations

import datetime
import enum
import math
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tamis.errors import MessageError, SchemaError

Scalar = bool | int | float | str | datetime.datetime
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
_LONGEST = 40  # characters of a bad text shown in an error


class Type(enum.Enum):
    """What a value can be. Values of INT and DOUBLE compare with each other, no others do."""

    INT = "int"
    DOUBLE = "double"
    STRING = "string"
    BOOL = "bool"
    TIMESTAMP = "timestamp"

    __hash__ = object.__hash__  # that of enum is slow, and constants are hashed a lot

    @property
    def numeric(self) -> bool:
        return self in (Type.INT, Type.DOUBLE)

    def like(self, other: Type) -> bool:
        """Whether values of the two types can be compared at all."""
        return self is other or (self.numeric and other.numeric)


class Shape(enum.Enum):
    """What an attribute holds: one value, a list of values, or values by text."""

    SCALAR = "scalar"
    LIST = "list"
    MAP = "map"


_PYTHON_TYPES: dict[object, Type] = {
    int: Type.INT,
    float: Type.DOUBLE,
    str: Type.STRING,
    bool: Type.BOOL,
    datetime.datetime: Type.TIMESTAMP,
}
# Names of types here and elsewhere, in lower case and without what stands in brackets.
_NAMES: dict[str, Type] = {
    **dict.fromkeys(("int", "integer", "long", "bigint", "smallint", "tinyint"), Type.INT),
    **dict.fromkeys(("short", "byte", "int8", "int16", "int32", "int64"), Type.INT),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), Type.INT),
    **dict.fromkeys(("double", "float", "float16", "float32", "float64", "decimal"), Type.DOUBLE),
    **dict.fromkeys(("halffloat", "decimal32", "decimal64"), Type.DOUBLE),
    **dict.fromkeys(("decimal128", "decimal256"), Type.DOUBLE),
    **dict.fromkeys(("string", "str", "varchar", "char", "utf8", "text"), Type.STRING),
    **dict.fromkeys(("large_string", "string_view", "categorical", "enum"), Type.STRING),
    **dict.fromkeys(("bool", "boolean"), Type.BOOL),
    **dict.fromkeys(("timestamp", "timestamp_ntz", "timestampntz"), Type.TIMESTAMP),
    **dict.fromkeys(("datetime", "datetime64", "date", "date32", "date64"), Type.TIMESTAMP),
}


def type_of(value: object) -> Type | None:
    """The type of a message's value; None if it is undefined (None, NaN) or of no type of ours."""
    if isinstance(value, bool):
        return Type.BOOL
    if isinstance(value, int):
        return Type.INT
    if isinstance(value, float):
        return None if math.isnan(value) else Type.DOUBLE
    if isinstance(value, str):
        return Type.STRING
    if isinstance(value, datetime.datetime):
        return Type.TIMESTAMP
    return None


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column of the schema. `default` None means: undefined (the paper's bottom).

    Of a list or a map, `type` is that of its values.
    """

    name: str
    type: Type
    default: Scalar | None = None
    shape: Shape = Shape.SCALAR

    @property
    def kind(self) -> str:
        """The name of its type: `string`, `list<string>`, `map<string,string>`."""
        match self.shape:
            case Shape.LIST:
                return f"list<{self.type.value}>"
            case Shape.MAP:
                return f"map<string,{self.type.value}>"
        return self.type.value


@dataclass(frozen=True, slots=True)
class Schema(Mapping[str, Attribute]):
    """The attributes of a message, in order. Holding one means: names and defaults are valid.

    `unread` names what the messages have besides, with its type, that no selector can read.
    """

    attributes: tuple[Attribute, ...]
    unread: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    _named: dict[str, Attribute] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [a.name for a in self.attributes]
        object.__setattr__(self, "_named", dict(zip(names, self.attributes, strict=True)))
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise SchemaError(f"attribute {twice!r} is named twice")
        for a in self.attributes:
            if not a.name:
                raise SchemaError("an attribute needs a name")
            if a.default is not None and a.shape is not Shape.SCALAR:
                raise SchemaError(f"attribute {a.name!r} is a {a.shape.value}: it has no default")
            if a.default is not None:
                _refuse_text(a)
                _convert(a.name, a.type, a.default, SchemaError)

    @classmethod
    def of(cls, types: Any = None, /, **more: object) -> Schema:
        """`Schema.of(price=float, company=str)`; a pair gives a default: `price=(float, -1.0)`.

        The first argument is a mapping of names to types (of Python, numpy, Arrow, Polars or
        Spark, or their names), a schema of Arrow or Spark, or a table that has columns: of pandas,
        Polars, Arrow or Spark. What is named besides comes behind it, or takes its place.
        """
        if hasattr(types, "__arrow_c_schema__") or not isinstance(types, Mapping | None):
            from tamis.messages.schemas import attributes_of

            types = attributes_of(types)
        given = {**(types or {}), **more}
        unread = types.unread if isinstance(types, Schema) else {}
        return cls(tuple(_attribute(name, spec) for name, spec in given.items()), unread)

    def __getitem__(self, name: str) -> Attribute:
        return self._named[name]

    def __contains__(self, name: object) -> bool:
        return name in self._named

    @property
    def defaults(self) -> tuple[str, ...]:
        """The names of the attributes that have a default."""
        return tuple(a.name for a in self.attributes if a.default is not None)

    def __iter__(self) -> Iterator[str]:
        return (a.name for a in self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def convert(self, name: str, value: Any) -> Any:
        """`value` as the attribute's type (an int where a double is due, ISO 8601 text where a
        timestamp is, ...), None if undefined.

        Raises MessageError where the types do not fit.
        """
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        own = self[name]
        if own.shape is Shape.SCALAR:
            return _convert(name, own.type, value, MessageError)
        if own.shape is Shape.LIST and isinstance(value, list):
            return [_element(name, own.type, one) for one in value]
        if own.shape is Shape.MAP and isinstance(value, Mapping):
            inner = {k: one for k, one in value.items() if isinstance(k, str)}
            return {k: _element(f"{name}[{k!r}]", own.type, one) for k, one in inner.items()}
        raise MessageError(f"{name} = {str(value)[:40]} is not a {own.kind}")

    @property
    def scalar(self) -> bool:
        """Whether no attribute is a list or a map."""
        return all(a.shape is Shape.SCALAR for a in self.attributes)


def _attribute(name: str, spec: object) -> Attribute:
    default: Scalar | None = None
    if isinstance(spec, Attribute):
        return Attribute(name, spec.type, spec.default, spec.shape)
    if isinstance(spec, tuple) and len(spec) == 2:
        spec, default = spec
    if isinstance(spec, Mapping):
        given: Mapping[str, Any] = spec
        spec, default = given.get("type"), given.get("default")
    shape, spec = _shape_of(spec)
    kind = spec if isinstance(spec, Type) else _type_named(spec)
    if kind is None:
        raise SchemaError(
            f"attribute {name!r} has type {spec!r}: choose int, double, string, bool or timestamp, "
            "a list of these (list[str]), or a map from text to these (dict[str, str])"
        )
    if default is not None and shape is Shape.SCALAR:
        default = _convert(name, kind, default, SchemaError)
    return Attribute(name, kind, default, shape)


# As Arrow, Spark, Polars and we write them: list<item: string>, array<string>, List(String).
_LIST = re.compile(
    r"(?:large_|fixed_size_)?(?:list|array)(?:_view|type)?\s*[<(]\s*(?:\w+:\s*)?"
    r"([^<>,]+?)(?: not null)?(?:,\s*(?:true|false))?[>)](?:\[\d+\])?",
    re.IGNORECASE,
)
_MAP = re.compile(
    r"map(?:type)?\s*[<(]\s*(?:\w+:\s*)?(?:string|large_string|stringtype\(\))(?: not null)?,\s*"
    r"(?:\w+:\s*)?([^<>,]+?)(?:,\s*(?:true|false))?[>)]",
    re.IGNORECASE,
)


def _shape_of(spec: object) -> tuple[Shape, object]:
    """Whether this is a list or a map, and the type of its values."""
    origin, inner = typing.get_origin(spec), typing.get_args(spec)
    if origin is list and len(inner) == 1:
        return Shape.LIST, inner[0]
    if origin is dict and inner[:1] == (str,):
        return Shape.MAP, inner[1]
    if isinstance(spec, type | Type):
        return Shape.SCALAR, spec
    text = str(spec)
    for pattern, shape in ((_LIST, Shape.LIST), (_MAP, Shape.MAP)):
        if found := pattern.fullmatch(text):
            return shape, found[1]
    return Shape.SCALAR, spec


def _element(name: str, kind: Type, value: object) -> Scalar | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return _convert(name, kind, value, MessageError)


def _type_named(spec: object) -> Type | None:
    if isinstance(spec, type) and spec in _PYTHON_TYPES:
        return _PYTHON_TYPES[spec]
    return type_named(spec.__name__ if isinstance(spec, type) else str(spec))


def type_named(name: str) -> Type | None:
    """The type that some library calls so: `timestamp[us]`, `Int64`, `LongType()`."""
    word = name.lower().partition("[")[0].partition("(")[0].strip()
    return _NAMES.get(word) or _NAMES.get(word.removesuffix("type"))


def moment(name: str, text: str, error: type[Exception] = MessageError) -> datetime.datetime:
    """The moment that ISO 8601 text names, to the microsecond; without an offset it is UTC."""
    try:
        found = datetime.datetime.fromisoformat(text)
        if found.utcoffset() is None:
            return found.replace(tzinfo=datetime.UTC)
        return found.astimezone(datetime.UTC)
    except OverflowError:
        raise error(f"{name} = {text!r} is outside the years 1 to 9999 in UTC") from None
    except ValueError:
        shown = ascii(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")
        raise error(f"{name} = {shown} is not a timestamp: write 2000-02-01T09:30:00Z") from None


def _refuse_text(attribute: Attribute) -> None:
    """A default is a value; `Schema.of` reads those that are texts."""
    if attribute.type is Type.TIMESTAMP and isinstance(attribute.default, str):
        raise SchemaError(
            f"the default of {attribute.name!r} is text: give a datetime, or use Schema.of"
        )


def _shown(value: Any) -> str:
    """Python refuses to print integers of many thousand digits."""
    bits = value.bit_length()
    return str(value) if bits <= 256 else f"an integer of {bits:,} bits"


def _convert(name: str, kind: Type, value: object, error: type[Exception]) -> Scalar:
    found = type_of(value)
    if found is Type.INT and not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
        raise error(f"{name} = {_shown(value)} does not fit into 64 bits")
    if found is kind:
        return value  # type: ignore[return-value]
    if found is Type.INT and kind is Type.DOUBLE:
        return float(value)  # type: ignore[arg-type]
    if isinstance(value, float) and kind is Type.INT and value.is_integer():
        return _convert(name, kind, int(value), error)
    if isinstance(value, str) and kind is Type.TIMESTAMP:
        return moment(name, value, error)
    raise error(f"{name} = {value!r} is not of type {kind.value}")
