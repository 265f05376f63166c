"""Pages ask the routes of /api, in the same process: they show what the caller may see there, and
nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.frames import encode
from tamis.server.web.routes.table import ROUTES

_HANDLERS = {(entry.method, entry.path): entry.handler for entry in ROUTES}
_NAMES = {path: re.findall(r"{(\w+)}", path) for _, path in _HANDLERS}
_LINES = msgspec.json.Decoder()
C, S = "/api/channels/{c}", "/api/channels/{c}/subscriptions/{s}"
F, L = "/api/flows/{f}", "/api/links/{r}/{c}"
Query = Mapping[str, Any]


class Api:
    """What the caller asks of the broker, route by route. Errors are TamisErrors."""

    def __init__(self, parts: Parts, caller: Caller, arrival: float) -> None:
        self.parts, self.caller, self._arrival = parts, caller, arrival

    async def get(self, path: str, *names: str, query: Query | None = None) -> Any:
        return await self.ask("GET", path, *names, query=query)

    async def post(self, path: str, *names: str, form: Any = None, query: Query | None = None,
                   headers: Mapping[str, str] | None = None) -> Any:  # fmt: skip
        return await self.ask("POST", path, *names, form=form, query=query, headers=headers)

    async def put(self, path: str, *names: str, form: Any = None) -> Any:
        return await self.ask("PUT", path, *names, form=form)

    async def delete(self, path: str, *names: str) -> Any:
        return await self.ask("DELETE", path, *names)

    async def lines(self, path: str, *names: str, query: Query | None = None) -> list[Any]:
        """What a route answers as JSON lines."""
        response = await self._answer("GET", path, names, None, query, None)
        assert isinstance(response, StreamingResponse)
        chunks = [bytes(chunk) async for chunk in response.body_iterator]  # type: ignore[arg-type]
        return _LINES.decode_lines(b"".join(chunks))

    async def ask(
        self, method: str, path: str, *names: str, form: Any = None, query: Query | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # fmt: skip
        response = await self._answer(method, path, names, form, query, headers)
        return msgspec.json.decode(bytes(response.body)) if response.body else None

    async def _answer(
        self, method: str, path: str, names: tuple[str, ...], form: Any, query: Query | None,
        headers: Mapping[str, str] | None,
    ) -> Response:  # fmt: skip
        data = form if isinstance(form, bytes) else b"" if form is None else encode(form)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data, "more_body": False}

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": urlencode(query or {}).encode(),
            "headers": [(k.encode(), v.encode()) for k, v in (headers or {}).items()],
            "path_params": dict(zip(_NAMES[path], names, strict=True)),
            "state": {"arrival": self._arrival},
        }
        return await _HANDLERS[method, path](self.parts, self.caller, Request(scope, receive))
