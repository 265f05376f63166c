"""This router among others: its channels, the links to its children, and who may use them."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tamis.errors import AccessError, InputError, RegistryError, TamisError
from tamis.pubsub.broker.records import Block
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links.link_frames import Frame, encode
from tamis.pubsub.links.wants import WantSet
from tamis.pubsub.subjects.subject import SubjectFilter
from tamis.server.access import Caller
from tamis.server.channels import Channels, Open
from tamis.server.hub import Answer, Hub
from tamis.server.links.node import Node
from tamis.server.publishing import Message, Publishing
from tamis.server.slices import SLICE, sliced

LOG = logging.getLogger("tamis.server")
_ALL = SubjectFilter.parse(">")
_TICK = 0.1  # seconds
_TIDIED = 50  # wants of children that were forgotten, at a time
FORGET = 3600.0  # seconds after which the wants of a child that is gone are dropped


@dataclass(eq=False)
class Link:
    """A connection to another router; of its channels by their numbers on the wire."""

    number: int
    caller: Caller  # at a parent: whose rights the child has
    out: Callable[[bytes], None]
    say: Callable[[dict[str, Any]], None]
    up: bool  # it leads to a parent
    name: str = "?"  # of the other router
    since: float = field(default_factory=time.time)
    nodes: dict[int, Node] = field(default_factory=dict)
    wire: dict[Node, int] = field(default_factory=dict)

    def open(self, number: int, node: Node) -> None:
        self.nodes[number], self.wire[node] = node, number

    def close(self, number: int) -> Node | None:
        node = self.nodes.pop(number, None)
        if node is not None:
            del self.wire[node]
        return node


class Network:
    def __init__(self, hub: Hub, channels: Channels, publishing: Publishing, name: str) -> None:
        self.hub, self.channels, self.publishing, self.name = hub, channels, publishing, name
        self.nodes: dict[int, Node] = {}
        self.links: dict[int, Link] = {}
        self.uplinks: list[Any] = []
        self.kick: Callable[[int], None] = lambda _: None
        self._count = itertools.count(1)
        self._gone: dict[tuple[int, str], float] = {}

    def start(self) -> None:
        """Copies follow their home again."""
        for number in sorted(self.hub.log.copies):
            known = self.channels.by_number.get(number)
            if known is not None:
                self._make(known, self.hub.log.epochs(number))
        self.hub.appended, self.hub.trimmed = self._appended, self._trimmed
        self.hub.keep(self.hub.watch.repeat("links", _TICK, self._tick))

    async def _tick(self) -> None:
        async for node in sliced(list(self.nodes.values())):
            if self.channels.by_number.get(node.number) is not node.channel:
                self._drop(node)
                continue
            node.router.tick()
            self._forget(node)
            end = time.monotonic() + SLICE
            while node.router.tidy(_TIDIED) and time.monotonic() < end:
                pass
            node.pump()

    def _forget(self, node: Node) -> None:
        now = time.monotonic()
        for name, branch in list(node.router.parent.branches.items()):
            key = node.number, name
            if branch.link is not None:
                self._gone.pop(key, None)
            elif now - self._gone.setdefault(key, now) > FORGET:
                del self._gone[key]
                node.router.forget(name)

    def _drop(self, node: Node) -> None:
        """The channel was closed, here or at its home."""
        del self.nodes[node.number]
        self.hub.elsewhere.pop(node.number, None)
        self.hub.reading.pop(node.number, None)
        self.hub.fetching.pop(node.number, None)
        for link in list(self.links.values()):
            if node in link.wire:
                self.end(link, link.wire[node], "the channel was closed")

    def _appended(self, block: Block) -> None:
        node = self.nodes.get(block.channel)
        if node is not None:
            node.appended(block)

    def _trimmed(self, channel: int, oldest: int) -> None:
        node = self.nodes.get(channel)
        if node is not None:
            node.router.trimmed(oldest)

    # --- channels ----------------------------------------------------------------------

    async def node(self, channel: Open) -> Node:
        """The node of a channel; a home gets one when its first child comes."""
        number = channel.entry.number
        if number not in self.nodes:
            epochs = await self.hub.in_reader(self.hub.log.epochs, number)
            if number not in self.nodes:
                self._make(channel, epochs)
        return self.nodes[number]

    def _make(self, channel: Open, epochs: Any) -> Node:
        node = Node(self.hub, self.channels, self.name, channel, epochs, self._send,
                    self._close, self._admit, lambda session: self.kick(session))  # fmt: skip
        self.nodes[channel.entry.number] = node
        return node

    async def adopt(self, entry: Any) -> Node:
        """A channel of a parent."""
        try:
            channel = await self.channels.adopt(entry)
        except RegistryError as error:
            LOG.error("%s: close one of the two, or leave it out of --parent", error)
            raise
        return await self.node(channel)

    def offered(self, caller: Caller) -> list[dict[str, Any]]:
        """The channels that a child with these rights can have: all subjects of them."""
        return [
            msgspec.to_builtins(known.entry)
            for (tenant, name), known in sorted(self.channels.by_name.items())
            if tenant == caller.tenant and caller.may("subscribe", name, _ALL)
        ]

    # --- links -------------------------------------------------------------------------

    def enter(
        self, caller: Caller, out: Callable[[bytes], None], say: Callable[[dict[str, Any]], None],
        *, up: bool = False, name: str = "?",
    ) -> Link:  # fmt: skip
        link = Link(next(self._count), caller, out, say, up, name)
        self.links[link.number] = link
        return link

    def leave(self, link: Link) -> None:
        """It broke, or ended."""
        self.links.pop(link.number, None)
        for number in list(link.nodes):
            node = link.close(number)
            if node is not None:
                node.router.disconnected(link.number)
                node.pump()

    async def accept(self, link: Link, number: int) -> None:
        """A child asks for a channel."""
        channel = self.channels.by_number.get(number)
        caller = link.caller
        if channel is None or channel.entry.tenant != caller.tenant:
            raise RegistryError(f"there is no channel {number}")
        caller.require("subscribe", channel.entry.name, _ALL)
        node = await self.node(channel)
        if link.number not in self.links:
            return
        if (known := link.close(number)) is not None:
            known.router.disconnected(link.number)
        link.open(number, node)
        node.router.accept(link.number, caller.name, caller.selector)
        link.say({"type": "opened", "channel": number})

    def end(self, link: Link, number: int, reason: str) -> None:
        """End one channel of a link."""
        node = link.close(number)
        if node is not None:
            node.router.disconnected(link.number)
            node.pump()
            link.say({"type": "closed", "channel": number, "reason": reason})

    def receive(self, link: Link, number: int, frame: Frame) -> None:
        node = link.nodes.get(number)
        if node is not None:
            node.router.receive(link.number, frame)
            node.pump()

    # --- what nodes ask for -------------------------------------------------------------

    def _send(self, number: int, node: Node, frame: Frame) -> None:
        link = self.links.get(number)
        if link is not None and node in link.wire:
            data = encode(link.wire[node], frame)
            node.bytes[link.name] += len(data)
            link.out(data)

    def _close(self, number: int, node: Node, reason: str) -> None:
        link = self.links.get(number)
        if link is None or node not in link.wire:
            return
        channel, node.refusal = link.wire[node], reason
        link.close(channel)
        LOG.warning("link to %s, channel %s: %s", link.name, node.channel.entry.name, reason)
        link.say({"type": "closed", "channel": channel, "reason": reason})

    def _admit(self, node: Node, admit: fx.Admit, answer: Answer) -> None:
        """As its principal may: the subjects of this channel, in the names of its own tenant."""
        link = None if admit.link is None else self.links.get(admit.link)
        try:
            if link is None:
                raise AccessError("the link is gone")
            if not admit.publisher.startswith(f"{link.caller.tenant}/"):
                raise AccessError(f"{link.caller.name} cannot publish as {admit.publisher[:80]}")
            messages = [Message(msgspec.Raw(one.body), one.subject, one.number, one.id)
                        for one in admit.drafts]  # fmt: skip
            drafts = self.publishing.drafts(link.caller, node.channel, messages)
            self.hub.publish(node.number, admit.publisher, drafts, answer)
        except TamisError as error:
            self.hub.loop.call_soon(answer, error)

    # --- operating -----------------------------------------------------------------------

    def shown(self, caller: Caller) -> list[dict[str, Any]]:
        """All links by channel, as far as the caller manages it."""
        rows = []
        for node in self.nodes.values():
            entry = node.channel.entry
            if entry.tenant == caller.tenant and caller.may("manage", entry.name):
                rows += [_up(node, self.links)] if not node.home else []
                rows += _down(node, self.links)
        return rows

    def branch(self, caller: Caller, child: str, channel: str) -> Node:
        known = self.channels.get(caller, channel)
        caller.require("manage", channel)
        node = self.nodes.get(known.entry.number)
        if node is None or child not in node.router.parent.branches:
            raise InputError(f"there is no link to {child} for channel {channel}")
        return node

    def pieces(self, caller: Caller, other: str, channel: str) -> tuple[Node, str, WantSet]:
        """What crosses the link to a router: what a child wants, or what the parent is asked for.
        With the direction of the link."""
        known = self.channels.get(caller, channel)
        caller.require("manage", channel)
        node = self.nodes.get(known.entry.number)
        if node is not None and other in node.router.path[1:2]:
            return node, "up", node.router.child.wants
        node = self.branch(caller, other, channel)
        return node, "down", node.router.parent.branches[other].wants

    def drain(self, reason: str) -> None:
        """Before this router stops: its children go elsewhere."""
        for node in self.nodes.values():
            node.router.drain(reason)
            node.pump()


def _up(node: Node, links: dict[int, Link]) -> dict[str, Any]:
    router = node.router
    link = links.get(router.child.link) if router.child.link is not None else None
    state = "live" if router.connected else "greeting" if link else "cut off"
    return {
        "channel": node.channel.entry.name, "direction": "up",
        "router": router.path[1] if len(router.path) > 1 else "",
        "state": "failing" if node.problem else state,
        "problem": node.problem or ("" if router.connected else node.refusal),
        "path": list(router.path), "upto": router.coverage.upto, "lag": None,
        "wants": len(router.child.wants), "digest": router.child.wants.digest.hex()[:16],
        "since": link.since if link else None, "messages": None,
        "bytes": node.bytes[link.name] if link else None,
    }  # fmt: skip


def _down(node: Node, links: dict[int, Link]) -> list[dict[str, Any]]:
    rows = []
    for name, branch in node.router.parent.branches.items():
        link = links.get(branch.link) if branch.link is not None else None
        state = "live" if branch.streaming else "greeting" if link else "gone"
        upto = node.router.coverage.upto or 0
        rows.append({
            "channel": node.channel.entry.name, "direction": "down", "router": name,
            "state": "paused" if branch.paused else state, "problem": "",
            "path": [name, *node.router.path], "upto": branch.acked,
            "lag": max(upto - max(branch.sent, branch.level), 0) if branch.streaming else None,
            "wants": len(branch.wants), "digest": branch.wants.digest.hex()[:16],
            "since": link.since if link else None,
            "messages": branch.messages, "bytes": node.bytes[name],
        })  # fmt: skip
    return rows
