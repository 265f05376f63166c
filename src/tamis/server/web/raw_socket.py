"""WebSockets for uvicorn whose messages go straight to their connection.

uvicorn does the handshake, keep-alive and the end. Between them a message of a few bytes would
pass a queue, a task and a general parser, which cost several times what the broker does with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Close, Frame, Opcode

from tamis.server.web.frame_reader import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    FrameError,
    FrameReader,
    text_frame,
)

NAME = "tamis.socket"  # under which a connection's scope holds it


class Http(H11Protocol):
    """uvicorn forgets what came together with the request for a WebSocket."""

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        early, _ = self.conn.trailing_data
        if early:
            self.transport.get_protocol().data_received(early)  # type: ignore[attr-defined]


class RawSocket(WebSocketsSansIOProtocol):
    """`take` gets each message, `more` is called when the peer can be sent more."""

    take: Callable[[bytes], None] | None = None
    more: Callable[[], None]
    ready = True  # whether the peer keeps up: what is sent now need not wait

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope["extensions"][NAME] = self  # type: ignore[assignment]

    def attach(self, take: Callable[[bytes], None], more: Callable[[], None]) -> None:
        """From now on messages go here; the handshake is over."""
        self.take, self.more = take, more
        self._reader = FrameReader(self.config.ws_max_size)
        del self.request, self.response  # nobody asks for them after the handshake,
        self.scope["headers"] = []  # and every connection would hold them as long as it lasts
        self.resume()

    # --- in -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        take = self.take
        if take is None:
            super().data_received(data)
            return
        try:
            for opcode, payload in self._reader.feed(data):
                if opcode in (TEXT, BINARY):
                    take(payload)
                else:
                    self._control(opcode, payload)
        except FrameError as error:
            self.end(error.code)

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.transport.write(bytes((0x80 | PONG, len(payload))) + payload)
        elif opcode == PONG:
            self.handle_pong(Frame(Opcode.PONG, payload))
        elif opcode == CLOSE:
            self.end(int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1000)

    def end(self, code: int) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        self.close_sent = True
        payload = Close(code, "").serialize() if 1000 <= code < 5000 and code != 1005 else b""
        self.transport.write(bytes((0x80 | CLOSE, len(payload))) + payload)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": ""})
        if self.ready:
            self.transport.close()
        else:  # a peer that reads nothing would keep it open
            self.transport.abort()

    def hold(self) -> None:
        """Read nothing more from the peer until `resume`."""
        if not self.read_paused and not self.transport.is_closing():
            self.read_paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.read_paused:
            self.read_paused = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    # --- out ------------------------------------------------------------------------

    def send_text(self, message: bytes) -> None:
        if not self.close_sent and not self.disconnected:
            self.transport.write(text_frame(message))

    def send_texts(self, messages: list[bytes]) -> None:
        if not self.close_sent and not self.disconnected:
            self.transport.write(b"".join([text_frame(one) for one in messages]))

    def send_binary(self, message: bytes) -> None:
        if not self.close_sent and not self.disconnected:
            self.transport.write(text_frame(message, BINARY))

    def pause_writing(self) -> None:
        super().pause_writing()
        self.ready = False

    def resume_writing(self) -> None:
        super().resume_writing()
        self.ready = True
        if self.take is not None:
            self.more()
