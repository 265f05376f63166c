"""Packets per second beside MessagePack of the same content."""

from __future__ import annotations

import gc

import msgspec

from bench import progress
from bench.measure import cpu_seconds
from bench.report import Goal, Result, Table, verdicts
from bench.workloads import packets
from tamis.pubsub.wire import Codec
from tamis.pubsub.wire.packet_columns import decode_columns, encode_columns

ABOUT = (
    "Notifications of stock trades (two texts, a double, an int) to packets and back, beside "
    "msgspec's MessagePack of the same content: a Struct with header and subject, and a dict of "
    "attributes. Batches go from Arrow columns to packets and back; msgspec's from and to a list "
    "of Structs, which is what it has. Rates are per CPU-second on one core."
)
SCALES = {"full": (20_000, 200_000), "quick": (5_000, 50_000), "tiny": (50, 200)}
_COLUMNS = ("", "packets/s", "msgspec/s", "msgspec / Tamis", "bytes", "msgspec's bytes")


def run(scale: str) -> Result:
    singles, batch = SCALES[scale]
    codec = Codec(packets.CHANNEL)
    progress.say("single packets")
    rows = [*_single(codec, singles)]
    progress.say("batches")
    rows += _batch(codec, batch)
    return Result("wire", ABOUT, [verdicts(_goals(rows)), Table("Packets", _COLUMNS, rows)])


def _goals(rows: list[list]) -> list[Goal]:
    by_name = {row[0]: row[3] for row in rows}
    single = [
        Goal(f"{name}: msgspec's rate / ours", 3, None, by_name[name], "x", at_most=True)
        for name in ("encode one by one", "decode one by one")
    ]
    many = [
        Goal(f"{name}: our rate / msgspec's", 1, None, 1 / by_name[name], "x")
        for name in ("columns to packets", "packets to columns")
    ]
    return [*single, *many]


def _single(codec: Codec, count: int) -> list[list]:
    told = packets.notifications(packets.trades(count))
    structs = packets.peers(told)
    encode, decode = codec.encode, codec.decode
    other = msgspec.msgpack.Encoder().encode
    back = msgspec.msgpack.Decoder(packets.Peer).decode
    ours, theirs = [encode(one) for one in told], [other(one) for one in structs]
    assert [decode(packet) for packet in ours] == told
    sizes = [len(ours[0]), len(theirs[0])]
    return [
        _row(
            "encode one by one",
            count,
            lambda: _each(encode, told),
            lambda: _each(other, structs),
            sizes,
        ),
        _row(
            "decode one by one",
            count,
            lambda: _each(decode, ours),
            lambda: _each(back, theirs),
            sizes,
        ),
    ]


def _each(work, given: list) -> None:
    for one in given:
        work(one)


def _batch(codec: Codec, count: int) -> list[list]:
    table = packets.trades(count)
    structs = packets.peers(packets.notifications(table))
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(list[packets.Peer])
    header = {"publisher": 3001, "session": 9509384, "sequence": 0}

    def encode():
        return encode_columns(codec, table, packets.SUBJECT, **header)

    made, theirs = encode(), encoder.encode(structs)
    assert decode_columns(codec, made.data).attributes.to_pylist() == table.to_pylist()
    sizes = [len(made.data) / count, len(theirs) / count]
    return [
        _row("columns to packets", count, encode, lambda: encoder.encode(structs), sizes),
        _row(
            "packets to columns",
            count,
            lambda: decode_columns(codec, made.data),
            lambda: decoder.decode(theirs),
            sizes,
        ),
    ]


def _row(name: str, count: int, ours, theirs, sizes: list[float]) -> list:
    gc.disable()  # else the objects of the one are searched while the other runs
    mine, other = count / cpu_seconds(ours, 7), count / cpu_seconds(theirs, 7)
    gc.enable()
    return [name, mine, other, other / mine, *(float(size) for size in sizes)]
