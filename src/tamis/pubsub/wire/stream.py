"""Packets from a stream of bytes that comes in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tamis.errors import WireError
from tamis.pubsub.wire.codec import MAX_PACKET, Codec
from tamis.pubsub.wire.wire_messages import Message

_LEAST = 28  # a header, and one subject field


class Decoder:
    """Give it bytes as they come, and take the messages that are whole.

    After a WireError the stream has lost its step: close it. Never holds more than one packet and
    what was given last.
    """

    def __init__(self, codecs: Mapping[int, Codec], max_packet: int = MAX_PACKET) -> None:
        self.codecs, self.max_packet = codecs, max_packet
        self._waiting = bytearray()

    @property
    def begun(self) -> bool:
        """Whether a packet is here in part."""
        return bool(self._waiting)

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete with this piece."""
        return (self._codec(packet).decode(packet) for packet in self.packets(data))

    def packets(self, data: bytes) -> Iterator[bytes]:
        """The packets that are complete with this piece."""
        self._waiting += data
        return self._packets()

    def _packets(self) -> Iterator[bytes]:
        start, waiting = 0, self._waiting
        try:
            while len(waiting) - start >= 4:
                length = int.from_bytes(waiting[start : start + 4])
                if not _LEAST <= length <= self.max_packet:
                    raise WireError(f"no packet has {length:,} bytes", 0)
                if len(waiting) - start < length:
                    break
                start += length
                yield bytes(waiting[start - length : start])
        finally:
            del waiting[:start]

    def _codec(self, packet: bytes) -> Codec:
        channel = int.from_bytes(packet[4:8])
        codec = self.codecs.get(channel)
        if codec is None:
            raise WireError(f"there is no channel {channel}", 4)
        return codec

    def end(self) -> None:
        """The stream has ended: nothing may be left over."""
        if self._waiting:
            raise WireError(
                f"the stream ends within a packet: {len(self._waiting):,} bytes are left"
            )
