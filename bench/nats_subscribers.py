"""Subscribers of nats-server: `python -m bench.nats_subscribers PORT CONNECTIONS WANTED`.

Each gets every message, as it would in order to filter it; here it is only counted.
"""

from __future__ import annotations

import select
import socket
import sys
import time

_MESSAGE = b"MSG load "


def connected(port: int) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port))
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found.sendall(b'CONNECT {"verbose":false}\r\n')
    return found


def main(port: int, connections: int, wanted: int) -> None:
    peers = {peer.fileno(): peer for peer in (connected(port) for _ in range(connections))}
    poll = select.epoll()
    for fd, peer in peers.items():
        peer.sendall(b"SUB load 1\r\nPING\r\n")
        poll.register(fd, select.EPOLLIN)
    got, pongs, rests, end = 0, 0, dict.fromkeys(peers, b""), time.monotonic() + 300
    while got < wanted and time.monotonic() < end:
        for fd, _ in poll.poll(1):
            data = rests[fd] + peers[fd].recv(1 << 18)
            got += data.count(_MESSAGE)
            if pongs < connections:
                pongs += data.count(b"PONG\r\n")
                if pongs == connections:
                    print("ready", flush=True)
            rests[fd] = data[-len(_MESSAGE) + 1 :]
    print(got, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
