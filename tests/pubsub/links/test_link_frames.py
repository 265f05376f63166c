"""Frames of links as bytes: whole, cut short, with something left over, and hostile."""

from __future__ import annotations

import random

import pytest

from tamis.errors import WireError
from tamis.pubsub.broker.epochs import Epoch, agreed, begun, epoch_of
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.links import link_frames as wire
from tamis.pubsub.links.wants import Want, WantSet

WANTS = (Want("q.>", "price > 5"), Want(">", ""), Want("q.ß", "s = '\u20ac'"))
RECORDS = (Record(4, 10, "p", 3, "", "q.a", b'{"x":1}'), Record(9, 11, "", 0, "id", "q", b"{}"))
UP = [
    wire.Hello(wire.VERSION, "edge", "e1", None, WantSet(WANTS).digest, 3, WANTS),
    wire.Hello(wire.VERSION, "edge", "", 17, WantSet().digest, 0, None),
    wire.Wants(WANTS, more=True),
    wire.Add(7, WANTS),
    wire.Remove(WANTS[:1]),
    wire.Ack(2**40),
    wire.Fetch(1, 5, 5, None),
    wire.Fetch(2, 1, 2**50, WANTS),
    wire.Publish(3, "me", (Draft("q", b"{}", 1), Draft("q.a", b'{"a":2}', 0, "id"))),
]
DOWN = [
    wire.Above(("middle", "home"), (Epoch("a", 1), Epoch("b", 10))),
    wire.Unknown(),
    wire.Welcome(12),
    wire.Data(4, 12, RECORDS),
    wire.Data(4, 4, ()),
    wire.Added(7, 13),
    wire.Fetched(1, 4, 9, RECORDS),
    wire.Fetched(1, 4, 9, (), lost=True),
    wire.Published(3, (5, 0)),
    wire.Published(3, (), "no rights"),
    wire.Refused("no", 5),
    wire.Drain("stopping"),
]


@pytest.mark.parametrize("frame", UP, ids=repr)
def test_frames_of_children_come_back(frame):
    assert wire.decode_up(wire.encode(2**32 - 1, frame)) == (2**32 - 1, frame)


@pytest.mark.parametrize("frame", DOWN, ids=repr)
def test_frames_of_parents_come_back(frame):
    assert wire.decode_down(wire.encode(5, frame)) == (5, frame)


@pytest.mark.parametrize("frame", [*UP, *DOWN], ids=repr)
def test_frames_cut_short_or_with_more_are_refused(frame):
    decode = wire.decode_up if isinstance(frame, wire.Up) else wire.decode_down
    other = wire.decode_down if isinstance(frame, wire.Up) else wire.decode_up
    data = wire.encode(1, frame)
    for end in range(len(data)):
        with pytest.raises(WireError):
            decode(data[:end])
    with pytest.raises(WireError):
        decode(data + b"\xc0")
    with pytest.raises(WireError):
        other(data)


def test_random_bytes_are_refused_or_read():
    rng = random.Random("frames")
    good = [wire.encode(1, frame) for frame in (*UP, *DOWN)]
    for _ in range(3_000):
        data = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(4, len(data))] = rng.randrange(256)
        for decode in (wire.decode_up, wire.decode_down):
            try:
                decode(bytes(data))
            except WireError:
                continue


@pytest.mark.parametrize(
    "frame",
    [
        wire.Data(5, 4, ()),
        wire.Data(0, 4, ()),
        wire.Data(5, 9, RECORDS),
        wire.Data(1, 8, RECORDS),
        wire.Data(1, 9, RECORDS[::-1]),
        wire.Above((), ()),
        wire.Above(("a", ""), ()),
        wire.Above(("a",) * 65, ()),
        wire.Above(("a",), (Epoch("b", 5), Epoch("c", 5))),
    ],
    ids=repr,
)
def test_frames_of_parents_that_contradict_themselves(frame):
    with pytest.raises(WireError):
        wire.decode_down(wire.encode(1, frame))


@pytest.mark.parametrize(
    "frame",
    [
        wire.Hello(99, "edge", "", None, b"", 0, None),
        wire.Hello(wire.VERSION, "", "", None, b"", 0, None),
        wire.Hello(wire.VERSION, "a\nb", "", None, b"", 0, None),
        wire.Hello(wire.VERSION, "a", "", -1, b"", 0, None),
        wire.Fetch(1, 5, 4, None),
        wire.Fetch(1, 0, 4, None),
        wire.Add(1, (Want("a", ""),) * (wire.MAX_WANTS + 1)),
        wire.Fetch(1, 1, 4, (Want("a", ""),) * (wire.MAX_FETCHED + 1)),
    ],
    ids=lambda frame: repr(frame)[:60],
)
def test_frames_of_children_that_contradict_themselves(frame):
    with pytest.raises(WireError):
        wire.decode_up(wire.encode(1, frame))


def test_digests_depend_on_the_set_alone():
    rng = random.Random("digests")
    wants = [Want(f"s{i}", f"price > {i % 7}") for i in range(50)]
    found = WantSet()
    for _ in range(500):
        want = rng.choice(wants)
        assert (found.add if rng.random() < 0.5 else found.discard)(want) in (True, False)
        assert found.digest == WantSet(sorted(found, reverse=True)).digest
    assert WantSet([Want("ab", "c")]).digest != WantSet([Want("a", "bc")]).digest


def test_epochs_tell_how_far_a_copy_agrees():
    log = begun(begun((), "a", 1), "b", 101)
    assert log == (("a", 1), ("b", 101))
    assert begun(log, "c", 101) == (("a", 1), ("c", 101))  # b has no messages
    assert epoch_of(log, 100) == "a"
    assert epoch_of(log, 101) == "b"
    assert epoch_of((), 5) == epoch_of(log, 0) == ""
    restored = begun((Epoch("a", 1),), "c", 61)  # from a backup with 60 messages
    assert agreed(restored, "a", 60) == 60
    assert agreed(restored, "a", 100) == 60
    assert agreed(restored, "b", 120) == 0
    assert agreed(log, "b", 120) == 120


def test_blocks_cover_ranges():
    assert (Block(1, RECORDS).first, Block(1, RECORDS).last) == (4, 9)
    sparse = Block(1, (), covers=(5, 8))
    assert (sparse.first, sparse.last) == (5, 8)
