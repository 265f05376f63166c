"""Open connections: what they may do follows every change of rights, at once.

A principal that ends, a token that ends or runs out, and another password close the connections
that rest on them. Rights that are taken back end subscriptions; another mandatory selector judges
the next message. What another process writes into the registry (`tamis principal`) is seen within
a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

from tamis.errors import AccessError
from tamis.pubsub.broker.subscription import Subscription
from tamis.pubsub.subjects.subject import SubjectFilter
from tamis.server.access import Caller, Door
from tamis.server.channels import Channels, Open
from tamis.server.hub import Hub
from tamis.server.slices import sliced

_LOOK = 1.0  # seconds between two looks at what other processes changed
Renewed = dict[Caller, Caller | AccessError]


def _ended(_: AccessError) -> None:
    pass


class Visit:
    """One connection, and who is there: always with the rights that they have now."""

    __slots__ = ("_caller", "end", "error", "session", "timer")

    def __init__(self, caller: Caller, end: Callable[[AccessError], None]) -> None:
        self._caller, self.end = caller, end
        self.session = 0
        self.timer: asyncio.TimerHandle | None = None
        self.error: AccessError | None = None  # why it has ended

    @property
    def caller(self) -> Caller:
        """AccessError once the visit has ended."""
        if self.error is not None:
            raise self.error
        return self._caller

    @caller.setter
    def caller(self, caller: Caller) -> None:
        self._caller = caller


class Visits:
    def __init__(self, hub: Hub, door: Door, channels: Channels) -> None:
        self.hub, self.door, self.channels = hub, door, channels
        self.also: list[Callable[[], Awaitable[None]]] = []  # what else follows rights
        self._open: set[Visit] = set()
        self._by_session: dict[int, Visit] = {}
        self._bounds: dict[str, str] = {}  # the mandatory selectors that are in force
        self._version = 0  # of the registry when rights were looked up last
        self._done = 0  # the last of `Door.renewals` that came to its end

    def start(self) -> None:
        self._version = self.hub.registry.version()
        self._bounds = {p.login: p.selector for p in self.hub.registry.principals()}
        self.hub.keep(self.hub.watch.repeat("rights", _LOOK, self._look))

    # --- coming and going -------------------------------------------------------------

    def enter(self, caller: Caller, end: Callable[[AccessError], None], session: int = 0) -> Visit:
        """`end` is called once, when the caller would not be recognised any more."""
        visit = Visit(caller, end)
        self._open.add(visit)
        if session:
            visit.session = session
            self._by_session[session] = visit
        if caller.expires:
            left = caller.expires / 1e6 - time.time()
            visit.timer = self.hub.loop.call_later(max(left, 0), self._run_out, visit)
        if caller.seen != self.door.renewals:  # something changed while it came in
            self.hub.keep(self.renew())
        return visit

    def leave(self, visit: Visit) -> None:
        self._open.discard(visit)
        self._by_session.pop(visit.session, None)
        if visit.timer is not None:
            visit.timer.cancel()
        visit.end = _ended  # the connection, which holds its visit, goes at once then

    @contextmanager
    def during(self, caller: Caller) -> Iterator[Visit]:
        """A visit without a session; who asks it learns that it has ended."""
        visit = self.enter(caller, lambda _: None)
        try:
            yield visit
        finally:
            self.leave(visit)

    def kick(self, session: int) -> None:
        """Let a session come back anew: what it holds is not what it was."""
        visit = self._by_session.get(session)
        if visit is not None:
            visit.end(AccessError("come back: a channel begins anew"))

    def _run_out(self, visit: Visit) -> None:
        self._close(visit, AccessError("the token has run out", known=False))

    def _close(self, visit: Visit, error: AccessError) -> None:
        if visit in self._open:
            end = visit.end
            self.leave(visit)
            visit.error = error
            end(error)

    # --- changes ----------------------------------------------------------------------

    async def _look(self) -> None:
        """What this process writes itself does not count here."""
        version = await self.hub.in_registry(self.hub.registry.version)
        if version != self._version or self._done != self.door.renewals:
            await self.renew()
            self._version = version

    async def renew(self) -> None:
        """Look up everybody who is here again; when this returns, it is in force."""
        self.door.renewals += 1
        number = self.door.renewals
        callers = {visit.caller for visit in self._open}
        found, bounds = await self.hub.in_registry(self._looked_up, callers)
        changed = {a.name for a, b in found.items() if a != b}
        for visit in list(self._open):
            now = found.get(visit.caller, visit.caller)
            if isinstance(now, AccessError):
                self._close(visit, now)
            else:
                visit.caller = now
        moved = {name for name in bounds.keys() | self._bounds.keys()
                 if bounds.get(name) != self._bounds.get(name)}  # fmt: skip
        self._bounds = bounds
        for session in [v.session for v in self._open if v.caller.name in changed and v.session]:
            await self._judge_session(session)
        for name in moved:
            await self._judge_all(name)
        self.hub.pump()
        for follow in self.also:
            await follow()
        self._done = max(self._done, number)

    def _looked_up(self, callers: Iterable[Caller]) -> tuple[Renewed, dict[str, str]]:
        found: Renewed = {}
        for caller in callers:
            try:
                found[caller] = self.door.renewed(caller)
            except AccessError as error:
                found[caller] = error
        return found, {p.login: p.selector for p in self.hub.registry.principals()}

    # --- subscriptions ----------------------------------------------------------------

    async def _judge_session(self, session: int) -> None:
        known = self.hub.broker.sessions.get(session)
        async for one in sliced(list(known.subscriptions.values()) if known else ()):
            if one.session is known:
                self._judge(one)

    async def _judge_all(self, principal: str) -> None:
        async for one in self.of(principal):
            self._judge(one)

    async def of(self, principal: str) -> AsyncIterator[Subscription]:
        """All subscriptions of a principal that are still there when their turn comes."""
        for live in list(self.hub.broker.channels.values()):
            if principal not in live.owned.counts:
                continue
            async for one in sliced(list(live.subscriptions.values())):
                if one.principal == principal and live.subscriptions.get(one.name) is one:
                    yield one

    def settle(self, caller: Caller, subscription: Subscription) -> None:
        """The caller made a subscription; if rights changed meanwhile, it is judged by them."""
        if caller.seen != self.door.renewals:
            self._judge(subscription)
            self.hub.pump()

    def _judge(self, one: Subscription) -> None:
        """Its session must have the right to it, and its bound is that of its principal."""
        visit = self._by_session.get(one.session.id) if one.session is not None else None
        channel = self.channels.by_number.get(one.channel)
        if visit is not None and channel is not None and not permitted(visit.caller, channel, one):
            who = f"{visit.caller.name} has no right to subscribe"
            self.hub.broker.revoke(
                one, AccessError(f"{who} on {one.filter.subjects} in {channel.entry.name}")
            )
            if not one.durable:
                return
        bound = self._bounds.get(one.principal, "")
        if one.bound != bound:
            self.hub.broker.bind(one, bound)


def permitted(caller: Caller, channel: Open, one: Subscription, following: int = 0) -> bool:
    """Whether the caller may have what the subscription asks for, and asked for before of messages
    that it has not got yet, or of those since `following`."""
    since = one.at(following or one.cursor + 1).since
    filters = {v.subjects for v in one.versions if v.since >= since}
    return caller.tenant == channel.entry.tenant and all(
        caller.may("subscribe", channel.entry.name, SubjectFilter.parse(f)) for f in filters
    )
