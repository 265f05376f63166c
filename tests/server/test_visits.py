"""Open connections follow every change of rights: the next message is judged by what holds now."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest
import websockets.sync.client as ws
from websockets.exceptions import ConnectionClosed

from server.servers import QUOTES, served
from tamis.client import Agent
from tamis.client.remote import Remote
from tamis.client.rest import lines
from tamis.errors import AccessError, TamisError
from tamis.pubsub.stomp_frames import Decoder
from tamis.registry import VERBS, Principal, Right, SqliteRegistry
from tamis.server.access import new_token

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))
from client import Client
from client import RefusedError as Refused

PATH = "/api/channels/quotes"


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("broker")
    registry = SqliteRegistry(directory / "registry.db")
    registry.put_principal(Principal("boss", "main"))
    for verb in VERBS:
        registry.put_right(Right("boss", verb))
    token = new_token(registry, "boss")
    registry.close()
    with served(directory) as found:
        found.boss = bearer(token)
        with found.http(headers=found.boss) as http:
            assert http.put(PATH, json=QUOTES).status_code == 201
        yield found


class Alice:
    """Somebody who may subscribe, with what she lost later."""

    def __init__(self, server, http):
        self.server, self.http = server, http
        assert http.put("/api/principals/alice", json={}).status_code == 201
        self.right = {"verb": "subscribe", "channel": "quotes"}
        self.give()
        self.token = self.new_token()

    def give(self):
        assert self.http.post("/api/principals/alice/rights", json=self.right).status_code == 200

    def take(self):
        found = self.http.request("DELETE", "/api/principals/alice/rights", json=self.right)
        assert found.status_code == 200

    def new_token(self, **form):
        return self.http.post("/api/principals/alice/tokens", json=form).json()["token"]

    def end_token(self):
        found = self.http.get("/api/principals/alice/tokens").json()["tokens"]
        for token in found:
            path = f"/api/principals/alice/tokens/{token['id']}"
            assert self.http.delete(path).status_code == 204

    def end(self):
        self.http.delete("/api/principals/alice")

    def bind(self, selector):
        form = {"selector": selector}
        assert self.http.put("/api/principals/alice", json=form).status_code == 200

    def publish(self, *symbols):
        rows = [{"attributes": {"symbol": symbol, "price": 5.0}} for symbol in symbols]
        return self.http.post(f"{PATH}/messages", json=rows).json()["sequences"]


@pytest.fixture
def alice(server):
    with server.http(headers=server.boss) as http:
        found = Alice(server, http)
        yield found
        found.end()


# --- one listener for each protocol ---------------------------------------------------
# Each yields a function that gives the next symbol, and raises GoneError once nothing more comes.


class GoneError(Exception):
    pass


@contextlib.contextmanager
def by_websocket(alice, durable=False):
    address = alice.server.url.replace("http", "ws") + "/ws"
    with ws.connect(address, additional_headers=bearer(alice.token)) as peer:
        asked = {"type": "subscribe", "channel": "quotes", "name": "mine", "durable": durable}
        peer.send(json.dumps(asked))
        assert json.loads(peer.recv(20))["type"] == "subscribed"

        def following():
            try:
                found = json.loads(peer.recv(20))
            except ConnectionClosed as error:
                raise GoneError(str(error)) from None
            if found["type"] in ("ended", "error"):
                raise GoneError(found["error"])
            return [m["attributes"]["symbol"] for m in found["messages"]]

        yield following


@contextlib.contextmanager
def by_events(alice):
    with (
        httpx.Client(base_url=alice.server.url, timeout=20) as http,
        http.stream("GET", f"{PATH}/live", headers=bearer(alice.token)) as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == ": connected"

        def following():
            for line in lines:
                if line == "event: ended":
                    raise GoneError(next(lines))
                if line.startswith("data: "):
                    return [json.loads(line[6:])["attributes"]["symbol"]]
            raise GoneError("the stream is over")

        yield following


@contextlib.contextmanager
def by_stomp(alice, durable=False):
    with socket.create_connection(("127.0.0.1", alice.server.stomp), 20) as peer:
        decoder, waiting = Decoder(), []
        named = "tamis-durable:mine\n" if durable else ""
        peer.sendall(f"CONNECT\naccept-version:1.2\nhost:x\npasscode:{alice.token}\n\n\0"
                     f"SUBSCRIBE\nid:1\ndestination:/quotes\nreceipt:r\n{named}\n\0"
                     .encode())  # fmt: skip

        def frame():
            while not waiting:
                data = peer.recv(10_000)
                if not data:
                    raise GoneError("closed")
                waiting.extend(decoder.feed(data))
            return waiting.pop(0)

        assert [frame().command, frame().command] == ["CONNECTED", "RECEIPT"]

        def following():
            found = frame()
            if found.command == "ERROR":
                raise GoneError(found.headers["message"])
            return [json.loads(found.body)["symbol"]]

        yield following


@contextlib.contextmanager
def by_packets(alice, durable=False):
    with Client("127.0.0.1", alice.server.packets) as client:
        client.command("pc.login", Token=alice.token)
        channel, named = client.open("quotes"), {"Durable": "mine"} if durable else {}
        client.command("pc.sub.open", ChannelId=channel, **named)

        def following():
            try:
                found = client.message().attributes
            except (Refused, ConnectionError, EOFError) as error:
                raise GoneError(str(error)) from None
            if "symbol" not in found:
                raise GoneError(str(found))
            return [found["symbol"]]

        yield following


PROTOCOLS = [by_websocket, by_events, by_stomp, by_packets]
every = pytest.mark.parametrize("protocol", PROTOCOLS)


@every
@pytest.mark.parametrize("loss", ["take", "end", "end_token"])
def test_what_was_taken_is_gone_at_once(alice, protocol, loss):
    with protocol(alice) as following:
        alice.publish("IBM")
        assert following() == ["IBM"]
        getattr(alice, loss)()
        alice.publish("LU")
        with pytest.raises(GoneError):
            following()


@every
def test_a_token_that_runs_out_ends_its_connections(alice, protocol):
    alice.token = alice.new_token(seconds=1)
    with protocol(alice) as following, pytest.raises(GoneError):
        following()


@every
def test_another_mandatory_selector_holds_for_the_next_message(alice, protocol):
    with protocol(alice) as following:
        alice.bind("symbol = 'IBM'")
        alice.publish("LU", "IBM", "T")
        assert following() == ["IBM"]
        alice.bind("symbol <> 'IBM'")
        alice.publish("IBM", "LU")
        assert following() == ["LU"]


@every
def test_narrower_rights_leave_what_they_allow(alice, protocol):
    alice.http.post("/api/principals/alice/rights", json={**alice.right, "subjects": "quotes"})
    with protocol(alice) as following:
        alice.http.post("/api/principals/alice/rights", json={"verb": "publish"})
        alice.publish("IBM")
        assert following() == ["IBM"]
        alice.take()  # `>` is wider than what is left
        alice.publish("LU")
        with pytest.raises(GoneError, match="no right to subscribe"):
            following()


def test_the_registry_may_be_changed_by_another_process(server, alice):
    """`tamis principal` writes into it while the broker runs."""
    with by_websocket(alice) as following:
        other = SqliteRegistry(server.parts.directory / "registry.db")
        other.remove_right(Right("alice", "subscribe", "quotes"))
        other.close()
        with pytest.raises(GoneError, match="no right to subscribe"):
            following()


def test_another_password_ends_what_the_old_one_opened(server, alice):
    alice.http.put("/api/principals/alice", json={"password": "old"})
    address = server.url.replace("http", "ws") + "/ws"
    login = httpx.BasicAuth("alice", "old")._auth_header
    with ws.connect(address, additional_headers={"authorization": login}) as peer:
        alice.http.put("/api/principals/alice", json={"password": "newer"})
        assert json.loads(peer.recv(20))["type"] == "error"
        with pytest.raises(ConnectionClosed):
            peer.recv(20)


def test_what_a_connection_asks_for_is_judged_by_what_holds_now(alice):
    with Agent(alice.server.url, token=alice.token) as agent:
        agent.subscribe("quotes", "price > 1")
        with pytest.raises(TamisError, match="no right to publish"):
            agent.publish("quotes", {"price": 1.0})
        alice.http.post("/api/principals/alice/rights", json={"verb": "publish"})
        assert agent.publish("quotes", {"price": 1.0})
        alice.take()
        with pytest.raises(TamisError, match="no right to subscribe"):
            agent.subscribe("quotes")


def test_a_durable_subscription_waits_for_its_right(alice):
    with by_websocket(alice, durable=True) as following:
        alice.take()
        alice.publish("IBM")
        with pytest.raises(GoneError, match="no right"):
            following()
    alice.give()
    with by_websocket(alice, durable=True) as following:
        assert following() == ["IBM"]


def test_a_replay_is_over_when_its_right_is(server, alice, monkeypatch):
    from tamis.server.assembly import replays

    monkeypatch.setattr(replays, "_AT_ONCE", 1)
    first, *_ = alice.publish(*["IBM"] * 50)
    read, log = threading.Event(), server.parts.hub.log
    original = log.read

    def slow(channel, at, *more):
        if at == first + 3:
            alice.take()
            read.set()
        return original(channel, at, *more)

    monkeypatch.setattr(log, "read", slow)
    with (
        server.http(headers=bearer(alice.token)) as http,
        http.stream("GET", f"{PATH}/messages", params={"first": first}) as stream,
    ):
        *found, last = map(json.loads, stream.iter_lines())  # it does not break off
    assert read.is_set()
    assert 3 <= len(found) < 50
    assert (last["status"], last["error"]) == (403, "alice has no right to subscribe in quotes")
    read.clear()
    alice.give()
    told = lines(Remote(server.url, bearer(alice.token)), f"{PATH}/messages?first={first}")
    found = []
    with pytest.raises(AccessError, match="no right to subscribe"):
        found.extend(told)
    assert read.is_set()
    assert 3 <= len(found) < 50


def test_a_webhook_stops_with_its_right_and_goes_on_with_it(server, alice):
    got, more = [], threading.Semaphore(0)

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            got.extend(m["attributes"]["symbol"] for m in body["messages"])
            self.send_response(204)
            self.end_headers()
            more.release()

        def log_message(self, *_):
            pass

    hook = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    try:
        wish = {"webhook": f"http://127.0.0.1:{hook.server_port}/", "start": "now"}
        with server.http(headers=bearer(alice.token)) as http:
            assert http.put(f"{PATH}/subscriptions/hook", json=wish).status_code == 200
        alice.publish("IBM")
        assert more.acquire(timeout=20)
        alice.take()
        assert not server.parts.deliveries.running
        alice.publish("LU")
        alice.give()
        assert more.acquire(timeout=20)
        assert got == ["IBM", "LU"]
        alice.end()
        assert not server.parts.deliveries.known
    finally:
        hook.shutdown()
        hook.server_close()


@contextlib.contextmanager
def by_agent(alice, durable):
    with Agent(alice.server.url, token=alice.token) as agent:
        found = agent.subscribe("quotes", durable="mine" if durable else "")

        def following():
            try:
                return [found.get(20).attributes["symbol"]]
            except TamisError as error:
                raise GoneError(str(error)) from None

        yield following


@pytest.mark.parametrize("protocol", [by_websocket, by_stomp, by_packets, by_agent])
def test_a_durable_subscription_that_was_removed_says_so(alice, protocol):
    with protocol(alice, durable=True) as following:
        alice.publish("IBM")
        assert following() == ["IBM"]
        assert alice.http.delete(f"{PATH}/subscriptions/mine").status_code == 204
        with pytest.raises(GoneError, match="subscription was removed"):
            following()


def test_who_removes_its_own_subscription_gets_one_answer(alice):
    address = alice.server.url.replace("http", "ws") + "/ws"
    with ws.connect(address, additional_headers=bearer(alice.token)) as peer:
        asked = [{"type": "subscribe", "channel": "quotes", "name": "mine", "durable": True},
                 {"type": "unsubscribe", "name": "mine", "end": True},
                 {"type": "unsubscribe", "name": "mine"}]  # fmt: skip
        for one in asked:
            peer.send(json.dumps(one))
        kinds = [json.loads(peer.recv(20))["type"] for _ in asked]
        assert kinds == ["subscribed", "unsubscribed", "error"]


def test_a_closed_channel_ends_what_was_open_on_it(server, alice):
    """Subscribers are told, and nothing is left that waits for messages."""
    tasks = len(server.parts.hub._tasks)
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(protocol(alice)) for protocol in PROTOCOLS]
        wish = {"webhook": "http://127.0.0.1:9/"}
        assert alice.http.put(f"{PATH}/subscriptions/hook", json=wish).status_code == 200
        assert alice.http.delete(PATH).status_code == 204
        for following in listeners:
            with pytest.raises(GoneError, match="channel is gone"):
                following()
    assert not server.parts.deliveries.running
    alice.http.get("/api/channels")
    assert len(server.parts.hub._tasks) <= tasks
    assert alice.http.put(PATH, json=QUOTES).status_code == 201
