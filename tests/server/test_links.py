"""Routers joined by links, in one process: real sockets, real logs."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from itertools import pairwise, permutations

import pytest
import websockets.sync.client as ws
from websockets.exceptions import ConnectionClosed

from dose import DEEP
from server.servers import QUOTES, served
from server.test_kill import free_port
from tamis.client import Agent
from tamis.errors import TamisError
from tamis.pubsub.broker.epochs import Epoch
from tamis.pubsub.links.interests import Interests
from tamis.pubsub.links.link_frames import Ack, encode
from tamis.registry import SqliteRegistry
from tamis.registry.registry_values import Principal, Right
from tamis.server.access import new_token
from tamis.server.process.serve import Address


class Network:
    """Routers by name; agents of theirs."""

    def __init__(self, stack, root):
        self.stack, self.root = stack, root
        self.routers, self.agents = {}, {}
        self.running = {}

    def add(self, name, *parents, **more):
        urls = tuple(p if "://" in p else self.routers[p].url for p in parents)
        own = ExitStack()
        self.running[name] = own
        found = own.enter_context(served(self.root / name, name=name, parents=urls,
                                         stomp=None, packets=None, **more))  # fmt: skip
        self.routers[name] = found
        self.stack.push(own)
        return found

    def agent(self, *names):
        return self.stack.enter_context(Agent([self.routers[n].url for n in names]))

    def links(self, name):
        with self.routers[name].http() as http:
            return http.get("/api/links").json()["links"]


@pytest.fixture
def net(tmp_path):
    with ExitStack() as stack:
        yield Network(stack, tmp_path)


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.01)


def chain(net, *names):
    net.add(names[0])
    writer = net.agent(names[0])
    writer.put_channel("quotes", QUOTES)
    for above, name in pairwise(names):
        net.add(name, above)
        until(lambda name=name: joined(net, name))
    return writer


def joined(net, name):
    nodes = net.routers[name].parts.network.nodes.values()
    return bool(nodes) and all(node.router.connected for node in nodes)


def test_what_is_wanted_at_the_end_of_a_chain_arrives_there(net):
    writer = chain(net, "home", "middle", "edge")
    edge = net.agent("edge")
    mine = edge.subscribe("quotes", "price > 10", durable="mine")
    cheap = edge.subscribe("quotes", "price < 2")
    writer.publish_many("quotes", [{"attributes": {"price": float(p)}} for p in range(20)])
    assert [mine.get(5).sequence for _ in range(9)] == list(range(12, 21))
    assert [cheap.get(5).sequence for _ in range(2)] == [1, 2]
    kept = net.routers["edge"].parts.hub.log.read(1, 1, 100)
    assert [r.sequence for r in kept] == [1, 2, *range(12, 21)]
    assert edge.publish("quotes", {"price": 50.0}) == 21
    assert mine.get(5).sequence == 21
    assert [row["wants"] for row in net.links("middle")] == [2, 2]
    with net.routers["middle"].http() as http:
        why = http.get("/api/links/edge/quotes/why?sequence=15").json()
        assert why["crosses"]
        assert "price > 10" in why["wants"][0]["selector"]
        assert http.get("/api/links/edge/quotes/why?sequence=5").status_code == 422


def stop(net, name):
    net.running[name].close()


def test_who_subscribed_at_the_end_gets_what_is_published_after_the_middle_restarted(net):
    """What NATS users reported again and again: interest that is gone after a reconnect."""
    writer = chain(net, "home", "middle", "edge")
    port = net.routers["middle"].found.http
    mine = net.agent("edge").subscribe("quotes", "price > 10")
    writer.publish("quotes", {"price": 11.0})
    assert mine.get(5).sequence == 1
    stop(net, "middle")
    writer.publish("quotes", {"price": 12.0})
    net.add("middle", "home", http=Address("127.0.0.1", port))
    writer.publish("quotes", {"price": 13.0})
    assert [mine.get(10).sequence for _ in range(2)] == [2, 3]
    until(lambda: joined(net, "edge"))
    digests = {row["digest"] for n in ("middle", "edge") for row in net.links(n)}
    assert len(digests) == 1


def test_an_agent_moves_to_another_edge_and_gets_each_message_once(net):
    writer = chain(net, "home", "north")
    net.add("south", "home")
    until(lambda: joined(net, "south"))
    agent = net.agent("north", "south")
    mine = agent.subscribe("quotes", "price > 0", durable="mine")
    for price in (1.0, 2.0):
        writer.publish("quotes", {"price": price})
        mine.acknowledge(mine.get(5))
    stop(net, "north")
    writer.publish_many("quotes", [{"attributes": {"price": 3.0}}] * 5)
    got = [mine.get(10) for _ in range(5)]
    assert [one.sequence for one in got] == [3, 4, 5, 6, 7]
    writer.publish("quotes", {"price": 9.0})
    assert mine.get(5).sequence == 8
    assert mine.lost == []


def test_a_new_subscriber_at_an_edge_gets_the_history_from_the_home(net):
    writer = chain(net, "home", "middle")
    writer.publish_many("quotes", [{"attributes": {"price": float(p)}} for p in range(50)])
    net.add("edge", "middle")
    until(lambda: joined(net, "edge"))
    mine = net.agent("edge").subscribe("quotes", "price > 46", durable="mine", start="all")
    assert [mine.get(5).sequence for _ in range(3)] == [48, 49, 50]


def test_a_triangle_is_refused_by_name(net):
    writer = chain(net, "home", "middle")
    port = free_port()
    net.add("low", "middle", f"http://127.0.0.1:{port}")
    until(lambda: joined(net, "low"))
    stop(net, "middle")
    net.add("middle", "low", http=Address("127.0.0.1", port))
    until(lambda: "would feed itself" in str(net.links("low") + net.links("middle")), 15)
    assert writer.publish("quotes", {"price": 1.0}) == 1


def test_publishing_is_refused_while_the_home_cannot_be_reached(net):
    chain(net, "home", "edge")
    edge = net.agent("edge")
    assert edge.publish("quotes", {"price": 1.0}) == 1
    stop(net, "home")
    until(lambda: not joined(net, "edge"))
    with pytest.raises(TamisError, match="cut off from the home"):
        edge.publish("quotes", {"price": 2.0})


def test_the_mandatory_selector_of_a_link_holds_below_it(net):
    net.add("home")
    with net.routers["home"].http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put("/api/principals/boss", json={}).raise_for_status()
        http.post("/api/principals/boss/rights", json={"verb": "manage"})
        boss = net.routers["home"].parts.door
        registry = net.routers["home"].parts.hub.registry
        for verb in ("publish", "subscribe"):
            registry.put_right(Right("boss", verb))
        registry.put_principal(Principal("branch", "main", selector="symbol = 'A'"))
        registry.put_right(Right("branch", "subscribe"))
        registry.put_right(Right("branch", "publish", subjects="allowed"))
        token = new_token(registry, "branch")
        master = new_token(registry, "boss")
        boss.renewals += 1
    with Agent(net.routers["home"].url, token=master) as writer:
        net.add("edge", "home", parent_token=token)
        until(lambda: joined(net, "edge"))
        edge = net.agent("edge")
        mine = edge.subscribe("quotes", "")
        rows = [{"symbol": s, "price": 1.0} for s in "ABAB"]
        writer.publish_many("quotes", [{"attributes": row} for row in rows])
        assert [mine.get(5).sequence for _ in range(2)] == [1, 3]
        assert edge.publish("quotes", {"symbol": "A"}, subject="allowed") == 5
        with pytest.raises(TamisError, match="no right to publish"):
            edge.publish("quotes", {"symbol": "A"}, subject="other")


def test_only_who_operates_the_router_drains_it_and_sees_its_parents(tmp_path):
    """Managers of another tenant manage all channels that it has, and no more."""
    registry = SqliteRegistry(tmp_path / "registry.db")
    tokens = {}
    for tenant, name, channel in (("main", "boss", "*"), ("main", "one", "quotes"),
                                  ("acme", "eve", "*")):  # fmt: skip
        made = Principal(name, tenant)
        registry.put_principal(made)
        registry.put_right(Right(made.login, "manage", channel))
        tokens[name] = {"authorization": f"Bearer {new_token(registry, made.login)}"}
    registry.close()
    away = "http://127.0.0.1:9"
    with served(tmp_path, name="home", parents=(away,)) as found:
        drained = []
        found.parts.network.drain = drained.append
        for name, status, parents in (("eve", 403, 0), ("one", 403, 0), ("boss", 204, 1)):
            with found.http(headers=tokens[name]) as http:
                assert http.post("/api/links/drain").status_code == status, name
                assert len(http.get("/api/links").json()["parents"]) == parents, name
        assert len(drained) == 1


def test_a_link_is_paused_and_goes_on_without_a_loss(net):
    writer = chain(net, "home", "edge")
    mine = net.agent("edge").subscribe("quotes", "price > 0")
    with net.routers["home"].http() as http:
        assert http.post("/api/links/edge/quotes/pause").status_code == 204
        writer.publish("quotes", {"price": 1.0})
        with pytest.raises(TimeoutError):
            mine.get(0.3)
        assert net.links("home")[0]["state"] == "paused"
        assert http.post("/api/links/edge/quotes/resume").status_code == 204
        assert mine.get(5).sequence == 1


def test_a_home_that_was_restored_is_noticed_at_the_edges(net):
    writer = chain(net, "home", "edge")
    port = net.routers["home"].found.http
    mine = net.agent("edge").subscribe("quotes", "price > 0", durable="mine")
    writer.publish_many("quotes", [{"attributes": {"price": 1.0}}] * 5)
    for _ in range(5):
        mine.acknowledge(mine.get(5))
    stop(net, "home")
    for path in (net.root / "home").glob("log.*"):
        path.unlink()
    net.add("home", http=Address("127.0.0.1", port))
    until(lambda: mine.lost, 15)
    writer.publish("quotes", {"price": 7.0})
    assert (mine.get(10).sequence, mine.lost[0].first) == (1, 1)


def test_a_parent_that_dies_is_replaced_by_the_next_one(net):
    writer = chain(net, "home", "a")
    net.add("b", "home")
    net.add("edge", "a", "b")
    until(lambda: joined(net, "edge") and joined(net, "b"))
    mine = net.agent("edge").subscribe("quotes", "price > 0")
    writer.publish("quotes", {"price": 1.0})
    assert mine.get(5).sequence == 1
    begun = time.monotonic()
    stop(net, "a")
    writer.publish("quotes", {"price": 2.0})
    assert mine.get(5).sequence == 2
    assert time.monotonic() - begun < 5
    assert net.links("edge")[0]["path"] == ["edge", "b", "home"]


ORDERS = list(permutations(("home", "a", "b", "edge")))


@pytest.mark.parametrize("order", ORDERS if DEEP else ORDERS[5:6], ids="-".join)
def test_every_order_of_restarts_ends_with_the_same_wants_on_all_links(net, order):
    writer = chain(net, "home", "a", "b", "edge")
    ports = {name: net.routers[name].found.http for name in order}
    above = {"home": (), "a": ("home",), "b": ("a",), "edge": ("b",)}
    edge = net.agent("edge")
    texts = ("price > 10", "symbol LIKE '%A%'", "price < 5 AND symbol IN ('A', 'B')")
    held = [edge.subscribe("quotes", text, durable=f"s{i}") for i, text in enumerate(texts)]
    for name in order:
        stop(net, name)
        net.add(name, *above[name], http=Address("127.0.0.1", ports[name]))
    until(lambda: all(joined(net, name) for name in ("a", "b", "edge")), 20)
    until(lambda: len(digests(net)) == 1)
    writer.publish("quotes", {"price": 1.0, "symbol": "A"})
    assert [one.get(10).sequence for one in held[1:]] == [1, 1]


def digests(net):
    rows = [row for name in ("home", "a", "b", "edge") for row in net.links(name)]
    return {(row["digest"], row["wants"]) for row in rows}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_link_over_tls_checks_its_parent(net, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key,
         "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    home = net.add("home", certificate=certificate, key=key)
    url = home.url.replace("http:", "https:")
    writer = net.stack.enter_context(Agent(url, ca=certificate))
    writer.put_channel("quotes", QUOTES)
    net.add("stranger", url)
    until(lambda: "certificate" in net.routers["stranger"].parts.network.uplinks[0].state)
    net.add("edge", url, parent_ca=str(certificate))
    until(lambda: joined(net, "edge"))
    assert net.agent("edge").publish("quotes", {"price": 1.0}) == 1


def test_a_replay_at_an_edge_has_what_the_home_has(net):
    writer = chain(net, "home", "edge")
    writer.publish_many("quotes", [{"attributes": {"price": float(p)}} for p in range(30)])
    until(lambda: net.links("edge")[0]["upto"] == 30)
    with net.routers["edge"].http() as http:
        asked = "/api/channels/quotes/messages?first=5&before=25&selector=price > 20"
        lines = http.get(asked).text.splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == [22, 23, 24]


def test_a_channel_that_is_at_home_below_is_not_touched(net, caplog):
    net.add("home")
    net.agent("home").put_channel("quotes", QUOTES)
    net.agent("home").put_channel("trades", QUOTES)
    net.add("edge")
    net.agent("edge").put_channel("quotes", QUOTES)
    port = net.routers["edge"].found.http
    stop(net, "edge")
    net.add("edge", "home", http=Address("127.0.0.1", port))
    until(lambda: joined(net, "edge"))
    assert "is at home here already" in caplog.text
    assert net.agent("edge").publish("quotes", {"price": 1.0}) == 1
    assert net.agent("home").publish("quotes", {"price": 1.0}) == 1


def test_hostile_children_are_closed_and_harm_nobody(net):
    writer = chain(net, "home", "edge")
    url = net.routers["home"].url.replace("http", "ws") + "/links?name=x"
    mine = net.agent("edge").subscribe("quotes", "price > 0")
    for data in (b"\0\0\0\1rubbish", b"{", b"[]", "[" * 50_000, b"{" * 50_000, b"", b"\xff" * 9,
                 '{"type": "open"}', '{"type": "open", "channel": "x"}', '{"type": 5}',
                 '{"type": "open", "channel": 99}', encode(1, Ack(5))):  # fmt: skip
        with ws.connect(url) as peer:
            assert json.loads(peer.recv(5))["type"] == "channels"
            peer.send(data)
            with suppress(ConnectionClosed, TimeoutError):
                peer.recv(0.2)
    writer.publish("quotes", {"price": 1.0})
    assert mine.get(5).sequence == 1
    with net.routers["home"].http() as http:
        assert http.get("/health").json()["status"] == "ok"


def test_many_subscriptions_that_need_history_ask_for_it_in_turn(net):
    """A parent takes a bounded number of requests at once."""
    writer = chain(net, "home", "middle", "edge")
    writer.publish_many("quotes", [{"attributes": {"price": float(p)}} for p in range(300)])
    edge = net.agent("edge")
    held = [edge.subscribe("quotes", f"price = {i}", durable=f"s{i}", start="all")
            for i in range(70)]  # fmt: skip
    assert [one.get(20).sequence for one in held] == list(range(1, 71))
    assert "refuse" not in str(net.links("edge"))


def test_a_copy_that_is_behind_does_not_call_the_log_another_one(net):
    """An agent comes with an epoch of which the copy has not heard: the home is asked."""
    writer = chain(net, "home", "edge")
    port = net.routers["home"].found.http
    agent = net.agent("home", "edge")
    mine = agent.subscribe("quotes", "price > 0", durable="mine")
    writer.publish("quotes", {"price": 1.0})
    mine.acknowledge(mine.get(5))
    node = next(iter(net.routers["edge"].parts.network.nodes.values()))
    older = node.router.child.epochs
    stop(net, "home")
    until(lambda: not node.router.connected)
    node.router.child.epochs = (Epoch("an older one", 1),)
    time.sleep(1)
    assert mine.lost == []
    node.router.child.epochs = older
    net.add("home", http=Address("127.0.0.1", port))
    writer.publish("quotes", {"price": 2.0})
    assert mine.get(15).sequence == 2
    assert mine.lost == []


def test_an_agent_at_an_edge_hears_of_new_epochs_of_the_home(net):
    """Else it would take the messages since then for those of the epoch before."""
    writer = chain(net, "home", "north")
    net.add("south", "home")
    until(lambda: joined(net, "south"))
    port = net.routers["home"].found.http
    agent = net.agent("north", "south")
    mine = agent.subscribe("quotes", "price > 0", durable="mine")
    for price in (1.0, 2.0):
        writer.publish("quotes", {"price": price})
        mine.acknowledge(mine.get(5))
        stop(net, "home")
        net.add("home", http=Address("127.0.0.1", port))
        until(lambda: joined(net, "north") and joined(net, "south"))
    writer.publish("quotes", {"price": 3.0})
    assert mine.get(10).sequence == 3
    stop(net, "north")
    writer.publish("quotes", {"price": 4.0})
    assert mine.get(10).sequence == 4
    assert mine.lost == []


def test_an_edge_with_very_many_subscriptions_answers_while_it_merges_them(net, monkeypatch):
    writer = chain(net, "home", "edge")
    agent = net.agent("edge")
    for n in range(3):
        agent.subscribe("quotes", f"price > {10 * n + 10}", durable=f"d{n}")
    writer.publish("quotes", {"price": 35.0})
    until(lambda: net.routers["edge"].parts.hub.log.bounds(1)[1] == 2)
    stop(net, "edge")
    merging, going_on = threading.Event(), threading.Event()
    merge = Interests.put_many

    def slowly(self, many):
        if not going_on.is_set():
            merging.set()
            going_on.wait(20)
        return merge(self, many)

    monkeypatch.setattr(Interests, "put_many", slowly)
    net.add("edge", "home")
    assert merging.wait(5)
    with net.routers["edge"].http() as http:
        assert http.get("/health").status_code == 200
        assert http.delete("/api/channels/quotes/subscriptions/d0").is_success
    mine = net.agent("edge").subscribe("quotes", "price < 2")
    assert not joined(net, "edge")
    going_on.set()
    until(lambda: joined(net, "edge"))
    kept = net.agent("edge").subscribe("quotes", "price > 30", durable="d2")
    writer.publish_many("quotes", [{"attributes": {"price": p}} for p in (1.0, 15.0, 25.0, 40.0)])
    assert mine.get(5).sequence == 2
    assert [kept.get(5).sequence for _ in range(2)] == [1, 5]
    until(lambda: net.routers["edge"].parts.hub.log.bounds(1)[1] == 6)
    here = net.routers["edge"].parts.hub.log.read(1, 1, 10)
    assert [one.sequence for one in here] == [1, 2, 4, 5]  # nobody wants 15.0 any more


def test_why_a_message_crosses_to_a_child_that_is_forgotten_meanwhile(net):
    writer = chain(net, "home", "edge")
    net.agent("edge").subscribe("quotes", "price > 0")
    writer.publish("quotes", {"price": 1.0})
    parts = net.routers["home"].parts
    parent = parts.network.nodes[1].router.parent
    read = parts.hub.log.read

    def forgetting(*args):
        parent.branches.clear()
        return read(*args)

    parts.hub.log.read = forgetting
    with net.routers["home"].http() as http:
        answer = http.get("/api/links/edge/quotes/why?sequence=1")
    assert answer.status_code == 422
    assert "no link to edge" in answer.text
