"""The whole broker in a world that is made up: clock, disk, network and clients, from one seed.

    PYTHONPATH=src:tests python -m pubsub.simulation 10000      # seeds 0 to 9,999

Every step is one event, chosen at random: a message is sent, the disk finishes, a frame arrives, a
connection breaks, the broker crashes. In the end all heals, and what each client saw is compared
with what the oracle says.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field

import msgspec

from log.memory_log import MemoryLog
from tamis.errors import BusyError, LogError
from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.changes import Pause, Put
from tamis.pubsub.broker.intake import Admission, Draft
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.machine import Broker, BrokerLimits
from tamis.pubsub.broker.records import Record
from tamis.schema import Schema

CHANNEL = 1
SYMBOLS, SUBJECTS = ("A", "B", "C"), ("q.ny", "q.ldn", "news")
# What subscribers ask for, and what it means.
FILTERS = [
    (">", "price > 5", lambda s, m: m["price"] > 5),
    (">", "symbol = 'A'", lambda s, m: m["symbol"] == "A"),
    (">", "", lambda s, m: True),
    ("q.*", "price < 3 OR symbol = 'B'",
     lambda s, m: s != "news" and (m["price"] < 3 or m["symbol"] == "B")),
    ("news", "price BETWEEN 2 AND 8", lambda s, m: s == "news" and 2 <= m["price"] <= 8),
    ("q.>", "symbol IN ('A', 'C')", lambda s, m: s != "news" and m["symbol"] in "AC"),
]  # fmt: skip
MEANING = {(subjects, selector): meaning for subjects, selector, meaning in FILTERS}
LIMITS = BrokerLimits(pending=40, room=4, window=6, read=5)


@dataclass
class Publisher:
    name: str
    count: int = 0
    unacknowledged: dict[int, Draft] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    requests: dict[int, list[int]] = field(default_factory=dict)


@dataclass
class Subscriber:
    name: str
    session: int | None = None
    request: int | None = None
    seen: list[int] = field(default_factory=list)
    got: list[dict] = field(default_factory=list)  # the attributes of what it has seen
    lost: set[int] = field(default_factory=set)
    highest: int = 0
    slow: bool = False

    def receive(self, record: Record) -> None:
        if record.sequence > self.highest:
            self.highest = record.sequence
            self.seen.append(record.sequence)
            self.got.append(msgspec.json.decode(record.body))


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log, self.registry, self.now = MemoryLog(), {}, 0
        self.history: dict[str, list[tuple[int, tuple[str, str] | None]]] = {}
        self.publishers = [Publisher(f"p{i}") for i in range(self.random.randint(1, 3))]
        self.subscribers = [Subscriber(f"s{i}") for i in range(self.random.randint(1, 4))]
        self.count = self.crashes = 0
        self.full = False
        self.start()

    # --- the broker and what stands around it ---------------------------------------

    def start(self) -> None:
        self.broker = Broker(LIMITS)
        self.commits, self.stores, self.reads, self.frames = [], [], [], []
        records = self.log.read(CHANNEL, 1, 10**9)
        remembered = self.log.remembered(CHANNEL)
        self.broker.open(
            CHANNEL,
            Language(Schema.of(price=float, symbol=str)),
            self.log.bounds(CHANNEL)[1],
            records[-1].time if records else 0,
            Admission.of(remembered.numbers, remembered.ids),
            [(stored, "") for stored in self.registry.values()],
        )

    def next_request(self) -> int:
        self.count += 1
        return self.count

    def drain(self) -> None:
        """Hand the actions of the broker to disk and network."""
        self.broker.tidy((0, 1, None)[self.random.randrange(3)])
        while actions := self.broker.actions():
            for action in actions:
                self.hand_over(action)

    def hand_over(self, action: act.Action) -> None:
        match action:
            case act.Commit():
                self.commits.append(action)
            case act.Store():
                self.stores.append(action)
            case act.Read():
                self.reads.append(action)
            case act.Deliver() | act.Lost() | act.Taken():
                self.frames.append(action)
            case act.Acknowledged():
                self.acknowledged(action)
            case act.Applied() | act.Refused():
                self.answered(action.request)
            case act.Fault():
                raise action.error

    def acknowledged(self, action: act.Acknowledged) -> None:
        for publisher in self.publishers:
            for request, _ in action.answers:
                for number in publisher.requests.pop(request, ()):
                    publisher.acknowledged.add(number)
                    publisher.unacknowledged.pop(number, None)

    def answered(self, request: int) -> None:
        for publisher in self.publishers:
            publisher.requests.pop(request, None)
        for subscriber in self.subscribers:
            if subscriber.request == request:
                subscriber.request = None

    # --- events ---------------------------------------------------------------------

    def publish(self) -> None:
        publisher = self.random.choice(self.publishers)
        if publisher.requests:
            return  # it waits for its answer, as a client that wants order does
        for _ in range(self.random.randint(0, 4)):
            publisher.count += 1
            attributes = {"price": float(self.random.randint(0, 10)),
                          "symbol": self.random.choice(SYMBOLS)}  # fmt: skip
            publisher.unacknowledged[publisher.count] = Draft(
                self.random.choice(SUBJECTS), msgspec.json.encode(attributes), publisher.count
            )
        if publisher.unacknowledged:
            request = self.next_request()
            publisher.requests[request] = list(publisher.unacknowledged)
            drafts = list(publisher.unacknowledged.values())
            try:
                self.broker.publish(request, CHANNEL, publisher.name, drafts)
            except BusyError:
                publisher.requests.pop(request)

    def resend(self) -> None:
        """A publisher that lost patience sends again what is not acknowledged."""
        publisher = self.random.choice(self.publishers)
        publisher.requests.clear()

    def tick(self) -> None:
        self.now += self.random.randint(0, 5)
        self.broker.tick(self.now)

    def commit(self) -> None:
        if not self.commits:
            return
        action = self.commits.pop()
        if self.full:
            self.broker.not_committed(LogError("the disk is full"))
            return
        self.log.append(action.blocks)
        self.broker.committed()
        if self.random.random() < 0.5:
            self.tick()  # the next commit starts before these are judged
        self.drain()
        self.judge()

    def judge(self) -> None:
        """Some of what waits, or all; if it fails, some or all of the search for the reason."""
        self.broker.match((1, 2, None)[self.random.randrange(3)])
        if self.broker.searching:
            self.broker.search((1, 2, None)[self.random.randrange(3)])
            self.broker.match()

    def store(self) -> None:
        if self.stores:
            self.persist(self.stores.pop())
            self.broker.stored()
            self.judge()

    def persist(self, action: act.Store) -> None:
        since = self.broker.channels[CHANNEL].matched + 1
        for stored in action.put:
            known = self.registry.get(stored.key)
            self.registry[stored.key] = stored
            filter = stored.versions[-1].subjects, stored.versions[-1].selector
            history = self.history.setdefault(stored.name, [])
            if known is None:
                history.append((stored.cursor + 1, filter))
            elif history[-1][1] != filter:
                history.append((since, filter))
            if known is not None:
                cursor = max(known.cursor, stored.cursor)
                self.registry[stored.key] = msgspec.structs.replace(stored, cursor=cursor)
        assert not action.remove

    def read(self) -> None:
        if self.reads:
            action = self.reads.pop(self.random.randrange(len(self.reads)))
            records = self.log.read(CHANNEL, action.first, action.most)
            self.broker.read_done(action.subscription, action.first, records)

    def arrive(self) -> None:
        if not self.frames:
            return
        session = self.random.choice(self.frames).session
        frame = next(f for f in self.frames if f.session == session)  # each session in order
        subscriber = next((s for s in self.subscribers if s.session == session), None)
        if subscriber is not None and subscriber.slow and self.random.random() < 0.9:
            return
        self.frames.remove(frame)
        if subscriber is None:
            return
        if isinstance(frame, act.Lost):
            subscriber.lost.update(range(frame.first, frame.last + 1))
            subscriber.highest = max(subscriber.highest, frame.last)
        elif isinstance(frame, act.Deliver):
            for _, record in frame.messages:
                subscriber.receive(record)
            self.broker.written(session, len(frame.messages))

    def acknowledge(self) -> None:
        subscriber = self.random.choice(self.subscribers)
        session = self.broker.sessions.get(subscriber.session)
        if session is not None and (CHANNEL, subscriber.name) in session.subscriptions:
            # never beyond what it saw, or was told that nothing more would come of
            key = CHANNEL, subscriber.name
            self.broker.acknowledge(subscriber.session, key, subscriber.highest)

    def settle(self) -> None:
        for one in self.broker.held():
            self.broker.settle(one)

    def flush(self) -> None:
        for key, cursor in self.broker.take_cursors().items():
            stored = self.registry.get(key)
            if stored is not None and cursor > stored.cursor:
                self.registry[key] = msgspec.structs.replace(stored, cursor=cursor)

    def subscribe(self) -> None:
        """Connect, with the old filter or another one."""
        subscriber = self.random.choice(self.subscribers)
        if subscriber.request is not None:
            return
        if subscriber.session is None:
            subscriber.session = self.next_request()
            self.broker.connect(subscriber.session)
        history = self.history.get(subscriber.name)
        if history and self.random.random() < 0.6:
            subjects, selector = history[-1][1]
        else:
            subjects, selector = self.random.choice(self.filters())
        start = self.random.choice([None, 1, self.log.bounds(CHANNEL)[1] // 2 + 1])
        subscriber.request = self.next_request()
        self.broker.change(
            Put(subscriber.request, CHANNEL, subscriber.name, "somebody", subjects, selector,
                start, subscriber.session, window=self.random.choice([0, 2]))
        )  # fmt: skip

    def filters(self) -> list[tuple[str, str]]:
        return [(subjects, selector) for subjects, selector, _ in FILTERS]

    def pause(self) -> None:
        subscriber = self.random.choice(self.subscribers)
        if subscriber.request is None and (CHANNEL, subscriber.name) in self.registry:
            subscriber.request = self.next_request()
            paused = self.random.random() < 0.5
            self.broker.change(Pause(subscriber.request, CHANNEL, subscriber.name, paused))

    def disconnect(self) -> None:
        subscriber = self.random.choice(self.subscribers)
        if subscriber.session is not None:
            self.broker.disconnect(subscriber.session)
            subscriber.session = None

    def slow(self) -> None:
        subscriber = self.random.choice(self.subscribers)
        subscriber.slow = not subscriber.slow

    def fill(self) -> None:
        self.full = not self.full

    def trim(self) -> None:
        first, following = self.log.bounds(CHANNEL)
        if self.random.random() < 0.2:
            self.settle()
            self.flush()
            self.trimmed = self.log.trim(CHANNEL, self.random.randint(first, following))

    def crash(self) -> None:
        """What was on its way to the disk is there, or it is not; all else is gone."""
        self.crashes += 1
        if self.commits and not self.full and self.random.random() < 0.5:
            self.log.append(self.commits[-1].blocks)
        if self.stores and self.random.random() < 0.5:
            self.persist(self.stores[-1])
        for publisher in self.publishers:
            publisher.requests.clear()
        for subscriber in self.subscribers:
            subscriber.session = subscriber.request = None
        self.start()

    EVENTS = (
        (publish, 20), (tick, 12), (commit, 14), (judge, 6), (store, 8), (read, 10), (arrive, 24),
        (acknowledge, 8), (flush, 3), (settle, 2), (subscribe, 6), (pause, 2), (disconnect, 2),
        (slow, 1), (fill, 0.5), (trim, 0.7), (resend, 1), (crash, 0.7),
    )  # fmt: skip

    def run(self, steps: int) -> None:
        events = [event for event, _ in self.EVENTS]
        weights = [weight for _, weight in self.EVENTS]
        self.kept = []  # every record that was ever in the log
        for event in self.random.choices(events, weights, k=steps):
            event(self)
            self.drain()
            self.remember()
        self.heal()
        self.check()

    def remember(self) -> None:
        known = self.kept[-1].sequence if self.kept else 0
        self.kept += self.log.read(CHANNEL, known + 1, 10**9)

    # --- the end --------------------------------------------------------------------

    def heal(self) -> None:
        self.full = False
        for subscriber in self.subscribers:
            subscriber.slow = False
        for _ in range(400):
            for event in (self.tick, self.commit, self.judge, self.store, self.read, self.arrive,
                          self.flush):  # fmt: skip
                event()
                self.drain()
                self.remember()
            for publisher in self.publishers:
                if publisher.unacknowledged and not publisher.requests:
                    self.random.choice = lambda _, publisher=publisher: publisher
                    request = self.next_request()
                    publisher.requests[request] = list(publisher.unacknowledged)
                    drafts = list(publisher.unacknowledged.values())
                    try:
                        self.broker.publish(request, CHANNEL, publisher.name, drafts[:20])
                        publisher.requests[request] = list(publisher.unacknowledged)[:20]
                    except BusyError:
                        publisher.requests.pop(request)
                    self.drain()
            self.random.choice = random.Random(self.count).choice
            for subscriber in self.subscribers:
                self.heal_subscriber(subscriber)
                self.drain()
                self.remember()

    def heal_subscriber(self, subscriber: Subscriber) -> None:
        history = self.history.get(subscriber.name)
        if subscriber.request is not None or not history:
            return
        if subscriber.session is None:
            subscriber.session = self.next_request()
            self.broker.connect(subscriber.session)
        session = self.broker.sessions[subscriber.session]
        attached = session.subscriptions.get((CHANNEL, subscriber.name))
        if attached is None:
            subscriber.request = self.next_request()
            self.broker.change(Put(subscriber.request, CHANNEL, subscriber.name, "somebody",
                                   *history[-1][1], None, subscriber.session))  # fmt: skip
        elif attached.paused:
            subscriber.request = self.next_request()
            self.broker.change(Pause(subscriber.request, CHANNEL, subscriber.name, False))
        else:
            key = CHANNEL, subscriber.name
            self.broker.acknowledge(subscriber.session, key, subscriber.highest)

    def check(self) -> None:
        assert [r.sequence for r in self.kept] == list(range(1, len(self.kept) + 1))
        for publisher in self.publishers:
            numbers = [r.number for r in self.kept if r.publisher == publisher.name]
            assert numbers == sorted(set(numbers)), "out of order, or twice"
            assert publisher.acknowledged <= set(numbers), "acknowledged and lost"
            assert not publisher.unacknowledged, "never acknowledged"
        for subscriber in self.subscribers:
            expected = self.expected(subscriber)
            found = [s for s in subscriber.seen if s not in subscriber.lost]
            wanted = [s for s in expected if s not in subscriber.lost]
            assert found == wanted, (subscriber.name, found, wanted)
            assert subscriber.lost <= self.gone(), "called lost, and still there"
        for one in self.broker.held():
            matched = self.broker.channels[CHANNEL].matched
            assert one.done(matched) == matched, "behind, and there is nothing to get"

    def gone(self) -> set[int]:
        """Sequences that cannot be read any more."""
        return set(range(1, self.log.bounds(CHANNEL)[0]))

    def expected(self, subscriber: Subscriber) -> list[int]:
        """Record by record: which filter was in force, and does the record satisfy it?"""
        history = self.history.get(subscriber.name, [])
        found = []
        for record in self.kept:
            filters = [filter for since, filter in history if since <= record.sequence]
            if filters and MEANING[filters[-1]](record.subject, msgspec.json.decode(record.body)):
                found.append(record.sequence)
        return found


def simulate(seed: int, steps: int = 300) -> World:
    world = World(seed)
    try:
        world.run(steps)
    except BaseException as error:
        error.add_note(f"seed {seed}: simulate({seed})")
        raise
    return world


def main() -> None:
    first, last = (0, int(sys.argv[1])) if len(sys.argv) == 2 else map(int, sys.argv[1:3])
    crashes = messages = received = 0
    for seed in range(first, last):
        world = simulate(seed)
        crashes += world.crashes
        messages += len(world.kept)
        received += sum(len(s.seen) for s in world.subscribers)
        if (seed + 1) % 1000 == 0:
            print(seed + 1, "seeds", flush=True)
    print(f"{last - first} seeds: {messages} messages, {received} received, {crashes} crashes")


if __name__ == "__main__":
    main()
