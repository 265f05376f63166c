"""A packet drawn like figure 18: four bytes to the row, with what they say and what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tamis.language import canonical
from tamis.pubsub.selectors import condition
from tamis.pubsub.subjects.typecodes import FORMS, TypeCode
from tamis.pubsub.wire.attribute_tests import filter_of
from tamis.pubsub.wire.codec import Codec
from tamis.pubsub.wire.wire_messages import (
    AttributeTest,
    Message,
    Notification,
    Operator,
    Resubscription,
    Subscription,
    Unsubscription,
)
from tamis.pubsub.wire.wire_values import Reader, moment
from tamis.schema import Type

_HEADER = (
    "bytes in message",
    "channel",
    "publisher",
    "session of the publisher",
    "sequence number",
)
_TITLES = ("at", "bytes", "value", "meaning")


class Row(NamedTuple):
    at: int
    data: bytes
    value: str
    meaning: str


def drawing(codec: Codec, packet: bytes) -> str:
    """The packet as a table; WireError where it is none."""
    found = [
        _TITLES,
        *((str(r.at), r.data.hex(" "), r.value, r.meaning) for r in rows(codec, packet)),
    ]
    widths = [max(len(row[i]) for row in found) for i in range(3)]
    return "\n".join(
        f"{at:>{widths[0]}}  {data:{widths[1]}}  {value:{widths[2]}}  {meaning}".rstrip()
        for at, data, value, meaning in found
    )


def said(codec: Codec, message: Message) -> str:
    """What a message says, in a line."""
    match message:
        case Notification(subject=subject, attributes=attributes):
            shown = ", ".join(f"{name} = {value!r}" for name, value in attributes.items())
            return f"{subject}: {shown}"
        case Subscription() | Resubscription():
            asked = canonical(condition(filter_of(message.disjuncts, codec.channel)))
            kind = type(message).__name__
            return f"{kind} {message.id} to {message.subjects}: {asked}"
        case Unsubscription(id=id):
            return f"Unsubscription {id}"
    shown = ", ".join(f"{k} = {v!r}" for k, v in list(message._asdict().items())[4:])
    return f"{type(message).__name__}: {shown}"


def rows(codec: Codec, packet: bytes) -> Iterator[Row]:
    message = codec.decode(packet)
    draw = _Drawing(codec, packet)
    for meaning in _HEADER:
        yield draw.number(meaning)
    count = int.from_bytes(packet[20:24])
    yield draw.number("number of subject fields")
    yield from draw.fields(count)
    if isinstance(message, Subscription | Resubscription | Unsubscription):
        yield draw.pair("port", "subscription id")
        if not isinstance(message, Unsubscription):
            yield from draw.subscription(message)
    else:
        yield from draw.attributes(packet[24:26] == b"\0\0")


class _Drawing:
    """Rows from front to back. The packet was decoded already, so nothing is checked here."""

    def __init__(self, codec: Codec, packet: bytes) -> None:
        self.codec, self.reader = codec, Reader(packet)

    def row(self, value: str, meaning: str, size: int = 4) -> Row:
        at = self.reader.at
        return Row(at, self.reader.take(size), value, meaning)

    def number(self, meaning: str) -> Row:
        at = self.reader.at
        return self.row(str(int.from_bytes(self.reader.data[at : at + 4])), meaning)

    def pair(self, first: str, second: str) -> Row:
        at, data = self.reader.at, self.reader.data
        left, right = int.from_bytes(data[at : at + 2]), int.from_bytes(data[at + 2 : at + 4])
        return self.row(f"{left} | {right}", f"{first} | {second}")

    def fields(self, count: int) -> Iterator[Row]:
        """Two to the row; half a row may be left."""
        known = self.codec.channel.fields
        for i in range(0, count, 2):
            at, data = self.reader.at, self.reader.data
            numbers = [int.from_bytes(data[j : j + 2]) for j in (at, at + 2)][: count - i]
            names = [f"{known[n]}" for n in numbers] + ["padding"] * (i + 1 == count)
            yield self.row(" | ".join(map(str, numbers)), " | ".join(names))

    def subscription(self, message: Subscription | Resubscription) -> Iterator[Row]:
        tests = [(i == 0, test) for one in message.disjuncts for i, test in enumerate(one)]
        yield self.pair("subject filter fields", "attribute tests")
        yield from self.fields(len(message.subjects.split(".")))
        for i in range(0, len(tests), 2):
            pair = tests[i : i + 2]
            bits = [_bits(self.reader.data, self.reader.at + 2 * j) for j in range(len(pair))]
            told = [("" if first else "and ") + self.told(test) for first, test in pair]
            yield self.row(" | ".join(bits), " | ".join(told + ["padding"] * (len(pair) == 1)))
        for _, test in tests:
            yield from self.operands(test)

    def told(self, test: AttributeTest) -> str:
        return f"{self.name(test)} {_SIGNS[test.operator]}"

    def name(self, test: AttributeTest) -> str:
        if isinstance(test.attribute, str):
            return test.attribute
        return self.codec.channel.attributes[test.attribute].name

    def operands(self, test: AttributeTest) -> Iterator[Row]:
        if isinstance(test.attribute, str):
            yield from self.text("name of the attribute")
        if test.operator in (Operator.IN, Operator.NOT_IN):
            yield self.number("number of operands")
        for _ in test.operands:
            yield from self.value(test.type, f"operand of {self.told(test)}")

    def value(self, code: TypeCode, meaning: str) -> Iterator[Row]:
        if FORMS[code].type is Type.STRING:
            yield from self.text(meaning)
        else:
            at = self.reader.at
            found = self.reader.operand(code)
            shown = moment(found) if code is TypeCode.TIMESTAMP else found
            yield Row(at, self.reader.data[at : self.reader.at], str(shown), meaning)

    def text(self, meaning: str) -> Iterator[Row]:
        at = self.reader.at
        size = int.from_bytes(self.reader.data[at : at + 4])
        yield self.number(f"size of {meaning}")
        yield from self.letters(size, meaning)

    def letters(self, size: int, meaning: str) -> Iterator[Row]:
        for first in range(0, size, 4):
            at = self.reader.at
            shown = ascii(self.reader.data[at : at + 4].decode("latin-1"))[1:-1]
            yield self.row(shown, meaning if first == 0 else "")

    def attributes(self, control: bool) -> Iterator[Row]:
        reader, places = self.reader, self.codec.channel.attributes
        at = reader.at
        count, more = (int.from_bytes(reader.data[i : i + 2]) for i in (at, at + 2))
        yield self.pair("predefined attributes", "discretionary attributes")
        masks = []
        for first in range(0, count, 32):
            masks.append(int.from_bytes(reader.data[reader.at : reader.at + 4]))
            yield self.row(f"{masks[-1]:b}", f"which are present, from {first} on (last bit first)")
        sizes = []
        for i, place in enumerate(places[:count]):
            there = masks[i // 32] >> i % 32 & 1
            if not there:
                yield self.row("", f"{place.name}: absent", FORMS[place.type].size)
            elif FORMS[place.type].type is Type.STRING:
                sizes.append((int.from_bytes(reader.data[reader.at : reader.at + 4]), place.name))
                yield self.number(f"size of {place.name}")
            else:
                yield from self.value(place.type, place.name)
        for size, name in sizes:
            yield from self.letters(size, name)
        for _ in range(more):
            yield from self.discretionary()

    def discretionary(self) -> Iterator[Row]:
        at, data = self.reader.at, self.reader.data
        code, size = (int.from_bytes(data[i : i + 2]) for i in (at, at + 2))
        yield self.pair("type", "size of the name")
        name = data[at + 4 : at + 4 + size].decode()
        yield from self.letters(size, "name")
        yield from self.value(TypeCode(code), name)


_SIGNS = ("<=", ">=", "between", "==", "in", "not in", "absent", "present")


def _bits(data: bytes, at: int) -> str:
    """D, place, type and operator, with gaps."""
    bits = f"{int.from_bytes(data[at : at + 2]):016b}"
    return f"{bits[0]} {bits[1:8]} {bits[8:13]} {bits[13:]}"
