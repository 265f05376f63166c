"""What an agent gets: messages, and the subscriptions that they come by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tamis.errors import TamisError

if TYPE_CHECKING:
    from tamis.client.async_agent import AsyncAgent

BUFFER = 1_000  # messages that wait for the program before the broker has to


@dataclass(frozen=True, slots=True)
class Received:
    """A message. `time` is when the broker took it, in microseconds since 1970."""

    sequence: int
    subject: str
    attributes: dict[str, Any]
    time: int
    source: str = ""  # of a derived space: the channel that it came from
    path: int = 0  # and which of the ways from there it took
    summarised: bool = False  # nobody published it: it stands for messages that were missed

    def shown(self) -> dict[str, Any]:
        return {"sequence": self.sequence, "subject": self.subject, "attributes": self.attributes}


@dataclass(eq=False)
class Subscribed:
    """A subscription of an agent: iterate over it, or give a callback when you subscribe.

    Every message comes once, in order, whatever happens to the connection; `lost` are ranges of
    sequences that the broker trimmed before they could be read.
    """

    agent: AsyncAgent
    channel: str
    name: str
    wish: dict[str, Any]
    callback: Callable[[Received], Any] | None = None
    notes: list[str] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    highest: dict[str, tuple[int, int]] = field(default_factory=dict)  # by source
    done: dict[str, int] = field(default_factory=dict)  # what was acknowledged, by source
    confirmed: bool = False
    queue: asyncio.Queue[Received | TamisError] = field(
        default_factory=lambda: asyncio.Queue(BUFFER)
    )

    @property
    def durable(self) -> bool:
        return bool(self.wish["durable"])

    def request(self) -> dict[str, Any]:
        """What subscribes it, now or again: behind what has come already."""
        again = {source: sequence + 1 for source, (sequence, _) in self.highest.items()}
        start = again.pop("", self.wish["start"])
        return {**self.wish, "type": "subscribe", "channel": self.channel, "name": self.name,
                "start": start, "starts": again}  # fmt: skip

    async def receive(self, message: Received) -> None:
        place = message.sequence, message.path
        if place <= self.highest.get(message.source, (0, 0)):
            # It came before the connection was lost. A broker that crashed may have forgotten that
            # it was acknowledged, and would wait for that once the window is full.
            if message.sequence <= self.done.get(message.source, 0):
                await self.acknowledge(message)
            return
        self.highest[message.source] = place
        if self.callback is None:
            await self.queue.put(message)
            return
        result = self.callback(message)
        if asyncio.iscoroutine(result):
            await result
        if self.durable:
            await self.acknowledge(message)

    async def acknowledge(self, message: Received) -> None:
        """Everything up to this message is done: after a restart it does not come again."""
        self.done[message.source] = max(message.sequence, self.done.get(message.source, 0))
        await self.agent.send({"type": "ack", "name": self.name, "sequence": message.sequence,
                               "source": message.source})  # fmt: skip

    async def get(self) -> Received:
        """The next message. Once the subscription has ended, every call raises the reason."""
        found = await self.queue.get()
        if isinstance(found, TamisError):
            self.queue.put_nowait(found)  # nothing comes behind it
            raise found
        return found

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        return await self.get()

    async def end(self) -> None:
        """Nothing more comes; what is durable stays, and can be taken up again."""
        await self.agent.leave(self, False)

    async def remove(self) -> None:
        """The same, and a durable subscription goes for ever."""
        await self.agent.leave(self, True)
