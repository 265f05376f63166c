"""Opens and closes every kind of object once, twice over, and prints what the second time left.

A process of its own, with warnings as errors: an object that is not closed by its owner shows as a
ResourceWarning when it is collected. The first time loads modules, kernels and their caches.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import pyarrow as pa

from server.servers import QUOTES, served
from tamis import Matcher, Schema
from tamis.client import Agent, AsyncAgent
from tamis.client.mirror import Mirror
from tamis.errors import LogError, RegistryError, SnapshotError, TamisError
from tamis.flow import check, parse_flow, rewrite, run
from tamis.log import SqliteLog
from tamis.registry import SqliteRegistry
from tamis.table import Subscriptions

# Python 3.12.0 to 3.12.3 takes the ?1 of SQLite for a name, and warns by mistake (gh-117995).
warnings.filterwarnings("ignore", "Binding .*is a named parameter", DeprecationWarning)

MESSAGES = pa.table({"symbol": ["IBM", "Dell"] * 500, "price": [1.0, 20.0] * 500})


def matchers(folder: Path) -> None:
    for engine in ("diagram", "implication"):
        matcher = Matcher(Schema.of(symbol=str, price=float), engine=engine)
        matcher.add_many([(f"s{i}", f"price < {i} AND symbol = 'IBM'") for i in range(200)])
        matcher.match({"symbol": "IBM", "price": 3.0})
        matcher.match_batch(MESSAGES)
    matcher = Matcher()
    matcher.add("a", "price < 10")
    matcher.match_batch(MESSAGES, threads=2)
    matcher.save(folder / "matcher.tamis")
    Matcher.load(folder / "matcher.tamis").match_batch(MESSAGES)
    (folder / "damaged.tamis").write_bytes(b"not a matcher" * 100)
    refused(SnapshotError, Matcher.load, folder / "damaged.tamis")


def tables(folder: Path) -> None:
    table = Subscriptions.create(folder / "table")
    table.add("a", "price < 10")
    Subscriptions.open(folder / "table").view().matcher.match({"price": 3})


def stores(folder: Path) -> None:
    with SqliteLog(folder / "log.db") as log, SqliteRegistry(folder / "registry.db") as registry:
        log.bounds(1)
        registry.channels()
    (folder / "damaged.db").write_bytes(b"not a database" * 100)
    refused(LogError, SqliteLog, folder / "damaged.db")
    refused(RegistryError, SqliteRegistry, folder / "damaged.db")


def refused(error, call, *args) -> None:
    try:
        call(*args)
    except error:
        return
    raise AssertionError(f"{call} took {args}")


def brokers(folder: Path) -> None:
    with served(folder / "broker") as server:
        with Agent(server.url) as agent:
            agent.put_channel("quotes", QUOTES)
            cheap = agent.subscribe("quotes", "price < 10")
            kept = agent.subscribe("quotes", "price < 10", durable="kept")
            agent.publish("quotes", {"symbol": "IBM", "price": 5.0})
            assert cheap.get(20).attributes == kept.get(20).attributes
            refused(TamisError, agent.subscribe, "quotes", "price <")
        asyncio.run(asynchronous(server.url, folder))
        Mirror(folder / "mirror", "quotes", server=server.url).update()
        with server.http() as http:
            assert http.get("/api/channels/quotes/messages").status_code == 200
    with Agent(server.url) as agent:
        refused(TamisError, agent.put_channel, "more", QUOTES)  # the server is gone


async def asynchronous(url: str, folder: Path) -> None:
    async with AsyncAgent(url) as agent:
        subscription = await agent.subscribe("quotes", "price < 10", start="all")
        assert (await subscription.get(20)).attributes["price"] == 5.0


def flows(folder: Path) -> None:
    text = "space A(price: double)\nspace B(price: double)\nA -> B: select price < 10\n"
    graph = check(parse_flow(text))
    rewrite(graph)
    assert run(graph, {"A": [{"price": 1.0}, {"price": 20.0}]}).spaces["B"] == [{"price": 1.0}]


def left_open() -> tuple[set[str], set[str]]:
    gc.collect()
    files = set()
    for place in Path("/proc/self/fd").iterdir():
        try:
            files.add(f"{place.name} {place.readlink()}")
        except OSError:
            continue  # the folder's own
    return files, {thread.name for thread in threading.enumerate()}


def everything() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kind in (matchers, tables, stores, brokers, flows):
            (Path(folder) / kind.__name__).mkdir()
            kind(Path(folder) / kind.__name__)


def main() -> None:
    unraisable: list[str] = []
    sys.unraisablehook = lambda event: unraisable.append(f"{event.exc_value!r} {event.object!r}")
    everything()
    files, threads = left_open()
    everything()
    more_files, more_threads = left_open()
    print(json.dumps({
        "files": sorted(more_files - files),
        "threads": sorted(more_threads - threads),
        "unraisable": unraisable,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
