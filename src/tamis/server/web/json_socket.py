"""The JSON protocol of WebSockets: requests in, answers and gathered deliveries out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from tamis.errors import (
    AccessError,
    FaultError,
    MessageError,
    SelectorError,
    SubscriptionError,
    TamisError,
)
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.epochs import Epoch, Epochs, agreed
from tamis.pubsub.broker.stored import Key
from tamis.pubsub.broker.subscription import Subscription
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.channels import Open
from tamis.server.frames import encode
from tamis.server.numbers import Whole
from tamis.server.publishing import Message
from tamis.server.spaces import leave
from tamis.server.subscribing import Wish
from tamis.server.web.arrow_frames import Pair, arrow_frame
from tamis.server.web.frame_reader import POLICY
from tamis.server.web.raw_socket import RawSocket

MAX_WAITING = 1_000  # requests of one connection that are not answered yet
MAX_SUBSCRIPTIONS = 10_000  # of one connection
_PUBLISHED = b'{"type":"published","request":%d,"sequences":%b}'
_LARGE = 1 << 18  # bytes of a request whose messages are checked in a thread: peers have turns
_PIECE = 1 << 16  # bytes that are handed to the transport at a time


class Publish(msgspec.Struct, tag="publish", forbid_unknown_fields=True):
    channel: str
    messages: list[Message]
    publisher: str = ""
    request: Whole = 0


class Subscribe(msgspec.Struct, tag="subscribe", forbid_unknown_fields=True):
    channel: str
    name: str
    selector: str = ""
    subjects: str = ">"
    start: str | Whole = "now"
    window: Whole = 0
    durable: bool = False
    summary: str = ""
    catch_up: Literal["all", "shortest"] = "all"
    starts: dict[str, Whole] = {}  # of a derived space: where each of its channels begins
    epoch: str = ""  # of the log when the peer was here last, or at another router
    have: Whole = 0  # the last sequence that it got then
    done: Whole = 0  # and the last one that it acknowledged
    request: Whole = 0


class Unsubscribe(msgspec.Struct, tag="unsubscribe", forbid_unknown_fields=True):
    """`end`: a durable subscription goes for ever; else only this connection leaves it."""

    name: str
    end: bool = False
    request: Whole = 0


class Acknowledge(msgspec.Struct, tag="ack", forbid_unknown_fields=True):
    name: str
    sequence: Whole
    source: str = ""  # of a derived space: the channel that the message came from


class Numbered(msgspec.Struct):
    """What can be said of a request that is not one of ours."""

    request: int = 0


Request = Publish | Subscribe | Unsubscribe | Acknowledge
_decode: Callable[[bytes], Request] = msgspec.json.Decoder(Request).decode
_decode_number: Callable[[bytes], Numbered] = msgspec.json.Decoder(Numbered).decode
# Of text that is not JSON: a number that only the outermost object can have.
_FIRST = re.compile(rb'\s*\{\s*(?:"type"\s*:\s*"\w*"\s*,\s*)?"request"\s*:\s*(\d{1,18})\s*[,}]')
_LAST = re.compile(rb'"request"\s*:\s*(\d{1,18})\s*\}\s*\Z')


class Connection:
    """One WebSocket: a session of the broker.

    Requests are done in the order in which they came. Publishing and acknowledging are done at
    once; while another request takes its time, the peer is not listened to.
    """

    def __init__(
        self, parts: Parts, caller: Caller, raw: RawSocket, arrow: bool = False,
        origin: bool = False,
    ) -> None:  # fmt: skip
        """`arrow`: messages come as Arrow streams in binary frames, all else as JSON. `origin`:
        JSON says who published each message, under which number."""
        self.parts, self.raw, self.arrow = parts, raw, arrow
        self.frames = parts.frames_with_origin if origin else parts.frames
        self.names: dict[str, dict[str, Key]] = {}  # by label: channels, and the key in each
        self._out: list[tuple[bytes, int]] = []  # lists, for they are smaller while empty
        self._gathered = False
        self._size = 0  # bytes in `_out`
        self._working = False
        self._waiting = 0
        self._unwritten = 0  # messages in binary frames that the transport may still hold
        self.session = parts.hub.connect(self._sink, write=None if arrow or origin else self._send)
        self.visit = parts.visits.enter(caller, self._send_away, self.session)
        parts.hub.in_force[self.session] = self._in_force
        parts.hub.new_epoch[self.session] = self._new_epoch
        raw.attach(self._take, self._flush)

    @property
    def caller(self) -> Caller:
        return self.visit.caller

    def _send_away(self, error: AccessError) -> None:
        """The caller has no business here any more."""
        self._fail(0, error)
        self._flush()
        self.raw.end(POLICY)

    def close(self) -> None:
        self.parts.visits.leave(self.visit)
        self.parts.hub.disconnect(self.session)
        self.raw.detach()

    def _in_force(self, one: Subscription, since: int) -> None:
        """The home of the channel has heard of it: nothing from `since` on is missed anywhere."""
        self._tell(type="in_force", subscription=one.label, since=since)

    def _new_epoch(self, one: Subscription, epoch: Epoch) -> None:
        """The home of the channel opened its log again; `first` is the first sequence since."""
        self._tell(type="epoch", subscription=one.label, epoch=epoch.name, first=epoch.first)

    # --- out ------------------------------------------------------------------------

    def _sink(self, action: act.ToSession) -> None:
        match action:
            case act.Deliver() if self.arrow:
                self._send_arrow(action.messages)
            case act.Deliver():
                frame = self.frames.frame(action.messages)
                self._send(frame, len(action.messages))
            case act.Lost():
                self._tell(type="lost", subscription=action.subscription.label,
                           first=action.first, last=action.last, reason=action.reason)  # fmt: skip
            case act.Taken():
                self.names.pop(action.subscription.label, None)
                self._tell(type="taken", subscription=action.subscription.label)
            case act.Ended():
                self._end(action)

    def _end(self, action: act.Ended) -> None:
        """Of a subscription on a derived space its other channels are left, too."""
        label = action.subscription.label
        broker = self.parts.hub.broker
        for key in self.names.pop(label, {}).values():
            other = broker.sessions[self.session].subscriptions.get(key)
            if other is not None:
                leave(broker, self.session, other)
        self._tell(type="ended", subscription=label, **told(action.error),
                   status=action.error.status)  # fmt: skip

    def _send(self, message: bytes, count: int = 0) -> None:
        """Gathered: what one turn of the broker says to a peer leaves in one piece."""
        self._out.append((message, count))
        self._size += len(message)
        if self._size > _PIECE and self.raw.ready:
            self._flush()  # a peer that does not read must not go on until the turn ends
        elif not self._gathered:
            self._gathered = True
            self.parts.hub.afterwards(self._flush)

    def _send_arrow(self, messages: Sequence[Pair]) -> None:
        """At once, each channel by itself; a slow peer is held back by its room alone."""
        by_channel: dict[int, list[Pair]] = {}
        for pair in messages:
            by_channel.setdefault(pair[0].channel, []).append(pair)
        self._flush()
        for number, pairs in by_channel.items():
            channel = self.parts.hub.broker.channels.get(number)
            if channel is not None:
                self.raw.send_binary(arrow_frame(channel.language.schema, pairs))
        self._unwritten += len(messages)
        self._give_room()

    def _give_room(self) -> None:
        if self.raw.ready and self._unwritten:
            self.parts.hub.written(self.session, self._unwritten)
            self._unwritten = 0

    def _tell(self, **fields: Any) -> None:
        self._send(encode(fields))

    def _flush(self) -> None:
        """The transport holds us back where the peer is slow; room comes back as frames leave."""
        self._gathered = False
        out, raw = self._out, self.raw
        self._give_room()
        if len(out) == 1 and raw.ready:
            message, count = out.pop()
            self._size = 0
            raw.send_text(message)
            if count:
                self.parts.hub.written(self.session, count)
            return
        while out and raw.ready:
            self._flush_piece()

    def _flush_piece(self) -> None:
        texts, count, size = [], 0, 0
        for text, messages in self._out:
            texts.append(text)
            count += messages
            size += len(text)
            if size >= _PIECE:
                break
        del self._out[: len(texts)]
        self._size -= size
        self.raw.send_texts(texts)
        if count:
            self.parts.hub.written(self.session, count)

    # --- in -------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        request = 0
        try:
            try:
                found = _decode(data)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                request = _request_number(data)
                raise MessageError(f"this is not a request: {error}") from None
            if isinstance(found, Acknowledge):
                self.parts.hub.acknowledge(self.session, self._key(found), found.sequence)
                return
            request = found.request
            if isinstance(found, Publish) and len(data) < _LARGE:
                self._publish(found)
            else:
                self._working = True
                self.raw.hold()
                self.parts.hub.keep(self._work(found))
        except TamisError as error:
            self._fail(request, error)

    async def _work(self, found: Subscribe | Unsubscribe | Publish) -> None:
        try:
            if isinstance(found, Subscribe):
                await self._subscribe(found)
            elif isinstance(found, Publish):
                await self._publish_large(found)
            else:
                await self._unsubscribe(found)
        except TamisError as error:
            self._fail(found.request, error)
        except Exception as error:  # a bug: the peer would wait for ever
            self._fail(found.request, FaultError(error))
            raise
        finally:
            self._working = False
            self._go_on()

    def _go_on(self) -> None:
        if not self._working and self._waiting <= MAX_WAITING:
            self.raw.resume()

    def _fail(self, request: int, error: TamisError) -> None:
        self._tell(type="error", request=request, **told(error), status=error.status)

    def _publish(self, found: Publish) -> None:
        parts, caller = self.parts, self.visit.caller
        channel = parts.channels.get(caller, found.channel)
        answer = partial(self._published, found.request)
        parts.publishing.admit(caller, channel, found.publisher, found.messages, answer)
        self._waiting += 1
        if self._waiting > MAX_WAITING:  # the peer must wait as well
            self.raw.hold()

    async def _publish_large(self, found: Publish) -> None:
        parts = self.parts
        channel = parts.channels.get(self.caller, found.channel)
        self._waiting += 1
        try:
            await parts.publishing.admit_large(
                self.caller, channel, found.publisher, found.messages,
                partial(self._published, found.request),
            )  # fmt: skip
        except BaseException:
            self._waiting -= 1
            raise

    def _published(self, request: int, found: list[int] | TamisError) -> None:
        self._waiting -= 1
        if isinstance(found, TamisError):
            self._fail(request, found)
        else:
            sequences = b"[%d]" % found[0] if len(found) == 1 else encode(found)
            self._send(_PUBLISHED % (request, sequences))
        if self.raw.held:
            self._go_on()

    async def _subscribe(self, found: Subscribe) -> None:
        if found.name in self.names:
            raise SubscriptionError(
                f"this connection has a subscription {found.name!r} already", status=409
            )
        if len(self.names) >= MAX_SUBSCRIPTIONS:
            raise SubscriptionError(f"a connection has up to {MAX_SUBSCRIPTIONS:,} subscriptions")
        parts, caller = self.parts, self.caller
        wish = Wish(found.selector, found.subjects, found.start, found.window,
                    summary=found.summary, catch_up=found.catch_up)  # fmt: skip
        if "/" in found.channel:
            if self.arrow:
                raise SubscriptionError("messages of derived spaces come as JSON, not as Arrow")
            made = await parts.spaces.subscribe(
                caller, found.channel, self.session, found.name, wish, found.starts, found.durable
            )
            self.names[found.name] = {channel: one.key for channel, one in made.items()}
            cursors = {channel: one.cursor for channel, one in made.items()}
            self._tell(type="subscribed", request=found.request, name=found.name, notes=[],
                       cursors=cursors)  # fmt: skip
            return
        channel = parts.channels.get(caller, found.channel)
        parts.subscribing.check(caller, channel, wish)
        notes = await parts.notes(caller, channel, wish, found.name)
        make = parts.subscribing
        epochs = await self._epochs(channel)
        if found.epoch:
            elsewhere = channel.live.elsewhere
            if elsewhere is not None and all(one.name != found.epoch for one in epochs):
                await elsewhere.confirm()  # this copy may not have heard of it yet
                epochs = elsewhere.epochs
            self._check_log(found, channel, wish, epochs)
        if found.durable:
            done = min(found.done, found.have)
            one = await make.durable(caller, channel, found.name, wish, self.session, done=done)
        else:
            one = await make.live(caller, channel, self.session, found.name, wish)
        self.names[found.name] = {found.channel: one.key}
        self._tell(type="subscribed", request=found.request, name=found.name, notes=notes,
                   cursor=one.cursor, epoch=epochs[-1].name if epochs else "",
                   since=_since(channel, one))  # fmt: skip

    async def _epochs(self, channel: Open) -> Epochs:
        hub, live = self.parts.hub, channel.live
        await hub.judged(live)
        if live.elsewhere is not None:
            return live.elsewhere.epochs
        epochs: Epochs = await hub.in_reader(hub.log.epochs, channel.entry.number)
        return epochs

    def _check_log(self, found: Subscribe, channel: Open, wish: Wish, epochs: Epochs) -> None:
        """Tell the peer, before any message, if this is not the log that it knows: up to where the
        two agree. It goes on after that."""
        known = agreed(epochs, found.epoch, found.have)
        if channel.live.elsewhere is None:  # a copy may be behind the peer
            known = min(known, channel.live.next - 1)
        if known < found.have:
            self._tell(type="replaced", subscription=found.name, agreed=known)
            found.done = min(found.done, known)
            found.have = known
            if isinstance(wish.start, int) and wish.start > known + 1:
                wish.start = known + 1

    def _key(self, found: Acknowledge) -> Key:
        keys = self._named(found.name)
        if not found.source and len(keys) == 1:
            return next(iter(keys.values()))
        if found.source not in keys:
            raise SubscriptionError(f"name a source of {found.name!r}: {', '.join(keys)}")
        return keys[found.source]

    def _named(self, name: str) -> dict[str, Key]:
        found = self.names.get(name)
        if found is None:
            raise SubscriptionError(f"this connection has no subscription {name!r}", status=404)
        return found

    async def _unsubscribe(self, found: Unsubscribe) -> None:
        parts = self.parts
        for name, key in self._named(found.name).items():
            channel = parts.channels.get(self.caller, name)
            known = channel.live.subscriptions.get(key[1])
            if known is not None and known.durable and found.end:
                await parts.subscribing.end(self.caller, channel, found.name, self.session)
            elif known is not None:
                leave(parts.hub.broker, self.session, known)
        parts.hub.pump()
        del self.names[found.name]
        self._tell(type="unsubscribed", request=found.request, name=found.name)


def _since(channel: Open, one: Subscription) -> int:
    """From where on it is in force everywhere; 0: the home has not heard of it yet."""
    elsewhere = channel.live.elsewhere
    return one.cursor + 1 if elsewhere is None else elsewhere.since.get(one.name, 0)


def _request_number(data: bytes) -> int:
    """The number of a request that cannot be read, so that its sender need not wait for the
    answer; 0 if it has none."""
    try:
        return _decode_number(data).request
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = _FIRST.match(data[:100]) or _LAST.search(data[-100:])
        return int(found[1]) if found else 0


def told(error: TamisError) -> dict[str, Any]:
    """An error as JSON tells it."""
    if isinstance(error, SelectorError):
        return {"error": error.what, "at": error.at, "hint": error.hint, "text": str(error)}
    if isinstance(error, MessageError) and error.message:
        return {"error": error.what, "message": error.message, "text": str(error)}
    return {"error": str(error)}
