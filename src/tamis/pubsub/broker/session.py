"""A connection of a subscriber: what it holds, and how much more may be sent to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.stored import Key

if TYPE_CHECKING:
    from tamis.pubsub.broker.subscription import Subscription


class Session:
    """`room` is its credit: messages that may be sent before some were written out."""

    __slots__ = ("id", "lagging", "outbox", "prefix", "room", "subscriptions")

    def __init__(self, id: int, room: int, prefix: Callable[[str], bytes] | None = None) -> None:
        self.id, self.room = id, room
        self.prefix = prefix  # what it writes before a message of a subscription; None: no arrays
        self.lagging = False  # whether a subscription may be off the live path
        self.outbox: list[tuple[Subscription, Record]] = []
        self.subscriptions: dict[Key, Subscription] = {}
