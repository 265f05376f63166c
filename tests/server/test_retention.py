"""Retention: each channel by itself, whatever happens to others or to the clock."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest

from server.servers import QUOTES, served
from tamis.server.clock import LASTING, Clock

DAY = 86_400.0


@pytest.fixture
def server(tmp_path):
    with served(tmp_path) as found, found.http() as http:
        found.client = http
        yield found


def trim_all(server):
    work = asyncio.run_coroutine_threadsafe(
        server.parts.retention.trim_all(), server.parts.hub.loop
    )
    work.result(20)


def make(server, name, **form):
    assert server.client.put(f"/api/channels/{name}", json={**QUOTES, **form}).status_code == 201


def publish(server, name, blocks=3):
    for _ in range(blocks):
        rows = [{"attributes": {"symbol": "x" * 200}} for _ in range(10)]
        assert server.client.post(f"/api/channels/{name}/messages", json=rows).status_code == 200


def kept(server, name):
    shown = server.client.get(f"/api/channels/{name}").json()
    return shown["next"] - shown["first"]


def problems(server):
    return server.client.get("/api/overview").json()["problems"]


def test_a_damaged_block_goes_like_any_other(server):
    make(server, "quotes", retention=1)
    publish(server, "quotes")
    hub = server.parts.hub
    hub.log._writer.execute("UPDATE block SET data = x'00', time = time - 3600000000")
    publish(server, "quotes", 1)
    trim_all(server)
    assert kept(server, "quotes") == 10
    assert server.client.get("/health").json()["status"] == "ok"


def test_a_channel_that_cannot_be_trimmed_stops_no_other(server, monkeypatch):
    make(server, "bad", retention_bytes=1)
    make(server, "good", retention_bytes=1)
    publish(server, "bad")
    publish(server, "good")
    hub, original = server.parts.hub, server.parts.hub.log.size
    number = server.parts.channels.by_name["main", "bad"].entry.number

    def size(channel):
        if channel == number:
            raise OverflowError("too large")
        return original(channel)

    monkeypatch.setattr(hub.log, "size", size)
    trim_all(server)
    assert (kept(server, "bad"), kept(server, "good")) == (30, 0)
    health = server.client.get("/health").json()
    assert (health["status"], health["failing"]) == ("failing", {"retention": 1})
    assert "bad" not in str(health)
    assert problems(server) == ["retention of channel bad fails: too large"]
    assert "tamis_background_failing 1" in server.client.get("/metrics").text
    monkeypatch.undo()
    hub.watch.failing.clear()  # as if the pause were over
    trim_all(server)
    assert kept(server, "bad") == 0
    assert server.client.get("/health").json()["status"] == "ok"


def test_a_closed_channel_fails_no_more(server, monkeypatch):
    make(server, "bad", retention_bytes=1)
    monkeypatch.setattr(server.parts.hub.log, "size", lambda channel: 1 / 0)
    trim_all(server)
    assert server.client.get("/health").json()["status"] == "failing"
    server.client.delete("/api/channels/bad")
    assert server.client.get("/health").json()["status"] == "ok"


def test_a_disk_that_takes_nothing_ends_retention_only_while_it_lasts(server):
    make(server, "quotes", retention_bytes=1)
    publish(server, "quotes")
    hub = server.parts.hub

    def refuse(yes):
        hub._disk.submit(hub.log._writer.execute, f"PRAGMA query_only = {yes:d}").result(20)

    refuse(True)
    trim_all(server)
    assert server.client.get("/health").json()["failing"] == {"retention": 1}
    refuse(False)
    hub.watch.failing.clear()
    trim_all(server)
    assert kept(server, "quotes") == 0


# --- the clock ----------------------------------------------------------------------


class World:
    """The clocks of a broker, made up."""

    def __init__(self, server):
        self.offset, self.gone = 0.0, 0.0
        hub, retention = server.parts.hub, server.parts.retention
        hub.clock = Clock(None, self.wall, self.steady)
        retention.clock = Clock(None, self.wall, self.steady)

    def steady(self):
        return time.monotonic() + self.gone

    def wall(self):
        return time.time() + self.gone + self.offset


def test_a_clock_that_jumps_ahead_for_a_moment_drops_nothing(server):
    make(server, "quotes", retention=60)
    world = World(server)
    publish(server, "quotes")
    world.offset = 365 * DAY
    trim_all(server)
    publish(server, "quotes")
    trim_all(server)
    assert kept(server, "quotes") == 60
    world.offset = 0.0
    publish(server, "quotes")
    world.gone += 59 * 60
    trim_all(server)
    assert kept(server, "quotes") == 90
    world.gone += 2 * 60  # what was stored during the jump is no younger for it
    trim_all(server)
    assert kept(server, "quotes") == 0


def test_time_that_passes_counts(server):
    make(server, "quotes", retention=60)
    world = World(server)
    publish(server, "quotes")
    world.gone += 2 * 3600
    publish(server, "quotes", 1)
    trim_all(server)
    assert kept(server, "quotes") == 10


def test_a_broker_that_starts_with_a_wrong_clock_drops_nothing_at_first(tmp_path, monkeypatch):
    with served(tmp_path) as server, server.http() as server.client:
        make(server, "quotes", retention=60)
        publish(server, "quotes")
    wrong = partial(Clock, wall=lambda: time.time() + 365 * DAY)
    for module in ("hub", "retention"):
        monkeypatch.setattr(f"tamis.server.{module}.Clock", wrong)
    with served(tmp_path) as server, server.http() as server.client:
        trim_all(server)
        assert kept(server, "quotes") == 30
        retention, hub = server.parts.retention, server.parts.hub
        for clock in (retention.clock, hub.clock):
            steady = clock._steady
            clock._steady = lambda steady=steady: steady() + LASTING
            clock._wall = lambda wall=clock._wall: wall() + LASTING
        trim_all(server)
        assert kept(server, "quotes") == 0  # it has lasted: it is the time
