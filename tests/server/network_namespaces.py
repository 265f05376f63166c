"""Two routers in network namespaces of their own, and the wire between them taken down.

    sudo PYTHONPATH=src:tests python tests/server/network_namespaces.py 2 8 20

The home and its publisher are in one namespace, the edge and its subscriber in the other. For each
number of seconds the wire goes down (`ip link set down`: nothing is closed, packets are gone) while
messages are published, and comes back; each message must arrive once, in order.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

MAIN = "import sys; from tamis.cli import main; sys.exit(main())"
HOME, EDGE = f"tamis-home-{os.getpid()}", f"tamis-edge-{os.getpid()}"


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, capture_output=True)


def inside(space, *words, **more):
    return subprocess.Popen(["ip", "netns", "exec", space, sys.executable, *words], **more)


def tamis(space, *words):
    return inside(space, "-c", MAIN, *map(str, words))


def lay_wire(stack):
    for space in (HOME, EDGE):
        ip("netns", "add", space)
        stack.callback(ip, "netns", "del", space, check=False)
        ip("-n", space, "link", "set", "lo", "up")
    ip(
        "link",
        "add",
        "to-home",
        "netns",
        EDGE,
        "type",
        "veth",
        "peer",
        "name",
        "to-edge",
        "netns",
        HOME,
    )
    for space, name, address in (
        (HOME, "to-edge", "10.216.0.1/30"),
        (EDGE, "to-home", "10.216.0.2/30"),
    ):
        ip("-n", space, "address", "add", address, "dev", name)
        ip("-n", space, "link", "set", name, "up")


def wire(state):
    ip("-n", HOME, "link", "set", "to-edge", state)


def start(stack, space, directory, address, *more):
    """A broker with a principal who may do everything; its token is kept."""
    made = [sys.executable, "-c", MAIN, "principal", "all", "--directory", directory, "--token"]
    for verb in ("manage", "publish", "subscribe"):
        made += ["--right", f"{verb}:*"]
    directory.mkdir()
    token = subprocess.run(made, check=True, capture_output=True, text=True).stdout.split()[-1]
    process = tamis(space, "serve", directory, "--http", f"{address}:8216", "--quiet", *more)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return token


async def patient(url, token):
    from tamis.client import AsyncAgent
    from tamis.errors import TamisError

    agent = AsyncAgent(url, token=token)
    for _ in range(1_200):
        try:
            await agent.call("GET", "/api/channels")
            return agent
        except TamisError:
            await asyncio.sleep(0.05)
    raise SystemExit(f"{url} did not come up")


async def publish(url, token):
    """Until standard input ends."""
    agent = await patient(url, token)
    await agent.call("PUT", "/api/channels/quotes", {"attributes": {"price": "double"}})
    print("ready", flush=True)
    ending = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    count = 0
    while not ending.done():
        count = await agent.publish("quotes", {"price": float(count % 3)})
        await asyncio.sleep(0.005)
    print(count, flush=True)


async def subscribe(url, token):
    """A line for each message: when it came, and its sequence."""
    agent = await patient(url, token)
    for _ in range(400):
        found = await agent.call("GET", "/api/channels")
        if found["channels"]:
            break
        await asyncio.sleep(0.05)
    mine = await agent.subscribe("quotes", "price = 1", durable="mine")
    while not mine.since:
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    async for message in mine:
        print(time.monotonic(), message.sequence, flush=True)
        await mine.acknowledge(message)


def main(cuts):
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lay_wire(stack)
        home = start(stack, HOME, root / "home", "10.216.0.1", "--name", "home")
        parent = ("--parent", "http://10.216.0.1:8216", "--parent-token", home)
        edge = start(stack, EDGE, root / "edge", "10.216.0.2", "--name", "edge", *parent)
        pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE, "text": True}
        writer = inside(HOME, __file__, "publish", "http://10.216.0.1:8216", home, **pipes)
        assert writer.stdout.readline() == "ready\n"
        reader = inside(EDGE, __file__, "subscribe", "http://10.216.0.2:8216", edge, **pipes)
        stack.callback(reader.wait)
        stack.callback(reader.kill)
        assert reader.stdout.readline() == "ready\n"
        whole = []
        for seconds in cuts:
            time.sleep(1)
            wire("down")
            time.sleep(seconds)
            wire("up")
            whole.append(time.monotonic())
            time.sleep(6)
        writer.stdin.close()
        last = int(writer.stdout.readline())
        judge(reader, last, cuts, whole)


def judge(reader, last, cuts, whole):
    got = []
    for line in reader.stdout:
        moment, sequence = line.split()
        got.append((float(moment), int(sequence)))
        if got[-1][1] > last - 3:
            break
    sequences = [sequence for _, sequence in got]
    wanted = list(range(sequences[0], sequences[-1] + 1, 3))
    assert sequences == wanted, "lost, doubled, or out of order"
    for seconds, moment in zip(cuts, whole, strict=True):
        first = min(one for one, _ in got if one > moment) - moment
        print(f"wire down for {seconds:g} s: first message {first:.2f} s after it was whole")
    print(f"{len(got)} of {last} messages crossed, each once, in order")


if __name__ == "__main__":
    if sys.argv[1] == "publish":
        asyncio.run(publish(*sys.argv[2:]))
    elif sys.argv[1] == "subscribe":
        asyncio.run(subscribe(*sys.argv[2:]))
    else:
        main([float(one) for one in sys.argv[1:]])
