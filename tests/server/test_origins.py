"""What pages of other sites may do with what a browser sends by itself."""

from __future__ import annotations

import base64
import socket

import pytest

from server.servers import served
from tamis.errors import InputError
from tamis.registry import Principal, Right, SqliteRegistry
from tamis.server.access import hashed, new_token
from tamis.server.web.origins import Origins

ALLOWED = "https://app.example"
UPGRADE = [
    "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version: 13",
]  # fmt: skip


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory):
    with served(tmp_path_factory.mktemp("open"), origins=(ALLOWED,)) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """With credentials that a browser remembers, and those that only programs send."""
    directory = tmp_path_factory.mktemp("guarded")
    registry = SqliteRegistry(directory / "registry.db")
    registry.put_principal(Principal("boss", "main", hashed("pass")))
    registry.put_right(Right("boss", "manage"))
    basic = "Basic " + base64.b64encode(b"boss:pass").decode()
    bearer = f"Bearer {new_token(registry, 'boss')}"
    registry.close()
    with served(directory, origins=(ALLOWED,)) as found:
        yield found, basic, bearer


def answers(server, host="", origin=None, credentials=None):
    """The codes of a write and of a WebSocket."""
    more = [f"Host: {host or f'127.0.0.1:{server.found.http}'}"]
    more += [] if origin is None else [f"Origin: {origin}"]
    more += [] if credentials is None else [f"Authorization: {credentials}"]
    write = ["PUT /api/channels/q HTTP/1.1", *more, "Content-Length: 2", "", "{}"]
    talk = ["GET /ws HTTP/1.1", *UPGRADE, *more, "", ""]
    return code(server, write), code(server, talk)


def code(server, lines):
    with socket.create_connection(("127.0.0.1", server.found.http), 20) as peer:
        peer.sendall("\r\n".join(lines).encode())
        found = int(peer.recv(4096).split()[1])
    return 200 if found in (101, 201) else found


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8216", "[::1]:99", "LOCALHOST"])
@pytest.mark.parametrize("origin", [None, "http://localhost:3000", "http://[::1]", ALLOWED])
def test_this_machine_may_do_all_while_nobody_is_registered(unguarded, host, origin):
    assert answers(unguarded, host, origin) == (200, 200)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("", "http://evil.example"),
        ("", "null"),
        ("", "http://["),
        ("", "http://127.0.0.1.evil.example"),
        ("", "http://127.0.0.1:99999"),
        ("", "file://localhost"),
        ("", ""),
        ("", "http://app.example"),  # not https
        ("", "https://app.example:444"),
        ("evil.example", None),
        ("evil.example", "http://evil.example"),  # its name was pointed at this machine
        ("[", None),
        ("127.0.0.1:x", None),
    ],
)
def test_other_sites_may_do_nothing_while_nobody_is_registered(unguarded, host, origin):
    assert answers(unguarded, host, origin) == (403, 403)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000"])
def test_other_sites_cannot_use_a_remembered_password(guarded, origin):
    server, basic, bearer = guarded
    assert answers(server, origin=origin, credentials=basic) == (403, 403)
    assert answers(server, origin=origin, credentials=bearer) == (200, 200)


def test_who_is_refused_leaves_no_line_in_the_log(guarded, caplog):
    server, basic, _ = guarded
    for credentials in (None, "Bearer wrong", basic):
        assert answers(server, "", "http://evil.example", credentials)[1] in (401, 403)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("broker.example", None),
        ("broker.example", "https://broker.example"),
        ("Broker.example:443", "https://broker.example"),
        ("broker.example:8216", "http://broker.example:8216"),
        ("broker.example", ALLOWED),
        ("", "https://APP.example:443"),
    ],
)
def test_own_pages_and_allowed_ones_may_use_a_password(guarded, host, origin):
    server, basic, _ = guarded
    assert answers(server, host, origin, basic) == (200, 200)


@pytest.mark.parametrize("text", ["", "app.example", "ftp://x", "https://", "https://x/y", "*"])
def test_what_is_not_an_origin(text):
    with pytest.raises(InputError, match="is not an origin: write https://HOST"):
        Origins([text])
