"""A broker's side of one connection that speaks packets, without sockets (docs/packets.md).

Bytes in, requests out; answers and deliveries in, bytes out. A channel that was opened keeps its
form for as long as the connection lasts; fields of subjects that have no number in it get one of
this connection, which the peer is told before a packet uses it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import msgspec

from tamis.errors import ChannelError, MessageError, SubjectError, WireError
from tamis.pubsub.subjects.channel import MAX_NUMBER, Channel, asked_numbers
from tamis.pubsub.subjects.subject import Subject, SubjectFilter
from tamis.pubsub.wire.codec import MAX_PACKET, Codec
from tamis.pubsub.wire.stream import Decoder
from tamis.pubsub.wire.wire_messages import (
    Acknowledgement,
    AddSubject,
    ErrorReport,
    Message,
    Notification,
)

OWN = 0  # the channel of commands and of their answers
MAX_OWN_FIELDS = 10_000  # fields that get a number of one connection
GREETING = 4_096  # bytes of a packet before it is known who calls
_FRONT = (OWN, 0, 0, 0)


class Received(NamedTuple):
    """A packet of the peer: its sequence number, and what it says or why it says nothing."""

    sequence: int
    message: Message | WireError


class Peer:
    """What both sides know: the channels that are open, and how their subjects are numbered."""

    def __init__(self) -> None:
        self.codecs: dict[int, Codec] = {OWN: Codec(Channel(OWN))}
        self._own_fields = 0
        self._free: dict[int, int] = {}  # by channel: no higher number is free
        self._decoder = Decoder(self.codecs, GREETING)

    def trust(self) -> None:
        """The peer was recognised: its packets may be large."""
        self._decoder.max_packet = MAX_PACKET

    @property
    def begun(self) -> bool:
        """Whether a packet is here in part."""
        return self._decoder.begun

    def feed(self, data: bytes) -> Iterator[Received]:
        """Each packet that is complete; WireError where the stream has lost its step."""
        for packet in self._decoder.packets(data):
            yield Received(int.from_bytes(packet[16:20]), self._read(packet))

    def _read(self, packet: bytes) -> Message | WireError:
        number = int.from_bytes(packet[4:8])
        codec = self.codecs.get(number)
        if codec is None:
            return WireError(f"channel {number} is not open here: send pc.chn.open first", 4)
        try:
            return codec.decode(packet)
        except WireError as error:
            return error

    def open(self, channel: Channel) -> Channel:
        """The channel as this connection knows it from now on: a copy, which learns numbers."""
        if channel.id not in self.codecs:
            self.codecs[channel.id] = Codec(replace(channel))
            self._free[channel.id] = MAX_NUMBER
        return self.codecs[channel.id].channel

    def close(self, number: int) -> None:
        self.codecs.pop(number, None)

    # --- out ------------------------------------------------------------------------

    def answer(self, sequence: int, said: dict[str, Any]) -> bytes:
        message = Notification(*_FRONT, "#.ANSWER", {"Sequence": sequence, **said})
        return self.codecs[OWN].encode(message)

    def acknowledgement(self, sequence: int) -> bytes:
        return self.codecs[OWN].encode(Acknowledgement(*_FRONT, sequence))

    def error(self, sequence: int, reason: str) -> bytes:
        return self.codecs[OWN].encode(ErrorReport(*_FRONT, sequence, _text(reason)))

    def numbered(self, channel: int, text: str, mapping: str = "") -> bytes:
        """`#.ADD_SUBJECT`, by which the peer learns how a subject is numbered here."""
        known, subject = self.codecs[channel].channel, Subject.parse(text)
        new = self._new_numbers(known, subject, mapping)
        if self._own_fields + len(new) > MAX_OWN_FIELDS:
            raise SubjectError(text, "its fields have no numbers",
                               f"a connection has up to {MAX_OWN_FIELDS:,} of its own")  # fmt: skip
        self._own_fields += len(new)
        known.fields.update({number: field for field, number in new.items()})
        cast(dict[str, int], known.numbers).update(new)
        numbers = ".".join(map(str, known.numbers_of(subject)))
        return self.codecs[OWN].encode(AddSubject(*_FRONT, channel, text, numbers))

    def _new_numbers(self, channel: Channel, subject: Subject, mapping: str) -> dict[str, int]:
        """New fields get the numbers that were asked for, or free ones: the highest first."""
        new: dict[str, int] = {}
        for field, asked in zip(subject.fields, asked_numbers(subject, mapping), strict=True):
            if field in channel.numbers or field in new:
                continue
            number = self._free_number(channel, new) if asked is None else asked
            if number in channel.fields or number in new.values() or not 0 < number <= MAX_NUMBER:
                raise ChannelError(f"{number} cannot be the number of {field!r}: it is taken")
            new[field] = number
        return new

    def _free_number(self, channel: Channel, new: dict[str, int]) -> int:
        found = self._free[channel.id]
        while found in channel.fields or found in new.values():
            found -= 1
        self._free[channel.id] = found
        return found

    def knows(self, channel: int, subject: Subject | SubjectFilter) -> bool:
        return all(field in self.codecs[channel].channel.numbers for field in subject.fields)

    def delivery(
        self, channel: int, subscription: int, sequence: int, subject: str, said: dict[str, Any]
    ) -> bytes:
        """A message for a subscription; the sequence takes 64 bits of the header.

        A message that fits into no packet is told by an error instead.
        """
        header, front = (channel, subscription, sequence >> 32, sequence & 0xFFFFFFFF), b""
        try:
            if not self.knows(channel, Subject.parse(subject)):
                front = self.numbered(channel, subject)
            message = Notification(*header, subject, packable(said))
            return front + self.codecs[channel].encode(message)
        except (WireError, SubjectError, ChannelError) as error:
            what = f"message {sequence} of channel {channel} fits into no packet: {error}"
            return front + self.error(0, what)


@dataclass(slots=True)
class Slot:
    """The answer to one packet: None while it is not known; empty bytes for an acknowledgement."""

    sequence: int
    answer: bytes | None = None


class Answers:
    """Answers in the order of the packets, whenever each becomes known."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._slots: deque[Slot] = deque()

    def __len__(self) -> int:
        return len(self._slots)

    def expect(self, sequence: int) -> Slot:
        slot = Slot(sequence)
        self._slots.append(slot)
        return slot

    def ready(self) -> bytes:
        """What can be sent now; packets that follow each other are acknowledged together."""
        found, accepted = [], -1
        while self._slots and (answer := self._slots[0].answer) is not None:
            slot = self._slots.popleft()
            if answer:
                if accepted >= 0:
                    found.append(self._peer.acknowledgement(accepted))
                found.append(answer)
            accepted = -1 if answer else slot.sequence
        if accepted >= 0:
            found.append(self._peer.acknowledgement(accepted))
        return b"".join(found)


def body_of(attributes: dict[str, Any]) -> bytes:
    """The attributes of a notification as the JSON that a log keeps."""
    for name, value in attributes.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise MessageError(f"{name} = {value}: a broker keeps finite numbers only")
    return msgspec.json.encode(attributes)


def packable(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes as packets can hold them: what is nested becomes a text of JSON."""
    return {
        name: _text(msgspec.json.encode(value).decode()) if type(value) in (dict, list) else value
        for name, value in attributes.items()
        if value is not None
    }


def _text(text: str) -> str:
    """Without what UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()
