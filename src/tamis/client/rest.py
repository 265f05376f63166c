"""Requests of HTTP with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from tamis.client.remote import Remote
from tamis.client.requests import to_json
from tamis.errors import (
    AccessError,
    BusyError,
    DeadlineError,
    MessageError,
    TamisError,
    UnreachableError,
)

_CONNECT = 10.0  # seconds until a connection must be there
_PIECE = 1 << 16


def call(remote: Remote, method: str, path: str, content: Any = None) -> Any:
    """The answer as JSON (None if there is none); errors of the broker become ours.

    Bytes as content are lines of JSON. DeadlineError if the answer takes longer than the timeout.
    """
    data, kind = _encoded(content)
    end = time.monotonic() + remote.timeout
    connection, prefix = _connected(remote)
    try:
        _wait_until(connection, end, remote)
        connection.request(method, prefix + path, data, {**remote.headers, **kind})
        with connection.getresponse() as response:
            pieces = []
            while piece := response.read1(_PIECE):
                pieces.append(piece)
                _wait_until(connection, end, remote)
            if response.length:
                raise _broken(remote)
    except (OSError, http.client.HTTPException) as error:
        raise _failure(remote, error) from None
    finally:
        connection.close()
    text = b"".join(pieces)
    if response.status >= 300:  # a broker never redirects
        raise _error(remote, response.status, text)
    return _decoded(remote, text) if text else None


def lines(remote: Remote, path: str) -> Iterator[bytes]:
    """An answer line by line, as it comes. An answer that breaks off is an error, and so is a last
    line that says why there are no more. The timeout is for each line."""
    connection, prefix = _connected(remote)
    try:
        connection.request("GET", prefix + path, headers=remote.headers)
        with connection.getresponse() as response:
            if response.status >= 400:
                raise _error(remote, response.status, response.read())
            while line := response.readline():
                if not line.endswith(b"\n"):
                    raise _broken(remote)
                if line.startswith(b'{"error":'):
                    raise _error(remote, int(json.loads(line).get("status", 0)), line)
                yield line
            if not response.isclosed():  # chunks end with an empty one
                raise _broken(remote)
    except (OSError, http.client.HTTPException) as error:
        raise _failure(remote, error) from None
    finally:
        connection.close()


def _encoded(content: Any) -> tuple[bytes | None, dict[str, str]]:
    if content is None:
        return None, {}
    if isinstance(content, bytes):
        return content, {"Content-Type": "application/x-ndjson"}
    return to_json(content).encode(), {"Content-Type": "application/json"}


def _connected(remote: Remote) -> tuple[http.client.HTTPConnection, str]:
    """A connection, and what the paths of all requests begin with."""
    parts, context = urlsplit(remote.url), remote.context
    host, wait = parts.hostname or "", min(remote.timeout, _CONNECT)
    connection = (
        http.client.HTTPConnection(host, parts.port, timeout=wait)
        if context is None
        else http.client.HTTPSConnection(host, parts.port, timeout=wait, context=context)
    )
    try:
        connection.connect()
    except OSError as error:
        connection.close()
        raise remote.unreachable(error) from None
    connection.sock.settimeout(remote.timeout)
    return connection, parts.path


def _wait_until(connection: http.client.HTTPConnection, end: float, remote: Remote) -> None:
    """What comes next must come before `end`, however slowly the broker sends."""
    left = end - time.monotonic()
    if left <= 0:
        raise late(remote)
    if connection.sock is not None:  # closed once the answer is whole
        connection.sock.settimeout(left)


def late(remote: Remote, more: str = "") -> DeadlineError:
    return DeadlineError(
        f"{remote.url} did not answer within {remote.timeout:g} s{more}; it may have done what it "
        "was asked to do\n  allow it more time with timeout=SECONDS, or --timeout SECONDS"
    )


def _broken(remote: Remote) -> UnreachableError:
    return UnreachableError(f"{remote.url}: the answer broke off")


def _failure(remote: Remote, error: OSError | http.client.HTTPException) -> TamisError:
    if isinstance(error, TamisError):
        return error
    return late(remote) if isinstance(error, TimeoutError) else remote.unreachable(error)


def _decoded(remote: Remote, text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise UnreachableError(
            f"{remote.url} answers, but not as a broker does\n  check host and port"
        ) from None


def _error(remote: Remote, status: int, text: bytes) -> TamisError:
    try:
        return error_of(status, json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        return error_of(status, {"error": f"{remote.url} answered {status}: is there a broker?"})


def error_of(status: int, found: dict[str, Any]) -> TamisError:
    """The error that a broker sent as JSON; KeyError and others if it is not one."""
    text = str(found.get("text") or found["error"])
    error: TamisError
    if "message" in found:
        error = MessageError(text, message=int(found["message"]), what=str(found["error"]))
    elif status in (401, 403):
        error = AccessError(text, known=status == 403)
    else:
        error = BusyError(text) if status == 429 else TamisError(text)
    error.status = status
    return error
