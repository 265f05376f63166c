"""`python tests/pubsub/fuzz_wire.py [PACKETS] [SEED]`: damaged packets raise WireError alone.

Each one is decoded whole, by the general and by the generated way, as a stream in pieces, and with
others as columns; time and memory stay in proportion to its size.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [
        str(Path(__file__).parents[2] / part) for part in ("src", "tests", "tests/pubsub")
    ]

import packets

import strategies as st
from tamis.errors import WireError
from tamis.pubsub.subjects.channel import Channel
from tamis.pubsub.wire import Codec, Decoder
from tamis.pubsub.wire.packet_columns import decode_columns

SLOWEST = 5.0  # CPU seconds for one packet of a few kB: a guard, a thousand times what it takes
MEMORY = 400  # bytes that decoding may take for each byte of the packet
ROOM = 4_096  # bytes beside: the objects of an error, kept subjects


@dataclass
class Tally:
    packets: int = 0
    good: int = 0
    bad: int = 0
    slowest: float = 0.0
    memory: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.packets:,} packets: {self.bad:,} refused, {self.good:,} still good; "
            f"slowest {self.slowest * 1000:.1f} ms, at most {self.memory:.0f} bytes per byte"
        )


def outcome(decode, data: bytes):
    try:
        return decode(data)
    except WireError:
        return WireError


def fuzz(count: int, seed: int = 0) -> Tally:
    rng, tally = random.Random(seed), Tally()
    dice = st.Rolled(rng)
    codecs = {channel.id: Codec(channel) for channel in packets.CHANNELS}
    originals: dict[int, list[bytes]] = {}
    for channel in packets.CHANNELS:
        found = [codecs[channel.id].encode(packets.message(dice, channel)) for _ in range(300)]
        originals[channel.id] = found
    while tally.packets < count:
        channel = rng.choice(packets.CHANNELS)
        own = originals[channel.id]
        data = packets.damaged(rng, rng.choice(own), own)
        one(codecs, channel, data, rng, tally, measured=tally.packets % 97 == 0)
    return tally


def one(codecs, channel: Channel, data: bytes, rng, tally: Tally, *, measured: bool) -> None:
    codec = codecs[channel.id]
    if measured:
        tracemalloc.start()
    start = time.process_time()
    found = outcome(codec.decode, data)
    tally.slowest = max(tally.slowest, time.process_time() - start)
    if measured:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        tally.memory = max(tally.memory, max(0, peak - ROOM) / max(len(data), 1))
        assert peak <= ROOM + MEMORY * len(data), (peak, data.hex())
    assert tally.slowest < SLOWEST, data.hex()
    assert repr(found) == repr(outcome(codec.decode_any, data)), data.hex()
    if found is not WireError:
        again = codec.encode(found)
        assert repr(codec.decode(again)) == repr(found), data.hex()
        assert outcome(codec.decode, data + b"\0") is WireError
        assert outcome(codec.decode, data[:-1]) is WireError
    stream(codecs, data, found, rng)
    columns(codec, data, found)
    tally.packets += 1
    tally.good += found is not WireError
    tally.bad += found is WireError


def stream(codecs, data: bytes, found, rng) -> None:
    """In pieces, all packets that are whole come out as they do alone."""
    decoder, seen = Decoder(codecs), []
    try:
        for piece in packets.pieces(rng, data):
            seen += decoder.feed(piece)
        decoder.end()
    except WireError:
        seen.append(WireError)
    if found is not WireError:
        assert repr(seen) == repr([found]), data.hex()


def columns(codec: Codec, data: bytes, found) -> None:
    """As a batch of one, a packet is refused where it is refused alone, or no notification."""
    try:
        batch = decode_columns(codec, data)
    except WireError:
        is_notification = type(found).__name__ == "Notification" and found.subject[0] != "#"
        assert not is_notification, data.hex()
        return
    if not len(batch):
        return
    assert found is not WireError or len(batch) > 1, data.hex()
    if len(batch) == 1:
        row = batch.attributes.to_pylist()[0]
        known = {**{k: v for k, v in row.items() if v is not None}, **batch.more.get(0, {})}
        assert known == found.attributes, data.hex()


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    started = time.perf_counter()
    print(fuzz(wanted, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    print(f"{time.perf_counter() - started:.0f} s")
