"""A connection of a subscriber: what it holds, and how much more may be sent to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.stored import Key

if TYPE_CHECKING:
    from tamis.pubsub.broker.subscription import Subscription


class Session:
    """`room` and `room_bytes` are its credit: messages, and their bytes, that may be sent before
    some were written out. One message may overdraw it, so that a large one passes at all."""

    __slots__ = (
        "_ahead", "_size", "id", "lagging", "outbox", "prefix", "room", "room_bytes",
        "subscriptions",
    )  # fmt: skip

    def __init__(
        self, id: int, room: int, room_bytes: int, prefix: Callable[[str], bytes] | None = None
    ) -> None:
        self.id, self.room, self.room_bytes = id, room, room_bytes
        self.prefix = prefix  # what it writes before a message of a subscription; None: no arrays
        self.lagging = False  # whether a subscription may be off the live path
        self.outbox: list[tuple[Subscription, Record]] = []
        self._size = 0  # bytes in the outbox
        self._ahead: list[tuple[int, int]] = []  # messages and bytes of each piece on its way
        self.subscriptions: dict[Key, Subscription] = {}

    @property
    def has_room(self) -> bool:
        return self.room > 0 and self.room_bytes > 0

    @property
    def behind(self) -> int:
        """How many of its subscriptions left the live path: they read from the log, or wait for
        their reader."""
        if not self.lagging:
            return 0
        return sum(not one.live and not one.paused for one in self.subscriptions.values())

    def put(self, subscription: Subscription, record: Record) -> None:
        """One more message for the next piece."""
        size = subscription.cost(record)
        self.room -= 1
        self.room_bytes -= size
        self._size += size
        self.outbox.append((subscription, record))

    def take_outbox(self) -> list[tuple[Subscription, Record]]:
        """The messages of a piece; it is on its way from now on."""
        messages, self.outbox = self.outbox, []
        self._ahead.append((len(messages), self._size))
        self._size = 0
        return messages

    def send(self, count: int, size: int) -> None:
        """A piece of so many messages and bytes is on its way."""
        self.room -= count
        self.room_bytes -= size
        self._ahead.append((count, size))

    def written(self, count: int) -> None:
        """The next `count` messages left. The bytes of a piece count until all of it has."""
        self.room += count
        while count and self._ahead:
            left, size = self._ahead[0]
            if count < left:
                self._ahead[0] = left - count, size
                return
            del self._ahead[0]
            count -= left
            self.room_bytes += size
