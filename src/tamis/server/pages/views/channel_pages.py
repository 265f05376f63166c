"""Channels: the list, one of them, and its messages."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from starlette.responses import Response

from tamis.errors import InputError, LogError, TamisError
from tamis.language import attributes, parse
from tamis.server.numbers import whole
from tamis.server.pages.asking import C
from tamis.server.pages.view import View, address, told

SHOWN = 50  # rows of a page
_LOOKED_AT = 2_000  # newest messages among which those are found that a filter lets pass
_MINUTE = 6  # samples of the history


async def list_page(view: View) -> Response:
    asked, after = view.asked("q"), view.asked("after")
    query = {"q": asked, "after": after, "limit": SHOWN}
    found = await view.api.get("/api/channels", query=query)
    for one in found["channels"]:
        one["rate"], one["minute"] = _pace(view, one)
    return view.shown("channels.html", found=found, q=asked, after=after,
                      may_make=view.caller.may("manage", "*"))  # fmt: skip


def _pace(view: View, channel: dict[str, Any]) -> tuple[float | None, list[float]]:
    """Messages a second now, and in the last minute; None: not for the caller to know."""
    if channel["published"] is None:
        return None, []
    number = view.parts.channels.get(view.caller, channel["name"]).entry.number
    history = view.parts.history
    return history.rate(number), history.of([number])["messages"][-_MINUTE:]


async def new_page(view: View) -> Response:
    view.caller.require_any("manage")
    return view.shown("channel_new.html", error=None, name="", sentence="", attributes="")


async def make(view: View) -> Response:
    name = view.sent("name").strip()
    try:
        form = {"sentence": view.sent("sentence"), "attributes": _declared(view.sent("attributes"))}
        if view.parts.channels.by_name.get((view.caller.tenant, name)) is not None:
            view.caller.require("manage", name)
            raise InputError(f"there is a channel {name} already: choose another name")
        await view.api.put(C, name, form=form)
    except TamisError as error:
        return view.shown("channel_new.html", 422, error=told(error), name=name,
                          sentence=view.sent("sentence"), attributes=view.sent("attributes")
                          )  # fmt: skip
    return view.go(address("channels", name, done="channel"))


def _declared(text: str) -> dict[str, str]:
    """One attribute on each line: a name and its type."""
    found = {}
    for row in text.replace(",", "\n").splitlines():
        name, _, kind = row.replace(":", " ").strip().partition(" ")
        if name:
            found[name] = kind.strip() or "string"
    return found


# --- one channel --------------------------------------------------------------------------


async def live_page(view: View) -> Response:
    """Its newest messages, through a filter; a script adds those that come."""
    channel = await view.api.get(C, view.names["c"])
    selector, subjects = view.asked("selector"), view.asked("subjects") or ">"
    messages, error = list[dict[str, Any]](), None
    readable = view.caller.may("subscribe", channel["name"])
    if readable:
        try:
            messages = await recent(view, channel, selector, subjects)
        except TamisError as problem:
            error = told(problem)
    return view.shown("channel_live.html", channel=channel, selector=selector, subjects=subjects,
                      messages=messages, error=error, readable=readable,
                      named=named(selector, channel["dialect"]))  # fmt: skip


async def recent(
    view: View, channel: dict[str, Any], selector: str, subjects: str = ">", most: int = SHOWN
) -> list[dict[str, Any]]:
    """The newest messages that pass, of the last 2,000; the newest first."""
    looked_at = _LOOKED_AT if selector or subjects != ">" else most
    first = max(channel["first"], channel["readable"] - looked_at, 1)
    query = {"first": first, "selector": selector, "subjects": subjects}
    rows = await view.api.lines(f"{C}/messages", channel["name"], query=query)
    if rows and "error" in rows[-1]:
        raise LogError(rows[-1]["error"])
    return [row for row in rows if "sequence" in row][: -most - 1 : -1]


def named(selector: str, dialect: Any) -> list[str]:
    """The attributes that a selector names; they are shown first."""
    with contextlib.suppress(TamisError):
        return [*attributes(parse(selector, dialect=dialect))] if selector else []
    return []


async def subscriptions_page(view: View) -> Response:
    channel = await view.api.get(C, view.names["c"])
    query = {"q": view.asked("q"), "after": view.asked("after"), "limit": SHOWN}
    found = await view.api.get(f"{C}/subscriptions", channel["name"], query=query)
    return view.shown("channel_subscriptions.html", channel=channel, found=found,
                      q=query["q"], after=query["after"])  # fmt: skip


async def schema_page(view: View) -> Response:
    channel = await view.api.get(C, view.names["c"])
    return view.shown("channel_schema.html", channel=channel)


# --- publishing ---------------------------------------------------------------------------


async def publish_page(view: View) -> Response:
    """A form; `message` is filled in where a message is published again."""
    channel = await view.api.get(C, view.names["c"])
    view.caller.require("publish", channel["name"])
    message = view.asked("message") or _example(channel)
    return _publishing(view, channel, message)


def _publishing(
    view: View, channel: dict[str, Any], message: str, status: int = 200, **more: Any
) -> Response:
    shown = {"error": None, "dry": None, "notes": [], **more}
    return view.shown("channel_publish.html", status, channel=channel, message=message, **shown)


def _example(channel: dict[str, Any]) -> str:
    kinds = {"string": "", "bool": True, "boolean": True, "timestamp": "2026-01-01T00:00:00Z"}
    values = {name: kinds.get(kind, 0) for name, kind in channel["attributes"].items()}
    return msgspec.json.format(msgspec.json.encode({"attributes": values})).decode()


async def publish(view: View) -> Response:
    """A dry run says who would get it; then it is published."""
    channel = await view.api.get(C, view.names["c"])
    text, name = view.sent("message"), channel["name"]
    try:
        message = read_message(text)
        if view.sent("do") == "publish":
            done = await view.api.post(f"{C}/messages", name, form=message)
            return view.go(address("channels", name, "messages", str(done["sequences"][0]),
                                   done="published"))  # fmt: skip
        dry = await view.api.post(f"{C}/messages", name, form=message, query={"dry": 1})
        dry["matches"][0] = durable(view, name, dry["matches"][0])
        attributes = [*message["attributes"]][:1_000]
        notes = await view.api.post(f"{C}/spelling", name, form={"attributes": attributes})
    except TamisError as error:
        return _publishing(view, channel, text, 422, error=told(error))
    return _publishing(view, channel, text, dry=dry, notes=notes["notes"])


def read_message(text: str) -> dict[str, Any]:
    """A message as it is published, or its attributes alone."""
    try:
        found = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"this is not a message: {error}") from None
    if isinstance(found.get("attributes"), dict):
        return {k: found[k] for k in ("attributes", "subject", "id") if k in found}
    return {"attributes": found}


def durable(view: View, channel: str, names: list[str]) -> list[str]:
    """Without the subscriptions of sessions, such as those of live pages."""
    held = view.parts.channels.get(view.caller, channel).live.subscriptions
    return [name for name in names if name in held and held[name].durable]


# --- one message --------------------------------------------------------------------------


async def message_page(view: View) -> Response:
    """A message, and which subscriptions it matches."""
    channel = await view.api.get(C, view.names["c"])
    sequence = whole("message", view.names["n"])
    query = {"first": sequence, "before": sequence + 1, "limit": 1}
    rows = await view.api.lines(f"{C}/messages", channel["name"], query=query)
    message = next((row for row in rows if "sequence" in row), None)
    lost = next((row["lost"] for row in rows if "lost" in row), None)
    matched, among = None, "own"
    if message is not None and view.caller.may("publish", channel["name"]):
        with contextlib.suppress(TamisError):
            form = {"subject": message["subject"], "attributes": message["attributes"]}
            found = await view.api.post(f"{C}/messages", channel["name"], form=form,
                                        query={"dry": 1})  # fmt: skip
            matched = durable(view, channel["name"], found["matches"][0])
            among = found["among"]
    body = msgspec.json.encode({"subject": message["subject"], "attributes": message["attributes"]}
                               ).decode() if message else ""  # fmt: skip
    return view.shown("message.html", 200 if message else 404, channel=channel, message=message,
                      sequence=sequence, lost=lost, matched=matched, among=among,
                      body=body)  # fmt: skip
