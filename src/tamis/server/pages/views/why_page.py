"""Why a message came or did not: predicate by predicate, and which subscriptions it just misses."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tamis.errors import InputError, TamisError
from tamis.server.pages.asking import C, S
from tamis.server.pages.diagrams import diagram
from tamis.server.pages.view import View, told
from tamis.server.pages.views.channel_pages import durable, read_message


async def why_page(view: View) -> Response:
    """All of it is in the address, so the page can be sent to somebody."""
    channels = (await view.api.get("/api/channels", query={"limit": 1000}))["channels"]
    names = [one["name"] for one in channels]
    fields = {name: view.asked(name) for name in ("channel", "message", "subscription", "selector")}
    found: dict[str, Any] = {"explained": None, "near": None, "drawing": "", "selector": ""}
    error = None
    if fields["message"]:
        try:
            found |= await _explained(view, fields)
        except TamisError as problem:
            error = told(problem)
    return view.shown("why.html", 422 if error else 200, channels=names, fields=fields,
                      error=error, **found)  # fmt: skip


async def _explained(view: View, fields: dict[str, str]) -> dict[str, Any]:
    c, selector = fields["channel"], fields["selector"]
    if not c:
        raise InputError("choose the channel of the message")
    message = read_message(fields["message"])
    form = {"message": message}
    if not fields["subscription"] and not selector:
        near = await view.api.post(f"{C}/near", c, form=form)
        dry = None
        if view.caller.may("publish", c):
            dry = await view.api.post(f"{C}/messages", c, form=message, query={"dry": 1})
        near["near"] = [one for one in near["near"] if durable(view, c, [one["subscription"]])]
        matches = durable(view, c, dry["matches"][0]) if dry else None
        return {"near": {**near, "matches": matches}}
    asked = {"subscription": fields["subscription"]} if fields["subscription"] else {
        "selector": selector}  # fmt: skip
    explained = await view.api.post(f"{C}/explain", c, form={**form, **asked})
    if fields["subscription"]:
        selector = (await view.api.get(S, c, fields["subscription"]))["selector"]
    language = view.parts.channels.get(view.caller, c).live.language
    drawing = await view.parts.questions.run(
        view.caller.name, diagram, language, selector, message["attributes"]
    )
    return {"explained": explained, "drawing": drawing, "selector": selector}
