"""Messages on their way into the log: gathered into groups, each stored once.

What is remembered of a message in order to know it again is part of its group until the group is
committed: a group that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

import msgspec

from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.broker.stored_numbers import Numbers

MAX_IDS = 100_000  # message ids that are remembered for each channel
BLOCK = 512_000  # bytes of bodies in one block, but for one larger request
MAX_PUBLISHERS = 100_000  # publishers whose numbers are remembered for each channel


class Draft(msgspec.Struct, gc=False):
    """A message that somebody wants to publish, checked; see `Record`."""

    subject: str
    body: bytes
    number: int = 0
    id: str = ""


@dataclass(slots=True)
class Admission:
    """What a channel remembers in order to store a message once: numbers by publisher, and ids
    with their sequences, the oldest first. A publisher is as old as the last message of it that was
    stored with a number."""

    numbers: dict[str, Numbers] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, packed: Mapping[str, Sequence[int]], ids: dict[str, int]) -> Admission:
        """What a log remembers."""
        return cls({name: Numbers(*one) for name, one in packed.items()}, ids)

    def remember(self, numbers: dict[str, Numbers], ids: dict[str, int]) -> None:
        for publisher in numbers:
            self.numbers.pop(publisher, None)
        self.numbers.update(numbers)
        self.ids.update(ids)
        _forget(self.numbers, MAX_PUBLISHERS)
        _forget(self.ids, MAX_IDS)


def _forget(known: dict[str, Any], most: int) -> None:
    """All but the newest."""
    for old in list(islice(known, max(len(known) - most, 0))):
        del known[old]


class Batch:
    """What one commit will store in one channel.

    `first` is the sequence of its first message, once it is known. `numbers` are those of its
    publishers as they will be, `ids` the places of new ids. `cuts` are the places at which another
    block begins: a request is never cut.
    """

    __slots__ = ("_size", "cuts", "drafts", "first", "ids", "numbers")

    def __init__(self) -> None:
        self.drafts: list[tuple[str, Draft]] = []
        self.numbers: dict[str, Numbers] = {}
        self.ids: dict[str, int] = {}
        self.first = self._size = 0
        self.cuts: list[int] = []

    def fit(self, place: int, size: int) -> None:
        """A request was added at this place, with so many bytes: a block that it would make too
        large ends before it."""
        if self._size and self._size + size > BLOCK:
            self.cuts.append(place)
            self._size = 0
        self._size += size

    def add(
        self, publisher: str, drafts: Sequence[Draft], once: Admission, before: Batch | None
    ) -> list[int]:
        """For each draft its place in the batch; one that is stored already, or will be by the
        batch `before` this one, has -1 less the sequence that it has (0: not known).

        MessageError if it cannot be told about one: then none is added.
        """
        numbers: Numbers | None = None
        ids: dict[str, int] = {}
        places: list[int] = []
        new: list[tuple[str, Draft]] = []
        for draft in drafts:
            if draft.number and numbers is None:
                numbers = self._numbers(publisher, once, before)
            if draft.id and (known := self._by_id(draft.id, ids, once, before)) is not None:
                places.append(known)
            elif numbers is not None and draft.number and not numbers.add(draft.number):
                places.append(-1)
            else:
                place = len(self.drafts) + len(new)
                places.append(place)
                new.append((publisher, draft))
                if draft.id:
                    ids[draft.id] = place
        if new and numbers is not None:
            self.numbers[publisher] = numbers
        self.drafts += new
        if ids:
            self.ids.update(ids)
        return places

    def add_one(self, publisher: str, draft: Draft, once: Admission, before: Batch | None) -> int:
        """The same for one without an id: most requests are such. Numbers that the batch has need
        no copy: the draft is added, or changes nothing."""
        if draft.number:
            numbers = self.numbers.get(publisher)
            if numbers is None:
                numbers = self._numbers(publisher, once, before)
            if not numbers.add(draft.number):
                return -1
            self.numbers[publisher] = numbers
        self.drafts.append((publisher, draft))
        return len(self.drafts) - 1

    def _numbers(self, publisher: str, once: Admission, before: Batch | None) -> Numbers:
        """What will be stored before the next draft. A copy, as a request may fail half-way."""
        known = self.numbers.get(publisher)
        if known is None and before is not None:
            known = before.numbers.get(publisher)
        known = known or once.numbers.get(publisher)
        return Numbers() if known is None else known.copy()

    def _by_id(
        self, id: str, new: dict[str, int], once: Admission, before: Batch | None
    ) -> int | None:
        place = new.get(id, self.ids.get(id))
        if place is not None:
            return place
        if before is not None and id in before.ids:
            return -1 - before.first - before.ids[id]
        sequence = once.ids.get(id)
        return None if sequence is None else -1 - sequence

    def size(self, first: int = 0) -> int:
        """Bytes of the bodies from this place on."""
        return sum([len(draft.body) for _, draft in self.drafts[first:]])

    def blocks(self, channel: int, first: int, time: int) -> list[Block]:
        """All together are stored, or none; the numbers of publishers are with the last one."""
        self.first = first
        records = tuple([
            Record(sequence, time, publisher, d.number, d.id, d.subject, d.body)
            for sequence, (publisher, d) in enumerate(self.drafts, first)
        ])  # fmt: skip
        numbers = {name: one.bounds for name, one in self.numbers.items()}
        if not self.cuts:
            return [Block(channel, records, numbers)]
        *others, last = pairwise([0, *self.cuts, len(records)])
        found = [Block(channel, records[begin:end]) for begin, end in others]
        return [*found, Block(channel, records[last[0] :], numbers)]

    def committed(self, once: Admission) -> None:
        """All of it is stored now."""
        once.remember(self.numbers, {id: self.first + place for id, place in self.ids.items()})


@dataclass(slots=True)
class Lane:
    """Channels whose messages are stored together, whatever other lanes wait for: the group that
    gathers, the one that is being committed, and its blocks."""

    group: Group = field(default_factory=lambda: Group())
    committing: Group = field(default_factory=lambda: Group())
    blocks: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """What one commit will store: a batch for each channel, and for each request its channel and
    what `Batch.add` said of its messages."""

    batches: dict[int, Batch] = field(default_factory=dict)
    requests: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    size: int = 0
    count: int = 0

    def add(
        self, request: int, channel: int, publisher: str, drafts: Sequence[Draft], size: int,
        once: Admission, before: Group,
    ) -> None:  # fmt: skip
        """Those that were admitted before are not added again. `before` is being committed; all
        bodies together have `size` bytes."""
        batch = self.batches.get(channel) or Batch()
        if len(drafts) == 1 and not drafts[0].id:
            place = batch.add_one(publisher, drafts[0], once, before.batches.get(channel))
            if place >= 0:
                self.batches[channel] = batch
                self.count += 1
                self.size += size
                batch.fit(place, size)
            self.requests[request] = channel, [place]
            return
        held = len(batch.drafts)
        places = batch.add(publisher, drafts, once, before.batches.get(channel))
        if count := len(batch.drafts) - held:
            self.batches[channel] = batch
            self.count += count
            added = size if count == len(drafts) else batch.size(held)
            self.size += added
            batch.fit(held, added)
        self.requests[request] = channel, places

    def remove(self, channel: int) -> None:
        """Its messages will not be stored."""
        batch = self.batches.pop(channel, None)
        if batch is not None:
            self.count -= len(batch.drafts)
            self.size -= batch.size()
