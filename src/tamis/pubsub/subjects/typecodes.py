"""The types of attributes on a channel: numbers of five bits, and what each holds.

6 and 12 are those of US 6,910,033, figure 18; the others are ours (docs/wire.md).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tamis.errors import ChannelError
from tamis.schema import Type


class TypeCode(enum.IntEnum):
    CHAR = 1
    BOOL = 2
    SHORT = 3
    USHORT = 4
    INT = 5
    UINT = 6
    LONG = 7
    FLOAT = 9
    DOUBLE = 10
    STRING = 11
    CHARARRAY = 12
    TIMESTAMP = 13
    OTHER = 30  # of tests alone: a value of no type of ours
    ANY = 31  # of tests alone: a value of any type

    __hash__ = int.__hash__


@dataclass(frozen=True, slots=True)
class Form:
    """How values of a type stand in a packet: `letter` is the struct module's, big-endian.

    `least` and `most` bound numbers. Texts have no letter: their size, then UTF-8.
    """

    type: Type
    letter: str
    size: int
    least: int = 0
    most: int = 0
    toml: str = ""


FORMS: dict[TypeCode, Form] = {
    TypeCode.CHAR: Form(Type.INT, "i", 4, -(2**7), 2**7 - 1, "int8"),
    TypeCode.BOOL: Form(Type.BOOL, "I", 4, 0, 1, "bool"),
    TypeCode.SHORT: Form(Type.INT, "i", 4, -(2**15), 2**15 - 1, "int16"),
    TypeCode.USHORT: Form(Type.INT, "I", 4, 0, 2**16 - 1, "uint16"),
    TypeCode.INT: Form(Type.INT, "i", 4, -(2**31), 2**31 - 1, "int32"),
    TypeCode.UINT: Form(Type.INT, "I", 4, 0, 2**32 - 1, "uint32"),
    TypeCode.LONG: Form(Type.INT, "q", 8, -(2**63), 2**63 - 1, "int64"),
    TypeCode.FLOAT: Form(Type.DOUBLE, "f", 4, toml="float32"),
    TypeCode.DOUBLE: Form(Type.DOUBLE, "d", 8, toml="double"),
    TypeCode.STRING: Form(Type.STRING, "", 4, toml="string"),
    TypeCode.CHARARRAY: Form(Type.STRING, "", 4, toml="chararray"),
    TypeCode.TIMESTAMP: Form(Type.TIMESTAMP, "q", 8, toml="timestamp"),
}
CODE_OF_TYPE: dict[Type, TypeCode] = {
    Type.INT: TypeCode.LONG,
    Type.DOUBLE: TypeCode.DOUBLE,
    Type.STRING: TypeCode.STRING,
    Type.BOOL: TypeCode.BOOL,
    Type.TIMESTAMP: TypeCode.TIMESTAMP,
}
_NAMES: dict[str, TypeCode] = {
    **{form.toml: code for code, form in FORMS.items()},
    **{kind.value: code for kind, code in CODE_OF_TYPE.items()},  # int is Tamis's, of 64 bits
    "float": TypeCode.DOUBLE,
}
_C_NAMES: dict[str, TypeCode] = {
    **{code.name: code for code in FORMS},
    "INT8": TypeCode.CHAR,
    "INT16": TypeCode.SHORT,
    "UINT16": TypeCode.USHORT,
    "INT32": TypeCode.INT,
    "UINT32": TypeCode.UINT,
    "INT64": TypeCode.LONG,
}


def named(text: str) -> TypeCode:
    """The type of a name: `uint32`, or as in table 13 `PC_UINT_TYPE`."""
    found = _NAMES.get(text)
    if text.startswith("PC_") and text.endswith("_TYPE"):
        found = _C_NAMES.get(text[3:-5].replace(" ", ""))
    if found is None:
        choices = ", ".join(form.toml for form in FORMS.values())
        raise ChannelError(f"there is no type {text!r}: choose {choices}, or PC_UINT_TYPE and such")
    return found


def c_name(code: TypeCode) -> str:
    return f"PC_{code.name}_TYPE"
