"""Rights by verb, subject, selector and rate. `test_walk.py` walks all routes and protocols."""

from __future__ import annotations

import gc
import logging
import socket
import weakref

import argon2
import pytest
import websockets.sync.client as ws
from websockets.exceptions import InvalidStatus

from server.servers import QUOTES, served
from tamis.client import Agent
from tamis.errors import AccessError, TamisError
from tamis.registry import Principal, Right, SqliteRegistry
from tamis.server.access import Door, hashed, new_token

SECRET = "correct horse battery"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    return {}


@pytest.fixture(scope="module")
def server(tmp_path_factory, tokens):
    directory = tmp_path_factory.mktemp("broker")
    registry = SqliteRegistry(directory / "registry.db")
    for name, tenant in (("boss", "acme"), ("alice", "acme"), ("eve", "other"), ("nobody", "acme")):
        registry.put_principal(Principal(name, tenant, hashed(SECRET) if name == "boss" else ""))
        tokens[name] = new_token(registry, f"{tenant}/{name}")
    for verb in ("publish", "subscribe", "manage"):
        registry.put_right(Right("acme/boss", verb))
        registry.put_right(Right("other/eve", verb))
    registry.put_right(Right("acme/alice", "subscribe", "quotes", "nyse.>"))
    registry.put_right(Right("acme/alice", "publish", "quotes", "nyse.stocks"))
    tokens["expired"] = new_token(registry, "acme/boss", seconds=-1)
    tokens["reader"] = new_token(registry, "acme/boss", verbs=("subscribe",))
    registry.close()
    with served(directory) as found:
        with found.http(headers=bearer(tokens["boss"])) as http:
            assert http.put("/api/channels/quotes", json=QUOTES).status_code == 201
            assert http.put("/api/channels/secret", json=QUOTES).status_code == 201
        yield found


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


def test_websockets_and_stomp_refuse_strangers(server, tokens):
    address = server.url.replace("http", "ws") + "/ws"
    for headers in ({}, bearer("wrong"), bearer(tokens["expired"])):
        with pytest.raises(InvalidStatus, match="401"):
            ws.connect(address, additional_headers=headers)
    for frame in (b"CONNECT\naccept-version:1.2\nhost:x\n\n\0",
                  b"CONNECT\naccept-version:1.2\nhost:x\nlogin:acme/boss\npasscode:no\n\n\0",
                  b"SEND\ndestination:/quotes\n\n{}\0"):  # fmt: skip
        with socket.create_connection(("127.0.0.1", server.stomp), 10) as peer:
            peer.sendall(frame)
            assert peer.recv(1000).startswith(b"ERROR")


def test_stomp_by_password_and_by_token(server, tokens):
    for who in (f"login:acme/boss\npasscode:{SECRET}", f"passcode:{tokens['boss']}"):
        with socket.create_connection(("127.0.0.1", server.stomp), 10) as peer:
            peer.sendall(f"CONNECT\naccept-version:1.2\nhost:x\n{who}\n\n\0".encode())
            assert peer.recv(1000).startswith(b"CONNECTED")


def test_passwords_and_tokens_are_taken(http, tokens):
    assert http.get("/api/channels", auth=("acme/boss", SECRET)).status_code == 200
    assert http.get("/api/channels", auth=("acme/boss", "wrong")).status_code == 401
    assert http.get("/api/channels", auth=("acme/alice", "")).status_code == 401
    assert http.get("/api/channels", headers=bearer(tokens["expired"])).status_code == 401


def test_a_token_is_worth_no_more_than_its_verbs(http, tokens):
    headers = bearer(tokens["reader"])
    message = {"attributes": {"price": 1.0}}
    assert (
        http.post("/api/channels/quotes/messages", json=message, headers=headers).status_code == 403
    )
    assert http.get("/api/channels/quotes/messages", headers=headers).status_code == 200


def test_rights_go_by_subject(server, tokens):
    with Agent(server.url, token=tokens["alice"]) as alice:
        alice.publish("quotes", {"price": 1.0}, subject="nyse.stocks")
        with pytest.raises(TamisError, match="no right to publish"):
            alice.publish("quotes", {"price": 1.0}, subject="nyse.bonds")
        alice.subscribe("quotes", subjects="nyse.*")
        for filter in (">", "*.stocks", "ldn"):
            with pytest.raises(TamisError, match="no right to subscribe"):
                alice.subscribe("quotes", subjects=filter)
        for channel in ("secret", "nowhere"):  # one of the two exists
            with pytest.raises(TamisError, match="no right to anything"):
                alice.subscribe(channel)


def test_a_tenant_cannot_learn_of_anothers_channel(http, tokens):
    headers = bearer(tokens["eve"])
    there = http.get("/api/channels/secret", headers=headers)
    nowhere = http.get("/api/channels/nowhere", headers=headers)
    assert there.status_code == nowhere.status_code == 404
    assert there.text.replace("secret", "nowhere") == nowhere.text
    assert http.put("/api/channels/secret", json=QUOTES, headers=headers).status_code == 201
    assert http.delete("/api/channels/secret", headers=headers).status_code == 204
    assert http.get("/api/channels/secret", headers=bearer(tokens["boss"])).status_code == 200
    assert "boss" not in http.get("/api/principals", headers=headers).text


def test_who_is_unknown_costs_as_much_as_a_wrong_password(server, monkeypatch):
    """Else the time of an answer would tell which logins there are."""
    original, asked = argon2.PasswordHasher.verify, []

    def verify(self, secret, password):
        asked.append(secret.partition("p=")[0])  # what decides how long it takes
        return original(self, secret, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", verify)
    with server.http() as http:
        for login in ("acme/boss", "acme/alice", "acme/carol", "none/boss", "boss"):
            assert http.get("/api/channels", auth=(login, "untried")).status_code == 401
    assert len(asked) == 5
    assert len(set(asked)) == 1


def test_a_tenant_cannot_learn_of_anothers_principals(http, tokens):
    headers, boss = bearer(tokens["eve"]), bearer(tokens["boss"])
    for name in ("boss", "carol"):  # acme has a boss and no carol
        asked = {"password": "mine"}
        made = http.put(f"/api/principals/{name}", json=asked, headers=headers)
        assert (made.status_code, made.json()["login"]) == (201, f"other/{name}")
    assert http.get("/api/channels", auth=("other/boss", "mine")).status_code == 403
    assert http.get("/api/channels", auth=("boss", SECRET)).status_code == 401
    assert http.get("/api/channels", auth=("acme/boss", SECRET)).status_code == 200
    listed = http.get("/api/principals", headers=headers).json()["principals"]
    assert {p["login"] for p in listed} == {"other/eve", "other/boss", "other/carol"}
    right = {"verb": "manage"}
    http.post("/api/principals/boss/rights", json=right, headers=headers)
    told = http.get("/api/principals", auth=("other/boss", "mine")).json()["principals"]
    assert {p["tenant"] for p in told} == {"other"}
    for name in ("boss", "carol"):
        gone = http.delete(f"/api/principals/{name}", headers=headers)
        assert gone.status_code == 204
    assert http.get("/api/channels", headers=boss).status_code == 200


def test_the_server_adds_the_mandatory_selector(server, http, tokens):
    boss = bearer(tokens["boss"])
    asked = {"selector": "symbol = 'IBM'"}
    assert http.put("/api/principals/carl", json=asked, headers=boss).status_code == 201
    right = {"verb": "subscribe", "channel": "quotes"}
    http.post("/api/principals/carl/rights", json=right, headers=boss)
    token = http.post("/api/principals/carl/tokens", json={}, headers=boss).json()["token"]
    path = "/api/channels/quotes/messages"
    with Agent(server.url, token=token) as carl:
        messages = carl.subscribe("quotes", "price > 1 OR TRUE", durable="carls")
        two = [{"attributes": {"symbol": s, "price": 5.0}} for s in ("LU", "IBM")]
        first = http.post(path, json=two, headers=boss).json()["sequences"][0]
        assert messages.get(30).attributes["symbol"] == "IBM"
        found = http.get(path, params={"first": first}, headers=bearer(token)).text
        assert ("IBM" in found, "LU" in found) == (True, False)
        changed = {"selector": "symbol = 'LU'"}  # in force at once
        http.put("/api/principals/carl", json=changed, headers=boss)
        http.post(path, json=two, headers=boss)
        assert messages.get(30).attributes["symbol"] == "LU"
    assert http.delete("/api/principals/carl", headers=boss).status_code == 204
    assert http.get(path, headers=bearer(token)).status_code == 401


def test_a_token_can_be_ended(http, tokens):
    boss = bearer(tokens["boss"])
    path = "/api/principals/alice/tokens"
    secret = http.post(path, json={"label": "spare"}, headers=boss).json()["token"]
    assert http.get("/api/channels", headers=bearer(secret)).status_code == 200
    listed = http.get(path, headers=boss)
    assert secret not in listed.text
    spare = next(t for t in listed.json()["tokens"] if t["label"] == "spare")
    assert http.delete(f"{path}/{spare['id']}", headers=boss).status_code == 204
    assert http.delete(f"{path}/{spare['id']}", headers=boss).status_code == 404
    assert http.get("/api/channels", headers=bearer(secret)).status_code == 401


@pytest.mark.parametrize("seconds", [-1, 1e13, 1e300])
def test_a_token_lasts_for_a_time_that_can_be_kept(http, tokens, seconds):
    asked = {"seconds": seconds}
    path = "/api/principals/alice/tokens"
    assert http.post(path, json=asked, headers=bearer(tokens["boss"])).status_code == 422


def test_rates_are_kept(http, tokens):
    boss = bearer(tokens["boss"])
    http.put("/api/principals/fast", json={"rate": 5}, headers=boss)
    http.post("/api/principals/fast/rights", json={"verb": "publish"}, headers=boss)
    token = http.post("/api/principals/fast/tokens", json={}, headers=boss).json()["token"]
    message = {"attributes": {"price": 1.0}}
    codes = [
        http.post("/api/channels/quotes/messages", json=message, headers=bearer(token)).status_code
        for _ in range(12)
    ]
    assert codes[0] == 200
    assert 429 in codes


def test_changes_are_in_the_audit_log_and_secrets_are_nowhere(server, http, tokens, caplog):
    with caplog.at_level(logging.DEBUG):
        boss = bearer(tokens["boss"])
        http.put("/api/principals/dora", json={"password": "hush hush"}, headers=boss)
        http.get("/api/channels", auth=("acme/dora", "hush hush"))
    assert "hush" not in caplog.text
    assert tokens["boss"] not in caplog.text
    files = b"".join(p.read_bytes() for p in server.parts.directory.glob("registry.db*"))
    assert b"hush" not in files
    assert tokens["boss"].encode() not in files
    audits = server.parts.hub.registry.audits(5)
    assert ("principal.put", "acme/dora") in [(a.action, a.target) for a in audits]


def test_wrong_tokens_are_told_to_agents(server):
    with Agent(server.url, token="wrong") as agent, pytest.raises(AccessError):
        agent.publish("quotes", {})


def test_who_was_refused_is_forgotten(tmp_path):
    """Failed logins must not fill the memory: nothing holds on to what they left."""

    class Peer:
        def enter(self, door):
            with pytest.raises(AccessError):
                door.by_token("wrong")

    registry = SqliteRegistry(tmp_path / "registry.db")
    door, peer = Door(registry, local=False), Peer()
    left = weakref.ref(peer)
    peer.enter(door)
    del peer
    gc.collect()
    assert left() is None
    registry.close()
