"""Who may see pages and send their forms: logging in and out, and what other sites may do."""

from __future__ import annotations

import socket
import time

import pytest
import websockets.sync.client as ws
from websockets.exceptions import ConnectionClosed, InvalidStatus

from server.pages.browsing import log_in, sent, token_of
from server.servers import served
from tamis.registry import Principal, Right, SqliteRegistry
from tamis.server.access import hashed, new_token
from tamis.server.pages import sessions

HASH = hashed("pass")


@pytest.fixture(scope="module")
def tokens():
    return {}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, tokens):
    directory = tmp_path_factory.mktemp("guarded")
    registry = SqliteRegistry(directory / "registry.db")
    for name in ("boss", "alice"):
        registry.put_principal(Principal(name, "main", HASH))
        registry.put_right(Right(name, "manage" if name == "boss" else "subscribe"))
        tokens[name] = new_token(registry, name)
    registry.close()
    with served(directory, origins=("https://app.example",)) as found:
        yield found


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory):
    with served(tmp_path_factory.mktemp("open")) as found:
        yield found


def cookie(answer):
    return answer.headers["set-cookie"]


def test_strangers_are_led_to_the_login_and_back(guarded):
    with guarded.http() as http:
        found = http.get("/?x=1")
        assert (found.status_code, found.headers["location"]) == (303, "/login?next=%2F%3Fx%3D1")
        made = log_in(http, "alice", "pass", next="/?x=1")
        assert (made.status_code, made.headers["location"]) == (303, "/?x=1")
        assert "HttpOnly" in cookie(made)
        assert "SameSite=strict" in cookie(made)
        assert "alice" in http.get("/").text


@pytest.mark.parametrize("secret", ["alice", "boss"])
def test_a_token_opens_a_session_too(guarded, tokens, secret):
    with guarded.http() as http:
        assert log_in(http, secret=tokens[secret]).status_code == 303
        assert tokens[secret] not in str(http.cookies)
        assert secret in http.get("/").text


@pytest.mark.parametrize(
    "wrong", [("alice", "wrong", ""), ("nobody", "pass", ""), ("", "", "x"), ("", "", "")]
)
def test_wrong_passwords_open_nothing(guarded, wrong):
    with guarded.http() as http:
        found = log_in(http, *wrong)
        assert (found.status_code, "set-cookie" in found.headers) == (401, False)
        assert "not a name with its password" in found.text


@pytest.mark.parametrize("place", ["//evil.example", "https://evil.example", "/\\evil.example", ""])
def test_the_login_leads_to_no_other_site(guarded, place):
    with guarded.http() as http:
        assert log_in(http, "alice", "pass", next=place).headers["location"] == "/"
        page = http.get("/login", params={"next": place}).text
        assert '<input type="hidden" name="next" value="/">' in page


def test_a_session_that_was_planted_is_not_the_one_that_logs_in(guarded):
    with guarded.http() as http:
        name = f"tamis-{guarded.found.http}"
        http.cookies.set(name, "planted", domain="127.0.0.1")
        made = log_in(http, "alice", "pass")
        assert "planted" not in cookie(made)
        first = cookie(made).split(";")[0].partition("=")[2]
        second = cookie(log_in(http, "boss", "pass")).split(";")[0].partition("=")[2]
        assert first != second
    with guarded.http(cookies={name: first}) as other:  # who logs in anew leaves the old session
        assert other.get("/").status_code == 303


def test_a_session_ends_by_logging_out_and_its_socket_with_it(guarded):
    with guarded.http() as http:
        log_in(http, "alice", "pass")
        kept = dict(http.cookies)
        with live(guarded, kept) as talk:
            assert "running" in http.get("/").text
            assert sent(http, "/logout", "/").headers["location"] == "/login"
            with pytest.raises(ConnectionClosed):
                drain(talk)
    with guarded.http(cookies=kept) as http:
        assert http.get("/").headers["location"] == "/login"


def drain(talk):
    while True:
        talk.recv(timeout=5)


def test_a_socket_ends_with_its_principal_and_leaves_no_line_in_the_log(guarded, tokens, caplog):
    boss = {"authorization": f"Bearer {tokens['boss']}"}
    with guarded.http() as http, guarded.http(headers=boss) as api:
        api.put("/api/channels/quotes", json={})
        api.put("/api/principals/dave", json={"password": "one"})
        api.post("/api/principals/dave/rights", json={"verb": "subscribe"})
        log_in(http, "dave", "one")
        with live(guarded, dict(http.cookies)) as talk:
            for wrong in ("7", "{", '{"channel": "none"}',
                          '{"channel": "quotes", "selector": "a <"}',
                          '{"channel": "quotes", "after": -1}'):  # fmt: skip
                talk.send(wrong)
                assert '"type":"error"' in until_no_state(talk)
            talk.send('{"channel": "quotes", "selector": "a < 3", "number": 5}')
            assert until_no_state(talk) == '{"type":"watching","number":5}'
            api.delete("/api/principals/dave")
            with pytest.raises(ConnectionClosed):
                drain(talk)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


def until_no_state(talk):
    while '"type":"state"' in (found := talk.recv(timeout=5)):
        pass
    return found


def live(server, cookies, origin=None):
    headers = {"cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())} if cookies else {}
    address = server.url.replace("http", "ws") + "/live"
    return ws.connect(address, additional_headers=headers, origin=origin or server.url)


def test_sessions_end_with_time(guarded, monkeypatch):
    with guarded.http() as http:
        log_in(http, "alice", "pass")
        assert http.get("/").status_code == 200
        with monkeypatch.context() as patched:
            patched.setattr(sessions, "IDLE", -1)
            assert http.get("/").status_code == 303
        assert http.get("/").status_code == 303  # and do not come back


def test_a_session_ends_with_the_password_or_token_that_opened_it(guarded, tokens):
    boss = {"authorization": f"Bearer {tokens['boss']}"}
    with guarded.http() as by_token, guarded.http() as by_password, guarded.http() as api:
        made = api.put("/api/principals/carol", json={"password": "one"}, headers=boss)
        assert made.status_code < 300
        api.post("/api/principals/carol/rights", json={"verb": "subscribe"}, headers=boss)
        token = api.post("/api/principals/carol/tokens", json={}, headers=boss).json()["token"]
        assert log_in(by_token, secret=token).status_code == 303
        assert log_in(by_password, "carol", "one").status_code == 303
        found = api.get("/api/principals/carol/tokens", headers=boss).json()["tokens"]
        api.delete(f"/api/principals/carol/tokens/{found[0]['id']}", headers=boss)
        assert by_token.get("/").status_code == 303
        assert by_password.get("/").status_code == 200
        api.put("/api/principals/carol", json={"password": "two"}, headers=boss)
        assert by_password.get("/").status_code == 303


@pytest.mark.parametrize("forged", ["", "0" * 64, "other"])
def test_forged_forms_do_nothing(guarded, forged):
    with guarded.http() as http, guarded.http() as other:
        log_in(http, "alice", "pass")
        log_in(other, "boss", "pass")
        token = token_of(other.get("/").text) if forged == "other" else forged
        found = http.post("/logout", data={"csrf": token}, headers={"origin": guarded.url})
        assert (found.status_code, "too old" in found.text) == (403, True)
        assert http.get("/").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://localhost:3000"},
     {"origin": "https://app.example"}, {"sec-fetch-site": "cross-site"}],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["guarded", "unguarded"])
def test_pages_of_other_sites_send_no_form_and_open_no_socket(kind, headers, request):
    """Even with the token of a form. Programs of allowed origins use /api."""
    server = request.getfixturevalue(kind)
    with server.http() as http:
        if kind == "guarded":
            log_in(http, "alice", "pass")
        form = {"csrf": token_of(http.get("/").text), "theme": "dark"}
        assert http.post("/theme", data=form, headers=headers).status_code == 403
        if "origin" in headers:
            with pytest.raises(InvalidStatus, match="403"):
                live(server, dict(http.cookies), headers["origin"])
        assert http.post("/theme", data=form).status_code == 303


def test_a_socket_needs_an_origin_and_a_session(guarded, unguarded):
    address = guarded.url.replace("http", "ws") + "/live"
    with pytest.raises(InvalidStatus, match="403"):
        ws.connect(address)
    with pytest.raises(InvalidStatus, match="401"):
        live(guarded, {})
    with live(unguarded, {}) as talk:
        assert '"type":"state"' in talk.recv(timeout=5)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8216", "["])
def test_a_name_that_was_pointed_at_this_machine_shows_nothing(unguarded, host):
    with socket.create_connection(("127.0.0.1", unguarded.found.http), 20) as peer:
        peer.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while data := peer.recv(65536):
            answer += data
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"Overview</h1>" not in answer


def test_every_page_has_a_strict_policy_and_stays_out_of_frames_and_caches(unguarded):
    with unguarded.http() as http:
        for path in ("/", "/login"):
            found = http.get(path, follow_redirects=True)
            policy = found.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert found.headers["x-frame-options"] == "DENY"
            assert found.headers["cache-control"] == "no-store"
            assert "://" not in found.text  # nothing comes from another host


def test_built_files_never_change_under_their_names(unguarded):
    with unguarded.http() as http:
        page = http.get("/").text
        names = {part.split('"')[0] for part in page.split("/static/")[1:]}
        assert len(names) == 3
        for name in names:
            found = http.get(f"/static/{name}")
            assert found.status_code == 200
            assert "immutable" in found.headers["cache-control"]
        for name in ("NOTICES.txt", "style.css", "../site.py", "%2e%2e%2fsite.py"):
            assert http.get(f"/static/{name}").status_code == 404


def test_light_and_dark_are_kept_in_a_cookie(unguarded):
    with unguarded.http() as http:
        assert "data-theme" not in http.get("/").text.split(">")[1]
        for theme in ("dark", "light"):
            assert sent(http, "/theme", "/", theme=theme, next="/").headers["location"] == "/"
            assert f'<html lang="en" data-theme="{theme}">' in http.get("/").text
        sent(http, "/theme", "/", theme='"><script>')
        assert '<html lang="en">' in http.get("/").text


def test_sessions_of_one_principal_are_bounded(guarded, monkeypatch):
    monkeypatch.setattr(sessions, "EACH", 2)
    begun = time.monotonic()
    kept = []
    for _ in range(3):
        with guarded.http() as http:
            log_in(http, "boss", "pass")
            kept.append(dict(http.cookies))
    codes = []
    for cookies in kept:
        with guarded.http(cookies=cookies) as http:
            codes.append(http.get("/").status_code)
    assert codes == [303, 200, 200]
    assert time.monotonic() - begun < 30


def test_programs_are_served_as_before(guarded):
    with guarded.http() as http:
        assert http.get("/nothing").json()["error"].startswith("there is no path /nothing")
        assert http.post("/").status_code == 405
        log_in(http, "boss", "pass")
        assert http.get("/api/channels").status_code == 401  # cookies are for pages
