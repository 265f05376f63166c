"""The value of an attribute in one message."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tamis.errors import MessageError
from tamis.schema import INT_MAX, INT_MIN, Schema, Shape

_SHOWN = 40  # characters of a bad value shown in an error


def lookup(message: Mapping[str, Any], name: str) -> Any:
    """What `message` says of attribute `name`; None where it is undefined (also NaN).

    The exact key comes first; then `a.b` is the field b of the nested message a. Dates and
    timestamps become datetimes in UTC, decimals become doubles, numpy scalars become Python's. A
    value of a type that Tamis does not know is returned as it is.
    """
    value: Any = message.get(name)
    kind: object = type(value)
    # The common cases first: this function runs for every attribute of every message.
    if kind is str:
        return value if value.isascii() else _text(name, value)
    if kind is float:
        return value if value == value else None
    if kind is bool:
        return value
    if kind is int:
        return value if INT_MIN <= value <= INT_MAX else _integer(name, value)
    if value is None:
        return None if "." not in name or name in message else settle(name, walk(message, name))
    return settle(name, value)


def settle(name: str, value: Any) -> object | None:
    """`value` as a plain bool, int, float, str or datetime in UTC where it is some form of one."""
    match value:
        case None | bool():
            return value
        case str():
            return _text(name, str.__str__(value))
        case int():
            return _integer(name, int.__int__(value))
        case float():
            return float.__float__(value) if value == value else None
        case datetime.datetime():
            return utc(name, value) if value == value else None  # pandas' NaT is unequal to itself
        case datetime.date():
            return datetime.datetime.combine(value, datetime.time(), datetime.UTC)
        case Decimal():
            return _decimal(name, value)
        case list() | tuple() if (several := as_list(value)) is not None:
            return [_element(name, one) for one in several]
    if type(value).__module__ == "numpy":
        return _from_numpy(name, value)
    return None if _is_na(value) else value


def _element(name: str, value: Any) -> object | None:
    """An element of a list; a list in a list is of no type of ours."""
    return value if isinstance(value, list | tuple) else settle(name, value)


def fitted(schema: Schema, name: str, found: Any) -> Any:
    """What was found for an attribute of the schema, as the schema wants it."""
    if schema[name].shape is Shape.MAP and isinstance(found, Mapping):
        found = {key: settle(name, value) for key, value in found.items()}
    return schema.convert(name, found)


def utc(name: str, value: datetime.datetime) -> datetime.datetime:
    """`value` in UTC; a naive datetime is taken to be in UTC already."""
    if type(value) is not datetime.datetime:
        value = datetime.datetime.combine(value.date(), value.time(), value.tzinfo)
    if value.tzinfo is datetime.UTC:
        return value
    if value.utcoffset() is None:
        return value.replace(tzinfo=datetime.UTC)
    try:
        return value.astimezone(datetime.UTC)
    except OverflowError:
        raise MessageError(f"{name} = {value} is outside the years 1 to 9999 in UTC") from None


def walk(message: Mapping[str, Any], name: str) -> Any:
    """What stands in nested messages along the dots of the name; of a list of messages, a list."""
    return _inside(message, name.split("."))


def _inside(value: Any, path: list[str]) -> Any:
    for i, part in enumerate(path):
        if type(value) is not dict and not isinstance(value, Mapping):
            several = as_list(value)
            return None if several is None else [_inside(one, path[i:]) for one in several]
        value = value.get(part)
    return value


def as_list(value: Any) -> list[Any] | None:
    """The elements of a list, a tuple or an array of one dimension; None for anything else."""
    if type(value) is list:
        return value
    if type(value) is tuple or isinstance(value, list):
        return list(value)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 0) == 1:
        return list(value)
    return None


def _text(name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        shown = ascii(value[:_SHOWN])
        raise MessageError(f"{name} = {shown} holds a lone surrogate: it is no text") from None
    return value


def _integer(name: str, value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    # Python refuses to print integers of many thousand digits, so the size is told in bits.
    shown = str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"
    raise MessageError(f"{name} = {shown} does not fit into 64 bits")


def _decimal(name: str, value: Decimal) -> float | None:
    """The nearest double, where reading that back gives the same decimal: as in Arrow columns."""
    if value.is_nan():
        return None
    double = float(value)
    if Decimal(repr(double)) != value:
        shown = f"{value.normalize():.{_SHOWN}g}" if len(str(value)) > _SHOWN else str(value)
        raise MessageError(f"{name} = {shown} has more digits than a double")
    return double


def _is_na(value: Any) -> bool:
    """Whether this is pandas' NA. (pandas need not be installed.)"""
    kind = type(value)
    return kind.__name__ == "NAType" and kind.__module__.startswith("pandas.")


def _from_numpy(name: str, value: Any) -> object | None:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if (several := as_list(value)) is not None:
        return [_element(name, one) for one in several]
    if not kind or getattr(value, "shape", None) != ():
        return value  # type: ignore[no-any-return]
    if kind == "f":
        return settle(name, float(value))  # item() of a long double is a long double again
    if kind == "M":  # item() of nanoseconds is a bare integer
        moment = value.astype("datetime64[us]").item()
        if isinstance(moment, int):
            raise MessageError(f"{name} = {value} is outside the years 1 to 9999")
        return settle(name, moment)
    plain = value.item()
    return plain if type(plain).__module__ == "numpy" else settle(name, plain)
