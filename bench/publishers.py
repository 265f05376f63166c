"""Many publishers in one process: `python -m bench.publishers PORT PUBLISHERS SECONDS`.

Each sends one message over a WebSocket of its own and waits for its acknowledgement before the
next. Frames are made ahead and only their sequence is written into them; one epoll loop serves all
sockets, so that the load costs far less than the server. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import struct
import sys
import time

_UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
_FIRST = 1_000_000  # sequences of seven digits, so that all frames are equally long


def connected(port: int, headers: bytes = b"") -> socket.socket:
    """A WebSocket, past its handshake."""
    found = socket.create_connection(("127.0.0.1", port))
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found.sendall(_UPGRADE[:-2] + headers + _UPGRADE[-2:])
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += found.recv(4096)
    if not answer.startswith(b"HTTP/1.1 101"):
        raise RuntimeError(answer.decode(errors="replace"))
    return found


def frame(payload: bytes) -> bytes:
    """A text frame of a client; a mask of zeros leaves the payload as it is."""
    size = len(payload)
    head = struct.pack("!BB", 0x81, 0x80 | size) if size < 126 else (
        struct.pack("!BBH", 0x81, 0x80 | 126, size) if size < 65536
        else struct.pack("!BBQ", 0x81, 0x80 | 127, size)
    )  # fmt: skip
    return head + bytes(4) + payload


def halves(number: int) -> tuple[bytes, bytes]:
    """A publisher's frame before and behind its sequence."""
    request = {"type": "publish", "channel": "load", "publisher": f"p{os.getpid()}.{number}",
               "messages": [{"attributes": {"symbol": -2, "price": 17.25, "volume": number},
                             "sequence": _FIRST}]}  # fmt: skip
    whole = frame(json.dumps(request, separators=(",", ":")).encode())
    before, _, behind = whole.rpartition(str(_FIRST).encode())
    return before, behind


def main(port: int, publishers: int, seconds: float) -> None:
    sockets = {s.fileno(): s for s in (connected(port) for _ in range(publishers))}
    frames = {fd: halves(number) for number, fd in enumerate(sockets)}
    sent = dict.fromkeys(sockets, 0.0)
    following = dict.fromkeys(sockets, _FIRST)
    poll = select.epoll()
    for fd in sockets:
        poll.register(fd, select.EPOLLIN)
    waits, clock = [], time.perf_counter

    def send(fd: int) -> None:
        before, behind = frames[fd]
        number = following[fd]
        following[fd] = number + 1
        sent[fd] = clock()
        sockets[fd].send(b"%b%d%b" % (before, number, behind))

    begin = clock()
    for fd in sockets:
        send(fd)
    waiting = publishers
    while waiting:
        more = clock() - begin < seconds
        for fd, _ in poll.poll():
            answer = sockets[fd].recv(4096)
            if b'"published"' not in answer:
                raise RuntimeError(answer.decode(errors="replace"))
            waits.append(clock() - sent[fd])
            if more:
                send(fd)
            else:
                waiting -= 1
    wall = clock() - begin
    waits.sort()
    used = resource.getrusage(resource.RUSAGE_SELF)
    told = {
        "messages": len(waits),
        "seconds": wall,
        "p50": 1e3 * waits[len(waits) // 2],
        "p99": 1e3 * waits[len(waits) * 99 // 100],
        "client_cpu": used.ru_utime + used.ru_stime,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
