"""One router of the made-up network: a broker, a router, and a disk, with what is between them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from pubsub.simulation import LIMITS
from tamis.errors import BusyError, HoleError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.changes import End, Put
from tamis.pubsub.broker.epochs import Epochs, begun
from tamis.pubsub.broker.intake import Admission
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.machine import Broker
from tamis.pubsub.broker.records import Block
from tamis.pubsub.broker.stored import Stored
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links.router import Router
from tamis.pubsub.links.wants import Want
from tamis.schema import Schema

if TYPE_CHECKING:
    from pubsub.links.network import Agent, World

CHANNEL = 1
LANGUAGE = Language(Schema.of(price=float, symbol=str))


class Copy:
    """Blocks on a disk, each with the range that it covers."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.oldest = self.next = 1
        self.begun = False
        self.numbers: dict[str, list[int]] = {}

    def snapshot(self) -> Copy:
        found = Copy()
        found.__dict__ |= self.__dict__ | {
            "blocks": self.blocks.copy(), "numbers": self.numbers.copy()
        }  # fmt: skip
        return found

    def append(self, block: Block) -> None:
        assert block.first == self.next, (block.first, self.next)
        self.blocks.append(block)
        self.next = block.last + 1
        for name, packed in block.numbers.items():
            self.numbers.pop(name, None)
            self.numbers[name] = packed

    def begin(self, first: int) -> None:
        self.blocks, self.oldest, self.next, self.begun = [], first, first, True

    def trim(self, before: int) -> None:
        """By whole blocks."""
        self.blocks = [block for block in self.blocks if block.last >= before]
        self.oldest = self.blocks[0].first if self.blocks else self.next

    def read(self, first: int, last: int, most: int):
        """The records, and how far these are all."""
        found = [r for b in self.blocks for r in b.records if first <= r.sequence <= last]
        through = found[most - 1].sequence if len(found) >= most else last
        return through, found[:most]


class Site:
    def __init__(self, world: World, name: str, *, home: bool = False) -> None:
        self.world, self.name, self.home = world, name, home
        self.copy, self.epochs = Copy(), Epochs()
        self.registry: dict[str, Stored] = {}
        self.up: int | None = None
        self.backed_up: tuple[Copy, Epochs] = (self.copy.snapshot(), ())
        self.copy.begun = home
        self.start()

    def start(self) -> None:
        """As a process starts, with what is on the disk."""
        copy = self.copy
        if self.home:
            self.epochs = begun(self.epochs, f"e{self.world.next()}", copy.next)
        self.router = Router(
            self.name, CHANNEL, LANGUAGE, home=self.home,
            upto=copy.next - 1 if copy.begun else None, oldest=copy.oldest, epochs=self.epochs,
        )  # fmt: skip
        self.writes: deque = deque()
        self.stores, self.reads, self.frames = [], [], []
        self.sessions: dict[int, Agent] = {}
        self.session_of: dict[str, int] = {}
        self.requests: dict[int, Agent] = {}
        self.in_force: dict[str, int] = {}  # by name: from where on the copy has all of it
        self.fetching: dict[int, tuple] = {}
        self.waiting: dict[str, Agent] = {}  # who has seen more than what is here
        self.broker = Broker(LIMITS)
        admission = Admission.of(copy.numbers, {})
        stored = [(one, "") for one in self.registry.values()]
        self.broker.open(CHANNEL, LANGUAGE, copy.next, 0, admission, stored)
        for one in self.registry.values():
            self.router.put((one.name, filter_of(one)), *filter_of(one))
        self.drain()

    # --- the disk -------------------------------------------------------------------------

    def back_up(self) -> None:
        self.backed_up = self.copy.snapshot(), self.epochs

    def restore(self, *, empty: bool) -> None:
        self.copy, self.epochs = self.backed_up[0].snapshot(), self.backed_up[1]
        self.registry = {}
        if empty:
            self.copy, self.epochs = Copy(), ()
        self.copy.begun = self.copy.begun or self.home

    def trim(self) -> None:
        copy = self.copy
        before = self.world.random.randint(copy.oldest, copy.next)
        copy.trim(before)
        self.router.trimmed(copy.oldest)

    def disk(self) -> None:
        """One thing that the disk has to do."""
        if self.writes:
            self.write(self.writes.popleft())
        if self.stores:
            self.store(self.stores.pop(0))
        self.drain()

    def write(self, action) -> None:
        match action:
            case act.Commit(blocks):
                for block in blocks:
                    self.copy.append(block)
                    self.world.kept += block.records
                self.broker.committed()
                self.drain()
                self.judge()
                for block in blocks:
                    self.router.appended(block)
            case fx.Store(block):
                self.copy.append(block)
                self.broker.follow(block)
                self.judge()
                self.router.stored(block.last)
            case fx.Begin(first):
                self.copy.begin(first)
                self.broker.jump(CHANNEL, first)
                self.router.stored(first - 1)
            case fx.Keep(epochs):
                self.epochs = epochs

    def judge(self) -> None:
        while self.broker.match():
            pass
        assert not self.broker.searching
        waiting, self.waiting = self.waiting, {}
        for agent in waiting.values():
            self.world.greet(agent, self)

    def store(self, action: act.Store) -> None:
        visits = {agent.visit: agent for agent in self.world.agents}
        for stored in action.put:
            known = self.registry.get(stored.name)
            self.registry[stored.name] = stored
            if stored.name in visits:
                self.world.stored(visits[stored.name], self, known, stored)
        for _, name in action.remove:
            self.registry.pop(name, None)
        self.broker.stored()
        self.judge()

    # --- between broker and router -----------------------------------------------------------

    def drain(self) -> None:
        while True:
            effects, actions = self.router.effects(), self.broker.actions()
            if not effects and not actions:
                return
            for effect in effects:
                self.do(effect)
            for action in actions:
                self.hand_over(action)

    def do(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Send(link, frame):
                self.world.send(self, link, frame)
            case fx.Close(link):
                self.world.close(self, link)
            case fx.Store() | fx.Begin() | fx.Keep():
                self.writes.append(effect)
            case fx.Reset(common):
                self.reset(common)
            case fx.Read(ticket, first, last, most):
                if first < self.copy.oldest:
                    self.router.read_failed(ticket, min(last, self.copy.oldest - 1))
                else:
                    self.router.read_done(ticket, *self.copy.read(first, last, most))
            case fx.Admit(ticket, _, publisher, drafts):
                self.admit(ticket, publisher, drafts)
            case fx.InForce(keys, since):
                for name, filter in keys:
                    self.now_in_force(name, filter, since)
            case fx.Answered(request, _, error):
                self.world.answered(request, error)
            case fx.Got():
                self.got(effect)

    def admit(self, ticket: int, publisher: str, drafts) -> None:
        try:
            self.broker.publish(ticket, CHANNEL, publisher, drafts)
        except BusyError as error:
            self.router.published(ticket, (), str(error))

    def reset(self, common: int) -> None:
        """The copy is of another log: everything begins anew."""
        self.world.counts["copies dropped"] += 1
        self.copy, self.epochs, self.registry = Copy(), (), {}
        agents = [a for a in self.world.agents if a.site is self]
        for agent in agents:
            self.world.detach(agent)
            if agent.have > common:
                agent.forget_after(common)
        self.world.crash(self)

    def hand_over(self, action: act.Action) -> None:
        match action:
            case act.Commit():
                self.writes.append(action)
            case act.Store():
                self.stores.append(action)
            case act.Read():
                self.reads.append(action)
            case act.Deliver() | act.Lost():
                self.frames.append(action)
            case act.Acknowledged(answers):
                for request, sequences in answers:
                    self.router.published(request, sequences)
            case act.Applied(request, subscription):
                agent = self.requests.pop(request, None)
                if agent is not None and subscription is not None:
                    self.world.applied(agent, subscription.stored())
                    self.tidy(agent)
            case act.Refused(request, error) if request in self.requests:
                raise error
            case act.Refused(request, error):
                self.router.published(request, (), str(error))
            case act.Fault(_, error):
                raise error

    # --- agents ----------------------------------------------------------------------------------

    def put(self, agent: Agent, name: str, filter: tuple[str, str], *, new: bool = False) -> None:
        """An agent wants this; when it is in force, the world greets the agent."""
        if self.home or (not new and name in self.in_force):
            self.in_force.setdefault(name, 1)
            self.world.greet(agent, self)
        self.router.put((name, filter), *filter)
        self.drain()

    def now_in_force(self, name: str, filter: tuple[str, str], since: int) -> None:
        self.in_force.setdefault(name, since)
        for agent in self.world.agents:
            if agent.site is self and agent.visit == name:
                self.world.greet(agent, self)

    def attach(self, agent: Agent) -> None:
        """What the agent wants is in force."""
        if agent in self.requests.values():
            return
        filter = agent.wanted or agent.filter
        session = self.session_of.get(agent.name)
        if session is None:
            session = self.session_of[agent.name] = self.world.next()
            self.sessions[session] = agent
            self.broker.connect(session)
        start = agent.have + 1 if agent.history else None
        request = self.world.next()
        self.requests[request] = agent
        self.broker.change(Put(request, CHANNEL, agent.visit, "somebody", *filter, start, session))

    def attached(self, agent: Agent) -> bool:
        session = self.broker.sessions.get(self.session_of.get(agent.name, 0))
        return (
            session is not None
            and (CHANNEL, agent.visit) in session.subscriptions
            and agent not in self.requests.values()
        )

    def tidy(self, agent: Agent) -> None:
        """Interest in what the agent wanted before it changed its mind ends."""
        for key in [k for k in self.router._local if k[0] == agent.visit and k[1] != agent.filter]:
            self.router.remove(key)

    def expire(self) -> None:
        visits = {agent.visit for agent in self.world.agents}
        left = [name for name in self.registry if name not in visits]
        if left and not self.stores:
            name = self.world.random.choice(left)
            self.broker.change(End(self.world.next(), CHANNEL, name))
            self.drain()
            for key in [key for key in self.router._local if key[0] == name]:
                self.router.remove(key)
            self.in_force.pop(name, None)
            self.drain()

    def leave(self, agent: Agent) -> None:
        session = self.session_of.pop(agent.name, None)
        if session is not None:
            self.sessions.pop(session)
            self.broker.disconnect(session)
            self.broker.tidy()
        self.requests = {n: a for n, a in self.requests.items() if a is not agent}

    def caught_up(self, agent: Agent, end: int) -> bool:
        session = self.broker.sessions.get(self.session_of.get(agent.name, 0))
        if session is None or agent in self.requests.values():
            return False
        found = session.subscriptions.get((CHANNEL, agent.visit))
        matched = self.broker.channels[CHANNEL].matched
        return found is not None and found.live and matched == end and not self.frames

    def arrive(self) -> None:
        """A frame reaches an agent, which acknowledges it."""
        if not self.frames:
            return
        frame = self.frames.pop(0)
        agent = self.sessions.get(frame.session)
        if agent is None:
            return
        if isinstance(frame, act.Lost):
            agent.lost.update(range(max(frame.first, agent.have + 1), frame.last + 1))
        else:
            self.world.receive(agent, self, [record for _, record in frame.messages])
            self.broker.written(frame.session, len(frame.messages))
        key = CHANNEL, agent.visit
        if key in self.broker.sessions[frame.session].subscriptions:
            upto = frame.last if isinstance(frame, act.Lost) else frame.messages[-1][1].sequence
            self.broker.acknowledge(frame.session, key, upto)
            for (_, name), cursor in self.broker.take_cursors().items():
                if name in self.registry:
                    known = self.registry[name]
                    if cursor > known.cursor:
                        self.registry[name] = msgspec.structs.replace(known, cursor=cursor)
        self.drain()

    # --- reading -------------------------------------------------------------------------

    def read(self) -> None:
        """A subscription reads from the copy what it has, and the rest from above."""
        if not self.reads:
            return
        action = self.reads.pop(0)
        one, first, most = action
        matched, copy = self.broker.channels[CHANNEL].matched, self.copy
        complete = max(self.in_force.get(one.name, copy.next), copy.oldest)
        if self.home:
            if first < copy.oldest:
                self.hole(one, first, copy.oldest - 1)
            else:
                self.broker.read_done(one, first, copy.read(first, matched, most)[1])
        elif first >= complete:
            through, records = copy.read(first, matched, most)
            self.broker.read_done(one, first, records, through)
        else:
            request = self.world.next()
            self.world.counts["fetched"] += 1
            self.fetching[request] = one, first
            wants = [Want(v.subjects, v.selector) for v in one.versions]
            self.router.fetch(request, first, min(complete - 1, matched), wants)
        self.drain()

    def got(self, got: fx.Got) -> None:
        known = self.fetching.pop(got.request, None)
        self.router.cancel(got.request)
        if known is None:
            return
        one, first = known
        assert got.first == first
        if got.lost:
            self.hole(one, first, got.last)
        else:
            self.broker.read_done(one, first, list(got.records), got.last)

    def hole(self, one, first: int, last: int) -> None:
        self.broker.read_hole(one, first, HoleError("", act.TRIMMED, first, last))


def filter_of(stored: Stored) -> tuple[str, str]:
    return stored.versions[-1].subjects, stored.versions[-1].selector
