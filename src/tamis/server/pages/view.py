"""One request for a page: who asks, what they sent, and how they are answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tamis.errors import FlowError, InputError, SelectorError, TamisError
from tamis.server.access import LOCAL, Caller
from tamis.server.assembly.parts import Parts
from tamis.server.pages.asking import Api
from tamis.server.pages.rendering import HEADERS, rendered
from tamis.server.pages.sessions import Sessions
from tamis.server.web.answers import body

MAX_FORM = 2 << 20  # bytes
MAX_FIELDS = 1_000
THEMES = ("light", "dark")
PLACES = (
    "/channels",
    "/subscriptions",
    "/flows",
    "/deliveries",
    "/routers",
    "/runs",
    "/why",
    "/try",
)
DONE = {
    "made": "The subscription was made.",
    "changed": "The selector was changed.",
    "ended": "The subscription was ended.",
    "paused": "Deliveries are paused. Nothing is lost: they go on when you resume.",
    "resumed": "Deliveries go on.",
    "dropped": "What was waiting was dropped.",
    "disconnected": "The subscriber was disconnected. It goes on at its cursor when it comes back.",
    "moved": "The cursor was set: deliveries go on there.",
    "retried": "The dead letters were delivered.",
    "published": "The message was published.",
    "channel": "The channel was made.",
    "flow": "The flow was saved.",
    "flow-ended": "The flow was ended.",
}


def address(*parts: str, **query: Any) -> str:
    """/a/b?x=y, all quoted; what is empty is left out."""
    path = "/" + "/".join(quote(part, safe="@") for part in parts)
    left = {name: value for name, value in query.items() if value not in ("", None, [])}
    return f"{path}?{urlencode(left, doseq=True)}" if left else path


def told(error: TamisError) -> dict[str, Any]:
    """What a page says of an error: what, the text with its place, and what to do."""
    if isinstance(error, SelectorError):
        shown = "\n".join(str(error).split("\n")[1:3]) if error.text else ""
        return {"what": error.what, "excerpt": shown, "hint": error.hint, "at": error.at}
    if isinstance(error, FlowError):
        what, _, rest = str(error).partition("\n")
        return {"what": what, "excerpt": rest, "hint": "", "at": error.at}
    return {"what": str(error), "excerpt": "", "hint": "", "at": None}


@dataclass
class View:
    parts: Parts
    request: Request
    sessions: Sessions
    caller: Caller
    api: Api
    token: str  # what forms carry
    fields: dict[str, list[str]] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        return self.request.path_params

    def asked(self, name: str, default: str = "") -> str:
        """A field of the query."""
        return self.request.query_params.get(name, default)

    def sent(self, name: str, default: str = "") -> str:
        """A field of the form."""
        return self.fields.get(name, [default])[-1]

    def shown(self, template: str, status: int = 200, **context: Any) -> Response:
        return rendered(template, status, {**self._frame(), **context})

    def failed(self, error: TamisError) -> Response:
        """A page of its own, for what cannot be shown in place."""
        return self.shown("error.html", error.status, error=told(error))

    def go(self, to: str) -> Response:
        """After a form was done: the browser asks anew, and reloading does nothing twice."""
        return RedirectResponse(to, 303, headers=HEADERS)

    def _frame(self) -> dict[str, Any]:
        problem = bool(self.parts.hub.problem)
        seen = self.parts.channels.visible(self.caller)
        rate = sum(self.parts.history.rate(c.entry.number) for c in seen
                   if self.caller.sees_figures(c.entry.name))  # fmt: skip
        theme = self.request.cookies.get("tamis-theme", "")
        return {
            "caller": self.caller,
            "who": "" if self.caller.name == LOCAL else self.caller.name,
            "may": self.caller.may,
            "manages": self.caller.may("manage", "*"),
            "token": self.token,
            "theme": theme if theme in THEMES else "",
            "path": self.request.url.path,
            "here": place(self.request),
            "at": address,
            "state": "refusing" if problem else "ok",
            "rate": rate,
            "done": DONE.get(self.asked("done"), ""),
            "live": bool(self.caller.verbs),
            "places": [place for place in PLACES if self._offers(place)],
        }

    def _offers(self, place: str) -> bool:
        if place == "/runs":
            return self.parts.reports is not None and self.caller.operates()
        return place != "/routers" or self.caller.may_any("manage")


def place(request: Request) -> str:
    """Path and query of the page, to come back to."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def own_place(text: str) -> str:
    """A place of this broker, wherever a form says to go: never another host."""
    good = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if good and len(text) < 4_000 else "/"


async def read_form(request: Request) -> dict[str, list[str]]:
    data = await body(request, MAX_FORM)
    try:
        return parse_qs(data.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS,
                        errors="strict")  # fmt: skip
    except ValueError as error:
        raise InputError(f"the form cannot be read: {error}") from None
