"""A durable subscription whose messages the broker itself brings somewhere.

Messages go in order, gathered. What fails is tried again with growing pauses; what fails too often
goes to the dead letters, and the subscription goes on after it. While a session has taken the
subscription up, or a right is missing, the delivery rests; it keeps its dead letters.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass
class Tally:
    """Of all deliveries of a server since it started."""

    failures: int = 0
    dead: int = 0


class Delivery:
    """One subscription on its way. A kind of delivery says how to `send`."""

    attempts: ClassVar[int] = 8
    first_pause: ClassVar[float] = 0.2  # seconds
    longest_pause: ClassVar[float] = 60.0

    def __init__(
        self, hub: Hub, subscription: Subscription, tally: Tally, interval: float = 0
    ) -> None:
        """`interval`: seconds for which messages are gathered before they are sent."""
        self.hub, self.subscription, self.interval = hub, subscription, interval
        self.target = subscription.delivery
        self.dead: deque[tuple[Record, str]] = deque(maxlen=DEAD)
        self.failures = 0
        self.problem = ""  # why the last attempt failed, or why it rests; empty: all is well
        self.ends = 0  # how often the broker ended it since something was taken
        self._tally = tally
        self._waiting: deque[Record | act.Lost] = deque()  # in order
        self._more = asyncio.Event()
        self._session = 0
        self._task: asyncio.Future[None] | None = None

    async def send(self, made: list[Arrived], lost: list[act.Lost]) -> Problem | None:
        """Bring them there, and what is lost around them; None: they were taken."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuse a target that nothing can be brought to."""

    @property
    def running(self) -> bool:
        return self._session != 0

    def begin(self) -> None:
        """Take the subscription up at its cursor."""
        self.problem = ""
        self._waiting.clear()
        self._session = self.hub.connect(self._sink, GATHERED * 4)
        self.hub.broker.attach(self._session, self.subscription)
        if self.subscription.session is None:  # the judge does not take it
            self.rest(self.subscription.problem)
            return
        self._task = self.hub.keep(self._run(self._session))
        self.hub.pump()

    def rest(self, problem: str = "") -> None:
        """Bring nothing until `begin`; `problem` says why, if something is wrong."""
        session, self._session, self.problem = self._session, 0, problem
        if self._task is not None:
            self._task.cancel()
        if session:
            self.hub.disconnect(session)

    def _sink(self, action: act.ToSession) -> None:
        if isinstance(action, act.Deliver):
            self._waiting.extend(record for _, record in action.messages)
            self._more.set()
        elif isinstance(action, act.Lost):
            LOG.warning("%s lost %d to %d: %s", self.subscription.name, action.first, action.last,
                        action.reason)  # fmt: skip
            self._waiting.append(action)
            self._more.set()
        elif isinstance(action, act.Ended):
            LOG.warning("%s rests: %s", self.subscription.name, action.error)
            self.ends += 1
            self.hub.loop.call_soon(self._rest, action.session, str(action.error))
        else:
            self.hub.loop.call_soon(self._rest, action.session)

    def _rest(self, session: int, problem: str = "") -> None:
        if session == self._session:  # unless it has begun anew
            self.rest(problem)

    async def _run(self, session: int) -> None:
        while True:
            await self._gather()
            items = [self._waiting.popleft() for _ in range(min(len(self._waiting), GATHERED))]
            records = [one for one in items if isinstance(one, Record)]
            await self._deliver(records, [one for one in items if isinstance(one, act.Lost)])
            found = self.hub.broker.sessions.get(session)
            if found is None or self.subscription.key not in found.subscriptions:
                return  # it was taken away, and is told of it in this turn
            last = items[-1]
            upto = last.sequence if isinstance(last, Record) else last.last
            self.hub.acknowledge(session, self.subscription.key, upto)
            self.hub.written(session, len(records))

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

    async def _deliver(self, records: list[Record], lost: list[act.Lost]) -> None:
        """Until it is taken, or has failed too often."""
        pause, problem = self.first_pause, Problem("")
        for _ in range(self.attempts):
            refusal = await self._attempt(records, lost)
            self.problem = refusal.text if refusal is not None else ""
            if refusal is None:
                self.ends = 0
                return
            problem = refusal
            self.failures += 1
            self._tally.failures += 1
            if problem.final:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, self.longest_pause)
        LOG.error("%s gives up %d messages: %s", self.subscription.name, len(records),
                  problem.text)  # fmt: skip
        self.dead.extend((record, problem.text) for record in records)
        self._tally.dead += len(records)

    async def retry(self, chosen: Callable[[Record], bool]) -> tuple[int, str]:
        """Bring dead letters once more: how many were taken, and why the others were not. What is
        not taken stays where it was; the subscription goes on meanwhile."""
        letters = list(self.dead)
        wanted = [(record, why) for record, why in letters if chosen(record)]
        self.dead = deque((one for one in letters if one not in wanted), maxlen=DEAD)
        taken, problem = 0, ""
        try:
            while wanted and not problem:
                piece = wanted[:GATHERED]
                refusal = await self._attempt([record for record, _ in piece], [])
                if refusal is None:
                    taken += len(piece)
                    del wanted[:GATHERED]
                else:
                    problem = refusal.text
                    wanted = [(record, problem) for record, _ in wanted]
        finally:  # also when the broker stops meanwhile
            left = sorted([*self.dead, *wanted], key=lambda letter: letter[0].sequence)
            self.dead = deque(left, maxlen=DEAD)
        return taken, problem

    async def _attempt(self, records: list[Record], lost: list[act.Lost]) -> Problem | None:
        try:
            made = self._made(records)
            return await self.send(made, lost) if made or lost else None
        except TamisError as error:
            return Problem(str(error), final=True)
        except Exception as error:  # a bug: the delivery goes on all the same
            LOG.exception("%s could not be delivered", self.subscription.name)
            return Problem(f"the broker failed: {type(error).__name__}")

    def _made(self, records: list[Record]) -> list[Arrived]:
        shape = self.subscription.shape
        if shape is None:
            return [Arrived(record) for record in records]
        return [Arrived(one, shape.channel, path)
                for record in records for path, one in shape.made(record)]  # fmt: skip
