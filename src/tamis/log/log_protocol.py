"""What a log promises, whatever stores it. `tests/log/conformance.py` holds each form to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from tamis.pubsub.broker.epochs import Epochs
from tamis.pubsub.broker.records import Block, Part, Record


@dataclass(frozen=True, slots=True)
class Remembered:
    """What tells a message that is sent again: publishers' numbers (as the last `Block.numbers`
    had them), and message ids. Of each only the newest: see `MAX_PUBLISHERS` and `MAX_IDS`."""

    numbers: dict[str, list[int]]  # who stored numbers last comes last
    ids: dict[str, int]  # the newest, with their sequences, in order of the sequences


class Log(Protocol):
    """The messages of all channels, by sequence. One writer for each lane; readers may be other
    threads.

    A channel is whole, or a sparse copy of one whose home is elsewhere. In a copy a block covers a
    range of sequences, of which it holds those that are wanted here; in bytes it may take none.
    """

    def lane(self, channel: int) -> int:
        """Channels of one lane are appended to together, by one thread at a time; lanes do not wait
        for each other. 0: this log has one thread that writes."""

    def append(self, blocks: Sequence[Block]) -> None:
        """Store all blocks, or none (LogError). What is stored when it returns survives a crash.

        A block begins where its channel ends.
        """

    def read(
        self, channel: int, first: int, most: int, subjects: Collection[str] | None = None
    ) -> list[Record]:
        """Records from sequence `first` on, up to `most`; an empty list means: there are no more.

        `subjects` leaves out the others. Reading ends before records that are damaged or missing;
        if these are the first ones, HoleError says how far they go.
        """

    def part(self, channel: int, first: int, most: int) -> Part:
        """The same for all subjects, and which sequences these records are all of: a gap in a
        sparse copy is told from one that must not be there."""

    def epochs(self, channel: int) -> Epochs:
        """The openings of the log (see `epochs.py`) in which its messages were appended; of a
        copy, those of its home, as they were kept last. The newest is the last one."""

    @property
    def copies(self) -> set[int]:
        """The channels that are sparse copies."""

    def keep_epochs(self, channel: int, epochs: Epochs) -> None:
        """Make the channel a sparse copy, with these epochs of its home."""

    def begin(self, channel: int, first: int) -> None:
        """Let a copy begin at sequence `first`: what is before goes, and the next block is of
        `first` or of what comes after the last block."""

    def find(self, channel: int, time: int) -> int:
        """The sequence of the first record at `time` or later, or of the next one to come."""

    def kept_since(self, channel: int, time: int) -> int:
        """The first sequence of the oldest block that ends at `time` or later, or the next one to
        come. No block is read: a damaged one can be trimmed."""

    def bounds(self, channel: int) -> tuple[int, int]:
        """The sequence of the oldest record that is kept, and of the next one to come."""

    def size(self, channel: int) -> int:
        """Bytes that the channel's messages take."""

    def subjects(self, channel: int) -> list[str]:
        """The subjects of all messages that are kept, sorted."""

    def remembered(self, channel: int) -> Remembered:
        """Survives trimming: a message that was trimmed is still not stored twice."""

    def trim(self, channel: int, before: int) -> int:
        """Drop records below the sequence `before`, by whole blocks; the new oldest sequence."""

    def drop(self, channel: int) -> None:
        """Drop the channel: all its records, and what was remembered."""

    def close(self) -> None: ...
