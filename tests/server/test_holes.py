"""A damaged block of the log: what is sound arrives, the hole is reported, on every protocol."""

from __future__ import annotations

import datetime
import json
import queue
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
import stomp
import websockets.sync.client as ws

from server.servers import served
from tamis.client import Agent

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))
from client import Client

HOLE = {"first": 21, "last": 30}
SOUND = [*range(1, 21), *range(31, 51)]
REASON = "checksum is wrong"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Five blocks of ten messages; the third is damaged while nobody looks."""
    folder = tmp_path_factory.mktemp("broker")
    with served(folder) as found, found.http() as http:
        http.put("/api/channels/q", json={"attributes": {"n": "int"}})
        for block in range(5):
            messages = [{"subject": "q", "attributes": {"n": 10 * block + i}} for i in range(10)]
            http.post("/api/channels/q/messages", json=messages)
        http.put("/api/channels/q/subscriptions/kept", json={"start": "all"})
    with closing(sqlite3.connect(folder / "log.db")) as db, db:
        db.execute("UPDATE block SET crc = crc + 1 WHERE first = 21")
    db.close()
    with served(folder) as found:
        yield found


def messages_of(frames):
    return [m["sequence"] for f in frames if f["type"] == "messages" for m in f["messages"]]


def test_a_durable_subscription_goes_on_and_gets_what_is_new(server):
    frames = []
    with ws.connect(f"{server.url.replace('http', 'ws')}/ws") as socket:
        wish = {"type": "subscribe", "channel": "q", "name": "kept", "durable": True}
        socket.send(json.dumps({**wish, "request": 1}))
        while len(messages_of(frames)) < 40:
            frames.append(json.loads(socket.recv(10)))
        (lost,) = [f for f in frames if f["type"] == "lost"]
        assert {"first": lost["first"], "last": lost["last"]} == HOLE
        assert REASON in lost["reason"]
        assert messages_of(frames) == SOUND
    with server.http() as http:
        assert http.get("/api/channels/q/subscriptions/kept").json()["state"] != "paused"


def test_agents(server):
    with Agent(server.url) as agent:
        messages = agent.subscribe("q", start="all")
        assert [messages.get(20).sequence for _ in SOUND] == SOUND
        (lost,) = messages.lost
    assert {"first": lost.first, "last": lost.last} == HOLE
    assert REASON in lost.reason


def test_replay(server):
    with server.http() as http:
        path = "/api/channels/q/messages"
        for query in ({}, {"subjects": "q"}, {"selector": "n >= 0"}):
            lines = [json.loads(line) for line in http.get(path, params=query).iter_lines()]
            assert [one["sequence"] for one in lines if "lost" not in one] == SOUND
            assert REASON in lines[20]["lost"].pop("reason")
            assert lines[20] == {"lost": HOLE}
        lines = http.get(path, params={"first": 25, "before": 28}).text.splitlines()
        assert json.loads(lines[0])["lost"]["first"] == 25
        assert len(lines) == 1
        assert len(http.get(path, params={"first": 31}).text.splitlines()) == 20
        assert (
            http.post("/api/channels/q/check", json={"selector": "n > 1"}).json()["matching"] == 38
        )


def test_server_sent_events(server):
    sequences, lost = [], None
    with (
        server.http() as http,
        http.stream("GET", "/api/channels/q/live", params={"start": "all"}) as answer,
    ):
        kind = ""
        for line in answer.iter_lines():
            field, _, text = line.partition(": ")
            if field == "event":
                kind = text
            elif field == "data":
                found, kind_now, kind = json.loads(text), kind, ""
                if kind_now == "lost":
                    lost = found
                else:
                    sequences.append(found["sequence"])
            if len(sequences) == 40:
                break
    assert sequences == SOUND
    assert REASON in lost.pop("reason")
    assert lost == HOLE


class Listener(stomp.ConnectionListener):
    def __init__(self):
        self.messages = queue.Queue()

    def on_message(self, frame):
        self.messages.put(frame)


def test_stomp(server):
    connection, listener = stomp.Connection12([("127.0.0.1", server.stomp)]), Listener()
    connection.set_listener("", listener)
    connection.connect(wait=True)
    connection.subscribe("/q", "1", headers={"tamis-start": "all"})
    frames = [listener.messages.get(timeout=10).headers for _ in range(41)]
    connection.disconnect()
    lost = [f for f in frames if "tamis-lost" in f]
    assert [f["tamis-lost"] for f in lost] == ["21-30"]
    assert REASON in lost[0]["tamis-lost-reason"]
    assert [int(f["tamis-sequence"]) for f in frames if f not in lost] == SOUND


def test_packets(server):
    with Client("127.0.0.1", server.packets, 3001, 1) as client:
        channel = client.open("q")
        wish = {"ChannelId": channel, "Port": 1, "Subscription": 1, "Start": "all"}
        client.command("pc.sub.open", **wish)
        came = [client.message() for _ in range(41)]
        check_packets(came)
        since, until = (datetime.datetime(y, 1, 1, tzinfo=datetime.UTC) for y in (2000, 2200))
        said = {"Subject": ">", "Since": since, "Until": until}
        client.acknowledged(client.notify(channel, "#.getCache", said))
        check_packets(client.came)


def check_packets(came):
    (lost,) = [p for p in came if p.subject == "#.ERROR"]
    assert "messages 21 to 30 are lost" in lost.attributes["Reason"]
    assert REASON in lost.attributes["Reason"]
    assert [p.sequence for p in came if p is not lost] == SOUND
