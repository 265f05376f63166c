"""Flows: drawn, edited as text or arc by arc, rewritten step by step, and tried with a message."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from tamis.errors import InputError, TamisError
from tamis.flow.text.arc_places import changed
from tamis.server.pages.asking import F
from tamis.server.pages.view import View, address, told
from tamis.server.pages.views.channel_pages import read_message


async def list_page(view: View) -> Response:
    found = (await view.api.get("/api/flows"))["flows"]
    return view.shown("flows.html", flows=found, may_make=_may_make(view))


def _may_make(view: View) -> bool:
    return any(view.caller.may("manage", c.entry.name)
               for c in view.parts.channels.visible(view.caller))  # fmt: skip


async def new_page(view: View) -> Response:
    """A draft with a source space for each channel that the caller manages."""
    view.caller.require_any("manage")
    rows = []
    for channel in view.parts.channels.visible(view.caller)[:5]:
        schema = channel.channel.schema
        if view.caller.may("manage", channel.entry.name) and len(schema):
            kinds = ", ".join(f"{a.name}: {a.type.value}" for a in schema.attributes)
            rows.append(f"space {channel.entry.name}({kinds})")
    return await _shown(view, "", "\n".join(rows) + "\n", None)


async def flow_page(view: View) -> Response:
    name = view.names["f"]
    found = await view.api.get(F, name)
    return await _shown(view, name, found["text"], found)


async def edit(view: View) -> Response:
    """Look at a draft, add an arc to it, change or remove one, or save it."""
    name = view.request.path_params.get("f") or view.sent("name").strip()
    text = view.sent("text").replace("\r\n", "\n")
    saved = await view.api.get(F, name) if "f" in view.request.path_params else None
    do, changing = view.sent("do"), ""
    try:
        if do == "add":
            text = f"{text.rstrip()}\n{_arc(view)}\n"
        if do.startswith("remove:"):
            text = changed(text, do.removeprefix("remove:").replace("\r\n", "\n"), "")
        if do.startswith("open:"):
            changing = do.removeprefix("open:").replace("\r\n", "\n")
        if do == "change":
            changing, to = (view.sent(n).replace("\r\n", "\n") for n in ("arc", "changed"))
            text, changing = changed(text, changing, to), ""
        if do == "save":
            return await _save(view, name, text, saved)
    except TamisError as error:
        return await _shown(view, name, text, saved, error, changing)
    return await _shown(view, name, text, saved, changing=changing)


async def _save(view: View, name: str, text: str, saved: dict[str, Any] | None) -> Response:
    """Only over the version that the draft began with."""
    if saved is not None and view.sent("began") != version_of(saved["text"]):
        raise InputError("somebody saved this flow meanwhile. Nothing was overwritten: open it in "
                         "another tab, and bring both together")  # fmt: skip
    if saved is None:
        known = {one["name"] for one in (await view.api.get("/api/flows"))["flows"]}
        if name in known:
            raise InputError(f"there is a flow {name} already: choose another name")
    form: dict[str, Any] = {"text": text}
    if saved is not None:
        form |= {"channels": saved["channels"], "lookups": _lookups(view, name)}
    await view.api.put(F, name, form=form)
    return view.go(address("flows", name, done="flow"))


def _lookups(view: View, name: str) -> dict[str, Any]:
    return view.parts.spaces.get(view.caller, name).entry.lookups if name else {}


def version_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _arc(view: View) -> str:
    """What the fields of the table say, as a statement."""
    source, target = view.sent("from").strip(), view.sent("to").strip()
    if not source or not target:
        raise InputError("an arc needs the space it starts from and the one it leads to")
    steps = [f"select {view.sent('select').strip()}"] if view.sent("select").strip() else []
    steps += [view.sent("transform").strip()] if view.sent("transform").strip() else []
    return f"{source} -> {target}" + (f" : {'; '.join(steps)}" if steps else "")


async def end(view: View) -> Response:
    await view.api.delete(F, view.names["f"])
    return view.go(address("flows", done="flow-ended"))


# --- what a text means ------------------------------------------------------------------


async def _shown(
    view: View, name: str, text: str, saved: dict[str, Any] | None,
    error: TamisError | None = None, changing: str = "",
) -> Response:  # fmt: skip
    """The saved flow, or a draft, with all that can be said of it."""
    query = view.request.query_params
    asked = {one: view.sent(one) or query.get(one, "") for one in ("space", "message", "wanted")}
    found: dict[str, Any] = {"spaces": {}, "arcs": [], "published": [], "drawing": "", "steps": [],
                             "notices": [], "tried": [], "derived": [], "left_out": ""}  # fmt: skip
    own = {"channels": saved["channels"]} if saved else {"channels": {}, "lookups": {}}
    draft = {"text": text, **own}
    named = name or "draft"
    try:
        found |= await view.api.post(f"{F}/check", named, form=draft)
        found["steps"], found["left_out"] = await _steps(
            view, named, draft, asked, found["drawing"]
        )
        if asked["message"]:
            message = read_message(asked["message"])
            trial = {**draft, "wanted": asked["wanted"], "space": asked["space"]}
            answer = await view.api.post(f"{F}/try", named, form={**trial, "message": message})
            found["tried"] = answer["spaces"]
    except TamisError as problem:
        error = error or problem
    channels = saved["channels"] if saved else {}
    managed = saved is None or all(view.caller.may("manage", c) for c in channels.values())
    return view.shown(
        "flow.html", error.status if error and view.request.method == "POST" else 200,
        name=name, text=text, saved=saved, began=version_of(saved["text"]) if saved else "",
        draft=saved is None or text != saved["text"], asked=asked, managed=managed,
        error=told(error) if error else None, changing=changing,
        **{**found, "drawing": Markup(found["drawing"])},
    )  # fmt: skip


async def _steps(
    view: View, name: str, draft: dict[str, Any], asked: dict[str, str], before: str
) -> tuple[list[dict[str, Any]], str]:
    """Each rule with the drawing before and after it; or why there are none."""
    try:
        form = {**draft, "wanted": asked["wanted"]}
        steps = (await view.api.post(f"{F}/rewrite", name, form=form))["steps"]
    except TamisError as error:
        return [], str(error)
    drawings = [before, *(step["drawing"] for step in steps)]
    return [
        {
            **step,
            "rule": step["rule"].replace("_", " "),
            "before": Markup(old),
            "after": Markup(new),
        }
        for step, (old, new) in zip(steps, pairwise(drawings), strict=True)
    ], ""
