"""Subscriptions from outside: rights, checks, notes, and where they begin."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from tamis.engine.matcher import Matcher
from tamis.errors import AccessError, BusyError, SelectorError, SubscriptionError, TamisError
from tamis.pubsub.broker.changes import End, Move, Pause, Put
from tamis.pubsub.broker.channel_summaries import read_summary
from tamis.pubsub.broker.judge import joined
from tamis.pubsub.broker.shapes import Shape
from tamis.pubsub.broker.stored import Stored, Version
from tamis.pubsub.broker.subscription import Subscription
from tamis.pubsub.subjects.subject import SubjectFilter
from tamis.registry.registry_values import check_name
from tamis.server.access import Caller
from tamis.server.channels import Open
from tamis.server.hub import Hub
from tamis.server.numbers import Whole
from tamis.server.visits import Visits, permitted

_HIDDEN = {"sealed", "flow"}
MAX_LABEL = 200  # characters of the name of a subscription, which is sent with every message
_FEW = 3  # subscriptions that are compared without looking for an example first


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    """A subscription as JSON says it.

    `start`: "now", "all", a sequence, or a time in ISO 8601. `summary`: a state that says what the
    messages mean; `catch_up`: after an absence, all that was missed or the shortest that means it.
    """

    selector: str = ""
    subjects: str = ">"
    start: str | Whole = "now"
    window: Whole = 0
    webhook: str = ""  # an address that gets what it matches (durable ones only)
    secret: str = ""  # what requests to it are signed with
    email: str = ""  # an e-mail address that gets what it matches (durable ones only)
    digest: Whole = 0  # seconds for which messages are gathered into one mail
    summary: str = ""
    catch_up: Literal["all", "shortest"] = "all"


@dataclass
class Subscribing:
    hub: Hub
    visits: Visits

    def check(self, caller: Caller, channel: Open, wish: Wish) -> None:
        """Refuse what has no right or no meaning."""
        caller.require("subscribe", channel.entry.name)
        filter = SubjectFilter.parse(wish.subjects)
        caller.require("subscribe", channel.entry.name, filter)
        channel.live.language.check(wish.selector)
        channel.live.language.check(caller.selector)
        if wish.summary:
            read_summary(wish.summary, channel.entry.name, channel.live.language.schema)

    def notes(self, caller: Caller, channel: Open, wish: Wish, name: str = "") -> list[str]:
        """What is worth telling: never or always true, equal to or covered by one's own."""
        language = channel.live.language
        try:
            return self._compared(language.reasoner(), caller, channel, wish, name)
        except SelectorError:  # of discretionary attributes no types are known
            return self._compared(language.matcher(), caller, channel, wish, name)

    def _compared(
        self, matcher: Matcher, caller: Caller, channel: Open, wish: Wish, name: str
    ) -> list[str]:
        notice = matcher.add(0, joined(wish.subjects, wish.selector))
        if notice is not None and wish.selector:
            return [f"{notice}"]
        found, proved = [], dict[str, str]()  # by selector: many of one's own may have the same
        for other in self._candidates(matcher, caller, channel, wish, name):
            text = joined(other.filter.subjects, other.filter.selector)
            if text not in proved:
                proved[text] = _relation(matcher, len(proved) + 1, text)
            if proved[text]:
                found.append(f"{proved[text]} {other.name}")
        return found

    def _candidates(
        self, matcher: Matcher, caller: Caller, channel: Open, wish: Wish, name: str
    ) -> list[Subscription]:
        """One's own durable subscriptions that may cover the new one: whatever covers it matches
        an example of it, too. Without an example, some of them."""
        own = channel.live.owned.durable(caller.name)
        if len(own) > _FEW:
            matcher.add(-1, joined(wish.subjects, wish.selector, caller.selector))
            example = matcher.example(-1)
            if example is not None:
                numbers = channel.live.judge.matcher.match(example)
                own = channel.live.numbered(numbers, caller.name)
        return [s for s in own if s.name != name]

    async def start(self, channel: Open, wish: Wish) -> int | None:
        """The first sequence that it gets; None: from now on."""
        match wish.start:
            case "now":
                return None
            case "all":
                return 1
            case int():
                return wish.start
        micros = moment(wish.start)
        found: int = await self.hub.in_reader(self.hub.log.find, channel.entry.number, micros)
        return found

    async def live(
        self,
        caller: Caller,
        channel: Open,
        session: int,
        name: str,
        wish: Wish,
        shape: Shape | None = None,
    ) -> Subscription:
        """A subscription that ends with its session."""
        check_label(name)
        self.check(caller, channel, wish)
        if wish.summary or wish.catch_up != "all":
            raise SubscriptionError("only a durable subscription has a summary and catches up")
        start = await self.start(channel, wish)
        await self.hub.judged(channel.live)
        version = Version(1, wish.subjects, wish.selector)
        stored = Stored(channel.entry.number, f"~{session}~{name}", caller.name, (version,))
        found = self.hub.broker.subscribe(
            session, stored, start=start, bound=caller.selector, label=name, shape=shape
        )
        self.visits.settle(caller, found)
        self.hub.pump()
        return found

    async def durable(
        self,
        caller: Caller,
        channel: Open,
        name: str,
        wish: Wish,
        session: int | None = None,
        delivery: dict[str, str | int] | None = None,
        shape: Shape | None = None,
        done: int = 0,
    ) -> Subscription:
        """Make it, change it, or take it up again. `done`: what its owner acknowledged, perhaps at
        another router."""
        check_name("subscription", name)
        self.check(caller, channel, wish)
        known = channel.live.subscriptions.get(name)
        if known is not None:
            self.owned(caller, known)
            self._check_unread(caller, channel, known)
        elif caller.subscriptions and self._count(caller) >= caller.subscriptions:
            raise BusyError(f"{caller.name} may have {caller.subscriptions} subscriptions")
        short = wish.catch_up == "shortest"
        if short and not (wish.summary or (known is not None and known.summary)):
            raise SubscriptionError(f"{name} has no summary: declare one to catch up by it")
        start = await self.start(channel, wish)
        await self.hub.judged(channel.live)
        found = await self.hub.change(
            lambda request: Put(
                request, channel.entry.number, name, caller.name, wish.subjects, wish.selector,
                start, session, caller.selector, wish.window, delivery, wish.summary, short,
                wish.start - 1 if short and isinstance(wish.start, int) else done, shape,
            )
        )  # fmt: skip
        assert found is not None
        self.visits.settle(caller, found)
        return found

    def _check_unread(self, caller: Caller, channel: Open, known: Subscription) -> None:
        """What is unread is judged by the filter of its time, for which rights may have gone."""
        if known.cursor < channel.live.matched and not permitted(caller, channel, known):
            raise AccessError(
                f"{caller.name} has no right any more to all that {known.name} has not got yet: "
                "drop that (POST .../drop), or end it and subscribe again"
            )

    def _count(self, caller: Caller) -> int:
        channels = self.hub.broker.channels.values()
        return sum(channel.owned.counts.get(caller.name, 0) for channel in channels)

    def find(self, caller: Caller, channel: Open, name: str) -> Subscription:
        """One's own; who manages the channel finds those of others, too. For anybody else they
        look as if there were none."""
        known = channel.live.subscriptions.get(name)
        if known is not None and self.shows(caller, channel, known):
            return known
        caller.require_subscriptions(channel.entry.name)
        raise SubscriptionError(f"there is no subscription {name}", status=404)

    def shows(self, caller: Caller, channel: Open, subscription: Subscription) -> bool:
        """Whether the caller may see it: one's own, and for those who manage the channel all."""
        return (
            caller.rights is None
            or subscription.principal == caller.name
            or caller.may("manage", channel.entry.name)
        )

    def owned(self, caller: Caller, subscription: Subscription) -> None:
        """Only one's own subscriptions are changed and taken up."""
        if subscription.principal != caller.name and caller.rights is not None:
            raise SubscriptionError(
                f"the name {subscription.name} is taken already: choose another one", status=409
            )

    async def pause(self, caller: Caller, channel: Open, name: str, paused: bool) -> None:
        known = self.find(caller, channel, name)
        await self.hub.change(lambda request: Pause(request, known.channel, name, paused))

    async def move(
        self, caller: Caller, channel: Open, name: str, start: str | int
    ) -> Subscription:
        """It goes on elsewhere: `start` as in a wish, not before what is kept. Its owner must be
        allowed to have what it then gets."""
        known = self.find(caller, channel, name)
        following = await self.start(channel, Wish(start=start))
        if following is not None:
            kept = await self.hub.in_reader(self.hub.log.bounds, known.channel)
            following = max(following, kept[0])
            owner = self.visits.door.principal(known.principal)
            if owner is None or not permitted(owner, channel, known, following):
                raise AccessError(f"{known.principal} has no right any more to all that {name} "
                                  "would get from there on")  # fmt: skip
        moved = await self.hub.change(lambda request: Move(request, known.channel, name, following))
        assert moved is not None
        return moved

    async def end(
        self, caller: Caller, channel: Open, name: str, session: int | None = None
    ) -> None:
        """`session`: the one that asks for it, if there is one."""
        known = self.find(caller, channel, name)
        await self.hub.change(lambda request: End(request, known.channel, name, session))


def check_label(name: str) -> None:
    if len(name) > MAX_LABEL:
        raise SubscriptionError(
            f"the name of a subscription has up to {MAX_LABEL} characters, not {len(name):,}"
        )


def _relation(matcher: Matcher, number: int, text: str) -> str:
    """What subscription 0 is to one with this selector; empty: nothing that can be proved."""
    matcher.add(number, text)
    if not matcher.covers(number, 0):
        return ""
    return "equal to" if matcher.covers(0, number) else "covered by"


def moment(text: str) -> int:
    """Microseconds since 1970 of a time in ISO 8601; without an offset it is UTC."""
    try:
        found = datetime.datetime.fromisoformat(text)
        found = found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
        return int(found.timestamp() * 1e6)
    except (ValueError, OverflowError):
        raise TamisError(
            f"{text[:40]!r} is no start: say now, all, a sequence, or a time such as "
            "2026-02-01T09:30:00Z"
        ) from None


def shown(subscription: Subscription, matched: int) -> dict[str, Any]:
    """A subscription as JSON tells it."""
    session = subscription.session
    position = matched + 1 if subscription.live else subscription.position
    done = subscription.done(matched)
    state = "gone" if session is None else "live" if subscription.live else "behind"
    return {
        "name": subscription.name,
        "principal": subscription.principal,
        "subjects": subscription.filter.subjects,
        "selector": subscription.filter.selector,
        "durable": subscription.durable,
        "summary": subscription.summary,
        "state": "failed" if subscription.problem else "paused" if subscription.paused else state,
        "problem": subscription.problem,
        "cursor": done,
        "lag": matched - min(done, position - 1) if subscription.durable
        else matched - position + 1,
        "matched": subscription.matched + subscription.seated,
        "delivered": subscription.delivered + subscription.seated,
        "delivery": {k: v for k, v in subscription.delivery.items() if k not in _HIDDEN},
    }  # fmt: skip
