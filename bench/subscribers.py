"""Many subscribers in one process: `python -m bench.subscribers PORT CONNECTIONS EACH WANTED`.

With EACH 0 every connection has one subscription, to symbol -1. Subscribes, says `ready`, and reads
until so many deliveries came. One epoll loop reads all sockets and counts deliveries in the bytes,
so that it costs far less than the server. Prints JSON.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import sys
import time

from bench.publishers import connected, frame

SYMBOLS = 417  # one message in 417 matches a subscription: 0.24 %
_DELIVERY = b'{"subscription":'


def subscribe(peers: list[socket.socket], each: int) -> None:
    """All subscriptions of all connections; one connection's are sent at once."""
    for number, peer in enumerate(peers):
        requests = []
        for i in range(each or 1):
            symbol = (number * each + i) % SYMBOLS if each else -1
            selector = f"symbol = {symbol} AND price > 0.0"
            told = {"type": "subscribe", "channel": "load", "name": f"s{i}", "selector": selector}
            requests.append(frame(json.dumps(told).encode()))
        peer.sendall(b"".join(requests))
    for peer in peers:
        found = b""
        while found.count(b'"subscribed"') < (each or 1):
            found += peer.recv(65536)
            if b'"error"' in found:
                raise RuntimeError(found.decode(errors="replace"))


def main(port: int, connections: int, each: int, wanted: int) -> None:
    peers = {peer.fileno(): peer for peer in (connected(port) for _ in range(connections))}
    subscribe(list(peers.values()), each)
    print("ready", flush=True)
    poll = select.epoll()
    for fd in peers:
        poll.register(fd, select.EPOLLIN)
    got, rests = 0, dict.fromkeys(peers, b"")
    end = time.monotonic() + 300
    while got < wanted and time.monotonic() < end:
        for fd, _ in poll.poll(1):
            data = rests[fd] + peers[fd].recv(1 << 18)
            got += data.count(_DELIVERY)
            rests[fd] = data[-len(_DELIVERY) + 1 :]
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"got": got, "client_cpu": used.ru_utime + used.ru_stime}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
