"""The functions that every selector knows: what they take and what they give."""

from __future__ import annotations

from typing import NamedTuple

from tamis.schema import Type

Types = frozenset[Type]
ANY: Types = frozenset(Type)
NUMBERS: Types = frozenset((Type.INT, Type.DOUBLE))
ONLY: dict[Type, Types] = {t: frozenset((t,)) for t in Type}
STRINGS, INTS, TIMESTAMPS = ONLY[Type.STRING], ONLY[Type.INT], ONLY[Type.TIMESTAMP]
ADDRESSES = ("ipv4", "ipv6_high", "ipv6_low")  # parts of an address: language/addresses.py
CALENDAR = ("year", "month", "day", "hour", "minute", "weekday")


class Signature(NamedTuple):
    """`result` None: of the type of its arguments. `fewest`: the arguments that must be there."""

    arguments: tuple[Types, ...]
    result: Type | None
    fewest: int

    @property
    def taken(self) -> str:
        """How many arguments, in words."""
        if self.fewest < len(self.arguments):
            return f"{_NUMBERS[self.fewest]} or {_NUMBERS[len(self.arguments)]} arguments"
        return f"{_NUMBERS[self.fewest]} argument" + ("s" if self.fewest > 1 else "")


_NUMBERS = ("no", "one", "two", "three")
SIGNATURES: dict[str, Signature] = {
    "abs": Signature((NUMBERS,), None, 1),
    "lower": Signature((STRINGS,), Type.STRING, 1),
    "upper": Signature((STRINGS,), Type.STRING, 1),
    "casefold": Signature((STRINGS,), Type.STRING, 1),
    "length": Signature((STRINGS,), Type.INT, 1),
    "trim": Signature((STRINGS,), Type.STRING, 1),
    "substr": Signature((STRINGS, INTS, INTS), Type.STRING, 2),
    **{name: Signature((TIMESTAMPS,), Type.INT, 1) for name in CALENDAR},
    **{name: Signature((STRINGS,), Type.INT, 1) for name in ADDRESSES},
}
QUANTIFIERS = ("any", "all")  # of the elements of a list
ITEM = "[]"  # labels['env']: the value of a map, by its key
FUNCTIONS = (*SIGNATURES, "coalesce", "size", *QUANTIFIERS)
ALIASES = {"substring": "substr", "ifnull": "coalesce", "nvl": "coalesce"}
