"""HTTP and WebSocket: recognise who asks, then let a route answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from tamis.errors import AccessError, TamisError
from tamis.server.access import Caller
from tamis.server.parts import Parts
from tamis.server.web.answers import Handler, failed, json
from tamis.server.web.json_socket import Connection
from tamis.server.web.openapi import document
from tamis.server.web.raw_socket import NAME, RawSocket
from tamis.server.web.routes.table import OPEN, ROUTES

_HERE = {"127.0.0.1", "localhost", "::1"}


def refuse_strangers(parts: Parts, headers: Any) -> None:
    """While everybody on this machine may do all, pages of other sites must not use them."""
    if not parts.door.open:
        return
    host = urlsplit(f"//{headers.get('host', '')}").hostname
    origin = headers.get("origin")
    if host not in _HERE or (origin and urlsplit(origin).hostname not in _HERE):
        raise AccessError("requests on behalf of other sites are refused", known=False)


async def recognised(parts: Parts, headers: Any, client: Any) -> Caller:
    """`client`: the host and port that the request comes from."""
    refuse_strangers(parts, headers)
    address = client[0] if client else ""
    return await parts.recognition.caller(headers.get("authorization"), address)


def endpoint(parts: Parts, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Recognise the caller, call the handler, tell errors."""

    async def answer(request: Request) -> Response:
        try:
            caller = await recognised(parts, request.headers, request.client)
            return await handler(parts, caller, request)
        except TimeoutError:
            return json({"error": "the request took too long to arrive"}, 408)
        except TamisError as error:
            return failed(error)

    return answer


def socket_endpoint(parts: Parts) -> Callable[[WebSocket], Awaitable[None]]:
    async def talk(socket: WebSocket) -> None:
        try:
            headers = Headers(raw=socket.scope["headers"])
            caller = await recognised(parts, headers, socket.client)
        except TamisError as error:
            await socket.send_denial_response(failed(error))
            return
        await socket.accept()
        arrow = "format=arrow" in socket.scope["query_string"].decode("latin-1").split("&")
        # Nothing can come in between: the answer to the handshake was sent in this very step.
        raw: RawSocket = socket.scope["extensions"][NAME]
        connection = Connection(parts, caller, raw, arrow)
        try:
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass  # messages go to the connection
        finally:
            connection.close()

    return talk


def application(parts: Parts) -> ASGIApp:
    """WebSockets of /ws are talked to straight away: what Starlette puts around a request would be
    held by every connection as long as it lasts."""
    routed, talk = _routed(parts), socket_endpoint(parts)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] == "/ws":
            await talk(WebSocket(scope, receive, send))
        else:
            await routed(scope, receive, send)

    return answer


def _routed(parts: Parts) -> Starlette:
    routes: list[BaseRoute] = [
        Route(r.path, endpoint(parts, r.handler), methods=[r.method]) for r in ROUTES
    ]
    for path, reply in OPEN.items():
        routes.append(Route(path, _open(parts, reply)))
    described = document(ROUTES)

    async def openapi(request: Request) -> Response:
        return json(described)

    routes.append(Route("/openapi.json", openapi))
    return Starlette(routes=routes)


def _open(
    parts: Parts, reply: Callable[[Parts], Response]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return reply(parts)

    return answer
