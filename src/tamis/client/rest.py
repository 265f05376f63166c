"""Requests of HTTP with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from tamis.errors import AccessError, BusyError, InputError, MessageError, TamisError

_PATIENCE = 60.0


def call(server: str, headers: Mapping[str, str], method: str, path: str, content: Any) -> Any:
    """The answer as JSON (None if there is none); errors of the broker become ours.

    Bytes as content are lines of JSON.
    """
    data, kind = _encoded(content)
    connection = _connection(server)
    try:
        connection.request(method, path, data, {**headers, **kind})
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(server, error) from None
    finally:
        connection.close()
    if response.status >= 400:
        raise _error(response.status, text)
    return json.loads(text) if text else None


def lines(server: str, headers: Mapping[str, str], path: str) -> Iterator[bytes]:
    """An answer line by line, as it comes. An answer that breaks off is an error, and so is a last
    line that says why there are no more."""
    connection = _connection(server)
    try:
        connection.request("GET", path, headers=dict(headers))
        response = connection.getresponse()
        if response.status >= 400:
            raise _error(response.status, response.read())
        while line := response.readline():
            if not line.endswith(b"\n"):
                raise InputError(f"{server}: the answer broke off")
            if line.startswith(b'{"error":'):
                raise _error(int(json.loads(line).get("status", 0)), line)
            yield line
        if not response.isclosed():  # chunks end with an empty one
            raise InputError(f"{server}: the answer broke off")
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(server, error) from None
    finally:
        connection.close()


def _encoded(content: Any) -> tuple[bytes | None, dict[str, str]]:
    if content is None:
        return None, {}
    if isinstance(content, bytes):
        return content, {"Content-Type": "application/x-ndjson"}
    return json.dumps(content).encode(), {"Content-Type": "application/json"}


def _connection(server: str) -> http.client.HTTPConnection:
    parts = urlsplit(server)
    secure = parts.scheme == "https"
    make = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    return make(parts.hostname or "127.0.0.1", parts.port, timeout=_PATIENCE)


def _unreachable(server: str, error: Exception) -> InputError:
    return InputError(f"{server}: {getattr(error, 'strerror', None) or error}")


def _error(status: int, text: bytes) -> TamisError:
    try:
        found = json.loads(text)
        told = str(found.get("text") or found["error"])
        if "message" in found:
            return MessageError(told, message=int(found["message"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        told = f"the broker answered {status}"
    if status in (401, 403):
        return AccessError(told, known=status == 403)
    return BusyError(told) if status == 429 else TamisError(told)
