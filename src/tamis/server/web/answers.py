"""What handlers of HTTP share: bodies and forms that are bounded, answers, errors."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tamis.errors import BusyError, InputError, TamisError
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.frames import encode
from tamis.server.numbers import whole
from tamis.server.web.json_socket import told

MAX_REQUEST = 32 << 20  # bytes of one request
Handler = Callable[[Parts, Caller, Request], Awaitable[Response]]


def json(content: object, status: int = 200) -> Response:
    return Response(encode(content), status, media_type="application/json")


async def body(request: Request, limit: int = MAX_REQUEST) -> bytes:
    """The request's body, bounded in size and time (`SocketLimits.arrival`); never unpacked."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise InputError("compressed requests are not taken")
    parts, size = [], 0
    async with asyncio.timeout(request.scope["state"]["arrival"]):
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
    return min(whole(name, request.query_params.get(name, str(default))), most)


def failed(error: TamisError) -> Response:
    response = json(told(error), error.status)
    if response.status_code == 401:
        response.headers["WWW-Authenticate"] = 'Basic realm="tamis", Bearer'
    if isinstance(error, BusyError):
        response.headers["Retry-After"] = str(max(math.ceil(error.retry), 1))
    return response
