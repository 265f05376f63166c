"""Messages from outside: read, checked against rights and channel, and handed to the hub."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from tamis.errors import BusyError, ChannelError, MessageError, RegistryError, TamisError
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.judge import DECODE
from tamis.pubsub.subjects.subject import CONTROL, Subject
from tamis.server.access import Caller
from tamis.server.channels import Open
from tamis.server.hub import Answer, Hub, settle
from tamis.server.turns import Pool

MAX_BODY = 1 << 20  # bytes of one message
MAX_BATCH = 50_000  # messages of one request
LARGE = 1 << 16  # bytes of a request whose messages are checked in a thread
CHECK_THREADS = 2  # that check the messages of large requests; one for each principal
WAITING = 100  # large requests of one principal that wait for a thread
_SUBJECTS = 100_000  # subjects whose check is remembered
_BUCKETS = 1_000  # principals after which full buckets are dropped: they are as good as new


class Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message as JSON says it. `sequence` or `id` make sure that it is stored once."""

    attributes: msgspec.Raw
    subject: str = ""
    sequence: int = 0
    id: str = ""


_RECEIVED = {"time", "subscription", "source", "path", "summarised"}  # of messages that were sent
_PARTS = {*Message.__struct_fields__, *_RECEIVED}


def taken_apart(channel: Open, message: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Subject and attributes of a message in a question: as it is published or received, or its
    attributes alone. Without a subject it has the channel's name, as when it is published."""
    held = message.get("attributes")
    if not isinstance(held, dict) or not message.keys() <= _PARTS:
        return channel.entry.name, message
    subject = message.get("subject", "")
    if not isinstance(subject, str):
        raise MessageError("the subject of a message must be text, such as quotes.nyse")
    return subject or channel.entry.name, held


_one = msgspec.json.Decoder(Message)
_many = msgspec.json.Decoder(list[Message])


def read_messages(data: bytes, lines: bool) -> list[Message]:
    """One JSON object, an array of them, or one on each line."""
    try:
        if lines:
            found = _one.decode_lines(data)
        elif data.lstrip()[:1] == b"[":
            found = _many.decode(data)
        else:
            found = [_one.decode(data)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"this is no message: {error}") from None
    if len(found) > MAX_BATCH:
        raise MessageError(f"{len(found):,} messages are too many at once: {MAX_BATCH:,} are not")
    return found


class Bucket(NamedTuple):
    """Messages that a principal may publish at a moment, and when the bucket is full again."""

    left: float
    then: float
    full: float


@dataclass
class Publishing:
    """Rights, schema and rates of everything that is published, whatever protocol brings it."""

    hub: Hub
    checking: Pool = field(default_factory=lambda: Pool("checks", CHECK_THREADS, 1, WAITING))
    _allowed: set[tuple[str, int, str]] = field(default_factory=set)
    _buckets: dict[str, Bucket] = field(default_factory=dict)

    def read(self, data: bytes, lines: bool) -> list[Message]:
        """As `read_messages`. What cannot be read counts as one that is refused."""
        try:
            return read_messages(data, lines)
        except MessageError:
            self.hub.refused += 1
            raise

    def drafts(self, caller: Caller, channel: Open, messages: list[Message]) -> list[Draft]:
        """All messages checked; an error names the first that is bad."""
        found = []
        for place, message in enumerate(messages, 1):
            try:
                found.append(self._draft(caller, channel, message))
            except (MessageError, ChannelError) as error:
                if len(messages) > 1:
                    what = str(error)
                    raise MessageError(
                        f"message {place}: {what}", message=place, what=what
                    ) from None
                if isinstance(error, MessageError):
                    error.message = place
                raise
        return found

    def _draft(self, caller: Caller, channel: Open, message: Message) -> Draft:
        subject = message.subject or channel.entry.name
        self._check_subject(caller, channel, subject)
        body = bytes(message.attributes)
        if len(body) > MAX_BODY:
            raise MessageError(f"{len(body):,} bytes are too many: a message has {MAX_BODY:,}")
        try:
            attributes = DECODE(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise MessageError(f"the attributes are no JSON object: {error}") from None
        if message.sequence < 0 or message.sequence >= 2**63 or len(message.id) > 200:
            raise MessageError("a sequence is 0 to 2^63 - 1, an id has up to 200 characters")
        channel.live.language.checked(attributes)
        return Draft(subject, body, message.sequence, message.id)

    def _check_subject(self, caller: Caller, channel: Open, subject: str) -> None:
        key = caller.name, channel.entry.number, subject
        if key in self._allowed and caller.rights is None:
            return
        parsed = Subject.parse(subject)
        if parsed.fields[0] == CONTROL:
            raise MessageError(f"nothing is published under {subject}: # is for control")
        caller.require("publish", channel.entry.name, parsed)
        if channel.channel.subjects and parsed not in channel.channel.subjects:
            raise ChannelError(
                f"channel {channel.entry.name} has no subject {subject}: add it to the channel"
            )
        if len(self._allowed) >= _SUBJECTS:
            self._allowed.clear()
        self._allowed.add(key)

    def admit(
        self, caller: Caller, channel: Open, publisher: str, messages: list[Message], answer: Answer
    ) -> None:
        """Answers with sequences once everything is in the log; 0 for what was there already."""
        try:
            drafts = self.drafts(caller, channel, messages)
            self._admit(caller, channel, publisher, drafts, answer)
        except TamisError:
            self.hub.refused += len(messages)
            raise

    async def admit_large(
        self, caller: Caller, channel: Open, publisher: str, messages: list[Message], answer: Answer
    ) -> None:
        """The same; others go on while a thread checks the messages."""
        try:
            drafts = await self.large_drafts(caller, channel, messages)
            self._admit(caller, channel, publisher, drafts, answer)
        except TamisError:
            self.hub.refused += len(messages)
            raise

    async def large_drafts(
        self, caller: Caller, channel: Open, messages: list[Message]
    ) -> list[Draft]:
        return await self.checking.run(caller.name, self.drafts, caller, channel, messages)

    def _admit(
        self, caller: Caller, channel: Open, publisher: str, drafts: list[Draft], answer: Answer
    ) -> None:
        if caller.rate:
            self._take(caller, len(drafts))
        number = channel.entry.number
        if number not in self.hub.broker.channels:
            raise RegistryError(
                f"there is no channel {channel.entry.name}: it was closed", status=404
            )
        self.hub.publish(number, f"{caller.qualified}/{publisher}", drafts, answer)

    async def publish(
        self, caller: Caller, channel: Open, publisher: str, messages: list[Message], size: int
    ) -> list[int]:
        """The sequences of the messages, which had so many bytes."""
        future: asyncio.Future[list[int]] = self.hub.loop.create_future()
        answer = partial(settle, future)
        if size < LARGE:
            self.admit(caller, channel, publisher, messages, answer)
        else:
            await self.admit_large(caller, channel, publisher, messages, answer)
        return await future

    def _take(self, caller: Caller, count: int) -> None:
        """A token bucket: a second's worth may come at once."""
        now = time.monotonic()
        if len(self._buckets) >= _BUCKETS and caller.name not in self._buckets:
            self._buckets = {k: v for k, v in self._buckets.items() if v.full > now}
        left, then, _ = self._buckets.get(caller.name, Bucket(caller.rate, now, now))
        left = min(caller.rate, left + (now - then) * caller.rate)
        busy = left < min(count, caller.rate)
        left -= 0 if busy else count
        self._buckets[caller.name] = Bucket(left, now, now + 1 - left / caller.rate)
        if busy:
            raise BusyError(f"{caller.name} may publish {caller.rate:g} messages a second")
