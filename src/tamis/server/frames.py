"""Deliveries as JSON: made of bytes that are there already, nothing is encoded twice."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tamis.pubsub.broker.records import MADE, Record
from tamis.pubsub.broker.shapes import Shape
from tamis.pubsub.broker.subscription import Subscription

encode = msgspec.json.Encoder().encode
_PIECES = 2_000  # messages that are kept as JSON
_PIECES_BYTES = 8 << 20  # and their bytes
_FRAME = b'{"type":"messages","messages":[%b]}'


def piece(record: Record, origin: bool = False) -> bytes:
    """A record without its first brace; one that nobody published says so. `origin`: also who
    published it, under which number."""
    made = b',"summarised":true' if record.number == MADE else b""
    if origin and not made:
        made = b',"publisher":%b,"number":%d' % (encode(record.publisher), record.number)
    return b'"sequence":%d,"time":%d,"subject":%b,"attributes":%b%b}' % (
        record.sequence,
        record.time,
        encode(record.subject),
        record.body,
        made,
    )


def prefix(label: str) -> bytes:
    """What stands before a piece: the beginning of a message of the subscription."""
    return b'{"subscription":%b,' % encode(label)


def gathered(
    prefixes: list[bytes], pieces: list[bytes], seats: list[int], rows: list[int]
) -> bytes:
    """The frame of one session: messages by their places, each behind the prefix of its seat."""
    return _FRAME % b",".join(
        [prefixes[seat] + pieces[row] for seat, row in zip(seats, rows, strict=True)]
    )


class Frames:
    """Frames of many sessions: each message is written once. `origin`: with its publisher."""

    def __init__(self, origin: bool = False) -> None:
        self._origin = origin
        self._pieces: dict[tuple[int, int], bytes] = {}
        self._size = 0  # bytes of the pieces

    def frame(self, messages: Iterable[tuple[Subscription, Record]]) -> bytes:
        """{"type": "messages", "messages": [{"subscription": ..., "sequence": ...}, ...]}"""
        return _FRAME % b",".join(
            filter(None, [self._one(subscription, record) for subscription, record in messages])
        )

    def _one(self, subscription: Subscription, record: Record) -> bytes:
        name = prefix(subscription.label)
        if subscription.shape is not None:
            return _shaped(name, subscription.shape, record)
        if record.number == MADE:
            return name + piece(record)
        key = subscription.channel, record.sequence
        found = self._pieces.get(key)
        if found is None:
            if len(self._pieces) > _PIECES or self._size > _PIECES_BYTES:
                self._pieces.clear()
                self._size = 0
            found = self._pieces[key] = piece(record, self._origin)
            self._size += len(found)
        return name + found


def _shaped(name: bytes, shape: Shape, record: Record) -> bytes:
    """What arrives in a derived space: from which channel, and by which of its paths."""
    return b",".join(name + arrived(shape.channel, path, one) for path, one in shape.made(record))


def arrived(source: str, path: int, record: Record) -> bytes:
    """A message of a derived space, without its first brace."""
    return b'"source":%b,"path":%d,%b' % (encode(source), path, piece(record))


def line(record: Record) -> bytes:
    """A record as one line of JSON."""
    return b"{" + piece(record).replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
