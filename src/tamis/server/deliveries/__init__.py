"""Where a broker brings messages by itself: webhooks and e-mail."""

from __future__ import annotations

from collections.abc import Iterable

from tamis.errors import InputError, TamisError
from tamis.pubsub.broker.stored import Key
from tamis.pubsub.broker.subscription import Subscription
from tamis.server.access import Caller, Door
from tamis.server.channels import Channels
from tamis.server.deliveries.delivery import LOG, Delivery
from tamis.server.deliveries.mail import LONGEST_INTERVAL, Mail, MailServer, check_mail_address
from tamis.server.deliveries.webhooks import Webhook, check_address
from tamis.server.hub import Hub
from tamis.server.spaces import kept_shape
from tamis.server.subscribing import Wish
from tamis.server.visits import permitted

__all__ = ["Deliveries", "MailServer"]


class Deliveries:
    """All deliveries of a server, by subscription. They go on as long as rights allow it."""

    def __init__(self, hub: Hub, mail: MailServer | None, channels: Channels, door: Door) -> None:
        self.hub, self.mail, self._channels, self._door = hub, mail, channels, door
        self.running: dict[Key, Delivery] = {}
        self._known: dict[Key, Subscription] = {}  # also those that wait for a right

    def load(self) -> None:
        for channel in self.hub.broker.channels.values():
            for subscription in channel.subscriptions.values():
                if subscription.delivery:
                    self._known[subscription.key] = subscription
        self._follow_all(self._callers(self._principals()))

    def wanted(self, wish: Wish) -> dict[str, str | int]:
        """Where a subscription is to be delivered, checked; empty: sessions fetch it."""
        if wish.webhook and wish.email:
            raise InputError("choose one of webhook and email")
        if wish.webhook:
            check_address(wish.webhook)
            return {"webhook": wish.webhook, "secret": wish.secret}
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
        key, target = subscription.key, subscription.delivery
        known = self.running.get(key)
        if known is not None and known.subscription is subscription and known.target == target:
            return
        self.forget(key)
        if not target:
            return
        self._known[key] = subscription
        channel = self._channels.by_number[subscription.channel]
        try:
            subscription.shape = kept_shape(target, channel)
        except TamisError as error:
            LOG.error("%s waits: its flow cannot be read: %s", subscription.name, error)
            return
        if "webhook" in target:
            self.running[key] = Webhook(self.hub, subscription)
        elif self.mail is not None:
            self.running[key] = Mail(self.hub, subscription, self.mail, channel.entry.name)
        else:
            LOG.warning("%s waits: this broker was started without --smtp", subscription.name)
        if key in self.running:
            self.running[key].ended = self._ended

    def _ended(self, delivery: Delivery) -> None:
        key = delivery.subscription.key
        if self.running.get(key) is delivery:
            self.forget(key)

    def failing(self, key: Key) -> bool:
        known = self.running.get(key)
        return known is not None and bool(known.failures)

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)
        self._stop(key)

    def _stop(self, key: Key) -> None:
        known = self.running.pop(key, None)
        if known is not None:
            known.stop()

    # --- rights -----------------------------------------------------------------------

    async def review(self) -> None:
        """Rights may have changed: what is not allowed stops, what is allowed again goes on."""
        callers = await self.hub.in_registry(self._callers, self._principals())
        self._follow_all(callers)

    def _principals(self) -> set[str]:
        return {subscription.principal for subscription in self._known.values()}

    def _callers(self, names: Iterable[str]) -> dict[str, Caller | None]:
        return {name: self._door.principal(name) for name in names}

    def _follow_all(self, callers: dict[str, Caller | None]) -> None:
        for key, one in list(self._known.items()):
            channel, caller = self._channels.by_number.get(key[0]), callers.get(one.principal)
            if channel is None or channel.live.subscriptions.get(one.name) is not one:
                self.forget(key)
            elif caller is not None and permitted(caller, channel, one):
                self.follow(one)
            elif key in self.running:
                LOG.info("%s waits: %s may not subscribe", one.name, one.principal)
                self._stop(key)
