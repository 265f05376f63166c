"""TLS on HTTP, STOMP and packets, and for agents and commands, with certificates of the test."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess

import httpx
import pytest

from server.servers import QUOTES, served
from tamis.cli import main
from tamis.client import Agent
from tamis.client.mirror import Mirror
from tamis.errors import InputError, UnreachableError
from tamis.server.process.serve import Address, Settings
from tamis.server.sockets.limits import SocketLimits

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl makes the certificate"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A certificate for localhost, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key,
         "-out", certificate, "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1,DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture(scope="module")
def server(files, tmp_path_factory):
    certificate, key = files
    with served(tmp_path_factory.mktemp("data"), certificate=certificate, key=key) as found:
        yield found


@pytest.fixture
def url(server):
    return server.url.replace("http://", "https://")


def test_every_protocol_is_encrypted(server, url, files):
    context = ssl.create_default_context(cafile=files[0])
    assert httpx.get(f"{url}/health", verify=context).json()["status"] == "ok"
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{server.url}/health")
    with (
        socket.create_connection(("127.0.0.1", server.stomp), 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as peer,
    ):
        peer.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        assert peer.recv(1000).startswith(b"CONNECTED")
    with (
        socket.create_connection(("127.0.0.1", server.packets), 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as peer,
    ):
        peer.sendall(struct.pack(">6I4H", 32, 0, 0, 0, 7, 2, 0, 12, 0, 0))  # no such command
        assert b"is no command" in peer.recv(1000)


def test_an_agent_with_the_authority_of_the_broker(url, files, tmp_path):
    with Agent(url, ca=files[0]) as agent:
        agent.put_channel("quotes", QUOTES)
        messages = agent.subscribe("quotes", "price < 10")
        agent.publish("quotes", {"price": 5.0})
        assert messages.get(20).attributes["price"] == 5.0
    assert Mirror(tmp_path / "table", "quotes", server=url, ca=files[0]).update() >= 0


def test_commands_with_the_authority_of_the_broker(url, files, tmp_path, monkeypatch, capfd):
    where = ("--server", url, "--ca", str(files[0]))
    assert main(["channel", "create", "orders", "price:double", *where]) == 0
    lines = tmp_path / "m.jsonl"
    lines.write_text('{"price": 5.0}\n')
    assert main(["publish", "orders", str(lines), *where]) == 0
    monkeypatch.setenv("TAMIS_SERVER", url)
    monkeypatch.setenv("TAMIS_CA", str(files[0]))
    capfd.readouterr()
    assert main(["subscribe", "orders", "--from", "all", "--count", "1"]) == 0
    assert '"price": 5.0' in capfd.readouterr().out


def test_an_unknown_authority_says_what_to_do(url, server):
    with Agent(url) as agent:
        for call in (lambda: agent.channels(), lambda: agent.publish("quotes", {})):
            with pytest.raises(UnreachableError, match=r"(?s)certificate verify failed.*--ca FILE"):
                call()
    with Agent(server.url) as agent:  # http against https
        for call in (lambda: agent.channels(), lambda: agent.publish("quotes", {})):
            with pytest.raises(UnreachableError, match=f"should it be {url}"):
                call()


def test_a_file_that_is_not_an_authority(tmp_path, files):
    with pytest.raises(InputError, match=r"nope\.pem: No such file"):
        Agent("https://127.0.0.1:1", ca=tmp_path / "nope.pem")
    with pytest.raises(InputError, match=r"key\.pem holds no certificate"):
        Agent("https://127.0.0.1:1", ca=files[1])


def test_bad_certificates_and_keys_are_named(tmp_path, files):
    certificate, key = files
    empty, other, locked = (tmp_path / name for name in ("empty.pem", "other.pem", "locked.pem"))
    empty.touch()
    subprocess.run(["openssl", "genrsa", "-out", other, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:x", "-out", locked],
                   check=True, capture_output=True)  # fmt: skip
    for given, words in (
        ((None, key), "key .*key.pem has no certificate: add --certificate"),
        ((tmp_path / "nope.pem", key), "nope.pem: No such file"),
        ((certificate, tmp_path / "nope.pem"), "nope.pem: No such file"),
        ((empty, key), "empty.pem holds no certificate"),
        ((certificate, empty), "empty.pem holds no private key"),
        ((certificate, other), "other.pem is not the key of certificate .*cert.pem"),
        ((certificate, locked), "locked.pem is encrypted"),
        ((certificate, None), "cert.pem holds no private key"),
        ((tmp_path, key), "Is a directory"),
    ):
        settings = Settings(tmp_path / "d", Address("127.0.0.1", 0), None, None, *given)
        with pytest.raises(InputError, match=words):
            settings.context()


def test_serve_names_a_key_without_a_certificate_and_a_folder_that_cannot_be(tmp_path, capfd):
    key, file = tmp_path / "k.pem", tmp_path / "file"
    key.touch()
    file.touch()
    http = ("--http", "127.0.0.1:0")
    assert main(["serve", str(tmp_path / "d"), "--key", str(key), *http]) == 2
    assert "add --certificate FILE" in capfd.readouterr().err
    for folder in (file, file / "below"):
        assert main(["serve", str(folder), *http]) == 2
        assert f"{folder}: " in capfd.readouterr().err


@pytest.mark.parametrize("said", [b"", b"hello, is this TLS?" * 10])
def test_who_does_not_speak_tls_is_disconnected(tmp_path, files, said):
    limits = SocketLimits(greeting=0.3)
    with served(tmp_path / "data", sockets=limits, certificate=files[0], key=files[1]) as server:
        for port in (server.found.http, server.stomp, server.packets):
            with socket.create_connection(("127.0.0.1", port), 10) as peer:
                peer.sendall(said)
                assert ended(peer)
        context = ssl.create_default_context(cafile=files[0])
        url = server.url.replace("http://", "https://")
        assert httpx.get(f"{url}/health", verify=context).json()["status"] == "ok"
        assert server.parts.gate.late == 3


def ended(peer):
    """Whether the server ends the connection; it may say why before."""
    try:
        while peer.recv(1000):
            pass
    except ConnectionError:
        pass
    return True
