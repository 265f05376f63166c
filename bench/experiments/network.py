"""Networks of routers: how soon an interest is in force, what crosses, and what cuts cost."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import progress
from bench.report import Goal, Result, Table, verdicts
from bench.routers import Routers, routers, until
from bench.servers import folder
from tamis.client import AsyncAgent

ABOUT = (
    "Routers as processes on one machine, joined by links over the loopback. A hop is a link: at "
    "two hops the subscriber's router is two links from the home."
)


@dataclass(frozen=True, slots=True)
class Scale:
    probes: int  # subscriptions that are put, and messages that come back
    messages: int  # that cross a link
    cut: float  # seconds


SCALES = {
    "full": Scale(100, 200_000, 20.0),
    "quick": Scale(20, 20_000, 4.0),
    "tiny": Scale(2, 1_000, 0.5),
}


def run(scale: str) -> Result:
    s = SCALES[scale]
    with folder() as root:
        two, disk = asyncio.run(_back(root / "two", 2, s))
        five, _ = asyncio.run(_back(root / "five", 5, s))
        rate, size, unwanted = asyncio.run(_crossing(root / "crossing", s))
        cut = asyncio.run(_cut(root / "cut", s))
        dead = asyncio.run(_dead(root / "dead"))
    goals = [
        Goal("in force and a message back, 2 hops, p50", 50, 15, two, " ms", True),
        Goal("the same over 5 hops", 100, 25, five, " ms", True),
        Goal("all crossing one link, messages/s", 40_000, 150_000, rate),
        Goal("bytes for each message that crosses", 150, 90, size, "", True),
        Goal("messages that cross and nobody below wants", 0, 0, unwanted, "", True),
        Goal(f"first message after a cut of {s.cut:g} s", 2, 0.6, cut, " s", True),
        Goal("parent killed, the next one taken, a message there", 5, 2, dead, " s", True),
    ]
    probe = Table("The disk", ("fdatasync, p50, ms",), [[disk]], "each publication waits for one")
    return Result("network", ABOUT, [verdicts(goals), probe])


def _chain(hops: int) -> dict[str, list[str]]:
    names = ["home", *(f"r{i}" for i in range(1, hops + 1))]
    return {name: names[i - 1 : i] if i else [] for i, name in enumerate(names)}


async def _back(root: Path, hops: int, s: Scale) -> tuple[float, float]:
    """A subscription at the end of a chain and a message for it at the home, in milliseconds."""
    progress.say(f"{hops} hops")
    async with (
        routers(root, _chain(hops)) as net,
        AsyncAgent(net.url("home")) as writer,
        AsyncAgent(net.url(f"r{hops}")) as reader,
    ):
        times = []
        for number in range(s.probes):
            begin = time.perf_counter()
            mine = await reader.subscribe("quotes", f"price = {number}")
            await writer.publish("quotes", {"price": float(number)})
            await mine.get(30)
            times.append(time.perf_counter() - begin)
            await mine.end()
    return 1e3 * statistics.median(times), _fdatasync(root)


def _fdatasync(root: Path) -> float:
    times = []
    with tempfile.TemporaryFile(dir=root) as file:
        for _ in range(50):
            begin = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


async def _crossing(root: Path, s: Scale) -> tuple[float, float, float]:
    """Rate and bytes of all messages over a link that was paused; and how many cross that only a
    subscriber elsewhere wants."""
    progress.say("crossing")
    async with routers(root, _chain(1)) as net:
        net.call("r1", "PUT", "/api/channels/quotes/subscriptions/all", {"selector": "price >= 0"})
        await asyncio.sleep(0.5)
        net.call("home", "POST", "/api/links/r1/quotes/pause")
        await _publish(net, s.messages, 1.0)
        before = net.links("home", "down")[0]
        net.call("home", "POST", "/api/links/r1/quotes/resume")
        seconds = await until(lambda: _upto(net) >= s.messages)
        crossed = net.links("home", "down")[0]
        count = crossed["messages"] - before["messages"]
        await _publish(net, 1_000, -1.0)
        await until(lambda: _upto(net) >= s.messages + 1_000)
        unwanted = net.links("home", "down")[0]["messages"] - crossed["messages"]
    return count / seconds, (crossed["bytes"] - before["bytes"]) / max(count, 1), unwanted


def _upto(net: Routers) -> int:
    return int(net.links("home", "down")[0]["upto"])


async def _publish(net: Routers, count: int, price: float) -> None:
    async with AsyncAgent(net.url("home"), timeout=120) as writer:
        for first in range(0, count, 5_000):
            rows = [_row(i, price) for i in range(first, min(first + 5_000, count))]
            await writer.publish_many("quotes", rows)


def _row(number: int, price: float) -> dict[str, Any]:
    """About 50 bytes of JSON."""
    return {"attributes": {"price": price, "symbol": f"S{number % 1000:03}", "n": number}}


async def _cut(root: Path, s: Scale) -> float:
    """Seconds from when a wire is whole again until the first message comes."""
    progress.say("a wire is cut")
    async with (
        routers(root, _chain(1), wired=True) as net,
        AsyncAgent(net.url("home")) as writer,
        AsyncAgent(net.url("r1")) as reader,
    ):
        mine = await reader.subscribe("quotes", "price > 0")
        await writer.publish("quotes", {"price": 1.0})
        await mine.get(30)
        (wire,) = net.wires.values()
        wire.cut = True
        await asyncio.sleep(s.cut)
        await writer.publish("quotes", {"price": 2.0})
        wire.cut = False
        begin = time.perf_counter()
        await mine.get(30)
        return time.perf_counter() - begin


async def _dead(root: Path) -> float:
    """Seconds from the death of a parent until a message comes by the other one."""
    progress.say("a parent dies")
    tree = {"home": [], "a": ["home"], "b": ["home"], "edge": ["a", "b"]}
    async with (
        routers(root, tree) as net,
        AsyncAgent(net.url("home")) as writer,
        AsyncAgent(net.url("edge")) as reader,
    ):
        mine = await reader.subscribe("quotes", "price > 0")
        await writer.publish("quotes", {"price": 1.0})
        await mine.get(30)
        net.processes["a"].kill()
        begin = time.perf_counter()
        await writer.publish("quotes", {"price": 2.0})
        await mine.get(30)
        return time.perf_counter() - begin
