"""Text as values: by the type that the schema gives, or by looking."""

from __future__ import annotations

import math
import re
from typing import Any

from tamis.errors import MessageError
from tamis.messages.message_values import fitted, settle
from tamis.messages.row_batches import excerpt
from tamis.schema import Scalar, Schema, Shape, Type, moment

_INT = re.compile(r"[+-]?[0-9]++")
_DOUBLE = re.compile(r"[+-]?([0-9]++(\.[0-9]*+)?+|\.[0-9]++)([eE][+-]?[0-9]++)?+")
_NAMED_DOUBLE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_BOOLS = {"true": True, "false": False}
_MAX_DIGITS = 4000  # Python refuses to read longer integers
# "007" and "+5" look like codes, not like numbers: reading them as numbers would lose something.
_PLAIN_INT = re.compile(r"-?(0|[1-9][0-9]*+)")
_PLAIN_DOUBLE = re.compile(r"-?((0|[1-9][0-9]*+)(\.[0-9]*+)?+|\.[0-9]++)([eE][+-]?[0-9]++)?+")


def guess(name: str, text: str) -> Scalar:
    """An int, a double or a bool if `text` is written like one, else `text` itself."""
    if _PLAIN_INT.fullmatch(text):
        return _integer(name, text)
    if _PLAIN_DOUBLE.fullmatch(text):
        return float(text)
    known = _BOOLS.get(text.lower()) if len(text) <= 5 else None
    return text if known is None else known


def from_text(schema: Schema, name: str, text: str) -> Scalar | None:
    """`text` as a value of the attribute's type; None where it is empty, or NaN."""
    kind = schema[name].type
    if schema[name].shape is not Shape.SCALAR:
        raise MessageError(f"{name} is a {schema[name].kind}: this format has only plain values")
    if kind is Type.STRING:
        return text or None
    text = text.strip()
    if not text:
        return None
    if kind is Type.INT and _INT.fullmatch(text):
        return _integer(name, text)
    if kind is Type.DOUBLE and (_DOUBLE.fullmatch(text) or _NAMED_DOUBLE.fullmatch(text)):
        number = float(text)
        return None if math.isnan(number) else number
    if kind is Type.BOOL and text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    if kind is Type.TIMESTAMP:
        return moment(name, text)
    raise MessageError(f"{name} = {excerpt(repr(text))} is not of type {kind.value}")


def from_value(schema: Schema, name: str, value: Any) -> Any:
    """A value of a JSON document as the schema wants it. Timestamps are ISO 8601 text."""
    try:
        return fitted(schema, name, settle(name, value))
    except MessageError as error:
        raise MessageError(excerpt(error)) from None


def _integer(name: str, text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise MessageError(f"{name} = {text[:20]}... does not fit into 64 bits")
    value = settle(name, int(text))
    assert isinstance(value, int)
    return value
