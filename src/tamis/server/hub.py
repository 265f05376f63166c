"""The broker between its disk and its connections: does what the core asks for.

Everything runs on one event loop; commits, reads and changes of the registry take threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from tamis.errors import BusyError, HoleError, LogError, RegistryError, TamisError
from tamis.log import Log
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.changes import Change
from tamis.pubsub.broker.epochs import Epoch
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.live_channel import LiveChannel
from tamis.pubsub.broker.machine import Broker, BrokerLimits, failed
from tamis.pubsub.broker.records import Block
from tamis.pubsub.broker.stored import Key
from tamis.pubsub.broker.subscription import Subscription
from tamis.pubsub.links import effects as fx
from tamis.registry import AuditEntry, Registry
from tamis.server import frames
from tamis.server.absences import Absences
from tamis.server.clock import Clock
from tamis.server.slices import SLICE, sliced
from tamis.server.watching import Watch

Answer = Callable[[Any], None]  # takes what was asked for, or a TamisError
Sink = Callable[[act.ToSession], None]
# First and last sequence, filters as subjects and selector, a selector to AND to all of them.
Fetch = Callable[[int, int, Iterable[tuple[str, str]], str], Awaitable[fx.Got]]
Write = Callable[[bytes, int], None]  # takes a frame, and how many messages are in it
T = TypeVar("T")
LOG = logging.getLogger("tamis.server")
_CANCEL_AGAIN = 1.0  # seconds
_FLUSH = 0.2  # seconds between two writes of cursors and audits
_PAUSES = (0.1, 0.5, 2.0)  # seconds before the log is read again that could not be read
_PACE = 2_048  # messages that are judged at a time, at first
_FINISHED = 8  # sessions that are written to between two looks at the clock
_TIDIED = 16  # subscriptions that are let go at a time
_LANES = 16  # lanes that are written to at the same moment
_SOON = 0.001  # seconds
_UNHEARD = 5.0  # seconds that a subscription waits for the home to be heard of
_TALLY, _TALLIES = 5.0, 2_000  # seconds between two writes of counters; how many at a time
_SETTLE, _SETTLED = 1.0, 2_000  # seconds between two looks at idle cursors; how many at a time
_AUDITS = 10_000  # of them that wait while the disk is full


class Hub:
    """One broker, one log, one registry, one event loop. Log and registry are closed with it."""

    def __init__(self, log: Log, registry: Registry, limits: BrokerLimits | None = None) -> None:
        self.log, self.registry = log, registry
        self.broker = Broker(limits, log.lane)
        self.absences = Absences(self)
        self.clock, self.watch = Clock(), Watch()
        self.started = time.time()
        self.refused = 0
        self.problem = ""  # why publishing was refused last; empty again after a commit
        self._count = itertools.count(1)
        self._answers: dict[int, Answer] = {}
        self.audits: list[AuditEntry] = []  # they wait to be written together
        self._unsettled: list[Subscription] = []  # whose cursors may have moved without matches
        self._flushing = asyncio.Lock()  # `stop` waits for it: what was taken is written by then
        self._written: list[tuple[int, int]] = []
        self._afterwards: deque[Callable[[], None]] = deque()
        self._pace = _PACE  # messages that are judged at a time
        self._matching = self._tidying = self._finishing = False  # slices of it are to come
        self._searching = False
        self._pumping = False
        self._sinks: dict[int, Sink] = {}
        self._writers: dict[int, Write] = {}
        self._disk = ThreadPoolExecutor(1, "tamis-disk")
        self._lanes = ThreadPoolExecutor(_LANES, "tamis-lane")  # of logs that have more than one
        self._books = ThreadPoolExecutor(1, "tamis-registry")
        self._readers = ThreadPoolExecutor(2, "tamis-read")
        self._tasks: set[asyncio.Future[Any]] = set()
        self._ticking = self._stopping = False
        self._on_disk: set[int] = set()  # lanes that are being committed
        self.loop = asyncio.get_running_loop()
        # Of channels whose home is elsewhere: who publishes there, and reads what is not here.
        self.elsewhere: dict[int, Callable[[str, Sequence[Draft], Answer], None]] = {}
        self.reading: dict[int, Callable[[act.Read], Awaitable[None]]] = {}
        self.fetching: dict[int, Fetch] = {}
        self.appended: Callable[[Block], None] = lambda _: None  # a block that was published here
        self.trimmed: Callable[[int, int], None] = lambda *_: None  # a channel, its new beginning
        self.in_force: dict[int, Callable[[Subscription, int], None]] = {}  # by session
        self.new_epoch: dict[int, Callable[[Subscription, Epoch], None]] = {}  # by session
        self.left: Callable[[Subscription], None] = lambda _: None  # see `act.Left`
        self.last: list[Callable[[], None]] = []  # what is done before the files are closed
        self.closed: list[Callable[[], None]] = []  # and what afterwards

    def start(self) -> None:
        self.keep(self.watch.repeat("cursors", _FLUSH, self._flush))
        self.keep(self.watch.repeat("idle cursors", _SETTLE, self._settle))
        self.keep(self.watch.repeat("counters", _TALLY, self._write_tallies))

    async def stop(self) -> None:
        """Finish what was admitted, then close the files."""
        for _ in range(500):
            if not self._answers:
                break
            await asyncio.sleep(0.01)
        await self.settle(self.broker.held())
        with contextlib.suppress(TamisError):  # it waits, and is written below
            await self._flush()
        self._stopping = True
        while self._tasks:  # once more for a task that met its cancellation and an answer at once
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=_CANCEL_AGAIN)
        await self._write_last()
        for work in self.last:
            await asyncio.to_thread(work)
        for pool in (self._disk, self._lanes, self._books, self._readers):
            pool.shutdown(wait=True)
        self.log.close()
        self.registry.close()
        for close in self.closed:
            close()

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
            self.watch.fault("a background task", error)

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

    async def settle(self, subscriptions: Iterable[Subscription]) -> None:
        """Move cursors over messages that were not wanted; `_flush` writes them."""
        async for one in sliced(subscriptions):
            self.broker.settle(one)

    async def _settle(self) -> None:
        """Some of them at a time, in turn: one that is written late only means that more of the
        log is judged again after a crash."""
        held = self._unsettled or self.broker.held()
        some, self._unsettled = held[:_SETTLED], held[_SETTLED:]
        await self.settle(some)

    async def settle_before_trim(self, live: LiveChannel, before: int) -> None:
        """What goes now must not be missed by those who did not want it."""
        short = [one for one in live.subscriptions.values() if one.session and one.cursor < before]
        await self.settle(short)
        await self._flush()

    async def _write_tallies(self) -> None:
        """Counters of subscriptions, in pieces: there may be very many."""
        while tallies := self.broker.take_tallies(_TALLIES):
            try:
                await self.in_registry(self.registry.put_tallies, tallies)
            except BaseException:
                self.broker.untake_tallies(tallies)
                raise

    async def _write_last(self) -> None:
        """What came while tasks ended. A full disk does not keep the broker from stopping."""
        cursors = self.broker.take_cursors()
        try:
            if self.audits:
                await self.loop.run_in_executor(self._books, self.registry.audit, *self.audits)
            await self.loop.run_in_executor(self._books, self.registry.put_cursors, cursors)
            while tallies := self.broker.take_tallies(_TALLIES):
                await self.loop.run_in_executor(self._books, self.registry.put_tallies, tallies)
        except RegistryError as error:
            LOG.error("the last cursors, counters or audits are not written: %s", error)

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
        if (home := self.elsewhere.get(channel)) is not None:
            home(publisher, drafts, answer)
            return
        request = next(self._count)
        self.broker.publish(request, channel, publisher, drafts)
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
        self.in_force.pop(session, None)
        self.new_epoch.pop(session, None)
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
            try:  # not `_guarded`: this is done for every frame
                self.broker.written(session, count)
            except Exception as error:
                self.watch.fault("giving room to a session", error)
        self.pump()

    def acknowledge(self, session: int, key: Key, upto: int) -> None:
        self.broker.acknowledge(session, key, upto)
        self.pump()

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do it when the broker has said all that it has to say now."""
        self._afterwards.append(work)
        if not self._pumping and not self._finishing and len(self._afterwards) == 1:
            self.loop.call_soon(self._finish)

    def _finish(self) -> None:
        """A slice of it: there may be very many sessions."""
        works, end = self._afterwards, time.monotonic() + SLICE
        while works and time.monotonic() < end:
            for _ in range(min(_FINISHED, len(works))):
                try:  # not `_guarded`: this is done for every frame
                    works.popleft()()
                except Exception as error:
                    self.watch.fault("writing to a session", error)
        self._finishing = bool(works)
        if works:
            self.loop.call_soon(self._finish)

    def _tidy(self) -> None:
        """A slice of it: let go of subscriptions whose session or channel is gone."""
        end = time.monotonic() + SLICE
        while self.broker.leaving and time.monotonic() < end:
            with self._guarded("ending a subscription"):
                self.broker.tidy(_TIDIED)
        self._tidying = False
        self.pump()

    def _search(self) -> None:
        """A slice of it: look for subscriptions on which judges fail."""
        end = time.monotonic() + SLICE
        while self.broker.searching and time.monotonic() < end:
            with self._guarded("searching for subscriptions that fail"):
                self.broker.search(1)
        self._searching = False
        self.match()

    async def judged(self, live: LiveChannel) -> None:
        """Wait until what is committed now was judged: who subscribes later does not get it. A copy
        that has not heard of its home yet does not know what comes later."""
        end = time.monotonic() + _UNHEARD
        while live.elsewhere is not None and not live.elsewhere.begun:
            if time.monotonic() > end:
                raise BusyError("this router has not heard of the home of the channel yet")
            await asyncio.sleep(_SOON)
        last = live.next - 1
        while live.matched < last and live.number in self.broker.channels:
            await asyncio.sleep(_SOON)

    # --- actions --------------------------------------------------------------------

    @contextmanager
    def _guarded(self, where: str) -> Iterator[None]:
        """What fails inside concerns itself alone: it is reported, and all else goes on."""
        try:
            yield
        except Exception as error:
            self.watch.fault(where, error)

    def _tick(self) -> None:
        self._ticking = False
        self._close_group()
        self.pump()

    def _close_group(self) -> None:
        """The next commit. While messages wait to be judged, no more are added to them."""
        if self._matching:
            return
        try:
            self.broker.tick(self.clock.micros())
        except Exception as error:  # a group that cannot be closed would stay for ever
            for lane in self.broker.lanes.keys() - self._on_disk:
                self._not_committed(error, lane)

    def pump(self) -> None:
        """Do what the broker asks for. An action that fails does not keep the others from it."""
        self._pumping = True
        while actions := self.broker.actions():
            for action in actions:
                try:
                    self._do(action)
                except Exception as error:
                    self.watch.fault(f"the action {type(action).__name__}", error)
        self._pumping = False
        if self._afterwards and not self._finishing:
            self._finish()
        if self.broker.leaving and not self._tidying:
            self._tidying = True
            self.loop.call_soon(self._tidy)
        if self.broker.searching and not self._searching:
            self._searching = True
            self.loop.call_soon(self._search)

    def _do(self, action: act.Action) -> None:
        match action:
            case act.Acknowledged():
                for request, sequences in action.answers:
                    self._answer(request, sequences)
            case act.Deliver() | act.Lost() | act.Taken() | act.Ended():
                self._send(action)
            case act.Gathered():
                self._write(action)
            case act.Left():
                self.left(action.subscription)
            case act.Applied():
                self._answer(action.request, action.subscription)
            case act.Refused():
                self._answer(action.request, action.error)
            case act.Commit():
                self._on_disk.add(action.lane)
                self.keep(self._commit(action))
            case act.Store():
                self.keep(self._store(action))
            case act.Read():
                self.keep(self._read(action))
            case act.CatchUp():
                self.keep(self.absences.catch_up(action))
            case act.Fault():
                self.watch.fault(action.where, action.error)

    def _send(self, action: act.ToSession) -> None:
        sink = self._sinks.get(action.session)
        if sink is None:
            return
        try:
            sink(action)
        except Exception as error:
            if isinstance(action, act.Deliver):
                held = {one for one, _ in action.messages}
                self._not_sent(action.session, held, len(action.messages), error)
                return
            self._sinks.pop(action.session, None)  # it does not even hear why
            self.broker.disconnect(action.session)
            raise

    def _write(self, action: act.Gathered) -> None:
        pieces = list(map(frames.piece, action.records))
        for session, seats, rows in action.shares:
            write = self._writers.get(session.id)
            if write is None:
                continue
            try:
                write(frames.gathered(action.prefixes, pieces, seats, rows), len(rows))
            except Exception as error:
                seated = {one for one in session.subscriptions.values() if one.seat}
                self._not_sent(session.id, seated, len(rows), error)

    def _not_sent(
        self, session: int, lost: Iterable[Subscription], count: int, error: Exception
    ) -> None:
        """Messages cannot be written for this session: their subscriptions end there, and say so.
        What they had not acknowledged comes when they are taken up again."""
        self.watch.fault(f"writing to session {session}", error)
        for subscription in lost:
            self.broker.fail(subscription, error)
        self.written(session, count)

    def _answer(self, request: int, found: Any) -> None:
        answer = self._answers.pop(request, None)
        if answer is not None:
            try:  # not `_guarded`: this is done for every request
                answer(found)
            except Exception as error:
                self.watch.fault("answering a request", error)

    async def _commit(self, action: act.Commit) -> None:
        try:
            pool = self._lanes if action.lane else self._disk
            await self.loop.run_in_executor(pool, self.log.append, action.blocks)
        except Exception as error:
            if not await self._is_stored(action):
                self._on_disk.discard(action.lane)
                self._not_committed(error, action.lane)
                return
            self.watch.fault("a commit that is stored", error)
        self.problem = ""
        self._on_disk.discard(action.lane)
        self.broker.committed(action.lane)
        for block in action.blocks:
            self.appended(block)
        self._close_group()
        self.pump()
        self.match()

    def match(self) -> None:
        """Judge what waits, unless slices of that are to come already."""
        if self._matching:
            self.pump()
        else:
            self._match_slice()

    def _match_slice(self) -> None:
        begun, pace = time.thread_time(), self._pace  # others on the machine do not count
        self._matching = False  # a fault must not keep the next commit from coming
        with self._guarded("judging"):
            self._matching = self.broker.match(pace)
        self.pump()
        took = time.thread_time() - begun
        if took > 4 * SLICE:  # every slice writes to every session: more of them cost more
            self._pace = max(pace // 2, 1)
        elif self._matching and took < 2 * SLICE:
            self._pace = 2 * pace
        if self._matching:
            self.loop.call_soon(self._match_slice)
        else:
            self._close_group()
            self.pump()

    async def _is_stored(self, action: act.Commit) -> bool:
        """Whether blocks are in the log though appending them failed: all are, or none is. While
        the log cannot be read that is not known, and nobody is answered: a message must neither be
        lost after an acknowledgement nor stored after a refusal."""
        block, pauses = action.blocks[0], itertools.chain(_PAUSES, itertools.repeat(_PAUSES[-1]))
        for pause in pauses:
            try:
                _, following = await self.in_reader(self.log.bounds, block.channel)
            except Exception as error:
                if self._stopping:
                    break
                self.problem = f"the outcome of a commit is not known yet: {error}"
                self.watch.fault("looking whether a commit is stored", error)
                await asyncio.sleep(pause)
            else:
                return bool(following > block.last)
        return False

    def _not_committed(self, error: Exception, lane: int) -> None:
        if not isinstance(error, LogError):
            self.watch.fault("a commit", error)
            error = LogError(f"the log failed ({type(error).__name__}): {error}")
        LOG.error("publishing is refused: %s", error.what)
        self.problem = error.what
        self.refused += self.broker.not_committed(error, lane)
        self.pump()

    async def _store(self, action: act.Store) -> None:
        try:
            change = self.registry.change_subscriptions
            await self.in_registry(change, action.put, action.remove)
        except Exception as error:
            if not isinstance(error, TamisError):
                self.watch.fault("storing subscriptions", error)
            self.broker.not_stored(failed(error))
        else:
            self.broker.stored()
        self.match()

    async def _read(self, action: act.Read) -> None:
        """What cannot be read is tried again; the subscription is set aside if that does not help.
        A hole in the log is passed over, and reported."""
        one, tries = action.subscription, 0
        if (elsewhere := self.reading.get(one.channel)) is not None:
            await elsewhere(action)
            self.pump()
            return
        while True:
            try:
                read = partial(self.log.read, one.channel, action.first, action.most)
                records = await self.in_reader(read)
            except HoleError as hole:
                LOG.error("%s loses %d to %d: %s", one.name, hole.first, hole.last, hole.what)
                self.broker.read_hole(one, action.first, hole)
            except Exception as error:
                self.watch.fault(f"reading for {one.name}", error)
                if tries < len(_PAUSES):
                    await asyncio.sleep(_PAUSES[tries])
                    tries += 1
                    continue
                self.broker.read_failed(one, error)
            else:
                self.broker.read_done(one, action.first, records)
            break
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
