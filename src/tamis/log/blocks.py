"""A block as bytes: MessagePack rows under a checksum."""

from __future__ import annotations

import zlib

import msgspec

from tamis.errors import LogError
from tamis.pubsub.broker.records import Record

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Record]).decode


def encode(records: tuple[Record, ...]) -> tuple[bytes, int]:
    """The bytes of the records, and their checksum."""
    data = _encode(records)
    return data, zlib.crc32(data)


def decode(data: bytes, crc: int, where: str) -> list[Record]:
    """The records, or a LogError where a single bit is not what it was."""
    if zlib.crc32(data) != crc:
        raise LogError(f"{where} is damaged: its checksum is wrong", "restore it from a backup")
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:  # the checksum was right: another version wrote it
        raise LogError(f"{where} cannot be read: {error}") from None
