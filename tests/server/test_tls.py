"""TLS on HTTP, STOMP and packets, with a certificate that is made for the test."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess

import httpx
import pytest

from server.servers import served


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_every_protocol_is_encrypted(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key,
         "-out", certificate, "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1,DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    with served(tmp_path / "data", certificate=certificate, key=key) as server:
        url = server.url.replace("http://", "https://")
        context = ssl.create_default_context(cafile=certificate)
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
