"""Channels: what is valid, what can be read and written, and what its types make of filters."""

from __future__ import annotations

import contextlib
import math
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from tamis.errors import ChannelError, SubjectError
from tamis.language import parse
from tamis.logic.dnf import dnf
from tamis.pubsub.subjects.channel import Channel, ChannelAttribute, Properties
from tamis.pubsub.subjects.channel_files import read_channels, write_ini, write_toml
from tamis.pubsub.subjects.precision import fitted
from tamis.pubsub.subjects.subject import Subject
from tamis.pubsub.subjects.typecodes import FORMS, TypeCode
from tamis.schema import Type

TABLE_13 = """
# Channel Setup - Read by Channel API, event and messaging
[ChannelComm 5]
MulticastIP=225.0.0.1
RouterIP=test3
RouterPort=12345
ProxyPort=9015
ProxyCtrlPort=9016
[ChannelSubjects 5]
NumberOfSubjects=
subject1=#.SUBSCRIPTION
mapping1=0.100
subject2=Quotes.Nyse
mapping2=102.101
[ChannelAttributes 5]
NumberOfAttributes=4
name1=StockId
type1=PC_UINT_TYPE
name2=Company
type2=PC_CHARARRAY_TYPE
name3=Price
type3=PC_FLOAT_TYPE
name4=Volume
type4=PC_UINT_TYPE
"""


def test_us6910033_table_13() -> None:
    (channel,) = read_channels(TABLE_13).values()
    assert channel.id == 5
    assert [(a.name, a.type) for a in channel.attributes] == [
        ("StockId", TypeCode.UINT),
        ("Company", TypeCode.CHARARRAY),
        ("Price", TypeCode.FLOAT),
        ("Volume", TypeCode.UINT),
    ]
    assert channel.numbers_of(Subject.parse("Quotes.Nyse")) == (102, 101)
    assert channel.numbers_of(Subject.parse("#.SUBSCRIPTION")) == (0, 100)
    assert channel.communication["RouterPort"] == "12345"
    assert {n: a.type for n, a in channel.schema.items()} == {
        **dict.fromkeys(["StockId", "Volume"], Type.INT),
        **{"Company": Type.STRING, "Price": Type.DOUBLE},
    }


def test_us6910033_table_12_types_and_positions() -> None:
    channel = Channel(1)
    for name, kind in (("Priority", 4), ("Alarm_Name", 11), ("Alarm_Time", 5)):
        channel = channel.with_attribute(name, TypeCode(kind))
    text = write_ini([channel]).replace("PC_USHORT_TYPE", "PC_UINT 16_TYPE")  # as it is printed
    assert read_channels(text.replace("PC_INT_TYPE", "PC_INT32_TYPE"))[1] == channel
    assert channel.positions == {"Priority": 0, "Alarm_Name": 1, "Alarm_Time": 2}


# --- texts -----------------------------------------------------------------------

names = hs.text(
    hs.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=8
).filter(lambda s: s == s.strip())
attributes = hs.builds(
    lambda name, kind, decimals: ChannelAttribute(
        name, kind, decimals if kind is TypeCode.DOUBLE else None
    ),
    names,
    hs.sampled_from(list(FORMS)),
    hs.none() | hs.integers(0, 15),
)


@hs.composite
def channels(draw) -> Channel:
    own = draw(hs.lists(attributes, max_size=6, unique_by=lambda a: a.name))
    minutes = hs.integers(1, 10_000)
    properties = Properties(draw(hs.booleans()), draw(hs.none() | minutes), draw(minutes))
    told = draw(hs.dictionaries(hs.from_regex(r"[A-Za-z]{1,8}", fullmatch=True), names, max_size=3))
    channel = Channel(draw(hs.integers(0, 2**32 - 1)), tuple(own), (), {}, properties, told)
    for text in draw(
        hs.lists(hs.sampled_from(["a.b", "a", "x.y.z", "Größe.1", "#.a"]), max_size=4)
    ):
        channel = channel.with_subject(text)
    return channel


@given(hs.lists(channels(), max_size=3, unique_by=lambda c: c.id))
def test_channels_are_read_as_they_were_written(given_channels) -> None:
    expected = {channel.id: channel for channel in given_channels}
    assert read_channels(write_ini(given_channels)) == expected
    assert read_channels(write_toml(given_channels)) == expected


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (("name2=Company", "name2=StockId"), "two attributes 'StockId'"),
        (("PC_FLOAT_TYPE", "PC_FLOOT_TYPE"), "no type 'PC_FLOOT_TYPE'"),
        (("NumberOfAttributes=4", "NumberOfAttributes=3"), "there are 4"),
        (("mapping2=102.101", "mapping2=102"), "does not number the fields"),
        (("mapping2=102.101", "mapping2=0.101"), "share number 0"),
        (("mapping2=102.101", "mapping2=70000.101"), "16 bits"),
        (("mapping1=0.100", "mapping1=0.103"), "'SUBSCRIPTION' has number 100 on every channel"),
        (("mapping1=0.100", ""), "mapping1 is missing"),
        (("name3=Price", "name9=Price"), "there are 9"),
        (("[ChannelComm 5]", "[ChannelCom 5]"), "no section"),
        (("[ChannelComm 5]", "ChannelComm"), "no channel file"),
        (("subject2=Quotes.Nyse", "subject2=Quotes..Nyse"), "empty field"),
    ],
)
def test_bad_channel_files_say_why(change: tuple[str, str], what: str) -> None:
    with pytest.raises(ChannelError, match=what):
        read_channels(TABLE_13.replace(*change))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[channel]]", "needs id"),
        ("[[channel]]\nid = true", "needs id"),
        ("[[channel]]\nid = 1\ncolour = 2", "has no 'colour'"),
        ("[[channel]]\nid = 1\n[[channel]]\nid = 1", "two channels 1"),
        ("[[channel]]\nid = 1\nattributes = 3", "write each one as"),
        ("[[channel]]\nid = 1\ngranularity = 0", "whole minutes"),
        ("[[channel]]\nid = ", "not TOML"),
        (
            '[[channel]]\nid = 1\n[[channel.attributes]]\nname = "a"\ntype = "text"',
            "no type 'text'",
        ),
        (
            '[[channel]]\nid = 1\n[[channel.attributes]]\nname = "a"\ntype = "int"\ndecimals = 2',
            "only doubles",
        ),
    ],
)
def test_bad_toml_says_why(text: str, what: str) -> None:
    with pytest.raises(ChannelError, match=what):
        read_channels(text)


@given(hs.text(max_size=200) | hs.text(alphabet="[]=\n#chanelCo 15.\"'", max_size=80))
def test_any_text_is_a_channel_file_or_a_channel_error(text: str) -> None:
    with contextlib.suppress(ChannelError):
        read_channels(text)


# --- growing ----------------------------------------------------------------------


def test_at_most_127_attributes() -> None:
    full = Channel(1, tuple(ChannelAttribute(f"a{i}", TypeCode.INT) for i in range(127)))
    with pytest.raises(ChannelError, match="127 are allowed"):
        full.with_attribute("one more", TypeCode.INT)


def test_numbers_are_given_once() -> None:
    channel = read_channels(TABLE_13)[5].with_subject("Quotes.cboe")
    assert channel.numbers_of(Subject.parse("Quotes.cboe")) == (102, 103)
    assert channel.with_subject("Quotes.cboe") == channel
    with pytest.raises(SubjectError, match="'amex' has no number on channel 5"):
        channel.numbers_of(Subject.parse("Quotes.amex"))
    crowded = Channel(1, numbers={f"f{n}": n for n in range(200, 65_536)})
    assert crowded.with_subject("x.y").numbers["y"] == 102


# --- what types make of filters -------------------------------------------------------


def of(selector: str, kind: TypeCode, decimals: int | None = None):
    channel = Channel(1, (ChannelAttribute("price", kind, decimals),))
    return fitted(dnf(parse(selector), channel.schema), channel)


def test_us6910033_price_truncated_to_two_decimals() -> None:
    shorter = of("price > 3.54122", TypeCode.DOUBLE, 2)
    assert shorter == of("price > 3.54", TypeCode.DOUBLE)
    assert of("price < 3.54122", TypeCode.DOUBLE, 2) == of("price < 3.55", TypeCode.DOUBLE)
    assert of("price >= 3.55", TypeCode.DOUBLE, 2) == of("price >= 3.55", TypeCode.DOUBLE)
    assert of("price = 3.541", TypeCode.DOUBLE, 2).never
    assert of("price > 3.54", TypeCode.DOUBLE, 2) == of("price > 3.54", TypeCode.DOUBLE)


@given(
    hs.sampled_from(["<", "<=", ">", ">=", "=", "<>"]),
    hs.integers(-100_000, 100_000),
    hs.sampled_from([1, 7, 99, 1000, 3541.22]),
    hs.integers(-2000, 2000),
)
def test_decimals_keep_what_keeps_to_them(op: str, over: int, under: float, cents: int) -> None:
    text, value = f"price {op} {over / under!r}", cents / 100
    wanted = dnf(parse(text), Channel(1, (ChannelAttribute("price", TypeCode.DOUBLE),)).schema)
    narrow = of(text, TypeCode.DOUBLE, 2)
    assert narrow.matches({"price": value}.get) == wanted.matches({"price": value}.get)


def single(rng: random.Random) -> float:
    bits = rng.choice((rng.getrandbits(32), 0x7F7FFFFF, 1, 0x80000001, 0x3F800000))
    value = struct.unpack(">f", bits.to_bytes(4))[0]
    return 0.5 if math.isnan(value) else value


@pytest.mark.parametrize("kind", [k for k in FORMS if FORMS[k].type in (Type.INT, Type.DOUBLE)])
def test_types_keep_what_they_can_hold(kind: TypeCode) -> None:
    rng, form = random.Random(f"{kind}"), FORMS[kind]
    for _ in range(400):
        if form.type is Type.INT:
            edges = (0, form.least, form.most, rng.randint(form.least, form.most))
            value, near = rng.choice(edges), rng.choice(edges) + rng.choice((-1, 0, 1))
            near = max(-(2**63), min(2**63 - 1, near))
        else:
            value = single(rng)
            near = rng.choice((value, 0.1, math.nextafter(value, 0), single(rng)))
            near = near if math.isfinite(near) else 1e39
        text = f"price {rng.choice(('<', '<=', '>', '>=', '=', '<>'))} {near!r}"
        channel = Channel(1, (ChannelAttribute("price", kind),))
        wanted = dnf(parse(text), channel.schema)
        narrow = fitted(wanted, channel)
        assert narrow.matches({"price": value}.get) == wanted.matches({"price": value}.get), text
