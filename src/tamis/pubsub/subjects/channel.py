"""A channel: what its packets hold. Subjects with numbers, attributes with places, properties.

A channel only ever grows: attributes are added at the end and numbers are never given away again,
so packets that were stored before can still be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from tamis.errors import ChannelError, SubjectError
from tamis.pubsub.subjects.subject import CONTROL, MORE, ONE, Subject, SubjectFilter
from tamis.pubsub.subjects.typecodes import FORMS, TypeCode
from tamis.schema import Attribute, Schema

MAX_ATTRIBUTES = 127  # places of seven bits; the last means: a discretionary attribute
MAX_NAME = 255  # bytes of an attribute's name
MAX_NUMBER, MAX_DECIMALS = 0xFFFF, 15
U32 = 0xFFFFFFFF

# `#` and SUBSCRIPTION as in table 13, `>` as in figure 18; the others are ours.
RESERVED: dict[str, int] = {
    CONTROL: 0,
    ONE: 4,
    MORE: 5,
    "RESUBSCRIPTION": 6,
    "UNSUBSCRIPTION": 7,
    "ADD_SUBJECT": 8,
    "getCache": 9,
    "ACKNOWLEDGEMENT": 10,
    "ERROR": 11,
    "COMMAND": 12,
    "ANSWER": 13,
    "SUBSCRIPTION": 100,
}
_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class ChannelAttribute:
    """A predefined attribute. `decimals`: publishers promise not to use more of them."""

    name: str
    type: TypeCode
    decimals: int | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.type not in FORMS:
            raise ChannelError(f"{self.name}: no attribute has type {self.type.name}")
        if self.decimals is not None:
            if self.type is not TypeCode.DOUBLE:  # a float32 is seldom near enough to one
                raise ChannelError(f"{self.name}: only doubles have decimals")
            if not 0 <= self.decimals <= MAX_DECIMALS:
                raise ChannelError(f"{self.name}: decimals are 0 to {MAX_DECIMALS}")


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ChannelError(f"{name!r} is no name: it is empty or has control characters")
    if len(name.encode()) > MAX_NAME:
        raise ChannelError(f"{name[:40]!r}...: a name has {MAX_NAME} bytes at most")


@dataclass(frozen=True, slots=True)
class Properties:
    """What happens to messages. Minutes, as in table 19; `retention` None: without end."""

    persistent: bool = False  # else real-time: nothing is kept
    retention: int | None = None
    granularity: int = 5

    def __post_init__(self) -> None:
        if self.granularity < 1 or (self.retention is not None and self.retention < 1):
            raise ChannelError("retention and granularity are whole minutes, one at least")


@dataclass(frozen=True)
class Channel:
    """Holding one means that it is valid. `numbers` map the fields of subjects (table 10)."""

    id: int
    attributes: tuple[ChannelAttribute, ...] = ()
    subjects: tuple[Subject, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    properties: Properties = Properties()
    communication: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.id <= U32:
            raise ChannelError(f"{self.id} is no channel id: it has 32 bits")
        if len(self.attributes) > MAX_ATTRIBUTES:
            raise ChannelError(
                f"channel {self.id} has {len(self.attributes)} predefined attributes: "
                f"{MAX_ATTRIBUTES} are allowed, the others must be discretionary"
            )
        names = [a.name for a in self.attributes]
        for name in names:
            if names.count(name) > 1:
                raise ChannelError(f"channel {self.id} has two attributes {name!r}")
        self._check_numbers()

    def _check_numbers(self) -> None:
        object.__setattr__(self, "numbers", {**RESERVED, **self.numbers})
        known: dict[int, str] = {}
        for name, number in self.numbers.items():
            if not 0 <= number <= MAX_NUMBER:
                raise ChannelError(f"field {name!r} has number {number}: numbers have 16 bits")
            if RESERVED.get(name, number) != number:
                raise ChannelError(f"field {name!r} has number {RESERVED[name]} on every channel")
            if number in known:
                raise ChannelError(f"fields {known[number]!r} and {name!r} share number {number}")
            known[number] = name
        for subject in self.subjects:
            missing = [f for f in subject.fields if f not in self.numbers]
            if missing:
                raise ChannelError(f"subject {subject}: field {missing[0]!r} has no number")

    # --- what packets need ------------------------------------------------------

    @cached_property
    def positions(self) -> dict[str, int]:
        return {a.name: i for i, a in enumerate(self.attributes)}

    @cached_property
    def schema(self) -> Schema:
        """The predefined attributes as matching sees them."""
        return Schema(tuple(Attribute(a.name, FORMS[a.type].type) for a in self.attributes))

    @cached_property
    def fields(self) -> dict[int, str]:
        """The field of each number."""
        return {number: name for name, number in self.numbers.items()}

    def numbers_of(self, subject: Subject | SubjectFilter) -> tuple[int, ...]:
        """The numbers of the fields; a SubjectError names a field without one."""
        try:
            return tuple([self.numbers[name] for name in subject.fields])
        except KeyError as missing:
            raise SubjectError(
                str(subject),
                f"field {missing.args[0]!r} has no number on channel {self.id}",
                "add the subject to the channel first",
            ) from None

    # --- growing ----------------------------------------------------------------

    def with_subject(self, text: str, mapping: str = "") -> Self:
        """The channel with one more subject; `mapping` may number its new fields."""
        subject = Subject.parse(text)
        numbers = dict(self.numbers)
        for name, number in zip(subject.fields, asked_numbers(subject, mapping), strict=True):
            if name not in numbers:
                numbers[name] = _free(numbers) if number is None else number
        known = self.subjects if subject in self.subjects else (*self.subjects, subject)
        return replace(self, subjects=known, numbers=numbers)

    def with_attribute(self, name: str, type: TypeCode, decimals: int | None = None) -> Self:
        """The channel with one more attribute, behind the others."""
        more = ChannelAttribute(name, type, decimals)
        return replace(self, attributes=(*self.attributes, more))


def asked_numbers(subject: Subject, mapping: str) -> list[int | None]:
    """A number for each field of the subject, as in `102.101`; an empty text asks for none."""
    if not mapping:
        return [None] * len(subject.fields)
    if not re.fullmatch(r"\d{1,5}(\.\d{1,5})*", mapping, re.ASCII):
        raise SubjectError(str(subject), f"{mapping[:40]!r} are no numbers of fields")
    found = [int(number) for number in mapping.split(".")]
    if len(found) != len(subject.fields):
        raise SubjectError(str(subject), f"{mapping[:40]!r} does not number its fields")
    return [*found]


def _free(numbers: Mapping[str, int]) -> int:
    taken = set(numbers.values())
    highest = max(taken) + 1
    if highest <= MAX_NUMBER:
        return highest
    for number in range(101, MAX_NUMBER + 1):
        if number not in taken:
            return number
    raise ChannelError("all 65,536 numbers of subject fields are taken")
