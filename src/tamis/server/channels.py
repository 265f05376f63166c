"""The channel manager: creates, changes, lists and closes channels."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tamis.errors import ChannelError, HoleError, RegistryError, VersionError
from tamis.pubsub.broker.intake import Admission
from tamis.pubsub.broker.judge import Language, refuse_reserved
from tamis.pubsub.broker.live_channel import LiveChannel
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.stored import Stored
from tamis.pubsub.subjects.channel import Channel, ChannelAttribute, Properties
from tamis.pubsub.subjects.channel_files import read_channels, write_toml
from tamis.pubsub.subjects.typecodes import FORMS, named
from tamis.registry import VERBS, ChannelEntry
from tamis.server.access import Caller
from tamis.server.hub import Hub, uncut
from tamis.server.locks import Locks
from tamis.server.snapshots import Snapshots

LOG = logging.getLogger("tamis.server")
MAX_RETENTION = 52_560_000  # minutes: a hundred years
MAX_RETENTION_BYTES = 1 << 50
_SAVE = 30.0  # seconds between two looks at what changed


class ChannelForm(msgspec.Struct, forbid_unknown_fields=True):
    """A channel as JSON says it. Retention in minutes and bytes; null is without end."""

    sentence: str = ""
    attributes: dict[str, str] = {}
    subjects: list[str] = []
    semantics: str = "sql"
    dialect: str = "tamis"
    retention: Annotated[int, msgspec.Meta(ge=1, le=MAX_RETENTION)] | None = None
    retention_bytes: Annotated[int, msgspec.Meta(ge=0, le=MAX_RETENTION_BYTES)] = 0
    file: str = ""  # the channel as TOML or in the form of table 13, instead of attributes


@dataclass
class Open:
    """A channel that is open: its entry, its form, and its place in the broker."""

    entry: ChannelEntry
    channel: Channel
    live: LiveChannel

    @property
    def tag(self) -> str:
        """Names this version of it; a later channel of the same name has other tags."""
        return f'"{self.entry.number}-{self.entry.version}"'


class Channels:
    def __init__(self, hub: Hub, matchers: Path) -> None:
        self.hub = hub
        self.by_name: dict[tuple[str, str], Open] = {}
        self.by_number: dict[int, Open] = {}
        self.snapshots = Snapshots(matchers)
        self._changing = Locks()  # by tenant and name: made, changed and closed one at a time

    def load(self) -> None:
        """All channels of the registry, with their subscriptions, as the broker starts."""
        bounds = {p.login: p.selector for p in self.hub.registry.principals()}
        for entry in self.hub.registry.channels():
            self._open(entry, bounds)
        self.hub.keep(self.hub.watch.repeat("snapshots", _SAVE, self._save))
        self.hub.last.append(self.save)

    def _open(self, entry: ChannelEntry, bounds: dict[str, str]) -> Open:
        (channel,) = read_channels(entry.form).values()
        log, number = self.hub.log, entry.number
        first, following = log.bounds(number)
        last: list[Record] = []
        with contextlib.suppress(HoleError):  # only its time is wanted, and the clock goes on
            last = log.read(number, following - 1, 1) if following > first else []
        remembered = log.remembered(number)
        live = self.hub.broker.open(
            number,
            Language(channel.schema, entry.semantics, entry.dialect),
            following,
            last[0].time if last else 0,
            Admission.of(remembered.numbers, remembered.ids),
            ((s, bounds.get(s.principal, "")) for s in self._subscriptions(entry, following)),
            self.snapshots.load(number),
        )
        for name, tally in self.hub.registry.tallies(number).items():
            if (one := live.subscriptions.get(name)) is not None:
                one.matched, one.delivered = tally
        self.hub.absences.load(live, entry.name)
        found = Open(entry, channel, live)
        self.by_name[entry.tenant, entry.name] = self.by_number[number] = found
        return found

    def _subscriptions(self, entry: ChannelEntry, following: int) -> Iterator[Stored]:
        """Those of the registry. A log that was replaced or restored ends before some cursors:
        these go back, for what comes now are other messages."""
        beyond: list[Stored] = []
        for one in self.hub.registry.subscriptions(entry.number):
            if one.cursor < following:
                yield one
                continue
            last = msgspec.structs.replace(one.versions[-1], since=following)
            back = msgspec.structs.replace(one, cursor=following - 1, versions=(last,))
            beyond.append(back)
            yield back
        if beyond:
            self.hub.registry.change_subscriptions(beyond)
            LOG.error(
                "channel %s: %d durable subscriptions had got further than its log goes (to %d): "
                "it was replaced or restored, and they go on at its end",
                entry.name, len(beyond), following - 1,
            )  # fmt: skip

    # --- finding --------------------------------------------------------------------

    def get(self, caller: Caller, name: str) -> Open:
        """A channel of the caller's tenant; of another's it looks as if there were none."""
        caller.require_sight(name)
        found = self.by_name.get((caller.tenant, name))
        if found is None:
            raise RegistryError(f"there is no channel {name}", status=404)
        return found

    def visible(self, caller: Caller) -> list[Open]:
        found = (c for (tenant, _), c in self.by_name.items() if tenant == caller.tenant)
        return [c for c in found if caller.sees(c.entry.name)]

    # --- changing -------------------------------------------------------------------

    async def put(
        self, caller: Caller, name: str, form: ChannelForm, match: str | None = None
    ) -> tuple[Open, bool]:
        """Create it, or change it if it is there; and whether it was created."""
        caller.require("manage", name)
        async with self._changing.alone((caller.tenant, name)):
            known = self.by_name.get((caller.tenant, name))
            _check_version(name, known, match)
            if known is None:
                return await uncut(self._create(caller, name, form)), True
            return await uncut(self._change(known, form)), False

    async def create(self, caller: Caller, name: str, form: ChannelForm) -> Open:
        caller.require("manage", name)
        async with self._changing.alone((caller.tenant, name)):
            if (caller.tenant, name) in self.by_name:
                raise RegistryError(f"there is a channel {name} already", status=409)
            return await uncut(self._create(caller, name, form))

    async def _create(self, caller: Caller, name: str, form: ChannelForm) -> Open:
        def make(number: int) -> ChannelEntry:
            return _entry(_channel(number, form), caller.tenant, name, form)

        entry = await self.hub.in_registry(self.hub.registry.create_channel, make)
        return self._open(entry, {})

    async def adopt(self, entry: ChannelEntry) -> Open:
        """A copy of a channel whose home is elsewhere, as it is there; its number is our own.
        RegistryError if a channel of this name is at home here."""
        async with self._changing.alone((entry.tenant, entry.name)):
            return await uncut(self._adopt(entry))

    async def _adopt(self, entry: ChannelEntry) -> Open:
        known, hub = self.by_name.get((entry.tenant, entry.name)), self.hub
        if known is None:
            made = await hub.in_registry(
                hub.registry.create_channel,
                lambda number: msgspec.structs.replace(entry, number=number, version=1),
            )
            await hub.in_writer(hub.log.keep_epochs, made.number, ())
            return self._open(made, {})
        if known.entry.number not in hub.log.copies:
            raise RegistryError(f"channel {entry.name} is at home here already")
        kept = {"number": known.entry.number, "version": known.entry.version}
        told = msgspec.structs.replace(entry, **kept)
        if told != known.entry:
            (channel,) = read_channels(entry.form).values()
            await self._replace(known, told, channel)
            known.live.language = known.live.judge.language = Language(
                channel.schema, entry.semantics, entry.dialect
            )
        return known

    async def begin_anew(self, known: Open) -> Open:
        """Drop a copy, which is of another log than its home's. Subscriptions stay."""
        number = known.entry.number
        self.hub.broker.close(number)
        self.hub.pump()
        await self.hub.in_writer(self.hub.log.drop, number)
        await self.hub.in_writer(self.hub.log.keep_epochs, number, ())
        bounds = {p.login: p.selector for p in self.hub.registry.principals()}
        return self._open(known.entry, bounds)

    async def change(self, caller: Caller, name: str, form: ChannelForm) -> Open:
        caller.require("manage", name)
        async with self._changing.alone((caller.tenant, name)):
            return await uncut(self._change(self.get(caller, name), form))

    async def _change(self, known: Open, form: ChannelForm) -> Open:
        """Attributes and subjects may be added, never taken away; the rest is as in the form."""
        name, told = known.entry.name, _channel(known.entry.number, form)
        if form.file:
            _check_numbers(known.channel, told)
        channel = _grown(known.channel, told, name)
        if (form.semantics, form.dialect) != (known.entry.semantics, known.entry.dialect):
            raise ChannelError(f"channel {name}: semantics and dialect stay what they are")
        await self._replace(known, _entry(channel, known.entry.tenant, name, form), channel)
        language = replace(known.live.language, schema=channel.schema)
        known.live.language = known.live.judge.language = language
        return known

    async def add_subject(self, caller: Caller, known: Open, subject: str, mapping: str) -> None:
        """One more subject (table 9); `mapping` numbers its fields, else they get free numbers."""
        caller.require("manage", known.entry.name)
        async with self._changing.alone((caller.tenant, known.entry.name)):
            if self.get(caller, known.entry.name) is not known:
                raise RegistryError(
                    f"there is no channel {known.entry.name}: it was closed", status=404
                )
            channel = known.channel.with_subject(subject, mapping)
            entry = msgspec.structs.replace(known.entry, form=write_toml([channel]))
            await uncut(self._replace(known, entry, channel))

    async def _replace(self, known: Open, entry: ChannelEntry, channel: Channel) -> None:
        entry = msgspec.structs.replace(entry, version=known.entry.version + 1)
        await self.hub.in_registry(self.hub.registry.change_channel, entry)
        known.entry, known.channel = entry, channel

    async def close(self, caller: Caller, name: str, match: str | None = None) -> None:
        """The channel goes with its messages and subscriptions."""
        caller.require("manage", name)
        async with self._changing.alone((caller.tenant, name)):
            known = self.get(caller, name)
            _check_version(name, known, match)
            await uncut(self._close(known))

    async def _close(self, known: Open) -> None:
        """From the registry first: if that fails, all stays as it is."""
        number = known.entry.number
        await self.hub.in_registry(self.hub.registry.remove_channel, number)
        del self.by_name[known.entry.tenant, known.entry.name], self.by_number[number]
        self.hub.broker.close(number)
        self.hub.pump()
        self.snapshots.forget(number)
        self.hub.absences.forget(number)
        self.hub.watch.forget(number)
        await self.hub.in_writer(self.hub.log.drop, number)

    # --- snapshots ------------------------------------------------------------------

    async def _save(self) -> None:
        await asyncio.to_thread(self.save)

    def save(self) -> None:
        """Keep the matchers that changed much, so that the next start need not build them."""
        for known in list(self.by_name.values()):
            self.snapshots.save(known.entry.number, known.live.judge)


def _check_version(name: str, known: Open | None, match: str | None) -> None:
    """`match` is an If-Match header: versions one of which the channel must have, or `*`."""
    if match is None:
        return
    tags = [tag.strip() for tag in match.split(",")]
    if known is None or (known.tag not in tags and tags != ["*"]):
        has = "there is none" if known is None else f"it is {known.tag} now"
        raise VersionError(f"channel {name} is not in version {match[:80]}: {has}")


def _entry(channel: Channel, tenant: str, name: str, form: ChannelForm) -> ChannelEntry:
    for attribute in channel.attributes:
        refuse_reserved(attribute.name)
    try:
        return msgspec.convert(
            {
                "number": channel.id,
                "tenant": tenant,
                "name": name,
                "form": write_toml([channel]),
                "sentence": form.sentence,
                "semantics": form.semantics,
                "dialect": form.dialect,
                "retention_bytes": form.retention_bytes,
            },
            ChannelEntry,
        )
    except msgspec.ValidationError as error:
        raise ChannelError(f"channel {name}: {error}") from None


def _channel(number: int, form: ChannelForm) -> Channel:
    """The channel that the form tells of. A broker keeps the messages of every channel."""
    channel = _told_channel(number, form)
    retention = channel.properties.retention
    if retention is not None and not 1 <= retention <= MAX_RETENTION:
        raise ChannelError(f"retention is 1 to {MAX_RETENTION:,} minutes")
    if not 0 <= form.retention_bytes <= MAX_RETENTION_BYTES:
        raise ChannelError(f"retention_bytes is 0 to {MAX_RETENTION_BYTES:,}")
    return channel


def _told_channel(number: int, form: ChannelForm) -> Channel:
    if not form.file:
        channel = Channel(number, _attributes(form), properties=_properties(form))
        for subject in form.subjects:
            channel = channel.with_subject(subject)
        return channel
    if form.attributes or form.subjects or form.retention is not None:
        raise ChannelError("a channel file stands instead of attributes, subjects and retention")
    found = read_channels(form.file)
    if len(found) != 1:
        raise ChannelError(f"the file has {len(found)} channels: send one")
    (channel,) = found.values()
    return replace(channel, id=number, properties=replace(channel.properties, persistent=True))


def _check_numbers(old: Channel, new: Channel) -> None:
    """A file says which field has which number: those that are known stay."""
    for field, number in new.numbers.items():
        if old.numbers.get(field, number) != number:
            raise ChannelError(f"field {field!r} has number {old.numbers[field]}: it stays so")


def _grown(old: Channel, new: Channel, name: str) -> Channel:
    """What is new beside what is old; ChannelError where something of the old would go."""
    if new.attributes[: len(old.attributes)] != old.attributes:
        raise ChannelError(f"channel {name}: attributes can be added, not changed or removed")
    subjects = [s for s in new.subjects if s not in old.subjects]
    grown = replace(old, attributes=new.attributes, properties=new.properties)
    for subject in subjects:
        fields = [f for f in subject.fields if f not in old.numbers]
        numbers = {f: new.numbers[f] for f in fields if new.numbers[f] not in grown.fields}
        grown = replace(grown, numbers={**grown.numbers, **numbers}).with_subject(str(subject))
    return grown


def _attributes(form: ChannelForm) -> tuple[ChannelAttribute, ...]:
    return tuple(ChannelAttribute(name, named(kind)) for name, kind in form.attributes.items())


def _properties(form: ChannelForm) -> Properties:
    return Properties(True, form.retention)


def seen_form(caller: Caller, found: Open) -> Channel:
    """The channel with those of its subjects on which the caller has a right."""
    channel, name = found.channel, found.entry.name
    verbs = [verb for verb in VERBS if caller.may(verb, name)]
    subjects = tuple(s for s in channel.subjects if any(caller.may(v, name, s) for v in verbs))
    if len(subjects) == len(channel.subjects):
        return channel
    fields = {field for subject in subjects for field in subject.fields}
    numbers = {field: number for field, number in channel.numbers.items() if field in fields}
    return replace(channel, subjects=subjects, numbers=numbers)


def seen_subscriptions(caller: Caller, found: Open) -> int:
    """How many subscriptions of the channel the caller sees."""
    live = found.live
    if caller.may("manage", found.entry.name):
        return len(live.subscriptions)
    return live.owned.counts.get(caller.name, 0)


def shown(caller: Caller, found: Open) -> dict[str, Any]:
    """A channel as JSON tells it to the caller. What passes through it is a figure for those who
    may read all of it, or manage it."""
    channel, live, figures = found.channel, found.live, caller.sees_figures(found.entry.name)
    return {
        "name": found.entry.name,
        "version": found.entry.version,
        "sentence": found.entry.sentence,
        "attributes": {a.name: FORMS[a.type].toml for a in channel.attributes},
        "subjects": [str(subject) for subject in seen_form(caller, found).subjects],
        "semantics": found.entry.semantics,
        "dialect": found.entry.dialect,
        "retention": channel.properties.retention,
        "retention_bytes": found.entry.retention_bytes,
        "next": live.next,
        "subscriptions": seen_subscriptions(caller, found),
        "published": live.published if figures else None,
        "deliveries": live.deliveries if figures else None,
    }
