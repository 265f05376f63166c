"""Subscriptions on derived spaces, asked of the source channels and made at delivery.

The oracle is the flow in plain Python.
"""

from __future__ import annotations

import json
import random

import pytest
from websockets.sync.client import connect

from server.servers import served
from tamis import Matcher
from tamis.client import Agent
from tamis.errors import TamisError
from tamis.flow import check, parse_flow, run
from tamis.registry import VERBS, Principal, Right
from tamis.server.access import new_token

TEXT = """
space NYSE(issue: string, price: double, vol: int) where vol >= 0
space NASDAQ(issue: string, price: double, vol: int)
lookup Names(string) -> string
NYSE     -> Combined    : [issue, price, vol] => [issue, com := Names(issue), price, vol]
NASDAQ   -> Combined    : [issue, price, vol] => [issue, com := Names(issue), price, vol]
Combined -> LargeTrades : [issue, com, price, vol] => [issue, com, cap := price * vol];
  select cap >= 100
Combined -> Twice       : [issue, price, ...] => [issue, price]
Combined -> Twice       : [issue, price, ...] => [issue, price := price + 1.0]
"""
TABLES = {"Names": {"IBM": "Int", "GE": "Gen"}}
TRADES = {"attributes": {"issue": "string", "price": "double", "vol": "int"}}
GRAPH = check(parse_flow(TEXT))


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "broker") as found, found.http() as http:
        for channel in ("nyse", "NASDAQ"):
            assert http.put(f"/api/channels/{channel}", json=TRADES).status_code == 201
        form = {"text": TEXT, "channels": {"NYSE": "nyse"}, "lookups": TABLES}
        answer = http.put("/api/flows/trades", json=form)
        assert answer.status_code == 200, answer.text
        yield found


def trades(rng, count):
    return [
        {n: v for n, v in {
            "issue": rng.choice(["IBM", "GE", "X", None]),
            "price": rng.choice([1.5, 20.0, 300.25, None]),
            "vol": rng.choice([-1, 1, 10, 10**6, None]),
        }.items() if v is not None}
        for _ in range(count)
    ]  # fmt: skip


def publish(agent, messages):
    for channel, source in (("nyse", "NYSE"), ("NASDAQ", "NASDAQ")):
        agent.publish_many(channel, [{"attributes": row} for row in messages[source]])


def wanted(messages, space, selector):
    """What the flow says, and of that what the selector says."""
    found = run(GRAPH, messages, TABLES).spaces[space]
    matcher = Matcher(GRAPH.schemas[space])
    matcher.add("it", selector or "TRUE")
    return sorted(repr(sorted(m.items())) for m in found if matcher.match(m))


def shown(found):
    return sorted(repr(sorted(m.attributes.items())) for m in found)


@pytest.mark.parametrize(
    ("space", "selector"),
    [
        ("Combined", ""),
        ("Combined", "com = 'Int' OR price IS NULL"),
        ("LargeTrades", "issue = 'IBM' AND cap > 1000"),
        ("LargeTrades", "com LIKE 'G%'"),
        ("Twice", "price > 2"),
        ("NYSE", "price > 2"),
    ],
)
def test_a_space_gives_what_the_flow_says(server, space, selector):
    rng = random.Random(space + selector)
    messages = {source: trades(rng, 60) for source in ("NYSE", "NASDAQ")}
    expected = wanted(messages, space, selector)
    assert expected
    with Agent(server.url) as agent:
        mine = agent.subscribe(f"trades/{space}", selector)
        publish(agent, messages)
        found = [mine.get(20) for _ in expected]
        assert shown(found) == expected
        assert {m.source for m in found} <= {"nyse", "NASDAQ"}
        # Nothing more comes: the next message is the next that was published.
        publish(agent, {"NYSE": [{"issue": "IBM", "price": 300.0, "vol": 10}], "NASDAQ": []})
        last = wanted({"NYSE": [{"issue": "IBM", "price": 300.0, "vol": 10}]}, space, selector)
        assert shown([mine.get(20) for _ in last]) == last


def test_what_is_retained_comes_too(server):
    messages = {source: trades(random.Random(3), 40) for source in ("NYSE", "NASDAQ")}
    with Agent(server.url) as agent:
        publish(agent, messages)
        mine = agent.subscribe("trades/LargeTrades", start="all")
        expected = wanted(messages, "LargeTrades", "")
        assert shown([mine.get(20) for _ in expected]) == expected


def test_a_durable_one_goes_on_where_it_was(server):
    """With a cursor in each channel."""
    rng = random.Random(7)
    rounds = [{s: trades(rng, 30) for s in ("NYSE", "NASDAQ")} for _ in range(3)]
    with Agent(server.url) as publisher:
        for number, messages in enumerate(rounds):
            with Agent(server.url) as agent:
                mine = agent.subscribe("trades/Twice", "price > 2", durable="mine")
                # What it got and did not acknowledge, once more; and what is published now.
                missed = wanted(rounds[number - 1], "Twice", "price > 2") if number else []
                got = [mine.get(20) for _ in missed]
                assert shown(got) == missed
                publish(publisher, messages)
                expected = wanted(messages, "Twice", "price > 2")
                got += [mine.get(20) for _ in expected]
                assert shown(got[len(missed) :]) == expected
                for message in got[: len(missed)]:
                    mine.acknowledge(message)
                agent.publish("nyse", {"issue": "no"})  # answered: acknowledgements are taken


def test_several_sources_are_acknowledged_apart(server):
    with Agent(server.url) as agent, server.http() as http:
        mine = agent.subscribe("trades/Twice", durable="mine")
        publish(agent, {"NYSE": [{"issue": "A", "price": 1.0, "vol": 1}],
                        "NASDAQ": [{"issue": "B", "price": 2.0}] * 2})  # fmt: skip
        found = [mine.get(20) for _ in range(6)]
        assert {(m.source, m.sequence, m.path) for m in found} == {
            ("nyse", 1, 0), ("nyse", 1, 1), ("NASDAQ", 1, 0), ("NASDAQ", 1, 1),
            ("NASDAQ", 2, 0), ("NASDAQ", 2, 1),
        }  # fmt: skip
        mine.acknowledge(next(m for m in found if m.source == "NASDAQ" and m.sequence == 2))
        agent.publish("nyse", {"issue": "A"})

        def cursor(channel):
            return http.get(f"/api/channels/{channel}/subscriptions/mine").json()["cursor"]

        assert (cursor("nyse"), cursor("NASDAQ")) == (0, 2)
        mine.remove()
        gone = http.get("/api/channels/nyse/subscriptions/mine")
        assert gone.status_code == 404


def test_flows_stay_and_end(tmp_path):
    for round in range(2):
        with served(tmp_path / "broker") as server, server.http() as http:
            if not round:
                http.put("/api/channels/T", json=TRADES)
                text = "space T(price: double)\nT -> Dear : select price > 10"
                assert http.put("/api/flows/f", json={"text": text}).status_code == 200
                continue
            assert http.get("/api/flows").json()["flows"][0]["spaces"]["Dear"] == {
                "price": "double"
            }
            with Agent(server.url) as agent:
                dear = agent.subscribe("f/Dear")
                agent.publish_many("T", [{"attributes": {"price": p}} for p in (5.0, 50.0)])
                assert dear.get(20).attributes == {"price": 50.0}
            assert http.delete("/api/flows/f").status_code == 204
            assert http.get("/api/flows/f").status_code == 404


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"text": "space Gone(a: int)"}, "there is no channel Gone"),
        ({"text": "space NASDAQ(price: int)"}, "price is int, channel NASDAQ says double"),
        ({"text": "space NASDAQ(venue: string)"}, "no such attribute"),
        ({"text": "space NASDAQ(price: double)\nlookup L(string) -> string from '/etc/passwd'"},
         "lookup L has no table"),
        ({"text": "space NASDAQ(price: double)", "channels": {"X": "nyse"}}, "no space X"),
        ({"text": "nonsense"}, "line 1"),
        ({"text": "space NASDAQ(vol: int)\nstate S from NASDAQ ordered by vol (x: int)\n"
          "  rule => x := vol"}, "runs on Spark"),
        ({"text": TEXT, "channels": {"NYSE": "nyse"}, "lookups": {"Names": 5}}, "a table is"),
    ],
)  # fmt: skip
def test_flows_that_cannot_be_are_refused(server, form, told):
    with server.http() as http:
        answer = http.put("/api/flows/bad", json=form)
        assert answer.status_code in (404, 422), answer.text
        assert told in answer.json()["error"]
        assert http.get("/api/flows/bad").status_code == 404


def test_subscriptions_that_cannot_be_are_refused(server):
    with Agent(server.url) as agent:
        for place, selector, told in [
            ("gone/LargeTrades", "", "there is no flow gone"),
            ("trades/LargeTrade", "", "did you mean LargeTrades"),
            ("trades/LargeTrades", "vol > 1", "vol"),
            ("trades/LargeTrades", "cap < 50", "no message can reach"),
        ]:
            with pytest.raises(TamisError, match=told):
                agent.subscribe(place, selector)
        with pytest.raises(TamisError, match="depends on a lookup"):
            agent.subscribe("trades/LargeTrades", "com = 'Int'", durable="mine")
        with pytest.raises(TamisError, match="neither summaries nor sequences"):
            agent.subscribe("trades/LargeTrades", start=5)


def test_messages_of_spaces_are_no_arrow(server):
    asked = {"type": "subscribe", "channel": "trades/Twice", "name": "mine", "request": 1}
    with connect(f"ws{server.url.removeprefix('http')}/ws?format=arrow") as socket:
        socket.send(json.dumps(asked))
        assert "come as JSON" in json.loads(socket.recv(20))["error"]


def test_rights_are_those_of_the_channels(server):
    registry = server.parts.hub.registry
    tokens = {}
    for name, channels in (("eve", ["nyse"]), ("bob", ["nyse", "NASDAQ"])):
        registry.put_principal(Principal(name, "main"))
        for channel in channels:
            registry.put_right(Right(name, "subscribe", channel))
        tokens[name] = new_token(registry, name, "", VERBS, 0)
    with (
        Agent(server.url, token=tokens["eve"]) as eve,
        pytest.raises(TamisError, match="there is no channel NASDAQ"),
    ):
        eve.subscribe("trades/Combined")
    with Agent(server.url, token=tokens["bob"]) as bob:
        assert bob.subscribe("trades/Combined").notes == []
        with pytest.raises(TamisError, match="no right to manage"):
            bob.call("DELETE", "/api/flows/trades")
