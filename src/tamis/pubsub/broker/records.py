"""Messages as a broker keeps them."""

from __future__ import annotations

import msgspec

MADE = -1  # the `number` of a record that nobody published: it stands for others


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One message of a channel's log.

    `sequence` counts the messages of the channel from 1 on, without a gap. `number` is the
    publisher's own count (0: it keeps none), `id` a message id (empty: none); both make sure that
    a message which is sent again is stored once. `body` is the JSON object of its attributes.
    """

    sequence: int
    time: int  # microseconds since 1970, never less than that of the record before
    publisher: str
    number: int
    id: str
    subject: str
    body: bytes


class Part(msgspec.Struct, frozen=True):
    """What a log has from sequence `first` to `last`: all that is wanted there, which in a sparse
    copy may be nothing. `last` before `first`: it has no more."""

    first: int
    last: int
    records: list[Record]


class Block(msgspec.Struct, frozen=True):
    """What one commit adds to one channel, or a part of that: records in order.

    `numbers` are what their publishers have stored then, packed (see `Numbers`). `covers` is set in
    a sparse copy of a channel: the block says all that is wanted of the sequences from the first
    to the last, which may be nothing. Without it a block covers its records, at least one.
    """

    channel: int
    records: tuple[Record, ...]
    numbers: dict[str, list[int]] = {}
    covers: tuple[int, int] | None = None

    @property
    def first(self) -> int:
        return self.records[0].sequence if self.covers is None else self.covers[0]

    @property
    def last(self) -> int:
        return self.records[-1].sequence if self.covers is None else self.covers[1]
