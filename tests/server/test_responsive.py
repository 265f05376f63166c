"""While one request takes long, the others are answered: its work is not done on the event loop."""

from __future__ import annotations

import json
import threading
import time

import pytest
import websockets.sync.client as ws

from server.servers import QUOTES, served
from tamis.client import Agent
from tamis.pubsub.broker.judge import Judge, Language
from tamis.pubsub.subjects.subject import SubjectFilter
from tamis.server.assembly import replays
from tamis.server.subscribing import Subscribing
from tamis.server.web.routes import inspecting

PATH = "/api/channels/quotes"
LONG = {"attributes": {"symbol": "x" * 300_000}}


@pytest.fixture
def server(tmp_path):
    with served(tmp_path) as found, found.http() as http:
        http.put(PATH, json=QUOTES)
        http.put(f"{PATH}/subscriptions/mine", json={"selector": "price > 5"})
        http.post(f"{PATH}/messages", json={"attributes": {"price": 7.0}, "subject": "a.b"})
        yield found


def publish_by_socket(server, http):
    with ws.connect(server.url.replace("http", "ws") + "/ws") as peer:
        for messages in ([LONG], [{"attributes": {"symbol": "short"}}]):
            peer.send(json.dumps({"type": "publish", "channel": "quotes", "messages": messages}))
        return [json.loads(peer.recv(20))["sequences"] for _ in range(2)]


WORK = {
    "publish": (Language, "checked", lambda _, h: h.post(f"{PATH}/messages", json=[LONG])),
    "websocket": (Language, "checked", publish_by_socket),
    "dry run": (Judge, "match", lambda _, h: h.post(f"{PATH}/messages?dry=1", json=[LONG])),
    "replay": (SubjectFilter, "matches", lambda _, h: h.get(f"{PATH}/messages?subjects=a.*")),
    "list": (Subscribing, "shows", lambda _, h: h.get(f"{PATH}/subscriptions")),
    "near": (inspecting, "_explain", lambda _, h: h.post(f"{PATH}/near", json={"message": {}})),
    "values": (inspecting, "lookup", lambda _, h: h.get(f"{PATH}/values/price")),
}


@pytest.mark.parametrize("work", WORK)
def test_others_are_answered_meanwhile(server, monkeypatch, work):
    where, name, ask = WORK[work]
    real, reached, go = getattr(where, name), threading.Event(), threading.Event()

    def slowly(*args):
        reached.set()
        assert go.wait(20)
        return real(*args)

    monkeypatch.setattr(where, name, slowly)
    answers = []
    with server.http() as http, server.http() as other:
        asking = threading.Thread(target=lambda: answers.append(ask(server, http)))
        asking.start()
        assert reached.wait(20)
        assert other.get("/health", timeout=10).status_code == 200
        go.set()
        asking.join(20)
    (answer,) = answers
    if work == "websocket":
        assert answer == [[2], [3]]  # in the order in which they were sent
    else:
        assert answer.status_code == 200


def test_a_dry_run_names_so_many_and_no_more(server, monkeypatch):
    monkeypatch.setattr(inspecting, "_REACHED", 3)
    with server.http() as http:
        dear = {"attributes": {"price": 9.0}}
        few = http.post(f"{PATH}/messages?dry=1", json=[dear] * 3)
        assert few.json()["matches"] == [["mine"]] * 3
        many = http.post(f"{PATH}/messages?dry=1", json=[dear] * 4)
        assert (many.status_code, "fewer messages" in many.text) == (422, True)


def test_a_replay_over_very_many_subjects_reads_all(server, monkeypatch):
    with server.http() as http:
        rows = [{"attributes": {"volume": i}, "subject": f"c.n{i}"} for i in range(40)]
        http.post(f"{PATH}/messages", json=rows)
        few = http.get(f"{PATH}/messages?subjects=c.*").text
        monkeypatch.setattr(replays, "_MANY", 10)
        monkeypatch.setattr(replays, "_TOGETHER", 7)
        assert http.get(f"{PATH}/messages?subjects=c.*").text == few
        assert [json.loads(line)["subject"] for line in few.splitlines()] == [
            f"c.n{i}" for i in range(40)
        ]


def test_what_is_judged_in_slices_comes_whole_and_in_order(server):
    server.parts.hub._pace = 7
    rows = [{"attributes": {"volume": i}} for i in range(500)]
    with Agent(server.url) as agent, server.http() as http:
        before = agent.subscribe("quotes", "volume >= 0")
        assert len(http.post(f"{PATH}/messages", json=rows).json()["sequences"]) == 500
        after = agent.subscribe("quotes", "volume >= 0")
        http.post(f"{PATH}/messages", json={"attributes": {"volume": 500}})
        found = [before.get(20).attributes["volume"] for _ in range(501)]
        assert found == list(range(501))
        assert after.get(20).attributes["volume"] == 500  # the first that came after it


def test_connections_with_many_subscriptions_leave_and_others_go_on(server):
    with Agent(server.url) as agent, server.http() as http:
        mine = agent.subscribe("quotes", "volume = 1")
        leaving = [Agent(server.url) for _ in range(4)]
        for one in leaving:
            for n in range(30):
                one.subscribe("quotes", f"volume > {n}")
        for one in leaving:
            one.close()
        http.post(f"{PATH}/messages", json={"attributes": {"volume": 1}})
        assert mine.get(20).attributes["volume"] == 1
        channel = server.parts.hub.broker.channels[1]
        deadline = time.monotonic() + 20
        while len(channel.subscriptions) > 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(channel.subscriptions) == 2  # this one, and the durable one
