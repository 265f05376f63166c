"""Start, run and stop a server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import re
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import uvicorn

from tamis.errors import InputError
from tamis.server import demo
from tamis.server.assembly.parts import Parts
from tamis.server.deliveries import MailServer
from tamis.server.detaching import announce
from tamis.server.links.uplink import Uplink, Ways
from tamis.server.pages.site import application
from tamis.server.sockets.accepting import Acceptor, listen
from tamis.server.sockets.gate import Gate
from tamis.server.sockets.limits import SocketLimits, raise_descriptors
from tamis.server.sockets.seldom import thinned
from tamis.server.tcp.listening import Listener
from tamis.server.tcp.packets import PacketsServer
from tamis.server.tcp.stomp import StompServer
from tamis.server.web.http_socket import TOO_MANY, Http
from tamis.server.web.origins import Origins
from tamis.server.web.raw_socket import RawSocket

LOG = logging.getLogger("tamis.server")
DEFAULT_PORT = 8216
MAX_FRAME = 16 << 20  # bytes of one WebSocket message
_SWITCH = 0.0005  # seconds after which the event loop lets the thread of the disk go on
# Messages make garbage without cycles: look for cycles less often, and never at more than 150,000
# new objects in one pause, but for full collections, which are hardly ever.
_GARBAGE = 50_000, 2, 500
_GRACE = 5  # seconds that streams get to end


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    @classmethod
    def parse(cls, text: str, port: int = DEFAULT_PORT) -> Address:
        """HOST:PORT, [::1]:PORT, HOST, or :PORT."""
        host, colon, number = text.rpartition(":") if not text.endswith("]") else (text, "", "")
        host = (host if colon else text).strip("[]") or "127.0.0.1"
        if colon and (not re.fullmatch("[0-9]{1,5}", number) or int(number) > 65535):
            raise InputError(f"{text[:80]!r} is not an address: write HOST:PORT")
        return cls(host, int(number) if colon else port)

    @property
    def local(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True)
class Settings:
    directory: Path
    http: Address
    stomp: Address | None = None
    packets: Address | None = None
    certificate: Path | None = None
    key: Path | None = None
    mail: MailServer | None = None
    sockets: SocketLimits = field(default_factory=SocketLimits)
    origins: tuple[str, ...] = ()  # whose pages may use the broker
    demo: bool = False  # sample channels, and messages that keep coming
    without_principals: bool = False  # it may start beyond the loopback though none exists
    webhook_key: Path | None = None  # encrypts their secrets; None: a file in the directory
    name: str = ""  # of this router; empty: one is made and kept
    parents: tuple[str, ...] = ()  # URL or URL#CHANNEL,CHANNEL, in the order in which to try
    parent_token: str = field(default="", repr=False)
    parent_ca: str = ""
    reports: Path | None = None  # a folder of reports that operators may read in a browser

    @property
    def local(self) -> bool:
        others = (address for address in (self.stomp, self.packets) if address is not None)
        return self.http.local and all(address.local for address in others)

    def context(self) -> ssl.SSLContext | None:
        """TLS with the certificate and its key; None without them. Errors name the file."""
        if self.certificate is None:
            if self.key is not None:
                raise InputError(f"key {self.key} has no certificate: add --certificate FILE")
            return None
        for path in (self.certificate, self.key or self.certificate):
            _check_readable(path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except ssl.SSLError as error:
            raise InputError(self._tls_problem(error)) from None
        return context

    def _tls_problem(self, error: ssl.SSLError) -> str:
        key = self.key or self.certificate
        if "MISMATCH" in (error.reason or ""):
            return f"{key} is not the key of certificate {self.certificate}"
        text = key.read_text("latin-1") if key else ""
        if "ENCRYPTED" in text:
            return f"{key} is encrypted: decrypt it, for example with `openssl pkey`"
        try:
            ssl.create_default_context(cafile=self.certificate)
        except ssl.SSLError:
            return f"{self.certificate} holds no certificate in PEM form"
        return f"{key} holds no private key in PEM form"


def _check_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


@dataclass
class Running:
    """A server that listens; ports are those that it got."""

    parts: Parts
    http: int
    stomp: int
    packets: int
    server: uvicorn.Server


class _Server(uvicorn.Server):
    """Signals are ours: uvicorn would pass them on before the log is closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Running]:
    """A server for as long as the context lasts; afterwards it has drained and stopped."""
    async with contextlib.AsyncExitStack() as stack:
        settings.context()  # bad certificates are refused before anything is opened
        ways = Ways.of(settings.parents, settings.parent_token, settings.parent_ca)
        origins = Origins(settings.origins)
        stack.enter_context(thinned())
        gate = Gate(settings.sockets)
        listening = stack.enter_context(listen(settings.http.host, settings.http.port))
        try:
            parts = Parts.at(settings.directory, gate, local=settings.local, mail=settings.mail,
                             webhook_key=settings.webhook_key, name=settings.name)  # fmt: skip
        except OSError as error:
            place = error.filename or settings.directory
            raise InputError(f"{place}: {error.strerror}") from None
        stack.push_async_callback(parts.hub.stop)
        parts.reports = settings.reports
        _check_principals(settings, parts)
        parts.start()
        if settings.demo:
            await demo.begin(parts)
        server = await _start_web(stack, settings, parts, listening, origins)
        stomp = _start(stack, settings, StompServer(parts), settings.stomp)
        packets = _start(stack, settings, PacketsServer(parts), settings.packets)
        for way in ways:
            uplink = Uplink(parts.network, way)
            parts.network.uplinks.append(uplink)
            parts.hub.keep(uplink.run())
        stack.callback(parts.network.drain, f"{parts.network.name} stops")
        yield Running(parts, listening.getsockname()[1], stomp, packets, server)


def _check_principals(settings: Settings, parts: Parts) -> None:
    """Who opens a broker to other machines should have said who may use it."""
    if settings.local or settings.without_principals or parts.hub.registry.principals():
        return
    raise InputError(
        "this broker could be reached from other machines, and has no principal: make one with\n"
        f"  tamis principal NAME --directory {settings.directory} --right 'manage:*' --token\n"
        "or start with --without-principals: all is refused until there is one"
    )


async def _start_web(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    parts: Parts,
    listening: socket.socket,
    origins: Origins,
) -> uvicorn.Server:
    """uvicorn serves the connections that the acceptor takes."""
    config = _config(parts, origins)
    server = _Server(config)
    task = asyncio.ensure_future(server.serve([]))
    stack.push_async_callback(_stop, server, task)
    while not server.started:
        if task.done():
            await task
            raise InputError("the server did not start")
        await asyncio.sleep(0.005)
    shared = {
        "server_state": server.server_state,
        "app_state": {"arrival": settings.sockets.arrival},
    }
    protocol = partial(Http, parts.gate, config=config, **shared)
    acceptor = Acceptor(listening, parts.gate, protocol, settings.context(), TOO_MANY)
    acceptor.start()
    stack.callback(acceptor.stop)
    return server


def _start(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    listener: Listener,
    address: Address | None,
) -> int:
    """The port on which it listens; 0: nobody asked for it."""
    if address is None:
        return 0
    stack.push_async_callback(listener.stop)
    return listener.start(address.host, address.port, settings.context())


async def _stop(server: uvicorn.Server, task: asyncio.Future[None]) -> None:
    server.should_exit = True
    await task


def _config(parts: Parts, origins: Origins) -> uvicorn.Config:
    config = uvicorn.Config(
        application(parts, origins),
        ws=RawSocket,
        http=Http,
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="error",  # it warns of every request that is not HTTP: strangers fill no log
        ws_max_size=MAX_FRAME,
        ws_ping_interval=30,
        ws_ping_timeout=120,  # a slow reader answers late
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=_GRACE,
        server_header=False,
        proxy_headers=False,
    )
    return config


async def serve(settings: Settings) -> None:
    """Run until a signal asks to stop. One that comes while it starts is heard as well: a broker
    that ended there would not save the matchers that it just compiled."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with running(settings) as found:
        scheme = "https" if settings.certificate else "http"
        host = f"[{settings.http.host}]" if ":" in settings.http.host else settings.http.host
        status = f"listening on {scheme}://{host}:{found.http}"
        LOG.info(status)
        if found.stomp:
            LOG.info("STOMP on port %d", found.stomp)
        if found.packets:
            LOG.info("packets on port %d", found.packets)
        if not settings.local and not found.parts.hub.registry.principals():
            LOG.warning("all is refused: make a principal with `tamis principal`")
        gc.freeze()  # what is here now stays: nobody need look through it, not even once
        gc.enable()
        announce(status)
        await stopping.wait()
        LOG.info("stopping: no new connections, what was taken is finished")
    LOG.info("stopped")


def run(settings: Settings) -> None:
    """The same, from a program without an event loop, whose process is ours alone."""
    os.umask(0o077)  # only its owner reads what a broker writes
    sys.setswitchinterval(_SWITCH)
    gc.set_threshold(*_GARBAGE)
    gc.disable()  # until everything is loaded
    raise_descriptors()
    asyncio.run(serve(settings))
