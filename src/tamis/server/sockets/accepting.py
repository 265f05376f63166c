"""Takes connections from a listening socket: as many as the gate lets in, each with a deadline.

asyncio's own loop accepts without a limit, and logs without one when descriptors run out.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from tamis.errors import InputError
from tamis.server.sockets.gate import MOST_READ, Gate, network_of, set_most_read
from tamis.server.sockets.memory import give_back
from tamis.server.sockets.unread import LINGER, Unread

LOG = logging.getLogger("tamis.server.sockets")
_BACKLOG = 2_048  # connections that the system holds until they are taken
_AT_ONCE = 8  # connections that are taken in one turn of the event loop
_MOST_UNWRITTEN = 1 << 16  # bytes that a transport holds before it asks to wait
_UNSENT = getattr(socket, "TCP_NOTSENT_LOWAT", 0)  # an option that Linux and macOS have
_MOST_UNSENT = 1 << 16  # bytes that the system takes beyond what the peer's window takes
_REST = 1.0  # seconds without taking any, if descriptors or memory have run out


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off, but only for sockets that say that they are TCP
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except (OSError, TypeError) as error:  # TypeError: no name of a host can be so
        found.close()
        raise InputError(f"{host}:{port}: {getattr(error, 'strerror', error)}") from None
    found.setblocking(False)
    return found


class _Accepted(socket.socket):
    """Says when it is closed, by whichever part of asyncio."""

    closed: Callable[[_Accepted], None] | None = None
    address = ""

    def close(self) -> None:
        closed, self.closed = self.closed, None
        super().close()
        if closed is not None:
            closed(self)


class Acceptor:
    """`protocol` makes what talks to a connection; `refusal` is sent to those that are too many."""

    def __init__(
        self,
        listening: socket.socket,
        gate: Gate,
        protocol: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None = None,
        refusal: bytes = b"",
    ) -> None:
        self._listening, self._gate, self._protocol = listening, gate, protocol
        self._context, self._refusal = context, b"" if context else refusal
        self._unread = Unread(gate.limits.unread)
        self._transports: dict[socket.socket, asyncio.Transport] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._resting: asyncio.TimerHandle | None = None
        self._share = MOST_READ  # bytes that a connection may read at once, about

    def start(self) -> int:
        """The port that it got."""
        self._listening.listen(_BACKLOG)
        self._work()
        self._keep(self._watch())
        return int(self._listening.getsockname()[1])

    def _work(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def stop(self) -> None:
        """No new connections; those that are open stay."""
        self._loop.remove_reader(self._listening)
        if self._resting is not None:
            self._resting.cancel()
        for task in self._tasks:
            task.cancel()
        self._listening.close()

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                taken, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                LOG.warning("no connection is taken for a second: %s", error.strerror)
                self._loop.remove_reader(self._listening)
                self._resting = self._loop.call_later(_REST, self._work)
                return
            self._take(taken, network_of(peer[0]))

    def _take(self, taken: socket.socket, address: str) -> None:
        taken.setblocking(False)
        if not self._gate.enter(address):
            LOG.warning("connections are refused: there are too many, in all or of one address")
            _refuse(taken, self._refusal)
            return
        accepted = _Accepted(taken.family, taken.type, taken.proto, taken.detach())
        accepted.address, accepted.closed = address, self._closed
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if _UNSENT:  # the system would hold megabytes for a peer that does not read
            most = self._gate.share(_MOST_UNSENT)
            accepted.setsockopt(socket.IPPROTO_TCP, _UNSENT, most)
        made = self._keep(self._connect(accepted))
        # One that is cancelled before it began would leave the connection open.
        made.add_done_callback(lambda task: accepted.close() if task.cancelled() else None)

    async def _connect(self, accepted: _Accepted) -> None:
        greeting = self._gate.limits.greeting if self._context else None
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=greeting,
                ssl_shutdown_timeout=greeting,
            )
            self._transports[accepted] = transport
            transport.set_write_buffer_limits(self._gate.share(_MOST_UNWRITTEN))
            self._renew_shares()
            set_most_read(transport, self._share)
        except OSError:  # of TLS: a peer that does not speak it, or is slow; others have left
            self._gate.late += 1
            accepted.close()
        except BaseException:
            accepted.close()
            raise
        if accepted.fileno() < 0:
            self._transports.pop(accepted, None)

    def _renew_shares(self) -> None:
        """Of what connections may read at once, if they have halved or doubled: asyncio would read
        256 kB, which then wait for their turn."""
        share = self._gate.share(MOST_READ)
        if self._share < 2 * share and share < 2 * self._share:
            return
        self._share = share
        for transport in self._transports.values():
            if transport not in self._gate.lent:
                set_most_read(transport, share)

    def _closed(self, accepted: _Accepted) -> None:
        self._gate.leave(accepted.address)
        if (transport := self._transports.pop(accepted, None)) is not None:
            self._gate.lent.discard(transport)
            vars(transport).pop("_read_ready_cb", None)  # by which asyncio's holds itself

    async def _watch(self) -> None:
        """Peers that do not read are disconnected."""
        while True:
            await asyncio.sleep(min(1.0, self._gate.limits.unread / 4))
            for transport in self._unread.stuck(self._transports.values(), self._loop.time()):
                self._gate.unread += 1
                transport.abort()
            self._renew_shares()
            if self._gate.ebbed():
                self._keep(self._give_back())

    async def _give_back(self) -> None:
        await asyncio.sleep(LINGER)  # until the last of them have closed
        await self._loop.run_in_executor(None, give_back)


def _refuse(taken: socket.socket, refusal: bytes) -> None:
    """Say why, if the peer's window takes it at once."""
    try:
        if refusal:
            taken.send(refusal)
    except OSError:
        pass  # it has left
    finally:
        taken.close()
