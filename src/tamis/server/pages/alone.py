"""`tamis try`: the playground by itself, on the loopback, without a broker."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tamis.errors import AccessError, TamisError
from tamis.server.pages.rendering import HEADERS, rendered, static
from tamis.server.pages.view import THEMES, address, own_place, place, read_form, told
from tamis.server.pages.views.play_page import context
from tamis.server.web.origins import Origins

_ARRIVAL = 30.0  # seconds that a request may take


def _frame(request: Request) -> dict[str, object]:
    theme = request.cookies.get("tamis-theme", "")
    return {"who": "", "token": "", "theme": theme if theme in THEMES else "", "live": False,
            "here": place(request), "path": "/try", "at": address, "done": "",
            "places": ()}  # fmt: skip


async def _play(request: Request) -> Response:
    try:
        Origins().check({"host": request.headers.get("host", "")}, True)
        shown = await asyncio.to_thread(context, dict(request.query_params))
    except TamisError as error:
        frame = {**_frame(request), "error": told(error)}
        return rendered("error.html", error.status, frame)
    return rendered("try.html", 200, {**_frame(request), **shown})


async def _theme(request: Request) -> Response:
    """Light or dark: all that can be changed."""
    request.scope["state"] = {"arrival": _ARRIVAL}
    try:
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise AccessError("this was sent by a page of another site")
        form = {name: values[-1] for name, values in (await read_form(request)).items()}
    except TamisError as error:
        return Response(str(error), error.status)
    response = RedirectResponse(own_place(form.get("next", "/")), 303, headers=HEADERS)
    response.set_cookie("tamis-theme", form.get("theme", ""), httponly=True, samesite="strict")
    return response


async def _static(request: Request) -> Response:
    found = static(request.path_params["name"], request.headers.get("accept-encoding", ""))
    return found or Response("there is no such file", 404)


async def _home(request: Request) -> Response:
    return RedirectResponse("/try")


def application() -> Starlette:
    return Starlette(routes=[
        Route("/", _home), Route("/try", _play), Route("/theme", _theme, methods=["POST"]),
        Route("/static/{name}", _static),
    ])  # fmt: skip


def run(port: int, browse: bool, tell: Callable[[str], None]) -> None:
    """Until Ctrl-C. Port 0 is any that is free."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        place = f"http://127.0.0.1:{listening.getsockname()[1]}/try"
        tell(place)
        if browse:
            webbrowser.open(place)
        config = uvicorn.Config(application(), log_config=None, access_log=False, lifespan="off",
                                server_header=False, timeout_graceful_shutdown=2)  # fmt: skip
        uvicorn.Server(config).run([listening])
