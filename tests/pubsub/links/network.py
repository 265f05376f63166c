"""A network of routers with real brokers, in a world that is made up: from one seed.

    PYTHONPATH=src:tests python -m pubsub.links.network 10000      # seeds 0 to 9,999

A home, up to five other routers joined in any way, publishers, and agents that move. Every step is
one event: a frame crosses a link, a disk finishes, a link breaks, a router crashes, a disk is
restored from a backup, a link is paused, a log is trimmed, an agent moves or changes its filter. In
the end all heals, and what each agent saw is compared with what the oracle says.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass, field

import msgspec

from pubsub.links.site import CHANNEL, Site
from pubsub.simulation import FILTERS, MEANING, SUBJECTS, SYMBOLS
from tamis.pubsub.broker.epochs import agreed, epoch_of
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.links import link_frames as wire


@dataclass
class Wire:
    """A link, with what is under way on it; a cut loses that."""

    number: int
    child: Site
    parent: Site
    up: list[bytes] = field(default_factory=list)
    down: list[bytes] = field(default_factory=list)
    whole: bool = True


@dataclass
class Agent:
    """A subscriber that moves. `history` are its filters, each from a sequence on."""

    name: str
    filter: tuple[str, str]
    site: Site | None = None
    visit: str = ""  # the name of its subscription where it is
    wanted: tuple[str, str] | None = None  # a filter that it is about to have
    have: int = 0
    epoch: str = ""
    seen: list[int] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    history: list[tuple[int, tuple[str, str]]] = field(default_factory=list)

    def forget_after(self, common: int) -> None:
        """The log was another one: what came later never happened."""
        self.have = min(self.have, common)
        self.seen = [s for s in self.seen if s <= common]
        self.lost = {s for s in self.lost if s <= common}
        self.history = [(since, one) for since, one in self.history if since <= common]
        self.visit = ""


@dataclass
class Publisher:
    name: str
    count: int = 0
    unacknowledged: dict[int, Draft] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    request: int | None = None
    sent: list[int] = field(default_factory=list)
    site: Site | None = None


class World:
    def __init__(self, seed: int) -> None:
        self.random = r = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.number = self.now = 0
        self.trimmed = 1  # the home's log has begun there, perhaps before it was restored
        self.wires: dict[int, Wire] = {}
        self.kept = []  # every record that is, or was, in the home's log
        self.home = Site(self, "home", home=True)
        self.edges = [Site(self, f"r{i}") for i in range(r.randint(1, 5))]
        self.sites = [self.home, *self.edges]
        self.agents = [Agent(f"a{i}", self.any_filter()) for i in range(r.randint(1, 5))]
        self.publishers = [Publisher(f"p{i}") for i in range(r.randint(1, 2))]

    def any_filter(self) -> tuple[str, str]:
        return self.random.choice(FILTERS)[:2]

    def next(self) -> int:
        self.number += 1
        return self.number

    # --- links ----------------------------------------------------------------------------

    def send(self, site: Site, link: int, frame: wire.Frame) -> None:
        found = self.wires.get(link)
        if found is not None and found.whole:
            (found.up if site is found.child else found.down).append(wire.encode(CHANNEL, frame))

    def close(self, site: Site, link: int) -> None:
        """The one end has closed; the other one will see that, after what was sent."""
        found = self.wires.get(link)
        if found is None:
            return
        if site is found.child:
            site.up = None
            self.cut_wire(found)
            return
        while found.down:
            self.down_frame(found)
            if link not in self.wires:
                return
        self.cut_wire(found)

    def cut_wire(self, found: Wire) -> None:
        if self.wires.pop(found.number, None) is None:
            return
        found.whole = False
        for site in (found.child, found.parent):
            site.router.disconnected(found.number)
        found.child.up = None

    def up_frame(self, found: Wire) -> None:
        _, frame = wire.decode_up(found.up.pop(0))
        found.parent.router.receive(found.number, frame)
        found.parent.drain()

    def down_frame(self, found: Wire) -> None:
        _, frame = wire.decode_down(found.down.pop(0))
        self.counts[type(frame).__name__] += 1
        found.child.router.receive(found.number, frame)
        found.child.drain()

    # --- events ---------------------------------------------------------------------------

    def carry(self) -> None:
        if self.wires:
            found = self.random.choice(list(self.wires.values()))
            if found.up and (not found.down or self.random.random() < 0.5):
                self.up_frame(found)
            elif found.down:
                self.down_frame(found)

    def join(self) -> None:
        site = self.random.choice(self.edges)
        if site.up is None:
            parents = [other for other in self.sites if other is not site]
            self.connect(site, self.random.choice(parents))

    def connect(self, site: Site, parent: Site) -> None:
        found = Wire(self.next(), site, parent)
        self.wires[found.number] = found
        site.up = found.number
        parent.router.accept(found.number, "routers")
        site.router.connect(found.number)
        site.drain()

    def cut(self) -> None:
        if self.wires:
            self.counts["cuts"] += 1
            found = self.random.choice(list(self.wires.values()))
            self.cut_wire(found)
            found.child.drain()
            found.parent.drain()

    def crash(self, site: Site | None = None) -> None:
        site = site or self.random.choice(self.sites)
        self.counts["crashes"] += 1
        others = []
        for found in [w for w in self.wires.values() if site in (w.child, w.parent)]:
            others.append(found.parent if found.child is site else found.child)
            self.cut_wire(found)
        self.leave_all(site)
        site.start()
        for other in others:
            other.drain()

    def leave_all(self, site: Site) -> None:
        for agent in self.agents:
            if agent.site is site:
                agent.site, agent.wanted = None, None
        for publisher in self.publishers:
            if publisher.site is site:
                publisher.request = publisher.site = None

    def backup(self) -> None:
        self.random.choice(self.sites).back_up()

    def restore(self) -> None:
        """A disk is replaced by its last backup; or an edge's, by an empty one."""
        site = self.random.choice(self.sites)
        self.counts["restored"] += 1
        site.restore(empty=site is not self.home and self.random.random() < 0.3)
        for agent in self.agents:
            if agent.site is site:
                agent.site, agent.wanted = None, None
        if site is self.home:
            end = site.copy.next - 1
            self.kept = [r for r in self.kept if r.sequence <= end]
            for publisher in self.publishers:  # what was acknowledged is gone by the will of the
                numbers = {r.number for r in self.kept if r.publisher == publisher.name}  # operator
                publisher.acknowledged &= numbers
        self.crash(site)

    def disk(self) -> None:
        self.random.choice(self.sites).disk()

    def tick(self) -> None:
        self.now += self.random.randint(0, 5)
        site = self.random.choice(self.sites)
        site.router.tick()
        site.broker.tick(self.now)
        site.drain()

    def trim(self) -> None:
        self.random.choice(self.sites).trim()
        self.trimmed = max(self.trimmed, self.home.copy.oldest)

    def pause(self) -> None:
        site = self.random.choice(self.sites)
        names = list(site.router.parent.branches)
        if names:
            paused = self.random.random() < 0.6
            site.router.pause(self.random.choice(names), paused=paused)
            site.drain()

    def forget(self) -> None:
        site = self.random.choice(self.sites)
        for name in list(site.router.parent.branches):
            site.router.forget(name)
            site.router.tidy()
        site.drain()

    def expire(self) -> None:
        """A subscription that its agent has left is ended."""
        self.random.choice(self.sites).expire()

    def empty(self) -> None:
        """A router is to be taken away, and comes back."""
        site = self.random.choice(self.sites)
        self.counts["drained"] += 1
        site.router.drain("going away")
        site.drain()
        self.crash(site)

    # --- publishers -------------------------------------------------------------------------

    def publish(self) -> None:
        publisher = self.random.choice(self.publishers)
        if publisher.request is not None:
            return
        for _ in range(self.random.randint(0, 3)):
            publisher.count += 1
            attributes = {"price": float(self.random.randint(0, 10)),
                          "symbol": self.random.choice(SYMBOLS)}  # fmt: skip
            body = msgspec.json.encode(attributes)
            draft = Draft(self.random.choice(SUBJECTS), body, publisher.count)
            publisher.unacknowledged[publisher.count] = draft
        self.offer(publisher, self.random.choice(self.sites))

    def offer(self, publisher: Publisher, site: Site) -> None:
        if publisher.unacknowledged:
            publisher.sent = list(publisher.unacknowledged)[:20]
            publisher.request, publisher.site = self.next(), site
            drafts = [publisher.unacknowledged[number] for number in publisher.sent]
            site.router.publish(publisher.request, publisher.name, drafts)
            site.drain()

    def answered(self, request: int, error: str) -> None:
        for publisher in self.publishers:
            if publisher.request == request:
                publisher.request = publisher.site = None
                self.counts["refused" if error else "acknowledged"] += 1
                if not error:
                    publisher.acknowledged.update(publisher.sent)
                    for number in publisher.sent:
                        publisher.unacknowledged.pop(number, None)

    def impatient(self) -> None:
        self.random.choice(self.publishers).request = None

    # --- agents -------------------------------------------------------------------------------

    def move(self) -> None:
        agent = self.random.choice(self.agents)
        if self.random.random() < 0.6 and agent.site is None:
            self.attach(agent, self.random.choice(self.sites))
        elif self.random.random() < 0.3:
            self.detach(agent)

    def attach(self, agent: Agent, site: Site) -> None:
        """Connect; at a router where it was with the same filter, its subscription goes on."""
        self.counts["moves"] += 1
        agent.site = site
        known = site.registry.get(agent.visit)
        if known is None or agent.filter != filter_of(known):
            agent.visit = f"{agent.name}.{self.next()}"
        site.put(agent, agent.visit, agent.filter)

    def detach(self, agent: Agent) -> None:
        if agent.site is not None:
            agent.site.leave(agent)
            agent.site = agent.wanted = None

    def greet(self, agent: Agent, site: Site) -> None:
        """What it wants is in force at the router. It begins, or goes on, or has another filter."""
        if agent.site is not site:
            return
        epochs = site.router.parent.epochs
        common = agreed(epochs, agent.epoch, agent.have) if agent.have else 0
        if agent.have and min(common, site.broker.channels[CHANNEL].matched) < agent.have:
            if common < agent.have:
                self.counts["reset"] += 1
                self.detach(agent)
                agent.forget_after(common)
            else:
                site.waiting[agent.name] = agent
            return
        site.attach(agent)

    def change(self) -> None:
        agent = self.random.choice(self.agents)
        if agent.site is not None and agent.wanted is None and agent.site.attached(agent):
            agent.wanted = self.any_filter()
            agent.site.put(agent, agent.visit, agent.wanted, new=True)

    def stored(self, agent: Agent, site: Site, known, stored) -> None:
        """A subscription is made, or has another filter: whether its agent knows it yet or not."""
        versions = stored.versions
        if known is None:
            if not agent.history:
                agent.have = stored.cursor
                agent.epoch = epoch_of(site.router.parent.epochs, agent.have)
            self.judged_by(agent, stored.cursor + 1, versions[0])
            known = msgspec.structs.replace(stored, versions=versions[:1])
        for version in versions:
            if version not in known.versions:
                self.judged_by(agent, version.since, version)

    def judged_by(self, agent: Agent, since: int, version) -> None:
        filter = version.subjects, version.selector
        agent.history = [(at, one) for at, one in agent.history if at < since]
        agent.history.append((since, filter))

    def applied(self, agent: Agent, stored) -> None:
        """Its subscription is as it wants it to be."""
        agent.filter, agent.wanted = filter_of(stored), None

    def receive(self, agent: Agent, site: Site, records) -> None:
        for record in records:
            if record.sequence > agent.have:
                agent.have = record.sequence
                agent.epoch = epoch_of(site.router.parent.epochs, record.sequence)
                agent.seen.append(record.sequence)

    def arrive(self) -> None:
        self.random.choice(self.sites).arrive()

    def read(self) -> None:
        self.random.choice(self.sites).read()

    EVENTS = (
        (carry, 60), (disk, 24), (publish, 10), (tick, 8), (arrive, 14), (read, 8), (join, 8),
        (move, 7), (change, 2), (cut, 1.2), (crash, 0.6), (pause, 0.8), (forget, 0.6), (trim, 0.6),
        (backup, 0.4), (restore, 0.25), (empty, 0.15), (impatient, 0.5), (expire, 3),
    )  # fmt: skip

    def run(self, steps: int) -> None:
        events, weights = zip(*self.EVENTS, strict=True)
        for event in self.random.choices(events, weights, k=steps):
            event(self)
        self.heal()
        self.check()

    # --- the end ------------------------------------------------------------------------------

    def heal(self) -> None:
        for site in self.sites:
            for name in list(site.router.parent.branches):
                site.router.pause(name, paused=False)
            site.drain()
        for turn in range(200):
            self.heal_links(turn)
            for _ in range(12):
                self.now += 1
                for found in list(self.wires.values()):
                    for _ in range(4):
                        if found.up and found.whole:
                            self.up_frame(found)
                        if found.down and found.whole:
                            self.down_frame(found)
                for site in self.sites:
                    site.broker.tick(self.now)
                    site.router.tick()
                    site.drain()
                    site.disk()
                    site.read()
                    site.arrive()
            for publisher in self.publishers:
                if publisher.request is None or turn % 5 == 4:
                    self.offer(publisher, self.random.choice(self.sites))
            for agent in self.agents:
                if agent.site is None:
                    self.attach(agent, self.random.choice(self.sites))
            if turn > 3 and self.settled():
                return

    def heal_links(self, turn: int) -> None:
        for site in self.edges:
            if not site.router.connected and site.up is not None and turn % 4 == 3:
                self.cut_wire(self.wires[site.up])
                site.drain()
            if site.up is None:
                parents = [other for other in self.sites if other is not site]
                self.connect(site, self.random.choice(parents))

    def settled(self) -> bool:
        end = self.home.copy.next - 1
        return (
            not any(p.unacknowledged for p in self.publishers)
            and all(site.router.coverage.upto == end for site in self.sites)
            and all(a.site is not None and a.site.caught_up(a, end) for a in self.agents)
        )

    def check(self) -> None:
        assert [r.sequence for r in self.kept] == list(range(1, len(self.kept) + 1))
        for publisher in self.publishers:
            numbers = [r.number for r in self.kept if r.publisher == publisher.name]
            assert numbers == sorted(set(numbers)), "out of order, or twice"
            assert publisher.acknowledged <= set(numbers), "acknowledged and lost"
            assert not publisher.unacknowledged, "never acknowledged"
        gone = set(range(1, self.trimmed))
        for agent in self.agents:
            assert agent.site is not None, agent
            assert agent.site.caught_up(agent, len(self.kept)), (agent, len(self.kept))
            found = [s for s in agent.seen if s not in agent.lost]
            wanted = [s for s in self.expected(agent) if s not in agent.lost]
            assert found == wanted, (agent, wanted)
            assert agent.lost <= gone, (agent, "called lost, and still there")

    def expected(self, agent: Agent) -> list[int]:
        found = []
        for record in self.kept:
            filters = [filter for since, filter in agent.history if since <= record.sequence]
            if filters and MEANING[filters[-1]](record.subject, msgspec.json.decode(record.body)):
                found.append(record.sequence)
        return found


def filter_of(stored) -> tuple[str, str]:
    return stored.versions[-1].subjects, stored.versions[-1].selector


def simulate(seed: int, steps: int = 250) -> World:
    world = World(seed)
    try:
        world.run(steps)
    except BaseException as error:
        error.add_note(f"seed {seed}: simulate({seed})")
        raise
    return world


def main() -> None:
    first, last = (0, int(sys.argv[1])) if len(sys.argv) == 2 else map(int, sys.argv[1:3])
    counts: Counter[str] = Counter()
    for seed in range(first, last):
        world = simulate(seed)
        counts += world.counts
        counts["messages"] += len(world.kept)
        counts["received"] += sum(len(a.seen) for a in world.agents)
        if (seed + 1) % 1000 == 0:
            print(seed + 1, "seeds", flush=True)
    print(f"{last - first} seeds: {dict(counts)}")


if __name__ == "__main__":
    main()
