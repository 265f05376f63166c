"""Logging in and out, and light or dark."""

from __future__ import annotations

from starlette.responses import Response

from tamis.errors import AccessError, BusyError
from tamis.server.access import Caller
from tamis.server.pages.sessions import give_cookie
from tamis.server.pages.view import THEMES, View, own_place, told

_YEAR = 31_536_000


async def login_page(view: View) -> Response:
    if view.parts.door.open:
        return view.go("/")
    return view.shown("login.html", next=own_place(view.asked("next", "/")), error=None, name="")


async def log_in(view: View) -> Response:
    """A new session, never one whose cookie was there before."""
    next, name = own_place(view.sent("next", "/")), view.sent("name").strip()
    try:
        caller = await _recognised(view, name)
    except (AccessError, BusyError) as error:
        wrong = isinstance(error, AccessError) and not error.known
        error = AccessError("that is not a name with its password, or not a token",
                            known=False) if wrong else error  # fmt: skip
        return view.shown("login.html", error.status, next=next, error=told(error), name=name)
    old = await view.sessions.session(view.request)
    if old is not None:
        view.sessions.end(old)
    response = view.go(next)
    give_cookie(view.request, response, view.sessions.begin(caller))
    return response


async def _recognised(view: View, name: str) -> Caller:
    client = view.request.client
    address, recognition = client.host if client else "", view.parts.recognition
    token = view.sent("secret").strip()
    if token:
        return await recognition.by_token(token, address)
    return await recognition.by_password(name, view.sent("password"), address)


async def log_out(view: View) -> Response:
    session = await view.sessions.session(view.request)
    if session is not None:
        view.sessions.end(session)
    response = view.go("/login")
    give_cookie(view.request, response, "")
    return response


async def choose_theme(view: View) -> Response:
    theme = view.sent("theme")
    response = view.go(own_place(view.sent("next", "/")))
    chosen = theme if theme in THEMES else ""
    response.set_cookie("tamis-theme", chosen, max_age=_YEAR if chosen else 0, httponly=True,
                        samesite="strict")  # fmt: skip
    return response
