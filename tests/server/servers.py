"""Servers for tests: in a thread of this process, on loopback, with real files."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tamis.server import folder
from tamis.server.hub import Hub
from tamis.server.process.serve import Address, Settings, running


def hub_at(directory: Path) -> Hub:
    log, registry, unlock = folder.opened(directory)
    hub = Hub(log, registry)
    hub.closed.append(unlock)
    return hub


class Served:
    def __init__(self, found):
        self.found = found
        self.parts = found.parts
        self.url = f"http://127.0.0.1:{found.http}"
        self.stomp, self.packets = found.stomp, found.packets

    def http(self, **more) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=20, **more)


@contextmanager
def served(directory: Path, **more):
    more.setdefault("http", Address("127.0.0.1", 0))
    for protocol in ("stomp", "packets"):
        more.setdefault(protocol, Address("127.0.0.1", 0))
    settings = Settings(directory, **more)
    ready, ending, box = threading.Event(), asyncio.Event(), {}

    async def main():
        box["loop"] = asyncio.get_running_loop()
        try:
            async with running(settings) as found:
                box["found"] = found
                ready.set()
                await ending.wait()
        except BaseException as error:
            box["error"] = error  # one of the start is raised below
            if "found" in box:
                raise
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    ready.wait(120)  # kernels may have to be compiled first
    if "found" not in box:
        with suppress(RuntimeError):  # it has ended
            box["loop"].call_soon_threadsafe(ending.set)
        thread.join(5)
        raise box.get("error", RuntimeError("the server did not start"))
    try:
        yield Served(box["found"])
    finally:
        box["loop"].call_soon_threadsafe(ending.set)
        thread.join(20)
        assert not thread.is_alive()


QUOTES = {"attributes": {"symbol": "string", "price": "double", "volume": "int"}}
