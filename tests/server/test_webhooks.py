"""Webhooks: to a receiver that fails at times."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from server.servers import QUOTES, served
from tamis.server.deliveries import webhooks


@pytest.fixture
def receiver():
    got, plan = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            status = plan.pop(0) if plan else 200
            if status == 200:
                got.append((dict(self.headers), body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook?x=1", got, plan
    server.shutdown()
    server.server_close()
    thread.join()


def until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def sequences(got):
    return [m["sequence"] for _, body in got for m in json.loads(body)["messages"]]


def test_a_webhook_gets_everything_signed_and_in_order(tmp_path, receiver, monkeypatch):
    monkeypatch.setattr(webhooks.Webhook, "first_pause", 0.01)
    address, got, plan = receiver
    plan += [500, 503]
    one = "/api/channels/quotes/subscriptions/hook"
    message = {"attributes": {"price": 1.0}}
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        asked = {"selector": "price > 0", "webhook": address, "secret": "hush"}
        made = http.put(one, json=asked).json()
        assert made["delivery"] == {"webhook": address}  # the secret is not told
        http.post("/api/channels/quotes/messages", json=[message] * 5)
        until(lambda: len(sequences(got)) == 5)
        assert sequences(got) == [1, 2, 3, 4, 5]
        headers, body = got[0]
        expected = webhooks.signature("hush", headers["Tamis-Time"], body)
        assert headers["Tamis-Signature"] == f"sha256={expected}"
        assert http.get(f"{one}/dead").json() == {"failures": 2, "dead": []}
        until(lambda: http.get(one).json()["cursor"] == 5)
        time.sleep(0.5)
    with served(tmp_path) as server, server.http() as http:  # it goes on after a restart
        http.post("/api/channels/quotes/messages", json=[message] * 2)
        until(lambda: len(sequences(got)) == 7)
        assert sequences(got)[5:] == [6, 7]
        assert http.delete(one).status_code == 204


def test_what_fails_too_often_becomes_a_dead_letter(tmp_path, receiver, monkeypatch):
    monkeypatch.setattr(webhooks.Webhook, "first_pause", 0.001)
    monkeypatch.setattr(webhooks.Webhook, "attempts", 3)
    address, got, plan = receiver
    one = "/api/channels/quotes/subscriptions/hook"
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put(one, json={"webhook": address})
        plan += [500, 500, 500]
        http.post("/api/channels/quotes/messages", json={"attributes": {"price": 1.0}})
        until(lambda: http.get(f"{one}/dead").json()["failures"] == 3)
        http.post("/api/channels/quotes/messages", json={"attributes": {"price": 2.0}})
        until(lambda: sequences(got) == [2])
        dead = http.get(f"{one}/dead").json()["dead"]
        assert dead == [{"sequence": 1, "problem": "answered 500"}]
        assert http.put(one, json={"webhook": "file:///etc/passwd"}).status_code == 422
