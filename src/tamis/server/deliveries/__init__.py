"""Where a broker brings messages by itself: webhooks and e-mail."""

from __future__ import annotations

from collections.abc import Callable

from tamis.errors import InputError
from tamis.pubsub.broker.subscription import Subscription
from tamis.server.deliveries.delivery import LOG, Delivery
from tamis.server.deliveries.mail import LONGEST_INTERVAL, Mail, MailServer, check_mail_address
from tamis.server.deliveries.webhooks import Webhook, check_address
from tamis.server.hub import Hub
from tamis.server.subscribing import Wish

__all__ = ["Deliveries", "MailServer"]


class Deliveries:
    """All deliveries of a server, by subscription."""

    def __init__(
        self, hub: Hub, mail: MailServer | None, channel_name: Callable[[int], str]
    ) -> None:
        self.hub, self.mail, self._channel_name = hub, mail, channel_name
        self.running: dict[tuple[int, str], Delivery] = {}

    def load(self) -> None:
        for channel in self.hub.broker.channels.values():
            for subscription in channel.subscriptions.values():
                self.follow(subscription)

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
        if "webhook" in target:
            self.running[key] = Webhook(self.hub, subscription)
        elif "email" in target and self.mail is not None:
            name = self._channel_name(subscription.channel)
            self.running[key] = Mail(self.hub, subscription, self.mail, name)
        elif "email" in target:
            LOG.warning("%s waits: this broker was started without --smtp", subscription.name)

    def failing(self, key: tuple[int, str]) -> bool:
        known = self.running.get(key)
        return known is not None and bool(known.failures)

    def forget(self, key: tuple[int, str]) -> None:
        known = self.running.pop(key, None)
        if known is not None:
            known.stop()
