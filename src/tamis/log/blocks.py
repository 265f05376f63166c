"""A block as bytes: MessagePack rows under a checksum; numbers of publishers as JSON."""

from __future__ import annotations

import zlib

import msgspec

from tamis.pubsub.broker.records import Record

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Record]).decode
_json = msgspec.json.Encoder().encode
unpacked = msgspec.json.Decoder(list[int]).decode


def packed(numbers: list[int]) -> str:
    return _json(numbers).decode()


def encode(records: tuple[Record, ...]) -> tuple[bytes, int]:
    """The bytes of the records, and their checksum."""
    data = _encode(records)
    return data, zlib.crc32(data)


class DamageError(Exception):
    """Why a block cannot be read."""


def decode(data: bytes, crc: int) -> list[Record]:
    """The records, or DamageError if a single bit is not what it was."""
    if zlib.crc32(data) != crc:
        raise DamageError("is damaged: its checksum is wrong")
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:  # the checksum was right: another version wrote it
        raise DamageError(f"cannot be read: {error}") from None
