"""Agents that know several routers, and logs that are not the ones that they knew."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from contextlib import contextmanager

from server.servers import QUOTES, served
from tamis.client import Agent
from tamis.server.process.serve import Address


class Wire:
    """A way to a server that can be cut without a word: nothing passes, nothing is closed."""

    def __init__(self, port):
        self.target, self.cut, self.ending = port, False, threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self):
        self.listening.settimeout(0.1)
        while not self.ending.is_set():
            try:
                near, _ = self.listening.accept()
            except TimeoutError:
                continue
            far = socket.create_connection(("127.0.0.1", self.target))
            for a, b in ((near, far), (far, near)):
                thread = threading.Thread(target=self.pass_on, args=(a, b), daemon=True)
                thread.start()
                self.threads.append(thread)

    def pass_on(self, a, b):
        a.settimeout(0.1)
        with a:
            while not self.ending.is_set():
                try:
                    data = a.recv(65536)
                except TimeoutError:
                    continue
                except OSError:
                    break
                if self.cut:
                    continue
                if not data:
                    break
                b.sendall(data)


@contextmanager
def wire(port):
    made = Wire(port)
    try:
        yield made
    finally:
        made.ending.set()
        for thread in made.threads:
            thread.join(5)
        made.listening.close()


def test_a_silent_router_is_noticed_and_the_next_one_taken(tmp_path):
    with served(tmp_path) as server, wire(server.found.http) as first, Agent(server.url) as writer:
        writer.put_channel("quotes", QUOTES)
        with Agent([f"http://127.0.0.1:{first.port}", server.url]) as agent:
            mine = agent.subscribe("quotes", "price > 0", durable="mine")
            writer.publish("quotes", {"price": 1.0})
            mine.acknowledge(mine.get(5))
            first.cut = True
            begun = time.monotonic()
            writer.publish("quotes", {"price": 2.0})
            message = mine.get(10)
            assert (message.sequence, message.attributes["price"]) == (2, 2.0)
            assert time.monotonic() - begun < 5
            assert any("no answer" in told for _, told in agent.history)
            assert agent.history[-1][1] == f"{server.url}: connected"


def test_an_address_where_nobody_listens_is_passed_over(tmp_path):
    with served(tmp_path) as server, Agent(server.url) as writer:
        writer.put_channel("quotes", QUOTES)
        with Agent(["http://127.0.0.1:1", server.url]) as agent:
            assert agent.publish("quotes", {"price": 1.0}) == 1


def test_messages_say_who_published_them(tmp_path):
    with served(tmp_path) as server, Agent(server.url, publisher="me", origin=True) as agent:
        agent.put_channel("quotes", QUOTES)
        plain = agent.subscribe("quotes", "")
        agent.publish_many("quotes", [{"attributes": {"price": 1.0}, "sequence": 7}], publisher="x")
        message = plain.get(5)
        assert message.publisher.endswith("/x")
        assert message.number == 7


def test_a_directory_that_was_restored_is_reported_and_nothing_new_is_skipped(tmp_path):
    home, backup = tmp_path / "home", tmp_path / "backup"
    with served(home) as server, Agent(server.url) as agent:
        agent.put_channel("quotes", QUOTES)
        agent.publish("quotes", {"price": 1.0})
        port = server.found.http
    shutil.copytree(home, backup)
    with served(home, http=Address("127.0.0.1", port)) as server, Agent(server.url) as writer:
        agent = Agent(server.url)
        mine = agent.subscribe("quotes", "", durable="mine", start="all")
        writer.publish_many("quotes", [{"attributes": {"price": 2.0}}] * 5)
        for _ in range(6):
            mine.acknowledge(mine.get(5))
    with agent, served(backup, http=Address("127.0.0.1", port)), Agent(server.url) as writer:
        writer.publish_many("quotes", [{"attributes": {"price": 3.0}}] * 8)
        found = [mine.get(10) for _ in range(9)]
        assert [one.sequence for one in found] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
        assert {one.attributes["price"] for one in found[1:]} == {3.0}
        (lost,) = mine.lost  # it holds no epoch of the restored log: all may be other messages
        assert (lost.first, lost.last) == (1, 6)
        assert "restored" in lost.reason


def test_a_log_that_lost_its_end_agrees_up_to_there(tmp_path):
    with served(tmp_path) as server, Agent(server.url) as agent:
        agent.put_channel("quotes", QUOTES)
        mine = agent.subscribe("quotes", "", durable="mine")
        epoch = agent.channel("quotes")["epoch"]
        agent.publish_many("quotes", [{"attributes": {"price": 1.0}}] * 4)
        assert [mine.get(5).sequence for _ in range(4)] == [1, 2, 3, 4]
        asked = "/api/channels/quotes?epoch={}&upto={}"
        told = [agent.call("GET", asked.format(*x))["agreed"]
                for x in ((epoch, 4), (epoch, 9), ("other", 4))]  # fmt: skip
        assert told == [4, 4, 0]


def test_a_replaced_log_with_the_old_registry_starts_cursors_again(tmp_path, caplog):
    with served(tmp_path) as server, Agent(server.url) as agent:
        agent.put_channel("quotes", QUOTES)
        mine = agent.subscribe("quotes", "", durable="mine")
        for _ in range(3):
            agent.publish("quotes", {"price": 1.0})
            mine.acknowledge(mine.get(5))
        port = server.found.http
    for path in tmp_path.glob("log.*"):
        path.unlink()
    with served(tmp_path, http=Address("127.0.0.1", port)) as server, Agent(server.url) as agent:
        assert "replaced or restored" in caplog.text
        mine = agent.subscribe("quotes", "", durable="mine")
        agent.publish("quotes", {"price": 2.0})
        assert mine.get(5).sequence == 1
