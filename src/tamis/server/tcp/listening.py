"""What servers of protocols over TCP share: a listener, and the ways in and out of a connection."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Generic, Protocol, TypeVar

from tamis.server.sockets.accepting import Acceptor, listen
from tamis.server.sockets.gate import Gate

Frame_co = TypeVar("Frame_co", covariant=True)
_AHEAD = 1 << 12  # bytes of a peer that are read ahead; asyncio stops at twice as many
_READ = 1 << 16  # bytes of a peer that are decoded at a time
_LOOK = 4  # frames of a peer between two looks at whether the turn has time left
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """Runs `talk` for each connection; `stop` ends them all."""

    def __init__(self, talk: Talk, gate: Gate, refusal: bytes) -> None:
        self._talk_with, self._gate, self._refusal = talk, gate, refusal
        self._acceptor: Acceptor | None = None
        self._connections: set[asyncio.Task[None]] = set()

    def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """The port that it got."""
        self._acceptor = Acceptor(
            listen(host, port), self._gate, self._protocol, context, self._refusal
        )
        return self._acceptor.start()

    def _protocol(self) -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(_AHEAD), self._talk)

    async def stop(self) -> None:
        if self._acceptor is not None:
            self._acceptor.stop()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._talk_with(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            if (error := reader.exception()) is not None:  # it holds the frames that it passed
                error.__traceback__ = error.__context__ = None


def address_of(writer: asyncio.StreamWriter) -> str:
    """Where the peer is; empty if it has gone already."""
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else ""


class Outbox:
    """Bytes that wait to be written, in order; says how many messages left."""

    def __init__(self, writer: asyncio.StreamWriter, written: Callable[[int], None]) -> None:
        self._writer, self._written = writer, written
        self._waiting: deque[tuple[bytes, int]] = deque()
        self.size = 0  # bytes that wait
        self._more, self._less = asyncio.Event(), asyncio.Event()
        self._broken = False

    def put(self, data: bytes, count: int = 0) -> None:
        """`count`: how many messages of the broker this is."""
        self._waiting.append((data, count))
        self.size += len(data)
        self._more.set()

    async def below(self, most: int) -> None:
        """Wait until fewer bytes wait: who sends and does not read has to wait as well."""
        while self.size > most:
            if self._broken:
                raise ConnectionError("the peer is gone")
            self._less.clear()
            await self._less.wait()

    async def write(self) -> None:
        """Until it is cancelled, or the peer is gone."""
        try:
            while True:
                await self.drain()
                self._more.clear()
                await self._more.wait()
        except ConnectionError:
            self._broken = True
            self._less.set()

    async def drain(self) -> None:
        while self._waiting:
            data, count = self._waiting.popleft()
            self._writer.write(data)
            await self._writer.drain()
            self.size -= len(data)
            self._less.set()
            if count:
                self._written(count)

    def end(self) -> None:
        """Let go of what was not written and of the connection, which holds this in turn: else
        both would wait for the garbage collector."""
        self._waiting.clear()
        self._written = _ignore


def _ignore(_: int) -> None:
    pass


class Decoder(Protocol[Frame_co]):
    """Bytes in, frames out; `begun`: a frame is here in part."""

    def feed(self, data: bytes) -> Iterator[Frame_co]: ...

    @property
    def begun(self) -> bool: ...


class Inbox(Generic[Frame_co]):
    """The frames of a peer, each in time. TimeoutError: it was late.

    `known`: it has said who it is. `silence`: seconds in which something must be heard; 0: none.
    """

    known = False
    silence = 0.0

    def __init__(
        self,
        reader: asyncio.StreamReader,
        decoder: Decoder[Frame_co],
        out: Outbox,
        gate: Gate,
    ) -> None:
        self._reader, self._decoder, self._out = reader, decoder, out
        self._gate, self._limits = gate, gate.limits
        self._clock = asyncio.get_running_loop().time
        self._greeting = self._clock() + gate.limits.greeting
        self._arrival: float | None = None  # when what has begun must be whole

    async def frames(self) -> AsyncIterator[Frame_co]:
        """Until the peer ends. Who does not read its answers is not listened to."""
        while True:
            async with asyncio.timeout_at(self._deadline()):
                data = await self._reader.read(_READ)
            if not data:
                return
            count, rounds = 0, self._gate.rounds
            if not rounds.open():
                await rounds.turn(first=True)
            most = self._gate.share(self._limits.answers)
            for count, frame in enumerate(self._decoder.feed(data), 1):
                if self._out.size > most:
                    await self._out.below(most)
                yield frame
                if not count % _LOOK and not rounds.open():
                    await rounds.turn()
            self._await_rest(count > 0)

    def _await_rest(self, whole: bool) -> None:
        """`whole`: a frame was completed, so what is left has just begun."""
        if not self._decoder.begun:
            self._arrival = None
        elif whole or self._arrival is None:
            self._arrival = self._clock() + self._limits.arrival

    def _deadline(self) -> float | None:
        if not self.known:
            return self._greeting
        silent = self._clock() + self.silence if self.silence else None
        return min((t for t in (silent, self._arrival) if t is not None), default=None)
