"""STOMP frames: whole, byte by byte, cut off, damaged."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.errors import WireError
from tamis.pubsub.stomp_frames import MAX_HEAD, Decoder, Frame, encode

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=10)
names = texts.filter(lambda t: t and t != "content-length")
frames = st.builds(
    Frame,
    st.sampled_from(["SEND", "MESSAGE", "SUBSCRIBE"]),
    st.dictionaries(names, texts, max_size=4),
    st.binary(max_size=30),
)


def decoded(data, size):
    decoder, found = Decoder(), []
    for at in range(0, len(data), size):
        found += decoder.feed(data[at : at + size])
    return found


def without_length(frame):
    headers = {k: v for k, v in frame.headers.items() if k != "content-length"}
    return Frame(frame.command, headers, frame.body)


@given(st.lists(frames, max_size=4), st.integers(1, 50))
def test_decode_takes_back_what_encode_wrote(many, size):
    data = b"\n".join(map(encode, many))
    assert [without_length(f) for f in decoded(data, size)] == many


@given(frames, st.integers(0, 200))
def test_a_frame_that_is_cut_off_gives_nothing(frame, at):
    data = encode(frame)
    if at < len(data):
        assert decoded(data[:at] or b"\n", 7) == []


def test_frames_of_the_specification():
    text = b"SEND\r\ndestination:/queue/a\r\ncontent-type:text/plain\r\n\r\nhello queue a\0\n\n"
    headers = {"destination": "/queue/a", "content-type": "text/plain"}
    assert decoded(text, 1000) == [Frame("SEND", headers, b"hello queue a")]
    repeated = b"MESSAGE\nfoo:World\nfoo:Hello\n\n\0"
    assert decoded(repeated, 3) == [Frame("MESSAGE", {"foo": "World"})]
    escaped = b"MESSAGE\na\\cb:c\\nd\\\\\n\n\0"
    assert decoded(escaped, 3) == [Frame("MESSAGE", {"a:b": "c\nd\\"})]


@pytest.mark.parametrize(
    "data",
    [
        b"SEND\nno header\n\n\0",
        b"SE ND\n\n\0",
        b"SEND\na:\\t\n\n\0",
        b"SEND\ncontent-length:-1\n\n\0",
        b"SEND\ncontent-length:99999999999\n\n\0",
        b"SEND\ncontent-length:1\n\nabc\0",
        b"\xff\xfe\n\n\0",
        b"SEND\n" + b"a:b\n" * 101 + b"\n\0",
        b"SEND\na:" + b"x" * MAX_HEAD,
        b"SEND\n\n" + b"x" * (2 << 20),
    ],
)
def test_bad_frames_are_errors(data):
    with pytest.raises(WireError):
        decoded(data, 4096)


def test_damaged_frames_give_frames_or_wire_errors():
    import random

    chance = random.Random(7)
    whole = b"".join(
        encode(Frame("SEND", {"destination": f"/a/{i}", "x": "y\n:"}, b"{}" * i)) for i in range(4)
    )
    for _ in range(int(os.environ.get("TAMIS_FUZZ", "3000"))):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            decoded(bytes(data[: chance.randint(1, len(data))]), chance.randint(1, 100))
        except WireError:
            continue
