"""What an agent gets: messages, and the subscriptions that they come by."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tamis.errors import ClosedError, TamisError

if TYPE_CHECKING:
    from tamis.client.async_agent import AsyncAgent

BUFFER = 1_000  # messages that wait for the program before the broker has to


class CallbackFailure(Exception):  # noqa: N818 - no error of ours: it carries the program's
    """A callback raised its cause, which must not be taken for a failure of the connection."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message. `time` is when the broker took it, in microseconds since 1970."""

    sequence: int
    subject: str
    attributes: dict[str, Any]
    time: int
    source: str = ""  # of a derived space: the channel that it came from
    path: int = 0  # and which of the ways from there it took
    summarised: bool = False  # it was not published: it sums up messages that were missed
    publisher: str = ""  # who published it, and under which number: if the agent asked for `origin`
    number: int = 0

    def shown(self) -> dict[str, Any]:
        shown = {"sequence": self.sequence, "subject": self.subject, "attributes": self.attributes}
        return {**shown, "summarised": True} if self.summarised else shown


class Lost(NamedTuple):
    """Sequences that were gone before they could be read, or that the broker does not have any
    more as they were received."""

    first: int
    last: int
    reason: str  # "trimmed", or why the broker cannot read them


@dataclass(eq=False)
class Subscribed:
    """A subscription of an agent: iterate over it, or give a callback when you subscribe.

    Every message comes once, in order, whatever happens to the connection; `lost` are ranges of
    sequences that were gone before they could be read.
    """

    agent: AsyncAgent
    channel: str
    name: str
    wish: dict[str, Any]
    callback: Callable[[Received], Any] | None = None
    notes: list[str] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    highest: dict[str, tuple[int, int]] = field(default_factory=dict)  # by source
    done: dict[str, int] = field(default_factory=dict)  # what was acknowledged, by source
    epoch: str = ""  # of the log that the messages came from
    since: int = 0  # from where on it is in force everywhere; 0: the home has not heard of it yet
    confirmed: bool = False
    ended: TamisError | None = None  # why nothing more comes
    _waiting: deque[Received] = field(default_factory=deque)  # up to BUFFER messages
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _room: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def durable(self) -> bool:
        return bool(self.wish["durable"])

    def request(self) -> dict[str, Any]:
        """What subscribes it, now or again: after the last message that came."""
        again = {source: sequence + 1 for source, (sequence, _) in self.highest.items()}
        start = again.pop("", self.wish["start"])
        asked = {**self.wish, "type": "subscribe", "channel": self.channel, "name": self.name,
                 "start": start, "starts": again}  # fmt: skip
        if self.epoch:
            have = self.highest.get("", (0, 0))[0]
            asked |= {"epoch": self.epoch, "have": have, "done": self.done.get("", 0)}
        return asked

    async def receive(self, message: Received) -> None:
        place = message.sequence, message.path
        if place <= self.highest.get(message.source, (0, 0)):
            # It came before the connection was lost. A broker that crashed may have forgotten that
            # it was acknowledged, and would wait for that once the window is full.
            if message.sequence <= self.done.get(message.source, 0):
                await self._acknowledge(message)
            return
        self.highest[message.source] = place
        if self.callback is None:
            await self._keep(message)
            return
        try:
            result = self.callback(message)
            if asyncio.iscoroutine(result):
                await result
        except Exception as error:
            raise CallbackFailure from error
        if self.durable:
            await self._acknowledge(message)

    async def _keep(self, message: Received) -> None:
        while len(self._waiting) >= BUFFER and self.ended is None:
            self._room.clear()
            await self._room.wait()
        self._waiting.append(message)
        self._arrived.set()

    async def lose(self, lost: Lost) -> None:
        """Note it. The broker need not say it again, unless it comes after a message that is not
        acknowledged: then the acknowledgement of a later one says so."""
        self.lost.append(lost)
        seen = self.highest.get("", (0, 0))[0]
        if self.durable and "/" not in self.channel and seen <= self.done.get("", 0):
            await self.agent.send({"type": "ack", "name": self.name, "sequence": lost.last})

    def begin_epoch(self, epoch: str, first: int) -> None:
        """The log was opened again; what came from `first` on before that is not in it."""
        self.epoch = epoch
        if self.highest.get("", (0, 0))[0] >= first:
            self.replaced(first - 1)

    def replaced(self, agreed: int) -> None:
        """The broker's log is another one, from after `agreed` on: what comes next is new."""
        had = self.highest.get("", (0, 0))[0]
        self.highest[""] = agreed, sys.maxsize
        self.done[""] = min(self.done.get("", 0), agreed)
        reason = "the broker's log was replaced or restored: it has other messages there"
        self.lost.append(Lost(agreed + 1, had, reason))

    def stop(self, reason: TamisError) -> None:
        """Its reader gets the messages that are left, and then the reason. The first one counts."""
        self.ended = self.ended or reason
        self._arrived.set()
        self._room.set()

    async def acknowledge(self, message: Received) -> None:
        """Everything up to this message is done: after a restart it does not come again."""
        self.agent.check_open()
        await self._acknowledge(message)

    async def _acknowledge(self, message: Received) -> None:
        self.done[message.source] = max(message.sequence, self.done.get(message.source, 0))
        await self.agent.send({"type": "ack", "name": self.name, "sequence": message.sequence,
                               "source": message.source})  # fmt: skip

    async def get(self, timeout: float | None = None) -> Received:
        """The next message; TimeoutError if none comes within `timeout` seconds. Once the
        subscription has ended and all its messages were read, every call raises the reason."""
        if not self._waiting:
            async with asyncio.timeout(timeout):
                await self._wait()
        message = self._waiting.popleft()
        self._room.set()
        return message

    async def _wait(self) -> None:
        while not self._waiting:
            if self.ended is not None:
                raise self.ended
            self._arrived.clear()
            await self._arrived.wait()

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        try:
            return await self.get()
        except ClosedError:
            raise StopAsyncIteration from None

    async def end(self) -> None:
        """Nothing more comes; what is durable stays, and can be taken up again."""
        await self.agent.leave(self, False)

    async def remove(self) -> None:
        """The same, and a durable subscription goes for ever."""
        await self.agent.leave(self, True)
