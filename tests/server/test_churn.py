"""Subscriptions, sessions, principals and channels that come and go leave nothing in memory."""

from __future__ import annotations

import gc
import socket
import time
from collections import Counter

from server.hostile_inputs import Client as Packets
from server.servers import QUOTES, served
from server.test_catching_up import SUMMARY
from tamis.client import Agent

ROOMS = ("tamis.server", "tamis.pubsub", "tamis.registry", "tamis.log")
ROUNDS = 12
BOUNDED = {"Frames._pieces"}  # has a bound, which it may come near to


def tables() -> Counter:
    """How many entries the tables of all objects of the broker have, by class and attribute, and
    how many objects there are of each class."""
    gc.collect()
    sizes: Counter = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if str(kind.__module__).startswith(ROOMS):
            sizes[kind.__name__] += 1
            for name in (*getattr(one, "__dict__", ()), *getattr(kind, "__slots__", ())):
                value = getattr(one, name, None)
                if isinstance(value, dict | list | set) or type(value).__name__ == "deque":
                    sizes[f"{kind.__name__}.{name}"] += len(value)
    return sizes


def round_of(server, number: int, agent: Agent) -> None:
    """Everything that a client can begin, begun and ended."""
    name, selector = f"n{number}", f"symbol = 's{number}' OR extra LIKE '%{number}%'"
    live = agent.subscribe("quotes", selector)
    kept = agent.subscribe("quotes", selector, durable=name)
    agent.publish("quotes", {"symbol": f"s{number}", "price": 1.0})
    for one in (live, kept):
        message = one.get(30)
        assert message is not None
        if one is kept:
            one.acknowledge(message)
    for one in (live, kept):
        one.remove()
    _by_http(server, name)
    _by_summary(server, name, agent)
    _by_stomp(server, name)
    _by_packets(server, name)


def _by_http(server, name: str) -> None:
    with server.http() as http:
        for path, body in ((f"channels/{name}", QUOTES),
                           (f"channels/{name}/subscriptions/{name}", {"selector": "price > 1"}),
                           (f"channels/quotes/subscriptions/{name}",
                            {"webhook": "http://127.0.0.1:9/x"})):  # fmt: skip
            assert http.put(f"/api/{path}", json=body).is_success
        for path in (f"channels/quotes/subscriptions/{name}", f"channels/{name}"):
            assert http.delete(f"/api/{path}").status_code == 204


def _by_summary(server, name: str, publisher: Agent) -> None:
    """Away, caught up by its summary, ended."""
    with Agent(server.url) as agent:
        agent.subscribe("quotes", durable=name, summary=SUMMARY)
    publisher.publish("quotes", {"symbol": "a", "price": 1.0})
    with Agent(server.url) as agent:
        again = agent.subscribe("quotes", durable=name, summary=SUMMARY, catch_up="shortest")
        assert again.get(30) is not None
        again.remove()


def _by_stomp(server, name: str) -> None:
    with socket.create_connection(("127.0.0.1", server.stomp), 30) as peer:
        peer.sendall(
            b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"
            b"SUBSCRIBE\nid:%b\ndestination:/quotes\nack:client\n\n\0"
            b"DISCONNECT\nreceipt:9\n\n\0" % name.encode()
        )
        answer = b""
        while b"receipt-id:9" not in answer:
            data = peer.recv(4096)
            assert data, answer
            answer += data


def _by_packets(server, name: str) -> None:
    with Packets("127.0.0.1", server.packets) as peer:
        peer.open("quotes")


def test_nothing_that_came_and_went_is_kept(tmp_path):
    with served(tmp_path) as server, Agent(server.url) as agent:
        with server.http() as http:
            assert http.put("/api/channels/quotes", json=QUOTES).status_code == 201
        for number in range(3):
            round_of(server, number, agent)
        before = _settled()
        for number in range(3, 3 + ROUNDS):
            round_of(server, number, agent)
        after = _settled(before)
    grown = {name: (before[name], count) for name, count in _grown(before, after).items()}
    assert not grown


def _grown(before: Counter, after: Counter) -> Counter:
    """What has an entry more for each round."""
    more = {name: n for name, n in after.items() if n - before[name] >= ROUNDS}
    return Counter({name: n for name, n in more.items() if name not in BOUNDED})


def _settled(before: Counter | None = None) -> Counter:
    """The tables, once what ends by itself has ended."""
    deadline = time.monotonic() + 20
    time.sleep(0.5)
    while before is not None and _grown(before, found := tables()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return tables() if before is None else found
