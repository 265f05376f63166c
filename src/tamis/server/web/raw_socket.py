"""WebSockets for uvicorn whose messages go straight to their connection.

uvicorn does the handshake, keep-alive and the end. Between them a message of a few bytes would
pass a queue, a task and a general parser, which cost several times what the broker does with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Close, Frame, Opcode

from tamis.server.sockets.gate import Gate, most_read
from tamis.server.sockets.rounds import AT_ONCE, LIGHT, SLICE
from tamis.server.web.frame_reader import (
    BINARY,
    CLOSE,
    NORMAL,
    PING,
    POLICY,
    PONG,
    PROTOCOL,
    TEXT,
    FrameError,
    FrameReader,
    text_frame,
)

NAME = "tamis.socket"  # under which a connection's scope holds it


def _drop(_: bytes) -> None:
    pass


def _do_nothing() -> None:
    pass


class RawSocket(WebSocketsSansIOProtocol):
    """`take` gets each message, `more` is called when the peer can be sent more.

    A peer that does not read is not listened to: while `ready` is false, and from `hold` to
    `resume`, its messages stay unread.
    """

    take: Callable[[bytes], None] | None = None
    more: Callable[[], None]
    gate: Gate
    ready = True  # whether the peer keeps up: what is sent now need not wait
    held = False
    _early = False  # the peer spoke before the handshake was answered
    _taking = False
    _queued = False  # whether it goes on in a round
    _begun = 0.0  # when the message began that is here in part; 0: none is
    _deadline: asyncio.TimerHandle | None = None

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope["extensions"][NAME] = self  # type: ignore[assignment]

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:  # the handshake was refused:
            self.handshake_complete = True  # uvicorn would log an error for each

    def attach(self, take: Callable[[bytes], None], more: Callable[[], None]) -> None:
        """From now on messages go here; the handshake is over."""
        self.take, self.more = take, more
        self._reader, self._seen = FrameReader(self.config.ws_max_size), 0
        del self.request, self.response  # nobody asks for them after the handshake,
        self.scope["headers"] = []  # and every connection would hold them as long as it lasts
        if self._early:  # which no client may do (RFC 6455, 4.1): dropping it would be a loss
            self.end(PROTOCOL)
        else:
            self.resume()

    def detach(self) -> None:
        """Let go of the connection, which holds this in turn: else both would wait for the garbage
        collector. What still comes is dropped."""
        if self.take is not None:
            self.take, self.more = _drop, _do_nothing

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()
        # What refers to itself would wait for the garbage collector:
        self.conn.parser.close()
        if (scope := getattr(self, "scope", None)) is not None:
            scope["extensions"].pop(NAME, None)

    # --- in -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.take is not None:
            free = self.ready and not (self.read_paused or self.close_sent)
            if free and len(data) <= LIGHT and (text := self._reader.only(data)) is not None:
                self.take(text)  # most messages come so, and leave nothing to do
            else:
                self._reader.feed(data)
                self._go_on()
                if not self.read_paused and len(data) >= most_read(self.transport):
                    self.gate.lend(self.transport)
        elif self.handshake_initiated:
            self._early = True
            self._pause()
        else:
            super().data_received(data)

    def _go_on(self) -> None:
        """Take what is here, and read on when all of it was taken."""
        if self._taking:
            return
        self._taking = True
        try:
            if self._take_some():
                self._read_on()
                self._watch()
            else:
                self._pause()
        except FrameError as error:
            self.end(error.code)
        finally:
            self._taking = False

    def _take_some(self) -> bool:
        """Whether everything was taken."""
        take, reader, rounds = self.take, self._reader, self.gate.rounds
        assert take is not None
        for count in range(SLICE):
            if self.held or not self.ready or self.close_sent:
                return False
            if (count >= AT_ONCE or reader.waiting > LIGHT) and not rounds.open():
                break
            if (found := reader.next()) is None:
                return True
            if found[0] in (TEXT, BINARY):
                take(found[1])
            else:
                self._control(*found)
        self._queue()
        return False

    def _queue(self) -> None:
        if not self._queued:
            self._queued = True
            self.gate.rounds.add(self._next_round)

    def _next_round(self) -> None:
        self._queued = False
        self._go_on()

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.transport.write(bytes((0x80 | PONG, len(payload))) + payload)
        elif opcode == PONG:
            self.handle_pong(Frame(Opcode.PONG, payload))
        elif opcode == CLOSE:
            self.end(int.from_bytes(payload[:2], "big") or NORMAL)

    def end(self, code: int) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        self.close_sent = True
        payload = Close(code, "").serialize()
        self.transport.write(bytes((0x80 | CLOSE, len(payload))) + payload)
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": ""})
        if self.ready:
            self.transport.close()
        else:  # a peer that reads nothing would keep it open
            self.transport.abort()

    def hold(self) -> None:
        """Take nothing more from the peer until `resume`."""
        self.held = True
        self._pause()

    def resume(self) -> None:
        self.held = False
        self._go_on()

    def _pause(self) -> None:
        if not self.read_paused and not self.transport.is_closing():
            self.read_paused = True
            self.transport.pause_reading()

    def _read_on(self) -> None:
        if self.read_paused and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()

    def _watch(self) -> None:
        """What has begun must become whole in time."""
        if not self._reader.begun:
            self._begun = 0.0
        elif not self._begun or self._seen != self._reader.whole:
            self._begun, self._seen = self.loop.time(), self._reader.whole
            if self._deadline is None:
                self._wait(self.gate.limits.arrival)

    def _wait(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._deadline = None
        if not self._begun:
            return
        patience = self.gate.limits.arrival
        left = patience if self.read_paused else self._begun + patience - self.loop.time()
        if left > 0:
            self._wait(left)
        else:
            self.gate.late += 1
            self.end(POLICY)

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
            self._queue()  # many peers may read on in the same moment
