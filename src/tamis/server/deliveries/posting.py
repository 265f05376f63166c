"""POST over HTTP/1.1, without a thread that waits: for webhooks, which may be slow or hostile.

Names are looked up in threads of their own. Redirects are not followed; what a host answers is
bounded in size and time.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

from tamis.errors import InputError
from tamis.server.turns import Pool, Turns

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 10.0
MAX_ANSWER = 64 << 10  # bytes of an answer; what comes after them is not read
MAX_ADDRESS = 2_000  # characters
IN_FLIGHT, BY_PRINCIPAL, BY_HOST = 64, 16, 32  # requests at a time: in all, and of each
NAME_THREADS = 4
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_PLACE = re.compile(r"(\[[^]]*\]|[^][:@]*)(:[0-9]*)?")
_TARGET = re.compile(r"[!-~]*")  # what a request line can hold: printable ASCII without blanks


@dataclass(frozen=True)
class Address:
    """Where to post to: a host that can exist, a port, and a path with its query."""

    secure: bool
    host: str
    port: int
    target: str

    @classmethod
    def parse(cls, text: str) -> Address:
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise _bad(text, str(error)) from None
        secure, host = parts.scheme == "https", parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host or len(text) > MAX_ADDRESS:
            raise _bad(text, "write https://HOST/PATH")
        if not _PLACE.fullmatch(parts.netloc):
            raise _bad(text, "after // comes HOST or HOST:PORT, without a user or a password")
        if port == 0 or not _TARGET.fullmatch(text):
            raise _bad(text, "ports are 1 to 65535, and other letters than ASCII are percent-coded")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(secure, _checked(text, host), port or (443 if secure else 80), target)

    @property
    def header(self) -> str:
        """As the header Host has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def _checked(text: str, host: str) -> str:
    """The host, if it is an IP address or a name that can be looked up."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        labels = host.removesuffix(".").split(".")
        if ":" in host or len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
            raise _bad(text, f"{host[:80]!r} is not the name of a host") from None
        return host


def _bad(text: str, why: str) -> InputError:
    return InputError(f"{text[:80]!r} is not the address of a webhook: {why}")


class Poster:
    """All requests of a server, in fair turns by principal and host."""

    def __init__(self) -> None:
        self.turns = Turns(IN_FLIGHT, (BY_PRINCIPAL, BY_HOST))
        self._names = Pool("names", NAME_THREADS, NAME_THREADS // 2)

    async def post(
        self, principal: str, address: Address, headers: dict[str, str], body: bytes
    ) -> int:
        """The status of the answer; OSError if there is none."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await self._connected(principal, address)
        except TimeoutError:
            raise OSError(f"no connection within {CONNECT_SECONDS:g} s") from None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                status = await _exchanged(reader, writer, address, headers, body)
        except TimeoutError:
            raise OSError(f"no answer within {ANSWER_SECONDS:g} s") from None
        except h11.RemoteProtocolError as error:
            raise OSError(f"the answer is not HTTP: {error}") from None
        finally:
            writer.transport.abort()
        return status

    async def _connected(
        self, principal: str, address: Address
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To the first of its addresses that takes the connection."""
        found = await self._names.run(principal, _looked_up, address.host, address.port)
        context = await self._names.run(principal, _context) if address.secure else None
        name = address.host if address.secure else None
        problem = OSError(f"{address.host} has no address")
        for ip in found:
            try:
                return await asyncio.open_connection(
                    ip, address.port, limit=MAX_ANSWER, ssl=context, server_hostname=name
                )
            except OSError as error:
                problem = error
        raise problem

    def close(self) -> None:
        self._names.close()


def _looked_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


@functools.cache
def _context() -> ssl.SSLContext:
    """Reading the certificates of the system takes tens of milliseconds: once."""
    return ssl.create_default_context()


async def _exchanged(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    address: Address,
    headers: dict[str, str],
    body: bytes,
) -> int:
    """Send the request, and read until the answer is over or long enough."""
    own = {"Host": address.header, "Content-Length": str(len(body)), "Connection": "close"}
    connection, status, size = h11.Connection(h11.CLIENT), 0, 0
    request = h11.Request(
        method="POST", target=address.target, headers=list({**own, **headers}.items())
    )
    for part in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(connection.send(part) or b"")
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if size >= MAX_ANSWER:
                break
            data = await reader.read(MAX_ANSWER)
            size += len(data)
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    if not status:
        raise OSError("the answer is too long")
    return status
