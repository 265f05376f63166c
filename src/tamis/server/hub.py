"""The broker between its disk and its connections: does what the core asks for.

Everything runs on one event loop; commits, reads and changes of the registry take threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tamis.errors import LogError, RegistryError, TamisError
from tamis.log import SqliteLog
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.changes import Change
from tamis.pubsub.broker.intake import Admission, Draft
from tamis.pubsub.broker.machine import Broker, BrokerLimits
from tamis.pubsub.broker.stored import Key
from tamis.pubsub.broker.subscription import Subscription
from tamis.registry import AuditEntry, SqliteRegistry
from tamis.server import folder, frames
from tamis.server.absences import Absences
from tamis.server.clock import Clock
from tamis.server.watching import Watch

Answer = Callable[[Any], None]  # takes what was asked for, or a TamisError
Sink = Callable[[act.ToSession], None]
Write = Callable[[bytes, int], None]  # takes a frame, and how many messages are in it
T = TypeVar("T")
LOG = logging.getLogger("tamis.server")
_FLUSH = 0.2  # seconds between two writes of cursors and audits
_AUDITS = 10_000  # of them that wait while the disk is full


class Hub:
    """One broker, one directory, one event loop."""

    def __init__(self, directory: Path, limits: BrokerLimits | None = None) -> None:
        self.directory = directory
        with contextlib.ExitStack() as stack:
            self._lock = folder.take(directory)
            stack.callback(os.close, self._lock)
            self.log = stack.enter_context(SqliteLog(directory / "log.db"))
            self.registry = SqliteRegistry(directory / "registry.db")
            stack.pop_all()
        for note in self.registry.notes:
            LOG.warning(note)
        self.broker = Broker(limits)
        self.absences = Absences(self)
        self.clock, self.watch = Clock(), Watch()
        self.started = time.time()
        self.refused = 0
        self.problem = ""  # why publishing was refused last; empty again after a commit
        self._count = itertools.count(1)
        self._answers: dict[int, Answer] = {}
        self.audits: list[AuditEntry] = []  # they wait to be written together
        self._flushing = asyncio.Lock()  # `stop` waits for it: what was taken is written by then
        self._written: list[tuple[int, int]] = []
        self._afterwards: list[Callable[[], None]] = []
        self._pumping = False
        self._sinks: dict[int, Sink] = {}
        self._writers: dict[int, Write] = {}
        self._disk = ThreadPoolExecutor(1, "tamis-disk")
        self._books = ThreadPoolExecutor(1, "tamis-registry")
        self._readers = ThreadPoolExecutor(2, "tamis-read")
        self._tasks: set[asyncio.Future[Any]] = set()
        self._ticking = self._stopping = False
        self.loop = asyncio.get_running_loop()
        self.last: list[Callable[[], None]] = []  # what is done before the files are closed

    def start(self) -> None:
        self.keep(self.watch.repeat("cursors", _FLUSH, self._flush))

    async def stop(self) -> None:
        """Finish what was admitted, then close the files."""
        for _ in range(500):
            if not self._answers:
                break
            await asyncio.sleep(0.01)
        with contextlib.suppress(TamisError):  # it waits, and is written below
            await self._flush()
        self._stopping = True
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        await self._write_last()
        for work in self.last:
            await asyncio.to_thread(work)
        for pool in (self._disk, self._books, self._readers):
            pool.shutdown(wait=True)
        self.log.close()
        self.registry.close()
        os.close(self._lock)

    def keep(self, work: Any) -> asyncio.Future[Any]:
        """Run it in the background; what goes wrong there is logged. A broker that stops begins
        nothing any more: connections may still come to their end then."""
        if self._stopping:
            work.close()
            task: asyncio.Future[Any] = self.loop.create_future()
            task.cancel()
            return task
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.watch.failures += 1
            LOG.error("a background task failed", exc_info=error)

    async def flush_audits(self) -> None:
        """Write down what was done lately."""
        entries, self.audits = self.audits, []
        try:
            await self.in_registry(self.registry.audit, *entries)
        except TamisError:
            self.audits = (entries + self.audits)[-_AUDITS:]
            raise

    async def _flush(self) -> None:
        """Cursors and audits; what the disk does not take waits for the next time."""
        async with self._flushing:
            cursors = self.broker.take_cursors()
            try:
                if self.audits:
                    await self.flush_audits()
                if cursors:
                    await self.in_registry(self.registry.put_cursors, cursors)
            except BaseException:
                self.broker.cursors = {**cursors, **self.broker.cursors}
                raise

    async def _write_last(self) -> None:
        """What came while tasks ended. A full disk does not keep the broker from stopping."""
        cursors = self.broker.take_cursors()
        try:
            if self.audits:
                await self.loop.run_in_executor(self._books, self.registry.audit, *self.audits)
            await self.loop.run_in_executor(self._books, self.registry.put_cursors, cursors)
        except RegistryError as error:
            LOG.error("the last cursors or audits are not written: %s", error)

    async def in_registry(self, call: Callable[..., Any], *args: Any) -> Any:
        return await self._in(self._books, call, *args)

    async def in_reader(self, call: Callable[..., Any], *args: Any) -> Any:
        return await self._in(self._readers, call, *args)

    async def in_writer(self, call: Callable[..., Any], *args: Any) -> Any:
        """What changes the log besides commits, between two of them."""
        return await self._in(self._disk, call, *args)

    async def _in(self, pool: ThreadPoolExecutor, call: Callable[..., Any], *args: Any) -> Any:
        """LogError, not RuntimeError, for whoever comes while the files are being closed."""
        if self._stopping:
            raise LogError("the broker stops")
        return await self.loop.run_in_executor(pool, call, *args)

    # --- requests -------------------------------------------------------------------

    def publish(
        self, channel: int, publisher: str, drafts: Sequence[Draft], answer: Answer
    ) -> None:
        """Answers with the sequences once all is in the log, or with what went wrong."""
        request = next(self._count)
        try:
            self.broker.publish(request, channel, publisher, drafts)
        except TamisError:
            self.refused += len(drafts)
            raise
        self._answers[request] = answer
        if not self._ticking:
            self._ticking = True
            self.loop.call_soon(self._tick)

    def change(self, make: Callable[[int], Change]) -> asyncio.Future[Subscription | None]:
        """Answers once the change is stored and in force."""
        request, answer = next(self._count), self.loop.create_future()
        self._answers[request] = partial(settle, answer)
        self.broker.change(make(request))
        self.pump()
        return answer

    def connect(self, sink: Sink, room: int | None = None, write: Write | None = None) -> int:
        """`write`: the session speaks JSON, and takes its messages in frames that are ready."""
        session = next(self._count)
        self.broker.connect(session, room, None if write is None else frames.prefix)
        if write is not None:
            self._writers[session] = write
        self._sinks[session] = sink
        return session

    def disconnect(self, session: int) -> None:
        self._sinks.pop(session, None)
        self._writers.pop(session, None)
        self.broker.disconnect(session)
        self.pump()

    def written(self, session: int, count: int) -> None:
        """So many messages went out to the session: it has room again, once this turn is over."""
        self._written.append((session, count))
        if len(self._written) == 1:
            self.loop.call_soon(self._give_room)

    def _give_room(self) -> None:
        found, self._written = self._written, []
        for session, count in found:
            self.broker.written(session, count)
        self.pump()

    def acknowledge(self, session: int, key: Key, upto: int) -> None:
        self.broker.acknowledge(session, key, upto)
        self.pump()

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do it when the broker has said all that it has to say now."""
        self._afterwards.append(work)
        if not self._pumping and len(self._afterwards) == 1:
            self.loop.call_soon(self._finish)

    def _finish(self) -> None:
        works, self._afterwards = self._afterwards, []
        for work in works:
            work()

    # --- actions --------------------------------------------------------------------

    def _tick(self) -> None:
        self._ticking = False
        self.broker.tick(self.clock.micros())
        self.pump()

    def pump(self) -> None:
        """Do what the broker asks for."""
        self._pumping = True
        while actions := self.broker.actions():
            for action in actions:
                self._do(action)
        self._pumping = False
        if self._afterwards:
            self._finish()

    def _do(self, action: act.Action) -> None:
        match action:
            case act.Acknowledged():
                for request, sequences in action.answers:
                    self._answer(request, sequences)
            case act.Deliver() | act.Lost() | act.Taken() | act.Ended():
                sink = self._sinks.get(action.session)
                if sink is not None:
                    sink(action)
            case act.Gathered():
                self._write(action)
            case act.Applied():
                self._answer(action.request, action.subscription)
            case act.Refused():
                self._answer(action.request, action.error)
            case act.Commit():
                self.keep(self._commit(action))
            case act.Store():
                self.keep(self._store(action))
            case act.Read():
                self.keep(self._read(action))
            case act.CatchUp():
                self.keep(self.absences.catch_up(action))

    def _write(self, action: act.Gathered) -> None:
        pieces = list(map(frames.piece, action.records))
        for session, seats, rows in action.shares:
            write = self._writers.get(session.id)
            if write is not None:
                write(frames.gathered(action.prefixes, pieces, seats, rows), len(rows))

    def _answer(self, request: int, found: Any) -> None:
        answer = self._answers.pop(request, None)
        if answer is not None:
            answer(found)

    async def _commit(self, action: act.Commit) -> None:
        try:
            await self.loop.run_in_executor(self._disk, self.log.append, action.blocks)
        except LogError as error:
            await self._not_committed(error)
            return
        self.problem = ""
        self.broker.committed()
        self.broker.tick(self.clock.micros())
        self.pump()
        self.broker.match()
        self.pump()

    async def _not_committed(self, error: LogError) -> None:
        LOG.error("publishing is refused: %s", error.what)
        self.problem = error.what
        self.refused += sum(len(b.records) for b in self.broker._blocks)
        admissions = {}
        for channel in set(self.broker.pending):
            remembered = await self.in_reader(self.log.remembered, channel)
            admissions[channel] = Admission(remembered.numbers, remembered.ids)
        self.broker.not_committed(error, admissions)
        self.pump()

    async def _store(self, action: act.Store) -> None:
        try:
            change = self.registry.change_subscriptions
            await self.in_registry(change, action.put, action.remove)
        except RegistryError as error:
            self.broker.not_stored(error)
        else:
            self.broker.stored()
        self.broker.match()
        self.pump()

    async def _read(self, action: act.Read) -> None:
        channel = action.subscription.channel
        try:
            records = await self.in_reader(self.log.read, channel, action.first, action.most)
        except LogError as error:
            action.subscription.reading = False
            action.subscription.paused = True
            LOG.error("%s stops: %s", action.subscription.name, error.what)
            return
        self.broker.read_done(action.subscription, action.first, records)
        self.pump()


def settle(future: asyncio.Future[Any], answer: object) -> None:
    """Give a future its answer, if anybody still waits for it."""
    if future.done():
        return
    if isinstance(answer, TamisError):
        future.set_exception(answer)
    else:
        future.set_result(answer)


async def uncut(work: Coroutine[Any, Any, T]) -> T:
    """Do it to its end, also if the one who waits for it is cancelled: what the disk has and what
    the memory has must agree."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
