"""Webhooks: to a receiver that fails at times."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from server.pages.browsing import sent
from server.servers import QUOTES, served
from tamis.client import Agent
from tamis.errors import InputError
from tamis.registry import VERBS, Principal, Right, SqliteRegistry
from tamis.server.access import new_token
from tamis.server.deliveries import posting, webhooks


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


def test_a_webhook_gets_again_what_its_cursor_is_set_to(tmp_path, receiver):
    address, got, _ = receiver
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put(ONE, json={"webhook": address})
        http.post(MESSAGES, json=[{"attributes": {"price": 1.0}}] * 5)
        until(lambda: http.get(ONE).json()["cursor"] == 5)
        assert http.put(f"{ONE}/cursor", json={"start": 3}).status_code == 200
        until(lambda: http.get(ONE).json()["cursor"] == 5)
        assert sequences(got) == [1, 2, 3, 4, 5, 3, 4, 5]


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


def test_dead_letters_are_brought_again_when_somebody_asks(tmp_path, receiver, monkeypatch):
    monkeypatch.setattr(webhooks.Webhook, "attempts", 1)
    address, got, plan = receiver
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put(ONE, json={"webhook": address})
        for price in range(3):
            plan.append(500)
            http.post(MESSAGES, json={"attributes": {"price": float(price)}})
            until(lambda wanted=price + 1: len(http.get(f"{ONE}/dead").json()["dead"]) == wanted)
        plan.append(503)
        found = http.post(f"{ONE}/dead/retry", json={}).json()
        assert found == {"delivered": 0, "left": 3, "problem": "answered 503"}
        assert http.get(f"{ONE}/dead").json()["dead"][0]["problem"] == "answered 503"
        found = http.post(f"{ONE}/dead/retry", json={"sequences": [2, 99]}).json()
        assert found == {"delivered": 1, "left": 2, "problem": ""}
        page = http.get("/channels/quotes/subscriptions/hook").text
        assert page.count("Try again</button>") == 2
        done = sent(http, "/channels/quotes/subscriptions/hook/dead/retry",
                    "/channels/quotes/subscriptions/hook")  # fmt: skip
        assert done.headers["location"].endswith("?done=retried")
        assert sequences(got) == [2, 1, 3]
        assert http.get(f"{ONE}/dead").json()["dead"] == []
        http.post(MESSAGES, json=PRICE)  # the subscription goes on as before
        until(lambda: sequences(got) == [2, 1, 3, 4])
        http.post(f"{ONE}/pause")
        http.delete(ONE)
        http.put(ONE, json={})
        refused = http.post(f"{ONE}/dead/retry", json={})
        assert (refused.status_code, "not delivered now" in refused.text) == (422, True)


ONE = "/api/channels/quotes/subscriptions/hook"
MESSAGES = "/api/channels/quotes/messages"
PRICE = {"attributes": {"price": 1.0}}


@pytest.fixture
def tarpit():
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"


def test_webhooks_that_never_answer_hold_up_nothing_else(tmp_path, receiver, tarpit):
    _, got, _ = receiver
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        for n in range(posting.BY_PRINCIPAL + 4):
            path = f"/api/channels/quotes/subscriptions/slow{n}"
            assert http.put(path, json={"webhook": tarpit}).status_code == 200
        http.post(MESSAGES, json=PRICE)
        poster = server.parts.deliveries.poster
        until(lambda: poster.turns.taken == posting.BY_PRINCIPAL)
        assert http.get("/api/channels").status_code == 200
        http.put("/api/channels/other", json=QUOTES)
        assert http.put("/api/channels/other/subscriptions/x", json={}).status_code == 200
        metrics = http.get("/metrics").text
        assert f"tamis_webhooks_in_flight {posting.BY_PRINCIPAL}" in metrics
        assert threads("tamis-") < posting.BY_PRINCIPAL  # no thread waits for an answer
    assert not threads("tamis-names")
    assert not got


def threads(prefix):
    return sum(thread.name.startswith(prefix) for thread in threading.enumerate())


def test_one_principals_slow_webhooks_do_not_wait_before_anothers(tmp_path, receiver, tarpit):
    address, got, _ = receiver
    registry = SqliteRegistry(tmp_path / "registry.db")
    tokens = {}
    for name in ("boss", "slow"):
        registry.put_principal(Principal(name, "main"))
        for verb in VERBS:
            registry.put_right(Right(name, verb))
        tokens[name] = {"authorization": f"Bearer {new_token(registry, name)}"}
    registry.close()
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES, headers=tokens["boss"])
        for n in range(2 * posting.BY_PRINCIPAL):
            path = f"/api/channels/quotes/subscriptions/slow{n}"
            made = http.put(path, json={"webhook": tarpit}, headers=tokens["slow"])
            assert made.status_code == 200
        http.post(MESSAGES, json=PRICE, headers=tokens["boss"])
        until(lambda: server.parts.deliveries.poster.turns.taken == posting.BY_PRINCIPAL)
        asked = {"webhook": address, "start": "all"}
        assert http.put(ONE, json=asked, headers=tokens["boss"]).status_code == 200
        until(lambda: sequences(got) == [1])


@pytest.mark.parametrize("address", [
    "http://127.0.0.1:99999/", "http://127.0.0.1:0/", "http://127.0.0.1:x/", "http://[::1",
    "http://127.0.0.1:9/\u00e9", "http://a..b/", "http://-a/", f"http://{'a' * 64}/", "http:///x",
    "http://a b/", "http://h/a b", "http://h/\r\nX: y", "http://user:pw@h/", "ftp://h/",
    f"http://h/{'x' * 2000}", "http://h\u00e9/", "http://[::1]x/", "nonsense", "http://h:1:2/",
])  # fmt: skip
def test_an_address_that_cannot_be_is_refused(tmp_path, address):
    with pytest.raises(InputError, match="address of a webhook"):
        posting.Address.parse(address)


@pytest.mark.parametrize(("text", "expected"), [
    ("http://h", (False, "h", 80, "/", "h")),
    ("https://a.example/x/?q=1", (True, "a.example", 443, "/x/?q=1", "a.example")),
    ("https://a.example.:8443?q", (True, "a.example.", 8443, "/?q", "a.example.:8443")),
    ("http://[::1]:80/", (False, "::1", 80, "/", "[::1]")),
    ("http://10.0.0.1:8080/#f", (False, "10.0.0.1", 8080, "/", "10.0.0.1:8080")),
])  # fmt: skip
def test_where_an_address_leads(text, expected):
    found = posting.Address.parse(text)
    assert (found.secure, found.host, found.port, found.target, found.header) == expected


def test_an_address_of_an_older_version_is_reported_and_stops_no_other(tmp_path, receiver):
    address, got, _ = receiver
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        for name in ("bad", "good"):
            http.put(f"/api/channels/quotes/subscriptions/{name}", json={"webhook": address})
    registry = SqliteRegistry(tmp_path / "registry.db")
    for one in list(registry.subscriptions(1)):
        if one.name == "bad":
            broken = {**one.delivery, "webhook": "http://a..b/"}
            registry.change_subscriptions([msgspec.structs.replace(one, delivery=broken)])
    registry.close()
    with served(tmp_path) as server, server.http() as http:
        http.post(MESSAGES, json=PRICE)
        until(lambda: sequences(got) == [1])
        bad = http.get("/api/channels/quotes/subscriptions/bad").json()
        assert "address of a webhook" in bad["problem"]
        assert bad["lag"] == 1  # nothing is given up
        assert http.get("/health").json()["deliveries_failing"] == 1
        assert "tamis_deliveries_failing 1" in http.get("/metrics").text
        assert any("bad is not" in text for text in http.get("/api/overview").json()["problems"])
        found = http.get("/api/subscriptions", params={"q": "state:problem"}).json()
        assert [one["name"] for one in found["subscriptions"]] == ["bad"]
        http.put("/api/channels/quotes/subscriptions/bad", json={"webhook": address})
        until(lambda: sequences(got) == [1, 1])
        assert "deliveries_failing" not in http.get("/health").json()


@pytest.mark.parametrize("way", ["websocket", "disconnect", "stomp"])
def test_what_a_session_takes_up_comes_back_when_it_leaves(tmp_path, receiver, way):
    address, got, _ = receiver
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put(ONE, json={"webhook": address})
        http.post(MESSAGES, json=PRICE)
        until(lambda: http.get(ONE).json()["cursor"] == 1)
        if way == "disconnect":
            assert http.post(f"{ONE}/disconnect").status_code == 200
        elif way == "websocket":
            with Agent(server.url) as agent:
                reader = agent.subscribe("quotes", durable="hook")
                http.post(MESSAGES, json=PRICE)
                assert next(iter(reader)).sequence == 2  # the session has it, the webhook rests
                assert sequences(got) == [1]
                assert http.put(ONE, json={"webhook": address}).status_code == 200
                assert not server.parts.deliveries.running
        else:
            with socket.create_connection(("127.0.0.1", server.stomp), 20) as peer:
                peer.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0SUBSCRIBE\nid:1\nreceipt:1\n"
                             b"destination:/quotes\ntamis-durable:hook\n\n\0")  # fmt: skip
                while b"RECEIPT" not in peer.recv(10_000):
                    pass
                assert not server.parts.deliveries.running
        http.post(MESSAGES, json=[PRICE] * 2)
        last = http.get("/api/channels/quotes").json()["readable"] - 1
        until(lambda: last in sequences(got))
        assert http.get(ONE).json()["problem"] == ""


def test_a_webhook_whose_mandatory_selector_has_no_meaning_waits_for_a_better_one(
    tmp_path, receiver
):
    address, got, _ = receiver
    registry = SqliteRegistry(tmp_path / "registry.db")
    registry.put_principal(Principal("boss", "main"))
    for verb in VERBS:
        registry.put_right(Right("boss", verb))
    headers = {"authorization": f"Bearer {new_token(registry, 'boss')}"}
    with served(tmp_path) as server, server.http(headers=headers) as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put(ONE, json={"webhook": address})
        registry.put_principal(Principal("boss", "main", selector="price <"))
        until(lambda: http.get(ONE).json()["problem"])
        http.post(MESSAGES, json=PRICE)
        registry.put_principal(Principal("boss", "main", selector="price < 5"))
        until(lambda: sequences(got) == [1])
        assert http.get(ONE).json()["problem"] == ""
    registry.close()


# --- answers of hostile hosts -----------------------------------------------------------


def answering(answer: bytes):
    """A host that answers with these bytes, over and over until the connection breaks."""
    listening = socket.create_server(("127.0.0.1", 0))

    def talk():
        with listening, contextlib.suppress(OSError):
            peer, _ = listening.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)
                while len(answer) > 64 << 10:
                    peer.sendall(answer[-(64 << 10) :])
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65536):  # closing with a part unread would reset the connection
                    pass

    thread = threading.Thread(target=talk)
    thread.start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}/", thread


@pytest.mark.parametrize(("answer", "expected"), [
    (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200),
    (b"HTTP/1.0 204 No Content\r\n\r\n", 204),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 OK\r\ncontent-length: 0\r\n\r\n", 202),
    (b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", 302),
    (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (1 << 20), 200),  # without an end
    (b"HTTP/1.1 100 Continue\r\n\r\n" * 5000, "too long"),
    (b"HTTP/1.1 200 OK\r\nx: " + b"x" * (1 << 20), "not HTTP|too long"),
    (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
    (b"", "not HTTP"),
])  # fmt: skip
def test_answers_are_bounded(answer, expected):
    address, thread = answering(answer)

    async def main():
        poster = posting.Poster()
        try:
            return await poster.post("a", posting.Address.parse(address), {}, b"{}")
        finally:
            poster.close()

    if isinstance(expected, int):
        assert asyncio.run(main()) == expected
    else:
        with pytest.raises(OSError, match=expected):
            asyncio.run(main())
    thread.join(20)
    assert not thread.is_alive()


def test_hosts_that_are_slow_or_not_there_are_given_up(monkeypatch, tarpit):
    monkeypatch.setattr(posting, "ANSWER_SECONDS", 0.05)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}/"

    async def main(address):
        poster = posting.Poster()
        try:
            await poster.post("a", posting.Address.parse(address), {}, b"{}")
        finally:
            poster.close()

    expected = {tarpit: r"no answer within 0\.05 s", closed: "Connect call failed",
                "http://nowhere.invalid/": "not known|resolution|address"}  # fmt: skip
    for address, problem in expected.items():
        with pytest.raises(OSError, match=problem):
            asyncio.run(main(address))


def test_a_name_that_is_looked_up_for_long_is_given_up(monkeypatch):
    """Also the name server may be the one who is slow."""
    end = threading.Event()
    monkeypatch.setattr(posting, "CONNECT_SECONDS", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: end.wait(20))

    async def main():
        poster = posting.Poster()
        try:
            with pytest.raises(OSError, match=r"no connection within 0\.05 s"):
                await poster.post("a", posting.Address.parse("http://h/"), {}, b"{}")
        finally:
            end.set()
            poster.close()

    asyncio.run(main())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_certificates_are_verified(tmp_path, monkeypatch):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key,
         "-out", certificate, "-subj", "/CN=x", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    answers = []

    async def talk(reader, writer):
        answers.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)
        port, poster = server.sockets[0].getsockname()[1], posting.Poster()
        try:
            for host in ("127.0.0.1", "localhost"):  # the certificate is for the second alone
                address = posting.Address.parse(f"https://{host}:{port}/x")
                try:
                    result = await poster.post("a", address, {}, b"{}")
                except OSError as error:
                    result = type(error)
                found.append(result)
        finally:
            poster.close()
            server.close()

    found = []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    posting._context.cache_clear()
    try:
        asyncio.run(main())
    finally:
        posting._context.cache_clear()
    assert found == [ssl.SSLCertVerificationError, 200]
    assert answers[0].startswith(b"POST /x HTTP/1.1\r\n")


def test_a_webhook_hears_what_is_lost(tmp_path, receiver):
    """Also if nothing comes after it."""
    address, got, _ = receiver
    one, path = "/api/channels/quotes/subscriptions/hook", "/api/channels/quotes/messages"
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        for _ in range(3):
            http.post(path, json=[{"attributes": {"price": 1.0}}] * 2)
        damage = "UPDATE block SET crc = crc + 1 WHERE first IN (3, 5)"
        server.parts.hub.log._writer.execute(damage)
        http.put(one, json={"webhook": address, "start": "all"})
        until(lambda: http.get(one).json()["cursor"] == 6)
    lost = [hole for _, body in got for hole in json.loads(body).get("lost", [])]
    assert [(hole["first"], hole["last"]) for hole in lost] == [(3, 4), (5, 6)]
    assert all("checksum is wrong" in hole["reason"] for hole in lost)
    assert sequences(got) == [1, 2]


ONE = "/api/channels/quotes/subscriptions/hook"
SECRET = "a secret that nobody finds"


def publish(http):
    response = http.post("/api/channels/quotes/messages", json={"attributes": {"price": 1.0}})
    assert response.status_code == 200


def check_signed(headers, body, secret=SECRET):
    expected = webhooks.signature(secret, headers["Tamis-Time"], body)
    assert headers["Tamis-Signature"] == f"sha256={expected}"


def files_with(text, directory):
    return [path.name for path in directory.rglob("*")
            if path.is_file() and text.encode() in path.read_bytes()]  # fmt: skip


@pytest.mark.parametrize("named", [False, True])
def test_secrets_are_encrypted_with_a_key_in_a_file_of_its_own(tmp_path, receiver, named):
    address, got, _ = receiver
    directory = tmp_path / "data"
    key = tmp_path / "elsewhere.key" if named else directory / "webhooks.key"
    settings = {"webhook_key": key} if named else {}
    with served(directory, **settings) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        assert http.put(ONE, json={"webhook": address}).status_code == 200
        assert not key.exists()  # no secret, no key
        for _ in range(2):
            assert http.put(ONE, json={"webhook": address, "secret": SECRET}).status_code == 200
        assert key.stat().st_mode & 0o777 == 0o600
        assert "sealed" not in http.get(ONE).text
    assert files_with(SECRET, tmp_path) == []
    with served(directory, **settings) as server, server.http() as http:
        publish(http)
        until(lambda: got)
        check_signed(*got[0])


def test_secrets_that_earlier_versions_stored_are_encrypted(tmp_path, receiver):
    address, got, _ = receiver
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put(ONE, json={"webhook": address})
    with SqliteRegistry(tmp_path / "registry.db") as registry:
        (stored,) = registry.subscriptions(1)
        for version in range(20):  # what was replaced may be left in free pages
            secret = f"{SECRET} {version}" if version < 19 else SECRET
            old = {"webhook": address, "secret": secret}
            registry.change_subscriptions([msgspec.structs.replace(stored, delivery=old)])
    assert files_with(SECRET, tmp_path) != []
    with served(tmp_path) as server, server.http() as http:
        assert files_with(SECRET, tmp_path) == []
        publish(http)
        until(lambda: got)
        check_signed(*got[0])
    assert files_with(SECRET, tmp_path) == []
    with served(tmp_path) as server, server.http() as http:  # checksums and marks are sound
        publish(http)
        until(lambda: len(got) == 2)
        check_signed(*got[1])


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("ab" * 64),
                                    lambda path: path.write_text("no key")])  # fmt: skip
def test_a_lost_key_stops_its_webhooks_alone_until_they_have_a_new_secret(
    tmp_path, receiver, damage
):
    address, got, _ = receiver
    key = tmp_path / "webhooks.key"
    with served(tmp_path) as server, server.http() as http:
        http.put("/api/channels/quotes", json=QUOTES)
        http.put(ONE, json={"webhook": address, "secret": SECRET})
    damage(key)
    with served(tmp_path) as server, server.http() as http:
        publish(http)
        assert str(key) in http.get(ONE).json()["problem"]
        if key.exists() and key.read_text() == "no key":
            found = http.put(ONE, json={"webhook": address, "secret": "new"})
            assert (found.status_code, str(key) in found.text) == (503, True)
            key.unlink()
        assert http.put(ONE, json={"webhook": address, "secret": "new"}).status_code == 200
        until(lambda: got)
        check_signed(*got[0], "new")
        assert sequences(got) == [1]
