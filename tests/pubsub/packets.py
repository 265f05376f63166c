"""Channels, messages and packets to test with, and packets that somebody has damaged."""

from __future__ import annotations

import datetime
import random
import struct
from collections.abc import Iterator

from hypothesis import strategies as hs

import strategies as st
from tamis.language import Condition
from tamis.logic.dnf import dnf
from tamis.pubsub.subjects.channel import Channel, ChannelAttribute
from tamis.pubsub.subjects.typecodes import FORMS, TypeCode
from tamis.pubsub.wire import (
    Acknowledgement,
    AddSubject,
    ErrorReport,
    GetCache,
    Message,
    Notification,
    Resubscription,
    Subscription,
    Unsubscription,
    disjuncts_of,
)
from tamis.schema import Type

SUBJECTS = ("quotes.nyse", "quotes", "a.b.c", "Größe.x", "quotes.nyse.b.c.a")
FILTERS = (">", "*", "quotes.*", "a.>", "*.nyse", "quotes.nyse")
NAMES = ("price", "symbol", "volume", "flag", "when", "rate", "short", "char", "name")
# One attribute of each type; their names have homes in tests/strategies.py where they can.
ALL = Channel(
    7,
    (
        ChannelAttribute("price", TypeCode.DOUBLE),
        ChannelAttribute("name", TypeCode.STRING),
        ChannelAttribute("a", TypeCode.LONG),
        ChannelAttribute("flag", TypeCode.BOOL),
        ChannelAttribute("when", TypeCode.TIMESTAMP),
        ChannelAttribute("b", TypeCode.INT),
        ChannelAttribute("char", TypeCode.CHAR),
        ChannelAttribute("short", TypeCode.SHORT),
        ChannelAttribute("ushort", TypeCode.USHORT),
        ChannelAttribute("uint", TypeCode.UINT),
        ChannelAttribute("$_1", TypeCode.FLOAT),
        ChannelAttribute("odd name", TypeCode.CHARARRAY),
        ChannelAttribute("cents", TypeCode.DOUBLE, 2),
    ),
)
STOCK = Channel(
    2,
    (
        ChannelAttribute("symbol", TypeCode.STRING),
        ChannelAttribute("price", TypeCode.DOUBLE),
        ChannelAttribute("volume", TypeCode.LONG),
        ChannelAttribute("venue", TypeCode.CHARARRAY),
        ChannelAttribute("open", TypeCode.BOOL),
    ),
)
WIDE = Channel(9, tuple(ChannelAttribute(f"w{i}", list(FORMS)[i % len(FORMS)]) for i in range(127)))
for _text in SUBJECTS:
    ALL, STOCK, WIDE = (channel.with_subject(_text) for channel in (ALL, STOCK, WIDE))
EMPTY = Channel(11).with_subject("a.b.c").with_subject("quotes.nyse")
CHANNELS = (ALL, STOCK, WIDE, EMPTY)


def value(dice: st.Dice, code: TypeCode, decimals: int | None = None) -> object:
    """A value that the type can hold."""
    form = FORMS[code]
    if form.type is Type.INT:
        edges = (0, 1, form.least, form.most, dice.number(form.least, form.most))
        return dice.pick(edges)
    if decimals is not None:
        return dice.number(-(10**6), 10**6) / 10**decimals
    found = st.make_constant(dice, form.type)
    if code is TypeCode.FLOAT:
        return dice.pick((0.5, -0.0, 1e10 * 0 + 3.0, float("inf"), 2.0**100))
    if form.type is Type.DOUBLE:
        return dice.pick((found, found, float("inf"), float("-inf")))
    return dice.pick((found, found, "a\0b", "")) if form.type is Type.STRING else found


def notification(dice: st.Dice, channel: Channel) -> Notification:
    attributes = {}
    whole = dice.chance(50)
    for place in channel.attributes:
        if whole or dice.chance(70):
            attributes[place.name] = value(dice, place.type, place.decimals)
    if dice.chance(25):
        for name in ("comment", "Größe", "x" * dice.number(1, 40)):
            code = dice.pick((7, 10, 11, 2, 13))
            attributes[name] = value(dice, TypeCode(code))
    subjects = [str(s) for s in channel.subjects]
    return Notification(channel.id, *header(dice), dice.pick(subjects), attributes)


def header(dice: st.Dice) -> tuple[int, int, int]:
    edges = (0, 1, 39, 3001, 9509384, 2**32 - 1)
    return dice.pick(edges), dice.pick(edges), dice.pick(edges)


def conditions(dice: st.Dice, channel: Channel) -> Condition:
    schema = channel.schema if dice.chance(70) and channel.attributes else None
    return st.Maker(dice, schema, ()).condition(2)


def subscription(dice: st.Dice, channel: Channel) -> Message:
    """A subscription with a filter of this channel; an end of one where no message satisfies it."""
    front = (channel.id, *header(dice), dice.number(0, 65535), dice.number(0, 65535))
    found = disjuncts_of(dnf(conditions(dice, channel), channel.schema, widen=True), channel)
    if found is None or dice.chance(10):
        return Unsubscription(*front)
    texts = [f for f in FILTERS if all(p in channel.numbers for p in f.split("."))]
    return dice.pick((Subscription, Resubscription))(*front, dice.pick(texts), found)


def control(dice: st.Dice, channel: Channel) -> Message:
    front, times = (channel.id, *header(dice)), (st.TIMES[0], st.TIMES[1])
    return dice.pick(
        (
            AddSubject(*front, dice.number(0, 2**32 - 1), "Quote.cboe", dice.pick(("", "102.103"))),
            GetCache(*front, "quotes.>", *times, dice.pick(("", "price < 5")), dice.number(0, 9)),
            Acknowledgement(*front, dice.number(0, 2**32 - 1), dice.number(0, 2**32 - 1)),
            ErrorReport(*front, dice.number(0, 99), "no field has number 7"),
            Notification(*front, "#.ERROR.of.mine", {"any": "thing"})
            if {"of", "mine"} <= set(channel.numbers)
            else Acknowledgement(*front, 0),
        )
    )


def message(dice: st.Dice, channel: Channel) -> Message:
    make = dice.pick((notification, notification, subscription, control))
    return make(dice, channel)


@hs.composite
def messages(draw) -> tuple[Channel, Message]:
    dice = st.Drawn(draw)
    channel = dice.pick(CHANNELS)
    return channel, message(dice, channel)


# --- damage -----------------------------------------------------------------------

_NUMBERS = (0, 1, 2, 3, 4, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1)


def damaged(rng: random.Random, packet: bytes, others: list[bytes]) -> bytes:
    """The packet after one to four mishaps; mostly its length is right again."""
    data = bytearray(packet)
    for _ in range(rng.randint(1, 4)):
        rng.choice(_MISHAPS)(rng, data, others)
    if len(data) >= 4 and rng.random() < 0.8:
        data[:4] = struct.pack(">I", len(data))
    return bytes(data)


def _flip(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _byte(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))


def _number(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    size = rng.choice((2, 4))
    at = rng.randrange(max(1, len(data) // size)) * size
    data[at : at + size] = (rng.choice(_NUMBERS) % 256**size).to_bytes(size)


def _cut(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at : at + rng.choice((1, 2, 4, len(data)))]


def _insert(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8)))


def _splice(rng: random.Random, data: bytearray, others: list[bytes]) -> None:
    other = rng.choice(others)
    at = rng.randrange(max(1, min(len(data), len(other)) // 4)) * 4
    data[at:] = other[at:]


_MISHAPS = (_flip, _byte, _number, _cut, _insert, _splice, _number, _flip)


def pieces(rng: random.Random, data: bytes) -> Iterator[bytes]:
    """The data in pieces of one byte and of more."""
    at = 0
    while at < len(data):
        size = rng.choice((1, 1, 2, 3, 5, 50))
        yield data[at : at + size]
        at += size


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
