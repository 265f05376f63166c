"""Networks of real processes: routers are killed and wires cut while agents publish and subscribe.

TAMIS_NETWORK_KILLS says how many: 2 in the default run (10 s of CPU), 10 in the deep one. From 10
on there are a home, two routers below it, and four edges below both; else one router and two edges.

    TAMIS_NETWORK_KILLS=200 python -m pytest tests/server/test_network_kills.py
"""

from __future__ import annotations

import asyncio
import os
import random
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dose import dose
from server.test_kill import MAIN, free_port
from tamis.client import AsyncAgent
from tamis.errors import TamisError

BRANCHES = Path(__file__).parents[2] / "examples" / "branches"
Wire = runpy.run_path(str(BRANCHES / "wire.py"))["Wire"]
KILLS = int(os.environ.get("TAMIS_NETWORK_KILLS", dose(2, 10)))
FORM = {"attributes": {"price": "double", "symbol": "string"}}
SYMBOLS = "ABCD"


class Routers:
    """Processes by name, each child below wires to its parents."""

    def __init__(self, root, tree):
        self.root, self.tree = root, tree
        self.ports = {name: free_port() for name in tree}
        self.processes, self.wires = {}, {}

    async def start(self):
        for name, parents in self.tree.items():
            for parent in parents:
                wire = self.wires[name, parent] = Wire(self.ports[parent])
                await wire.__aenter__()
            self.launch(name)
            await self.answers(name)

    def launch(self, name):
        command = [sys.executable, "-c", MAIN, "serve", self.root / name, "--quiet",
                   "--http", f"127.0.0.1:{self.ports[name]}", "--name", name]  # fmt: skip
        for parent in self.tree[name]:
            command += ["--parent", f"http://127.0.0.1:{self.wires[name, parent].port}"]
        with (self.root / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stderr=log)

    async def answers(self, name, path="/health"):
        async with AsyncAgent(self.url(name)) as agent:
            for _ in range(2_000):
                try:
                    return await agent.call("GET", path)
                except TamisError:
                    await asyncio.sleep(0.05)
        raise AssertionError(f"{name} did not come up")

    def url(self, name):
        return f"http://127.0.0.1:{self.ports[name]}"

    async def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        for wire in self.wires.values():
            await wire.__aexit__()


class Publisher:
    """Sends each number until it is acknowledged."""

    def __init__(self, name, urls, chance):
        self.name, self.urls, self.chance = name, urls, chance
        self.sent, self.ending = [], False

    async def run(self):
        async with AsyncAgent(self.urls, timeout=10) as agent:
            while not self.ending:
                row = {"price": float(self.chance.randrange(10)),
                       "symbol": self.chance.choice(SYMBOLS),
                       "tag": f"{self.name} {len(self.sent)}"}  # fmt: skip
                message = {"attributes": row, "sequence": len(self.sent) + 1}
                while True:
                    try:
                        await agent.publish_many("quotes", [message], publisher=self.name)
                        break
                    except TamisError:
                        await asyncio.sleep(0.05)
                self.sent.append(row)
                await asyncio.sleep(0.01)


class Subscriber:
    def __init__(self, name, urls, symbol):
        self.name, self.urls, self.symbol = name, urls, symbol
        self.got = []

    async def begin(self):
        self.agent = AsyncAgent(self.urls)
        selector = f"symbol = '{self.symbol}' AND price > 4"
        self.mine = await self.agent.subscribe("quotes", selector, durable=self.name)

    async def run(self):
        while True:
            message = await self.mine.get()
            self.got.append((message.sequence, message.attributes))
            await self.mine.acknowledge(message)

    def wants(self, row):
        return row["symbol"] == self.symbol and row["price"] > 4


def tree():
    if KILLS < 10:
        return {"home": [], "middle": ["home"], "e0": ["middle"], "e1": ["middle"]}
    edges = {f"e{i}": ["m0", "m1"] if i % 2 else ["m1", "m0"] for i in range(4)}
    return {"home": [], "m0": ["home"], "m1": ["home"], **edges}


async def story(root):
    chance = random.Random(int(os.environ.get("TAMIS_SEED", "7")))
    routers = Routers(root, tree())
    tasks = []
    try:
        await routers.start()
        async with AsyncAgent(routers.url("home")) as office:
            await office.call("PUT", "/api/channels/quotes", FORM)
        edges = [name for name in routers.tree if name.startswith("e")]
        for name in edges:
            await routers.answers(name, "/api/channels/quotes")
        urls = [routers.url(name) for name in edges]
        subscribers = [Subscriber(f"s{i}", [urls[i % len(urls)], urls[(i + 1) % len(urls)]],
                                  SYMBOLS[i % 4]) for i in range(4)]  # fmt: skip
        for one in subscribers:
            await one.begin()
        await asyncio.sleep(1)
        publishers = [Publisher(f"p{i}", [urls[i], routers.url("home")], random.Random(i))
                      for i in range(2)]  # fmt: skip
        tasks = [asyncio.create_task(one.run()) for one in (*publishers, *subscribers)]
        for _ in range(KILLS):
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            await harm(routers, chance)
        await asyncio.sleep(2)
        for one in publishers:
            one.ending = True
        await asyncio.wait_for(asyncio.gather(*tasks[: len(publishers)]), 60)
        return await judged(publishers, subscribers)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await routers.stop()


async def harm(routers, chance):
    """Kill a router and start it again, or cut a wire for a while."""
    if chance.random() < 0.6 or not routers.wires:
        name = chance.choice(list(routers.tree))
        os.kill(routers.processes[name].pid, signal.SIGKILL)
        routers.processes[name].wait()
        await asyncio.sleep(chance.uniform(0, 0.3))
        routers.launch(name)
        await routers.answers(name)
    else:
        wire = chance.choice(list(routers.wires.values()))
        wire.cut = True
        await asyncio.sleep(chance.uniform(0.1, 5))
        wire.cut = False


async def judged(publishers, subscribers):
    sent = [row for one in publishers for row in one.sent]
    end = time.monotonic() + 60
    for one in subscribers:
        wanted = sorted(row["tag"] for row in sent if one.wants(row))
        while len(one.got) < len(wanted) and time.monotonic() < end:
            await asyncio.sleep(0.05)
        sequences = [sequence for sequence, _ in one.got]
        assert sequences == sorted(set(sequences)), f"{one.name}: twice, or out of order"
        tags = sorted(row["tag"] for _, row in one.got)
        assert tags == wanted, (one.name, len(tags), len(wanted), one.mine.lost)
        assert one.mine.lost == []
        await one.agent.close()
    for publisher in publishers:
        tags = [row["tag"] for _, row in subscribers[0].got]
        own = [int(tag.split()[1]) for tag in tags if tag.startswith(f"{publisher.name} ")]
        assert own == sorted(own), "out of the publisher's order"
    return len(sent), sum(len(one.got) for one in subscribers)


@pytest.mark.slow
@pytest.mark.skipif(not KILLS, reason="TAMIS_NETWORK_KILLS is not set")
def test_kills_and_cuts_lose_and_double_nothing(tmp_path):
    sent, got = asyncio.run(story(tmp_path))
    print(f"{KILLS} kills and cuts, {sent} acknowledged, {got} delivered")
    assert got > 0
