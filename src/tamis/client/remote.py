"""Which broker, who asks, and what to do if it cannot be reached."""

from __future__ import annotations

import base64
import os
import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPException
from typing import Self
from urllib.parse import urlsplit

from tamis.errors import InputError, UnreachableError

HERE = "http://127.0.0.1:8216"
TIMEOUT, MAX_TIMEOUT = 30.0, 1_000_000  # seconds: by default, and at most


@dataclass(frozen=True, slots=True)
class Remote:
    """A broker as a client sees it. Holding one means that its address can be used."""

    url: str = HERE
    headers: dict[str, str] = field(default_factory=dict)
    timeout: float = TIMEOUT  # seconds until an answer must be there
    ca: str = ""  # a file of certificate authorities instead of those of the system

    @classmethod
    def of(
        cls,
        server: str,
        *,
        token: str = "",
        login: tuple[str, str] | None = None,
        timeout: float = TIMEOUT,
        ca: str | os.PathLike[str] = "",
    ) -> Self:
        headers = {}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif login:
            secret = base64.b64encode(":".join(login).encode()).decode()
            headers["Authorization"] = f"Basic {secret}"
        _check_header(headers.get("Authorization", ""))
        made = cls(_checked_url(server), headers, checked_timeout(timeout), os.fspath(ca))
        if made.ca:
            _context(made.ca)  # a bad file is refused here, not by the first call
        return made

    @property
    def context(self) -> ssl.SSLContext | None:
        """How TLS checks the broker's certificate; None without TLS."""
        return _context(self.ca) if self.url.startswith("https:") else None

    def unreachable(self, error: BaseException) -> UnreachableError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if isinstance(error, ConnectionError) and error.errno:  # asyncio has words of its own
            reason = os.strerror(error.errno)
        if isinstance(error, HTTPException) and not isinstance(error, OSError):
            reason = "the answer is not HTTP"
        return UnreachableError(f"no broker answers at {self.url}: {reason}\n  {self._cure(error)}")

    def _cure(self, error: BaseException) -> str:
        chain = [error, error.__cause__, error.__context__]
        if any(isinstance(one, ssl.SSLCertVerificationError) for one in chain):
            return "name the file of its certificate authority: ca=FILE, or --ca FILE"
        if any(isinstance(one, ssl.SSLError) for one in chain):
            return f"if it does not use TLS, write http://{self._place}"
        if isinstance(error, ConnectionRefusedError):
            return "start one with `tamis serve`, or check host and port"
        if isinstance(error, TimeoutError):
            return "check host and port, and firewalls on the way"
        if not isinstance(error, OSError) or isinstance(error, ConnectionError):
            other = "http" if self.url.startswith("https:") else "https"
            return f"check the port: is it HTTP, or should it be {other}://{self._place}?"
        return "check host and port"

    @property
    def _place(self) -> str:
        return self.url.partition("://")[2]


def checked_timeout(timeout: float) -> float:
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not 0 < timeout <= MAX_TIMEOUT:  # which NaN is not, either
        bounds = f"a positive number of seconds, up to {MAX_TIMEOUT:,}"
        raise InputError(f"timeout must be {bounds}, not {str(timeout)[:40]}")
    return float(timeout)


def _checked_url(server: str) -> str:
    if not isinstance(server, str):
        raise InputError(f"server must be an address such as {HERE}, not {server!r}")
    text = server.strip()
    if not text.startswith(("http://", "https://")):
        place = text.partition("://")[2] or text
        hint = f"write http://{place}, or https://{place}" if place else f"write {HERE}"
        raise InputError(f"{server!r} is not the address of a broker: {hint}")
    try:
        parts = urlsplit(text)
        bad = not parts.hostname or parts.port == 0
    except ValueError:  # a port that is not one, a bracket that is not closed
        bad = True
    if bad or any(c.isspace() for c in text):
        raise InputError(f"{server!r} is not the address of a broker: write {HERE}")
    if parts.username is not None:
        raise InputError("the address of a broker cannot hold a name and a password: use login=")
    if parts.query or parts.fragment:
        raise InputError(f"{server!r} is not the address of a broker: end it before ? or #")
    return text.rstrip("/")


def _check_header(value: str) -> None:
    if not value.isascii() or not value.isprintable():
        raise InputError("the token has characters that no token has: was it copied whole?")


@lru_cache(maxsize=16)
def _context(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        if isinstance(error, ssl.SSLError):
            raise InputError(f"{ca} holds no certificate in PEM form") from None
        raise InputError(f"{ca}: {getattr(error, 'strerror', None) or error}") from None
