"""Bad peers by the thousand, and what others notice of them: `python -m bench.faults hostile`, or
some of them: `python -m bench.hostile unread stomp packets`

For each protocol: peers that do not finish what they began, that do not read what they are
answered, and that are not authorised. Meanwhile two good callers publish and ask, one call at a
time, before the attack and during it.
"""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.publishers import connected, frame
from bench.servers import FORM, Server, folder, tamis
from tamis.pubsub.packet_protocol import OWN, Peer
from tamis.pubsub.wire.wire_messages import Notification
from tamis.registry import VERBS, Principal, Right, SqliteRegistry
from tamis.server.access import hashed, new_token

MOST_GROWTH = 256  # megabytes, for all bad peers of one attack together
KINDS = ("unfinished", "unread", "unauthorised")
PROTOCOLS = ("http", "websocket", "stomp", "packets")
_AFTER = 8.0  # seconds until what bad peers needed was given back
_HOST = b"Host: 127.0.0.1\r\n"
_UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
Script = tuple[list[bytes], bytes]  # what a peer opens with, and what it goes on with


def hostile(connections: int = 1000, calls: int = 400, chosen: Sequence[str] = ()) -> None:
    """`chosen`: kinds and protocols; all of those of which none is named."""
    with folder() as directory:
        token = _register(directory)
        with tamis(directory) as server:
            server.token = token
            server.call("PUT", "/api/channels/load", FORM)
            callers = Callers(server)
            with callers.socket:
                callers.measure(calls // 4)  # what is loaded and compiled at the first call
                for kind in _among(KINDS, chosen):
                    for protocol in _among(PROTOCOLS, chosen):
                        _attack(server, callers, kind, protocol, connections, calls)


def _among(names: tuple[str, ...], chosen: Sequence[str]) -> list[str]:
    return [name for name in names if name in chosen] or list(names)


def _register(directory: Path) -> str:
    """A principal who may do all, so that callers must say who they are; this is its token."""
    registry = SqliteRegistry(directory / "registry.db")
    registry.put_principal(Principal("boss", "main", hashed("right")))
    for verb in VERBS:
        registry.put_right(Right("boss", verb))
    token = new_token(registry, "boss")
    registry.close()
    return token


def _attack(
    server: Server, callers: Callers, kind: str, protocol: str, connections: int, calls: int
) -> None:
    memory, calm = server.memory(), callers.measure(calls)
    form = _form(server, kind, protocol, connections)
    begin = time.monotonic()
    with _attackers(form) as counts:
        seconds, hurt = time.monotonic() - begin, callers.measure(calls)
        most = server.memory()
    time.sleep(_AFTER)
    print(f"{connections:,} {kind} over {protocol}: "
          f"publish p99 {_change(calm[0], hurt[0])}, ask p99 {_change(calm[1], hurt[1])}, "
          f"memory {memory:.0f} -> {most:.0f} -> {server.memory():.0f} MB, "
          f"longest pause {callers.pause():.0f} ms, "
          f"{counts['disconnected']:,} of {counts['connected']:,} disconnected, "
          f"all there after {seconds:.1f} s")  # fmt: skip
    if most - memory > MOST_GROWTH:
        raise SystemExit(f"memory grew by {most - memory:.0f} MB")


def _change(calm: list[float], hurt: list[float]) -> str:
    before, during = (sorted(waits)[len(waits) * 99 // 100] for waits in (calm, hurt))
    return f"{1e3 * before:.1f} -> {1e3 * during:.1f} ms ({during / before:.1f}x)"


class Callers:
    """One publishes over a WebSocket, one asks over HTTP, each by connections that stay."""

    def __init__(self, server: Server) -> None:
        credentials = f"Bearer {server.token}"
        self.server, self.headers = server, {"Authorization": credentials}
        self.socket = connected(server.port, f"Authorization: {credentials}\r\n".encode())
        self.socket.settimeout(60)
        message = {"attributes": {"symbol": 1, "price": 5.0, "volume": 1}}
        request = {"type": "publish", "channel": "load", "messages": [message]}
        self.data = frame(json.dumps(request).encode())

    def measure(self, calls: int) -> tuple[list[float], list[float]]:
        """Seconds of each call: published, answered."""
        self.http = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        waits = [(_timed(self._publish), _timed(self._ask)) for _ in range(calls)]
        self.http.close()
        return [wait for wait, _ in waits], [wait for _, wait in waits]

    def _publish(self) -> None:
        self.socket.sendall(self.data)
        while (answer := self.socket.recv(4096)).startswith(b"\x89"):  # a ping
            self.socket.sendall(b"\x8a\x84" + bytes(4) + answer[2:6])
        if b'"published"' not in answer:
            raise SystemExit(f"a good caller was answered {answer!r}")

    def _ask(self) -> None:
        self.http.request("GET", "/api/channels/load", headers=self.headers)
        response = self.http.getresponse()
        if response.status != 200 or not response.read():
            raise SystemExit(f"a good caller was answered {response.status}")

    def pause(self) -> float:
        """Milliseconds that the event loop was held, at most, in the last minute."""
        metrics = self.server.call("GET", "/metrics").decode()
        lines = [one for one in metrics.splitlines() if one.startswith("tamis_loop_longest_pause")]
        return max((1e3 * float(line.split()[-1]) for line in lines), default=0.0)


def _timed(call: Callable[[], None]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# --- attacks ------------------------------------------------------------------------


@contextmanager
def _attackers(form: dict[str, Any]) -> Iterator[dict[str, int]]:
    """A process of attackers, all of whom are there; the counts are complete at the end."""
    command = [sys.executable, "-m", "bench.attackers", json.dumps(form)]
    counts = {"connected": 0, "disconnected": 0}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield counts
        finally:
            process.stdin.close()
            counts |= json.loads(process.stdout.read() or "{}")


def _form(server: Server, kind: str, protocol: str, connections: int) -> dict[str, Any]:
    opening, more = _SCRIPTS[protocol](kind, server.token)
    port = {"stomp": server.stomp, "packets": server.packets}.get(protocol, server.port)
    return {"kind": kind, "port": port, "connections": connections,
            "opening": [piece.hex() for piece in opening], "more": more.hex()}  # fmt: skip


def _http(kind: str, token: str) -> Script:
    right = f"Authorization: Bearer {token}\r\n".encode()
    wrong = b"Authorization: Basic " + base64.b64encode(b"boss:wrong") + b"\r\n"
    if kind == "unfinished":
        return [b"GET /api/channels HTTP/1.1\r\n" + _HOST + b"X: "], b"x"
    if kind == "unread":
        return [], (b"GET /openapi.json HTTP/1.1\r\n" + _HOST + right + b"\r\n") * 20
    return [b"GET /api/channels HTTP/1.1\r\nConnection: close\r\n" + _HOST + wrong + b"\r\n"], b""


def _websocket(kind: str, token: str) -> Script:
    head = b"GET /ws HTTP/1.1\r\n" + _HOST + _UPGRADE + b"Authorization: Bearer "
    if kind == "unauthorised":
        return [head + b"wrong\r\n\r\n"], b""
    opening = head + token.encode() + b"\r\n\r\n"
    if kind == "unfinished":
        return [opening, frame(b"x" * 60_000)[:100]], b"x"
    return [opening], frame(b"{}") * 500 + (b"\x89\xfd" + bytes(129)) * 100


def _stomp(kind: str, token: str) -> Script:
    head = b"CONNECT\naccept-version:1.2\npasscode:"
    if kind == "unfinished":
        return [head], b"x"
    if kind == "unauthorised":
        return [head + b"wrong\n\n\0"], b""
    send = b'SEND\ndestination:/load\nreceipt:%b\n\n{"price":5.0}\0' % (b"x" * 500)
    return [head + token.encode() + b"\n\n\0"], send * 20


def _packets(kind: str, token: str) -> Script:
    if kind == "unfinished":
        return [_login(token)[:20]], b"\0"
    if kind == "unauthorised":
        return [_login("wrong")], b""
    return [_login(token)], _command("pc.chn.open", Channel="load") * 100


def _login(token: str) -> bytes:
    return _command("pc.login", Token=token)


def _command(name: str, **said: str) -> bytes:
    message = Notification(OWN, 0, 0, 1, "#.COMMAND", {"Command": name, **said})
    return Peer().codecs[OWN].encode(message)


_SCRIPTS: dict[str, Callable[[str, str], Script]] = {
    "http": _http, "websocket": _websocket, "stomp": _stomp, "packets": _packets,
}  # fmt: skip


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - {*KINDS, *PROTOCOLS}
    if unknown:
        raise SystemExit(f"not an attack: {', '.join(unknown)} (use {KINDS + PROTOCOLS})")
    hostile(chosen=sys.argv[1:])
