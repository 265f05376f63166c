"""WebSocket frames of a client (RFC 6455), without sockets: bytes in, messages out."""

from __future__ import annotations

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without compiled code
    from websockets.utils import apply_mask

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
PROTOCOL, TOO_BIG = 1002, 1009  # why a connection is closed
_KNOWN = {CONTINUED, TEXT, BINARY, CLOSE, PING, PONG}
_BARE = bytes(4)
Incoming = tuple[int, bytes]  # the opcode, and what is in a whole message or a control frame


class FrameError(Exception):
    """The peer breaks the rules; `code` is what its connection is closed with."""

    def __init__(self, code: int) -> None:
        self.code = code


class FrameReader:
    """Bytes of one connection, in pieces of any size. Messages may have `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = max(most, 65536)
        self._buffer = bytearray()
        self._needed = 2  # bytes that the next frame has at least
        self._kind = 0  # of the message whose fragments are here; 0: none
        self._fragments: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Incoming]:
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        elif not self._kind and (text := _only_text(data)) is not None:
            return [(TEXT, text)]
        found: list[Incoming] = []
        place = 0
        while place < len(data):
            end = self._frame(data, place, found)
            if not end:
                self._buffer += data[place:]
                break
            place = end
        return found

    def _frame(self, data: bytes, place: int, found: list[Incoming]) -> int:
        """Take the frame at this place and say where it ends; 0: it is not there as a whole."""
        left = len(data) - place
        if left < 2:
            self._needed = 2
            return 0
        self._check_head(data[place], data[place + 1])
        length = data[place + 1] & 127
        start = place + (6 if length < 126 else 8 if length == 126 else 14)
        if start > len(data):
            self._needed = start - place
            return 0
        if length >= 126:
            length = int.from_bytes(data[place + 2 : start - 4], "big")
        if self._size + length > self._most:
            raise FrameError(TOO_BIG)
        if start + length > len(data):
            self._needed = start + length - place
            return 0
        payload, mask = data[start : start + length], data[start - 4 : start]
        if mask != _BARE:
            payload = apply_mask(payload, mask)
        self._take(data[place] & 15, bool(data[place] & 128), payload, found)
        return start + length

    def _check_head(self, first: int, second: int) -> None:
        opcode = first & 15
        if first & 0x70 or not second & 128 or opcode not in _KNOWN:
            raise FrameError(PROTOCOL)
        if opcode >= CLOSE and (second & 127 > 125 or not first & 128):
            raise FrameError(PROTOCOL)

    def _take(self, opcode: int, last: bool, payload: bytes, found: list[Incoming]) -> None:
        if opcode >= CLOSE:
            found.append((opcode, payload))
            return
        if (opcode == CONTINUED) != bool(self._kind):
            raise FrameError(PROTOCOL)
        if last and opcode:
            found.append((opcode, payload))
            return
        self._kind = self._kind or opcode
        self._size += len(payload)
        self._fragments.append(payload)
        if last:
            found.append((self._kind, b"".join(self._fragments)))
            self._kind = self._size = 0
            self._fragments = []


def _only_text(data: bytes) -> bytes | None:
    """What most pieces are: a text in one frame of less than 64 kB, and nothing else."""
    size = len(data)
    if size < 6 or data[0] != 0x81:
        return None
    length, start = data[1] - 128, 6
    if length == 126 and size >= 8:
        length, start = (data[2] << 8) + data[3], 8
    elif not 0 <= length < 126:
        return None
    if size != start + length:
        return None
    payload, mask = data[start:], data[start - 4 : start]
    return payload if mask == _BARE else apply_mask(payload, mask)


def text_frame(data: bytes, opcode: int = TEXT) -> bytes:
    """A message to a client, in one frame."""
    size, first = len(data), 0x80 | opcode
    if size < 126:
        return b"%c%c%b" % (first, size, data)
    if size < 65536:
        return b"%c\x7e%b%b" % (first, size.to_bytes(2, "big"), data)
    return b"%c\x7f%b%b" % (first, size.to_bytes(8, "big"), data)
