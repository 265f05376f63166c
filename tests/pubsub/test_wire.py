"""Packets: figure 18 byte for byte, round trips, streams, columns, and bytes from enemies."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import strategies as st
from tamis.errors import SubjectError, WireError
from tamis.language import parse
from tamis.logic import finder
from tamis.logic.dnf import dnf
from tamis.pubsub.subjects.channel import Channel, ChannelAttribute
from tamis.pubsub.subjects.typecodes import TypeCode
from tamis.pubsub.wire import (
    AddSubject,
    AttributeTest,
    Codec,
    Decoder,
    Notification,
    Operator,
    Resubscription,
    Subscription,
    Unsubscription,
    disjuncts_of,
    filter_of,
)
from tamis.pubsub.wire.packet_columns import decode_columns, encode_columns

sys.path.insert(0, str(Path(__file__).parent))

import fuzz_wire
import packets

FIGURE_18 = Channel(
    2,
    (
        ChannelAttribute("price", TypeCode.UINT),
        ChannelAttribute("symbol", TypeCode.CHARARRAY),
        ChannelAttribute("volume", TypeCode.UINT),
    ),
)
FILTER = 'price >= 10 and (symbol == "LU" or (volume >= 1000 and volume <= 10000))'


def subscribed(selector: str, channel: Channel = FIGURE_18) -> Subscription:
    tests = disjuncts_of(dnf(parse(selector), channel.schema), channel)
    assert tests is not None
    return Subscription(channel.id, 3001, 9509384, 39, 2688, 50, ">", tests)


# --- US 6,910,033 -----------------------------------------------------------------


def test_us6910033_figure_18_byte_for_byte() -> None:
    rows = [
        (72).to_bytes(4),  # bytes in message
        (2).to_bytes(4),  # channel
        (3001).to_bytes(4),  # publisher
        (9509384).to_bytes(4),  # publisher session
        (39).to_bytes(4),  # sequence number
        (2).to_bytes(4),  # number of subject fields
        (0).to_bytes(2) + (100).to_bytes(2),  # # and SUBSCRIPTION
        (2688).to_bytes(2) + (50).to_bytes(2),  # port, subscription id
        (1).to_bytes(2) + (4).to_bytes(2),  # subject filter fields, attribute tests
        (5).to_bytes(2) + bytes(2),  # > and padding
        int("00000000001100011000000101100011", 2).to_bytes(4),
        int("00000000001100011000001000110010", 2).to_bytes(4),
        (10).to_bytes(4),
        (2).to_bytes(4),
        b"LU\0\0",
        (10).to_bytes(4),
        (1000).to_bytes(4),
        (10000).to_bytes(4),
    ]
    packet = b"".join(rows)
    assert len(packet) == 72
    codec, message = Codec(FIGURE_18), subscribed(FILTER)
    assert codec.encode(message) == packet
    assert codec.decode(packet) == message
    assert filter_of(message.disjuncts, FIGURE_18) == dnf(parse(FILTER), FIGURE_18.schema)


def test_us6910033_a_filter_that_is_never_true_makes_no_message() -> None:
    assert disjuncts_of(dnf(parse("price>=50 AND price<=20"), FIGURE_18.schema), FIGURE_18) is None
    assert disjuncts_of(dnf(parse("price < 0"), FIGURE_18.schema), FIGURE_18) is None
    assert subscribed("TRUE").disjuncts == ()


def test_us6910033_table_22_operators() -> None:
    for selector, operator, operands in (
        ("price <= 80", 0, (80,)),
        ("price >= 20", 1, (20,)),
        ("price BETWEEN 20 AND 80", 2, (20, 80)),
        ("price = 50", 3, (50,)),
        ("price IN (1, 5)", 4, (1, 5)),
        ("symbol NOT IN ('LU', 'T')", 5, ("LU", "T")),
    ):
        ((test,),) = subscribed(selector).disjuncts
        assert (test.operator, test.operands) == (operator, operands)


def test_us6910033_discretionary_attributes_stand_last_with_their_names() -> None:
    message = subscribed("zone = 'EU' AND area <= 5 AND volume = 7")
    ((first, second, third),) = message.disjuncts
    assert (first.attribute, second.attribute, third.attribute) == (2, "area", "zone")
    packet = Codec(FIGURE_18).encode(message)
    assert packet[40:46].hex() == "0233ff38ff5b"  # the three tests
    assert b"\0\0\0\x04area" in packet
    assert Codec(FIGURE_18).decode(packet) == message


def test_us6910033_tables_7_and_8_a_notification_with_a_comment() -> None:
    channel = Channel(10).with_attribute("company", TypeCode.STRING)
    channel = channel.with_attribute("stockvalue", TypeCode.INT).with_subject("Quotes.Nyse")
    said = {"company": "PreCache", "stockvalue": 100, "comment": "mycomments"}
    message = Notification(10, 1, 2, 3, "Quotes.Nyse", said)
    assert Codec(channel).decode(Codec(channel).encode(message)) == message


def test_us6910033_table_9_a_control_message() -> None:
    codec = Codec(Channel(10))
    message = AddSubject(10, 1, 2, 3, 10, "Quote.cboe")
    packet = codec.encode(message)
    assert packet[20:28].hex() == "0000000200000008"
    assert b"Subject" in packet
    assert b"Quote.cboe" in packet
    assert codec.decode(packet) == message


def test_us6910033_resubscription_and_unsubscription() -> None:
    codec, message = Codec(FIGURE_18), subscribed(FILTER)
    packet = codec.encode(message)
    again = codec.encode(Resubscription(*message))
    assert again[:24] + packet[24:28] + again[28:] == packet
    ended = codec.encode(Unsubscription(*message[:6]))
    assert len(ended) == 32
    assert ended[28:] == packet[28:32]  # up through the subscription id


# --- round trips --------------------------------------------------------------------


@given(packets.messages())
def test_decode_is_the_inverse_of_encode(given_message) -> None:
    channel, message = given_message
    codec = Codec(channel)
    packet = codec.encode(message)
    assert len(packet) % 4 == 0
    assert codec.decode(packet) == message
    assert codec.encode_any(message) == packet
    assert codec.decode_any(packet) == message
    assert codec.encode(codec.decode(packet)) == packet


@given(packets.messages())
def test_whole_byte_by_byte_truncated_and_with_trailing_bytes(given_message) -> None:
    channel, message = given_message
    codec = Codec(channel)
    packet = codec.encode(message)
    decoder = Decoder({channel.id: codec})
    seen = [m for i in range(len(packet)) for m in decoder.feed(packet[i : i + 1])]
    assert seen == [message]
    assert list(decoder.feed(packet + packet + packet[:5])) == [message, message]
    assert list(decoder.feed(packet[5:])) == [message]
    decoder.end()
    for cut in {0, 3, 4, 20, len(packet) // 2, len(packet) - 1} - {len(packet)}:
        with pytest.raises(WireError):
            codec.decode(packet[:cut])
    with pytest.raises(WireError):
        codec.decode(packet + b"\0")
    assert list(decoder.feed(packet[:7])) == []
    with pytest.raises(WireError, match="7 bytes are left"):
        decoder.end()


def test_encoding_is_canonical() -> None:
    one, other = (
        subscribed(FILTER),
        subscribed("(volume <= 10000 AND NOT volume < 1000 OR symbol = 'LU') AND price > 9"),
    )
    assert Codec(FIGURE_18).encode(one) == Codec(FIGURE_18).encode(other)
    said = {"b": 1, "a": 2}
    codec = Codec(packets.EMPTY)
    turned = Notification(11, 1, 2, 3, "a.b.c", dict(reversed(said.items())))
    assert codec.encode(Notification(11, 1, 2, 3, "a.b.c", said)) == codec.encode(turned)


@pytest.mark.parametrize("channel", packets.CHANNELS, ids=lambda c: str(c.id))
def test_filters_survive_the_packet(channel: Channel) -> None:
    """What a filter matches, its tests match: ints and doubles of no declared type included."""
    rng = random.Random(f"survive {channel.id}")
    dice, codec = st.Rolled(rng), Codec(channel)
    for _ in range(200):
        schema = channel.schema if channel.attributes else None
        filter = dnf(packets.conditions(dice, channel), schema, widen=True)
        tests = disjuncts_of(filter, channel)
        if tests is None:
            continue
        message = Subscription(channel.id, 1, 2, 3, 4, 5, ">", tests)
        found = codec.decode(codec.encode(message))
        assert found == message
        back = filter_of(found.disjuncts, channel)
        for _ in range(10):
            said = {**st.random_message(rng), **packets.notification(dice, channel).attributes}
            said = {k: v for k, v in said.items() if not isinstance(v, dict)}
            known = {k: v for k, v in said.items() if k not in channel.positions}
            known |= packets.notification(dice, channel).attributes
            find = finder(known, "sql", schema)
            assert back.matches(find) == filter.matches(find), (filter, known)


def test_attributes_added_later_do_not_break_what_is_stored() -> None:
    old = packets.STOCK
    new = old.with_attribute("yield", TypeCode.DOUBLE).with_attribute("note", TypeCode.STRING)
    message = packets.notification(st.Rolled(random.Random(3)), old)
    packet = Codec(old).encode(message)
    assert Codec(new).decode(packet) == message
    assert Codec(new).decode(Codec(new).encode(message)) == message
    with pytest.raises(WireError, match="more than there are"):
        Codec(old).decode(Codec(new).encode(message))
    batch = decode_columns(Codec(new), packet + Codec(new).encode(message))
    assert batch.attributes.column("yield").null_count == 2


# --- what is refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        ({"char": 128}, "char = 128 is no int8"),
        ({"uint": -1}, "no uint32"),
        ({"a": 2**63}, "int64|64 bits"),
        ({"a": True}, "no int64"),
        ({"flag": 1}, "no bool"),
        ({"name": 7}, "no string"),
        ({"name": "\ud800"}, "lone surrogate"),
        ({"$_1": 0.1}, "24 bits"),
        ({"cents": 3.541}, "2 decimals"),
        ({"price": 2**53 + 1}, "53 bits"),
        ({"x": None}, "leave it out"),
        ({"x": [1]}, "no type"),
        ({"x\n": 1}, "no name"),
        ({"": 1}, "no name"),
        ({"name": "x" * 2**20}, "1,048,576 are allowed"),
    ],
)
def test_what_fits_into_no_packet(attributes, what: str) -> None:
    with pytest.raises(WireError, match=what):
        Codec(packets.ALL).encode(Notification(7, 1, 2, 3, "quotes", attributes))


def test_headers_that_fit_into_no_packet() -> None:
    codec = Codec(packets.ALL)
    with pytest.raises(WireError, match="32 bits"):
        codec.encode(Notification(7, 2**32, 2, 3, "quotes", {}))
    with pytest.raises(WireError, match="for channel 8"):
        codec.encode(Notification(8, 1, 2, 3, "quotes", {}))
    with pytest.raises(SubjectError, match="'unheard' has no number"):
        codec.encode(Notification(7, 1, 2, 3, "unheard", {}))
    with pytest.raises(WireError, match="16 bits"):
        codec.encode(Unsubscription(7, 1, 2, 3, 65536, 1))


@pytest.mark.parametrize(
    ("test", "what"),
    [
        (AttributeTest(3, TypeCode.UINT, Operator.EQUAL, (1,)), "has no attribute 3"),
        (AttributeTest(0, TypeCode.INT, Operator.EQUAL, (1,)), "price is of type 6"),
        (AttributeTest(0, TypeCode.UINT, Operator.CLOSED, (1,)), "CLOSED has 2 operands"),
        (AttributeTest("x", TypeCode.ANY, Operator.EQUAL, (1,)), "has no operands"),
        (AttributeTest("x", TypeCode.BOOL, Operator.LEFT_OPEN, (True,)), "no order"),
        (AttributeTest(0, TypeCode.UINT, Operator.IN, ()), "operands"),
    ],
)
def test_tests_that_fit_no_channel(test: AttributeTest, what: str) -> None:
    message = Subscription(2, 1, 2, 3, 4, 5, ">", ((test,),))
    with pytest.raises(WireError, match=what):
        Codec(FIGURE_18).encode(message)


def test_a_stream_names_the_channel_that_it_does_not_know() -> None:
    packet = Codec(FIGURE_18).encode(subscribed(FILTER))
    with pytest.raises(WireError, match="no channel 2"):
        list(Decoder({}).feed(packet))
    with pytest.raises(WireError, match="no packet has"):
        list(Decoder({}).feed(b"\xff\xff\xff\xff"))


# --- columns ----------------------------------------------------------------------------


@settings(max_examples=60)
@given(hs.sampled_from(packets.CHANNELS[:3]), hs.data())
def test_columns_say_what_single_packets_say(channel: Channel, data) -> None:
    dice = st.Drawn(data.draw)
    codec, count = Codec(channel), dice.number(0, 6)
    told = [packets.notification(dice, channel) for _ in range(count)]
    told = [n._replace(sequence=i, publisher=1, session=2) for i, n in enumerate(told)]
    joined = b"".join(map(codec.encode, told))
    found = decode_columns(codec, joined)
    assert found.subject.to_pylist() == [n.subject for n in told]
    assert found.sequence.tolist() == list(range(count))
    for i, row in enumerate(found.attributes.to_pylist()):
        known = {k: v for k, v in row.items() if v is not None}
        assert {**known, **found.more.get(i, {})} == told[i].attributes
    subject = pa.array([n.subject for n in told], pa.string())
    again = encode_columns(codec, found.attributes, subject, publisher=1, session=2, sequence=0)
    for i, n in enumerate(told):
        own = {k: v for k, v in n.attributes.items() if k in channel.positions}
        assert again[i] == codec.encode(n._replace(attributes=own))


def test_columns_of_other_types_are_converted_or_refused() -> None:
    codec, rest = Codec(packets.STOCK), {"publisher": 1, "session": 2, "sequence": 0}
    table = pa.table(
        {
            "symbol": pa.array(["IBM", None, "é"]).dictionary_encode(),
            "price": pa.array([1, None, 3], pa.int32()),
            "volume": pa.array([1.0, 2.0, None]),
            "unknown": [1, 2, 3],
        }
    )
    found = decode_columns(codec, encode_columns(codec, table.slice(1), "quotes", **rest).data)
    assert found.attributes.to_pylist() == [
        {"symbol": None, "price": None, "volume": 2, "venue": None, "open": None},
        {"symbol": "é", "price": 3.0, "volume": None, "venue": None, "open": None},
    ]
    for column, what in (
        (pa.array(["x"]), "needs to be int64"),
        (pa.array([1.5]), "does not fit int64"),
        (pa.array([2**63], pa.uint64()), "does not fit int64"),
        (pa.array([True]), "needs to be int64"),
    ):
        with pytest.raises(WireError, match=what):
            encode_columns(codec, pa.table({"volume": column}), "quotes", **rest)
    with pytest.raises(WireError, match="no subject under #"):
        encode_columns(codec, table, "#.ERROR", **rest)
    nan = decode_columns(
        codec, encode_columns(codec, pa.table({"price": [np.nan]}), "quotes", **rest).data
    )
    assert nan.attributes.column("price").null_count == 1


def test_columns_check_decimals_and_floats() -> None:
    codec, rest = Codec(packets.ALL), {"publisher": 1, "session": 2, "sequence": 0}
    for table, what in (
        (pa.table({"cents": [3.54, 3.541]}), "row 1: cents = 3.541"),
        (pa.table({"$_1": [0.5, 0.1]}), "24 bits"),
        (pa.table({"char": [127, 128]}), "does not fit int8"),
    ):
        with pytest.raises(WireError, match=what):
            encode_columns(codec, table, "quotes", **rest)
    moment = datetime.datetime(2000, 2, 1, tzinfo=datetime.UTC)
    good = pa.table({"cents": [3.54], "$_1": [0.5], "when": [moment], "flag": [True]})
    found = decode_columns(codec, encode_columns(codec, good, "quotes", **rest).data)
    assert found.attributes.select(good.schema.names).to_pylist() == good.to_pylist()


def test_a_bad_packet_of_many_is_named() -> None:
    codec = Codec(packets.STOCK)
    packet = codec.encode(Notification(2, 1, 2, 3, "quotes", {"price": 1.0}))
    bad = bytearray(packet)
    bad[30] ^= 0x80
    with pytest.raises(WireError, match="packet 2: "):
        decode_columns(codec, packet + packet + bytes(bad))
    with pytest.raises(WireError, match="packet 1 is cut off"):
        decode_columns(codec, packet + packet[:-4])


# --- enemies ------------------------------------------------------------------------------


def test_damaged_packets_raise_wire_errors_alone() -> None:
    """The full dose: python tests/pubsub/fuzz_wire.py 1000000"""
    tally = fuzz_wire.fuzz(int(os.environ.get("TAMIS_FUZZ_PACKETS", "2500")), seed=1)
    assert tally.bad > tally.packets // 3
    assert tally.good > tally.packets // 100


@given(hs.binary(max_size=200), hs.sampled_from(packets.CHANNELS))
def test_any_bytes_are_a_packet_or_a_wire_error(data: bytes, channel: Channel) -> None:
    codec = Codec(channel)
    for bytes_given in (data, len(data + b"1234").to_bytes(4) + data):
        for decode in (codec.decode, lambda d: decode_columns(codec, d)):
            with contextlib.suppress(WireError):
                decode(bytes_given)


def test_time_is_linear_in_the_size_of_the_packet() -> None:
    """A packet of the largest size is decoded in moments, whatever its counts say."""
    codec = Codec(FIGURE_18)
    values = tuple(range(200_000))
    many = AttributeTest(0, TypeCode.UINT, Operator.IN, values)
    packet = codec.encode(subscribed("TRUE")._replace(disjuncts=((many,),)))
    assert codec.decode(packet).disjuncts[0][0].operands == values
    decoder = Decoder({2: codec})
    seen = [m for i in range(0, len(packet), 100) for m in decoder.feed(packet[i : i + 100])]
    assert len(seen) == 1
