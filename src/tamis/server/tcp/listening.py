"""What servers of protocols over TCP share: a listener, and the way out of a connection."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable

from tamis.errors import InputError

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """Runs `talk` for each connection; `stop` ends them all."""

    def __init__(self, talk: Talk) -> None:
        self._talk_with = talk
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """The port that it got."""
        try:
            self._server = await asyncio.start_server(self._talk, host, port, ssl=context)
        except OSError as error:
            raise InputError(f"{host}:{port}: {error.strerror}") from None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
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


def address_of(writer: asyncio.StreamWriter) -> str:
    """Where the peer is; empty if it has gone already."""
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else ""


class Outbox:
    """Bytes that wait to be written, in order; says how many messages left."""

    def __init__(self, writer: asyncio.StreamWriter, written: Callable[[int], None]) -> None:
        self._writer, self._written = writer, written
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._more, self._less = asyncio.Event(), asyncio.Event()
        self._broken = False

    def put(self, data: bytes, count: int = 0) -> None:
        """`count`: how many messages of the broker this is."""
        self._waiting.append((data, count))
        self._more.set()

    async def below(self, most: int) -> None:
        """Wait until fewer wait: who sends and does not read has to wait as well."""
        while len(self._waiting) >= most:
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
            self._less.set()
            if count:
                self._written(count)
