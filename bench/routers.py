"""Routers as processes, each below wires that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.servers import free_port

_MAIN = "import sys; from tamis.cli import main; sys.exit(main())"
FORM = {"attributes": {"price": "double", "symbol": "string"}}


class Wire:
    """Passes bytes on to a port. A connection that is used while it is cut stays silent."""

    def __init__(self, target: int) -> None:
        self.target, self.cut, self.port = target, False, 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            far, onward = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            back.close()
            return
        silent = asyncio.Event()
        for source, sink in ((near, onward), (far, back)):
            task = asyncio.create_task(self._pass(source, sink, silent))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, silent: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                if self.cut:
                    silent.set()
                if not silent.is_set():
                    sink.write(data)
                    await sink.drain()
        sink.close()

    def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()


class Routers:
    """By name, each with the names of its parents; a wire leads to each parent if asked for."""

    def __init__(self, root: Path, tree: Mapping[str, Sequence[str]], wired: bool) -> None:
        self.root, self.tree, self.wired = root, tree, wired
        self.ports = {name: free_port() for name in tree}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.wires: dict[tuple[str, str], Wire] = {}

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    async def start(self) -> None:
        for name, parents in self.tree.items():
            command = [sys.executable, "-c", _MAIN, "serve", str(self.root / name), "--quiet",
                       "--name", name, "--http", f"127.0.0.1:{self.ports[name]}"]  # fmt: skip
            for parent in parents:
                port = self.ports[parent]
                if self.wired:
                    wire = self.wires[name, parent] = Wire(port)
                    await wire.start()
                    port = wire.port
                command += ["--parent", f"http://127.0.0.1:{port}"]
            self.processes[name] = subprocess.Popen(command)
            await until(lambda name=name: self._answers(name))  # type: ignore[misc]
            if not parents:
                self.call(name, "PUT", "/api/channels/quotes", FORM)
        for name, parents in self.tree.items():
            if parents:
                await until(lambda name=name: self._live(name))  # type: ignore[misc]

    def call(self, name: str, method: str, path: str, form: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, None if form is None else json.dumps(form))
            response = connection.getresponse()
            data = response.read()
            if response.status >= 400:
                raise RuntimeError(data.decode())
            return json.loads(data) if data else None

    def _answers(self, name: str) -> bool:
        with contextlib.suppress(OSError, RuntimeError):
            return self.call(name, "GET", "/health") is not None
        return False

    def _live(self, name: str) -> bool:
        with contextlib.suppress(OSError, RuntimeError):
            return bool(self.links(name, "up")) and all(
                one["state"] == "live" for one in self.links(name, "up")
            )
        return False

    def links(self, name: str, direction: str) -> list[dict[str, Any]]:
        found = self.call(name, "GET", "/api/links")["links"]
        return [one for one in found if one["direction"] == direction]

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(30)
        for wire in self.wires.values():
            wire.stop()


@contextlib.asynccontextmanager
async def routers(
    root: Path, tree: Mapping[str, Sequence[str]], *, wired: bool = False
) -> AsyncIterator[Routers]:
    made = Routers(root, tree, wired)
    try:
        await made.start()
        yield made
    finally:
        made.stop()


async def until(condition: Any, seconds: float = 120) -> float:
    """Wait for it, and say how long."""
    begin = time.perf_counter()
    while not condition():
        if time.perf_counter() - begin > seconds:
            raise TimeoutError("not in time")
        await asyncio.sleep(0.002)
    return time.perf_counter() - begin
