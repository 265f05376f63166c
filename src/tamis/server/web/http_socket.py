"""HTTP of uvicorn with a deadline for the head of each request."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tamis.server.sockets.gate import Gate
from tamis.server.web.raw_socket import RawSocket

_END = b"connection: close\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


def refusal(status: bytes, reason: bytes) -> bytes:
    """An answer that needs no request."""
    body = b'{"error":"%b"}' % reason
    return b"HTTP/1.1 %b\r\n" % status + _END % (len(body), body)


TOO_MANY = refusal(b"503 Service Unavailable", b"too many connections: try again later")
_LATE = refusal(b"408 Request Timeout", b"the head of the request took too long to arrive")


class Http(H11Protocol):
    """uvicorn gives an idle connection a deadline, which its first byte ends. Here only a whole
    head ends it, the first head of a connection included."""

    def __init__(self, gate: Gate, **more: Any) -> None:
        super().__init__(**more)
        self.gate = gate
        self.timeout_keep_alive = gate.limits.greeting  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def _await_head(self) -> None:
        handler = self.timeout_keep_alive_handler
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, handler)

    def data_received(self, data: bytes) -> None:
        self.conn.receive_data(data)
        self.handle_events()

    def on_response_complete(self) -> None:
        """As uvicorn does it; but requests that came in a row have turns with those of others."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._await_head()
        self.flow.resume_reading()
        if self.conn.our_state is h11.DONE and self.conn.their_state is h11.DONE:
            self.conn.start_next_cycle()
            if self.conn.trailing_data[0]:
                self.flow.pause_reading()
                self.gate.rounds.add(self._next)

    def _next(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self.handle_events()

    def timeout_keep_alive_handler(self) -> None:
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self.gate.late += 1
            self.transport.write(_LATE)
        super().timeout_keep_alive_handler()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """uvicorn forgets what came together with the request for a WebSocket."""
        super().handle_websocket_upgrade(event)
        protocol = self.transport.get_protocol()
        assert isinstance(protocol, RawSocket)
        protocol.gate = self.gate
        early, _ = self.conn.trailing_data
        if early:
            protocol.data_received(early)
