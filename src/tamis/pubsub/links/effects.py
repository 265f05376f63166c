"""What a router asks its surroundings to do, in this order."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from tamis.pubsub.broker.epochs import Epochs
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.links.link_frames import DownFrame, UpFrame


class Send(NamedTuple):
    """Send a frame over a link."""

    link: int
    frame: UpFrame | DownFrame


class Close(NamedTuple):
    """End a link, after what was sent on it; the router has forgotten it already."""

    link: int
    reason: str


class Keep(NamedTuple):
    """Store the epochs of the copy, before any block that follows; give them to the next router
    of this channel."""

    epochs: Epochs


class Store(NamedTuple):
    """Append a block to the copy, and hand it to the broker; then call `router.stored`."""

    block: Block


class Begin(NamedTuple):
    """The copy begins at `first`: what is older is not to be had, here or at the home. Trim what
    there is, let the next block begin at `first`, and tell subscribers that have not got so far;
    then call `router.stored(first - 1)`."""

    first: int


class Reset(NamedTuple):
    """The copy is of another log than the home's, and so the router has dropped it: drop it too,
    with all that was to be stored, and connect anew. What subscribers got up to `common` is still
    true; tell them that the rest is not. None of them is in force until `InForce` says so again."""

    common: int
    reason: str


class Read(NamedTuple):
    """Read records of the copy from `first` on, `last` included, up to `most`; then call
    `router.read_done`."""

    ticket: int
    first: int
    last: int
    most: int


class Admit(NamedTuple):
    """(At the home.) Publish this; then call `router.published`. `link` says by whom it came; None:
    from the home itself."""

    ticket: int
    link: int | None
    publisher: str
    drafts: tuple[Draft, ...]


class InForce(NamedTuple):
    """From `since` on the copy has everything that these local subscriptions want."""

    keys: tuple[Hashable, ...]
    since: int


class Answered(NamedTuple):
    """What became of `router.publish`; see `Published`."""

    request: int
    sequences: tuple[int, ...]
    error: str
    unknown: bool


class Got(NamedTuple):
    """A part of what `router.fetch` asked for; see `Fetched`. After a cut it is asked for again,
    by itself."""

    request: int
    first: int
    last: int
    records: tuple[Record, ...]
    lost: bool


Effect = Send | Close | Keep | Store | Begin | Reset | Read | Admit | InForce | Answered | Got
