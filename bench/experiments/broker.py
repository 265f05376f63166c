"""The broker under load, on loopback: server, publishers and subscribers in processes of their own.

Publishers send one message and wait for its acknowledgement, which comes after the commit. All
share the machine, so rates are what they get together; CPU-seconds are the server's alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import progress
from bench.publishers import connected, frame
from bench.report import Goal, Result, Table, verdicts
from bench.servers import FORM, Server, folder, nats, tamis
from bench.subscribers import SYMBOLS
from tamis.pubsub.subjects.channel import Channel
from tamis.registry import SqliteRegistry, Stored, Version
from tamis.server.channels import ChannelForm, _attributes, _entry

ABOUT = (
    "`tamis serve` in a process of its own, raw WebSockets of other processes on loopback, every "
    "message acknowledged after its commit. Rates are those of server and clients together on one "
    "machine; CPU-seconds are the server's. Peer: nats-server, whose subscribers filter for "
    "themselves and so get every message."
)


class Scale(NamedTuple):
    publishers: tuple[int, ...]
    seconds: float  # of publishing
    connections: int
    each: int  # subscriptions of a connection
    messages: int  # published to them
    broadcast: int  # published to all of them
    stored: tuple[int, ...]  # subscriptions that a server starts with
    idle: int  # connections


SCALES = {
    "full": Scale((1, 10, 100, 1000), 4, 1000, 10, 400_000, 4000, (100_000, 1_000_000), 10_000),
    "quick": Scale((1, 100, 1000), 2, 1000, 10, 40_000, 1000, (10_000,), 1000),
    "tiny": Scale((2,), 0.2, 3, 2, 2000, 40, (50,), 20),
}


def run(scale: str) -> Result:
    size = SCALES[scale]
    with folder() as directory, tamis(directory) as server:
        server.call("PUT", "/api/channels/load", FORM)
        durable = [_durable(server, count, size.seconds) for count in size.publishers]
        quiet = _quiet(server, directory)
        fan = _fan(server, size)
        packed = _packets(server, size.messages // 4)
        replayed = _replay(server)
        all_of_them = _broadcast(server, size)
        idle = _idle(server, size.idle)
    peer = _peer(size)
    starts = [_start(count) for count in size.stored]
    return Result("broker", ABOUT, [
        verdicts(_goals(size, durable, quiet, fan, replayed, all_of_them, idle, starts)),
        Table("Durable publishing", ("publishers", "messages/s", "per CPU-s", "p50 ms", "p99 ms"),
              durable, "Per CPU-s: messages for each CPU-second of the server."),
        Table("One message at a time", ("what", "p50 ms"), list(quiet.items())),
        Table("Server CPU-seconds for 1M messages", ("server", "connections", "subscriptions",
              "CPU-s", "deliveries/CPU-s"), [fan, peer] if peer else [fan],
              "" if peer else "nats-server is not installed: no peer."),
        Table("Binary packets, one publisher, 500 at a time", ("what", "messages/s", "per CPU-s"),
              packed, "Per CPU-s: messages for each CPU-second of the server."),
        Table("Starting with subscriptions", ("subscriptions", "start s", "of it CPU s", "MB",
              "one more ms", "worst ms"), starts, "Started before, so its matcher is saved."),
    ])  # fmt: skip


def _goals(
    size: Scale, durable: Any, quiet: Any, fan: Any, replayed: float, all_of_them: float,
    idle: float, starts: Any,
) -> list[Goal]:  # fmt: skip
    count, rate, _, _, p99 = durable[-1]
    beyond = quiet["delivered"] - quiet["fdatasync"]
    goals = [
        Goal(f"durable messages/s, {count:,} publishers", 30_000, 80_000, rate),
        Goal("p99 of their acknowledgements", 100, 60, p99, " ms", True),
        Goal(f"server CPU-seconds for 1M messages, {fan[2]:,} subscriptions on {fan[1]:,} "
             "connections", 60, 20, fan[3], " s", True),
        Goal(f"deliveries per CPU-second, {size.connections:,} WebSockets", 500_000, 1_500_000,
             all_of_them),
        Goal("published to delivered, p50, beyond fdatasync", 5, 2, beyond, " ms", True),
        Goal("replay through a selector, messages/s", 200_000, 1_000_000, replayed),
        Goal(f"{size.idle:,} idle connections", 500, 200, idle, " MB", True),
    ]  # fmt: skip
    for count, start, _, memory, more, _ in starts:
        must, aim = (2, None) if count <= 100_000 else (20, 5)
        goals.append(Goal(f"start with {count:,} subscriptions", must, aim, start, " s", True))
        if count > 100_000:
            goals.append(Goal("their memory", 1024, None, memory, " MB", True))
            goals.append(Goal("one more of them", 5, None, more, " ms", True))
    return goals


# --- publishing ---------------------------------------------------------------------


def _durable(server: Server, publishers: int, seconds: float) -> list[float]:
    progress.say(f"{publishers:,} publishers")
    before = server.cpu()
    found = _client("publishers", server.port, publishers, seconds).communicate()[0]
    told = json.loads(found)
    used = max(server.cpu() - before, 0.01)
    rate = told["messages"] / told["seconds"]
    return [publishers, rate, told["messages"] / used, told["p50"], told["p99"]]


def _client(name: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"bench.{name}", *map(str, arguments)]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)


def _publish(server: Server, attributes: Iterator[dict[str, object]], step: int) -> None:
    """In frames of `step` messages, four of them on their way."""
    with connected(server.port) as peer:
        waiting = 0
        for many in _cut(attributes, step):
            request = {"type": "publish", "channel": "load", "messages": many}
            peer.sendall(frame(json.dumps(request).encode()))
            waiting += 1
            while waiting > 3:
                waiting -= _answers(peer.recv(1 << 20))
        while waiting:
            waiting -= _answers(peer.recv(1 << 20))


def _answers(data: bytes) -> int:
    if b'"error"' in data:
        raise RuntimeError(data.decode(errors="replace"))
    return data.count(b'"published"')


def _cut(attributes: Iterator[dict[str, object]], step: int) -> Iterator[list[dict[str, object]]]:
    many: list[dict[str, object]] = []
    for one in attributes:
        many.append({"attributes": one})
        if len(many) == step:
            yield many
            many = []
    if many:
        yield many


def _quiet(server: Server, directory: Path) -> dict[str, float]:
    """One message after the other: until it is acknowledged, and until it is delivered."""
    told: dict[str, list[float]] = {"fdatasync": [], "acknowledged": [], "delivered": []}
    clock = time.perf_counter
    ask = {"type": "subscribe", "channel": "load", "name": "q", "selector": "symbol = -3"}
    send = {"type": "publish", "channel": "load", "messages": [{"attributes": {"symbol": -3}}]}
    with (connected(server.port) as reader, connected(server.port) as writer,
          (directory / "sync").open("wb") as file):  # fmt: skip
        reader.sendall(frame(json.dumps(ask).encode()))
        reader.recv(4096)
        for _ in range(100):
            begin = clock()
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
            told["fdatasync"].append(clock() - begin)
            begin = clock()
            writer.sendall(frame(json.dumps(send).encode()))
            writer.recv(4096)
            told["acknowledged"].append(clock() - begin)
            reader.recv(4096)
            told["delivered"].append(clock() - begin)
            time.sleep(0.003)
    return {what: 1e3 * sorted(found)[len(found) // 2] for what, found in told.items()}


def _packets(server: Server, count: int) -> list[list[Any]]:
    """Notifications over TCP, by the client of the examples: published, and delivered as well."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "packets"))
    from client import DOUBLE, Client

    progress.say(f"{count:,} packets")
    found = []
    for what in ("published", "published and delivered"):
        with (
            Client("127.0.0.1", server.packets) as reader,
            Client("127.0.0.1", server.packets) as writer,
        ):
            for client in (reader, writer):
                channel = client.open("load")
                client.add_subject(channel, "load")
            if what != "published":
                reader.subscribe(channel, 1, 1, "load", [[(1, DOUBLE, ">=", 1.0)]])
            begin, before, got = time.perf_counter(), server.cpu(), 0
            for first in range(0, count, 500):
                many = range(min(500, count - first))
                said = {"symbol": -4, "price": 5.0, "volume": first}
                last = [writer.notify(channel, "load", said) for _ in many][-1]
                writer.acknowledged(last)
                while what != "published" and got < first + len(many):
                    got += reader.message() is not None
            wall, used = time.perf_counter() - begin, max(server.cpu() - before, 0.01)
            found.append([what, count / wall, count / used])
    return found


# --- delivering ---------------------------------------------------------------------


@contextmanager
def _subscribed(server: Server, connections: int, each: int, wanted: int) -> Iterator[None]:
    """Until so many deliveries came."""
    client = _client("subscribers", server.port, connections, each, wanted)
    assert client.stdout is not None
    if client.stdout.readline().strip() != "ready":
        raise RuntimeError("the subscribers failed")
    yield
    told = json.loads(client.communicate()[0])
    if told["got"] != wanted:
        raise RuntimeError(f"{told['got']:,} deliveries instead of {wanted:,}")


def _fan(server: Server, size: Scale) -> list[Any]:
    """0.24 % of all pairs of a message and a subscription match."""
    subscriptions, count = size.connections * size.each, size.messages
    progress.say(f"{subscriptions:,} subscriptions, {count:,} messages")
    wanted = sum(count // SYMBOLS + (s % SYMBOLS < count % SYMBOLS) for s in range(subscriptions))
    messages = ({"symbol": i % SYMBOLS, "price": 5.0, "volume": i} for i in range(count))
    with _subscribed(server, size.connections, size.each, wanted):
        before = server.cpu()
        _publish(server, messages, 1000)
    used = max(server.cpu() - before, 0.01)
    return ["tamis", size.connections, subscriptions, used * 1e6 / count, wanted / used]


def _broadcast(server: Server, size: Scale) -> float:
    """Every message to every connection: deliveries for each CPU-second of the server."""
    progress.say(f"{size.broadcast:,} messages to {size.connections:,} connections")
    messages = ({"symbol": s, "price": 5.0, "volume": 1} for s in _everybody(size))
    wanted = size.broadcast * size.connections
    with _subscribed(server, size.connections, 0, wanted):
        before = server.cpu()
        _publish(server, messages, 20)
    return wanted / max(server.cpu() - before, 0.01)


def _everybody(size: Scale) -> Iterator[int]:
    return iter([-1] * size.broadcast)


def _peer(size: Scale) -> list[Any] | None:
    """The same messages through nats-server, to clients that would filter for themselves."""
    count = max(size.messages // 100, 20)
    with nats() as server:
        if server is None:
            return None
        progress.say(f"nats-server, {count:,} messages to {size.connections:,} connections")
        wanted = count * size.connections
        client = _client("nats_subscribers", server.port, size.connections, wanted)
        assert client.stdout is not None
        client.stdout.readline()
        before = server.cpu()
        body = json.dumps({"symbol": 17, "price": 5.0, "volume": 123_456}).encode()
        with _nats_connected(server.port) as peer:
            message = b"PUB load %d\r\n%b\r\n" % (len(body), body)
            for first in range(0, count, 100):
                peer.sendall(message * min(100, count - first))
            peer.sendall(b"PING\r\n")
            while b"PONG" not in peer.recv(4096):
                pass
            client.communicate()
        used = max(server.cpu() - before, 0.01)
    filters = size.connections * size.each
    return ["nats-server", size.connections, filters, used * 1e6 / count, wanted / used]


def _nats_connected(port: int) -> Any:
    from bench.nats_subscribers import connected as nats_connected

    return nats_connected(port)


# --- the rest -----------------------------------------------------------------------


def _replay(server: Server) -> float:
    progress.say("replay")
    total = json.loads(server.call("GET", "/api/channels/load"))["next"] - 1
    begin = time.perf_counter()
    server.call("GET", "/api/channels/load/messages?selector=symbol%20%3D%2017")
    return float(total / (time.perf_counter() - begin))


def _idle(server: Server, connections: int) -> float:
    """Memory of the server with so many connections that say nothing."""
    progress.say(f"{connections:,} idle connections")
    peers = [connected(server.port) for _ in range(connections)]
    try:
        return server.memory()
    finally:
        for peer in peers:
            peer.close()


def _start(count: int) -> list[float]:
    """A broker that starts again with many subscriptions, and gets one more."""
    progress.say(f"start with {count:,} subscriptions")
    with folder() as directory:
        _fill(directory, count)
        with tamis(directory):
            pass  # it saves what it compiled
        with tamis(directory) as server:
            used, memory, waits = server.cpu(), server.memory(), []
            for i in range(20):
                begin = time.perf_counter()
                path = f"/api/channels/load/subscriptions/more{i}"
                server.call("PUT", path, {"selector": f"symbol = {i} AND price > 7.5"})
                waits.append(time.perf_counter() - begin)
            waits.sort()
            return [count, server.seconds, used, memory, 1e3 * waits[10], 1e3 * waits[-1]]


def _fill(directory: Path, count: int) -> None:
    form = ChannelForm(**FORM)
    registry = SqliteRegistry(directory / "registry.db")
    registry.create_channel(
        lambda number: _entry(Channel(number, _attributes(form)), "main", "load", form)
    )
    registry.change_subscriptions(
        Stored(1, f"alert{i}", "local",
               (Version(1, ">", f"symbol = {i % 50_000} AND price > {i % 1000}.5"),), number=i + 1)
        for i in range(count)
    )  # fmt: skip
    registry.close()
