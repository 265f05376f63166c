"""WebSocket frames: whole, in pieces, side by side with a library that others wrote."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from tamis.server.web.frame_reader import FrameError, FrameReader, text_frame

MOST = 1 << 20
texts = st.tuples(st.just(1), st.text(max_size=200).map(str.encode))
messages = st.lists(texts | st.tuples(st.sampled_from([2, 9]), st.binary(max_size=300)), max_size=8)


def client(opcode, data, fin=True):
    return Frame(Opcode(opcode), data, fin).serialize(mask=True)


def fed(pieces, most=MOST):
    reader = FrameReader(most)
    return [found for piece in pieces for found in taken(reader, piece)]


def taken(reader, piece):
    reader.feed(piece)
    return list(iter(reader.next, None))


@given(messages, st.randoms(use_true_random=False))
def test_messages_come_whole_however_they_are_cut(told, chance):
    told = [(opcode, data[:125] if opcode == 9 else data) for opcode, data in told]
    whole = b"".join(client(*one) for one in told)
    assert fed([whole]) == told
    assert fed([whole[i : i + 1] for i in range(len(whole))]) == told
    cuts = sorted(chance.randint(0, len(whole)) for _ in range(5))
    assert fed([whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]) == told


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_all_sizes(size):
    data = random.Random(size).randbytes(size)
    assert fed([client(2, data)]) == [(2, data)]
    text = bytes(byte & 127 for byte in data)
    assert fed([client(1, text)]) == [(1, text)]
    assert text_frame(b"x" * size) == Frame(Opcode.TEXT, b"x" * size).serialize(mask=False)


def test_fragments_are_joined_and_pings_come_between():
    parts = [client(1, b"ab", False), client(9, b"?"), client(0, b"cd", False), client(0, b"e")]
    assert fed(parts) == [(9, b"?"), (1, b"abcde")]
    assert fed([b"".join(parts)]) == [(9, b"?"), (1, b"abcde")]


BREACHES = {
    "without a mask": (b"\x81\x01a", 1002),
    "an opcode that nobody has": (b"\x83\x80\0\0\0\0", 1002),
    "an extension that was not agreed upon": (b"\xc1\x80\0\0\0\0", 1002),
    "goes on with nothing": (client(0, b"x"), 1002),
    "begins anew within a message": (client(1, b"x", False) + client(1, b"y"), 1002),
    "a long ping": (b"\x89\xfe\x00\x7e" + bytes(4 + 126), 1002),
    "a terabyte": (b"\x81\xff" + (1 << 40).to_bytes(8, "big") + bytes(4), 1009),
    "a text that is not UTF-8": (client(1, b"\xff"), 1007),
    "a text in parts that is not UTF-8": (client(1, b"\xe2", False) + client(0, b"\x82"), 1007),
    "half a code of closing": (client(8, b"\x03"), 1002),
    "a reason that is not UTF-8": (client(8, b"\x03\xe8\xff"), 1007),
    "long parts": (client(1, bytes(600_000), False) + client(0, bytes(600_000)), 1009),
}


@pytest.mark.parametrize(("data", "code"), BREACHES.values(), ids=BREACHES)
def test_what_breaks_the_rules_ends_the_connection(data, code):
    with pytest.raises(FrameError) as told:
        fed([data])
    assert told.value.code == code
    with pytest.raises(FrameError):
        fed([data[i : i + 1000] for i in range(0, len(data), 1000)])


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535])
def test_codes_that_no_peer_may_close_with(code):
    with pytest.raises(FrameError) as told:
        fed([client(8, code.to_bytes(2, "big"))])
    assert told.value.code == 1002


@pytest.mark.parametrize("code", [1000, 1001, 1003, 1007, 1014, 3000, 4999])
def test_codes_that_peers_close_with(code):
    payload = code.to_bytes(2, "big") + "täglich".encode()
    assert fed([client(8, payload)]) == [(8, payload)]
    assert fed([client(8, b"")]) == [(8, b"")]


def test_letters_may_be_cut_by_fragments():
    euro = "€".encode()
    parts = [client(1, euro[:1], False), client(0, euro[1:2], False), client(0, euro[2:])]
    assert fed(parts) == [(1, euro)]


def test_empty_fragments_take_no_memory():
    reader = FrameReader(MOST)
    reader.feed(client(1, b"", False))
    assert reader.next() is None
    piece = client(0, b"", False) * 10_000
    tracemalloc.start()
    try:
        for _ in range(10):
            assert taken(reader, piece) == []
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert reader.begun


def test_what_is_not_taken_stays():
    reader = FrameReader(MOST)
    last = client(2, b"c")
    reader.feed(client(2, b"a") + client(2, b"b") + last[:3])
    assert reader.next() == (2, b"a")
    assert taken(reader, last[3:]) == [(2, b"b"), (2, b"c")]
    assert not reader.begun


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_an_error(data):
    with contextlib.suppress(FrameError):
        assert all(opcode in (1, 2, 8, 9, 10) for opcode, _ in fed([data]))


def test_a_text_that_comes_alone_needs_no_feed():
    reader, whole = FrameReader(1000), client(1, b'{"a":1}')
    assert reader.only(whole) == b'{"a":1}'
    assert reader.only(whole + whole) is None
    assert reader.only(whole[:-1]) is None
    assert (
        reader.only(client(1, "\u00e9".encode())) is None
    )  # whether it is UTF-8 is for `next` to say
    reader.feed(whole[:-1])
    assert reader.only(whole) is None  # something is here in part
    reader.feed(whole[-1:])
    assert reader.next() == (1, b'{"a":1}')
    assert reader.next() is None
    assert reader.only(whole) == b'{"a":1}'
