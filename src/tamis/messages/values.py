"""The value of an attribute in one message."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from tamis.errors import MessageError
from tamis.schema import INT_MAX, INT_MIN

_SHOWN = 40  # characters of a bad value shown in an error


def lookup(message: Mapping[str, Any], name: str) -> Any:
    """What `message` says of attribute `name`; None where it is undefined (also NaN).

    The exact key comes first; then `a.b` is the field b of the nested message a. Dates and
    timestamps become datetimes in UTC, numpy scalars become Python's. A value of a type that
    Tamis does not know is returned as it is.
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
        return None if "." not in name or name in message else settle(name, _walk(message, name))
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
    return _from_numpy(name, value) if type(value).__module__ == "numpy" else value


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


def _walk(message: Mapping[str, Any], name: str) -> Any:
    value: Any = message
    for part in name.split("."):
        if type(value) is not dict and not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


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


def _from_numpy(name: str, value: Any) -> object | None:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
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
