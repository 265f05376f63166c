"""kill -9 under load: nothing that was acknowledged is lost, nothing comes twice by sequence."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from server.servers import QUOTES
from tamis.client import Agent

pytestmark = pytest.mark.slow

MAIN = "import sys; from tamis.cli import main; sys.exit(main())"
KILLS = int(os.environ.get("TAMIS_KILLS", "10"))


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(directory, port):
    command = [sys.executable, "-c", MAIN, "serve", directory, "--http", f"127.0.0.1:{port}"]
    with (directory / "errors").open("ab") as errors:
        return subprocess.Popen(command, stderr=errors)


def wait_for(port, process, seconds=300):
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=1).json()
        except httpx.TransportError:
            time.sleep(0.02)
    raise AssertionError(f"the server did not come back: it returned {process.poll()}")


@pytest.fixture
def running(tmp_path):
    port = free_port()
    box = {"process": start(tmp_path, port)}
    try:
        wait_for(port, box["process"])
        yield tmp_path, port, box
    finally:
        box["process"].kill()
        box["process"].wait()


def test_kill_9_under_load_loses_and_doubles_nothing(running):
    directory, port, box = running
    url = f"http://127.0.0.1:{port}"
    acknowledged, seen, ending = [], [], threading.Event()
    with Agent(url) as writer, Agent(url) as reader:
        writer.put_channel("quotes", QUOTES)
        messages = reader.subscribe("quotes", "price >= 0",
                                    durable="mine")  # fmt: skip

        def publish():
            number = 0
            while not ending.is_set():
                many = [{"attributes": {"volume": number + i, "price": 1.0}} for i in range(10)]
                writer.publish_many("quotes", many)
                acknowledged.extend(range(number, number + 10))
                number += 10

        def receive():
            while threads[0].is_alive() or len(seen) < len(acknowledged):
                try:
                    message = messages.get(1)
                except TimeoutError:
                    continue
                seen.append((message.sequence, message.attributes["volume"]))
                messages.acknowledge(message)

        threads = [threading.Thread(target=f, daemon=True) for f in (publish, receive)]
        for thread in threads:
            thread.start()
        chance, slowest = random.Random(5), 0.0
        for _ in range(KILLS):
            enough, end = len(acknowledged) + 20, time.monotonic() + 300
            while len(acknowledged) < enough and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(chance.random() / 5)
            os.kill(box["process"].pid, signal.SIGKILL)
            box["process"].wait()
            begin = time.monotonic()
            box["process"] = start(directory, port)
            wait_for(port, box["process"])
            slowest = max(slowest, time.monotonic() - begin)
        time.sleep(1)
        ending.set()
        for thread in threads:
            thread.join(60)
            told = (directory / "errors").read_text()[-2000:]
            state = f"{len(seen)} seen of {len(acknowledged)}; the server said: {told}"
            assert not thread.is_alive(), state
    print(f"{KILLS} kills, {len(acknowledged)} acknowledged, back in {slowest:.1f} s")
    sequences = [sequence for sequence, _ in seen]
    assert sequences == sorted(set(sequences)), "twice, or out of order"
    assert [volume for _, volume in seen] == list(range(len(seen))), "lost, or stored twice"
    assert set(acknowledged) <= {volume for _, volume in seen}
    assert len(acknowledged) > 50


def test_messages_that_were_acknowledged_do_not_fill_the_window_again(running):
    """Cursors are written five times a second: a broker that is killed may send messages again
    that the program has done with. Before, the agent dropped them and the broker waited."""
    directory, port, box = running
    with Agent(f"http://127.0.0.1:{port}") as agent:
        agent.put_channel("quotes", QUOTES)
        messages = agent.subscribe("quotes", durable="mine", window=2)
        for turn in range(4):
            agent.publish_many("quotes", [{"attributes": {"volume": turn}}] * 3)
            for _ in range(3):
                message = messages.get(30)
                assert message.attributes == {"volume": turn}
                messages.acknowledge(message)
            box["process"].kill()
            box["process"].wait()
            box["process"] = start(directory, port)
            wait_for(port, box["process"])


def test_it_stops_cleanly_when_asked_to(running):
    _, port, box = running
    with Agent(f"http://127.0.0.1:{port}") as agent:
        agent.put_channel("quotes", QUOTES)
        agent.subscribe("quotes")  # an open stream does not keep it
        box["process"].send_signal(signal.SIGTERM)
        assert box["process"].wait(15) == 0


ASKED_EARLY = """
import os, signal
from tamis.server.assembly.parts import Parts

load = Parts.start

def start(parts):
    load(parts)
    os.kill(os.getpid(), signal.SIGTERM)

Parts.start = start
"""


def test_it_stops_cleanly_when_asked_to_before_it_listens(tmp_path):
    """Else it would end without saving what it compiled, and the next start would be slow, too."""
    command = [sys.executable, "-c", ASKED_EARLY + MAIN, "serve", tmp_path, "--http", "127.0.0.1:0"]
    done = subprocess.run(command, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr.count(b"stopped")) == (0, 1)
