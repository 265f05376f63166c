"""A subscriber that was away gets the shortest sequence that means what it missed."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from websockets.sync.client import connect

from pubsub import simulated_recaps
from server.servers import QUOTES, served
from tamis import Schema
from tamis.client import Agent
from tamis.errors import TamisError
from tamis.flow.states import States, Summary, catch_up, collapse

SUMMARY = """
state Quote keyed by symbol from quotes ordered by sequence (max: double := 0, cur: double := 0)
  rule price > max => max := price, cur := price
  rule             => cur := price
"""
# The same for the oracle: the flow's plain Python.
QUOTE = Summary.of(
    "Quote",
    Schema.of(symbol=str, price=float, volume=int, sequence=int),
    {"max": (float, 0.0), "cur": (float, 0.0)},
    [("price > max", {"max": "price", "cur": "price"}), ("", {"cur": "price"})],
    key="symbol",
    order="sequence",
)


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "broker") as found, found.http() as http:
        assert http.put("/api/channels/quotes", json=QUOTES).status_code == 201
        yield found


def publish(server, *prices, symbol="IBM"):
    rows = [{"attributes": {"symbol": symbol, "price": float(p), "volume": 1}} for p in prices]
    with server.http() as http:
        response = http.post("/api/channels/quotes/messages", json=rows)
        assert response.status_code == 200, response.text
        return response.json()["sequences"]


def shown(server, name="mine"):
    with server.http() as http:
        return http.get(f"/api/channels/quotes/subscriptions/{name}").json()


class Client:
    """A WebSocket that nobody helps."""

    def __init__(self, server):
        self.early = []
        self.connection = connect(f"ws{server.url.removeprefix('http')}/ws")

    def __enter__(self):
        self.socket = self.connection.__enter__()
        return self

    def __exit__(self, *problem):
        self.connection.__exit__(*problem)

    def ask(self, **request):
        self.socket.send(json.dumps({"request": 1, **request}))
        return self.answer()

    def answer(self):
        return json.loads(self.socket.recv(20))

    def subscribe(self, **more):
        told = {"channel": "quotes", "name": "mine", "durable": True, "summary": SUMMARY}
        answer = self.ask(type="subscribe", **{**told, **more})
        while answer["type"] == "messages":  # they may be quicker than the answer
            self.early += answer["messages"]
            answer = self.answer()
        assert answer["type"] == "subscribed", answer

    def messages(self, count):
        found, self.early = self.early, []
        while len(found) < count:
            answer = self.answer()
            assert answer["type"] == "messages", answer
            found += answer["messages"]
        assert len(found) == count
        return found

    def acknowledge(self, sequence):
        self.socket.send(json.dumps({"type": "ack", "name": "mine", "sequence": sequence}))
        self.ask(type="publish", channel="quotes", messages=[])  # answered: it has been taken


def prices(messages):
    return [(m["sequence"], m["attributes"]["symbol"], m["attributes"]["price"]) for m in messages]


def test_gryphon_section_4_2_stock_prices_end_to_end(server):
    with Client(server) as client:
        client.subscribe()
        publish(server, 150, 160, 140)
        assert [p for _, _, p in prices(client.messages(3))] == [150, 160, 140]
        client.acknowledge(3)
    publish(server, 200, 180, 120)
    with Client(server) as client:
        client.subscribe(catch_up="shortest")
        found = client.messages(2)
        assert prices(found) == [(5, "IBM", 200.0), (6, "IBM", 120.0)]
        # The last was published just so; of the first, no price of 200 came fifth.
        assert [m.get("summarised", False) for m in found] == [True, False]
        assert found[1]["attributes"]["volume"] == 1
        publish(server, 130)
        assert prices(client.messages(1)) == [(7, "IBM", 130.0)]
        client.acknowledge(7)
        assert shown(server)["cursor"] == 7


def test_what_was_not_acknowledged_comes_again_as_it_was(server):
    with Client(server) as client:
        client.subscribe()
    publish(server, 200, 180, 120)
    for _ in range(2):
        with Client(server) as client:
            client.subscribe(catch_up="shortest")
            assert prices(client.messages(2)) == [(2, "IBM", 200.0), (3, "IBM", 120.0)]
    publish(server, 300)
    with Client(server) as client:
        client.subscribe()  # all of it: first the rest of the recap, then what came behind
        assert prices(client.messages(3))[0] == (2, "IBM", 200.0)
        client.acknowledge(2)
    with Client(server) as client:
        client.subscribe(catch_up="shortest")
        assert prices(client.messages(2)) == [(3, "IBM", 120.0), (4, "IBM", 300.0)]
        client.acknowledge(3)
        assert shown(server)["cursor"] == 3
        client.acknowledge(4)
        assert shown(server)["cursor"] == 4


def test_nothing_is_sent_where_nothing_has_changed(server):
    with Client(server) as client:
        client.subscribe()
        publish(server, 160, 140)
        client.messages(2)
        client.acknowledge(2)
    publish(server, 150, 155, 140)
    with Client(server) as client:
        client.subscribe(catch_up="shortest")
        publish(server, 141)
        assert prices(client.messages(1)) == [(6, "IBM", 141.0)]
        assert shown(server)["cursor"] == 5  # past all that was summarised


def test_the_recap_survives_the_broker(tmp_path):
    for round in range(3):
        with served(tmp_path / "broker") as server, server.http() as http, Client(server) as client:
            if not round:
                http.put("/api/channels/quotes", json=QUOTES)
                client.subscribe()
                publish(server, 200, 180, 120)
                continue
            client.subscribe(catch_up="shortest", start=1)
            assert prices(client.messages(2)) == [(2, "IBM", 200.0), (3, "IBM", 120.0)]


def test_agents_catch_up_and_mean_what_python_says(server):
    """Many symbols and absences; a filter; the oracle is the flow's plain Python."""
    rng = random.Random(4)
    seen, own = States(QUOTE), []
    published, done = [], 0
    for _ in range(4):
        with Agent(server.url) as agent:
            mine = agent.subscribe("quotes", "volume > 0", durable="mine", summary=SUMMARY,
                                   catch_up="shortest")  # fmt: skip
            missed = [m for m in published if m["volume"] and m["sequence"] > done]
            wanted = catch_up(seen, missed, QUOTE)
            found = [mine.get(20) for _ in wanted]
            assert len(wanted) <= len(missed)
            seen = collapse(missed, QUOTE, seen)
            own = collapse([_event(m) for m in found], QUOTE, own or None)
            assert own.rows == seen.rows
            if found:
                mine.acknowledge(found[-1])
            rows = some_quotes(agent, rng, published)
            live = [mine.get(20) for row in rows if row["volume"]]
            own = collapse([_event(m) for m in live], QUOTE, own)
            seen = collapse([row for row in rows if row["volume"]], QUOTE, seen)
            assert own.rows == seen.rows
            mine.acknowledge(live[-1])
            done = live[-1].sequence
        with Agent(server.url) as agent:
            some_quotes(agent, rng, published)


def _event(message):
    return {**message.attributes, "sequence": message.sequence}


def some_quotes(agent, rng, published):
    rows = [
        {
            "symbol": rng.choice("ABC"),
            "price": float(rng.randrange(1, 50)),
            "volume": rng.randrange(3),
        }
        for _ in range(40)
    ]
    rows[-1]["volume"] = 1
    numbers = agent.publish_many("quotes", [{"attributes": row} for row in rows])
    found = [{**row, "sequence": n} for row, n in zip(rows, numbers, strict=True)]
    published += found
    return found


def test_what_retention_took_is_no_longer_summarised(server, tmp_path):
    with Client(server) as client:
        client.subscribe()
        publish(server, 100)
        client.messages(1)
    live = server.parts.channels.by_name["main", "quotes"]
    publish(server, 200)
    publish(server, 180, 120)
    server.parts.hub.log.trim(live.entry.number, 3)
    with Client(server) as client:
        client.subscribe(catch_up="shortest")
        assert client.answer()["type"] == "lost"
        found = client.messages(2)
        assert [p for _, _, p in prices(found)] == [180.0, 120.0]


def test_what_was_acknowledged_may_be_trimmed(server):
    """Before retention takes it, it is folded into the states that the broker keeps."""
    with Client(server) as client:
        client.subscribe()
        for price in (150, 160, 140):
            publish(server, price)
        client.messages(3)
        client.acknowledge(3)
    hub, channel = server.parts.hub, server.parts.channels.by_name["main", "quotes"]
    work = hub.absences.advance(channel.live, 4)
    asyncio.run_coroutine_threadsafe(work, hub.loop).result(20)
    assert hub.registry.recaps(channel.entry.number)["mine"].sequence == 3
    hub.log.trim(channel.entry.number, 4)
    publish(server, 200, 180, 120)
    assert hub.log.bounds(channel.entry.number)[0] == 4
    with Client(server) as client:
        client.subscribe(catch_up="shortest")
        assert prices(client.messages(2)) == [(5, "IBM", 200.0), (6, "IBM", 120.0)]


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ("state Q", "line 1"),
        (SUMMARY.replace("quotes", "trades"), "there is no space trades"),
        (SUMMARY.replace("ordered by sequence", "ordered by volume"), "ordered by sequence"),
        (SUMMARY + SUMMARY.replace("Quote", "Other"), "one state"),
        (SUMMARY.replace("cur := price", "cur := cur * price"), "can be no summary"),
        ("space quotes(price: int, sequence: int)" + SUMMARY.replace("keyed by symbol", ""), "int"),
        ("space quotes(venue: string, sequence: int)\n"
         "state S from quotes ordered by sequence (v: string)\n  rule => v := venue", "no venue"),
    ],
)  # fmt: skip
def test_bad_summaries_are_refused(server, summary, told):
    with server.http() as http:
        path = "/api/channels/quotes/subscriptions/mine"
        response = http.put(path, json={"summary": summary})
        assert response.status_code == 422, response.text
        assert told in response.json()["error"]


def test_a_summary_stays_what_it_is(server):
    with server.http() as http:
        path = "/api/channels/quotes/subscriptions/mine"
        assert http.put(path, json={"summary": SUMMARY}).json()["summary"] == SUMMARY
        assert http.put(path, json={"selector": "price > 1"}).status_code == 200
        other = http.put(path, json={"summary": SUMMARY.replace("max", "top")})
        assert "another summary" in other.json()["error"]
    with Agent(server.url) as agent:
        with pytest.raises(TamisError, match="only a durable"):
            agent.subscribe("quotes", summary=SUMMARY)
        with pytest.raises(TamisError, match="has no summary"):
            agent.subscribe("quotes", durable="other", catch_up="shortest")


@pytest.mark.parametrize("seed", range(12))
def test_recaps_in_the_simulated_world(seed):
    simulated_recaps.simulate(seed)
