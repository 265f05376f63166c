"""What a broker does when things go wrong, on a real server: `python -m bench.faults NAME ...`

stalled  one of 1,000 subscribers never reads: what the others' latency and the memory do
flood    far more than the disk takes: refused, counted, in bounded memory
hostile  1,000 peers that do not finish, do not read or are not authorised, on each protocol
disk     a file system of 16 MB that fills up and grows again (needs the right to mount)
churn    live and durable subscriptions come and go with ever new selectors: memory over time

Prints what was seen; fails where something was lost, doubled or not told.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.hostile import hostile
from bench.publishers import connected, frame
from bench.servers import FORM, Server, folder, tamis
from tamis.client import Agent, Messages

_BODY = {"symbol": 1, "price": 5.0, "volume": 1, "note": "x" * 1000}


def stalled(connections: int = 1000, rounds: int = 60) -> None:
    """Two brokers, round by round in turn: whatever else happens on the machine happens to both."""
    with folder() as one, folder() as other, tamis(one) as calm, tamis(other) as hurt:
        crowds = [Crowd(server, connections, away) for away, server in enumerate((calm, hurt))]
        memory = hurt.memory()
        for _ in range(rounds):
            for crowd in crowds:
                crowd.publish()
        for away, crowd in enumerate(crowds):
            server = crowd.server
            print(f"{away} of {connections:,} stalled ({behind(server)} behind): "
                  f"p50 {crowd.wait(50):.1f} ms, p99 {crowd.wait(99):.1f} ms, "
                  f"server {server.cpu():.1f} CPU-s, {server.memory():.0f} MB")  # fmt: skip
        ratio = crowds[1].wait(99) / crowds[0].wait(99)
        grown = hurt.memory() - memory
        for crowd in crowds:
            crowd.close()
        print(f"p99 {ratio:.2f}x with one that stalls; its broker grew by {grown:.0f} MB")


def churn(seconds: float = 240, alive: int = 200) -> None:
    """Each round makes a live and a durable subscription, and ends the oldest of both."""
    with folder() as path, tamis(path) as server, Agent(f"http://127.0.0.1:{server.port}") as agent:
        server.call("PUT", "/api/channels/load", FORM)
        held, begun, shown, count = deque[tuple[Messages, Messages]](), time.monotonic(), 0.0, 0
        while (passed := time.monotonic() - begun) < seconds:
            count += 1
            selector = (
                f"note = 'n{count}' AND price < {count * 0.37:.2f} OR extra LIKE '%x{count}%'"
            )
            held.append((agent.subscribe("load", selector),
                         agent.subscribe("load", selector, durable=f"d{count}")))  # fmt: skip
            if len(held) > alive:
                for one in held.popleft():
                    one.remove()
            if count % 20 == 0:
                agent.publish("load", {**_BODY, "note": f"n{count}"})
            if passed >= shown:
                print(f"{passed:4.0f} s, {2 * count:6,} subscriptions: {server.memory():.0f} MB")
                shown += seconds / 12


class Crowd:
    """Many subscribers of one broker, some of whom never read."""

    def __init__(self, server: Server, connections: int, away: int) -> None:
        self.server = server
        self.waits: list[float] = []
        server.call("PUT", "/api/channels/load", FORM)
        peers = [connected(server.port) for _ in range(connections)]
        ask = {"type": "subscribe", "channel": "load", "name": "all"}
        for place, peer in enumerate(peers):
            selector = "price > 1" if place < away else "price > 4"
            peer.sendall(frame(json.dumps({**ask, "selector": selector}).encode()))
        for peer in peers:
            peer.recv(4096)
        many = [{"attributes": {**_BODY, "price": 2.0}}] * 500  # for those who do not read
        while behind(server) < away:
            server.call("POST", "/api/channels/load/messages", many)
        self.away, self.readers = peers[:away], {peer.fileno(): peer for peer in peers[away:]}
        self.poll, self.publisher = select.epoll(), connected(server.port)
        for fd in self.readers:
            self.poll.register(fd, select.EPOLLIN)
        request = {"type": "publish", "channel": "load", "messages": [{"attributes": _BODY}] * 20}
        self.data = frame(json.dumps(request).encode())

    def publish(self) -> None:
        """Until everybody who reads has what was published."""
        begin = time.perf_counter()
        self.publisher.sendall(self.data)
        self.waits += _arrivals(self.poll, self.readers, begin)
        self.publisher.recv(4096)

    def close(self) -> None:
        for peer in (self.publisher, *self.away, *self.readers.values()):
            peer.close()

    def wait(self, percent: int) -> float:
        """Milliseconds."""
        waits = sorted(self.waits)
        return 1e3 * waits[len(waits) * percent // 100]


def behind(server: Server) -> int:
    """How many subscriptions left the live path."""
    metrics = server.call("GET", "/metrics").decode()
    return int(metrics.rpartition("tamis_subscriptions_behind ")[2].split()[0])


def _arrivals(poll: select.epoll, readers: dict[int, socket.socket], begin: float) -> list[float]:
    """When each reader had all 20 messages."""
    left, waits = dict.fromkeys(readers, 20), []
    while len(waits) < len(readers):
        for fd, _ in poll.poll(30):
            left[fd] -= readers[fd].recv(1 << 18).count(b'"subscription"')
            if left[fd] == 0:
                waits.append(time.perf_counter() - begin)
    return waits


def flood(publishers: int = 50, seconds: float = 6) -> None:
    with folder() as directory, tamis(directory) as server:
        server.call("PUT", "/api/channels/load", FORM)
        before, end = server.memory(), time.monotonic() + seconds
        told = [[0, 0, 0] for _ in range(publishers)]
        threads = [threading.Thread(target=_pour, args=(server, end, mine)) for mine in told]
        for thread in threads:
            thread.start()
        most = before
        while any(thread.is_alive() for thread in threads):
            most = max(most, server.memory())
            time.sleep(0.05)
        sent, taken, refused = (sum(column) for column in zip(*told, strict=True))
        stored = json.loads(server.call("GET", "/api/channels/load"))["next"] - 1
        metrics = server.call("GET", "/metrics").decode()
    counted = int(metrics.rpartition("tamis_refused_messages_total ")[2].split()[0])
    print(f"{sent:,} sent, {taken:,} taken, {refused:,} refused (counted {counted:,}), "
          f"memory {before:.0f} -> {most:.0f} MB")  # fmt: skip
    if stored != taken or counted != refused:
        raise SystemExit(f"{stored:,} are stored")


def _pour(server: Server, end: float, told: list[int]) -> None:
    """Frames of 500 messages, none of which waits for the answer to another."""
    request = {"type": "publish", "channel": "load", "messages": [{"attributes": _BODY}] * 500}
    data = frame(json.dumps(request).encode())
    with connected(server.port) as peer:
        answers = threading.Thread(target=_count, args=(peer, told))
        answers.start()
        while time.monotonic() < end:
            peer.sendall(data)
            told[0] += 500
        while told[0] > told[1] + told[2]:
            time.sleep(0.01)
        peer.shutdown(socket.SHUT_RDWR)
        answers.join()


def _count(peer: socket.socket, told: list[int]) -> None:
    rest = b""
    while data := peer.recv(1 << 20):
        rest += data
        told[1] += 500 * rest.count(b'"published"')
        told[2] += 500 * rest.count(b'"error","request"')
        rest = rest[-16:] if b'"' in rest else rest


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A file system of its own."""
    with folder() as directory:
        size = f"size={megabytes}m"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", directory], check=True)
        try:
            yield directory
        finally:
            subprocess.run(["umount", "-l", directory], check=True)


def disk() -> None:
    with small_disk(16) as directory, tamis(directory) as server:
        server.call("PUT", "/api/channels/load", FORM)
        taken, reason = _fill(server, 0)
        print(f"{taken:,} messages taken, then: {reason}")
        health = json.loads(server.call("GET", "/health"))["status"]
        read = server.call("GET", "/api/channels/load/messages").count(b"\n")
        print(f"health: {health}; reads go on: {read:,} messages")
        if "full" not in reason or health != "refusing" or read != taken:
            raise SystemExit("not as it should be")
        subprocess.run(["mount", "-o", "remount,size=64m", directory], check=True)
        more, reason = _fill(server, taken)
        read = server.call("GET", "/api/channels/load/messages").count(b"\n")
        print(f"with more space {more:,} messages were taken; {read:,} can be read")
        if more < 1000 or read != taken + more:
            raise SystemExit("not as it should be")


def _fill(server: Server, first: int) -> tuple[int, str]:
    """Publish until it is refused, or 20,000 are taken."""
    for taken in range(0, 20_000, 100):
        many = [{"attributes": _BODY, "sequence": first + taken + i + 1} for i in range(100)]
        try:
            server.call("POST", "/api/channels/load/messages?publisher=p", many)
        except RuntimeError as error:
            return taken, json.loads(str(error))["error"]
    return 20_000, ""


if __name__ == "__main__":
    parts = {"stalled": stalled, "flood": flood, "hostile": hostile, "disk": disk, "churn": churn}
    for name in sys.argv[1:] or ("stalled", "flood", "hostile", "disk"):
        parts[name]()
