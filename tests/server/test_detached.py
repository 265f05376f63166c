"""Brokers in the background, and the README's commands as they are pasted into a shell."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tamis.server.detaching import announce

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MESSAGE = '{"sequence": 1, "subject": "quotes", "attributes": {"symbol": "IBM", "price": 95.0}}'


@pytest.fixture
def shell(tmp_path):
    """Run commands of a shell in an empty folder, with a port of their own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TAMIS_HTTP": f"127.0.0.1:{port}",
                   "TAMIS_SERVER": f"http://127.0.0.1:{port}"}  # fmt: skip

    def run(text):
        output = tmp_path / "output"  # a job in the background keeps it open
        with output.open("wb") as file:
            code = subprocess.run(["bash", "-c", text], cwd=tmp_path, env=environment, stdout=file,
                                  stderr=file, check=False, timeout=120).returncode  # fmt: skip
        return code, output

    run.url = environment["TAMIS_SERVER"]
    yield run
    with contextlib.suppress(subprocess.SubprocessError):
        run("tamis stop ./data")


def block_of_the_readme():
    text = (ROOT / "README.md").read_text()
    (found,) = re.findall(r"^```\n(tamis serve .*?)^```", text, re.M | re.S)
    return found


def test_the_commands_of_the_readme_as_they_are(shell, tmp_path):
    code, output = shell(block_of_the_readme() + '\necho "$!" > subscriber')
    end = time.monotonic() + 60
    while MESSAGE not in output.read_text() and time.monotonic() < end:
        time.sleep(0.1)
    os.kill(int((tmp_path / "subscriber").read_text()), signal.SIGTERM)
    assert code == 0, output.read_text()
    lines = output.read_text().splitlines()
    assert MESSAGE in lines
    assert MESSAGE in (ROOT / "README.md").read_text()
    assert "1 message published" in lines
    code, output = shell("tamis stop ./data && tamis stop ./data")
    assert (code, "data: no broker runs here" in output.read_text()) == (2, True)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{shell.url}/health")


def test_a_broker_that_cannot_start_says_so(shell, tmp_path):
    (tmp_path / "data").touch()
    code, output = shell("tamis serve ./data --detach")
    assert (code, "data: File exists" in output.read_text()) == (2, True)
    code, output = shell("tamis serve ./other --detach --http 127.0.0.1:1 --key none")
    assert (code, "key none has no certificate" in output.read_text()) == (2, True)
    code, output = shell("tamis stop ./nowhere")
    assert (code, "no broker was ever run here" in output.read_text()) == (2, True)


def test_a_service_manager_learns_when_the_broker_listens(tmp_path, monkeypatch):
    announce("no one asked")
    for name, address in ((str(tmp_path / "s"), str(tmp_path / "s")), ("@tamis-t", "\0tamis-t")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            monkeypatch.setenv("NOTIFY_SOCKET", name)
            announce("listening on http://127.0.0.1:8216")
            assert manager.recv(1000) == b"READY=1\nSTATUS=listening on http://127.0.0.1:8216\n"
    announce("gone meanwhile")


def test_a_token_is_not_among_the_arguments_of_the_process(shell):
    parent = "--parent http://127.0.0.1:1 --parent-token=-very-secret"
    code, output = shell(f"tamis serve ./data --detach --name low --connections 77 {parent}")
    assert code == 0, output.read_text()
    (number,) = re.findall(r"\(process (\d+)\)", output.read_text())
    process = Path("/proc") / number
    if not process.exists():
        pytest.skip("this system has no /proc")
    arguments = (process / "cmdline").read_text().split("\0")
    assert {"--name=low", "--connections=77", "--parent=http://127.0.0.1:1"} <= set(arguments)
    assert not [one for one in arguments if "secret" in one or one.startswith("--parent-token")]
    assert "TAMIS_PARENT_TOKEN=-very-secret" in (process / "environ").read_text().split("\0")
