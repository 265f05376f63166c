"""WebSocket frames of a client (RFC 6455), without sockets: bytes in, messages out."""

from __future__ import annotations

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without compiled code
    from websockets.utils import apply_mask

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL, PROTOCOL, NOT_UTF8, POLICY, TOO_BIG = 1000, 1002, 1007, 1008, 1009  # why one closes
_KNOWN = {CONTINUED, TEXT, BINARY, CLOSE, PING, PONG}
_CODES = {*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)}  # that peers may send
_BARE = bytes(4)
Incoming = tuple[int, bytes]  # the opcode, and what is in a whole message or a control frame


class FrameError(Exception):
    """The peer breaks the rules; `code` is what its connection is closed with."""

    def __init__(self, code: int) -> None:
        self.code = code


class FrameReader:
    """Bytes of one connection, in pieces of any size. Messages may have `most` bytes.

    What was fed and not taken by `next` stays: its reader decides how much it does at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = max(most, 65536)
        self._data, self._place = b"", 0  # what came, and how much of it was taken
        self._partial = bytearray()  # a frame that is not whole
        self._needed = 2  # bytes that it has at least
        self._kind = 0  # of the message whose fragments are here; 0: none
        self._message = bytearray()  # these fragments, joined
        self.whole = 0  # messages, and control frames between them, that were taken

    @property
    def begun(self) -> bool:
        """Whether a frame or a message is here in part."""
        return bool(self._partial) or self._kind != 0

    @property
    def waiting(self) -> int:
        """Bytes that were fed and not taken."""
        return len(self._data) - self._place

    def only(self, data: bytes) -> bytes | None:
        """The message, if the data are one text in one frame and nothing else is here: it needs
        no `feed`. None: it does."""
        if self._data or self._partial or self._kind:
            return None
        text = _only_text(data)
        if text is None or not text.isascii():
            return None
        self.whole += 1
        return text

    def feed(self, data: bytes) -> None:
        if self._partial:
            self._partial += data
            if len(self._partial) < self._needed:
                return
            data = bytes(self._partial)
            self._partial.clear()
        elif self._place < len(self._data):
            data = self._data[self._place :] + data
        self._data, self._place = data, 0

    def next(self) -> Incoming | None:
        """The next message or control frame; None: it is not here as a whole."""
        if not self._place and not self._kind and (text := _only_text(self._data)) is not None:
            self._data = b""
            self.whole += 1
            return TEXT, _checked(text)
        while self._place < len(self._data):
            end, found = self._frame(self._data, self._place)
            if not end:
                self._partial += self._data[self._place :]
                break
            self._place = end
            if found is not None:
                self.whole += not self._kind
                return found
        self._data, self._place = b"", 0
        return None

    def _frame(self, data: bytes, place: int) -> tuple[int, Incoming | None]:
        """Where the frame at this place ends (0: it is not whole), and what it completes."""
        left = len(data) - place
        if left < 2:
            self._needed = 2
            return 0, None
        self._check_head(data[place], data[place + 1])
        length = data[place + 1] & 127
        start = place + (6 if length < 126 else 8 if length == 126 else 14)
        if start > len(data):
            self._needed = start - place
            return 0, None
        if length >= 126:
            length = int.from_bytes(data[place + 2 : start - 4], "big")
        if len(self._message) + length > self._most:
            raise FrameError(TOO_BIG)
        if start + length > len(data):
            self._needed = start + length - place
            return 0, None
        payload, mask = data[start : start + length], data[start - 4 : start]
        if mask != _BARE:
            payload = apply_mask(payload, mask)
        return start + length, self._take(data[place] & 15, bool(data[place] & 128), payload)

    def _check_head(self, first: int, second: int) -> None:
        opcode = first & 15
        if first & 0x70 or not second & 128 or opcode not in _KNOWN:
            raise FrameError(PROTOCOL)
        if opcode >= CLOSE and (second & 127 > 125 or not first & 128):
            raise FrameError(PROTOCOL)

    def _take(self, opcode: int, last: bool, payload: bytes) -> Incoming | None:
        if opcode >= CLOSE:
            return opcode, _closing(payload) if opcode == CLOSE else payload
        if (opcode == CONTINUED) != bool(self._kind):
            raise FrameError(PROTOCOL)
        if last and opcode:
            return opcode, _checked(payload) if opcode == TEXT else payload
        self._kind = self._kind or opcode
        self._message += payload
        if not last:
            return None
        kind, message = self._kind, bytes(self._message)
        self._kind, self._message = 0, bytearray()
        return kind, _checked(message) if kind == TEXT else message


def _checked(text: bytes) -> bytes:
    """RFC 6455, 8.1: a text is UTF-8."""
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            raise FrameError(NOT_UTF8) from None
    return text


def _closing(payload: bytes) -> bytes:
    """RFC 6455, 5.5.1 and 7.4: nothing, or a code that may be sent and a reason in UTF-8."""
    if payload and int.from_bytes(payload[:2], "big") not in _CODES:
        raise FrameError(PROTOCOL)
    _checked(payload[2:])
    return payload


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
