"""What goes over a link, and its bytes: a channel's number, then MessagePack.

A child sends `Up` frames, its parent `Down` frames; docs/links.md says when. Blocks of messages
cross as they are stored, and nothing is JSON but the bodies of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tamis.errors import WireError
from tamis.pubsub.broker.epochs import Epoch
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.records import Record
from tamis.pubsub.links.wants import Want

VERSION = 1
MAX_FRAME = 80 << 20  # bytes: one message may be large
MAX_WANTS = 1_000  # wants in one frame; more go in several
MAX_FETCHED = 100  # wants of one fetch: those of one subscription
MAX_PATH = 64  # routers between an agent and the home
MAX_NAME = 255  # characters of a router's name
_CHANNEL = 4  # bytes
_F = TypeVar("_F")


class Up(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=True):
    """A frame from a child to its parent."""


class Down(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=True):
    """A frame from a parent to a child."""


class Hello(Up, frozen=True, tag="hello"):
    """The first frame of a child: who it is, how far its copy goes, and what it wants.

    `epoch` is that of the message `upto`. `upto` is None if the child has nothing yet: then it
    gets what comes from now on. `wants` are sent with it if they are few; if not, the digest and
    their number say which ones.
    """

    version: int
    name: str
    epoch: str
    upto: int | None
    digest: bytes
    count: int
    wants: tuple[Want, ...] | None


class Wants(Up, frozen=True, tag="wants"):
    """All that the child wants, because its digest was not known; in parts, the last without
    `more`."""

    wants: tuple[Want, ...]
    more: bool


class Add(Up, frozen=True, tag="add"):
    """Some more wants. `id` counts upward; the answer names it."""

    id: int
    wants: tuple[Want, ...]


class Remove(Up, frozen=True, tag="remove"):
    wants: tuple[Want, ...]


class Ack(Up, frozen=True, tag="ack"):
    """The child has stored everything up to the sequence."""

    upto: int


class Fetch(Up, frozen=True, tag="fetch"):
    """Send what is between two sequences, both included; by parts, as `Fetched` says.

    `wants` None: all that the child wants on this link.
    """

    id: int
    first: int
    last: int
    wants: tuple[Want, ...] | None


class Publish(Up, frozen=True, tag="publish"):
    """Messages for the home, which alone decides whether a number is new."""

    id: int
    publisher: str
    drafts: tuple[Draft, ...]


class Above(Down, frozen=True, tag="above"):
    """Who is between the child and the home, the parent first, and the epochs of the home's log.

    The first answer to a hello, and sent again at each change.
    """

    path: tuple[str, ...]
    epochs: tuple[Epoch, ...]


class Unknown(Down, frozen=True, tag="unknown"):
    """The digest is not known: send all wants."""


class Welcome(Down, frozen=True, tag="welcome"):
    """From `first` on the parent sends all that the child wants. What lies between the child's
    copy and `first` the child has to fetch. It may come again, with a later `first`."""

    first: int


class Data(Down, frozen=True, tag="data"):
    """All that the child wants of the sequences `first` to `last`; often that is nothing."""

    first: int
    last: int
    records: tuple[Record, ...]


class Added(Down, frozen=True, tag="added"):
    """The wants of the frame `Add` with this id are in force from `first` on."""

    id: int
    first: int


class Fetched(Down, frozen=True, tag="fetched"):
    """A part of what was asked for: all from `first` to `last`. The child asks for the rest.

    `lost`: the home does not keep these messages any more.
    """

    id: int
    first: int
    last: int
    records: tuple[Record, ...]
    lost: bool = False


class Published(Down, frozen=True, tag="published"):
    """The sequences of the messages (0: known already, its sequence is not), or why none was
    stored. `unknown`: perhaps they are stored; send them again under the same numbers."""

    id: int
    sequences: tuple[int, ...]
    error: str = ""
    unknown: bool = False


class Refused(Down, frozen=True, tag="refused"):
    """The parent ends the link. `common`, if it is there: the child's copy is of another log, and
    agrees with this one up to that sequence only."""

    reason: str
    common: int | None = None


class Drain(Down, frozen=True, tag="drain"):
    """The parent is about to leave: take another one."""

    reason: str


UpFrame = Hello | Wants | Add | Remove | Ack | Fetch | Publish
DownFrame = (
    Above | Unknown | Welcome | Data | Added | Fetched | Published | Refused | Drain
)  # fmt: skip
Frame = UpFrame | DownFrame
_encode = msgspec.msgpack.Encoder().encode
_up = msgspec.msgpack.Decoder(UpFrame).decode
_down = msgspec.msgpack.Decoder(DownFrame).decode


def encode(channel: int, frame: Frame) -> bytes:
    return channel.to_bytes(_CHANNEL) + _encode(frame)


def decode_up(data: bytes) -> tuple[int, UpFrame]:
    """A channel, and what a child sent; WireError for all that is no such frame."""
    frame = _decoded(data, _up)
    match frame:
        case Hello():
            _check_hello(frame)
        case Wants() | Add() | Remove() | Fetch():
            if frame.wants is not None and len(frame.wants) > MAX_WANTS:
                raise WireError(f"a frame has {MAX_WANTS:,} wants at most")
    if isinstance(frame, Fetch) and len(frame.wants or ()) > MAX_FETCHED:
        raise WireError(f"a fetch has {MAX_FETCHED} wants at most")
    if isinstance(frame, Fetch) and not 0 < frame.first <= frame.last:
        raise WireError(f"no range reaches from {frame.first} to {frame.last}")
    return int.from_bytes(data[:_CHANNEL]), frame


def decode_down(data: bytes) -> tuple[int, DownFrame]:
    """A channel, and what a parent sent; WireError for all that is no such frame."""
    frame = _decoded(data, _down)
    match frame:
        case Above() if not 0 < len(frame.path) <= MAX_PATH or not all(map(_named, frame.path)):
            raise WireError(f"a path has 1 to {MAX_PATH} names")
        case Above() if [e.first for e in frame.epochs] != sorted({e.first for e in frame.epochs}):
            raise WireError("epochs are not in order")
        case Data() | Fetched():
            _check_range(frame)
    return int.from_bytes(data[:_CHANNEL]), frame


def _decoded(data: bytes, decoder: Callable[[memoryview], _F]) -> _F:
    if len(data) > MAX_FRAME:
        raise WireError(f"a frame has {MAX_FRAME:,} bytes at most (frame)")
    try:
        return decoder(memoryview(data)[_CHANNEL:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"no frame of a link: {error}") from None


def _check_hello(hello: Hello) -> None:
    if hello.version != VERSION:
        raise WireError(f"version {hello.version} of the link protocol: this is {VERSION}")
    if not _named(hello.name):
        raise WireError(f"a router's name has 1 to {MAX_NAME} characters, all printable")
    if hello.wants is not None and len(hello.wants) > MAX_WANTS:
        raise WireError(f"a frame has {MAX_WANTS:,} wants at most")
    if hello.upto is not None and hello.upto < 0:
        raise WireError("a copy goes up to 0 at least")


def _named(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME and name.isprintable()


def _check_range(frame: Data | Fetched) -> None:
    if not 0 < frame.first <= frame.last:
        raise WireError(f"no range reaches from {frame.first} to {frame.last}")
    before = frame.first - 1
    for record in frame.records:
        if record.sequence <= before:
            raise WireError(f"sequence {record.sequence} is out of order")
        before = record.sequence
    if before > frame.last:
        raise WireError(f"sequence {before} is beyond {frame.last}")
