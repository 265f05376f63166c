"""Where a broker brings messages by itself: webhooks and e-mail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

from tamis.errors import InputError, RegistryError, TamisError
from tamis.pubsub.broker.stored import Key
from tamis.pubsub.broker.subscription import Subscription
from tamis.server.access import Caller, Door
from tamis.server.channels import Channels, Open
from tamis.server.deliveries.delivery import LOG, Delivery, Tally
from tamis.server.deliveries.mail import (
    LONGEST_INTERVAL,
    MAIL_THREADS,
    Mail,
    MailServer,
    check_mail_address,
)
from tamis.server.deliveries.posting import Address, Poster
from tamis.server.deliveries.sealing import Sealing, Target
from tamis.server.deliveries.webhooks import Webhook
from tamis.server.hub import Hub
from tamis.server.spaces import kept_shape
from tamis.server.subscribing import Wish
from tamis.server.turns import Pool
from tamis.server.visits import permitted

__all__ = ["Deliveries", "MailServer"]
_AGAIN = 1.0  # seconds until what failed is tried again


class Deliveries:
    """All deliveries of a server, by subscription.

    One runs while its principal may subscribe and no session has taken the subscription up. It
    comes back when the right does, and when the session leaves.
    """

    def __init__(
        self, hub: Hub, mail: MailServer | None, channels: Channels, door: Door, sealing: Sealing
    ) -> None:
        self.hub, self.mail, self._channels, self._door = hub, mail, channels, door
        self.sealing = sealing
        self.known: dict[Key, Delivery] = {}
        self.tally, self.poster = Tally(), Poster()
        self._mailing = Pool("mail", MAIL_THREADS, MAIL_THREADS // 2)
        hub.left = self._left
        hub.last += [self.poster.close, self._mailing.close]

    def load(self) -> None:
        self._seal_old()
        for channel in self.hub.broker.channels.values():
            for subscription in channel.subscriptions.values():
                if subscription.delivery:
                    self.known[subscription.key] = self._made(subscription)
        self._follow_all(self._callers(self._principals()), list(self.known))

    def _seal_old(self) -> None:
        """Earlier versions stored the secrets of webhooks as they were."""
        channels = self.hub.broker.channels.values()
        old = [s for c in channels for s in c.subscriptions.values() if "secret" in s.delivery]
        if not old:
            return
        for subscription in old:
            subscription.delivery = self.sealing.sealed(subscription.delivery)
        self.hub.registry.change_subscriptions([one.stored() for one in old])
        self.hub.registry.scrub()
        LOG.info("the secrets of %d webhooks are encrypted now", len(old))

    async def wanted(self, wish: Wish) -> Target:
        """Where a subscription is to be delivered, checked; empty: sessions fetch it."""
        if wish.webhook and wish.email:
            raise InputError("choose one of webhook and email")
        if wish.webhook:
            Address.parse(wish.webhook)
            target = {"webhook": wish.webhook, "secret": wish.secret}
            return cast(Target, await self.hub.in_registry(self.sealing.sealed, target))
        if not wish.email:
            return {}
        if self.mail is None:
            raise InputError("this broker sends no e-mail: it was started without --smtp")
        check_mail_address(wish.email)
        if not 0 <= wish.digest <= LONGEST_INTERVAL:
            raise InputError(f"digest is 0 to {LONGEST_INTERVAL:,} seconds")
        return {"email": wish.email, "digest": wish.digest}

    def follow(self, subscription: Subscription) -> None:
        """Begin, go on with what changed, or end. Another filter alone changes nothing here."""
        key, known = subscription.key, self.known.get(subscription.key)
        if known is None or known.subscription is not subscription or (
            known.target != subscription.delivery
        ):  # fmt: skip
            self.forget(key)
            if not subscription.delivery:
                return
            known = self.known[key] = self._made(subscription)
        if not known.running and subscription.session is None:
            self._begin(known)

    def _made(self, subscription: Subscription) -> Delivery:
        if "webhook" in subscription.delivery:
            return Webhook(self.hub, subscription, self.tally, self.poster, self.sealing)
        channel = self._channels.by_number[subscription.channel].entry.name
        return Mail(self.hub, subscription, self.tally, self.mail, channel, self._mailing)

    def _begin(self, delivery: Delivery) -> None:
        """What stands in the way is reported as its problem; the next review tries again."""
        one = delivery.subscription
        channel = self._channels.by_number[one.channel]
        try:
            channel.live.language.check(one.bound)
            one.shape = kept_shape(delivery.target, channel)
            delivery.check()
            delivery.begin()
        except TamisError as error:
            LOG.error("%s is not delivered: %s", one.name, error)
            delivery.rest(str(error))

    # --- what is seen of them -----------------------------------------------------------

    @property
    def running(self) -> dict[Key, Delivery]:
        return {key: one for key, one in self.known.items() if one.running}

    @property
    def failing(self) -> int:
        """How many have a problem now."""
        return sum(bool(one.problem) for one in self.known.values())

    def problem(self, key: Key) -> str:
        """Why a subscription is not delivered now; empty: all is well."""
        known = self.known.get(key)
        return known.problem if known is not None else ""

    def forget(self, key: Key) -> None:
        known = self.known.pop(key, None)
        if known is not None:
            known.rest()

    # --- rights -----------------------------------------------------------------------

    async def review(self) -> None:
        """Rights may have changed: what is not allowed stops, what is allowed again goes on."""
        await self._review(list(self.known))

    def _left(self, subscription: Subscription) -> None:
        """No session has it any more: the broker goes on, after a pause if it ended by itself."""
        known, channel = self.known.get(subscription.key), self._channel_of(subscription)
        if channel is None:
            self.forget(subscription.key)
        elif known is not None:
            pause = min(_AGAIN * 2 ** min(known.ends - 1, 30), known.longest_pause)
            self.hub.keep(self._again(subscription.key, pause if known.ends else 0))

    def _channel_of(self, one: Subscription) -> Open | None:
        """None: the subscription is gone, or its channel."""
        channel = self._channels.by_number.get(one.channel)
        held = channel is not None and channel.live.subscriptions.get(one.name) is one
        return channel if held else None

    async def _again(self, key: Key, pause: float) -> None:
        await asyncio.sleep(pause)
        while True:
            try:
                await self._review([key])
                return
            except RegistryError as error:
                LOG.warning("a delivery waits for the registry: %s", error)
                await asyncio.sleep(_AGAIN)

    async def _review(self, keys: list[Key]) -> None:
        principals = self._principals(keys)
        self._follow_all(await self.hub.in_registry(self._callers, principals), keys)

    def _principals(self, keys: Iterable[Key] | None = None) -> set[str]:
        found = (self.known.get(key) for key in (self.known if keys is None else keys))
        return {one.subscription.principal for one in found if one is not None}

    def _callers(self, names: Iterable[str]) -> dict[str, Caller | None]:
        return {name: self._door.principal(name) for name in names}

    def _follow_all(self, callers: dict[str, Caller | None], keys: Iterable[Key]) -> None:
        for key in keys:
            if (delivery := self.known.get(key)) is not None:
                one = delivery.subscription
                self._settle(delivery, callers.get(one.principal))

    def _settle(self, delivery: Delivery, caller: Caller | None) -> None:
        one = delivery.subscription
        channel = self._channel_of(one)
        if channel is None:
            self.forget(one.key)
        elif caller is not None and permitted(caller, channel, one):
            self.follow(one)
        else:
            if delivery.running:
                LOG.info("%s rests: %s may not subscribe", one.name, one.principal)
            delivery.rest(f"{one.principal} has no right to subscribe")
