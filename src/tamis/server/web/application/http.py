"""HTTP and WebSocket: recognise who asks, then let a route answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from tamis.errors import TamisError
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.web.answers import Handler, failed, json
from tamis.server.web.application.openapi import document
from tamis.server.web.json_socket import Connection
from tamis.server.web.link_socket import LinkConnection
from tamis.server.web.origins import Origins
from tamis.server.web.raw_socket import NAME, RawSocket
from tamis.server.web.routes.table import OPEN, ROUTES


class Reception:
    """Says who asks, and sends pages of other sites away."""

    def __init__(self, parts: Parts, origins: Origins) -> None:
        self.parts, self._origins = parts, origins

    async def caller(self, headers: Any, client: Any) -> Caller:
        """`client`: the host and port that the request comes from."""
        self._origins.check(headers, self.parts.door.open)
        address = client[0] if client else ""
        return await self.parts.recognition.caller(headers.get("authorization"), address)


def endpoint(
    reception: Reception, handlers: dict[str, Handler]
) -> Callable[[Request], Awaitable[Response]]:
    """Recognise the caller, call the handler of the method, tell errors."""

    async def answer(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        try:
            caller = await reception.caller(request.headers, request.client)
            response = await handlers[method](reception.parts, caller, request)
        except TimeoutError:
            reception.parts.gate.late += 1
            return json({"error": "the request took too long to arrive"}, 408)
        except ClientDisconnect:  # in the middle of its request: nobody reads the answer
            return Response(status_code=400)
        except TamisError as error:
            return failed(error)
        if request.method == "HEAD" and isinstance(response, StreamingResponse):
            return Response(status_code=response.status_code, headers=dict(response.headers))
        return response

    return answer


def socket_endpoint(reception: Reception) -> Callable[[WebSocket], Awaitable[None]]:
    async def talk(socket: WebSocket) -> None:
        try:
            headers = Headers(raw=socket.scope["headers"])
            caller = await reception.caller(headers, socket.client)
        except TamisError as error:
            await socket.send_denial_response(failed(error))
            return
        await socket.accept()
        asked = socket.scope["query_string"].decode("latin-1").split("&")
        # Nothing can come in between: the answer to the handshake was sent in this very step.
        raw: RawSocket = socket.scope["extensions"][NAME]
        connection = Connection(
            reception.parts, caller, raw, "format=arrow" in asked, "origin=1" in asked
        )
        try:
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass  # messages go to the connection
        finally:
            connection.close()

    return talk


def link_endpoint(reception: Reception) -> Callable[[WebSocket], Awaitable[None]]:
    """Where other routers come, whose parent this one is."""

    async def talk(socket: WebSocket) -> None:
        try:
            headers = Headers(raw=socket.scope["headers"])
            caller = await reception.caller(headers, socket.client)
            caller.require_any("subscribe")
        except TamisError as error:
            await socket.send_denial_response(failed(error))
            return
        name = socket.query_params.get("name", "?")[:100]
        await socket.accept()
        raw: RawSocket = socket.scope["extensions"][NAME]
        connection = LinkConnection(reception.parts, caller, raw, name)
        try:
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass
        finally:
            connection.close()

    return talk


def application(parts: Parts, origins: Origins) -> ASGIApp:
    """WebSockets of /ws are talked to straight away: what Starlette puts around a request would be
    held by every connection as long as it lasts."""
    reception = Reception(parts, origins)
    routed, talk = _routed(reception), socket_endpoint(reception)

    link = link_endpoint(reception)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] == "/ws":
            await talk(WebSocket(scope, receive, send))
        elif scope["type"] == "websocket" and scope["path"] == "/links":
            await link(WebSocket(scope, receive, send))
        else:
            await routed(scope, receive, send)

    return answer


def _routed(reception: Reception) -> Starlette:
    """One route for each path, so that all its methods are known where one is refused."""
    paths: dict[str, dict[str, Handler]] = {}
    for entry in ROUTES:
        paths.setdefault(entry.path, {})[entry.method] = entry.handler
    routes: list[BaseRoute] = [
        Route(path, endpoint(reception, handlers), methods=list(handlers))
        for path, handlers in paths.items()
    ]
    for path, reply in OPEN.items():
        routes.append(Route(path, _open(reception.parts, reply)))
    described = document(ROUTES)

    async def openapi(request: Request) -> Response:
        return json(described)

    routes.append(Route("/openapi.json", openapi))
    app = Starlette(routes=routes, exception_handlers={404: _no_path, 405: _no_method})
    app.router.redirect_slashes = False  # a name may end with a slash, and is another one without
    return app


async def _no_path(request: Request, error: Exception) -> Response:
    return json({"error": f"there is no path {request.url.path}: see /openapi.json"}, 404)


async def _no_method(request: Request, error: Exception) -> Response:
    allowed = ", ".join(sorted(error.headers["Allow"].split(", ")))  # type: ignore[attr-defined]
    response = json({"error": f"{request.method} is not for this path: use {allowed}"}, 405)
    response.headers["Allow"] = allowed
    return response


def _open(
    parts: Parts, reply: Callable[[Parts], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await reply(parts)

    return answer
