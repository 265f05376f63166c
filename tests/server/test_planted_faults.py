"""Exceptions planted at random in the parts of a running broker: judge, log, registry, sinks."""

from __future__ import annotations

import contextlib
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import websockets.sync.client as ws

from server.servers import served
from server.test_isolation import Socket
from tamis.pubsub.broker.judge import Judge

COUNT = 60  # requests to publish


class PlantedError(Exception):
    pass


class Planter:
    """Calls that fail one time in six, before they do anything or after."""

    def __init__(self, seed):
        self.random, self.count, self.on = random.Random(seed), 0, True

    def plant(self, patch, owner, name, after=False):
        whole = getattr(owner, name)

        def call(*args, **more):
            fails = self.on and self.random.random() < 1 / 6
            self.count += fails
            late = fails and after and self.random.random() < 0.5
            if fails and not late:
                raise PlantedError(name)
            found = whole(*args, **more)
            if late:
                raise PlantedError(f"after {name}")
            return found

        patch.setattr(owner, name, call)


def planted(patch, server, seed):
    planter, hub = Planter(seed), server.parts.hub
    for name in ("judge", "hits"):
        planter.plant(patch, Judge, name)
    planter.plant(patch, hub.log, "append", after=True)
    planter.plant(patch, hub.log, "read")
    planter.plant(patch, hub.registry, "change_subscriptions")
    planter.plant(patch, hub.registry, "put_cursors")
    planter.plant(patch, server.parts.frames, "frame")
    return planter


def publish(http):
    """All messages, each sent until it is acknowledged."""
    for number in range(1, COUNT + 1):
        message = {"attributes": {"n": number}, "sequence": number}
        for _ in range(50):
            query = {"publisher": "p"}
            if http.post("/api/channels/q/messages", json=message, params=query).is_success:
                break
        else:
            pytest.fail("never acknowledged")


def collect(url, **wish):
    """What a subscriber gets that takes its subscription up whenever that ends."""
    seen, end = set(), time.monotonic() + 60
    while len(seen) < COUNT and time.monotonic() < end:
        with contextlib.suppress(TimeoutError), ws.connect(url) as socket:
            one = Socket(socket)
            one.ask(type="subscribe", channel="q", start="all", **wish)
            while not one.others and len(seen) < COUNT:
                one._sort(json.loads(socket.recv(2)))
                seen.update(one.waiting)
    return seen


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_and_everything_is_reported(tmp_path, seed):
    with served(tmp_path) as server, server.http() as http, pytest.MonkeyPatch.context() as patch:
        http.put("/api/channels/q", json={"attributes": {"n": "int"}})
        planter = planted(patch, server, seed)
        url = f"{server.url.replace('http', 'ws')}/ws"
        with ThreadPoolExecutor() as pool:
            kept = pool.submit(collect, url, name="d", durable=True)
            live = pool.submit(collect, url, name="s")
            publish(http)
        assert kept.result() == live.result() == set(range(1, COUNT + 1))
        planter.on = False
        lines = http.get("/api/channels/q/messages").text.splitlines()
        assert len(lines) == COUNT  # each is stored once
        assert planter.count > 5
        assert http.get("/health").json()["faults"] > 0
        assert http.put("/api/channels/q/subscriptions/new", json={}).is_success
