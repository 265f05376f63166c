"""One channel of this router in the network: does what its `Router` asks for."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial

from tamis.errors import BusyError, HoleError, LogError, TamisError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.epochs import Epoch, Epochs
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.records import Block, Part
from tamis.pubsub.broker.subscription import Subscription
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links.link_frames import Frame
from tamis.pubsub.links.router import Router
from tamis.pubsub.links.wants import Want
from tamis.server.channels import Channels, Open
from tamis.server.hub import Answer, Hub
from tamis.server.links.merged_wants import filter_of, merged
from tamis.server.slices import sliced

LOG = logging.getLogger("tamis.server")
_CONFIRM = 5.0  # seconds that an answer of the home may take
_RANGE = 100_000  # sequences that are fetched at a time for one subscription
OnDisk = fx.Keep | fx.Store | fx.Begin | fx.Reset


class Node:
    """`send` and `close` are for links by their numbers; `admit` publishes for a child, and `kick`
    ends the connection of a session."""

    def __init__(
        self, hub: Hub, channels: Channels, name: str, channel: Open, epochs: Epochs,
        send: Callable[[int, Node, Frame], None],
        close: Callable[[int, Node, str], None],
        admit: Callable[[Node, fx.Admit, Answer], None],
        kick: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.hub, self.channels, self.name = hub, channels, name
        self.send, self.close, self.admit, self.kick = send, close, admit, kick
        self.since: dict[str, int] = {}
        self.bytes: Counter[str] = Counter()  # that were sent, by router
        self.problem = self.refusal = ""  # of the disk now; why a link ended last
        self._requests = itertools.count(1)
        self._answers: dict[int, Answer] = {}
        self._fetching: dict[int, asyncio.Future[fx.Got]] = {}
        self._disk: deque[OnDisk] = deque()
        self._working = self._pumping = False
        self.followed = asyncio.Event()  # it is known here what is wanted: a parent can be asked
        self._asking = asyncio.Lock()
        self._meanwhile: dict[str, None] = {}  # names that changed before that
        self._open(channel, epochs)

    def _open(self, channel: Open, epochs: Epochs) -> None:
        live, log = channel.live, self.hub.log
        self.channel, self._epochs = channel, epochs
        self.number = number = channel.entry.number
        self.home = number not in log.copies
        oldest, following = log.bounds(number)
        self.router = Router(
            self.name, number, live.language, home=self.home, oldest=oldest, epochs=epochs,
            upto=live.next - 1 if self.home or following > 1 else None,
        )  # fmt: skip
        if not self.home:
            self.hub.elsewhere[number] = self.publish
            self.hub.reading[number], self.hub.fetching[number] = self.read, self.fetch
            self._follow()

    # --- effects -----------------------------------------------------------------------

    def pump(self) -> None:
        """Do what the router asks for; what concerns the disk takes its turn."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while effects := self.router.effects():
                for effect in effects:
                    self._do(effect)
        finally:
            self._pumping = False
        self.hub.pump()

    def _do(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Send(link, frame):
                self.send(link, self, frame)
            case fx.Close(link, reason):
                self.close(link, self, reason)
            case fx.Keep() | fx.Store() | fx.Begin() | fx.Reset():
                if isinstance(effect, fx.Keep):
                    self._tell_epochs(effect.epochs)
                if isinstance(effect, fx.Reset):
                    self._disk.clear()
                self._disk.append(effect)
                if not self._working:
                    self._working = True
                    self.hub.keep(self._work())
            case fx.Read():
                self.hub.keep(self._read_for_child(effect))
            case fx.Admit():
                self.admit(self, effect, partial(self._admitted, effect.ticket))
            case fx.InForce(keys, since):
                self._in_force(keys, since)
            case fx.Answered():
                self._answered(effect)
            case fx.Got():
                future = self._fetching.pop(effect.request, None)
                if future is not None and not future.done():
                    future.set_result(effect)
                self.router.cancel(effect.request)

    def _tell_epochs(self, epochs: Epochs) -> None:
        """Sessions hear of a new epoch before any message of it: what they had beyond its first
        sequence is not what the log has there."""
        known = set(self._epochs)
        new = [epoch for epoch in epochs if epoch not in known]
        self._epochs = epochs
        live = self.hub.broker.channels.get(self.number)
        if not new or live is None:
            return
        told = Epoch(epochs[-1].name, new[0].first)
        for one in live.subscriptions.values():
            tell = self.hub.new_epoch.get(one.session.id) if one.session is not None else None
            if tell is not None:
                tell(one, told)

    # --- the disk ----------------------------------------------------------------------

    async def _work(self) -> None:
        """In order; blocks that wait together are stored together. What fails is tried again."""
        pause = 0.1
        while self._disk:
            first = self._disk[0]
            try:
                if isinstance(first, fx.Store):
                    await self._store()
                else:
                    await self._once(first)
                pause, self.problem = 0.1, ""
            except Exception as error:
                self.problem = str(error)
                self.hub.watch.fault(f"the copy of channel {self.channel.entry.name}", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 10.0)
        self._working = False

    async def _store(self) -> None:
        stores = list(itertools.takewhile(lambda one: isinstance(one, fx.Store), self._disk))
        blocks = [one.block for one in stores if isinstance(one, fx.Store)]
        await self.hub.in_writer(self.hub.log.append, blocks)
        for one in stores:
            if not self._disk or self._disk[0] is not one:
                return  # the copy was reset meanwhile
            self._disk.popleft()
        for block in blocks:
            self.hub.broker.follow(block)
        self.router.stored(blocks[-1].last)
        self.pump()
        self.hub.match()

    async def _once(self, effect: OnDisk) -> None:
        hub, number = self.hub, self.number
        match effect:
            case fx.Keep(epochs):
                await hub.in_writer(hub.log.keep_epochs, number, epochs)
            case fx.Begin(first):
                await hub.in_writer(hub.log.begin, number, first)
                hub.broker.jump(number, first)
                self.router.stored(first - 1)
            case fx.Reset(common, reason):
                LOG.error("channel %s begins anew: %s", self.channel.entry.name, reason)
                await self._reset(common)
        if self._disk and self._disk[0] is effect:
            self._disk.popleft()
        self.pump()
        hub.match()

    async def _reset(self, common: int) -> None:
        """Sessions lose their subscriptions and come back: then they hear that the log is another
        one."""
        self.since.clear()
        self.channel.live.elsewhere = None
        for session in list(self.hub.broker.sessions.values()):
            if any(one.channel == self.number for one in session.subscriptions.values()):
                self.kick(session.id)
        self.channel = await self.channels.begin_anew(self.channel)
        self._follow()

    def _follow(self) -> None:
        """Find out what is wanted here. With very many subscriptions that takes long, so a thread
        does it; what changes meanwhile is done afterwards."""
        self.channel.live.elsewhere = self
        self.followed.clear()
        self.hub.keep(self._ask())

    async def _ask(self) -> None:
        async with self._asking:
            self.followed.clear()
            self._meanwhile.clear()
            held = list(self.channel.live.subscriptions.values())
            interests = await merged(self.channel.live.language, held)
            async for _ in sliced(self.router.begin([one.name for one in held], interests)):
                pass
            self._catch_up()
            self.followed.set()
        self.pump()

    def _catch_up(self) -> None:
        held = self.channel.live.subscriptions
        for name in self._meanwhile:
            if (one := held.get(name)) is not None:
                self.router.put(name, *filter_of(one))
            else:
                self.router.remove(name)

    @property
    def epochs(self) -> Epochs:
        """Of the home's log, as far as the copy has heard of them."""
        return self.router.child.epochs

    async def confirm(self) -> None:
        """Ask the home something that no copy on the way can answer: its epochs come before the
        answer does."""
        if not self.router.coverage.upto:
            return  # the home had no message when it was heard of last
        probe = f"tamis.probe.{secrets.token_hex(8)}"
        try:
            async with asyncio.timeout(_CONFIRM):
                await self.fetch(1, 1, [(probe, "")], "")
        except TimeoutError:
            raise BusyError("the home of the channel cannot be asked now") from None

    @property
    def begun(self) -> bool:
        """Whether it is known where the channel is; a copy learns that from its first parent."""
        return self.router.coverage.upto is not None

    # --- reading -----------------------------------------------------------------------

    async def _read_for_child(self, read: fx.Read) -> None:
        try:
            part = await self.hub.in_reader(self.hub.log.part, self.number, read.first, read.most)
        except HoleError as hole:
            self.router.read_failed(read.ticket, min(hole.last, read.last))
        except TamisError as error:
            self.hub.watch.fault("reading for a link", error)
            self.router.read_failed(read.ticket, read.last)
        else:
            self._read_part(read, part)
        self.pump()

    def _read_part(self, read: fx.Read, part: Part) -> None:
        if part.last < part.first or part.first > read.last:
            self.router.read_failed(read.ticket, read.last)
        elif part.first > read.first:
            self.router.read_failed(read.ticket, part.first - 1)
        else:
            records = [one for one in part.records if one.sequence <= read.last]
            self.router.read_done(read.ticket, min(part.last, read.last), records)

    async def read(self, action: act.Read) -> None:
        """For a subscription here: from the copy, or from above what was not wanted here then."""
        one, first, broker = action.subscription, action.first, self.hub.broker
        since = self.since.get(one.name)
        try:
            if since is None:
                broker.read_done(one, -1, [])
            elif first < since:
                await self._fetch(one, first, since - 1)
            else:
                part = await self.hub.in_reader(self.hub.log.part, self.number, first, action.most)
                self._take(one, first, part)
        except HoleError as hole:
            broker.read_hole(one, first, hole)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.hub.watch.fault(f"reading for {one.name}", error)
            broker.read_failed(one, error)

    async def _fetch(self, one: Subscription, first: int, last: int) -> None:
        got = await self.fetch(first, last, [(v.subjects, v.selector) for v in one.versions],
                               one.bound)  # fmt: skip
        if got.lost:
            self._lose(one, first, got.last)
        else:
            self.hub.broker.read_done(one, first, list(got.records), got.last)

    async def fetch(
        self, first: int, last: int, filters: Iterable[tuple[str, str]], bound: str
    ) -> fx.Got:
        """From above: all that these subject filters and selectors want of a first part of the
        range. It waits while this router is cut off."""
        request = next(self._requests)
        future = self._fetching[request] = self.hub.loop.create_future()
        wants = [Want(subjects, _both(selector, bound)) for subjects, selector in filters]
        self.router.fetch(request, first, min(last, first + _RANGE), wants)
        self.pump()
        try:
            got: fx.Got = await future
            return got
        finally:
            self._fetching.pop(request, None)
            self.router.cancel(request)

    def _take(self, one: Subscription, first: int, part: Part) -> None:
        if part.last < part.first:
            self._lose(one, first, self.channel.live.matched)
        elif part.first > first:
            self._lose(one, first, part.first - 1)
        else:
            self.hub.broker.read_done(one, first, part.records, part.last)

    def _lose(self, one: Subscription, first: int, last: int) -> None:
        hole = HoleError("", "", first, last)
        hole.reason = act.TRIMMED
        self.hub.broker.read_hole(one, first, hole)

    # --- subscriptions -------------------------------------------------------------------

    def put(self, subscription: Subscription) -> None:
        self.since.pop(subscription.name, None)
        if not self.followed.is_set():
            self._meanwhile[subscription.name] = None
            return
        self.router.put(subscription.name, *filter_of(subscription))
        self.hub.loop.call_soon(self.pump)  # what asked for it comes to its end first

    def remove(self, subscription: Subscription) -> None:
        self.since.pop(subscription.name, None)
        if not self.followed.is_set():
            self._meanwhile[subscription.name] = None
            return
        self.router.remove(subscription.name)
        self.hub.loop.call_soon(self.pump)

    def _in_force(self, keys: Sequence[Hashable], since: int) -> None:
        self.since |= {key: since for key in keys if isinstance(key, str)}
        if self.home or self.number not in self.hub.broker.channels:
            return
        for one in self.hub.broker.begin(self.number, keys):
            tell = self.hub.in_force.get(one.session.id) if one.session is not None else None
            if tell is not None:
                tell(one, since)

    # --- publishing ----------------------------------------------------------------------

    def publish(self, publisher: str, drafts: Sequence[Draft], answer: Answer) -> None:
        request = next(self._requests)
        self._answers[request] = answer
        self.router.publish(request, publisher, drafts)
        self.pump()

    def _answered(self, found: fx.Answered) -> None:
        answer = self._answers.pop(found.request, None)
        if answer is not None:
            answer(LogError(found.error) if found.error else list(found.sequences))

    def _admitted(self, ticket: int, found: list[int] | TamisError) -> None:
        if isinstance(found, TamisError):
            self.router.published(ticket, (), str(found))
        else:
            self.router.published(ticket, [max(one, 0) for one in found])
        self.pump()

    def appended(self, block: Block) -> None:
        """(At the home.) It was published here."""
        self.router.appended(block)
        self.pump()


def _both(selector: str, bound: str) -> str:
    if not selector or not bound:
        return selector or bound
    return f"({selector}) AND ({bound})"
