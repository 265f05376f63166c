"""A home, a region, two branches. A wire is cut, an agent moves, and nothing is lost or doubled.

python examples/branches/story.py
"""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from wire import Wire

from tamis.client import AsyncAgent
from tamis.errors import TamisError

CHANNEL = "orders"
FORM = {"attributes": {"branch": "string", "item": "string", "price": "double"}}
MAIN = "import sys; from tamis.cli import main; sys.exit(main())"
COUNT = 3_000


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def serve(root: Path, name: str, *parents: str) -> tuple[subprocess.Popen[bytes], str, int]:
    port = free_port()
    command = [sys.executable, "-c", MAIN, "serve", root / name, "--http", f"127.0.0.1:{port}"]
    command += ["--name", name, *(word for url in parents for word in ("--parent", url))]
    with (root / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, stderr=log), f"http://127.0.0.1:{port}", port


async def wait_for(agent: AsyncAgent, path: str) -> None:
    """Until the broker answers, which takes longer the first time."""
    for _ in range(1_200):
        try:
            found = await agent.call("GET", path)
        except TamisError:
            found = None
        if found is not None and all(one["state"] == "live" for one in found.get("links", ())):
            return
        await asyncio.sleep(0.05)
    raise SystemExit(f"{agent.server} did not come up")


def orders(count: int) -> list[dict[str, Any]]:
    chance = random.Random(7)
    return [
        {"branch": chance.choice(["north", "south", "east", "west"]),
         "item": f"item {chance.randrange(100)}", "price": chance.randrange(1, 10_000) / 10}
        for _ in range(count)
    ]  # fmt: skip


async def story(root: Path) -> None:
    processes = []
    try:
        home, home_url, home_port = serve(root, "home")
        processes.append(home)
        async with Wire(home_port) as wire, AsyncAgent(home_url) as office:
            await wait_for(office, "/health")
            await office.call("PUT", f"/api/channels/{CHANNEL}", FORM)
            region, region_url, _ = serve(root, "region", f"http://127.0.0.1:{wire.port}")
            processes.append(region)
            async with AsyncAgent(region_url) as there:
                await wait_for(there, "/health")
                await wait_for(there, f"/api/channels/{CHANNEL}")
            north, north_url, _ = serve(root, "north", region_url)
            south, south_url, _ = serve(root, "south", region_url)
            processes += [north, south]
            await told(office, wire, north, [north_url, south_url])
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(20)


async def told(
    office: AsyncAgent, wire: Wire, north: subprocess.Popen[bytes], branches: list[str]
) -> None:
    wanted = "branch = 'north' AND price > 500"
    for url in branches:
        async with AsyncAgent(url) as there:
            await wait_for(there, f"/api/channels/{CHANNEL}")
    async with AsyncAgent(branches) as clerk:
        mine = await clerk.subscribe(CHANNEL, wanted, durable="clerk")
        await asyncio.sleep(0.5)  # until the home has heard of it: it is in force everywhere
        sent = orders(COUNT)
        expected = [row for row in sent if row["branch"] == "north" and row["price"] > 500]
        got: list[dict[str, Any]] = []
        for place in range(0, COUNT, 100):
            rows = [{"attributes": row} for row in sent[place : place + 100]]
            await office.publish_many(CHANNEL, rows)
            if place == 600:
                wire.cut = True
                print("the wire between home and region is cut; the home goes on")
            if place == 1_500:
                wire.cut = False
                print("the wire is whole again")
            if place == 2_100:
                north.kill()
                print("the branch north dies; its clerk goes on at south")
            await asyncio.sleep(0.1)
        begun = time.monotonic()
        while len(got) < len(expected) and time.monotonic() - begun < 30:
            message = await mine.get(30)
            await mine.acknowledge(message)
            got.append(message.attributes)
        links = (await office.call("GET", "/api/links"))["links"]
        crossed = sum(one["messages"] for one in links)
        print(f"{COUNT} orders, {len(expected)} wanted at the branches, {len(got)} arrived")
        print(f"{crossed} crossed from the home to the region")
        for moment, what in clerk.history:
            print(f"    {time.strftime('%H:%M:%S', time.localtime(moment))} {what}")
        assert got == expected, "lost, doubled, or out of order"
        assert not mine.lost
        print("each once, in order")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(story(Path(place)))
