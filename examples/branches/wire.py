"""A way between two routers that can be cut: a connection that is used meanwhile stays silent."""

from __future__ import annotations

import asyncio
import contextlib


class Wire:
    """Listens on a port of its own, and passes everything on to another port."""

    def __init__(self, target: int) -> None:
        self.target, self.port, self.cut = target, 0, False
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._passing):
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _accept(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            far, onward = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            back.close()
            return
        silent = asyncio.Event()  # bytes are missing: nothing more comes, and nobody is told
        for source, sink in ((near, onward), (far, back)):
            task = asyncio.create_task(self._pass(source, sink, silent))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, silent: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while data := await source.read(65_536):
                if self.cut:
                    silent.set()
                if not silent.is_set():
                    sink.write(data)
                    await sink.drain()
        sink.close()
