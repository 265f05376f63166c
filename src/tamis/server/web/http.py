"""The routes of HTTP: read the request, call one function, write JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from tamis.errors import (
    AccessError,
    BusyError,
    InputError,
    LogError,
    RegistryError,
    SubscriptionError,
    TamisError,
)
from tamis.server.access import Caller
from tamis.server.frames import encode
from tamis.server.parts import Parts
from tamis.server.web.frame_reader import PROTOCOL
from tamis.server.web.json_socket import Connection, told
from tamis.server.web.raw_socket import NAME, RawSocket

MAX_REQUEST = 32 << 20  # bytes of one request
PATIENCE = 30.0  # seconds for a request's body to arrive
_HERE = {"127.0.0.1", "localhost", "::1"}
Handler = Callable[[Parts, Caller, Request], Awaitable[Response]]


def json(content: object, status: int = 200) -> Response:
    return Response(encode(content), status, media_type="application/json")


async def body(request: Request, limit: int = MAX_REQUEST) -> bytes:
    """The request's body, bounded in size and time; never unpacked."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise InputError("compressed requests are not taken")
    parts, size = [], 0
    async with asyncio.timeout(PATIENCE):
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > limit:
                raise InputError(f"the request has more than {limit:,} bytes")
    return b"".join(parts)


async def form(request: Request, kind: type[Any]) -> Any:
    """The request's JSON as a value of the kind."""
    try:
        return msgspec.json.decode(await body(request, 1 << 20) or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the request cannot be read: {error}") from None


def whole_number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InputError(f"{name} is a whole number")
    return min(int(text), most)


def status_of(error: TamisError) -> int:
    if isinstance(error, AccessError):
        return 403 if error.known else 401
    if isinstance(error, BusyError):
        return 429
    if isinstance(error, LogError):
        return 503
    if isinstance(error, RegistryError | SubscriptionError):
        return 409 if "already" in str(error) else 404 if "there is no" in str(error) else 422
    return 422


def failed(error: TamisError) -> Response:
    response = json(told(error), status_of(error))
    if response.status_code == 401:
        response.headers["WWW-Authenticate"] = 'Basic realm="tamis", Bearer'
    if response.status_code == 429:
        response.headers["Retry-After"] = "1"
    return response


def refuse_strangers(parts: Parts, headers: Any) -> None:
    """While everybody on this machine may do all, pages of other sites must not use them."""
    if not parts.door.open:
        return
    host = urlsplit(f"//{headers.get('host', '')}").hostname
    origin = headers.get("origin")
    if host not in _HERE or (origin and urlsplit(origin).hostname not in _HERE):
        raise AccessError("requests on behalf of other sites are refused", known=False)


async def recognised(parts: Parts, headers: Any) -> Caller:
    refuse_strangers(parts, headers)
    return await asyncio.to_thread(parts.door.recognise, headers.get("authorization"))


def endpoint(parts: Parts, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Recognise the caller, call the handler, tell errors."""

    async def answer(request: Request) -> Response:
        try:
            caller = await recognised(parts, request.headers)
            return await handler(parts, caller, request)
        except TimeoutError:
            return json({"error": "the request took too long to arrive"}, 408)
        except TamisError as error:
            return failed(error)

    return answer


def socket_endpoint(parts: Parts) -> Callable[[WebSocket], Awaitable[None]]:
    async def talk(socket: WebSocket) -> None:
        try:
            caller = await recognised(parts, Headers(raw=socket.scope["headers"]))
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
                # Messages go to the connection. One that comes here was sent before the answer,
                # which no client may do (RFC 6455, 4.1); to drop it silently would be a loss.
                raw.end(PROTOCOL)
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
    from tamis.server.web.openapi import document
    from tamis.server.web.routes import OPEN, ROUTES

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
