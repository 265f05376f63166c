"""STOMP over TCP. A destination is /CHANNEL or /CHANNEL/SUBJECT; the body is a JSON object."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec

from tamis.errors import (
    AccessError,
    MessageError,
    SubscriptionError,
    TamisError,
    WireError,
)
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.stored import Key
from tamis.pubsub.broker.subscription import Subscription
from tamis.pubsub.stomp_frames import Decoder, Frame, encode
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.numbers import is_whole, sequence_or_text, whole
from tamis.server.publishing import LARGE, Message
from tamis.server.subscribing import Wish, check_label
from tamis.server.tcp.listening import Inbox, Listener, Outbox, address_of
from tamis.server.visits import Visit

_BEAT = 10_000  # milliseconds: how often we send, and want to hear, at most
_MOST_BEAT = 2**31 - 1  # milliseconds
_TOO_MANY = encode(Frame("ERROR", {"message": "too many connections: try again later"}))
_OWN = {"destination", "receipt", "content-type", "content-length", "transaction"}


class Sent(NamedTuple):
    """A message that was sent; of a derived space also by which path."""

    key: Key
    sequence: int
    path: int = 0


@dataclass
class Taken:
    """A subscription of the connection: on a channel, or on a derived space and so on several.

    What was sent waits for its acknowledgement in order.
    """

    destination: str
    ack: str
    durable: bool
    keys: list[Key] = field(default_factory=list)
    waiting: deque[Sent] = field(default_factory=deque)
    done: set[Sent] = field(default_factory=set)

    def acknowledged(self, sent: Sent) -> dict[Key, int]:
        """How far each channel is done, if this is; nothing where it was not waited for."""
        if sent not in self.waiting:
            return {}
        if self.ack == "client":  # everything before it, too
            self.done.update(islice(self.waiting, self.waiting.index(sent) + 1))
        else:
            self.done.add(sent)
        upto: dict[Key, int] = {}
        while self.waiting and self.waiting[0] in self.done:
            one = self.waiting.popleft()
            self.done.discard(one)
            upto[one.key] = one.sequence
            if self.waiting and self.waiting[0][:2] == one[:2]:  # by another path
                upto[one.key] -= 1
        return upto


class StompServer(Listener):
    def __init__(self, parts: Parts) -> None:
        super().__init__(
            lambda reader, writer: StompConnection(parts, reader, writer).run(),
            parts.gate,
            _TOO_MANY,
        )


class StompConnection:
    """One connection: a session of the broker."""

    def __init__(
        self, parts: Parts, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.parts, self.writer = parts, writer
        self.visit: Visit | None = None
        self.session = 0
        self.taken: dict[str, Taken] = {}
        self._labels: dict[Key, str] = {}
        self._out = Outbox(writer, self._written)
        self._in = Inbox(reader, Decoder(), self._out, parts.gate)
        self._tasks: list[asyncio.Future[None]] = []
        self._ended = False
        self._task: asyncio.Task[None] | None = None

    @property
    def caller(self) -> Caller | None:
        return None if self.visit is None else self.visit.caller

    def _send_away(self, error: AccessError) -> None:
        """The caller has no business here any more."""
        if not self._ended and self._task is not None:
            self._error(str(error))
            self._task.cancel()

    async def run(self) -> None:
        self._task = asyncio.current_task()
        self._tasks.append(asyncio.ensure_future(self._out.write()))
        try:
            async for frame in self._in.frames():
                await self._receive(frame)
                if self._ended:
                    break
        except TimeoutError:
            self.parts.gate.late += 1
            self._error("nothing was heard for too long" if self._in.known else "CONNECT first")
        except WireError as error:
            self._error(str(error))
        finally:
            if self.visit is not None:
                self.parts.visits.leave(self.visit)
                self.parts.hub.disconnect(self.session)
            with contextlib.suppress(TimeoutError, ConnectionError):
                await asyncio.wait_for(self._out.drain(), 2)
            for task in self._tasks:
                task.cancel()
            self._out.end()
            self._tasks, self._task, self.visit = [], None, None

    # --- out ------------------------------------------------------------------------

    def _send(self, frame: Frame, count: int = 0) -> None:
        self._out.put(encode(frame), count)

    def _written(self, count: int) -> None:
        if self.session:
            self.parts.hub.written(self.session, count)

    def _error(self, text: str, receipt: str = "") -> None:
        headers = {"message": text.splitlines()[0] if text else "error"}
        if receipt:
            headers["receipt-id"] = receipt
        self._send(Frame("ERROR", headers, text.encode()))
        self._ended = True

    async def _beat(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self._out.put(b"\n")

    def _sink(self, action: act.ToSession) -> None:
        if isinstance(action, act.Taken):
            self._send_away(AccessError(f"another connection took {action.subscription.name}"))
        elif isinstance(action, act.Ended):
            self._send_away(AccessError(f"{action.subscription.label}: {action.error}"))
        elif isinstance(action, act.Lost):
            label = self._labels.get(action.subscription.key, "")
            lost = f"{action.first}-{action.last}"
            headers = {"subscription": label, "message-id": f"lost-{lost}", "destination": "/"}
            headers |= {"tamis-lost": lost, "tamis-lost-reason": action.reason}
            self._send(Frame("MESSAGE", headers))
        else:
            for subscription, record in action.messages:
                self._deliver(subscription, record)

    def _deliver(self, one: Subscription, record: Record) -> None:
        label = self._labels.get(one.key)
        if label is None:  # it was left while this was on its way
            self._out.put(b"", 1)
            return
        taken = self.taken[label]
        if one.shape is None:
            self._message(label, taken, Sent(one.key, record.sequence), record)
        else:
            for path, made in one.shape.made(record):
                sent = Sent(one.key, record.sequence, path)
                self._message(label, taken, sent, made, one.shape.channel)
        self._out.put(b"", 1)
        if taken.ack == "auto" and taken.durable:
            done = {one.key: record.sequence}
            self.parts.hub.loop.call_soon(self._acknowledge, done)

    def _message(
        self, label: str, taken: Taken, sent: Sent, record: Record, source: str = ""
    ) -> None:
        """`source`: the channel that a message of a derived space came from."""
        subject = "" if source else f"/{record.subject}"
        id = f"{label}:{record.sequence}" + (f"/{sent.path}/{source}" if source else "")
        headers = {
            "subscription": label,
            "message-id": id,
            "destination": f"{taken.destination}{subject}",
            "content-type": "application/json",
            "tamis-sequence": str(record.sequence),
            "tamis-time": str(record.time),
        }
        if source:
            headers |= {"tamis-source": source, "tamis-path": str(sent.path)}
        if taken.ack != "auto":
            headers["ack"] = id
            if taken.durable:
                taken.waiting.append(sent)
        self._send(Frame("MESSAGE", headers, record.body))

    # --- in -------------------------------------------------------------------------

    async def _receive(self, frame: Frame) -> None:
        receipt = frame.headers.get("receipt", "")
        try:
            if frame.command in ("CONNECT", "STOMP"):
                await self._connect(frame)
            elif self.caller is None:
                raise AccessError("CONNECT first", known=False)
            elif frame.command == "SEND":
                await self._publish(self.caller, frame, receipt)
                return
            elif frame.command == "SUBSCRIBE":
                await self._subscribe(self.caller, frame)
            elif frame.command == "UNSUBSCRIBE":
                self._unsubscribe(frame)
            elif frame.command == "ACK":
                self._ack(frame)
            elif frame.command == "NACK":
                self._named(frame.headers.get("id", "").rpartition(":")[0])
            elif frame.command == "DISCONNECT":
                self._ended = True
            else:
                raise MessageError(f"{frame.command} is not supported")
            if receipt:
                self._send(Frame("RECEIPT", {"receipt-id": receipt}))
        except TamisError as error:
            self._error(str(error), receipt)

    async def _connect(self, frame: Frame) -> None:
        if self.visit is not None:
            raise MessageError("this connection has sent CONNECT already: open another one")
        headers = frame.headers
        self._in.known = True  # who it is takes our time, not that of the peer
        versions = [v.strip() for v in headers.get("accept-version", "1.0").split(",")]
        version = next((v for v in ("1.2", "1.1") if v in versions), None)
        if version is None:
            raise MessageError("this server supports STOMP 1.1 and 1.2: send accept-version:1.2")
        can, wants = _beats(headers.get("heart-beat", "0,0"))
        caller = await self._recognised(headers.get("login", ""), headers.get("passcode", ""))
        self.session = self.parts.hub.connect(self._sink)
        self.visit = self.parts.visits.enter(caller, self._send_away, self.session)
        if wants:
            self._tasks.append(asyncio.ensure_future(self._beat(max(wants, _BEAT) / 2000)))
        self._in.silence = 2 * max(can, _BEAT) / 1000 if can else 0.0
        self._send(Frame("CONNECTED", {"version": version, "server": "tamis",
                                       "heart-beat": f"{_BEAT},{_BEAT}"}))  # fmt: skip

    async def _recognised(self, login: str, secret: str) -> Caller:
        recognition, address = self.parts.recognition, address_of(self.writer)
        if login:
            return await recognition.by_password(login, secret, address)
        if secret:  # a token needs no name
            return await recognition.by_token(secret, address)
        return await recognition.caller(None, address)

    async def _publish(self, caller: Caller, frame: Frame, receipt: str) -> None:
        name, subject = _destination(frame)
        channel = self.parts.channels.get(caller, name)
        headers = frame.headers
        if "transaction" in headers:
            raise MessageError("transactions are not supported")
        number = whole("tamis-sequence", headers.get("tamis-sequence", "0"))
        body = msgspec.Raw(_attributes(frame))
        message = Message(body, subject, number, headers.get("tamis-id", ""))
        publisher = headers.get("tamis-publisher", "")
        answer = partial(self._published, receipt)
        publishing = self.parts.publishing
        if len(frame.body) < LARGE:
            publishing.admit(caller, channel, publisher, [message], answer)
        else:
            await publishing.admit_large(caller, channel, publisher, [message], answer)

    def _published(self, receipt: str, found: list[int] | TamisError) -> None:
        if isinstance(found, TamisError):
            self._error(str(found), receipt)
        elif receipt:
            self._send(Frame("RECEIPT", {"receipt-id": receipt}))

    async def _subscribe(self, caller: Caller, frame: Frame) -> None:
        headers, parts = frame.headers, self.parts
        label, ack = headers.get("id", ""), headers.get("ack", "auto")
        if not label or label in self.taken:
            raise SubscriptionError("SUBSCRIBE needs an id that the connection does not use yet")
        check_label(label)
        if ack not in ("auto", "client", "client-individual"):
            raise SubscriptionError("ack is auto, client or client-individual")
        name, subjects = _destination(frame)
        start = sequence_or_text(headers.get("tamis-start", "now"))
        wish = Wish(headers.get("selector", ""), subjects or ">", start)
        durable = headers.get("tamis-durable") or headers.get("activemq.subscriptionName", "")
        taken = Taken(f"/{name}", ack, bool(durable))
        if "tamis-space" in headers:
            place = f"{name}/{headers['tamis-space']}"
            found = parts.spaces.check(caller, place, wish, {}, bool(durable))
        else:
            channel = parts.channels.get(caller, name)
            parts.subscribing.check(caller, channel, wish)
            place, found = "", [channel]
        own = durable or f"~{self.session}~{label}"
        taken.keys = [(channel.entry.number, own) for channel in found]
        self.taken[label] = taken
        self._labels |= dict.fromkeys(taken.keys, label)
        make = parts.subscribing
        if place:
            await parts.spaces.subscribe(
                caller, place, self.session, durable or label, wish, {}, bool(durable)
            )
        elif durable:
            await make.durable(caller, found[0], durable, wish, self.session)
        else:
            await make.live(caller, found[0], self.session, label, wish)

    def _named(self, label: str) -> Taken:
        found = self.taken.get(label)
        if found is None:
            raise SubscriptionError(f"this connection has no subscription {label!r}")
        return found

    def _unsubscribe(self, frame: Frame) -> None:
        label = frame.headers.get("id", "")
        taken = self._named(label)
        leave = self.parts.hub.broker.leave if taken.durable else self.parts.hub.broker.unsubscribe
        for key in taken.keys:
            leave(self.session, key)
            self._labels.pop(key, None)
        del self.taken[label]

    def _ack(self, frame: Frame) -> None:
        text = frame.headers.get("id") or frame.headers.get("message-id", "")
        label, _, place = text.rpartition(":")
        taken = self._named(label)
        number, _, rest = place.partition("/")
        path, _, source = rest.partition("/")
        key = self._key(taken, source) if rest else taken.keys[0]
        for part in (number, path or "0"):
            if not is_whole(part):
                raise SubscriptionError(f"{text!r} is no id of a message")
        self._acknowledge(taken.acknowledged(Sent(key, int(number), int(path or 0))))

    def _key(self, taken: Taken, source: str) -> Key:
        for key in taken.keys:
            channel = self.parts.channels.by_number.get(key[0])
            if channel is not None and channel.entry.name == source:
                return key
        raise SubscriptionError(f"{source[:40]!r} is no source of the subscription")

    def _acknowledge(self, upto: dict[Key, int]) -> None:
        session = self.parts.hub.broker.sessions.get(self.session)
        for key, sequence in upto.items():
            if session is not None and key in session.subscriptions:
                self.parts.hub.acknowledge(self.session, key, sequence)


def _destination(frame: Frame) -> tuple[str, str]:
    """The channel, and the subject or the subject filter (empty: none was said)."""
    text = frame.headers.get("destination", "")
    _, _, rest = text.partition("/")
    channel, _, subject = rest.partition("/")
    if not text.startswith("/") or not channel:
        raise MessageError(f"{text!r} is no destination: write /CHANNEL or /CHANNEL/SUBJECT")
    return channel, subject


def _attributes(frame: Frame) -> bytes:
    """A JSON object as it is; any other text is the attribute `body` beside the headers."""
    if frame.body.lstrip()[:1] == b"{":
        return frame.body
    try:
        text = frame.body.decode()
    except UnicodeDecodeError:
        raise MessageError("the body is not UTF-8") from None
    own = {k: v for k, v in frame.headers.items() if k not in _OWN and not k.startswith("tamis-")}
    return msgspec.json.encode({**own, "body": text})


def _beats(text: str) -> tuple[int, int]:
    """Milliseconds: how often the peer can send, and how often it wants to hear."""
    beats = [int(part) for part in map(str.strip, text.split(",")) if is_whole(part)]
    if len(beats) != 2 or text.count(",") != 1 or max(beats) > _MOST_BEAT:
        raise MessageError(
            f"heart-beat:{text[:40]} must be two numbers of milliseconds up to {_MOST_BEAT:,}, "
            "such as 0,10000"
        )
    return beats[0], beats[1]
