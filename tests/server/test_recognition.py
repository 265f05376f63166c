"""Wrong passwords over every protocol: cheap refusals, growing pauses, no cost to others."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import argon2
import pytest
import websockets.sync.client as ws
from websockets.exceptions import InvalidStatus

from server.servers import served
from tamis.errors import BusyError
from tamis.registry import VERBS, Principal, Right, SqliteRegistry
from tamis.server.access import hashed, new_token
from tamis.server.guesses import (
    FORGET_SECONDS,
    FREE,
    LATEST_REFUSAL,
    LONGEST_PAUSE,
    MOST,
    REFUSALS_AT_ONCE,
    REFUSALS_PER_SECOND,
    SHARED_FREE,
    Guesses,
    Pauses,
    Refusals,
    Results,
    network,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))
from client import Client
from client import RefusedError as Refused

SECRET = "right"


@pytest.fixture
def server(tmp_path):
    registry = SqliteRegistry(tmp_path / "registry.db")
    for name in ("alice", "bob"):
        registry.put_principal(Principal(name, "main", hashed(SECRET)))
        for verb in VERBS:
            registry.put_right(Right(name, verb))
    token = new_token(registry, "bob")
    registry.close()
    with served(tmp_path) as found:
        found.token = token
        yield found


def by_http(server, login, password):
    with server.http() as http:
        found = http.get("/api/channels", auth=(login, password))
    if found.status_code == 429:
        assert 1 <= int(found.headers["retry-after"]) <= LONGEST_PAUSE
    return {200: "", 401: "say who you are", 429: "too many wrong"}[found.status_code]


def by_websocket(server, login, password):
    address = server.url.replace("http://", f"ws://{login}:{password}@") + "/ws"
    try:
        with ws.connect(address):
            return ""
    except InvalidStatus as error:
        answer = error.response
    assert (answer.status_code == 429) == ("retry-after" in answer.headers)
    return answer.body.decode()


def by_stomp(server, login, password):
    with socket.create_connection(("127.0.0.1", server.stomp), 20) as peer:
        hello = f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{login}\npasscode:{password}\n\n\0"
        peer.sendall(hello.encode())
        found = peer.recv(10_000).decode()
    return "" if found.startswith("CONNECTED") else found


def by_packets(server, login, password):
    with Client("127.0.0.1", server.packets) as client:
        try:
            client.command("pc.login", Name=login, Password=password)
        except Refused as error:
            return str(error)
    return ""


PROTOCOLS = [by_http, by_websocket, by_stomp, by_packets]


@pytest.mark.parametrize("log_in", PROTOCOLS)
def test_guesses_are_slowed_down_and_others_are_not(server, log_in):
    assert log_in(server, "bob", SECRET) == ""
    for n in range(FREE):
        assert "say who you are" in log_in(server, "alice", f"wrong {n}")
    assert "too many wrong" in log_in(server, "alice", "another")
    assert "too many wrong" in log_in(server, "alice", SECRET)  # it was not seen before
    assert "say who you are" in log_in(server, "alice", "wrong 0")  # known to be wrong
    for protocol in PROTOCOLS:  # whichever was abused
        assert protocol(server, "bob", SECRET) == ""
    with server.http(headers={"authorization": f"Bearer {server.token}"}) as http:
        assert http.get("/api/channels").status_code == 200


def test_a_password_that_is_known_is_not_hashed_again(server, monkeypatch):
    original, hashes = argon2.PasswordHasher.verify, []

    def verify(self, stored, password):
        hashes.append(password)
        return original(self, stored, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", verify)
    for password in (SECRET, "wrong", SECRET, "wrong", SECRET, "wrong"):
        by_http(server, "alice", password)
    assert hashes == [SECRET, "wrong"]
    with server.http(headers={"authorization": f"Bearer {server.token}"}) as http:
        assert http.put("/api/principals/alice", json={"password": "new"}).status_code == 200
    assert by_http(server, "alice", SECRET) == "say who you are"
    assert by_http(server, "alice", "new") == ""


def test_hashing_holds_up_neither_tokens_nor_known_passwords(server, monkeypatch):
    """However long the hashes of strangers take, and however many wait for theirs."""
    assert by_http(server, "bob", SECRET) == ""
    going, end = threading.Semaphore(0), threading.Event()

    def verify(self, stored, password):
        going.release()
        end.wait(30)
        raise argon2.exceptions.VerifyMismatchError

    monkeypatch.setattr(argon2.PasswordHasher, "verify", verify)
    answers = []
    guess = lambda n: answers.append(by_http_status(server, f"guess {n}"))  # noqa: E731
    threads = [threading.Thread(target=guess, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    assert going.acquire(timeout=20)
    try:
        with server.http(headers={"authorization": f"Bearer {server.token}"}) as http:
            assert http.get("/api/channels").status_code == 200
        for protocol in PROTOCOLS:
            assert protocol(server, "bob", SECRET) == ""
    finally:
        end.set()
    for thread in threads:
        thread.join(30)
    assert set(answers) == {401, 429}


def by_http_status(server, password):
    with server.http() as http:
        return http.get("/api/channels", auth=("alice", password)).status_code


# --- without a server -----------------------------------------------------------------


def test_pauses_grow_and_are_forgotten():
    now = [0.0]
    pauses, seen = Pauses(2, 8.0, lambda: now[0]), []
    for _ in range(7):
        pauses.failed("a")
        seen.append(pauses.left("a"))
    assert seen == [0, 1, 2, 4, 8, 8, 8]
    now[0] += 5
    assert (pauses.left("a"), pauses.left("b")) == (3, 0)
    now[0] += FORGET_SECONDS
    assert "a" not in pauses
    for n in range(2 * MOST):
        pauses.failed(str(n))
    assert len(pauses._known) == MOST


def test_the_owner_of_a_login_does_not_wait_for_guesses_from_elsewhere():
    guesses = Guesses(lambda: 0.0)
    for n in range(10 * SHARED_FREE):
        guesses.failed(f"10.0.0.{n % 250}", "alice")
    guesses.check("192.0.2.1", "alice")  # an address without failures
    with pytest.raises(BusyError, match="try again in 5 s"):
        guesses.check("10.0.0.1", "alice")
    guesses.check("10.0.0.1", "bob")
    for n in range(SHARED_FREE):
        guesses.failed("10.0.0.1", f"login {n}")
    with pytest.raises(BusyError):
        guesses.check("10.0.0.1", "bob")


def test_results_are_bounded_and_kept_apart():
    results = Results(lambda: 0.0)
    results.put(results.digest("a", "hash", "right"), True)
    for n in range(2 * MOST):
        results.put(results.digest("a", "hash", f"wrong {n}"), False)
    assert results.get(results.digest("a", "hash", "right")) is True
    assert results.get(results.digest("a", "hash", f"wrong {2 * MOST - 1}")) is False
    assert results.get(results.digest("a", "hash", "wrong 0")) is None
    assert results.get(results.digest("a", "hashr", "ight")) is None


@pytest.mark.parametrize(("address", "expected"), [
    ("10.1.2.3", "10.1.2.3"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("::1", "::/64"),
    ("::ffff:10.1.2.3", "10.1.2.3"), ("fe80::1%eth0", "fe80::/64"), ("", ""), ("x", "x"),
])  # fmt: skip
def test_what_counts_as_one_address(address, expected):
    assert network(address) == expected


def test_refusals_of_one_address_are_told_later_and_later():
    now = 1000.0
    refusals = Refusals(lambda: now)
    assert not any(refusals.delay("x") for _ in range(REFUSALS_AT_ONCE))
    delays = [refusals.delay("x") for _ in range(1000)]
    assert delays[0] == pytest.approx(1 / REFUSALS_PER_SECOND)
    assert delays == sorted(delays)
    assert delays[-1] == pytest.approx(LATEST_REFUSAL)
    assert refusals.delay("y") == 0
    now += 60
    assert refusals.delay("x") == 0


def test_who_was_recognised_or_refused_is_not_looked_up_again(server, monkeypatch):
    """Until rights change."""
    looked_up = []
    by_token = server.parts.door.by_token
    monkeypatch.setattr(
        server.parts.door, "by_token", lambda secret: looked_up.append(secret) or by_token(secret)
    )
    with server.http() as http:
        for secret, status in ((server.token, 200), ("wrong", 401)):
            for _ in range(5):
                headers = {"Authorization": f"Bearer {secret}"}
                assert http.get("/api/channels", headers=headers).status_code == status
        assert looked_up == [server.token, "wrong"]
        headers = {"Authorization": f"Bearer {server.token}"}
        assert http.delete("/api/principals/bob", headers=headers).status_code < 300
        assert http.get("/api/channels", headers=headers).status_code == 401


def test_no_token_is_not_an_empty_token(tmp_path):
    """Without principals the one is let in, the other is not."""
    with served(tmp_path) as server, server.http() as http:
        empty = {"Authorization": "Bearer"}
        assert http.get("/api/channels").status_code == 200
        assert http.get("/api/channels", headers=empty).status_code == 401
        assert http.get("/api/channels").status_code == 200
