"""Who is logged in, by a cookie; and the tokens that prove that a form comes from our own pages.

A session rests on the password or token that opened it: when that ends, so does the session. It is
kept in memory, so a broker that starts again asks people to log in again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection, cookie_parser
from starlette.responses import Response

from tamis.errors import AccessError
from tamis.server.access import Caller, digest, unknown
from tamis.server.assembly.parts import Parts

LASTS = 12 * 3600  # seconds after which a session ends
IDLE = 2 * 3600  # seconds without a request after which it ends
MOST = 10_000  # sessions of all; the oldest makes room
EACH = 50  # of one principal


@dataclass
class Session:
    """Somebody who logged in, as they were recognised last."""

    caller: Caller
    key: str  # the digest of the cookie
    began: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    leaving: set[Callable[[], None]] = field(default_factory=set)  # open sockets

    @property
    def over(self) -> bool:
        now = time.monotonic()
        return now > self.began + LASTS or now > self.used + IDLE


class Sessions:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._secret = secrets.token_bytes(32)  # of this process

    async def session(self, request: HTTPConnection) -> Session | None:
        """The session of the request's cookie, with the rights of now; None: there is none."""
        cookies = cookie_parser(request.headers.get("cookie", "")[:8192])
        secret = cookies.get(cookie_name(request), "")
        found = self._known.get(digest(secret)) if secret else None
        if found is None:
            return None
        door = self._parts.door
        if not found.over and found.caller.seen != door.renewals:
            with contextlib.suppress(AccessError):
                found.caller = await asyncio.to_thread(door.renewed, found.caller)
        expires = found.caller.expires
        stale = found.caller.seen != door.renewals or (expires and expires < time.time() * 1e6)
        if found.over or stale:
            self.end(found)
            return None
        found.used = time.monotonic()
        return found

    async def caller(self, request: HTTPConnection) -> Caller:
        """Who asks; AccessError if nobody has logged in, and somebody has to."""
        found = await self.session(request)
        if found is not None:
            return found.caller
        if self._parts.door.open:
            return await self._parts.recognition.caller(None, "")
        raise unknown()

    def begin(self, caller: Caller) -> str:
        """A new session, always under a secret of its own: what a browser sent before is not it."""
        own = [s for s in self._known.values() if s.caller.name == caller.name]
        for old in own[: len(own) + 1 - EACH]:
            self.end(old)
        while len(self._known) >= MOST:
            self.end(next(iter(self._known.values())))
        secret = secrets.token_urlsafe(32)
        key = digest(secret)
        self._known[key] = Session(caller, key)
        return secret

    def end(self, session: Session) -> None:
        self._known.pop(session.key, None)
        for leave in list(session.leaving):
            leave()

    # --- forms ------------------------------------------------------------------------

    async def form_token(self, request: HTTPConnection) -> str:
        """What every form of this session carries."""
        found = await self.session(request)
        key = found.key if found is not None else "nobody"
        return hmac.digest(self._secret, key.encode(), "sha256").hex()

    async def check_form(self, request: HTTPConnection, form: Mapping[str, str]) -> None:
        sent = form.get("csrf", "")
        if not hmac.compare_digest(sent.encode(), (await self.form_token(request)).encode()):
            raise AccessError("this form is too old, or was not sent by a page of this broker: "
                              "go back, reload the page and send it again")  # fmt: skip


def cookie_name(request: HTTPConnection) -> str:
    """Browsers send cookies to all ports of a host: each broker of a machine needs its own name."""
    port = (request.scope.get("server") or ("", 0))[1]
    return f"__Host-tamis-{port}" if _safe(request) else f"tamis-{port}"


def _safe(request: HTTPConnection) -> bool:
    return request.scope["scheme"] in ("https", "wss")


def give_cookie(request: HTTPConnection, response: Response, secret: str) -> None:
    """An empty secret takes the cookie away."""
    response.set_cookie(
        cookie_name(request), secret, max_age=LASTS if secret else 0, path="/",
        secure=_safe(request), httponly=True, samesite="strict",
    )  # fmt: skip
