"""A subscription and its place in the log."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING

from tamis.pubsub.broker.recaps import NONE, Recap
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.stored import Key, Stored, Version, in_force

if TYPE_CHECKING:
    from tamis.pubsub.broker.judge import Judge
    from tamis.pubsub.broker.seats import Seats
    from tamis.pubsub.broker.session import Session
    from tamis.pubsub.broker.shapes import Shape

NOWHERE: dict[str, str | int] = {}  # one for all subscriptions that sessions fetch
Filter = tuple[int, str, str, str]  # number, subjects, selector, and the selector added to it
ENVELOPE = 128  # bytes that a protocol writes around a message, about


class Subscription:
    """Who wants what, and how far it got.

    `position` is the first sequence that was not yet considered; it means nothing while `live`,
    when everything that was matched has also been sent. `sent` are the sequences that were sent
    and not acknowledged.
    """

    __slots__ = (
        "_live", "begun", "bound", "catching", "channel", "cursor", "delivered", "delivery",
        "durable", "judged", "label", "loss", "matched", "name", "number", "paused", "position",
        "principal", "problem", "reading", "recap", "seat", "seats", "sent", "session", "shape",
        "short", "summary", "versions", "window",
    )  # fmt: skip

    def __init__(
        self, stored: Stored, number: int, *, durable: bool, bound: str = "", window: int = 0
    ) -> None:
        self.channel, self.name = stored.channel, stored.name
        self.principal = sys.intern(stored.principal)
        self.versions, self.cursor, self.paused = stored.versions, stored.cursor, stored.paused
        self.delivery = stored.delivery or NOWHERE
        self.summary, self.begun = stored.summary, stored.begun
        self.recap = Recap(stored.begun) if stored.summary else NONE
        self.short = False  # it asked for the shortest sequence, and has not got it yet
        self.catching = False  # that sequence is being made
        self.label = stored.name  # what its session calls it
        self.number, self.durable, self.bound, self.window = number, durable, bound, window
        self.position = stored.cursor + 1
        self.session: Session | None = None
        self.shape: Shape | None = None  # what becomes of messages before they are sent
        self._live = self.reading = False
        self.seats: Seats | None = None
        self.seat = 0
        self.sent: deque[int] | None = None  # most of very many subscriptions are never sent any
        self.loss = 0  # the last sequence of a loss that its session was told of
        self.matched = self.delivered = 0
        self.problem = ""  # why it was set aside; empty: it was not
        self.judged: tuple[Version, Judge] | None = None  # while it reads from the log

    @property
    def live(self) -> bool:
        return self._live

    @live.setter
    def live(self, live: bool) -> None:
        self._live = live
        if self.seat and self.seats is not None:
            self.seats.by_number[self.number] = self.seat if live else 0
        if not live and self.session is not None:
            self.session.lagging = True

    @property
    def plain(self) -> bool:
        """Whether its messages are sent as they are, and none is acknowledged."""
        return not self.durable and not self.window and self.shape is None

    @property
    def seated(self) -> int:
        """Matches that were delivered by array, and are not in `matched` and `delivered` yet."""
        return int(self.seats.counts[self.seat]) if self.seat and self.seats is not None else 0

    @property
    def key(self) -> Key:
        return self.channel, self.name

    @property
    def filter(self) -> Version:
        return self.versions[-1]

    def judge_filter(self) -> Filter:
        version = self.versions[-1]
        return self.number, version.subjects, version.selector, self.bound

    def at(self, sequence: int) -> Version:
        return in_force(self.versions, sequence)

    def stored(self) -> Stored:
        return Stored(self.channel, self.name, self.principal, self.versions,
                      self.cursor, self.paused, self.delivery,
                      self.summary, self.begun, self.number)  # fmt: skip

    @property
    def ready(self) -> bool:
        """Whether one more message may be sent."""
        session = self.session
        if session is None or self.paused or not session.has_room:
            return False
        return not self.window or self.sent is None or len(self.sent) < self.window

    def cost(self, record: Record) -> int:
        """Bytes that the message takes on its way to the session, about."""
        size = ENVELOPE + len(self.label) + len(record.subject) + len(record.body)
        return size if self.shape is None else size * len(self.shape.ways)

    def done(self, matched: int) -> int:
        """The sequence up to which all was acknowledged or not wanted, while a session has it and
        all up to `matched` was judged. A loss counts as done once its session acknowledges it."""
        if self.session is None or not self.durable or self.catching or self.short:
            return self.cursor
        if self.loss > self.cursor:
            return self.cursor
        following = matched + 1 if self._live else self.position
        return max(self.cursor, (self.sent[0] if self.sent else following) - 1)

    def acknowledge(self, upto: int) -> bool:
        """Everything up to the sequence has arrived; whether that is news."""
        upto = self.recap.passed(upto)
        sent = self.sent
        while sent and sent[0] <= upto:
            sent.popleft()
        if upto <= self.cursor:
            return False
        self.cursor = upto
        return True
