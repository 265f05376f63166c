"""STOMP frames by hand: what clients of libraries do not send."""

from __future__ import annotations

import socket

import pytest

from server.servers import QUOTES, served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("broker")) as found:
        with found.http() as http:
            http.put("/api/channels/quotes", json=QUOTES)
        yield found


def frame(command, body="", **headers):
    lines = [command, *(f"{name.replace('_', '-')}:{value}" for name, value in headers.items())]
    return ("\n".join(lines) + f"\n\n{body}\0").encode()


def answers(server, *frames):
    """All that the server says until it ends, after these frames and DISCONNECT."""
    with socket.create_connection(("127.0.0.1", server.stomp), 20) as peer:
        peer.sendall(b"".join(frames) + frame("DISCONNECT"))
        found = b""
        while data := peer.recv(65536):
            found += data
    return [one.strip("\n").split("\n") for one in found.decode().split("\0") if one.strip("\n")]


def commands(server, *frames):
    return [one[0] for one in answers(server, *frames)]


CONNECT = frame("CONNECT", accept_version="1.2", host="x")


def test_a_second_connect_is_refused_and_leaves_no_session(server):
    for _ in range(5):
        first, second = answers(server, CONNECT, CONNECT, CONNECT)
        assert (first[0], second[0]) == ("CONNECTED", "ERROR")
        assert "open another one" in second[1]
    assert not server.parts.hub.broker.sessions


@pytest.mark.parametrize(
    "beat",
    [
        "²,1",
        "1,²",
        "-1,0",
        "0,-5",
        "1",
        "1,2,3",
        "",
        "a,b",
        "0,2147483648",
        "9" * 17 + ",0",
        "1.5,2",
    ],
)
def test_heart_beats_that_are_not_two_numbers(server, beat):
    said = frame("CONNECT", accept_version="1.2", heart_beat=beat)
    assert commands(server, said) == ["ERROR"]


@pytest.mark.parametrize("beat", ["0,0", "0,10000", "2147483647,2147483647", "10000, 10000"])
def test_heart_beats_that_are(server, beat):
    said = frame("CONNECT", accept_version="1.2", heart_beat=beat)
    assert commands(server, said) == ["CONNECTED"]


@pytest.mark.parametrize(
    ("asked", "version"),
    [("1.0, 1.1, 1.2", "1.2"), ("1.1 ,1.0", "1.1"), (" 1.2", "1.2"), ("1.0,2.0", None)],
)
def test_versions_may_have_blanks(server, asked, version):
    (answer,) = answers(server, frame("CONNECT", accept_version=asked))
    if version is None:
        assert answer[0] == "ERROR"
    else:
        assert f"version:{version}" in answer


@pytest.mark.parametrize("start", ["²", "9" * 30, "-1", "1.5", ""])
def test_places_to_start_that_are_none(server, start):
    wish = frame("SUBSCRIBE", id=1, destination="/quotes", tamis_start=start)
    assert commands(server, CONNECT, wish) == ["CONNECTED", "ERROR"]


def test_nothing_before_connect(server):
    wish = frame("SUBSCRIBE", id=1, destination="/quotes")
    assert commands(server, wish, CONNECT) == ["ERROR"]
