"""What a peer may take of the server before it is known, and while it is served."""

from __future__ import annotations

import resource
from dataclasses import dataclass

_RESERVED = 128  # file descriptors for files, webhooks and mails


@dataclass(frozen=True)
class SocketLimits:
    """A peer that needs more seconds than these is disconnected."""

    connections: int = 10_000  # in all; fewer if the process may open fewer files
    per_address: int = 0  # 0: half of all
    greeting: float = 5.0  # seconds for a TLS handshake, a request's head, a login
    arrival: float = 30.0  # seconds for a body, a frame or a packet, from its first byte
    unread: float = 120.0  # seconds in which a peer takes nothing of what it is sent
    answers: int = 1 << 16  # bytes for one peer that wait; beyond them it is not listened to
    buffers: int = 1 << 23  # bytes of answers that wait for all peers, and as many that were read


def descriptors() -> int:
    """How many connections this process can have open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return 1 << 30
    return max(most // 2, most - _RESERVED)


def raise_descriptors() -> None:
    """Take all that the system grants to this process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
