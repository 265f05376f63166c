"""Matches that are gathered by array: every session gets what it gets one by one."""

from __future__ import annotations

import random

import msgspec
import pytest

from tamis.pubsub.broker import actions as act
from tamis.pubsub.broker.intake import Draft
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.machine import Broker, BrokerLimits
from tamis.pubsub.broker.stored import Stored, Version
from tamis.schema import Schema
from tamis.server import frames


class World:
    """A broker with a log that is a list; `gathers`: sessions take arrays."""

    def __init__(self, gathers: bool, limits: BrokerLimits | None = None) -> None:
        self.broker = Broker(limits or BrokerLimits(room=6, read=5))
        self.broker.open(1, Language(Schema.of(n=int, s=str)))
        self.prefix = frames.prefix if gathers else None
        self.log, self.got, self.owed, self.arrays = [], {}, {}, 0
        self.bytes = self.most = 0  # on their way

    def connect(self, session: int) -> None:
        self.broker.connect(session, None, self.prefix)

    def drain(self) -> None:
        self.broker.tidy()
        while actions := self.broker.actions():
            for action in actions:
                match action:
                    case act.Commit():
                        self.log += action.blocks[0].records
                        self.broker.committed()
                        self.broker.match()
                    case act.Read():
                        found = [r for r in self.log if r.sequence >= action.first][: action.most]
                        self.broker.read_done(action.subscription, action.first, found)
                    case act.Deliver():
                        self.send(frames.Frames().frame(action.messages))
                        for subscription, record in action.messages:
                            self.take(action.session, subscription.label, record.sequence)
                    case act.Gathered():
                        self.gathered(action)

    def gathered(self, action: act.Gathered) -> None:
        pieces = list(map(frames.piece, action.records))
        for session, seats, rows in action.shares:
            frame = frames.gathered(action.prefixes, pieces, seats, rows)
            self.send(frame)
            for message in msgspec.json.decode(frame)["messages"]:
                self.take(session.id, message["subscription"], message["sequence"])
                self.arrays += 1

    def send(self, frame: bytes) -> None:
        self.bytes += len(frame)
        self.most = max(self.most, self.bytes)

    def take(self, session: int, label: str, sequence: int) -> None:
        self.got.setdefault((session, label), []).append(sequence)
        self.owed[session] = self.owed.get(session, 0) + 1

    def written(self, session: int) -> None:
        self.bytes = 0
        if self.owed.get(session):
            self.broker.written(session, self.owed.pop(session))


def steps(seed):
    """What happens, the same for both worlds."""
    chance, live, count = random.Random(seed), {}, 0
    for _ in range(chance.randint(20, 90)):
        what = chance.random()
        if what < 0.15 or not live:
            count += 1
            live[count] = []
            yield "connect", count
        elif what < 0.4:
            session = chance.choice(list(live))
            label = f"é{len(live[session])}.{chance.randrange(10**6)}"
            live[session].append(label)
            yield "subscribe", session, label, f"n > {chance.randrange(8)}"
        elif what < 0.45 and any(live.values()):
            session = chance.choice([s for s, labels in live.items() if labels])
            yield "unsubscribe", session, live[session].pop(0)
        elif what < 0.5:
            session = chance.choice(list(live))
            del live[session]
            yield "disconnect", session
        elif what < 0.65:
            yield "written", chance.choice(list(live))
        else:
            many = range(chance.choice([1, 3, 30]))
            yield "publish", [(chance.randrange(10), chance.choice("ab")) for _ in many]
    for session in live:
        for _ in range(60):
            yield "written", session


def ran(world, seed):
    for what, *rest in steps(seed):
        match what:
            case "connect":
                world.connect(rest[0])
            case "subscribe":
                session, label, selector = rest
                stored = Stored(1, f"~{session}~{label}", "p", (Version(1, ">", selector),))
                world.broker.subscribe(session, stored, label=label)
            case "unsubscribe":
                world.broker.unsubscribe(rest[0], (1, f"~{rest[0]}~{rest[1]}"))
            case "disconnect":
                world.broker.disconnect(rest[0])
            case "written":
                world.written(rest[0])
            case "publish":
                drafts = [Draft("a.b", b'{"n":%d,"s":"%b"}' % (n, s.encode()))
                          for n, s in rest[0]]  # fmt: skip
                world.broker.publish(0, 1, "p", drafts)
                world.broker.tick(0)
        world.drain()
    found = [(s.label, s.matched + s.seated, s.delivered + s.seated)
             for s in world.broker.channels[1].subscriptions.values()]  # fmt: skip
    return world.got, found, world.broker.delivered


@pytest.mark.parametrize("seed", range(60))
def test_arrays_bring_what_one_by_one_brings(seed):
    plain, gathering = World(gathers=False), World(gathers=True)
    expected = ran(plain, seed)
    assert ran(gathering, seed) == expected
    for sequences in gathering.got.values():
        assert sequences == sorted(set(sequences))


def test_most_messages_go_by_array():
    worlds = [World(gathers=True) for _ in range(10)]
    for seed, world in enumerate(worlds):
        ran(world, seed)
    assert sum(world.arrays for world in worlds) > 50


@pytest.mark.parametrize("gathers", [True, False])
@pytest.mark.parametrize("label", ["a", "é" * 200])
def test_the_bytes_on_their_way_to_a_session_are_bounded(gathers, label):
    """Names of subscriptions count; one message may overdraw the room."""
    room, body = 10_000, b'{"n":1,"s":"%b"}' % (b"x" * 3_000)
    world = World(gathers, BrokerLimits(room_bytes=room))
    world.connect(1)
    stored = Stored(1, "~1~a", "p", (Version(1, ">", ""),))
    world.broker.subscribe(1, stored, label=label)
    for many in (1, 2, 1, 30, 100):
        world.broker.publish(0, 1, "p", [Draft("a.b", body)] * many)
        world.broker.tick(0)
        world.drain()
    assert room - len(body) < world.most < room + len(body) + 1_000
    while world.owed:
        world.written(1)
        world.drain()
    assert world.got[1, label] == list(range(1, 135))
    assert world.most < room + len(body) + 1_000
    assert world.broker.sessions[1].room_bytes == room


def test_bytes_come_back_when_the_whole_piece_is_written():
    world = World(True, BrokerLimits(room_bytes=10_000))
    world.connect(1)
    world.broker.subscribe(1, Stored(1, "~1~a", "p", (Version(1, ">", ""),)))
    world.broker.publish(0, 1, "p", [Draft("a.b", b'{"n":1}')] * 5)
    world.broker.tick(0)
    world.drain()
    session = world.broker.sessions[1]
    assert session.room_bytes < 10_000
    world.broker.written(1, 4)
    assert session.room_bytes < 10_000
    world.broker.written(1, 1)
    assert (session.room, session.room_bytes) == (2_000, 10_000)
