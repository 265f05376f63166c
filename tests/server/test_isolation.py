"""One subscription, request or session that fails stops no other, and loses nothing."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
import websockets.sync.client as ws

from server.servers import served
from tamis.pubsub.broker.judge import Judge


@pytest.fixture
def server(tmp_path):
    with served(tmp_path) as found:
        with found.http() as http:
            http.put("/api/channels/q", json={"attributes": {"n": "int"}})
        yield found


class Socket:
    def __init__(self, socket):
        self.socket = socket
        self.others, self.waiting = [], []

    def ask(self, **request):
        self.socket.send(json.dumps({**request, "request": 1}))
        while True:
            frame = json.loads(self.socket.recv(10))
            if frame.get("request") == 1:
                return frame
            self._sort(frame)

    def tell(self, **request):
        self.socket.send(json.dumps(request))

    def _sort(self, frame):
        if frame["type"] == "messages":
            self.waiting += [m["sequence"] for m in frame["messages"]]
        else:
            self.others.append(frame)

    def sequences(self, count):
        """So many, or all that come within five seconds."""
        end = time.monotonic() + 5
        while len(self.waiting) < count and (left := end - time.monotonic()) > 0:
            try:
                self._sort(json.loads(self.socket.recv(left)))
            except TimeoutError:
                break
        found, self.waiting = self.waiting, []
        return found

    def other(self, kind):
        """The first frame of a kind."""
        end = time.monotonic() + 5
        while not any(f["type"] == kind for f in self.others) and time.monotonic() < end:
            self._sort(json.loads(self.socket.recv(5)))
        return next(f for f in self.others if f["type"] == kind)


@pytest.fixture
def connect(server):
    url = f"{server.url.replace('http', 'ws')}/ws"
    with contextlib.ExitStack() as stack:
        yield lambda: Socket(stack.enter_context(ws.connect(url, max_size=None)))


def publish(server, count, channel="q"):
    with server.http() as http:
        messages = [{"attributes": {"n": n}} for n in range(count)]
        return http.post(f"/api/channels/{channel}/messages", json=messages).json()["sequences"]


@pytest.mark.parametrize("selector", ["_subject_x = 1", "_subject0 = 'q'", "`_subject_length` > 0"])
def test_attributes_that_sound_like_the_brokers_own_are_ordinary(server, connect, selector):
    victim, other = connect(), connect()
    victim.ask(type="subscribe", channel="q", name="d", durable=True)
    assert other.ask(type="subscribe", channel="q", name="x", selector=selector)["type"] == (
        "subscribed"
    )
    assert victim.sequences(len(publish(server, 30))) == list(range(1, 31))
    assert publish(server, 1) == victim.sequences(1)
    assert other.sequences(0) == []


@pytest.mark.parametrize("name", ["$tamis$0", "$tamis$length", "`$tamis$0`", "x.`$tamis$1`"])
def test_no_selector_names_what_is_the_brokers_own(server, connect, name):
    answer = connect().ask(type="subscribe", channel="q", name="x", selector=f"{name} = 'q'")
    assert answer["type"] == "error"
    assert "reserved" in answer["error"]
    with server.http() as http:
        assert http.put("/api/channels/z", json={"attributes": {"$tamis$0": "int"}}).is_error
        wish = {"selector": f"{name} = 'q'"}
        assert http.put("/api/channels/q/subscriptions/x", json=wish).status_code == 422
        assert http.post("/api/channels/q/check", json=wish).status_code == 422


def test_a_message_cannot_pretend_to_have_another_subject(server, connect):
    one = connect()
    one.ask(type="subscribe", channel="q", name="x", subjects="q.x")
    with server.http() as http:
        path = "/api/channels/q/messages"
        spoof = {"$tamis$1": "x", "$tamis$length": 2}
        http.post(path, json=[{"subject": "q", "attributes": spoof}] * 30)
        http.post(path, json={"subject": "q.x", "attributes": {"$tamis$1": "y"}})
    assert one.sequences(1) == [31]


def failing(monkeypatch, word):
    """Every judge fails that has a subscription with the word in its selector."""
    for name in ("judge", "hits"):
        whole = getattr(Judge, name)

        def judged(self, records, whole=whole):
            if any(word in text for _, text in self.matcher.items()):
                raise IndexError("planted")
            return whole(self, records)

        monkeypatch.setattr(Judge, name, judged)


def test_a_subscription_that_makes_the_judge_fail_is_set_aside(server, connect, monkeypatch):
    failing(monkeypatch, "poison")
    victim, bad, durable = connect(), connect(), connect()
    victim.ask(type="subscribe", channel="q", name="v", durable=True)
    bad.ask(type="subscribe", channel="q", name="bad", selector="poison = 1")
    wish = {"selector": "n > 1 OR poison = 2", "durable": True}
    durable.ask(type="subscribe", channel="q", name="kept", **wish)
    assert victim.sequences(len(publish(server, 30))) == list(range(1, 31))
    for one, name in ((bad, "bad"), (durable, "kept")):
        ended = one.other("ended")
        assert ended["subscription"] == name
        assert "IndexError: planted" in ended["error"]
    with server.http() as http:
        shown = http.get("/api/channels/q/subscriptions/kept").json()
        assert shown["state"] == "failed"
        assert "planted" in shown["problem"]
        found = http.get("/api/subscriptions", params={"q": "state:problem"}).json()
        assert [s["name"] for s in found["subscriptions"]] == ["kept"]
        health = http.get("/health").json()
        assert health["failing"] == {"subscriptions": 1}
        assert health["faults"] > 0
    monkeypatch.undo()  # as if a new version knew better: nothing that it waits for is gone
    again = durable.ask(type="subscribe", channel="q", name="kept", durable=True)
    assert again["type"] == "subscribed", again
    assert set(durable.sequences(28)) >= set(range(3, 31))
    with server.http() as http:
        assert http.get("/health").json()["status"] == "ok"


def test_a_judge_that_fails_for_no_reason_found_loses_nothing(server, connect, monkeypatch):
    """Then everybody reads from the log, with a judge of their own."""
    whole = Judge.judge

    def many(self, records):
        if len(self.matcher) > 2:
            raise RuntimeError("too much at once")
        return whole(self, records)

    monkeypatch.setattr(Judge, "judge", many)
    sockets = [connect() for _ in range(3)]
    for i, one in enumerate(sockets):
        one.ask(type="subscribe", channel="q", name=f"s{i}", durable=bool(i))
    for start in (1, 31):
        publish(server, 30)
        assert [one.sequences(30) for one in sockets] == [list(range(start, start + 30))] * 3


def test_a_message_stored_before_its_attribute_was_declared_is_read(server, connect):
    """Its value does not fit the type: it is undefined, and stops nobody."""
    with server.http() as http:
        http.post("/api/channels/q/messages", json={"attributes": {"n": 1, "m": "text"}})
        http.put("/api/channels/q", json={"attributes": {"n": "int", "m": "int"}})
        assert "m" in http.get("/api/channels/q").json()["attributes"]
        assert len(http.get("/api/channels/q/messages").text.splitlines()) == 1
        assert http.get("/api/channels/q/messages", params={"selector": "m > 0"}).text == ""
    one = connect()
    one.ask(type="subscribe", channel="q", name="d", durable=True, start="all", selector="n = 1")
    assert one.sequences(1) == [1]


@pytest.mark.parametrize("number", [2**63, 2**70, -1, 1.5])
def test_numbers_beyond_64_bits_are_refused_and_freeze_nothing(server, connect, number):
    one = connect()
    one.ask(type="subscribe", channel="q", name="a")
    with server.http() as http:
        path = "/api/channels/q/subscriptions/x"
        for wish in ({"start": number}, {"window": number}):
            assert http.put(path, json=wish).status_code == 422
        for query in ({"first": number}, {"limit": number}, {"before": number}):
            assert http.get("/api/channels/q/messages", params=query).status_code == 422
    for request in (
        {"type": "subscribe", "channel": "q", "name": "b", "start": number},
        {"type": "subscribe", "channel": "q", "name": "b", "durable": True, "window": number},
        {"type": "subscribe", "channel": "f/s", "name": "b", "starts": {"q": number}},
        {"type": "ack", "name": "a", "sequence": number},
    ):
        one.tell(**request)
        assert one.other("error")["error"]
        one.others.clear()
    publish(server, 1)
    assert one.sequences(1) == [1]


def test_a_start_beyond_the_end_is_the_end(server, connect):
    publish(server, 2)
    one = connect()
    answer = one.ask(type="subscribe", channel="q", name="d", durable=True, start=2**63 - 1)
    assert answer["cursor"] == 2
    one.socket.close()
    publish(server, 1)
    again = connect()
    again.ask(type="subscribe", channel="q", name="d", durable=True)
    assert again.sequences(1) == [3]


def test_a_registry_that_fails_fails_one_request(server, connect, monkeypatch):
    registry = server.parts.hub.registry
    with monkeypatch.context() as broken, server.http() as http:
        broken.setattr(registry, "change_subscriptions", lambda *_: 1 // 0)
        answer = http.put("/api/channels/q/subscriptions/x", json={})
        assert answer.status_code == 500
        assert "ZeroDivisionError" in answer.json()["error"]
    with server.http() as http:
        assert http.put("/api/channels/q/subscriptions/x", json={}).status_code == 200
    one = connect()
    one.ask(type="subscribe", channel="q", name="a")
    publish(server, 1)
    assert one.sequences(1) == [1]


@pytest.mark.parametrize("stored", [False, True])
def test_a_log_that_fails_is_refused_or_stored_never_both(server, monkeypatch, stored):
    """`stored`: it fails after the commit."""
    log = server.parts.hub.log
    whole = log.append

    def append(blocks):
        if stored:
            whole(blocks)
        raise MemoryError("planted")

    message = {"attributes": {"n": 1}, "sequence": 1}
    path, query = "/api/channels/q/messages", {"publisher": "p"}
    with server.http() as http:
        with monkeypatch.context() as broken:
            broken.setattr(log, "append", append)
            answer = http.post(path, json=message, params=query)
        assert answer.status_code == (200 if stored else 503)
        again = http.post(path, json=message, params=query).json()["sequences"]
        assert again == ([0] if stored else [1])
        assert publish(server, 1) == [2]
        assert len(http.get(path).text.splitlines()) == 2


def test_a_log_that_cannot_be_read_for_a_moment_is_read_again(server, connect, monkeypatch):
    publish(server, 3)
    log, failures = server.parts.hub.log, iter([True, True])
    whole = log.read

    def read(*args):
        if next(failures, False):
            raise OSError("planted")
        return whole(*args)

    monkeypatch.setattr(log, "read", read)
    one = connect()
    one.ask(type="subscribe", channel="q", name="d", durable=True, start="all")
    assert one.sequences(3) == [1, 2, 3]


def test_a_session_that_cannot_be_written_to_ends_what_it_holds(server, connect, monkeypatch):
    frames, victim, other = server.parts.frames, connect(), connect()
    victim.ask(type="subscribe", channel="q", name="d", durable=True)
    other.ask(type="subscribe", channel="q", name="o")
    with monkeypatch.context() as broken:
        broken.setattr(frames, "frame", lambda _: 1 // 0)
        publish(server, 2)
        assert "ZeroDivisionError" in victim.other("ended")["error"]
    assert other.sequences(2) == [1, 2]
    victim.ask(type="subscribe", channel="q", name="d", durable=True)
    assert victim.sequences(2) == [1, 2]


def test_an_answer_that_cannot_be_given_drops_no_other_action(server, connect):
    hub = server.parts.hub
    one = connect()
    one.ask(type="subscribe", channel="q", name="a")

    def admit():
        from tamis.pubsub.broker.intake import Draft

        number = server.parts.channels.by_name["main", "q"].entry.number
        hub.publish(number, "p", [Draft("q", b"{}")], lambda _: 1 // 0)

    hub.loop.call_soon_threadsafe(admit)
    assert one.sequences(1) == [1]
    assert publish(server, 1) == [2]
