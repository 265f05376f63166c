"""Routers joined in memory: what they say to each other, and what they ask for."""

from __future__ import annotations

from itertools import count

import msgspec

from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links import link_frames as wire
from tamis.pubsub.links.epochs import Epoch
from tamis.pubsub.links.router import Router
from tamis.schema import Schema

LANGUAGE = Language(Schema.of(price=float, symbol=str))
LINKS = count(1)


def record(sequence, subject="q", **attributes):
    return Record(sequence, sequence, "p", 0, "", subject, msgspec.json.encode(attributes))


class Net:
    """Routers by name; effects are done at once, in order, and every frame passes as bytes."""

    def __init__(self) -> None:
        self.routers: dict[str, Router] = {}
        self.ends: dict[tuple[str, int], str] = {}
        self.copies: dict[str, list[Record]] = {}
        self.frames: list[tuple[str, str, object]] = []
        self.others: dict[str, list] = {}
        home = Router("home", 1, LANGUAGE, home=True, upto=0, epochs=(Epoch("e1", 1),))
        self.add("home", home)

    def add(self, name, router=None):
        self.routers[name] = router or Router(name, 1, LANGUAGE)
        self.copies[name], self.others[name] = [], []
        return self.routers[name]

    def join(self, child, parent, bound=""):
        link = next(LINKS)
        self.ends[child, link], self.ends[parent, link] = parent, child
        self.routers[parent].accept(link, "somebody", bound)
        self.routers[child].connect(link)
        self.settle()
        return link

    def cut(self, link):
        for name, number in [end for end in self.ends if end[1] == link]:
            self.routers[name].disconnected(number)
            del self.ends[name, number]
        self.settle()

    def publish(self, *records):
        self.settle()
        self.copies["home"] += records
        self.routers["home"].appended(Block(1, records))
        self.settle()

    def settle(self):
        busy = True
        while busy:
            busy = False
            for name in list(self.routers):
                for effect in self.routers[name].effects():
                    busy = True
                    self.do(name, effect)

    def do(self, name, effect):
        router = self.routers[name]
        match effect:
            case fx.Send(link, frame) if (name, link) in self.ends:
                up = isinstance(frame, wire.Up)
                data = wire.encode(1, frame)
                _, frame = (wire.decode_up if up else wire.decode_down)(data)
                other = self.ends[name, link]
                self.frames.append((name, other, frame))
                self.routers[other].receive(link, frame)
            case fx.Close(link) if (name, link) in self.ends:
                other = self.ends.pop((name, link))
                self.routers[other].disconnected(link)
                self.ends.pop((other, link), None)
                self.others[name].append(effect)
            case fx.Store(block):
                self.copies[name] += block.records
                router.stored(block.last)
            case fx.Begin(first):
                self.copies[name] = [r for r in self.copies[name] if r.sequence >= first]
                router.stored(first - 1)
            case fx.Read(ticket, first, last, most):
                found = [r for r in self.copies[name] if first <= r.sequence <= last][:most]
                through = found[-1].sequence if len(found) == most else last
                router.read_done(ticket, through, found)
            case fx.Send() | fx.Close() | fx.Keep():
                pass
            case _:
                self.others[name].append(effect)

    def sequences(self, name):
        return [r.sequence for r in self.copies[name]]

    def sent(self, kind):
        return [frame for _, _, frame in self.frames if isinstance(frame, kind)]


def test_only_what_is_wanted_below_crosses_a_link():
    net = Net()
    net.add("middle")
    edge = net.add("edge")
    net.join("middle", "home")
    net.join("edge", "middle")
    net.publish(record(1, price=9.0))
    edge.put("s", "q", "price > 5")
    net.settle()
    assert net.others["edge"] == [fx.InForce(("s",), 2)]
    net.publish(record(2, price=9.0), record(3, price=1.0))
    net.publish(record(4, subject="other", price=9.0))
    net.publish(record(5, price=6.0))
    assert net.sequences("middle") == net.sequences("edge") == [2, 5]
    assert edge.path == ("edge", "middle", "home")
    edge.remove("s")
    net.settle()
    net.publish(record(6, price=9.0))
    assert net.sequences("edge") == [2, 5]
    for router in net.routers.values():
        router.tick()
        net.settle()
    assert edge.coverage.upto == 6


def test_what_was_missed_while_a_link_was_cut_is_fetched():
    net = Net()
    net.add("middle")
    edge = net.add("edge")
    net.join("middle", "home")
    link = net.join("edge", "middle")
    edge.put("s", ">", "price > 5")
    net.publish(record(1, price=9.0))
    net.cut(link)
    net.routers["middle"].forget("edge")
    net.publish(record(2, price=9.0), record(3, price=1.0))
    assert net.sequences("middle") == [1]  # nobody wants it there
    net.publish(record(4, price=7.0))
    net.join("edge", "middle")
    net.publish(record(5, price=8.0))
    assert net.sequences("edge") == [1, 2, 4, 5]


def test_a_cycle_is_refused_by_name():
    net = Net()
    for name in "abc":
        net.add(name)
    net.join("b", "a")
    net.join("c", "b")
    net.join("a", "c")
    closed = [e for name in "abc" for e in net.others[name] if isinstance(e, fx.Close)]
    assert any("a > c > b > a" in close.reason for close in closed), closed
    net.join("a", "home")
    net.publish(record(1, price=1.0))
    assert len(net.ends) >= 4


def test_a_known_digest_sends_no_wants():
    net = Net()
    edge = net.add("edge")
    edge.put_many((i, ">", f"symbol = 'S{i}' AND price > {i}", "") for i in range(300))
    link = net.join("edge", "home")
    assert sum(len(frame.wants) for frame in net.sent(wire.Wants)) == 300
    net.frames.clear()
    net.cut(link)
    net.publish(record(1, price=9.0, symbol="S7"))
    net.join("edge", "home")
    assert not net.sent(wire.Wants)
    assert net.sent(wire.Hello)[0].wants is None
    assert net.sequences("edge") == [1]


def test_publishing_goes_to_the_home():
    net = Net()
    net.add("middle")
    edge = net.add("edge")
    edge.publish(1, "me", ())
    net.settle()
    assert "cut off" in net.others["edge"].pop().error
    net.join("middle", "home")
    link = net.join("edge", "middle")
    edge.publish(2, "me", ())
    net.settle()
    admit = net.others["home"].pop()
    net.routers["home"].published(admit.ticket, (17,))
    net.settle()
    assert net.others["edge"].pop() == fx.Answered(2, (17,), "", unknown=False)
    edge.publish(3, "me", ())
    net.settle()
    net.cut(link)
    assert net.others["edge"].pop().unknown
