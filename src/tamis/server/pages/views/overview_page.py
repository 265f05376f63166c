"""The first page: what passes through the broker, and what needs attention."""

from __future__ import annotations

from starlette.responses import Response

from tamis.server.pages.view import View

_LABELS = (("messages", "Messages in"), ("matches", "Matches"), ("deliveries", "Deliveries"))


async def overview_page(view: View) -> Response:
    found = await view.api.get("/api/overview")
    channels = (await view.api.get("/api/channels", query={"limit": 1}))["channels"]
    history = found["history"]
    figures = [(name, label, history[name][-1], history[name]) for name, label in _LABELS]
    return view.shown("overview.html", found=found, figures=figures, any=bool(channels),
                      silent=not found["messages"],
                      first=channels[0] if channels else None)  # fmt: skip
