"""Attributes, their types and defaults: the event schema of ICSE 2001, section 4."""

from __future__ import annotations

import datetime
import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tamis.errors import MessageError, SchemaError

Scalar = bool | int | float | str | datetime.datetime
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


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


_PYTHON_TYPES: dict[object, Type] = {
    int: Type.INT,
    float: Type.DOUBLE,
    str: Type.STRING,
    bool: Type.BOOL,
    datetime.datetime: Type.TIMESTAMP,
}
_NAMES = {t.value: t for t in Type} | {"integer": Type.INT, "long": Type.INT, "float": Type.DOUBLE}


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
    """One column of the schema. `default` None means: undefined (the paper's bottom)."""

    name: str
    type: Type
    default: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Schema(Mapping[str, Attribute]):
    """The attributes of a message, in order. Holding one means: names and defaults are valid."""

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        names = [a.name for a in self.attributes]
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise SchemaError(f"attribute {twice!r} is named twice")
        for a in self.attributes:
            if not a.name:
                raise SchemaError("an attribute needs a name")
            if a.default is not None:
                _convert(a.name, a.type, a.default, SchemaError)

    @classmethod
    def of(cls, types: Mapping[str, object] | None = None, /, **more: object) -> Schema:
        """`Schema.of(price=float, company=str)`; a pair gives a default: `price=(float, -1.0)`.

        A mapping as first argument takes names that are no Python identifiers.
        """
        given = {**(types or {}), **more}
        return cls(tuple(_attribute(name, spec) for name, spec in given.items()))

    def __getitem__(self, name: str) -> Attribute:
        for a in self.attributes:
            if a.name == name:
                return a
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (a.name for a in self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def convert(self, name: str, value: object) -> Scalar | None:
        """`value` as the attribute's type (an int where a double is due, ...), None if undefined.

        Raises MessageError where the types do not fit.
        """
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        return _convert(name, self[name].type, value, MessageError)


def _attribute(name: str, spec: object) -> Attribute:
    default: Scalar | None = None
    if isinstance(spec, tuple) and len(spec) == 2:
        spec, default = spec
    if isinstance(spec, Mapping):
        given: Mapping[str, Any] = spec
        spec, default = given.get("type"), given.get("default")
    kind = spec if isinstance(spec, Type) else _type_named(spec)
    if kind is None:
        raise SchemaError(
            f"attribute {name!r} has type {spec!r}: choose int, double, string, bool or timestamp"
        )
    if default is not None:
        default = _convert(name, kind, default, SchemaError)
    return Attribute(name, kind, default)


def _type_named(spec: object) -> Type | None:
    return _PYTHON_TYPES.get(spec) if isinstance(spec, type) else _NAMES.get(str(spec).lower())


def _convert(name: str, kind: Type, value: object, error: type[Exception]) -> Scalar:
    found = type_of(value)
    if found is Type.INT and not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
        raise error(f"{name} = {value} does not fit into 64 bits")
    if found is kind:
        return value  # type: ignore[return-value]
    if found is Type.INT and kind is Type.DOUBLE:
        return float(value)  # type: ignore[arg-type]
    if isinstance(value, float) and kind is Type.INT and value.is_integer():
        return _convert(name, kind, int(value), error)
    raise error(f"{name} = {value!r} is not of type {kind.value}")
