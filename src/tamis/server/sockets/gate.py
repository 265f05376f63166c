"""Counts connections, in all and by address, and says whether one more may come in."""

from __future__ import annotations

import ipaddress
from asyncio import BaseTransport
from collections import Counter

from tamis.server.sockets.limits import SocketLimits, descriptors
from tamis.server.sockets.rounds import Rounds

_MANY = 100  # connections whose memory is worth giving back
MOST_READ = 1 << 18  # bytes that asyncio reads at once
_LEAST = 1 << 12  # bytes that a connection may buffer, however many there are


class Gate:
    """One for all listeners of a server. What is refused or disconnected is counted here.

    `rounds` are shared by all connections.
    """

    def __init__(self, limits: SocketLimits | None = None) -> None:
        self.limits = limits or SocketLimits()
        self.most = min(self.limits.connections, descriptors())
        self.most_per_address = min(self.limits.per_address or max(1, self.most // 2), self.most)
        self.rounds = Rounds()
        self.open = 0
        self.refused = 0
        self.late = 0  # disconnected because they did not finish what they began
        self.unread = 0  # disconnected because they did not read
        self.lent: set[BaseTransport] = set()  # that may read more at once than their share
        self._highest = 0  # most that were open since it ebbed
        self._by_address: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        if self.open >= self.most or self._by_address[address] >= self.most_per_address:
            self.refused += 1
            return False
        self.open += 1
        self._highest = max(self._highest, self.open)
        self._by_address[address] += 1
        return True

    def share(self, most: int) -> int:
        """Bytes that one connection may buffer: `most`, or less if there are many of them."""
        return max(min(most, self.limits.buffers // max(self.open, 1)), _LEAST)

    def lend(self, transport: BaseTransport) -> None:
        """Let it read as much at once as asyncio does: it sends much, and all of it is taken."""
        if len(self.lent) < self.limits.buffers // MOST_READ:
            self.lent.add(transport)
            set_most_read(transport, MOST_READ)

    def ebbed(self) -> bool:
        """Whether half of many connections have left since the last time that they had."""
        if self._highest < _MANY or self.open > self._highest // 2:
            return False
        self._highest = self.open
        return True

    def leave(self, address: str) -> None:
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def most_read(transport: BaseTransport) -> int:
    """Bytes that it reads at once. asyncio has no public name for it."""
    return getattr(transport, "max_size", MOST_READ)


def set_most_read(transport: BaseTransport, most: int) -> None:
    """The transports of TLS cannot be told: they read 256 kB."""
    if hasattr(transport, "max_size"):
        transport.max_size = most


def network_of(host: str) -> str:
    """The address that is counted: of IPv6 the network of 64 bits, which is one customer's."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
