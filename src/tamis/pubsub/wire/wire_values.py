"""Single values in packets: big-endian, each in a multiple of four bytes.

Numbers of fewer than 32 bits take four bytes; a text is its size, its UTF-8 bytes, and NULs up to
the next multiple of four.
"""

from __future__ import annotations

import datetime
import struct
from typing import Any

from tamis.errors import WireError
from tamis.logic.atoms import microseconds
from tamis.pubsub.subjects.precision import is_single
from tamis.pubsub.subjects.typecodes import CODE_OF_TYPE, FORMS, TypeCode
from tamis.schema import Type, type_of

PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")  # by the size modulo four
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LEAST_TIME = microseconds(datetime.datetime.min.replace(tzinfo=datetime.UTC))
_MOST_TIME = microseconds(datetime.datetime.max.replace(tzinfo=datetime.UTC))
_STRUCTS = {code: struct.Struct(">" + f.letter) for code, f in FORMS.items() if f.letter}
_U32, _U16 = struct.Struct(">I"), struct.Struct(">H")


class Reader:
    """Bytes that are read from front to back; running out of them is a WireError."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise WireError(f"the packet ends within {size:,} bytes that it announces", self.at)
        found = self.data[self.at : self.at + size]
        self.at += size
        return found

    def u32(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def u16(self) -> int:
        return int(_U16.unpack(self.take(2))[0])

    def u16s(self, count: int) -> tuple[int, ...]:
        """So many numbers, and what fills the last four bytes."""
        found = struct.unpack(f">{count}H", self.take(2 * count))
        self.align()
        return found

    def align(self) -> None:
        self.take(-self.at % 4)

    def text(self, size: int) -> str:
        start = self.at
        try:
            found = self.take(size).decode()
        except UnicodeDecodeError:
            raise WireError("a text is not UTF-8", start) from None
        self.align()
        return found

    def value(self, code: TypeCode) -> Any:
        """A value as messages have it."""
        return message_value(self.operand(code))

    def operand(self, code: TypeCode) -> Any:
        """A value as tests have it: times are microseconds."""
        start, form = self.at, FORMS[code]
        if form.type is Type.STRING:
            return self.text(self.u32())
        found = _STRUCTS[code].unpack(self.take(form.size))[0]
        if form.type is Type.DOUBLE:
            if found != found:
                raise WireError("NaN is no value: leave the attribute out", start)
            return found
        if form.type is Type.TIMESTAMP:
            if not _LEAST_TIME <= found <= _MOST_TIME:
                raise WireError("a time is outside the years 1 to 9999", start)
            return Moment(found)
        if not form.least <= found <= form.most:
            raise WireError(f"{found} is no {form.toml}", start)
        return bool(found) if form.type is Type.BOOL else found

    def end(self) -> None:
        if self.at != len(self.data):
            raise WireError(f"{len(self.data) - self.at:,} bytes are left over", self.at)


class Moment(int):
    """A time in microseconds since 1970."""


def message_value(operand: Any) -> Any:
    return moment(operand) if isinstance(operand, Moment) else operand


def moment(micros: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=micros)


def code_of(name: str, value: object) -> TypeCode:
    """The type of a discretionary attribute."""
    kind = type_of(value)
    if kind is None:
        raise WireError(f"{name} = {value!r} is of no type that a packet can hold")
    return CODE_OF_TYPE[kind]


def pack_text(text: str) -> bytes:
    """The size of the text, its bytes, and padding."""
    found = encoded(text)
    return _U32.pack(len(found)) + found + PADDING[len(found) & 3]


def encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise WireError(f"{text[:40]!a} holds a lone surrogate: it is no text") from None


def pack_value(code: TypeCode, value: Any, name: str) -> bytes:
    """A value, or an operand, as the type has it; WireError where it does not fit."""
    form, kind = FORMS[code], type_of(value)
    if kind is Type.INT and form.type is Type.TIMESTAMP:
        if not _LEAST_TIME <= value <= _MOST_TIME:
            raise WireError(f"{name}: a time is outside the years 1 to 9999")
        return _STRUCTS[code].pack(value)
    if kind is not form.type and not (kind is Type.INT and form.type is Type.DOUBLE):
        raise WireError(f"{name} = {value!r} is no {form.toml}")
    if form.type is Type.STRING:
        return pack_text(value)
    if form.type is Type.TIMESTAMP:
        value = microseconds(value if value.tzinfo else value.replace(tzinfo=datetime.UTC))
    elif form.type is not Type.DOUBLE and not form.least <= value <= form.most:
        raise WireError(f"{name} = {value} is no {form.toml}: {form.least} to {form.most} are")
    return _packed_number(code, value, name)


def _packed_number(code: TypeCode, value: Any, name: str) -> bytes:
    try:
        found = _STRUCTS[code].pack(value)
    except OverflowError:
        raise WireError(f"{name} = {value!r} is no {FORMS[code].toml}") from None
    if code is TypeCode.FLOAT and not is_single(value):
        raise WireError(f"{name} = {value!r} has more than the 24 bits of a float32: round it")
    if code is TypeCode.DOUBLE and isinstance(value, int) and int(float(value)) != value:
        raise WireError(f"{name} = {value} has more than the 53 bits of a double")
    return found
