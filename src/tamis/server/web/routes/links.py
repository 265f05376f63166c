"""Links to other routers: list, pause, drain, and why a message crosses."""

from __future__ import annotations

import heapq

from starlette.requests import Request
from starlette.responses import Response

from tamis.errors import InputError
from tamis.pubsub.links.wants import Want
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.web.answers import json, whole_number

_MOST = 1_000  # wants of one answer


async def links(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require_any("manage")
    network = parts.network
    own = network.uplinks if caller.operates() else []
    ways = [{"address": one.address, "state": one.state} for one in own]
    return json({"router": network.name, "parents": ways, "links": network.shown(caller)})


async def pause(parts: Parts, caller: Caller, request: Request) -> Response:
    return await _paused(parts, caller, request, paused=True)


async def resume(parts: Parts, caller: Caller, request: Request) -> Response:
    return await _paused(parts, caller, request, paused=False)


async def _paused(parts: Parts, caller: Caller, request: Request, *, paused: bool) -> Response:
    child, channel = request.path_params["r"], request.path_params["c"]
    node = parts.network.branch(caller, child, channel)
    node.router.pause(child, paused=paused)
    node.pump()
    await parts.audit(caller, "link.pause" if paused else "link.resume", f"{child} {channel}")
    return Response(status_code=204)


async def drain(parts: Parts, caller: Caller, request: Request) -> Response:
    """Children go to other parents, until this router starts again."""
    caller.require_router()
    parts.network.drain(f"{parts.network.name} is drained")
    await parts.audit(caller, "link.drain", parts.network.name)
    return Response(status_code=204)


async def wants(parts: Parts, caller: Caller, request: Request) -> Response:
    """The pieces that a link lets pass, and for the parent's, who here wants each."""
    other, channel = request.path_params["r"], request.path_params["c"]
    node, direction, own = parts.network.pieces(caller, other, channel)
    most = whole_number(request, "limit", 50, _MOST)
    text = request.query_params.get("q", "").lower()
    # There may be millions of them.
    found, count = await parts.questions.run(caller.name, _first, list(own), text, most)
    by = node.router.wanted_by if direction == "up" else lambda _: [other]
    return json({
        "router": other, "channel": channel, "direction": direction, "of": len(own),
        "found": count, "wants": [{**want._asdict(), "wanted_by": by(want)} for want in found],
    })  # fmt: skip


def _first(own: list[Want], text: str, most: int) -> tuple[list[Want], int]:
    """The first ones in order whose subjects or selector have the text in them, and how many do."""
    have = [w for w in own if text in w.selector.lower() or text in w.subjects.lower()]
    return heapq.nsmallest(most, have, key=lambda w: (w.subjects, w.selector)), len(have)


async def why(parts: Parts, caller: Caller, request: Request) -> Response:
    """The wants of a child that a message satisfies."""
    child, channel = request.path_params["r"], request.path_params["c"]
    node = parts.network.branch(caller, child, channel)
    sequence = whole_number(request, "sequence", 0, 2**63 - 1)
    read = parts.hub.log.read
    found = await parts.hub.in_reader(read, node.number, sequence, 1)
    if not found or found[0].sequence != sequence:
        raise InputError(f"{parts.network.name} does not have message {sequence} of {channel}")
    node = parts.network.branch(caller, child, channel)  # it may have been forgotten meanwhile
    wants = node.router.why(child, found[0])
    return json({"crosses": bool(wants), "wants": [one._asdict() for one in wants]})
