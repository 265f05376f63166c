"""Names of attributes that are likely to be mistakes: `prise` where all messages have `price`.

Messages may carry attributes that their channel does not declare, so a name is never an error. A
note says that a channel neither declares nor, as far as recent messages go, has it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tamis.errors import LogError
from tamis.language import parse
from tamis.language.tree import attributes
from tamis.language.types import nearest
from tamis.log.log_protocol import Log
from tamis.pubsub.broker.selected_columns import FIELD
from tamis.server.access import Caller
from tamis.server.channels import Open
from tamis.server.hub import Hub

RECENT = 2_000  # messages that are looked at
MAX_NAMES = 10_000  # that are remembered of a channel; with more, nothing is called a mistake
_DEPTH = 8  # of nested messages whose names are remembered


@dataclass
class Seen:
    """The names in recent messages of a channel, and how far they were read."""

    names: set[str] = field(default_factory=set)
    messages: int = 0
    upto: int = 0  # the last sequence that was read

    def lacks(self, name: str) -> bool:
        """Whether no message had it, as far as is known."""
        return bool(self.messages) and len(self.names) < MAX_NAMES and name not in self.names


class Spelling:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._seen: dict[int, Seen] = {}  # by number of the channel
        self._troubled: dict[int, tuple[Any, dict[str, str]]] = {}

    async def look(self, channel: Open) -> Seen:
        """Read what was published since the last look."""
        number, last = channel.entry.number, channel.live.matched
        for gone in self._seen.keys() - self._hub.broker.channels.keys():
            del self._seen[gone]
            self._troubled.pop(gone, None)
        seen = self._seen.setdefault(number, Seen())
        first = max(seen.upto + 1, last + 1 - RECENT)
        if first <= last:
            with contextlib.suppress(LogError):  # a note less
                await self._hub.in_reader(_read, self._hub.log, number, first, seen)
        return seen

    async def of_selector(self, caller: Caller, channel: Open, selector: str) -> list[str]:
        """Notes on the attributes that a selector tests."""
        names = [n for n in _names(channel, selector) if not _declared(channel, n)]
        if not names:
            return []
        # What others publish must not show: who reads only a part is not told of its names.
        seen = await self.look(channel) if caller.reads_all(channel.entry.name) else Seen()
        known = [*channel.live.language.schema, *seen.names]
        notes = []
        for name in names:
            hint = nearest(name, known)
            if seen.lacks(name):
                count = f"none of the last {min(seen.messages, RECENT):,} messages has {name}"
                notes.append(f"{count}: {hint}" if hint else count)
            elif hint and name not in seen.names:
                notes.append(f"{channel.entry.name} does not declare {name}: {hint}")
        return notes

    def of_message(self, caller: Caller, channel: Open, names: Iterable[str]) -> list[str]:
        """Notes on attributes of messages that are neither declared, as all are that flows and
        summaries read, nor tested by a selector."""
        tested = _tested(channel)
        if not tested and not len(channel.live.language.schema):
            return []
        shown = tested if caller.may("manage", channel.entry.name) else set()
        known = [*channel.live.language.schema, *shown]
        notes = []
        for name in names:
            used = any(name == one or one.startswith(f"{name}.") for one in tested)
            if not used and not _declared(channel, name):
                hint = nearest(name, known)
                what = f"{channel.entry.name} does not declare {name}, and no subscription tests it"
                notes.append(f"{what}: {hint}" if hint else what)
        return notes

    async def look_for_problems(self, channels: Iterable[Open]) -> None:
        """What is needed before `troubled`: only channels with tests that all messages lacked."""
        for channel in channels:
            seen = self._seen.get(channel.entry.number)
            if seen is None or not seen.messages or self._lacking(channel):
                await self.look(channel)

    def troubled(self, channel: Open) -> dict[str, str]:
        """By name of a subscription: the attribute that it tests and no message had. Some match all
        the same, as by IS NULL. There may be a million subscriptions: kept until something changes.
        """
        number, lacking = channel.entry.number, self._lacking(channel)
        key = channel.live.judge.changes, lacking
        known, found = self._troubled.get(number, (None, {}))
        if known != key:
            found = {}
            for one in list(channel.live.subscriptions.values()) if lacking else ():
                selector = one.filter.selector
                if any(name in selector for name in lacking):
                    missing = [n for n in _names(channel, selector) if n in lacking]
                    if missing:
                        found[one.name] = missing[0]
            self._troubled[number] = key, found
        return found

    def problem(self, channel: Open, name: str, hints: bool) -> str:
        """That no message has the attribute; `hints`: whether names in messages may be shown."""
        seen = self._seen[channel.entry.number]
        known = {*channel.live.language.schema, *(seen.names if hints else ())} - {name}
        count = f"none of the last {min(seen.messages, RECENT):,} messages has {name}"
        hint = "" if name in channel.live.language.schema else nearest(name, known)
        return f"{count}: {hint}" if hint else count

    def _lacking(self, channel: Open) -> set[str]:
        """The names that some subscription tests and no message had."""
        seen = self._seen.get(channel.entry.number, Seen())
        return {name for name in _tested(channel) if seen.lacks(name)}


def _tested(channel: Open) -> set[str]:
    tested = channel.live.judge.matcher.attributes
    return {name for name in tested if not name.startswith(FIELD)}


def _names(channel: Open, selector: str) -> tuple[str, ...]:
    language = channel.live.language
    if not selector:
        return ()
    return attributes(parse(selector, dialect=language.dialect, limits=language.limits))


def _declared(channel: Open, name: str) -> bool:
    schema = channel.live.language.schema
    return name in schema or name.partition(".")[0] in schema


def _read(log: Log, channel: int, first: int, seen: Seen) -> None:
    """In a thread of the log's readers."""
    for record in log.read(channel, first, RECENT):
        if record.sequence > seen.upto:  # another look may have been here meanwhile
            seen.upto, seen.messages = record.sequence, seen.messages + 1
            if len(seen.names) < MAX_NAMES:
                seen.names.update(_inside(msgspec.json.decode(record.body), "", _DEPTH))


def _inside(value: Any, place: str, depth: int) -> Iterator[str]:
    """The names in a message as selectors have them: `order.customer`."""
    if isinstance(value, list):
        for inner in value:
            yield from _inside(inner, place, depth)
    elif isinstance(value, dict) and depth:
        for name, inner in value.items():
            if inner is not None:
                path = f"{place}.{name}" if place else name
                yield path
                if type(inner) in (dict, list):
                    yield from _inside(inner, path, depth - 1)
