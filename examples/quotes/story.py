"""A channel, a publisher, three subscribers, a disconnect, a catch-up."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from ticks import CHANNEL, FORM, ticks

from tamis.client import Agent
from tamis.errors import TamisError

COUNT = 2_000
# What the third subscriber cares about: the highest price of each symbol, and the last one.
SUMMARY = """
state Quote keyed by symbol from quotes ordered by sequence (max: double := 0, cur: double := 0)
  rule price > max => max := price, cur := price
  rule             => cur := price
"""


def start(directory: str) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "import sys; from tamis.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "serve", directory, "--http", f"127.0.0.1:{port}"]
    return subprocess.Popen([*command, "--quiet"]), f"http://127.0.0.1:{port}"


def wait_for(agent: Agent) -> None:
    for _ in range(600):
        try:
            agent.call("GET", "/health")
            return
        except TamisError:
            time.sleep(0.05)
    raise SystemExit("the broker did not start")


def catch_up(agent: Agent, known: list[dict[str, Any]], missed: list[dict[str, Any]]) -> None:
    """The shortest sequence that means what was missed; and that it means that."""
    glance = agent.subscribe(CHANNEL, durable="glance", summary=SUMMARY, catch_up="shortest")
    goal = meaning([*known, *(tick["attributes"] for tick in missed)])
    got: list[dict[str, Any]] = []
    while meaning([*known, *got]) != goal:
        message = glance.get(30)
        got.append(message.attributes)
        made = " (stands for others)" if message.summarised else ""
        print(f"    {message.attributes['symbol']} {message.attributes['price']}{made}")
    glance.acknowledge(message)
    print(f"the other asked for the shortest: {len(got)} quotes instead of {len(missed)}")


def meaning(quotes: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """The highest and the last price of each symbol, in plain Python."""
    found: dict[str, tuple[float, float]] = {}
    for quote in quotes:
        price, (highest, _) = quote["price"], found.get(quote["symbol"], (0.0, 0.0))
        found[quote["symbol"]] = max(highest, price), price
    return found


def main() -> None:
    everything = list(ticks(COUNT))
    half = COUNT // 2
    with tempfile.TemporaryDirectory() as directory:
        process, server = start(directory)
        try:
            with Agent(server) as publisher, Agent(server) as subscriber:
                wait_for(publisher)
                publisher.put_channel(CHANNEL, FORM)
                lucent = subscriber.subscribe(CHANNEL, "price >= 10", subjects="nyse.LU")
                large = subscriber.subscribe(CHANNEL, "volume > 9000")
                with Agent(server) as first:
                    ibm = first.subscribe(CHANNEL, "symbol = 'IBM'", durable="ibm-watcher")
                    glance = first.subscribe(CHANNEL, durable="glance", summary=SUMMARY)
                    publisher.publish_many(CHANNEL, everything[:half])
                    wanted = sum(t["attributes"]["symbol"] == "IBM" for t in everything[:half])
                    for _ in range(wanted):
                        ibm.acknowledge(ibm.get(30))
                    known = [glance.get(30) for _ in range(half)]
                    glance.acknowledge(known[-1])
                    print(f"two durable subscribers saw {wanted} quotes of IBM, and all of them")
                    time.sleep(0.5)
                publisher.publish_many(CHANNEL, everything[half:])
                print(f"{half} more are published while they are away")
                with Agent(server) as again:
                    ibm = again.subscribe(CHANNEL, "symbol = 'IBM'", durable="ibm-watcher")
                    missed = sum(t["attributes"]["symbol"] == "IBM" for t in everything[half:])
                    got = [ibm.get(30).sequence for _ in range(missed)]
                    print(f"one comes back and catches up: {len(got)} quotes, from {got[0]} on")
                    assert got == sorted(set(got))
                    assert got[0] > half
                    catch_up(again, [m.attributes for m in known], everything[half:])
                for name, messages, rule in (
                    ("quotes of LU", lucent, lambda a: a["symbol"] == "LU"),
                    ("large trades", large, lambda a: a["volume"] > 9000),
                ):
                    wanted = sum(rule(t["attributes"]) for t in everything)
                    got = [messages.get(30).sequence for _ in range(wanted)]
                    print(f"{len(got)} {name} came live")
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
