"""A client of Tamis packets in plain Python, written from docs/wire.md and docs/packets.md alone.

It imports nothing of Tamis, so it is also a sketch for a client in another language.
"""

from __future__ import annotations

import datetime
import socket
import struct
import tomllib
from collections import deque
from dataclasses import dataclass, field
from typing import Any

FIXED = {1: "i", 2: "I", 3: "i", 4: "I", 5: "i", 6: "I", 7: "q", 9: "f", 10: "d", 13: "q"}
NAMES = {
    "int8": 1, "bool": 2, "int16": 3, "uint16": 4, "int32": 5, "uint32": 6, "int64": 7, "int": 7,
    "float32": 9, "double": 10, "float": 10, "string": 11, "chararray": 12, "timestamp": 13,
}  # fmt: skip
BOOL, LONG, DOUBLE, STRING, TIME = 2, 7, 10, 11, 13
CONTROL = {
    "#": 0, "*": 4, ">": 5, "RESUBSCRIPTION": 6, "UNSUBSCRIPTION": 7, "ADD_SUBJECT": 8,
    "getCache": 9, "ACKNOWLEDGEMENT": 10, "ERROR": 11, "COMMAND": 12, "ANSWER": 13,
    "SUBSCRIPTION": 100,
}  # fmt: skip
OPERATORS = {"<=": 0, ">=": 1, "between": 2, "=": 3, "in": 4, "not in": 5, "absent": 6, "there": 7}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def code_of(value: Any) -> int:
    kinds = {bool: BOOL, int: LONG, float: DOUBLE, str: STRING, datetime.datetime: TIME}
    return kinds[type(value)]


def packed(code: int, value: Any) -> bytes:
    """A value: four or eight bytes, or the size of a text, the text, and padding."""
    if code not in FIXED:
        text = value.encode()
        return struct.pack(">I", len(text)) + padded(text)
    if isinstance(value, datetime.datetime):
        value = (value - EPOCH) // MICROSECOND
    return struct.pack(">" + FIXED[code], value)


class Reading:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def numbers(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return found

    def align(self) -> None:
        self.at += -self.at % 4

    def text(self, size: int) -> str:
        found = self.data[self.at : self.at + size].decode()
        self.at += size
        self.align()
        return found

    def value(self, code: int) -> Any:
        if code not in FIXED:
            return self.text(self.numbers("I")[0])
        (found,) = self.numbers(FIXED[code])
        return shown(code, found)


def shown(code: int, found: Any) -> Any:
    return bool(found) if code == BOOL else EPOCH + found * MICROSECOND if code == TIME else found


@dataclass
class Channel:
    """What packets of a channel hold: its attributes by position, its fields by number."""

    id: int
    attributes: list[tuple[str, int]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=lambda: dict(CONTROL))

    @classmethod
    def read(cls, form: str, id: int) -> Channel:
        (told,) = tomllib.loads(form)["channel"]
        found = cls(id, [(a["name"], NAMES[a["type"]]) for a in told.get("attributes", [])])
        for subject, mapping in told.get("subjects", {}).items():
            found.learn(subject, mapping)
        return found

    def learn(self, subject: str, mapping: str) -> None:
        numbers = map(int, mapping.split("."))
        self.numbers |= dict(zip(subject.split("."), numbers, strict=True))

    def fields(self, subject: str) -> list[int]:
        return [self.numbers[name] for name in subject.split(".")]


@dataclass
class Packet:
    channel: int
    publisher: int
    session: int
    sequence: int
    subject: str
    attributes: dict[str, Any]


class RefusedError(Exception):
    """The broker refused a packet."""


class Client:
    """One connection. Messages, and errors that answer nothing, wait in `came`."""

    def __init__(self, host: str, port: int, publisher: int = 0, session: int = 0) -> None:
        self.socket = socket.create_connection((host, port), 20)
        self.publisher, self.session, self.sequence = publisher, session, 0
        self.channels = {0: Channel(0)}
        self.came: deque[Packet] = deque()
        self._waiting = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    # --- out ------------------------------------------------------------------------

    def send(self, channel: int, subject: str, body: bytes, sequence: int = 0) -> int:
        """A packet; its sequence number."""
        self.sequence = sequence or self.sequence + 1
        numbers = self.channels[channel].fields(subject)
        fields = padded(struct.pack(f">{len(numbers)}H", *numbers))
        header = (channel, self.publisher, self.session, self.sequence, len(numbers))
        length = 24 + len(fields) + len(body)
        self.socket.sendall(struct.pack(">6I", length, *header) + fields + body)
        return self.sequence

    def notify(self, channel: int, subject: str, said: dict[str, Any], sequence: int = 0) -> int:
        """A notification: predefined attributes in their places, the others by name."""
        places = self.channels[channel].attributes if not subject.startswith("#.") else []
        masks, fixed, texts = [0] * -(-len(places) // 32), b"", b""
        for i, (name, code) in enumerate(places):
            if name in said:
                masks[i // 32] |= 1 << i % 32
            size = struct.calcsize(">" + FIXED.get(code, "I"))
            value = packed(code, said[name]) if name in said else bytes(size)
            fixed, texts = fixed + value[:size], texts + value[size:]
        more = sorted((n.encode(), v) for n, v in said.items() if n not in dict(places))
        rest = b"".join(
            struct.pack(">HH", code_of(v), len(n)) + padded(n) + packed(code_of(v), v)
            for n, v in more
        )
        front = struct.pack(f">HH{len(masks)}I", len(places), len(more), *masks)
        return self.send(channel, subject, front + fixed + texts + rest, sequence)

    def publish(self, channel: int, subject: str, said: dict[str, Any], sequence: int = 0) -> None:
        self.acknowledged(self.notify(channel, subject, said, sequence))

    def command(self, name: str, **said: Any) -> dict[str, Any]:
        return self.answer(self.notify(0, "#.COMMAND", {"Command": name, **said}))

    def open(self, name: str) -> int:
        """The id of a channel, whose packets can be read and written from now on."""
        found = self.command("pc.chn.open", Channel=name)
        self.channels[found["ChannelId"]] = Channel.read(found["Form"], found["ChannelId"])
        return int(found["ChannelId"])

    def add_subject(self, channel: int, subject: str) -> str:
        """The numbers of a subject, which packets can use from now on."""
        said = {"ChannelId": channel, "Subject": subject}
        self.acknowledged(self.notify(0, "#.ADD_SUBJECT", said))
        return ".".join(map(str, self.channels[channel].fields(subject)))

    def subscribe(
        self,
        channel: int,
        port: int,
        id: int,
        subjects: str,
        disjuncts: list[list[tuple[Any, ...]]],
        subject: str = "#.SUBSCRIPTION",
    ) -> None:
        """Tests are (position or name, type, operator, operands...)."""
        codes, operands, count = b"", b"", 0
        for tests in disjuncts:
            for i, (where, code, operator, *given) in enumerate(tests):
                place = where if isinstance(where, int) else 127
                bits = (i > 0) << 15 | place << 8 | code << 3 | OPERATORS[operator]
                codes, count = codes + struct.pack(">H", bits), count + 1
                operands += packed(STRING, where) if place == 127 else b""
                operands += struct.pack(">I", len(given)) if operator in ("in", "not in") else b""
                operands += b"".join(packed(code, value) for value in given)
        fields = self.channels[channel].fields(subjects)
        front = struct.pack(f">4H{len(fields)}H", port, id, len(fields), count, *fields)
        self.acknowledged(self.send(channel, subject, padded(front) + padded(codes) + operands))

    def unsubscribe(self, channel: int, port: int, id: int) -> None:
        body = struct.pack(">HH", port, id)
        self.acknowledged(self.send(channel, "#.UNSUBSCRIPTION", body))

    # --- in -------------------------------------------------------------------------

    def packet(self) -> Packet:
        """The next packet that comes."""
        while len(self._waiting) < 4 or len(self._waiting) < self._length:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("the broker closed the connection")
            self._waiting += more
        data, self._waiting = self._waiting[: self._length], self._waiting[self._length :]
        return self._read(data)

    @property
    def _length(self) -> int:
        return int.from_bytes(self._waiting[:4])

    def _read(self, data: bytes) -> Packet:
        reading = Reading(data)
        _, number, publisher, session, sequence, count = reading.numbers("6I")
        channel = self.channels[number]
        names = {n: name for name, n in channel.numbers.items()}
        subject = ".".join([names[n] for n in reading.numbers(f"{count}H")])
        reading.align()
        said = self._attributes(reading, channel)
        if subject == "#.ADD_SUBJECT":
            self.channels[said["ChannelId"]].learn(said["Subject"], said["Mapping"])
        return Packet(number, publisher, session, sequence, subject, said)

    def _attributes(self, reading: Reading, channel: Channel) -> dict[str, Any]:
        places, more = reading.numbers("HH")
        masks = reading.numbers(f"{-(-places // 32)}I")
        found: dict[str, Any] = {}
        sizes = {}
        for i, (name, code) in enumerate(channel.attributes[:places]):
            (value,) = reading.numbers(FIXED.get(code, "I"))
            if masks[i // 32] >> i % 32 & 1:
                found[name] = shown(code, value)
                sizes |= {} if code in FIXED else {name: value}
        for name, size in sizes.items():
            found[name] = reading.text(size)
        for _ in range(more):
            code, size = reading.numbers("HH")
            name = reading.text(size)
            found[name] = reading.value(code)
        return found

    def answer(self, sequence: int) -> dict[str, Any]:
        """What a packet was answered; what else comes waits."""
        while True:
            packet = self.packet()
            said = packet.attributes
            if packet.subject == "#.ERROR" and said["Sequence"] == sequence:
                raise RefusedError(said["Reason"])
            if packet.subject in ("#.ANSWER", "#.ACKNOWLEDGEMENT") and packet.channel == 0:
                if said["Sequence"] == sequence:
                    return said
            elif packet.subject != "#.ADD_SUBJECT":
                self.came.append(packet)

    def acknowledged(self, sequence: int) -> None:
        self.answer(sequence)

    def message(self) -> Packet:
        """The next message or error that nobody asked for."""
        while not self.came:
            packet = self.packet()
            if packet.subject != "#.ADD_SUBJECT":
                self.came.append(packet)
        return self.came.popleft()
