"""Changes of subscriptions: first stored, then in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from tamis.errors import SubscriptionError
from tamis.pubsub.broker.stored import Key, Stored, Version, changed

if TYPE_CHECKING:
    from tamis.pubsub.broker.shapes import Shape

Scratch = dict[Key, Stored | None]  # what the registry will hold


@dataclass(slots=True)
class Change:
    """One request. `since` is the first sequence that a new filter judges."""

    request: int
    channel: int
    name: str

    @property
    def key(self) -> Key:
        return self.channel, self.name

    def prepare(self, scratch: Scratch, since: int) -> None:
        raise NotImplementedError

    def _known(self, scratch: Scratch) -> Stored:
        found = scratch.get(self.key)
        if found is None:
            raise SubscriptionError(f"there is no durable subscription {self.name!r}", status=404)
        return found


@dataclass(slots=True)
class Put(Change):
    """Make a durable subscription, or give it another filter, and attach it to a session."""

    principal: str
    subjects: str
    selector: str
    start: int | None = None  # the first sequence that it gets, if it is new; None: from now on
    session: int | None = None
    bound: str = ""
    window: int = 0
    delivery: dict[str, str | int] | None = None
    summary: str = ""
    short: bool = False  # the session wants a recap of what it missed
    have: int = 0  # the sequence up to which it has everything, whatever it acknowledged
    shape: Shape | None = None

    def prepare(self, scratch: Scratch, since: int) -> None:
        known = scratch.get(self.key)
        if known is None:
            start = since if self.start is None else min(max(self.start, 1), since)
            cursor = start - 1  # nobody begins behind the end: what comes next would be skipped
            version = Version(1, self.subjects, self.selector)
            known = Stored(self.channel, self.name, self.principal, (version,), cursor,
                           summary=self.summary, begun=cursor)  # fmt: skip
        elif (self.subjects, self.selector) != (
            known.versions[-1].subjects,
            known.versions[-1].selector,
        ):
            version = Version(since, self.subjects, self.selector)
            # A summary may still have to be computed from what came long before the cursor.
            versions = changed(known.versions, version, 0 if known.summary else known.cursor)
            known = msgspec.structs.replace(known, versions=versions)
        if self.summary and self.summary != known.summary:
            raise SubscriptionError(
                f"{self.name!r} has another summary, or none: end it, and make it anew"
            )
        if self.delivery is not None:
            known = msgspec.structs.replace(known, delivery=self.delivery)
        scratch[self.key] = known


@dataclass(slots=True)
class Pause(Change):
    """Deliver nothing for a while, or go on."""

    paused: bool

    def prepare(self, scratch: Scratch, since: int) -> None:
        known = self._known(scratch)
        scratch[self.key] = msgspec.structs.replace(known, paused=self.paused)


@dataclass(slots=True)
class Move(Change):
    """Go on with the message `following`, earlier or later; None: with what comes next."""

    following: int | None

    def prepare(self, scratch: Scratch, since: int) -> None:
        known = self._known(scratch)
        if known.summary:
            raise SubscriptionError(
                f"{self.name!r} has a summary of what it had: end it, and make it anew"
            )
        following = since if self.following is None else min(max(self.following, 1), since)
        scratch[self.key] = msgspec.structs.replace(known, cursor=following - 1)


@dataclass(slots=True)
class End(Change):
    """End a durable subscription; its session learns it, unless that session asked for it."""

    session: int | None = None

    def prepare(self, scratch: Scratch, since: int) -> None:
        self._known(scratch)
        scratch[self.key] = None
