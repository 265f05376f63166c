"""What the broker asks its surroundings to do, in this order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tamis.errors import TamisError
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.broker.stored import Key, Stored

if TYPE_CHECKING:
    from tamis.pubsub.broker.seats import Share
    from tamis.pubsub.broker.subscription import Subscription

TRIMMED = "trimmed"  # why messages are gone: the channel keeps them no longer


class Commit(NamedTuple):
    """Append the blocks to the log, then call `committed` or `not_committed` with the lane."""

    blocks: list[Block]
    lane: int = 0


class Store(NamedTuple):
    """Change the registry, then call `stored` or `not_stored`."""

    put: list[Stored]
    remove: list[Key]


class Read(NamedTuple):
    """Read records from the log, then call `read_done`."""

    subscription: Subscription
    first: int
    most: int


class CatchUp(NamedTuple):
    """Make a recap of what the subscription missed, up to `last`; store it, and call `caught_up`.

    Acknowledgements do not move its cursor meanwhile.
    """

    subscription: Subscription
    last: int


class Acknowledged(NamedTuple):
    """The messages of these requests are in the log: their sequences, 0 for one that was there
    already."""

    answers: list[tuple[int, list[int]]]


class Refused(NamedTuple):
    """A request failed: nothing of it was done."""

    request: int
    error: TamisError


class Applied(NamedTuple):
    """A change of a subscription is stored and in force."""

    request: int
    subscription: Subscription | None


class Deliver(NamedTuple):
    """Send these to a session, in one piece; call `written` when they are out."""

    session: int
    messages: list[tuple[Subscription, Record]]


class Gathered(NamedTuple):
    """Send each session its share of the records; call `written` when it is out."""

    records: list[Record]
    prefixes: list[bytes]  # by seat
    shares: list[Share]


class Lost(NamedTuple):
    """Messages that the subscription had not read yet are gone, and why."""

    session: int
    subscription: Subscription
    first: int
    last: int
    reason: str = TRIMMED


class Taken(NamedTuple):
    """Another session took the durable subscription over."""

    session: int
    subscription: Subscription


class Ended(NamedTuple):
    """The session gets nothing more of the subscription, and why: it was removed, a right or a
    channel is gone, or the broker failed on it."""

    session: int
    subscription: Subscription
    error: TamisError


class Fault(NamedTuple):
    """The broker failed at something. It went on without it; somebody should know."""

    where: str
    error: Exception


class Left(NamedTuple):
    """No session has this durable subscription any more, and the broker itself has to bring its
    messages somewhere."""

    subscription: Subscription


ToSession = Deliver | Lost | Taken | Ended
Action = (
    Commit | Store | Read | CatchUp | Acknowledged | Refused | Applied | Gathered | Fault | Left
    | ToSession
)  # fmt: skip
