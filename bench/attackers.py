"""Many bad peers in one process: `python -m bench.attackers FORM`, where FORM is JSON.

One epoll loop serves all. Each peer sends what `opening` says and then, by `kind`:

unfinished    a byte now and then, never the rest
unread        the same again and again, and never reads an answer
unauthorised  nothing: it is refused, and comes back

A peer that is disconnected comes back a second later. Prints a line when all are connected, and a
JSON object of counts when its input ends.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field

_PAUSE = 1.0  # seconds until a peer comes back, and between two of its bytes
_SETTLING, _MOST_SETTLING = 0.3, 15.0  # seconds in which nothing is taken; seconds to wait for it
_WINDOW = 4096  # bytes that the system takes for a peer that does not read


@dataclass
class Attack:
    kind: str
    port: int
    connections: int
    opening: list[bytes]  # what is sent first, each after an answer to the one before
    more: bytes  # what is sent after it
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(
        ("connected", "disconnected", "bytes"), 0))  # fmt: skip


class Peer:
    """One connection: what it still has to send."""

    def __init__(self, attack: Attack) -> None:
        self.attack, self.left = attack, deque(attack.opening)
        self.rest = b""
        self.socket = socket.socket()
        if attack.kind == "unread":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _WINDOW)
        self.socket.connect(("127.0.0.1", attack.port))
        self.socket.setblocking(False)
        self.answered = True

    def act(self, events: int) -> bool:
        """Whether it is still connected."""
        try:
            if events & (select.EPOLLHUP | select.EPOLLERR):
                return False
            if events & select.EPOLLIN and (not self.quiet or self.attack.kind != "unread"):
                if not self.socket.recv(65536):
                    return False
                self.answered = True
            if events & select.EPOLLOUT:
                self._send()
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _send(self) -> None:
        if not self.rest and self.left and self.answered:
            self.rest, self.answered = self.left.popleft(), False
        if not self.rest and self.quiet and self.attack.kind == "unread":
            self.rest = self.attack.more
        if self.rest:
            sent = self.socket.send(self.rest)
            self.attack.counts["bytes"] += sent
            self.rest = self.rest[sent:]

    @property
    def events(self) -> int:
        """Those who do not read are told only that they can write."""
        deaf = self.attack.kind == "unread" and self.quiet
        busy = self.rest or deaf or (self.left and self.answered)
        return (select.EPOLLOUT if busy else 0) | (0 if deaf else select.EPOLLIN)

    @property
    def quiet(self) -> bool:
        """Its opening was sent and answered."""
        return not self.left and self.answered

    def drip(self) -> None:
        if not self.rest and not self.left and self.attack.kind == "unfinished":
            self.rest = self.attack.more


class Settled:
    """Whether the server has taken all that it takes: attackers who do not read wait for it."""

    def __init__(self, attack: Attack) -> None:
        self.attack, self.bytes, self.since, self.begun = attack, -1, 0.0, time.monotonic()

    def __call__(self, now: float) -> bool:
        if self.attack.kind != "unread" or now - self.begun > _MOST_SETTLING:
            return True
        if self.attack.counts["bytes"] != self.bytes:
            self.bytes, self.since = self.attack.counts["bytes"], now
        return now - self.since > _SETTLING


class Crowd:
    def __init__(self, attack: Attack) -> None:
        self.attack, self.poll = attack, select.epoll()
        self.peers: dict[int, Peer] = {}
        self.away = deque([0.0] * attack.connections)  # when each comes back

    def run(self) -> None:
        self.poll.register(sys.stdin.fileno(), select.EPOLLIN)
        told, drip, settled = False, 0.0, Settled(self.attack)
        while True:
            now = time.monotonic()
            self._come_back(now)
            there = self.attack.counts["connected"] >= self.attack.connections
            if not told and there and settled(now):
                told = True
                print("ready", flush=True)
            if now - drip >= _PAUSE:
                drip = now
                for peer in self.peers.values():
                    peer.drip()
                    self._watch(peer)
            for fd, events in self.poll.poll(0.02):
                if fd == sys.stdin.fileno():
                    return
                self._act(fd, events, now)

    def _come_back(self, now: float) -> None:
        """A few at a time, so that they are spread over the second."""
        for _ in range(min(20, len(self.away))):
            if self.away[0] > now:
                return
            self.away.popleft()
            try:
                peer = Peer(self.attack)
            except OSError:
                self.away.append(now + _PAUSE)
                continue
            self.attack.counts["connected"] += 1
            self.peers[peer.socket.fileno()] = peer
            self.poll.register(peer.socket.fileno(), peer.events)

    def _act(self, fd: int, events: int, now: float) -> None:
        peer = self.peers[fd]
        if peer.act(events):
            self._watch(peer)
            return
        self.poll.unregister(fd)
        peer.socket.close()
        del self.peers[fd]
        self.attack.counts["disconnected"] += 1
        self.away.append(now + _PAUSE)

    def _watch(self, peer: Peer) -> None:
        self.poll.modify(peer.socket.fileno(), peer.events)


def main(form: str) -> None:
    told = json.loads(form)
    told["opening"] = [bytes.fromhex(text) for text in told["opening"]]
    attack = Attack(**told | {"more": bytes.fromhex(told["more"])})
    Crowd(attack).run()
    print(json.dumps(attack.counts))


if __name__ == "__main__":
    main(sys.argv[1])
