"""Flows before they are saved: checked, rewritten step by step, tried with a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tamis.drawing import svg
from tamis.errors import InputError, RegistryError
from tamis.registry import FlowEntry
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.spaces import opened
from tamis.server.web.answers import form, json

if TYPE_CHECKING:
    from tamis.flow import Graph, Plan

_MOST_BOXES = 100  # of a drawing, and arcs of a flow that is rewritten
_MOST_SPACES = 20  # that a message is tried for
_LONGEST = 100_000  # characters of a text


class FlowDraft(msgspec.Struct, forbid_unknown_fields=True):
    """What is not given is that of the saved flow. `wanted`: one derived space, not all."""

    text: str | None = None
    channels: dict[str, str] | None = None
    lookups: dict[str, Any] | None = None
    wanted: str = ""


class FlowTrial(FlowDraft):
    """A message, as published or its attributes alone, that enters at a space."""

    space: str = ""
    message: dict[str, Any] = {}


async def check(parts: Parts, caller: Caller, request: Request) -> Response:
    return await _answered(parts, caller, request, FlowDraft, _checked)


async def rewrite(parts: Parts, caller: Caller, request: Request) -> Response:
    return await _answered(parts, caller, request, FlowDraft, _rewritten)


async def trial(parts: Parts, caller: Caller, request: Request) -> Response:
    return await _answered(parts, caller, request, FlowTrial, _tried)


async def _answered(
    parts: Parts, caller: Caller, request: Request, kind: type[Any],
    work: Callable[[FlowEntry, Any], dict[str, Any]],
) -> Response:  # fmt: skip
    """In a thread: checking, rewriting and drawing take their time."""
    caller.require_any()
    draft = await form(request, kind)
    entry = _entry(parts, caller, request.path_params["f"], draft)
    return json(await parts.questions.run(caller.name, work, entry, draft))


def _entry(parts: Parts, caller: Caller, name: str, draft: FlowDraft) -> FlowEntry:
    try:
        saved = parts.spaces.get(caller, name).entry
    except RegistryError:
        if draft.text is None:
            raise
        saved = FlowEntry(caller.tenant, name, draft.text, {}, {})
    text = saved.text if draft.text is None else draft.text
    if len(text) > _LONGEST:
        raise InputError(f"a draft has up to {_LONGEST:,} characters")
    channels = saved.channels if draft.channels is None else draft.channels
    lookups = saved.lookups if draft.lookups is None else draft.lookups
    return FlowEntry(caller.tenant, name, text, channels, lookups)


def _checked(entry: FlowEntry, _: FlowDraft) -> dict[str, Any]:
    from tamis.flow.showing.flow_notices import notices
    from tamis.flow.text.arc_places import arcs_of

    graph = opened(entry).graph
    return {
        "spaces": {name: {a.name: a.type.value for a in schema.attributes}
                   for name, schema in graph.schemas.items()},
        "published": graph.published, "derived": graph.derived,
        "arcs": [arc._asdict() for arc in arcs_of(entry.text)],
        "notices": [str(notice) for notice in notices(graph)],
        "drawing": _drawn(graph),
    }  # fmt: skip


def _drawn(shown: Graph | Plan) -> str:
    """As SVG; empty if it would have too many boxes."""
    from tamis.flow.showing.flow_pictures import picture

    found = picture(shown)
    return svg(found, styled=False) if len(found.boxes) <= _MOST_BOXES else ""


def _rewritten(entry: FlowEntry, draft: FlowDraft) -> dict[str, Any]:
    """The rules that change something, in turn: what each does, and what it leaves."""
    from tamis.flow import RULES, stages
    from tamis.flow.showing.plan_texts import plan_text

    graph = opened(entry).graph
    if len(graph.arcs) > _MOST_BOXES:
        raise InputError(f"more than {_MOST_BOXES} arcs: rewrite a part of the flow")
    about = {rule.__name__: (rule.__doc__ or "").strip().split("\n")[0] for rule in RULES}
    before, steps = ("", _drawn(graph)), []
    for rule, plan in stages(graph, [draft.wanted] if draft.wanted else None):
        after = plan_text(plan), _drawn(plan)
        if after != before:
            steps.append({"rule": rule, "about": about[rule], "text": after[0],
                          "drawing": after[1]})  # fmt: skip
        before = after
    return {"steps": steps}


def _tried(entry: FlowEntry, draft: FlowTrial) -> dict[str, Any]:
    """What becomes of a message in each space that it can reach, arc by arc."""
    from tamis.flow.showing.flow_explanations import explain

    flow, held = opened(entry), draft.message.get("attributes")
    row = held if isinstance(held, dict) else draft.message
    targets = [draft.wanted] if draft.wanted else flow.graph.derived[:_MOST_SPACES]
    return {"spaces": [
        {"space": target,
         "explanation": explain(flow.graph, draft.space, row, target, flow.tables)}
        for target in targets
    ]}  # fmt: skip
