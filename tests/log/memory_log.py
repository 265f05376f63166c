"""A log in memory: the second form, for the conformance suite and the simulation."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tamis.errors import LogError
from tamis.log import Remembered
from tamis.pubsub.broker import intake
from tamis.pubsub.broker.epochs import Epochs, begun
from tamis.pubsub.broker.records import Block, Part, Record


class MemoryLog:
    def __init__(self) -> None:
        self.blocks: dict[int, list[Block]] = {}
        self.next: dict[int, int] = {}
        self.numbers: dict[int, dict[str, list[int]]] = {}
        self.ids: dict[int, dict[str, int]] = {}
        self.copies: dict[int, Epochs] = {}
        self.home: dict[int, Epochs] = {}

    def lane(self, channel: int) -> int:
        return 0

    def append(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            if block.first != self.next.get(block.channel, 1):
                raise LogError("the block does not follow")
            if (block.covers is not None) != (block.channel in self.copies):
                raise LogError("only copies cover ranges")
        for block in blocks:
            if block.channel not in self.copies:
                self.home.setdefault(block.channel, begun((), "memory", block.first))
            self.blocks.setdefault(block.channel, []).append(block)
            self.next[block.channel] = block.last + 1
            numbers = self.numbers.setdefault(block.channel, {})
            for name, stored in block.numbers.items():
                numbers.pop(name, None)
                numbers[name] = stored
            ids = self.ids.setdefault(block.channel, {})
            for record in block.records:
                if record.id:
                    ids[record.id] = record.sequence

    def _all(self, channel: int) -> list[Record]:
        return [r for block in self.blocks.get(channel, []) for r in block.records]

    def read(
        self, channel: int, first: int, most: int, subjects: Collection[str] | None = None
    ) -> list[Record]:
        wanted = [r for r in self._all(channel) if r.sequence >= first]
        return [r for r in wanted if subjects is None or r.subject in subjects][:most]

    def part(self, channel: int, first: int, most: int) -> Part:
        blocks = [b for b in self.blocks.get(channel, []) if b.last >= first]
        if not blocks:
            return Part(first, first - 1, [])
        records, begin = self.read(channel, first, most + 1), max(first, blocks[0].first)
        if len(records) > most:
            return Part(begin, records[most - 1].sequence, records[:most])
        return Part(begin, blocks[-1].last, records)

    def epochs(self, channel: int) -> Epochs:
        whole = self.home.get(channel) or begun((), "memory", self.next.get(channel, 1))
        return self.copies.get(channel, whole)

    def keep_epochs(self, channel: int, epochs: Epochs) -> None:
        self.copies[channel] = epochs

    def begin(self, channel: int, first: int) -> None:
        self.trim(channel, first)
        self.next[channel] = max(first, self.next.get(channel, 1))

    def find(self, channel: int, time: int) -> int:
        later = [r.sequence for r in self._all(channel) if r.time >= time]
        return later[0] if later else self.next.get(channel, 1)

    def kept_since(self, channel: int, time: int) -> int:
        times, last = [], 0
        for b in self.blocks.get(channel, []):
            last = b.records[-1].time if b.records else last
            times.append((b.first, last))
        kept = [first for first, newest in times if newest >= time]
        return kept[0] if kept else self.next.get(channel, 1)

    def bounds(self, channel: int) -> tuple[int, int]:
        blocks, following = self.blocks.get(channel), self.next.get(channel, 1)
        return (blocks[0].first if blocks else following), following

    def size(self, channel: int) -> int:
        return sum(len(r.body) for r in self._all(channel))

    def subjects(self, channel: int) -> list[str]:
        return sorted({r.subject for r in self._all(channel)})

    def remembered(self, channel: int) -> Remembered:
        numbers = list(self.numbers.get(channel, {}).items())[-intake.MAX_PUBLISHERS :]
        return Remembered(dict(numbers), dict(self.ids.get(channel, {})))

    def trim(self, channel: int, before: int) -> int:
        kept = [block for block in self.blocks.get(channel, []) if block.last >= before]
        self.blocks[channel] = kept
        return self.bounds(channel)[0]

    def drop(self, channel: int) -> None:
        for part in (self.blocks, self.next, self.numbers, self.ids, self.copies, self.home):
            part.pop(channel, None)

    def close(self) -> None:
        pass
