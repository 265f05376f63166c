"""Recaps: what a subscriber missed, made short, and kept until it was acknowledged.

A durable subscription may declare a summary (see `summaries.py`). After an absence it may then ask
for the shortest sequence that leads to the same states. Such a recap is stored before it is sent,
and sent again as it was, so that each of its messages counts once by sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.stored import Version, in_force

if TYPE_CHECKING:
    from tamis.pubsub.broker.judge import Judge, Language

AT_ONCE = 16_384  # records that are read, and shortened, at a time
MOST = 100_000  # records of a recap; where more are needed, everything is sent
Reader = Callable[[int, int], list[Record]]


class Recap(msgspec.Struct, frozen=True):
    """What a subscription's messages up to `sequence` mean: `states`, as Arrow IPC.

    `records` are sent instead of the messages; those behind the cursor are still to be sent.
    """

    sequence: int
    states: bytes = b""
    records: tuple[Record, ...] = ()

    def passed(self, upto: int) -> int:
        """How far a subscriber is that has everything up to this sequence."""
        last = self.records[-1].sequence if self.records else 0
        return self.sequence if last <= upto < self.sequence else upto


NONE = Recap(0)


@dataclass
class Past:
    """What a recap is made of: taken on the broker's thread, used on another one."""

    summary: str
    channel: str
    language: Language
    versions: tuple[Version, ...]
    bound: str
    recap: Recap
    cursor: int

    def caught_up(self, read: Reader, first: int, last: int) -> Recap | None:
        """The shortest sequence for what came behind the cursor, up to `last`.

        `read` gives records from a sequence on, `first` is where the log begins. None where that
        is too late to tell what the subscriber knows, or where the sequence would be too long.
        """
        from tamis.pubsub.broker.channel_summaries import Shortening

        at = self.recap.sequence + 1
        if first > at:
            return None
        work = Shortening.of(self.summary, self.channel, self.language, self.recap.states)
        for records in self._matched(read, at, last):
            split = sum(r.sequence <= self.cursor for r in records)
            if records[:split]:
                work.seen(records[:split])
            if records[split:]:
                work.missed(records[split:])
        if len(work.records) > MOST:
            return None
        # What is left of the recap before was sent, perhaps: it stays as it was.
        left = [r for r in self.recap.records if r.sequence > self.cursor]
        return Recap(last, work.packed(), (*left, *work.records))

    def _matched(self, read: Reader, at: int, last: int) -> Iterator[list[Record]]:
        """The records that the subscription wants, each by the filter of its time."""
        judges: dict[Version, Judge] = {}
        while at <= last:
            records = [r for r in read(at, AT_ONCE) if r.sequence <= last]
            if not records:
                return
            at = records[-1].sequence + 1
            parts: dict[Version, list[Record]] = {}
            for record in records:
                parts.setdefault(in_force(self.versions, record.sequence), []).append(record)
            found: list[Record] = []
            for version, part in parts.items():
                if version not in judges:
                    judges[version] = self._judge(version)
                found += judges[version].hits(part)
            yield sorted(found, key=lambda r: r.sequence)

    def _judge(self, version: Version) -> Judge:
        from tamis.pubsub.broker.judge import Judge

        judge = Judge(self.language)
        judge.add(0, version.subjects, version.selector, self.bound)
        return judge
