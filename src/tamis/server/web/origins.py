"""Pages of other sites must not use what a browser sends by itself.

A browser adds remembered passwords to requests that any page makes, and needs no credentials for a
broker on its own machine that asks for none. Tokens are added by programs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from tamis.errors import AccessError, InputError

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_PORTS = {"http": 80, "https": 443}
Place = tuple[str, str, int]  # scheme, host, port


class Origins:
    """`allowed`: origins such as https://app.example whose pages may use the broker."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = {_configured(text) for text in allowed}
        self._hosts = _LOOPBACK | {host for _, host, _ in self._allowed}

    def check(self, headers: Mapping[str, str], open: bool) -> None:
        """`open`: requests without credentials are served. AccessError: a page must not do it."""
        if headers.get("authorization", "")[:7].lower() == "bearer ":
            return
        host, origin = headers.get("host", ""), headers.get("origin")
        if open and _host(host) not in self._hosts:
            raise AccessError(
                f"Host {host[:80]!r} is not this machine: use 127.0.0.1, or create a principal"
            )
        if origin is not None and not self._may(origin, host, open):
            raise AccessError(
                f"pages of {origin[:80]} are refused: allow them with tamis serve --origin"
            )

    def own(self, headers: Mapping[str, str]) -> bool:
        """Whether the origin is that of the broker's own pages."""
        place = _place(headers.get("origin", ""))
        return place is not None and place == _place(f"{place[0]}://{headers.get('host', '')}")

    def _may(self, origin: str, host: str, open: bool) -> bool:
        place = _place(origin)
        if place is None:
            return False
        own = _place(f"{place[0]}://{host}")
        return place == own or place in self._allowed or (open and place[1] in _LOOPBACK)


def _host(text: str) -> str:
    place = _place(f"http://{text}")
    return "" if place is None else place[1]


def _place(text: str) -> Place | None:
    """None: it names no host of HTTP."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path or parts.query:
        return None
    return parts.scheme, parts.hostname, _PORTS[parts.scheme] if port is None else port


def _configured(text: str) -> Place:
    place = _place(text)
    if place is None:
        raise InputError(f"{text!r} is not an origin: write https://HOST or https://HOST:PORT")
    return place
