"""Subscriptions: making one, looking at one, ending it; and the search for all of them."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from tamis.errors import InputError, TamisError
from tamis.server.numbers import whole
from tamis.server.pages.asking import C, S
from tamis.server.pages.by_form import OPS, Row, rows_of, selector_of
from tamis.server.pages.diagrams import diagram
from tamis.server.pages.rendering import HEADERS
from tamis.server.pages.view import View, address, told
from tamis.server.pages.views.channel_pages import SHOWN, named, recent

_ROWS = 12  # of messages beside the form
_EXPORTED = 1_000  # subscriptions that are read at a time


# --- subscribing ----------------------------------------------------------------------------


async def subscribe_page(view: View) -> Response:
    """How the selector reads, how many recent messages match and which, before anything is
    saved."""
    channel = await view.api.get(C, view.names["c"])
    view.caller.require("subscribe", channel["name"])
    fields = {name: view.asked(name) for name in ("name", "selector", "subjects", "webhook")}
    return await _subscribing(view, channel, fields)


async def _subscribing(
    view: View, channel: dict[str, Any], fields: dict[str, str], error: TamisError | None = None
) -> Response:
    by_form, rows = view.asked("by") == "form", list[Row]()
    if by_form:
        fields, rows, problem = _by_form(view, channel, fields)
        error = error or problem
    else:
        rows = rows_of(fields["selector"], channel["dialect"]) or []
    subjects = fields["subjects"] or ">"
    found, messages, hits = None, list[dict[str, Any]](), set[int]()
    misses = view.asked("misses") == "1"
    try:
        wish = {"selector": fields["selector"], "subjects": subjects}
        found = await view.api.post(f"{C}/check", channel["name"], form=wish)
        messages = await recent(view, channel, fields["selector"], subjects, _ROWS)
        hits = {row["sequence"] for row in messages}
        if misses:
            messages = await recent(view, channel, "", ">", _ROWS)
    except TamisError as problem:
        error = error or problem
    rows_offered = rows_of(fields["selector"], channel["dialect"]) is not None
    return view.shown(
        "subscribe.html", error.status if error and view.request.method == "POST" else 200,
        channel=channel, fields=fields, found=found, messages=messages, hits=hits, misses=misses,
        error=told(error) if error else None, bad=found is None, by_form=by_form, rows=rows,
        ops=OPS, offered=rows_offered or by_form, named=named(fields["selector"],
        channel["dialect"]), subjects=subjects,
    )  # fmt: skip


def _by_form(
    view: View, channel: dict[str, Any], fields: dict[str, str]
) -> tuple[dict[str, str], list[Row], TamisError | None]:
    """The text of the rows; a page that has none yet begins with those of the text."""
    asked = view.request.query_params
    if "a" not in asked:
        rows = rows_of(fields["selector"], channel["dialect"])
        return fields, rows or [], None
    columns = [asked.getlist(name)[:100] for name in ("a", "o", "v")]
    rows = [Row(*row) for row in zip(*columns, strict=False)]
    used = [row for row in rows if row.attribute and (row.value or row.op.endswith("NULL"))]
    if "more" in asked:
        rows.append(Row("", "=", ""))
    try:
        return {**fields, "selector": selector_of(used, channel["attributes"])}, rows, None
    except TamisError as error:
        return fields, rows, error


async def subscribe(view: View) -> Response:
    channel = await view.api.get(C, view.names["c"])
    names = ("name", "selector", "subjects", "webhook")
    fields = {name: view.sent(name).strip() for name in names}
    name, form = fields["name"], {"selector": fields["selector"]}
    form |= {"subjects": fields["subjects"] or ">", "start": view.sent("start") or "now"}
    form |= {"webhook": fields["webhook"]} if fields["webhook"] else {}
    try:
        known = view.parts.channels.get(view.caller, channel["name"]).live.subscriptions.get(name)
        if known is not None and view.parts.subscribing.shows(
            view.caller, view.parts.channels.get(view.caller, channel["name"]), known
        ):
            raise InputError(f"you have a subscription {name} already: choose another name")
        await view.api.put(S, channel["name"], name, form=form)
    except TamisError as error:
        return await _subscribing(view, channel, fields, error)
    return view.go(address("channels", channel["name"], "subscriptions", name, done="made"))


async def values(view: View) -> Response:
    """For the editor: values of an attribute that were seen lately."""
    found = await view.api.get(f"{C}/values/{{a}}", view.names["c"], view.names["a"],
                               query={"q": view.asked("q")})  # fmt: skip
    return Response(msgspec.json.encode(found), 200, HEADERS, "application/json")


# --- one subscription -----------------------------------------------------------------------


async def subscription_page(view: View) -> Response:
    return await _subscription(view)


async def _subscription(view: View, error: TamisError | None = None, edited: str = "") -> Response:
    c, s = view.names["c"], view.names["s"]
    channel, one = await view.api.get(C, c), await view.api.get(S, c, s)
    versions = (await view.api.get(f"{S}/versions", c, s))["versions"]
    dead = await view.api.get(f"{S}/dead", c, s)
    opened = view.parts.channels.get(view.caller, c)
    readable, messages, chosen = view.caller.may("subscribe", c), list[dict[str, Any]](), None
    if readable:
        try:
            messages = await recent(view, channel, one["selector"], one["subjects"], _ROWS)
        except TamisError as problem:
            error = error or problem
    if view.asked("message"):
        chosen = next((m for m in messages if str(m["sequence"]) == view.asked("message")), None)
    drawing = await view.parts.questions.run(
        view.caller.name, diagram, opened.live.language, one["selector"],
        chosen["attributes"] if chosen else None,
    )  # fmt: skip
    return view.shown(
        "subscription.html", error.status if error else 200, channel=channel, one=one,
        versions=versions, dead=dead, messages=messages, readable=readable, drawing=drawing,
        chosen=chosen, error=told(error) if error else None, edited=edited or one["selector"],
        named=named(one["selector"], channel["dialect"]), own=_own(view, one),
        delivers=one["delivery"],
    )  # fmt: skip


def _own(view: View, one: dict[str, Any]) -> bool:
    """Only one's own subscriptions are changed; who manages the channel may pause and end it."""
    return view.caller.rights is None or one["principal"] == view.caller.name


async def change(view: View) -> Response:
    c, s, selector = view.names["c"], view.names["s"], view.sent("selector").strip()
    try:
        one = await view.api.get(S, c, s)
        form = {"selector": selector, "subjects": one["subjects"]}
        form |= {k: v for k, v in one["delivery"].items() if k in ("webhook", "email", "digest")}
        if one["delivery"]:
            raise InputError("a subscription that is delivered is changed over HTTP, for its "
                             "secret is not shown: see docs/http.md")  # fmt: skip
        await view.api.put(S, c, s, form=form)
    except TamisError as error:
        return await _subscription(view, error, selector)
    return view.go(address("channels", c, "subscriptions", s, done="changed"))


async def move(view: View) -> Response:
    c, s, start = view.names["c"], view.names["s"], view.sent("start")
    if start == "other":
        start = view.sent("place").strip()
    sequence = start.isascii() and start.isdigit() and len(start) < 19
    place: str | int = int(start) if sequence else start
    try:
        await view.api.put(f"{S}/cursor", c, s, form={"start": place})
    except TamisError as error:
        return await _subscription(view, error)
    return view.go(address("channels", c, "subscriptions", s, done="moved"))


_ACTIONS = {"pause": "paused", "resume": "resumed", "drop": "dropped", "disconnect": "disconnected"}


async def act(view: View) -> Response:
    """Pause, resume, drop what waits, disconnect, end."""
    c, s, verb = view.names["c"], view.names["s"], view.names["verb"]
    if verb == "end":
        return await _end(view, c, s)
    if verb not in _ACTIONS:
        raise InputError(f"there is nothing to {verb[:40]}")
    await view.api.post(f"{S}/{verb}", c, s)
    if view.sent("to") == "deliveries":
        return view.go(address("deliveries", done=_ACTIONS[verb]))
    return view.go(address("channels", c, "subscriptions", s, done=_ACTIONS[verb]))


async def retry(view: View) -> Response:
    """One dead letter, or all of them."""
    c, s, asked = view.names["c"], view.names["s"], view.sent("sequence")
    sequences = [whole("sequence", asked)] if asked else []
    try:
        found = await view.api.post(f"{S}/dead/retry", c, s, form={"sequences": sequences})
        if found["problem"]:
            raise InputError(f"{found['delivered']:,} were taken, {found['left']:,} are left: "
                             f"{found['problem']}")  # fmt: skip
    except TamisError as error:
        return await _subscription(view, error)
    return view.go(address("channels", c, "subscriptions", s, done="retried"))


async def sure_page(view: View) -> Response:
    """What will be lost, before it is."""
    return await _sure(view)


async def _sure(view: View, error: TamisError | None = None) -> Response:
    c, s, verb = view.names["c"], view.names["s"], view.names["verb"]
    one = await view.api.get(S, c, s)
    if verb not in ("end", "drop"):
        raise InputError(f"there is nothing to {verb[:40]}")
    return view.shown("sure.html", 422 if error else 200, c=c, one=one, verb=verb,
                      named=verb == "end" and (bool(one["delivery"]) or not _own(view, one)),
                      to=view.asked("to"), error=told(error) if error else None)  # fmt: skip


async def _end(view: View, c: str, s: str) -> Response:
    one = await view.api.get(S, c, s)
    if (one["delivery"] or not _own(view, one)) and view.sent("name").strip() != s:
        return await _sure(view, InputError(f"type the name {s} to end it"))
    await view.api.delete(S, c, s)
    return view.go(address("subscriptions", done="ended"))


# --- all of them ----------------------------------------------------------------------------


async def search_page(view: View) -> Response:
    query = {"q": view.asked("q"), "after": view.asked("after"), "limit": SHOWN}
    found, count, error = {"subscriptions": [], "more": False}, None, None
    try:
        found = await view.api.get("/api/subscriptions", query=query)
        if view.asked("count") == "1":
            query = {"q": view.asked("q")}
            count = (await view.api.get("/api/subscriptions/count", query=query))["count"]
    except TamisError as problem:
        error = told(problem)
    return view.shown("subscriptions.html", 422 if error else 200, found=found, count=count,
                      q=view.asked("q"), after=view.asked("after"), error=error)  # fmt: skip


async def export(view: View) -> Response:
    """What the search finds as JSON lines, at most 100,000 of them."""
    rows, after = list[bytes](), ""
    for _ in range(100):
        query = {"q": view.asked("q"), "after": after, "limit": _EXPORTED}
        found = await view.api.get("/api/subscriptions", query=query)
        rows += [msgspec.json.encode(one) for one in found["subscriptions"]]
        if not found["more"]:
            break
        last = found["subscriptions"][-1]
        after = f"{last['channel']}/{last['name']}"
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="subscriptions.jsonl"'}
    return Response(b"".join(row + b"\n" for row in rows), 200, headers, "application/x-ndjson")
