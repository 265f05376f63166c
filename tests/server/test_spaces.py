"""Subscriptions on derived spaces, asked of the source channels and made at delivery.

The oracle is the flow in plain Python.
"""

from __future__ import annotations

import json
import random
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from websockets.sync.client import connect

from server.servers import served
from tamis import Matcher
from tamis.client import Agent
from tamis.errors import TamisError
from tamis.flow import check, parse_flow, run
from tamis.pubsub.stomp_frames import Decoder
from tamis.registry import VERBS, FlowEntry, Principal, Right, SqliteRegistry
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


def test_a_stored_flow_that_cannot_be_opened_does_not_stop_the_others(tmp_path):
    """Such as one of an earlier version that checked less."""
    with SqliteRegistry(tmp_path / "registry.db") as registry:
        registry.put_flow(FlowEntry("main", "bad", "this is no flow"))
        registry.put_flow(FlowEntry("main", "good", "space T(a: int)\nT -> U : select a > 1"))
    with served(tmp_path) as found, found.http() as http:
        assert [flow["name"] for flow in http.get("/api/flows").json()["flows"]] == ["good"]
        assert http.get("/health").json()["faults"] == 1


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
        pytest.raises(TamisError, match="no right to anything in NASDAQ"),
    ):
        eve.subscribe("trades/Combined")
    with Agent(server.url, token=tokens["bob"]) as bob:
        assert bob.subscribe("trades/Combined").notes == []
        with pytest.raises(TamisError, match="no right to manage"):
            bob.call("DELETE", "/api/flows/trades")


# --- other protocols ------------------------------------------------------------------


def told(messages):
    return sorted(repr(sorted(m.items())) for m in messages)


@contextmanager
def events(server, space, selector="", last="", start="now"):
    """A function that gives the next event: its id, and its message."""
    path = f"/api/flows/trades/spaces/{space}/live"
    more = {"headers": {"last-event-id": last} if last else {}}
    query = {"selector": selector, "start": start}
    with server.http() as http, http.stream("GET", path, params=query, **more) as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()
        assert next(lines) == ": connected"

        def following():
            id = ""
            for line in lines:
                if line.startswith("id: "):
                    id = line[4:]
                elif line.startswith("data: "):
                    return id, json.loads(line[6:])
            raise AssertionError("the stream is over")

        yield following


@pytest.mark.parametrize(("space", "selector"), [("Twice", "price > 2"),
                                                 ("LargeTrades", "com LIKE 'G%'")])  # fmt: skip
def test_server_sent_events_of_a_space(server, space, selector):
    messages = {source: trades(random.Random(space), 40) for source in ("NYSE", "NASDAQ")}
    expected = wanted(messages, space, selector)
    assert expected
    with Agent(server.url) as agent, events(server, space, selector) as following:
        publish(agent, messages)
        found = [following() for _ in expected]
    assert told(m["attributes"] for _, m in found) == expected
    middle = next(i for i in range(len(found) // 2, len(found)) if found[i][0])
    with events(server, space, selector, last=found[middle][0]) as following:
        rest = [following() for _ in found[middle + 1 :]]
    assert told(m["attributes"] for _, m in rest) == told(
        m["attributes"] for _, m in found[middle + 1 :]
    )


def test_a_space_that_cannot_be_streamed_is_refused_before_the_stream(server):
    with server.http() as http:
        for path, query, status in [
            ("gone/spaces/Twice", "", 404),
            ("trades/spaces/LargeTrade", "", 422),
            ("trades/spaces/LargeTrades", "selector=cap < 50", 422),
            ("trades/spaces/LargeTrades", "start=never", 422),
        ]:
            assert http.get(f"/api/flows/{path}/live?{query}").status_code == status


@contextmanager
def stomp(server, headers):
    with socket.create_connection(("127.0.0.1", server.stomp), 20) as peer:
        decoder, waiting = Decoder(), []

        def send(frame):
            peer.sendall(frame.encode() + b"\0")

        def following():
            while not waiting:
                data = peer.recv(10_000)
                assert data
                waiting.extend(decoder.feed(data))
            return waiting.pop(0)

        send("CONNECT\naccept-version:1.2\nhost:x\n\n")
        send(f"SUBSCRIBE\nid:1\ndestination:/trades\nreceipt:r\n{headers}\n\n")
        assert [following().command, following().command] == ["CONNECTED", "RECEIPT"]
        yield send, following


def test_stomp_subscribes_to_a_space(server):
    messages = {source: trades(random.Random(9), 40) for source in ("NYSE", "NASDAQ")}
    expected = wanted(messages, "Twice", "price > 2")
    headers = "tamis-space:Twice\nselector:price > 2"
    with Agent(server.url) as agent, stomp(server, headers) as (_, following):
        publish(agent, messages)
        found = [following() for _ in expected]
    assert told(json.loads(frame.body) for frame in found) == expected
    assert {frame.headers["tamis-source"] for frame in found} == {"nyse", "NASDAQ"}
    assert {frame.headers["destination"] for frame in found} == {"/trades"}


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_stomp_acknowledges_by_source_and_path(server, ack):
    """Both messages of one must be acknowledged before it is done."""
    headers = f"tamis-space:Twice\ntamis-durable:mine\nack:{ack}"
    with Agent(server.url) as agent:
        with stomp(server, headers) as (send, following):
            row = {"issue": "A", "price": 1.0, "vol": 1}
            publish(agent, {"NYSE": [row] * 2, "NASDAQ": [row]})
            found = [following() for _ in range(6)]
            nyse = [f for f in found if f.headers["tamis-source"] == "nyse"]
            assert [f.headers["tamis-path"] for f in nyse] == ["0", "1"] * 2
            if ack != "auto":
                done = nyse[2:3] if ack == "client" else [nyse[2], nyse[0], nyse[1]]
                for frame in done:
                    send(f"ACK\nid:{frame.headers['ack']}\n\n")
            send("UNSUBSCRIBE\nid:1\nreceipt:bye\n\n")
            while following().command != "RECEIPT":
                pass
        with server.http() as http:
            shown = http.get("/api/flows/trades/spaces/Twice/subscriptions/mine").json()
    cursors = {c: one["cursor"] for c, one in shown["channels"].items()}
    before = cursors["NASDAQ"] if ack == "client" else 1 if ack == "auto" else 0
    assert cursors == {"nyse": 2 if ack == "auto" else 1, "NASDAQ": before}


def test_a_webhook_on_a_space_keeps_its_flow(tmp_path):
    """Also when the broker starts anew, and the flow became another one."""
    got, more = [], threading.Semaphore(0)

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            got.extend(body["messages"])
            self.send_response(204)
            self.end_headers()
            more.release(len(body["messages"]))

        def log_message(self, *_):
            pass

    hook = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=hook.serve_forever)
    thread.start()
    path = "/api/flows/f/spaces/Dear"
    flow = "space T(price: double)\nT -> Dear : [price] => [twice := price * %s]; select twice > 10"
    try:
        for round in range(2):
            with served(tmp_path / "broker") as server, server.http() as http:
                if not round:
                    http.put("/api/channels/T", json=TRADES)
                    form = {"text": flow % "2.0"}
                    assert http.put("/api/flows/f", json=form).status_code == 200
                    wish = {"webhook": f"http://127.0.0.1:{hook.server_port}/", "secret": "hush",
                            "selector": "twice < 100"}  # fmt: skip
                    made = http.put(f"{path}/subscriptions/hook", json=wish)
                    assert made.status_code == 200, made.text
                    assert "hush" not in made.text
                    http.put("/api/flows/f", json={"text": flow % "3.0"})
                rows = [{"attributes": {"price": p}} for p in (1.0, 10.0, 60.0)]
                assert http.post("/api/channels/T/messages", json=rows).status_code == 200
                while 2 + 3 * round not in [m["sequence"] for m in got]:
                    assert more.acquire(timeout=20)
                if round:
                    assert http.delete(f"{path}/subscriptions/hook").status_code == 204
                    assert http.get(f"{path}/subscriptions/hook").status_code == 404
                    assert not server.parts.deliveries.running
    finally:
        hook.shutdown()
        hook.server_close()
        thread.join()
    # One that was taken just before the broker stopped may come again.
    found = {m["sequence"]: (m["source"], m["path"], m["attributes"]) for m in got}
    assert found == dict.fromkeys((2, 5), ("T", 0, {"twice": 20.0}))
