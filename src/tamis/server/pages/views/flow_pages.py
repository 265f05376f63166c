"""Flows: drawn, edited as text or arc by arc, rewritten step by step, and tried with a message."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.responses import Response

from tamis.drawing import svg
from tamis.errors import InputError, TamisError
from tamis.registry import FlowEntry
from tamis.server.pages.asking import F
from tamis.server.pages.view import View, address, told
from tamis.server.pages.views.channel_pages import read_message
from tamis.server.spaces import OpenFlow, opened

if TYPE_CHECKING:
    from tamis.flow import Graph, Plan

MOST_BOXES = 100  # of a drawing in a page
_LONGEST = 100_000  # characters of a text


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
    """Look at a draft, add an arc to it, or save it."""
    name = view.request.path_params.get("f") or view.sent("name").strip()
    text = view.sent("text").replace("\r\n", "\n")
    saved = await view.api.get(F, name) if "f" in view.request.path_params else None
    try:
        if view.sent("do") == "add":
            text = f"{text.rstrip()}\n{_arc(view)}\n"
        if view.sent("do") == "save":
            return await _save(view, name, text, saved)
    except TamisError as error:
        return await _shown(view, name, text, saved, error)
    return await _shown(view, name, text, saved)


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
    error: TamisError | None = None,
) -> Response:  # fmt: skip
    """The saved flow, or a draft, with all that can be said of it."""
    query = view.request.query_params
    asked = {one: view.sent(one) or query.get(one, "") for one in ("space", "message", "wanted")}
    found: dict[str, Any] = {"spaces": {}, "arcs": [], "published": [], "drawing": "", "steps": [],
                             "notices": [], "tried": [], "derived": [], "left_out": ""}  # fmt: skip
    lookups = _lookups(view, name) if saved else {}
    channels = saved["channels"] if saved else {}
    try:
        if len(text) > _LONGEST:
            raise InputError(f"a flow has up to {_LONGEST:,} characters here")
        entry = FlowEntry(view.caller.tenant, name or "draft", text, channels, lookups)
        found |= await view.parts.questions.run(view.caller.name, _meaning, entry, asked)
    except TamisError as problem:
        error = error or problem
    managed = saved is None or all(view.caller.may("manage", c) for c in channels.values())
    return view.shown(
        "flow.html", error.status if error and view.request.method == "POST" else 200,
        name=name, text=text, saved=saved, began=version_of(saved["text"]) if saved else "",
        draft=saved is None or text != saved["text"], asked=asked, managed=managed,
        error=told(error) if error else None, **found,
    )  # fmt: skip


def _meaning(entry: FlowEntry, asked: dict[str, str]) -> dict[str, Any]:
    """In a thread: checking, rewriting and drawing take their time."""
    from tamis.flow.showing.flow_notices import notices
    from tamis.flow.text.flow_printer import step_text

    flow = opened(entry)
    graph = flow.graph
    arcs = [(arc.source, arc.target, "; ".join(step_text(s) for s in arc.arc.steps))
            for arc in graph.arcs]  # fmt: skip
    steps, left_out = _steps(graph, asked["wanted"])
    return {
        "spaces": {name: {a.name: a.type.value for a in schema.attributes}
                   for name, schema in graph.schemas.items()},
        "arcs": arcs, "published": list(graph.published), "derived": list(graph.derived),
        "drawing": _drawn(graph), "steps": steps, "left_out": left_out,
        "notices": [str(notice) for notice in notices(graph)], "tried": _tried(flow, asked),
    }  # fmt: skip


def _drawn(shown: Graph | Plan) -> Markup:
    from tamis.flow.showing.flow_pictures import picture

    found = picture(shown)
    return Markup(svg(found, styled=False)) if len(found.boxes) <= MOST_BOXES else Markup("")


def _steps(graph: Graph, wanted: str) -> tuple[list[dict[str, Any]], str]:
    """Each rule that changes something: its name, what it does, the drawing before and after."""
    from tamis.flow import RULES, stages

    if len(graph.arcs) > MOST_BOXES:
        return [], f"more than {MOST_BOXES} arcs: rewrite a part of the flow"
    about = {rule.__name__: (rule.__doc__ or "").strip().split("\n")[0] for rule in RULES}
    plans: list[tuple[str, Graph | Plan]] = [("", graph)]
    plans += [*stages(graph, [wanted] if wanted else None)]
    drawings = [(name, _drawn(plan)) for name, plan in plans]
    return [
        {"rule": name.replace("_", " "), "about": about[name], "before": before, "after": after}
        for (_, before), (name, after) in pairwise(drawings)
        if before != after
    ], ""


def _tried(flow: OpenFlow, asked: dict[str, str]) -> list[tuple[str, str]]:
    """What becomes of a message in each space that it can reach, arc by arc."""
    from tamis.flow.showing.flow_explanations import explain

    if not asked["message"]:
        return []
    row, source = read_message(asked["message"])["attributes"], asked["space"]
    targets = [asked["wanted"]] if asked["wanted"] else list(flow.graph.derived)[:20]
    return [(target, explain(flow.graph, source, row, target, flow.tables)) for target in targets]
