"""STOMP 1.2 frames: bytes in, frames out, and back. No sockets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tamis.errors import WireError

MAX_FRAME = 1 << 20  # bytes of a body
MAX_HEAD = 64 << 10  # bytes of command and headers
MAX_HEADERS = 100
_ESCAPES = {"\\r": "\r", "\\n": "\n", "\\c": ":", "\\\\": "\\"}
_UNESCAPED = str.maketrans({value: key for key, value in _ESCAPES.items()})
_PLAIN = ("CONNECT", "CONNECTED")  # whose headers have no escapes, as in STOMP 1.0


@dataclass(frozen=True, slots=True)
class Frame:
    """Of headers that are repeated the first counts."""

    command: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def encode(frame: Frame) -> bytes:
    plain = frame.command in _PLAIN
    lines = [frame.command]
    for name, value in frame.headers.items():
        lines.append(f"{name}:{value}" if plain else f"{_escaped(name)}:{_escaped(value)}")
    if frame.body:
        lines.append(f"content-length:{len(frame.body)}")
    return ("\n".join(lines) + "\n\n").encode() + frame.body + b"\0"


def _escaped(text: str) -> str:
    return text.translate(_UNESCAPED)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    parts, at = [], 0
    while at < len(text):
        if text[at] == "\\":
            found = _ESCAPES.get(text[at : at + 2])
            if found is None:
                raise WireError(f"{text[at : at + 2]!r} is no escape of STOMP")
            parts.append(found)
            at += 2
        else:
            parts.append(text[at])
            at += 1
    return "".join(parts)


class Decoder:
    """Give it bytes as they come, and take the frames that are whole.

    After a WireError the stream has lost its step: close it. Holds one frame at most.
    """

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self.max_frame = max_frame
        self._waiting = bytearray()
        self._head: tuple[str, dict[str, str], int | None] | None = None
        self._searched = 0  # where the end of the head, or of the body, was not found yet

    @property
    def begun(self) -> bool:
        """Whether a frame is here in part."""
        return bool(self._waiting) or self._head is not None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete with this piece."""
        self._waiting += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        if self._head is None and not self._read_head():
            return None
        assert self._head is not None
        command, headers, length = self._head
        size = self._body_size(length)
        if size is None:
            return None
        body = bytes(self._waiting[:size])
        del self._waiting[: size + 1]
        self._head, self._searched = None, 0
        return Frame(command, headers, body)

    def _read_head(self) -> bool:
        waiting = self._waiting
        skip = 0
        while skip < len(waiting) and waiting[skip] in b"\r\n":  # heart-beats
            skip += 1
        if skip:
            del waiting[:skip]
            self._searched = 0
        end, size = _blank_line(waiting, self._searched)
        if end < 0:
            self._searched = max(0, len(waiting) - 3)
            if len(waiting) > MAX_HEAD:
                raise WireError(f"a head has {MAX_HEAD:,} bytes at most")
            return False
        if end > MAX_HEAD:
            raise WireError(f"a head has {MAX_HEAD:,} bytes at most")
        self._head = _head(bytes(waiting[:end]), self.max_frame)
        del waiting[: end + size]
        self._searched = 0
        return True

    def _body_size(self, length: int | None) -> int | None:
        """How long the body is, or None while it is not all there."""
        waiting = self._waiting
        if length is not None:
            if len(waiting) <= length:
                return None
            if waiting[length] != 0:
                raise WireError("a body does not end where its content-length says", length)
            return length
        end = waiting.find(b"\0", self._searched)
        if end < 0:
            self._searched = len(waiting)
        if (len(waiting) if end < 0 else end) > self.max_frame:
            raise WireError(f"a body has {self.max_frame:,} bytes at most")
        return None if end < 0 else end


def _blank_line(data: bytearray, start: int) -> tuple[int, int]:
    """Where the empty line behind the headers is, and how many bytes end the head there."""
    plain = data.find(b"\n\n", start)
    carriage = data.find(b"\n\r\n", start, len(data) if plain < 0 else plain + 1)
    return (plain, 2) if carriage < 0 else (carriage, 3)


def _head(data: bytes, max_frame: int) -> tuple[str, dict[str, str], int | None]:
    try:
        lines = [line.removesuffix("\r") for line in data.decode().split("\n")]
    except UnicodeDecodeError as error:
        raise WireError("a head is not UTF-8", error.start) from None
    command, *rest = lines
    if not command.isascii() or not command.isalpha() or len(command) > 32:
        raise WireError(f"{command[:32]!r} is no command of STOMP")
    if len(rest) > MAX_HEADERS:
        raise WireError(f"a frame has {MAX_HEADERS} headers at most")
    headers: dict[str, str] = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise WireError(f"{line[:40]!r} is no header")
        if command not in _PLAIN:
            name, value = _unescaped(name), _unescaped(value)
        headers.setdefault(name, value)
    return command, headers, _length(headers, max_frame)


def _length(headers: dict[str, str], max_frame: int) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise WireError(f"{text[:20]!r} is no content-length")
    if int(text) > max_frame:
        raise WireError(f"a body has {max_frame:,} bytes at most")
    return int(text)
