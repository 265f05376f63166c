"""Values as exact numbers, so that one kind of bound serves all types.

Booleans are 0 and 1, timestamps microseconds, doubles fractions; a string is a fraction that
orders as its code points do. Between two strings, and between two doubles, there is always a
number: whether a value stands for it shows when it is asked for.
"""

from __future__ import annotations

import datetime
import math
from fractions import Fraction
from typing import Any

from tamis.errors import StateError
from tamis.logic.atoms import microseconds
from tamis.schema import INT_MAX, INT_MIN, Type

Number = int | Fraction
_BASE = 0x110000 + 1  # digits are code points + 1: the empty string is below all others
_INFINITY = 2**1100  # above every double
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LONGEST = 1_000  # characters of a string that can be solved for
WHOLE = frozenset({Type.INT, Type.BOOL, Type.TIMESTAMP})


def number_of(value: Any) -> Number:
    """The number that stands for a defined value."""
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        if math.isinf(value):
            return _INFINITY if value > 0 else -_INFINITY
        return int(value) if value.is_integer() else Fraction(value)
    if isinstance(value, datetime.datetime):
        return microseconds(value)
    return _text_number(value)


def value_of(number: Number, kind: Type) -> object | None:
    """The value of the type that stands for the number; None where there is none."""
    if kind is Type.DOUBLE:
        return _double(number)
    if kind is Type.STRING:
        return _text(Fraction(number))
    if Fraction(number).denominator != 1 or not INT_MIN <= number <= INT_MAX:
        return None
    if kind is Type.BOOL:
        return bool(number) if number in (0, 1) else None
    if kind is Type.TIMESTAMP:
        try:
            return _EPOCH + datetime.timedelta(microseconds=int(number))
        except OverflowError:
            return None
    return int(number)


def between(low: Number | None, high: Number | None, kind: Type) -> list[Number]:
    """Numbers to try between two bounds (which are open where a value lies on them)."""
    if kind is Type.STRING:
        return [
            _text_number((_floor_text(low) if low is not None else "") + tail) for tail in " a~"
        ]
    if low is not None and high is not None:
        middle = (Fraction(low) + high) / 2
        return [math.floor(middle), math.ceil(middle), middle, *_doubles(low, high)]
    if low is not None:
        return [math.floor(low) + 1]
    return [math.ceil(high) - 1] if high is not None else [0]


def _doubles(low: Number, high: Number) -> list[Number]:
    near = float(low) if -_INFINITY < low < _INFINITY else 0.0
    after = math.nextafter(near, math.inf)
    return [number_of(after)]


def _double(number: Number) -> float | None:
    if not -_INFINITY < number < _INFINITY:
        return math.inf if number > 0 else -math.inf
    try:
        return float(number)
    except OverflowError:
        return None


def _text_number(text: str) -> Number:
    if len(text) > _LONGEST:
        raise StateError(f"a string of {len(text):,} characters cannot be expanded",
                         hint=f"the limit is {_LONGEST:,}", limit="characters")  # fmt: skip
    digits = 0
    for character in text:
        digits = digits * _BASE + ord(character) + 1
    return Fraction(digits, _BASE ** len(text)) if text else 0


def _text(number: Fraction) -> str | None:
    """The string of exactly this number; None where a digit is missing or is no character."""
    if not 0 <= number < 1:
        return None
    found: list[str] = []
    while number and len(found) <= _LONGEST:
        number *= _BASE
        digit = math.floor(number)
        if digit == 0 or 0xD801 <= digit <= 0xE000:
            return None
        found.append(chr(digit - 1))
        number -= digit
    return None if number else "".join(found)


def _floor_text(number: Number) -> str:
    """The string that stands for the number, or one near it and below."""
    rest, found = Fraction(number), ""
    while 0 < rest < 1 and len(found) < _LONGEST:
        rest *= _BASE
        digit = math.floor(rest)
        if digit == 0 or 0xD801 <= digit <= 0xE000:
            break
        found += chr(digit - 1)
        rest -= digit
    return found
