"""A child, as its parent knows it. What it wants outlives its link; all else belongs to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from tamis.pubsub.broker.records import Record
from tamis.pubsub.links.wants import Want, WantSet

WINDOW = 1 << 20  # bytes that may be on their way to a child, one frame more at most
ENVELOPE = 64  # bytes of a frame without messages, and of a message beside its body, about
HELLO = 0  # in place of an id of `Add`


class Branch:
    """`sent`: the last sequence that the child was told of. `level`: nothing that it wants lies
    between `sent` and there. `missing`: the wants that have no coverage yet, by id of `Add`, and
    `since`: from where on the others of that id have it."""

    __slots__ = (
        "_ahead", "_flying", "acked", "bound", "bytes", "child", "draining", "epoch", "fetches",
        "greeting", "last_id", "level", "link", "messages", "missing", "name", "parts", "paused",
        "principal", "reading", "ready", "sent", "since", "upto", "wants",
    )  # fmt: skip

    def __init__(self, name: str, principal: str, bound: str, child: int) -> None:
        self.name, self.principal, self.bound, self.child = name, principal, bound, child
        self.wants = WantSet()
        self.paused = False
        self.messages = self.bytes = 0  # that were sent to it
        self.connect(None, "", None)

    def connect(self, link: int | None, epoch: str, upto: int | None) -> None:
        """Another link, or none: what belonged to the old one is gone."""
        self.link, self.epoch, self.upto = link, epoch, upto
        self.greeting = link is not None  # it has not been welcomed yet
        self.parts: set[Want] | None = None  # what has come of its wants, if the digest is unknown
        self.sent = self.level = self.acked = 0
        self.reading = False
        self.last_id = HELLO
        self.missing: dict[int, set[Want]] = {}
        self.since: dict[int, int] = {}
        self.ready: list[int] = []  # ids that wait for nothing but their turn
        self.fetches: set[int] = set()  # tickets
        self._ahead: deque[tuple[int, int]] = deque()  # last sequence and bytes of each frame
        self._flying = 0

    @property
    def streaming(self) -> bool:
        return self.link is not None and not self.greeting

    @property
    def open(self) -> bool:
        """Whether it may be sent more."""
        return self.streaming and not self.paused and self._flying < WINDOW

    def fly(self, last: int, records: Sequence[Record]) -> None:
        """These are on their way."""
        size = size_of(records)
        self._ahead.append((last, size))
        self._flying += size
        self.messages += len(records)
        self.bytes += size

    def acknowledge(self, upto: int) -> None:
        self.acked = max(self.acked, min(upto, self.sent))
        while self._ahead and self._ahead[0][0] <= self.acked:
            self._flying -= self._ahead.popleft()[1]


def size_of(records: Iterable[Record]) -> int:
    return ENVELOPE + sum([len(one.body) + len(one.subject) + ENVELOPE for one in records])
