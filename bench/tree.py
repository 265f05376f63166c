"""A network of routers in one process, with a made-up clock: every link takes the same time.

Frames cross as bytes, which are counted; the CPU time of each router is measured. Disks take no
time, and copies keep nothing.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from tamis.pubsub.broker.epochs import Epoch
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links import link_frames as wire
from tamis.pubsub.links.interests import Changed, Interests
from tamis.pubsub.links.router import Router
from tamis.pubsub.links.wants import Want


class Unmerged(Interests):
    """Every subscription is a want of its own: what networks do that do not merge."""

    def __init__(self, language: Language, everything: bool) -> None:
        super().__init__(language)
        self._everything = everything

    def put_many(self, many: Iterable[tuple[Hashable, str, str, str]]) -> Changed:
        came = []
        for key, subjects, selector, _ in many:
            want = Want(">", "") if self._everything else Want(subjects, selector)
            self._plain[key] = want
            count = self._counts.get(want, 0)
            self._counts[want] = count + 1
            if not count:
                came.append(want)
        return Changed(came, [])

    def remove(self, key: Hashable) -> Changed:
        want = self._plain.pop(key)
        self._counts[want] -= 1
        if self._counts[want]:
            return Changed([], [])
        del self._counts[want]
        return Changed([], [want])


@dataclass
class Node:
    """A router, the level that it is on (the home is on 0), and what it has used."""

    router: Router
    level: int
    cpu: float = 0.0
    kept: list[Record] = field(default_factory=list)  # messages that came to it
    up: int | None = None


@dataclass
class Traffic:
    """Bytes and frames by kind of frame and by level of the child."""

    bytes: Counter[tuple[str, int]] = field(default_factory=Counter)
    frames: Counter[tuple[str, int]] = field(default_factory=Counter)
    messages: Counter[int] = field(default_factory=Counter)

    def total(self, *kinds: str, level: int | None = None) -> int:
        """Bytes of frames of these kinds."""
        found = self.bytes.items()
        return sum(n for (k, at), n in found if k in kinds and level in (None, at))


class Tree:
    def __init__(self, language: Language, widths: Iterable[int], kind: str = "merged") -> None:
        """`widths`: how many children the home has, and each of these, and so on."""
        self.language, self.now, self.wire = language, 0.0, 1.0
        self.traffic = Traffic()
        self.nodes: list[Node] = []
        self.in_force: dict[Hashable, float] = {}
        self._events: list[tuple[float, int, Node, int, wire.Frame]] = []
        self._ends: dict[int, tuple[Node, Node]] = {}
        self._count = 0
        router = Router("home", 1, language, home=True, upto=0, epochs=(Epoch("e", 1),))
        self.home = Node(router, 0)
        self.levels: dict[int, list[Node]] = defaultdict(list, {0: [self.home]})
        self.nodes.append(self.home)
        for level, width in enumerate(widths, 1):
            for parent in self.levels[level - 1]:
                for _ in range(width):
                    self._add(parent, level, kind)

    def _add(self, parent: Node, level: int, kind: str) -> None:
        name = f"{level}.{len(self.levels[level])}"
        node = Node(Router(name, 1, self.language), level)
        if kind != "merged":
            node.router.interests = Unmerged(self.language, kind == "flooding")
        self.levels[level].append(node)
        self.nodes.append(node)
        self._count += 1
        self._ends[self._count] = node, parent
        parent.router.accept(self._count)
        node.up = self._count

    @property
    def edges(self) -> list[Node]:
        return self.levels[max(self.levels)]

    def connect(self) -> None:
        """Every router says hello to its parent; those nearest to the home first."""
        for node in self.nodes[1:]:
            assert node.up is not None
            self.call(node, node.router.connect, node.up)
        self.settle()

    def call(self, node: Node, method, *arguments) -> None:  # type: ignore[no-untyped-def]
        """One event at a router, with all that follows from it there."""
        start = time.process_time()
        method(*arguments)
        sent: list[tuple[int, wire.Frame]] = []
        while effects := node.router.effects():
            for effect in effects:
                self._do(node, effect, sent)
        encoded = [(link, frame, wire.encode(1, frame)) for link, frame in sent]
        node.cpu += time.process_time() - start
        for link, frame, data in encoded:
            self._send(node, link, frame, data)

    def _do(self, node: Node, effect: fx.Effect, sent: list[tuple[int, wire.Frame]]) -> None:
        match effect:
            case fx.Send(link, frame):
                sent.append((link, frame))
            case fx.Store(block):
                node.kept += block.records
                node.router.stored(block.last)
            case fx.Begin(first):
                node.router.stored(first - 1)
            case fx.InForce(keys):
                self.in_force.update(dict.fromkeys(keys, self.now))
            case fx.Read(ticket, _, last, _):
                node.router.read_done(ticket, last, [])

    def _send(self, node: Node, link: int, frame: wire.Frame, data: bytes) -> None:
        child, parent = self._ends[link]
        other, decode = (child, wire.decode_down) if node is parent else (parent, wire.decode_up)
        kind = type(frame).__name__
        self.traffic.bytes[kind, child.level] += len(data)
        self.traffic.frames[kind, child.level] += 1
        if isinstance(frame, wire.Data):
            self.traffic.messages[child.level] += len(frame.records)
        start = time.process_time()
        _, frame = decode(data)
        other.cpu += time.process_time() - start
        self._count += 1
        heappush(self._events, (self.now + self.wire, self._count, other, link, frame))

    def settle(self) -> None:
        """Until nothing is under way."""
        while self._events:
            self.now, _, node, link, frame = heappop(self._events)
            self.call(node, node.router.receive, link, frame)

    def publish(self, blocks: Iterable[Block]) -> None:
        """At the home, one block after the other."""
        for block in blocks:
            self.call(self.home, self.home.router.appended, block)
            self.settle()

    def tick(self) -> None:
        for node in self.nodes:
            self.call(node, node.router.tick)
        self.settle()

    def cpu(self, level: int) -> float:
        return sum(node.cpu for node in self.levels[level])

    def reset(self) -> None:
        """Count from here on."""
        self.traffic = Traffic()
        for node in self.nodes:
            node.cpu, node.kept = 0.0, []
