"""The way to a parent: one of several addresses, with all channels or some of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tamis.client.remote import Remote
from tamis.errors import InputError, TamisError
from tamis.pubsub.links.link_frames import MAX_FRAME, decode_down
from tamis.registry import ChannelEntry
from tamis.server.access import LOCAL, LOCAL_TENANT, Caller
from tamis.server.links.network import Link, Network
from tamis.server.links.node import Node

LOG = logging.getLogger("tamis.server")
_DEAD = 3.0  # seconds without an answer after which a parent is given up
_BEAT = 1.0  # seconds between two heartbeats
_OPEN = 1.5  # seconds in which a parent must take the link
_RETRY, _RETRY_MOST = 0.05, 0.5  # seconds between two attempts: a mended wire is noticed soon
_AGAIN = 1.0  # seconds until a channel is asked for again that was closed
_CHANNELS = re.compile(r"[\w.@,-]+")


@dataclass(frozen=True)
class Ways:
    """Addresses in the order in which they are tried; `channels` None: all."""

    remotes: tuple[Remote, ...]
    channels: frozenset[str] | None

    @classmethod
    def of(cls, parents: Sequence[str], token: str = "", ca: str = "") -> list[Ways]:
        """From URL or URL#CHANNEL,CHANNEL: those with the same channels stand in for each other."""
        found: dict[frozenset[str] | None, list[Remote]] = {}
        for text in parents:
            url, hash, names = text.partition("#")
            if hash and not _CHANNELS.fullmatch(names):
                raise InputError(f"{text!r}: write URL#CHANNEL,CHANNEL, or URL for all channels")
            channels = frozenset(names.split(",")) if hash else None
            found.setdefault(channels, []).append(Remote.of(url, token=token, ca=ca))
        return [cls(tuple(remotes), channels) for channels, remotes in found.items()]


@dataclass(eq=False)
class Uplink:
    network: Network
    ways: Ways
    state: str = "not connected yet"
    address: str = ""
    _heard: bool = False
    _again: dict[int, float] = field(default_factory=dict)

    async def run(self) -> None:
        wait, place = _RETRY, 0
        while True:
            remote = self.ways.remotes[place % len(self.ways.remotes)]
            self.address, self._heard = remote.url, False
            try:
                await self._talk(remote)
                reason = "it closed the connection"
            except TamisError as error:
                reason = str(error)
            except Exception as error:
                reason = str(error) or type(error).__name__
            self.state = f"{remote.url}: {reason}"
            LOG.warning("no link to a parent: %s", self.state)
            place += 1
            if self._heard:
                wait = _RETRY
            if self._heard or place % len(self.ways.remotes) == 0:
                await asyncio.sleep(wait)
                wait = min(2 * wait, _RETRY_MOST)

    async def _talk(self, remote: Remote) -> None:
        from websockets.asyncio.client import connect

        url = f"ws{remote.url.removeprefix('http')}/links?name={self.network.name}"
        async with connect(
            url, additional_headers=remote.headers, ssl=remote.context, max_size=MAX_FRAME,
            compression=None, open_timeout=_OPEN, ping_interval=_BEAT, ping_timeout=_DEAD,
            close_timeout=1,
        ) as socket:  # fmt: skip
            out: asyncio.Queue[bytes | str] = asyncio.Queue()
            caller = Caller(LOCAL, LOCAL_TENANT)
            link = self.network.enter(
                caller, out.put_nowait, lambda told: out.put_nowait(json.dumps(told)), up=True,
                name=remote.url,
            )  # fmt: skip
            writing = asyncio.create_task(_write(socket, out))
            opening = asyncio.create_task(self._open_again(link))
            try:
                async for data in socket:
                    self._heard = True
                    await self._receive(link, data)
            finally:
                for task in (writing, opening):
                    task.cancel()
                await asyncio.gather(writing, opening, return_exceptions=True)
                self.network.leave(link)

    async def _receive(self, link: Link, data: str | bytes) -> None:
        if isinstance(data, bytes):
            number, frame = decode_down(data)
            self.network.receive(link, number, frame)
            return
        told = json.loads(data)
        match told["type"]:
            case "channels":
                link.name = told["router"]
                self.state = f"linked to {link.name}"
                await self._take(link, told["channels"])
            case "opened":
                node = link.nodes.get(told["channel"])
                if node is not None:
                    self.network.hub.keep(_connect(link, told["channel"], node))
            case "closed":
                self._closed(link, told["channel"], told["reason"])

    async def _take(self, link: Link, entries: list[Any]) -> None:
        """The channels of the parent, now or after a change there."""
        for told in entries:
            entry = msgspec.convert(told, ChannelEntry)
            if self.ways.channels is not None and entry.name not in self.ways.channels:
                continue
            try:
                node = await self.network.adopt(entry)
            except TamisError:
                continue
            if entry.number not in link.nodes and not _leads_elsewhere(node, link):
                self._again.pop(entry.number, None)
                link.open(entry.number, node)
                link.say({"type": "open", "channel": entry.number})

    def _closed(self, link: Link, number: int, reason: str) -> None:
        node = link.nodes.get(number)
        if node is None:
            self._again[number] = time.monotonic() + _AGAIN
            return
        self.state = reason
        if node.router.child.link == link.number:
            node.router.disconnected(link.number)
            node.pump()
        self._again[number] = time.monotonic() + _AGAIN
        LOG.warning("channel %s of %s: %s", node.channel.entry.name, link.name, reason)

    async def _open_again(self, link: Link) -> None:
        """Ask again for what was closed; if nothing is left, another parent may do better."""
        while True:
            await asyncio.sleep(_BEAT / 4)
            now = time.monotonic()
            due = [number for number, when in self._again.items() if when <= now]
            for number in due:
                del self._again[number]
            live = any(node.router.connected for node in link.wire)
            if due and not live and len(self.ways.remotes) > 1:
                link.say({"type": "bye"})
                return
            for number in due:
                link.close(number)
            if due:
                link.say({"type": "list"})


async def _connect(link: Link, number: int, node: Node) -> None:
    """Once it is known what is wanted here, if the link is still there."""
    await node.followed.wait()
    child = node.router.child
    if link.nodes.get(number) is node:
        if child.link is not None:
            node.router.disconnected(child.link)
        node.router.connect(link.number)
        node.pump()


def _leads_elsewhere(node: Node, link: Link) -> bool:
    return node.home or (node.router.child.link not in (None, link.number))


async def _write(socket: Any, out: asyncio.Queue[bytes | str]) -> None:
    from websockets.exceptions import ConnectionClosed

    with contextlib.suppress(ConnectionClosed):
        while True:
            await socket.send(await out.get())


def name_of(directory: Path) -> str:
    """What this router is called: made once, and kept in its directory."""
    import secrets
    import socket

    path = directory / "router"
    with contextlib.suppress(OSError):
        if known := path.read_text().strip():
            return known
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:60] or "router"
    made = f"{host}-{secrets.token_hex(3)}"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(made + "\n")
    return made
