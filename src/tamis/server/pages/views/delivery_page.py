"""Subscribers by lag: who keeps up, who does not, and what can be done."""

from __future__ import annotations

from starlette.responses import Response

from tamis.server.pages.view import View, address


async def deliveries_page(view: View) -> Response:
    found = (await view.api.get("/api/subscribers", query={"limit": 50}))["subscribers"]
    for one in found:  # who keeps up has seen all, whatever it acknowledged last
        one["lag"] = one["waiting"] if one["state"] == "keeps up" else one["lag"]
    chosen = view.asked("state")
    states = sorted({one["state"] for one in found})
    rows = [one for one in found if not chosen or one["state"] == chosen]
    worst = max((one["lag"] for one in found), default=0)
    tabs = [("All", "/deliveries", not chosen)]
    tabs += [(state.capitalize(), address("deliveries", state=state), state == chosen)
             for state in states]  # fmt: skip
    return view.shown("deliveries.html", rows=rows, tabs=tabs, chosen=chosen, worst=worst)
