"""The pages beside /api: who asks is recognised by a cookie, and each form must come from a page of
this broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from tamis.errors import AccessError, TamisError
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.pages.asking import Api
from tamis.server.pages.live_socket import LiveSocket
from tamis.server.pages.rendering import HEADERS, static
from tamis.server.pages.sessions import Sessions, give_cookie
from tamis.server.pages.table import PAGES, Page
from tamis.server.pages.view import View, address, place, read_form
from tamis.server.web.answers import failed
from tamis.server.web.application.http import application as api
from tamis.server.web.origins import Origins
from tamis.server.web.raw_socket import NAME

_NOBODY = Caller("", "", (), ())


class Site:
    def __init__(self, parts: Parts, origins: Origins) -> None:
        self.parts, self._origins = parts, origins
        self.sessions = Sessions(parts)
        self.routes = [Route("/static/{name}", _static, methods=["GET"])]
        self.routes += [self._route(path) for path in dict.fromkeys(page.path for page in PAGES)]

    def knows(self, scope: Scope) -> bool:
        return any(route.matches(scope)[0] is not Match.NONE for route in self.routes)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        for route in self.routes:
            match, more = route.matches(scope)
            if match is not Match.NONE:
                scope.update(more)
                try:
                    await route.handle(scope, receive, send)
                except HTTPException as error:
                    await Response("", error.status_code, error.headers)(scope, receive, send)
                return

    def _route(self, path: str) -> Route:
        own = {page.method: page for page in PAGES if page.path == path}
        return Route(path, self._endpoint(own), methods=list(own))

    def _endpoint(self, own: dict[str, Page]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            page = own["GET" if request.method == "HEAD" else request.method]
            try:
                return await self._page(request, page)
            except TimeoutError:
                self.parts.gate.late += 1
                return Response("the request took too long to arrive", 408)
            except ClientDisconnect:
                return Response(status_code=400)

        return answer

    async def _page(self, request: Request, page: Page) -> Response:
        view = await self._view(request, _NOBODY)
        try:
            self._check_place(request)
            if not page.open:
                view = await self._view(request, await self.sessions.caller(request))
            if page.method == "POST":
                view.fields = await read_form(request)
                flat = {name: values[-1] for name, values in view.fields.items()}
                await self.sessions.check_form(request, flat)
            return await page.handler(view)
        except AccessError as error:
            if error.known:
                return view.failed(error)
            return self._to_login(view, request)
        except TamisError as error:
            return view.failed(error)

    async def _view(self, request: Request, caller: Caller) -> View:
        asked = Api(self.parts, caller, request.scope["state"]["arrival"])
        token = await self.sessions.form_token(request)
        return View(self.parts, request, self.sessions, caller, asked, token)

    def _to_login(self, view: View, request: Request) -> Response:
        """A form that was sent too late is lost; its page is asked for again."""
        wanted = place(request) if request.method in ("GET", "HEAD") else request.url.path
        to = address("login", next=wanted if wanted != "/" else "")
        response = RedirectResponse(to, 303, headers={**HEADERS, "Cache-Control": "no-store"})
        give_cookie(request, response, "")
        return response

    def _check_place(self, request: Request | WebSocket) -> None:
        """Neither pages of other sites nor names that were pointed at this machine. A browser says
        the origin of every form and socket."""
        headers = {name: request.headers[name] for name in ("host", "origin")
                   if name in request.headers}  # fmt: skip
        self._origins.check(headers, self.parts.door.open)
        if "origin" in headers and not self._origins.own(headers):
            raise AccessError(f"pages of {headers['origin'][:80]} are refused here")
        if request.headers.get("sec-fetch-site") == "cross-site" and _changes(request):
            raise AccessError("this was sent by a page of another site")

    async def talk(self, socket: WebSocket) -> None:
        """The one socket of a tab."""
        try:
            if "origin" not in socket.headers:
                raise AccessError("this socket is for pages: programs use /ws")
            self._check_place(socket)
            session = await self.sessions.session(socket)
            caller = await self.sessions.caller(socket)
        except TamisError as error:
            await socket.send_denial_response(failed(error))
            return
        await socket.accept()
        live = LiveSocket(self.parts, caller, socket.scope["extensions"][NAME])
        if session is not None:
            session.leaving.add(live.leave)
        try:
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass  # messages go to the live socket
        finally:
            if session is not None:
                session.leaving.discard(live.leave)
            live.close()


def _changes(request: Request | WebSocket) -> bool:
    return isinstance(request, WebSocket) or request.method == "POST"


async def _static(request: Request) -> Response:
    found = static(request.path_params["name"], request.headers.get("accept-encoding", ""))
    return found or Response("there is no such file", 404, HEADERS, "text/plain")


def application(parts: Parts, origins: Origins) -> ASGIApp:
    """Pages, and beside them everything that programs ask for."""
    programs, site = api(parts, origins), Site(parts, origins)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] == "/live":
            await site.talk(WebSocket(scope, receive, send))
        elif scope["path"].startswith("/api/") or scope["type"] != "http":
            await programs(scope, receive, send)  # most requests: they pass no routes of pages
        elif site.knows(scope):
            await site.answer(scope, receive, send)
        else:
            await programs(scope, receive, send)

    return answer
