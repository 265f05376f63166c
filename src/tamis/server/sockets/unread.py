"""Finds connections whose peers take nothing of what they are sent."""

from __future__ import annotations

from asyncio import WriteTransport
from collections.abc import Iterable

LINGER = 5.0  # seconds for the rest, once a connection is being closed


class Unread:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[WriteTransport, tuple[int, float]] = {}  # bytes, and since when

    def stuck(self, transports: Iterable[WriteTransport], now: float) -> list[WriteTransport]:
        """Those whose bytes have not become fewer for too long, from look to look."""
        waiting = {}
        for transport in transports:
            if size := transport.get_write_buffer_size():
                before, since = self._waiting.get(transport, (size, now))
                waiting[transport] = size, (now if size < before else since)
        self._waiting = waiting
        return [one for one, (_, since) in waiting.items() if now - since >= self._patience(one)]

    def _patience(self, transport: WriteTransport) -> float:
        return min(LINGER, self._seconds) if transport.is_closing() else self._seconds
