"""A durable subscription whose messages the broker itself brings somewhere.

Messages go in order, gathered. What fails is tried again with growing pauses; what fails too often
goes to the dead letters, and the subscription goes on behind it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from tamis.errors import TamisError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.subscription import Subscription
from tamis.server.hub import Hub

LOG = logging.getLogger("tamis.server")
GATHERED = 100  # messages that are sent at a time
DEAD = 1_000  # dead letters that are remembered for each subscription


class Problem(NamedTuple):
    """Why something was not taken. `final`: it never will be."""

    text: str
    final: bool = False


class Arrived(NamedTuple):
    """A message as it is brought; of a derived space also where it came from, and by which path."""

    record: Record
    source: str = ""
    path: int = 0


class Delivery:
    """One subscription on its way. A kind of delivery says how to `send`."""

    attempts: ClassVar[int] = 8
    first_pause: ClassVar[float] = 0.2  # seconds
    longest_pause: ClassVar[float] = 60.0

    def __init__(self, hub: Hub, subscription: Subscription, interval: float = 0) -> None:
        """`interval`: seconds for which messages are gathered before they are sent."""
        self.hub, self.subscription, self.interval = hub, subscription, interval
        self.target = subscription.delivery
        self.dead: deque[tuple[Record, str]] = deque(maxlen=DEAD)
        self.failures = 0
        self._waiting: deque[Record] = deque()
        self._more = asyncio.Event()
        self.ended: Callable[[Delivery], None] = lambda _: None  # nothing more will come
        self.session = hub.connect(self._sink, GATHERED * 4)
        hub.broker.attach(self.session, subscription)
        self.task = hub.keep(self._run())
        hub.pump()

    def send(self, made: list[Arrived]) -> Problem | None:
        """Bring them there, in a thread; None: they were taken."""
        raise NotImplementedError

    def stop(self) -> None:
        self.task.cancel()
        self.hub.disconnect(self.session)

    def _sink(self, action: act.ToSession) -> None:
        if isinstance(action, act.Deliver):
            self._waiting.extend(record for _, record in action.messages)
            self._more.set()
        elif isinstance(action, act.Lost):
            LOG.warning("%s lost %d to %d", self.subscription.name, action.first, action.last)
        elif isinstance(action, act.Ended):
            LOG.info("%s ends: %s", self.subscription.name, action.error)
            self.hub.loop.call_soon(self.ended, self)

    async def _run(self) -> None:
        while True:
            await self._gather()
            count = min(len(self._waiting), GATHERED)
            records = [self._waiting.popleft() for _ in range(count)]
            await self._deliver(records)
            if self.session not in self.hub.broker.sessions:
                return
            key = self.subscription.key
            self.hub.broker.acknowledge(self.session, key, records[-1].sequence)
            self.hub.written(self.session, count)

    async def _gather(self) -> None:
        """Until the interval after a first message is over, or enough of them wait."""
        while not self._waiting:
            self._more.clear()
            await self._more.wait()
        end = time.monotonic() + self.interval
        while len(self._waiting) < GATHERED and (left := end - time.monotonic()) > 0:
            self._more.clear()
            try:
                await asyncio.wait_for(self._more.wait(), left)
            except TimeoutError:
                return

    async def _deliver(self, records: list[Record]) -> None:
        """Until it is taken, or has failed too often."""
        pause, problem = self.first_pause, Problem("")
        for _ in range(self.attempts):
            found = await asyncio.to_thread(self._send, records)
            if found is None:
                return
            problem = found
            self.failures += 1
            if problem.final:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, self.longest_pause)
        LOG.error("%s gives up %d messages: %s", self.subscription.name, len(records),
                  problem.text)  # fmt: skip
        self.dead.extend((record, problem.text) for record in records)

    def _send(self, records: list[Record]) -> Problem | None:
        shape = self.subscription.shape
        if shape is None:
            return self.send([Arrived(record) for record in records])
        try:
            made = [Arrived(one, shape.channel, path)
                    for record in records for path, one in shape.made(record)]  # fmt: skip
        except TamisError as error:
            return Problem(str(error), final=True)
        return self.send(made) if made else None
