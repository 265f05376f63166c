"""Principals: what a change does not name stays; what is wrong is refused and changes nothing."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from server.servers import QUOTES, served
from tamis.cli import main
from tamis.errors import InputError
from tamis.registry import Principal, Right, SqliteRegistry
from tamis.server.access import new_token
from tamis.server.process.serve import Address


@pytest.fixture
def run(capfd):
    def call(*arguments):
        code = main(list(arguments))
        out, err = capfd.readouterr()
        return code, out, err

    return call


def stored(directory):
    with SqliteRegistry(directory / "registry.db") as registry:
        return {p.login: p for p in registry.principals()}, registry.audits(50)


# --- over HTTP ----------------------------------------------------------------------


@pytest.fixture
def boss(tmp_path):
    with SqliteRegistry(tmp_path / "registry.db") as registry:
        registry.put_principal(Principal("boss", "main"))
        registry.put_right(Right("boss", "manage"))
        token = new_token(registry, "boss")
    with (
        served(tmp_path) as server,
        server.http(headers={"authorization": f"Bearer {token}"}) as http,
    ):
        http.server = server
        yield http


ALICE = {"password": "secret", "selector": "region = 'EU'", "rate": 5.0, "subscriptions": 7}


def shown(http, name="alice"):
    found = http.get("/api/principals").json()["principals"]
    return next(p for p in found if p["name"] == name)


def test_put_keeps_what_it_does_not_name(boss):
    path = "/api/principals/alice"
    assert boss.put(path, json=ALICE).status_code == 201
    expected = {**ALICE, "password": True}
    for change in ({}, {"rate": 9.0}, {"selector": ""}, {"subscriptions": 0}, {"password": ""}):
        answer = boss.put(path, json=change)
        assert answer.status_code == 200
        expected |= change
        expected["password"] = bool(expected["password"])
        assert {key: shown(boss)[key] for key in expected} == expected
        assert answer.json() == shown(boss)
    hashed = boss.server.parts.hub.registry.principals()
    assert [p.password for p in hashed if p.name == "alice"] == [""]


def test_changes_at_the_same_moment_are_all_kept(boss):
    path = "/api/principals/alice"
    boss.put(path, json={})
    changes = [{"rate": 5.0}, {"selector": "a = 1"}, {"subscriptions": 3}] * 3
    with ThreadPoolExecutor(9) as pool:
        list(pool.map(lambda change: boss.put(path, json=change), changes))
    now = shown(boss)
    assert (now["rate"], now["selector"], now["subscriptions"]) == (5.0, "a = 1", 3)


@pytest.mark.parametrize(
    "form",
    [{"rate": -1}, {"rate": 1e10}, {"rate": "5"}, {"subscriptions": -1}, {"subscriptions": 2**63},
     {"subscriptions": 1.5}, {"selector": "price >"}, {"selector": None}, {"sellector": "a = 1"}],
)  # fmt: skip
def test_a_bad_change_changes_nothing(boss, form):
    path = "/api/principals/alice"
    boss.put(path, json=ALICE)
    before = shown(boss)
    assert boss.put(path, json={"rate": 1.0, **form}).status_code == 422
    assert shown(boss) == before


@pytest.mark.parametrize(
    "form", [{"subjects": ""}, {"subjects": "a..b"}, {"subjects": ">.a"}, {"channel": "no name"}]
)
def test_a_right_that_could_allow_nothing_is_refused(boss, form):
    boss.put("/api/principals/alice", json={})
    found = boss.post("/api/principals/alice/rights", json={"verb": "subscribe", **form})
    assert found.status_code in (404, 422)
    assert shown(boss)["rights"] == []


# --- by the command -----------------------------------------------------------------


def test_another_token_leaves_the_principal_as_it_is(run, tmp_path):
    where = ("--directory", str(tmp_path))
    rights = ("--right", "subscribe:quotes")
    made = run("principal", "alice", *where, *rights, "--selector", "region = 'EU'", "--rate", "5")
    assert made[0] == 0
    before, _ = stored(tmp_path)
    assert before["alice"] == Principal("alice", "main", "", "region = 'EU'", 5.0)
    assert run("principal", "alice", *where, "--token")[0] == 0
    assert stored(tmp_path)[0] == before
    assert run("principal", "alice", *where, "--selector", "")[0] == 0
    assert stored(tmp_path)[0]["alice"] == Principal("alice", "main", "", "", 5.0)


@pytest.mark.parametrize(
    "options",
    [("--selector", "region ="), ("--rate", "-1"), ("--rate", "nan"), ("--rate", "1e10"),
     ("--right", "fly:*"), ("--right", "publish:a b"), ("--right", "publish:q:a..b"),
     ("--right", "publish:q", "--right", "subscribe:q:>.a")],
)  # fmt: skip
def test_the_command_refuses_what_is_wrong_and_changes_nothing(run, tmp_path, options):
    where = ("--directory", str(tmp_path))
    run("principal", "alice", *where, "--rate", "5")
    before = stored(tmp_path)
    code, _, err = run("principal", "alice", *where, "--token", *options)
    assert code != 0
    assert err
    assert stored(tmp_path) == before


def test_an_empty_password_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    code, _, err = run("principal", "alice", "--directory", str(tmp_path), "--password")
    assert (code, "holds no password" in err) == (2, True)


def test_a_mistyped_directory_is_not_made(run, tmp_path):
    wrong = tmp_path / "dtaa"
    code, _, err = run("principal", "alice", "--directory", str(wrong))
    assert (code, "no such directory" in err, wrong.exists()) == (2, True, False)
    (tmp_path / "notes.txt").touch()
    code, _, err = run("principal", "alice", "--directory", str(tmp_path))
    assert (code, "not the directory of a broker" in err) == (2, True)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_what_the_command_does_is_in_the_audit_log(run, tmp_path):
    run("principal", "alice", "--directory", str(tmp_path), "--tenant", "acme",
        "--right", "publish:q:a.>", "--token")  # fmt: skip
    _, audits = stored(tmp_path)
    assert [(a.principal, a.action, a.target, a.tenant) for a in reversed(audits)] == [
        ("local", "principal.put", "acme/alice", "acme"),
        ("local", "right.give", "acme/alice publish q a.>", "acme"),
        ("local", "token.make", "acme/alice", "acme"),
    ]


# --- the first principal ------------------------------------------------------------


def test_a_webhook_of_nobody_ends_with_the_first_principal(tmp_path):
    got, arrived = [], threading.Semaphore(0)

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            got.extend(m["attributes"]["symbol"] for m in body["messages"])
            self.send_response(204)
            self.end_headers()
            arrived.release()

        def log_message(self, *_):
            pass

    hook = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{hook.server_port}/"
    path = "/api/channels/quotes"
    try:
        with served(tmp_path) as server, server.http() as http:
            http.put(path, json=QUOTES)
            assert http.put(f"{path}/subscriptions/mine", json={"webhook": address}).is_success
            http.post(f"{path}/messages", json={"attributes": {"symbol": "before"}})
            assert arrived.acquire(timeout=20)
            registry = server.parts.hub.registry
            registry.put_principal(Principal("boss", "main"))
            for verb in ("publish", "manage"):
                registry.put_right(Right("boss", verb))
            token = new_token(registry, "boss")
            hub = server.parts.hub
            asyncio.run_coroutine_threadsafe(server.parts.visits.renew(), hub.loop).result(20)
            assert server.parts.deliveries.running == {}
            http.headers["authorization"] = f"Bearer {token}"
            message = {"attributes": {"symbol": "after"}}
            assert http.post(f"{path}/messages", json=message).status_code == 200
        with served(tmp_path) as server:
            assert server.parts.deliveries.running == {}
        assert got == ["before"]
    finally:
        hook.shutdown()
        hook.server_close()


def test_beyond_the_loopback_it_needs_a_principal(tmp_path, run):
    everywhere = Address("0.0.0.0", 0)
    with pytest.raises(InputError, match="--without-principals"), served(tmp_path, http=everywhere):
        pass
    with pytest.raises(InputError, match="tamis principal"), served(tmp_path, stomp=everywhere):
        pass
    with (
        served(tmp_path, http=everywhere, without_principals=True) as server,
        server.http() as http,
    ):
        assert http.get("/api/channels").status_code == 401
    assert run("principal", "boss", "--directory", str(tmp_path))[0] == 0
    with served(tmp_path, http=everywhere):
        pass
