"""Routers joined in memory: what they say to each other, and what they ask for."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest

from tamis.pubsub.broker.epochs import Epoch
from tamis.pubsub.broker.judge import Language
from tamis.pubsub.broker.records import Block, Record
from tamis.pubsub.links import effects as fx
from tamis.pubsub.links import link_frames as wire
from tamis.pubsub.links.parent import ParentLimits
from tamis.pubsub.links.router import Router
from tamis.schema import Schema

LANGUAGE = Language(Schema.of(price=float, symbol=str))
LINKS = count(1)
HELLO = wire.Hello(wire.VERSION, "edge", "", None, bytes(32), 0, ())


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
        self.holes: set[tuple[str, int]] = set()  # sequences that cannot be read
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
            case fx.Read(ticket, first) if (name, first) in self.holes:
                router.read_failed(ticket, first)
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
    net.routers["middle"].tidy()
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


def test_a_chain_is_not_longer_than_a_path_may_be(monkeypatch):
    monkeypatch.setattr(wire, "MAX_PATH", 4)
    net = Net()
    parents = {"a": "home", "b": "a", "c": "b", "d": "c"}
    for name, parent in parents.items():
        net.add(name)
        net.join(name, parent)
    assert [len(net.routers[name].path) for name in "abcd"] == [2, 3, 4, 1]
    assert net.others["c"][-1].reason == "the way from c to the home has 4 routers already (path)"
    for name in "ef":
        net.add(name)
    link = net.join("d", "home")
    net.join("e", "d")
    net.join("f", "e")
    assert len(net.routers["f"].path) == 4
    net.cut(link)
    net.join("d", "a")
    assert [len(net.routers[name].path) for name in "def"] == [3, 4, 1]


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


def test_many_wants_cross_in_parts(monkeypatch):
    monkeypatch.setattr(wire, "MAX_WANTS", 40)
    net = Net()
    edge = net.add("edge")
    edge.put_many((i, ">", f"symbol = 'S{i}' AND price > {i}", "") for i in range(150))
    link = net.join("edge", "home")
    assert [len(frame.wants) for frame in net.sent(wire.Wants)] == [40, 40, 40, 30]
    net.cut(link)
    for i in range(145):
        edge.remove(i)
    edge.put_many((i, ">", f"symbol = 'S{i}' AND price > {i}", "") for i in range(200, 400))
    edge.child.epochs = net.routers["home"].parent.epochs
    net.join("edge", "home")
    home = net.routers["home"].parent.branches["edge"]
    assert set(home.wants) == set(edge.child.wants)
    assert len(home.wants) == 205
    net.publish(record(1, price=300.0, symbol="S7"), record(2, price=300.0, symbol="S149"))
    assert net.sequences("edge") == [2]


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


def test_only_what_the_bound_of_a_link_allows_crosses_it():
    net = Net()
    edge = net.add("edge")
    net.join("edge", "home", bound="symbol = 'A'")
    edge.put("s", ">", "price > 5 OR price IS NULL")
    net.publish(record(1, price=9.0, symbol="A"), record(2, price=9.0, symbol="B"))
    net.publish(*(record(n, price=9.0, symbol="AB"[n % 2]) for n in range(3, 40)))
    assert net.sequences("edge") == [1, *range(4, 40, 2)]
    edge.fetch(7, 1, 6, [wire.Want(">", ""), wire.Want("???.", "no selector at all (")])
    net.settle()
    assert [r.sequence for r in net.others["edge"].pop().records] == [1, 4, 6]
    edge.fetch(8, 1, 4, [wire.Want(">", f"price = {n}") for n in range(200)])
    net.settle()
    assert [r.sequence for r in net.others["edge"].pop().records] == [1, 4]  # more than asked for


def test_a_bound_holds_for_everything_below_its_link():
    net = Net()
    net.add("middle")
    net.join("middle", "home", bound="symbol = 'A'")
    net.publish(record(1, symbol="A"), record(2, symbol="B"))
    edge = net.add("edge")
    link = net.join("edge", "middle")
    edge.put("s", ">", "")
    net.publish(record(3, symbol="B"), record(4, symbol="A"))
    net.cut(link)
    net.routers["middle"].forget("edge")
    net.routers["middle"].tidy()
    net.publish(record(5, symbol="A"), record(6, symbol="B"))
    net.join("edge", "middle")
    assert net.sequences("edge") == [4, 5]
    edge.fetch(1, 1, 6, [wire.Want(">", "")])
    net.settle()
    assert [r.sequence for r in net.others["edge"].pop().records] == [1, 4, 5]


def test_a_want_that_cannot_be_judged_passes_all_within_the_bound():
    net = Net()
    edge = net.add("edge")
    net.join("edge", "home", bound="symbol = 'A'")
    edge._tell([wire.Want("a..b", ""), wire.Want(">", "price >")], [])
    net.publish(record(1, symbol="A"), record(2, symbol="B"))
    assert net.sequences("edge") == [1]


def test_a_judge_that_fails_passes_all_within_the_bounds(monkeypatch):
    net = Net()
    edge, other = net.add("edge"), net.add("other")
    net.join("edge", "home", bound="symbol = 'A'")
    net.join("other", "home")
    net.add("idle")
    net.join("idle", "home")
    edge.put("s", ">", "price > 5")
    other.put("s", ">", "price > 5")
    net.settle()

    def fails(_):
        raise RuntimeError

    monkeypatch.setattr(net.routers["home"].parent.sieve._judge, "judge", fails)
    net.publish(record(1, symbol="A"), record(2, symbol="B"))
    assert (net.sequences("edge"), net.sequences("other")) == ([1], [1, 2])
    assert net.sequences("idle") == []
    assert net.routers["home"].parent.sieve.faults == 1


def test_a_paused_child_gets_later_what_it_missed():
    net = Net()
    edge = net.add("edge")
    net.join("edge", "home")
    edge.put("s", ">", "price > 5")
    net.settle()
    home = net.routers["home"]
    home.pause("edge", paused=True)
    net.publish(record(1, price=9.0))
    net.publish(record(2, price=1.0), record(3, price=7.0))
    assert net.sequences("edge") == []
    home.pause("edge", paused=False)
    net.publish(record(4, price=8.0))
    assert net.sequences("edge") == [1, 3, 4]


def test_a_slow_child_is_sent_no_more_than_a_window():
    net = Net()
    edge = net.add("edge")
    net.join("edge", "home")
    edge.put("s", ">", "")
    net.settle()
    held, whole = [], edge.stored
    edge.stored = held.append
    for n in range(1, 40):
        net.publish(record(n, text="x" * 100_000))
    assert 10 <= len(net.sequences("edge")) <= 12
    edge.stored = whole
    edge.stored(held[-1])
    net.settle()
    assert net.sequences("edge") == list(range(1, 40))


def test_what_was_trimmed_at_the_home_is_called_gone():
    net = Net()
    net.add("middle")
    edge = net.add("edge")
    net.join("middle", "home")
    link = net.join("edge", "middle")
    edge.put("s", ">", "")
    net.publish(record(1), record(2))
    net.cut(link)
    net.routers["middle"].forget("edge")
    net.routers["middle"].tidy()
    net.publish(record(3), record(4), record(5))
    net.copies["home"] = net.copies["home"][4:]
    net.routers["home"].trimmed(5)
    net.join("edge", "middle")
    net.publish(record(6))
    assert net.sequences("edge") == [5, 6]
    assert edge.coverage.oldest == 5


def test_a_paused_child_learns_what_was_trimmed_meanwhile():
    net = Net()
    edge = net.add("edge")
    net.join("edge", "home")
    edge.put("s", ">", "")
    net.publish(record(1))
    net.routers["home"].pause("edge", paused=True)
    net.publish(record(2), record(3), record(4))
    net.copies["home"] = net.copies["home"][3:]
    net.routers["home"].trimmed(4)
    net.routers["home"].pause("edge", paused=False)
    net.publish(record(5))
    assert net.sequences("edge") == [4, 5]
    assert edge.coverage.oldest == 4


def test_what_cannot_be_read_in_a_copy_is_fetched_above():
    net = Net()
    middle = net.add("middle")
    edge = net.add("edge")
    net.join("middle", "home")
    link = net.join("edge", "middle")
    edge.put("s", ">", "")
    net.publish(record(1))
    net.cut(link)
    net.publish(record(2), record(3))
    net.holes = {("middle", 2)}
    net.join("edge", "middle")
    assert middle.coverage.oldest == 1
    net.publish(record(4))
    assert net.sequences("edge") == [1, 2, 3, 4]


def test_what_the_home_cannot_read_is_called_gone():
    net = Net()
    edge = net.add("edge")
    link = net.join("edge", "home")
    edge.put("s", ">", "")
    net.publish(record(1))
    net.cut(link)
    net.publish(record(2), record(3))
    net.holes = {("home", 2)}
    net.join("edge", "home")
    assert net.sequences("edge") == [3]
    assert edge.coverage.oldest == 3


def test_a_restored_home_is_noticed():
    net = Net()
    edge = net.add("edge")
    link = net.join("edge", "home")
    edge.put("s", ">", "")
    net.publish(record(1), record(2), record(3))
    net.cut(link)
    net.copies["home"] = net.copies["home"][:2]
    epochs = (Epoch("e1", 1), Epoch("e2", 3))
    net.routers["home"] = Router("home", 1, LANGUAGE, home=True, upto=2, epochs=epochs)
    net.publish(record(3, symbol="another"), record(4))
    net.join("edge", "home")
    assert [e.common for e in net.others["edge"] if isinstance(e, fx.Reset)] == [2]
    assert edge.coverage.upto is None


def test_a_replaced_home_is_noticed():
    net = Net()
    edge = net.add("edge")
    link = net.join("edge", "home")
    edge.put("s", ">", "")
    net.publish(record(1), record(2), record(3))
    net.cut(link)
    net.routers["home"] = Router("home", 1, LANGUAGE, home=True, upto=9, epochs=(Epoch("x", 1),))
    net.join("edge", "home")
    assert [e.common for e in net.others["edge"] if isinstance(e, fx.Reset)] == [0]


def test_wants_that_went_and_came_back_have_no_old_coverage():
    net = Net()
    net.add("middle")
    edge, other = net.add("edge"), net.add("other")
    net.join("middle", "home")
    net.join("edge", "middle")
    edge.put("s", ">", "price > 5")
    net.publish(record(1, price=9.0))
    edge.remove("s")
    net.publish(record(2, price=9.0))
    assert net.sequences("middle") == [1]
    other.put("s", ">", "price > 5")
    other.coverage.upto = other.child.got = 1
    other.child.epochs = net.routers["home"].parent.epochs
    net.join("other", "middle")
    net.publish(record(3, price=9.0))
    assert net.sequences("other") == [2, 3]


def test_a_filter_that_is_merged_away_is_asked_for_until_the_other_is_in_force():
    net = Net()
    middle, edge = net.add("middle"), net.add("edge")
    net.join("middle", "home")
    net.join("edge", "middle")
    edge.put("narrow", ">", "price > 5")
    net.settle()
    edge.put("wide", ">", "price > 2")
    add = edge.effects()
    assert [type(e.frame) for e in add] == [wire.Add]  # and no Remove
    for effect in add:
        net.do("edge", effect)
    net.publish(record(1, price=9.0))
    assert net.sequences("edge") == [1]
    assert list(edge.child.wants) == [wire.Want(">", "price > 2")]
    assert list(middle.coverage.since) == [wire.Want(">", "price > 2")]


def test_a_drained_router_sends_its_children_away():
    net = Net()
    net.add("edge")
    net.join("edge", "home")
    net.routers["home"].drain("maintenance until 5")
    net.settle()
    assert net.others["edge"] == [fx.Close(mock_link(net, "edge"), "maintenance until 5")]
    net.join("edge", "home")
    assert net.others["edge"][-1].reason == "maintenance until 5"


def mock_link(net, name):
    return next(e.link for e in net.others[name] if isinstance(e, fx.Close))


@pytest.mark.parametrize(
    "frames",
    [
        [wire.Ack(1)],
        [wire.Publish(1, "me", ())],
        [HELLO, HELLO],
        [HELLO, wire.Add(2, ()), wire.Add(2, ())],
        [HELLO, wire.Fetch(1, 5, 9, None)],
        [msgspec.structs.replace(HELLO, count=10**9)],
        [msgspec.structs.replace(HELLO, name="home")],
        [HELLO, wire.Add(1, (wire.Want("a", ""), wire.Want("b", "")))],
    ],
    ids=repr,
)
def test_children_that_break_the_rules_are_refused(frames):
    home = Router("home", 1, LANGUAGE, home=True, upto=0, epochs=(Epoch("e", 1),),
                  limits=ParentLimits(wants=1))  # fmt: skip
    home.accept(1)
    for frame in frames:
        home.receive(1, frame)
    assert any(isinstance(e, fx.Send) and isinstance(e.frame, wire.Refused) for e in home.effects())
    home.receive(1, frames[0])  # too late: nobody listens
    assert not home.effects()


@pytest.mark.parametrize(
    "frames",
    [
        [wire.Data(1, 1, ())],
        [wire.Welcome(5), wire.Data(7, 7, ())],
        [wire.Welcome(5), wire.Data(4, 5, ())],
        [wire.Welcome(5), wire.Welcome(5), wire.Welcome(4)],
        [wire.Welcome(5), wire.Added(1, 7)],
        [wire.Fetched(0, 1, 1, ())],
        [wire.Welcome(5), wire.Welcome(8), wire.Fetched(0, 5, 8, ())],
    ],
    ids=repr,
)
def test_parents_that_break_the_rules_are_left(frames):
    edge = Router("edge", 1, LANGUAGE)
    edge.connect(1)
    edge.receive(1, wire.Above(("home",), (Epoch("e", 1),)))
    for frame in frames:
        edge.receive(1, frame)
    close = edge.effects()[-1]
    assert isinstance(close, fx.Close)
    assert "home broke the protocol" in close.reason


def test_a_second_link_of_a_router_takes_over():
    net = Net()
    edge = net.add("edge")
    net.join("edge", "home")
    edge.child.disconnected()  # it has noticed what its parent has not
    edge.put("s", ">", "")
    net.join("edge", "home")
    net.publish(record(1))
    assert net.sequences("edge") == [1]
    home = net.routers["home"]
    home.accept(99, "somebody else")
    home.receive(99, HELLO)
    assert "another principal" in home.effects()[0].frame.reason


def test_why_a_message_crosses_a_link():
    net = Net()
    edge = net.add("edge")
    net.join("edge", "home")
    edge.put("a", ">", "price > 5")
    edge.put("b", "q", "symbol LIKE '%B%'")
    net.settle()
    home = net.routers["home"]
    found = home.why("edge", record(1, price=1.0, symbol="ABC"))
    assert found == [wire.Want("q", "symbol LIKE '%B%'")]


def test_what_a_forgotten_child_wanted_goes_piece_by_piece():
    net = Net()
    middle = net.add("middle")
    edge = net.add("edge")
    net.join("middle", "home")
    link = net.join("edge", "middle")
    for n in range(7):
        edge.put(n, f"s{n}", "")
    net.settle()
    net.cut(link)
    middle.forget("edge")
    left = []
    while middle.tidy(3):
        net.settle()
        left.append(len(middle.child.wants))
    net.settle()
    assert left == [4, 1]
    assert len(middle.child.wants) == len(middle.parent.sieve) == 0
    net.join("edge", "middle")
    net.publish(record(1, subject="s5"))
    assert net.sequences("edge") == [1]
