"""Commands in packets (`#.COMMAND`): who calls, and the channel manager (tables 3 and 12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from tamis.errors import MessageError
from tamis.pubsub.subjects.channel_files import write_toml
from tamis.pubsub.subjects.typecodes import c_name
from tamis.pubsub.wire.wire_messages import Notification
from tamis.server.channels import ChannelForm, Open, seen_form
from tamis.server.tcp import packet_subscriptions
from tamis.server.tcp.listening import address_of

if TYPE_CHECKING:
    from tamis.server.tcp.packets import PacketConnection

Said = dict[str, Any]
Command = Callable[["PacketConnection", Said], Awaitable[Said]]
LISTED = 1_000  # channels of one answer


async def run(connection: PacketConnection, message: Notification) -> Said:
    """What a command is answered."""
    said = dict(message.attributes)
    name = said.pop("Command", None) if message.subject == "#.COMMAND" else message.subject
    if name not in COMMANDS:
        raise MessageError(f"{str(name)[:40]!r} is no command: {', '.join(COMMANDS)} are")
    command, wanted = COMMANDS[name]
    for key, value in said.items():
        if key not in wanted:
            raise MessageError(f"{name} has no attribute {key[:40]!r}")
        if type(value) is not wanted[key]:
            raise MessageError(f"{name}: {key} is of type {wanted[key].__name__}")
    return await command(connection, said)


async def _login(connection: PacketConnection, said: Said) -> Said:
    recognition, address = connection.parts.recognition, address_of(connection.writer)
    if "Token" in said:
        caller = await recognition.by_token(said["Token"], address)
    elif "Name" in said:
        password = said.get("Password", "")
        caller = await recognition.by_password(said["Name"], password, address)
    else:
        caller = await recognition.caller(None, address)
    if connection.caller not in (None, caller):
        raise MessageError("this connection has said who it is: open another one")
    connection.known(caller)
    return {"Name": caller.name, "Tenant": caller.tenant}


def named(connection: PacketConnection, said: Said) -> Open:
    return connection.parts.channels.get(connection.who, _text(said, "Channel"))


def _text(said: Said, key: str) -> str:
    found = said.get(key)
    if not found:
        raise MessageError(f"{key} is missing")
    return str(found)


async def _open(connection: PacketConnection, said: Said) -> Said:
    """All about the channel; from now on its packets are understood."""
    found = named(connection, said)
    connection.names[found.entry.number] = found.entry.name
    form = write_toml([connection.peer.open(seen_form(connection.who, found))])
    return {"ChannelId": found.entry.number, "Form": form, **_about(found)}


async def _close(connection: PacketConnection, said: Said) -> Said:
    """Its subscriptions of this connection end; durable ones stay with the broker."""
    number = named(connection, said).entry.number
    for taken in [t for t in connection.taken.values() if t.channel == number]:
        connection.leave(number, taken.number)
    connection.names.pop(number, None)
    connection.peer.close(number)
    return {}


def _about(found: Open) -> Said:
    return {"Semantics": found.entry.semantics, "Dialect": found.entry.dialect,
            "Sentence": found.entry.sentence, "Next": found.live.next}  # fmt: skip


async def _properties(connection: PacketConnection, said: Said) -> Said:
    found = named(connection, said)
    own = found.channel.properties
    told = {"ChannelId": found.entry.number, "TimeGranularity": own.granularity, **_about(found)}
    told |= {"RetentionBytes": found.entry.retention_bytes}
    return told if own.retention is None else {**told, "Timeout": own.retention}


async def _attributes(connection: PacketConnection, said: Said) -> Said:
    """As table 13 has them: name1, type1, name2, ..."""
    attributes = named(connection, said).channel.attributes
    told: Said = {"NumberOfAttributes": len(attributes)}
    for i, one in enumerate(attributes, 1):
        told |= {f"name{i}": one.name, f"type{i}": c_name(one.type)}
        told |= {} if one.decimals is None else {f"decimals{i}": one.decimals}
    return told


async def _routers(connection: PacketConnection, said: Said) -> Said:
    """A broker by itself is the only router of its channels."""
    named(connection, said)
    host, port = connection.writer.get_extra_info("sockname")[:2]
    return {"NumberOfRouters": 1, "RouterIP1": host, "RouterPort1": port}


async def _list(connection: PacketConnection, said: Said) -> Said:
    connection.who.require_any()
    visible = connection.parts.channels.visible(connection.who)
    found = sorted((c.entry.name, c.entry.number) for c in visible)
    found = [pair for pair in found if pair[0] > said.get("After", "")][:LISTED]
    told: Said = {"NumberOfChannels": len(found)}
    for i, (name, number) in enumerate(found, 1):
        told |= {f"name{i}": name, f"id{i}": number}
    return told


async def _create(connection: PacketConnection, said: Said) -> Said:
    parts, name = connection.parts, _text(said, "Channel")
    connection.who.require("manage", name)
    made = await parts.channels.create(connection.who, name, _form(said))
    await parts.audit(connection.who, "channel.create", name)
    return {"ChannelId": made.entry.number}


async def _change(connection: PacketConnection, said: Said) -> Said:
    parts, name = connection.parts, _text(said, "Channel")
    known = parts.channels.get(connection.who, name).entry
    usual = {"Semantics": known.semantics, "Dialect": known.dialect, "Sentence": known.sentence,
             "RetentionBytes": known.retention_bytes}  # fmt: skip
    made = await parts.channels.change(connection.who, name, _form({**usual, **said}))
    await parts.audit(connection.who, "channel.change", name)
    return {"ChannelId": made.entry.number}


def _form(said: Said) -> ChannelForm:
    return ChannelForm(said.get("Sentence", ""), semantics=said.get("Semantics", "sql"),
                       dialect=said.get("Dialect", "tamis"), file=_text(said, "Form"),
                       retention_bytes=said.get("RetentionBytes", 0))  # fmt: skip


async def _delete(connection: PacketConnection, said: Said) -> Said:
    parts, name = connection.parts, _text(said, "Channel")
    await parts.channels.close(connection.who, name)
    await parts.audit(connection.who, "channel.close", name)
    return {}


_CHANNEL: dict[str, type] = {"Channel": str}
_MADE = {**_CHANNEL, "Form": str, "Sentence": str, "Semantics": str, "Dialect": str,
         "RetentionBytes": int}  # fmt: skip
COMMANDS: dict[str, tuple[Command, dict[str, type]]] = {
    "pc.login": (_login, {"Token": str, "Name": str, "Password": str}),
    "pc.chn.open": (_open, _CHANNEL),
    "pc.chn.close": (_close, _CHANNEL),
    "pc.chn.getRouterInfo": (_routers, _CHANNEL),
    "pc.chn.getAttributeInfo": (_attributes, _CHANNEL),
    "pc.chn.getProperties": (_properties, _CHANNEL),
    "pc.chn.list": (_list, {"After": str}),
    "pc.chn.create": (_create, _MADE),
    "pc.chn.change": (_change, _MADE),
    "pc.chn.delete": (_delete, _CHANNEL),
    "pc.sub.open": (
        packet_subscriptions.open_by_selector,
        {"ChannelId": int, "Port": int, "Subscription": int, "Subject": str, "Selector": str,
         "Durable": str, "Start": str},
    ),
    "pc.sub.end": (packet_subscriptions.end, {"ChannelId": int, "Durable": str}),
}  # fmt: skip
