"""Packets over TCP (docs/packets.md): one connection is one session of the broker."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial

import msgspec

from tamis.errors import AccessError, MessageError, SubscriptionError, TamisError, WireError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.stored import Key
from tamis.pubsub.packet_protocol import OWN, Answers, Peer, Received, Slot, body_of
from tamis.pubsub.wire.wire_messages import (
    Acknowledgement,
    AddSubject,
    GetCache,
    Message,
    Notification,
    Resubscription,
    Subscription,
    Unsubscription,
)
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.channels import Open
from tamis.server.publishing import LARGE
from tamis.server.publishing import Message as Published
from tamis.server.tcp import packet_commands, packet_subscriptions
from tamis.server.tcp.listening import Inbox, Listener, Outbox, address_of
from tamis.server.visits import Visit

_SILENT = "say who you are: nothing was heard for too long"
_LATE = "the rest of a packet took too long to arrive"
_UNANSWERED = 10_000  # packets of a peer that wait for their answer
_TOO_MANY = Peer().error(0, "too many connections: try again later")


@dataclass
class Taken:
    """A subscription of the connection; `number` is port * 2^16 + id."""

    channel: int
    number: int
    durable: bool


class PacketsServer(Listener):
    def __init__(self, parts: Parts) -> None:
        super().__init__(
            lambda reader, writer: PacketConnection(parts, reader, writer).run(),
            parts.gate,
            _TOO_MANY,
        )


class PacketConnection:
    def __init__(
        self, parts: Parts, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.parts, self.writer, self.peer = parts, writer, Peer()
        self.answers = Answers(self.peer)
        self.out = Outbox(writer, self._written)
        self._in = Inbox(reader, self.peer, self.out, parts.gate)
        self.visit: Visit | None = None
        self.session = 0
        self.names: dict[int, str] = {}  # of the channels that are open
        self.taken: dict[Key, Taken] = {}
        self._keys: dict[tuple[int, int], Key] = {}  # of what is taken, by channel and number
        self.ended = False
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def caller(self) -> Caller | None:
        return None if self.visit is None else self.visit.caller

    def _send_away(self, error: AccessError) -> None:
        """The caller has no business here any more."""
        if not self.ended and self._task is not None:
            self.fail(0, str(error))
            self._task.cancel()

    async def run(self) -> None:
        self._task = asyncio.current_task()
        writing = asyncio.ensure_future(self.out.write())
        try:
            with contextlib.suppress(AccessError):  # while nobody has to say who they are
                self.known(await self._unnamed())
            async for received in self._in.frames():
                await self._receive(received)
                if self.ended:
                    break
        except TimeoutError:
            self.parts.gate.late += 1
            self.fail(0, _LATE if self._in.known else _SILENT)
        except WireError as error:
            self.fail(0, str(error))
        finally:
            if self.visit is not None:
                self.parts.visits.leave(self.visit)
                self.parts.hub.disconnect(self.session)
            with contextlib.suppress(TimeoutError, ConnectionError):
                await asyncio.wait_for(self.out.drain(), 2)
            writing.cancel()
            self.out.end()
            self._task = self.visit = None

    def _written(self, count: int) -> None:
        self.parts.hub.written(self.session, count)

    def fail(self, sequence: int, reason: str) -> None:
        """Tell the peer, and end."""
        self.out.put(self.peer.error(sequence, reason))
        self.ended = True

    def settle(self, slot: Slot, answer: bytes = b"") -> None:
        slot.answer = answer
        self._settled.set()
        if ready := self.answers.ready():
            self.out.put(ready)

    # --- in -------------------------------------------------------------------------

    async def _receive(self, received: Received) -> None:
        self._in.known = True  # its packet is whole; who it is follows from that, or it ends
        slot = self.answers.expect(received.sequence)
        message = received.message
        try:
            if isinstance(message, WireError):
                raise message
            if self.visit is None and not self._is_login(message):
                self.known(await self._unnamed())
            if isinstance(message, Notification) and message.channel != OWN:
                await self._publish(message, slot)
            else:
                self.settle(slot, await self._do(message))
        except TamisError as error:
            self.settle(slot, self.peer.error(received.sequence, str(error)))
            self.ended = self.ended or (isinstance(error, AccessError) and self.visit is None)

    @staticmethod
    def _is_login(message: Message) -> bool:
        return isinstance(message, Notification) and (
            message.attributes.get("Command") == "pc.login" and message.subject == "#.COMMAND"
        )

    def known(self, caller: Caller) -> None:
        """The peer is this caller from now on."""
        if self.visit is None:
            self.peer.trust()
            self.session = self.parts.hub.connect(self._sink)
            self.visit = self.parts.visits.enter(caller, self._send_away, self.session)

    async def _unnamed(self) -> Caller:
        """The caller, if none need say who it is."""
        return await self.parts.recognition.caller(None, address_of(self.writer))

    @property
    def who(self) -> Caller:
        if self.visit is None:
            raise AccessError("say who you are: send pc.login first", known=False)
        return self.visit.caller

    async def _do(self, message: Message) -> bytes:
        """What the peer is answered; nothing: it is acknowledged."""
        match message:
            case Notification():
                said = await packet_commands.run(self, message)
                return self.peer.answer(message.sequence, said)
            case Subscription() | Resubscription():
                await packet_subscriptions.subscribe(self, message)
            case Unsubscription():
                self.leave(message.channel, message.port << 16 | message.id)
            case AddSubject():
                await packet_subscriptions.add_subject(self, message)
            case GetCache():
                await packet_subscriptions.get_cache(self, message)
            case Acknowledgement():
                self._acknowledge(message)
            case _:
                raise MessageError(f"{type(message).__name__} is nothing that a broker takes")
        return b""

    def channel(self, number: int) -> Open:
        """A channel that the peer has opened, and that is still there."""
        name = self.names.get(number)
        if name is None:
            raise MessageError(f"channel {number} is not open here: send pc.chn.open first")
        found = self.parts.channels.get(self.who, name)
        if found.entry.number != number:
            raise MessageError(f"channel {number} is gone")
        return found

    async def _publish(self, message: Notification, slot: Slot) -> None:
        number = message.sequence if message.publisher else 0
        body = body_of(message.attributes)
        published = Published(msgspec.Raw(body), message.subject, number)
        publisher = f"{message.publisher}/{message.session}" if message.publisher else ""
        channel = self.channel(message.channel)
        answer = partial(self._published, slot)
        publishing, caller = self.parts.publishing, self.who
        if len(body) < LARGE:
            publishing.admit(caller, channel, publisher, [published], answer)
        else:
            await publishing.admit_large(caller, channel, publisher, [published], answer)
        while len(self.answers) > _UNANSWERED:
            self._settled.clear()
            await self._settled.wait()

    def _published(self, slot: Slot, found: list[int] | TamisError) -> None:
        failed = isinstance(found, TamisError)
        self.settle(slot, self.peer.error(slot.sequence, str(found)) if failed else b"")

    # --- subscriptions ----------------------------------------------------------------

    def take(self, key: Key, number: int, durable: bool) -> None:
        if key in self.taken or (key[0], number) in self._keys:
            raise SubscriptionError("the connection has this subscription: send #.RESUBSCRIPTION")
        self.taken[key] = Taken(key[0], number, durable)
        self._keys[key[0], number] = key

    def drop(self, key: Key) -> None:
        taken = self.taken.pop(key, None)
        if taken is not None:
            del self._keys[taken.channel, taken.number]

    def find(self, channel: int, number: int) -> Key:
        key = self._keys.get((channel, number))
        if key is None:
            name = f"{number >> 16}/{number & 0xFFFF}"
            raise SubscriptionError(f"this connection has no subscription {name}: subscribe first")
        return key

    def leave(self, channel: int, number: int) -> None:
        """A durable one stays; others end."""
        key = self.find(channel, number)
        broker = self.parts.hub.broker
        (broker.leave if self.taken[key].durable else broker.unsubscribe)(self.session, key)
        self.drop(key)
        self.parts.hub.pump()

    def _acknowledge(self, message: Acknowledgement) -> None:
        key = self.find(message.channel, message.subscription)
        if self.taken[key].durable:
            self.parts.hub.broker.acknowledge(self.session, key, message.upto)
            self.parts.hub.pump()

    # --- out ------------------------------------------------------------------------

    def _sink(self, action: act.ToSession) -> None:
        if isinstance(action, act.Deliver):
            packets = [self._packet(s.key, record) for s, record in action.messages]
            self.out.put(b"".join(packets), len(packets))
            return
        taken = self.taken.get(action.subscription.key)
        number = taken.number if taken else 0
        name = f"subscription {number >> 16}/{number & 0xFFFF}"
        if isinstance(action, act.Taken):
            self.drop(action.subscription.key)
            self.out.put(self.peer.error(0, f"another connection took {name}"))
        elif isinstance(action, act.Ended):
            self.drop(action.subscription.key)
            self.out.put(self.peer.error(0, f"{name} has ended: {action.error}"))
        else:
            lost = f"messages {action.first} to {action.last} are lost: {action.reason}"
            self.out.put(self.peer.error(0, f"{name}: {lost}"))

    def _packet(self, key: Key, record: Record) -> bytes:
        taken = self.taken.get(key)
        if taken is None:  # it was left while this was on its way
            return b""
        return self.delivery(taken.channel, taken.number, record)

    def delivery(self, channel: int, number: int, record: Record) -> bytes:
        """A message for a subscription; nothing where its channel is gone."""
        live = self.parts.hub.broker.channels.get(channel)
        if live is None or channel not in self.peer.codecs:
            return b""
        said = live.language.read(record.body)
        return self.peer.delivery(channel, number, record.sequence, record.subject, said)
