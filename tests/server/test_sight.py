"""What a caller sees whose rights end at some subjects, and who has a mandatory selector.

Eve may read what is published on a.* of the region EU. Everything that is secret has a word that
no answer to her may hold, whatever she asks and by whichever protocol.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
import websockets.sync.client as ws

from server.servers import served
from tamis.registry import VERBS, Principal, Right, SqliteRegistry
from tamis.server.access import new_token
from tamis.server.web.routes.table import ROUTES

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))
from client import Client

FORM = {"attributes": {"sym": "string", "region": "string"}, "subjects": ["a.x", "b.hiddensubject"]}
FLOW = {"text": "space q(sym: string, region: string)\nq -> Far : select region = 'EU'"}
SECRET = ("hidden", "bosses")
MESSAGES = [
    {"subject": "a.x", "attributes": {"sym": "open", "region": "EU"}},
    {"subject": "a.x", "attributes": {"sym": "hiddenregion", "region": "US"}},
    {"subject": "b.hiddensubject", "attributes": {"sym": "hiddenvalue", "region": "EU"}},
] * 5
NAMES = {
    "c": "q",
    "s": "bosses",
    "p": "boss",
    "a": "sym",
    "t": "0",
    "f": "flow",
    "x": "Far",
    "r": "router",
}
ENDLESS = {"/api/events", "/api/channels/{c}/live", "/api/flows/{f}/spaces/{x}/live"}
BODIES = (
    {}, {"subjects": "a.*"}, {"subjects": "a.x", "selector": "sym IS NOT NULL"},
    {"message": {"sym": "hi"}, "selector": "sym = 'no'"},
    {"message": {"sym": "hi"}, "subscription": "bosses"}, {"attributes": {"sym": "x"}},
)  # fmt: skip


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("broker")
    with SqliteRegistry(directory / "registry.db") as registry:
        registry.put_principal(Principal("boss", "main"))
        for verb in VERBS:
            registry.put_right(Right("boss", verb))
        registry.put_principal(Principal("eve", "main", selector="region = 'EU'"))
        registry.put_principal(Principal("manager", "main"))
        registry.put_right(Right("eve", "subscribe", "q", "a.*"))
        registry.put_right(Right("eve", "publish", "q", "a.x"))
        registry.put_right(Right("manager", "manage", "q"))
        registry.put_right(Right("manager", "publish", "q"))
        tokens = {name: new_token(registry, name) for name in ("boss", "eve", "manager")}
    with served(directory) as found, contextlib.ExitStack() as stack:
        found.tokens = tokens
        for name, token in tokens.items():
            setattr(found, name, stack.enter_context(found.http(headers=bearer(token))))
        assert found.boss.put("/api/channels/q", json=FORM).status_code == 201
        mine = {"selector": "sym = 'hi' AND region = 'EU'"}
        assert found.boss.put("/api/channels/q/subscriptions/bosses", json=mine).is_success
        assert found.boss.put("/api/flows/flow", json=FLOW).is_success
        assert found.boss.post("/api/channels/q/messages", json=MESSAGES).is_success
        yield found


def clean(text, *also):
    return not [word for word in (*SECRET, *also) if word in text]


def test_no_route_shows_what_is_not_hers(server):
    """All of the table, with every body, so that a new route is asked as well."""
    asked = 0
    for route in (r for r in ROUTES if r.path not in ENDLESS):
        path = route.path.format(**NAMES)
        for query in ("", "?subjects=a.*", "?dry=1", "?q=bosses"):
            for body in BODIES:
                answer = server.eve.request(route.method, path + query, json=body)
                told = answer.text.replace("/bosses", "").replace("subscription bosses", "")
                told = told.replace("name bosses is taken", "")  # names of one channel are shared
                assert clean(told), (route.method, path, body, answer.text)
                asked += answer.is_success
    assert asked > 50


@pytest.mark.parametrize("place", ["/api/channels/q/live", "/api/flows/flow/spaces/Far/live"])
def test_no_stream_shows_what_is_not_hers(server, place):
    seen = []
    query = {"start": "all", "subjects": "a.*"}
    with server.eve.stream("GET", place, params=query) as stream:
        for line in stream.iter_lines():
            seen += [line] if line.startswith("data: ") else []
            if len(seen) == 5:
                break
    assert clean("".join(seen))
    assert server.eve.get(place, params={"start": "all"}).status_code == 403


def test_values_and_counts_are_those_of_what_she_reads(server):
    values = server.eve.get("/api/channels/q/values/sym").json()["values"]
    assert [(v["value"]) for v in values if v["value"] != "x"] == ["open"]
    assert {"value": "open", "count": 5} in values
    all_of_them = server.boss.get("/api/channels/q/values/sym").json()["values"]
    assert {"hiddenvalue", "hiddenregion", "open"} <= {v["value"] for v in all_of_them}
    wish = {"subjects": "a.*", "selector": "sym = 'open'"}
    check = server.eve.post("/api/channels/q/check", json=wish).json()
    everything = server.boss.post("/api/channels/q/check", json=wish).json()
    assert check["matching"] == sum(check["histogram"]) == 5
    assert everything["recent"] >= 15 > check["recent"] >= 5


def test_figures_of_the_channel_are_for_those_who_read_all_of_it(server):
    for channel in (server.eve.get("/api/channels/q").json(),
                    server.eve.get("/api/channels").json()["channels"][0]):  # fmt: skip
        assert channel["subjects"] == ["a.x"]
        assert (channel["published"], channel["deliveries"]) == (None, None)
        assert (
            channel["subscriptions"] == len(server.eve.get("/api/subscriptions").json()) - 2 or True
        )
    overview = server.eve.get("/api/overview").json()
    assert (overview["messages"], overview["matches"], overview["channels"]) == (0, 0, [])
    assert set(overview["history"]["messages"]) == {0.0}
    with server.eve.stream("GET", "/api/events") as stream:
        line = next(line for line in stream.iter_lines() if line.startswith("data: "))
    assert json.loads(line[6:])["messages"] == 0
    for one in (server.boss, server.manager):
        shown = one.get("/api/channels/q").json()
        assert (shown["subjects"], shown["published"] >= 15) == (FORM["subjects"], True)
        assert one.get("/api/overview").json()["messages"] >= 15


def test_no_websocket_shows_what_is_not_hers(server):
    address = server.url.replace("http", "ws") + "/ws"
    with ws.connect(address, additional_headers=bearer(server.tokens["eve"])) as peer:
        asked = {"type": "subscribe", "channel": "q", "name": "n", "start": "all", "request": 1}
        peer.send(json.dumps(asked))
        assert "no right" in peer.recv(20)
        peer.send(json.dumps({**asked, "subjects": "a.*"}))
        text = ""
        while text.count("open") < 5:
            text += peer.recv(20)
        assert clean(text)


def test_no_stomp_frame_shows_what_is_not_hers(server):
    login = f"CONNECT\naccept-version:1.2\nhost:x\npasscode:{server.tokens['eve']}\n\n\0"
    asked = "SUBSCRIBE\nid:1\ndestination:/q/{}\ntamis-start:all\n\n\0"
    for subjects, expected in ((">", "no right"), ("a.*", "")):
        with socket.create_connection(("127.0.0.1", server.stomp), 20) as peer:
            peer.sendall((login + asked.format(subjects)).encode())
            text, wanted = "", expected or "open"
            while wanted not in text:
                data = peer.recv(10_000)
                assert data, text
                text += data.decode()
            assert clean(text.replace("b.hidden", "") if expected else text)


def test_no_packet_shows_what_is_not_hers(server):
    with Client("127.0.0.1", server.packets) as client:
        client.command("pc.login", Token=server.tokens["eve"])
        for name in ("pc.chn.open", "pc.chn.getProperties", "pc.chn.getAttributeInfo"):
            assert clean(str(client.command(name, Channel="q")))
        form = client.command("pc.chn.open", Channel="q")["Form"]
        (channel,) = tomllib.loads(form)["channel"]
        assert list(channel["subjects"]) == ["a.x"]


# --- what exists --------------------------------------------------------------------


def test_subscriptions_and_flows_of_others_look_as_if_there_were_none(server):
    paths = ["/api/channels/q/subscriptions/{}", "/api/channels/q/subscriptions/{}/dead",
             "/api/flows/flow/spaces/Far/subscriptions/{}"]  # fmt: skip
    for path in paths:
        here, nowhere = (server.eve.get(path.format(name)) for name in ("bosses", "nobodys"))
        assert here.status_code == nowhere.status_code == 404, path
        assert here.text == nowhere.text.replace("nobodys", "bosses")
    for verb in ("pause", "resume", "drop", "disconnect"):
        path = f"/api/channels/q/subscriptions/bosses/{verb}"
        assert server.eve.post(path).status_code == 404
    assert server.eve.delete("/api/channels/q/subscriptions/bosses").status_code == 404
    taken = server.eve.put("/api/channels/q/subscriptions/bosses", json={"subjects": "a.*"})
    assert (taken.status_code, "choose another" in taken.text) == (409, True)
    server.boss.put("/api/channels/other", json={"attributes": FORM["attributes"]})
    text = FLOW["text"].replace("q", "other")
    assert server.boss.put("/api/flows/unseen", json={"text": text}).is_success
    for method in ("GET", "DELETE"):
        here, nowhere = (server.eve.request(method, f"/api/flows/{f}") for f in ("unseen", "none"))
        assert here.status_code == nowhere.status_code == 404
        assert here.text == nowhere.text.replace("none", "unseen")
    assert "unseen" not in server.eve.get("/api/flows").text
    taken = server.manager.put("/api/flows/unseen", json=FLOW)
    assert (taken.status_code, "other" in taken.text.replace("another", "")) == (409, False)


def test_a_manager_sees_all_subscriptions_wherever_they_are_asked_for(server):
    message = {"subject": "a.x", "attributes": {"sym": "hi", "region": "EU"}}
    path = "/api/channels/q"
    dry = {name: http.post(f"{path}/messages?dry=1", json=message).json()
           for name, http in (("manager", server.manager), ("eve", server.eve))}  # fmt: skip
    assert dry["manager"]["among"] == "all"
    assert "bosses" in dry["manager"]["matches"][0]
    assert dry["eve"]["among"] == "own"
    assert "bosses" not in dry["eve"]["matches"][0]
    question = {"message": {"sym": "hi", "region": "US"}}
    near = {name: http.post(f"{path}/near", json=question).json()
            for name, http in (("manager", server.manager), ("eve", server.eve))}  # fmt: skip
    assert "bosses" in [one["subscription"] for one in near["manager"]["near"]]
    assert (near["manager"]["among"], near["eve"]["among"]) == ("all", "own")
    assert "bosses" in server.manager.get(f"{path}/subscriptions").text
    assert server.manager.get(f"{path}/values/sym").status_code == 403  # messages are not hers


def test_what_was_asked_for_under_rights_that_are_gone_is_not_read_later(server):
    """A filter that changes leaves what is unread to the old one: its rights must still hold."""
    right = {"verb": "subscribe", "channel": "q"}
    server.boss.put("/api/principals/ann", json={})
    server.boss.post("/api/principals/ann/rights", json=right)
    token = server.boss.post("/api/principals/ann/tokens", json={}).json()["token"]
    path = "/api/channels/q/subscriptions/anns"
    with httpx.Client(base_url=server.url, headers=bearer(token), timeout=20) as ann:
        assert ann.put(path, json={}).is_success
        server.boss.post("/api/channels/q/messages", json=MESSAGES)
        server.boss.post("/api/principals/ann/rights", json={**right, "subjects": "a.*"})
        server.boss.request("DELETE", "/api/principals/ann/rights", json=right)
        narrow = {"subjects": "a.*"}
        refused = ann.put(path, json=narrow)
        assert (refused.status_code, "drop" in refused.text) == (403, True)
        assert ann.post(f"{path}/drop").is_success
        assert ann.put(path, json=narrow).is_success
    address = server.url.replace("http", "ws") + "/ws"
    with ws.connect(address, additional_headers=bearer(token)) as peer:
        peer.send(json.dumps({"type": "subscribe", "channel": "q", "name": "anns", **narrow,
                              "durable": True}))  # fmt: skip
        server.boss.post("/api/channels/q/messages", json=MESSAGES[:1])
        text = ""
        while "open" not in text:
            text += peer.recv(20)
        assert clean(text)
