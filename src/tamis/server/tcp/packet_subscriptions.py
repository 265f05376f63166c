"""Subscriptions, subjects and the cache, as packets ask for them (tables 9 and 17 to 19)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from tamis.errors import ChannelError, HoleError, MessageError, SubscriptionError
from tamis.language import canonical
from tamis.logic.atoms import microseconds
from tamis.pubsub import selectors
from tamis.pubsub.broker.stored import Key
from tamis.pubsub.subjects.subject import Subject
from tamis.pubsub.wire.attribute_tests import filter_of
from tamis.pubsub.wire.wire_messages import AddSubject, GetCache, Resubscription, Subscription
from tamis.server.assembly.replays import replayed
from tamis.server.channels import Open
from tamis.server.numbers import sequence_or_text
from tamis.server.subscribing import Wish

if TYPE_CHECKING:
    from tamis.server.tcp.packets import PacketConnection

Said = dict[str, Any]
U16 = 0xFFFF
_UNREAD = 8  # pieces of a replay that wait to be written


async def subscribe(connection: PacketConnection, message: Subscription | Resubscription) -> None:
    """By the tests of a packet."""
    found = connection.channel(message.channel)
    filter = filter_of(message.disjuncts, connection.peer.codecs[message.channel].channel)
    condition = selectors.condition(filter, defined=found.entry.semantics != "sql")
    selector = canonical(condition) if message.disjuncts else ""
    number = message.port << 16 | message.id
    wish = Wish(selector, message.subjects)
    if isinstance(message, Resubscription):
        await _again(connection, found, number, wish)
    else:
        await _take(connection, found, number, wish, "")


async def open_by_selector(connection: PacketConnection, said: Said) -> Said:
    """By a selector as text, durable if it has a name."""
    found = connection.channel(said.get("ChannelId", 0))
    port, id, start = said.get("Port", 0), said.get("Subscription", 0), said.get("Start", "now")
    if not (0 <= port <= U16 and 0 <= id <= U16):
        raise MessageError("Port and Subscription have 16 bits")
    wish = Wish(said.get("Selector", ""), said.get("Subject", ">"), sequence_or_text(start))
    await _take(connection, found, port << 16 | id, wish, said.get("Durable", ""))
    notes = await connection.parts.notes(connection.who, found, wish, said.get("Durable", ""))
    return {"Notes": "\n".join(notes)}


async def end(connection: PacketConnection, said: Said) -> Said:
    """A durable subscription ends for ever."""
    found, name = connection.channel(said.get("ChannelId", 0)), said.get("Durable", "")
    await connection.parts.subscribing.end(connection.who, found, name, connection.session)
    connection.drop((found.entry.number, name))
    audited = f"{found.entry.name}/{name}"
    await connection.parts.audit(connection.who, "subscription.end", audited)
    return {}


async def _take(
    connection: PacketConnection, found: Open, number: int, wish: Wish, durable: str
) -> None:
    parts, channel = connection.parts, found.entry.number
    parts.subscribing.check(connection.who, found, wish)
    key: Key = (channel, durable or f"~{connection.session}~{number}")
    connection.take(key, number, bool(durable))  # deliveries may come before this returns
    subscribing, session = parts.subscribing, connection.session
    try:
        if durable:
            await subscribing.durable(connection.who, found, durable, wish, session)
        else:
            await subscribing.live(connection.who, found, session, str(number), wish)
    except BaseException:
        connection.drop(key)
        raise


async def _again(connection: PacketConnection, found: Open, number: int, wish: Wish) -> None:
    """The same subscription with another filter: no message is lost or judged by both."""
    key = connection.find(found.entry.number, number)
    parts, known = connection.parts, found.live.subscriptions.get(key[1])
    if known is None:
        connection.drop(key)
        raise SubscriptionError(f"{key[1]} was ended elsewhere")
    parts.subscribing.check(connection.who, found, wish)
    if connection.taken[key].durable:
        session = connection.session
        await parts.subscribing.durable(connection.who, found, key[1], wish, session)
        return
    wish.start = "now" if known.live else known.position
    connection.leave(found.entry.number, number)
    await _take(connection, found, number, wish, "")


async def add_subject(connection: PacketConnection, message: AddSubject) -> None:
    """A subject for all where the channel names its subjects, else numbers for this connection."""
    found, channels = connection.channel(message.to), connection.parts.channels
    subject, mapping = Subject.parse(message.subject), message.mapping
    if found.channel.subjects and subject not in found.channel.subjects:
        await channels.add_subject(connection.who, found, message.subject, mapping)
        target = f"{found.entry.name} {message.subject}"
        await connection.parts.audit(connection.who, "channel.subject", target)
        mapping = ".".join(map(str, found.channel.numbers_of(subject)))
        with contextlib.suppress(ChannelError):  # a number of this connection stands in the way
            connection.out.put(connection.peer.numbered(message.to, message.subject, mapping))
            return
        mapping = ""
    connection.out.put(connection.peer.numbered(message.to, message.subject, mapping))


# --- the cache --------------------------------------------------------------------


async def get_cache(connection: PacketConnection, message: GetCache) -> None:
    """What is retained of a time range, through a selector; answered behind its last packet."""
    found = connection.channel(message.channel)
    wish = Wish(message.selector, message.subjects)
    connection.parts.subscribing.check(connection.who, found, wish)
    visit, hub, number = connection.visit, connection.parts.hub, found.entry.number
    assert visit is not None
    first = await hub.in_reader(hub.log.find, number, microseconds(message.since))
    end = await hub.in_reader(hub.log.find, number, microseconds(message.until))
    end = min(end, found.live.matched + 1)
    async for records in replayed(connection.parts, visit, found, wish, first, end):
        if isinstance(records, HoleError):
            lost = f"messages {records.first} to {records.last} are lost: {records.reason}"
            connection.out.put(connection.peer.error(0, lost))
            continue
        packets = [connection.delivery(message.channel, message.subscription, record)
                   for record in records]  # fmt: skip
        connection.out.put(b"".join(packets))
        await connection.out.below(_UNREAD)
