"""Subscribers that were away: their recaps are made, stored, and moved on with their cursors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tamis.errors import TamisError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.live_channel import LiveChannel
from tamis.pubsub.broker.recaps import Past, Recap
from tamis.pubsub.broker.subscription import Subscription
from tamis.server.locks import Locks
from tamis.server.slices import sliced

if TYPE_CHECKING:
    from tamis.server.hub import Hub

LOG = logging.getLogger("tamis.server")
FAR = 10_000  # messages behind its cursor that a recap may lie before it is moved on


class Absences:
    """One recap of a subscription is made at a time, and stored before it is used."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._names: dict[int, str] = {}
        self._making = Locks()  # by subscription

    def load(self, live: LiveChannel, name: str) -> None:
        """The recaps of a channel that is opened."""
        self._names[live.number] = name
        for subscription, recap in self.hub.registry.recaps(live.number).items():
            live.subscriptions[subscription].recap = recap

    def forget(self, channel: int) -> None:
        """The channel is closed."""
        self._names.pop(channel, None)

    async def catch_up(self, action: act.CatchUp) -> None:
        """Without a recap the subscriber gets everything."""
        one = action.subscription
        async with self._making.alone(one.key):
            try:
                recap = await self._made(one, action.last)
            except Exception as error:
                self.hub.watch.fault(f"the recap of {one.name}", error)
                recap = None
            self.hub.broker.caught_up(one, recap)
        self.hub.pump()

    async def advance(self, live: LiveChannel, before: int) -> None:
        """Move recaps to the cursors, where what they need goes soon or has become much."""
        async for one in sliced(list(live.subscriptions.values())):
            if one.summary and self._behind(one, before):
                async with self._making.alone(one.key):
                    if not one.catching and self._behind(one, before):
                        one.recap = await self._made(one, one.cursor) or one.recap

    def _behind(self, one: Subscription, before: int) -> bool:
        distance = one.cursor - one.recap.sequence
        return distance > FAR or (distance > 0 and one.recap.sequence + 1 < before)

    async def _made(self, one: Subscription, last: int) -> Recap | None:
        """A recap up to `last` that is in the registry; None where there is none."""
        live = self.hub.broker.channels.get(one.channel)
        if live is None:
            return None
        past = Past(one.summary, self._names[one.channel], live.language, one.versions, one.bound,
                    one.recap, one.cursor)  # fmt: skip
        try:
            recap: Recap | None = await self.hub.in_reader(self._read, past, one.channel, last)
            if recap is None:
                LOG.warning("%s: too little is retained, or too much was missed", one.name)
            elif live.subscriptions.get(one.name) is one:
                await self.hub.in_registry(self.hub.registry.put_recap, one.key, recap)
        except TamisError as error:
            LOG.warning("%s gets no recap: %s", one.name, error)
            return None
        return recap

    def _read(self, past: Past, channel: int, last: int) -> Recap | None:
        log = self.hub.log
        return past.caught_up(
            lambda at, most: log.read(channel, at, most), log.bounds(channel)[0], last
        )
