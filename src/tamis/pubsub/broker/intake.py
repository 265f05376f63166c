"""Messages on their way into the log: gathered into groups, each stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tamis.pubsub.broker.records import Block, Record

FORGOTTEN = 100_000  # message ids that are remembered for each channel


class Draft(msgspec.Struct, gc=False):
    """A message that somebody wants to publish, checked; see `Record`."""

    subject: str
    body: bytes
    number: int = 0
    id: str = ""


@dataclass(slots=True)
class Admission:
    """What a channel remembers in order to store a message once."""

    numbers: dict[str, int]
    ids: dict[str, int]

    def known(self, publisher: str, draft: Draft) -> bool:
        """Whether it was admitted before; if not, it is from now on."""
        if draft.id:
            if draft.id in self.ids:
                return True
            self.ids[draft.id] = 0
            if len(self.ids) > FORGOTTEN:
                del self.ids[next(iter(self.ids))]
        if draft.number:
            if draft.number <= self.numbers.get(publisher, 0):
                return True
            self.numbers[publisher] = draft.number
        return False


@dataclass(slots=True)
class Group:
    """What one commit will store: drafts with their publishers, channel by channel.

    A request has one channel, and for each of its messages a place among the channel's drafts;
    -1 is a message that is stored already: it waits for those before it.
    """

    drafts: dict[int, list[tuple[str, Draft]]] = field(default_factory=dict)
    requests: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    size: int = 0
    count: int = 0

    def add(
        self, request: int, channel: int, publisher: str, drafts: Sequence[Draft], once: Admission
    ) -> None:
        """Those that were admitted before are not added again."""
        waiting = self.drafts.get(channel, [])
        places = []
        for draft in drafts:
            if (draft.number or draft.id) and once.known(publisher, draft):
                places.append(-1)
                continue
            places.append(len(waiting))
            waiting.append((publisher, draft))
            self.size += len(draft.body)
            self.count += 1
        if waiting:
            self.drafts[channel] = waiting
        self.requests[request] = channel, places

    def block(self, channel: int, first: int, time: int) -> Block:
        drafts = enumerate(self.drafts[channel], first)
        return Block(channel, tuple([
            Record(sequence, time, publisher, d.number, d.id, d.subject, d.body)
            for sequence, (publisher, d) in drafts
        ]))  # fmt: skip
