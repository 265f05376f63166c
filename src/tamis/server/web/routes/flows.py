"""Flows, and subscriptions on their derived spaces."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.spaces import FlowForm
from tamis.server.spaces import shown as shown_flow
from tamis.server.subscribing import Wish
from tamis.server.web.answers import form, json


async def flows(parts: Parts, caller: Caller, request: Request) -> Response:
    return json({"flows": [shown_flow(flow) for flow in parts.spaces.visible(caller)]})


async def flow(parts: Parts, caller: Caller, request: Request) -> Response:
    return json(shown_flow(parts.spaces.get(caller, request.path_params["f"])))


async def put_flow(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require_any("manage")
    name, told = request.path_params["f"], await form(request, FlowForm)
    made = await parts.spaces.put(caller, name, told)
    await parts.audit(caller, "flow.put", name)
    return json(shown_flow(made))


async def end_flow(parts: Parts, caller: Caller, request: Request) -> Response:
    await parts.spaces.end(caller, request.path_params["f"])
    await parts.audit(caller, "flow.end", request.path_params["f"])
    return Response(status_code=204)


def _place(request: Request) -> str:
    return f"{request.path_params['f']}/{request.path_params['x']}"


async def space_subscription(parts: Parts, caller: Caller, request: Request) -> Response:
    """What it is in each source channel."""
    found = parts.spaces.kept(caller, _place(request), request.path_params["s"])
    return json({"channels": {
        channel.entry.name: parts.shown(channel, one) for channel, one in found
    }})  # fmt: skip


async def put_space_subscription(parts: Parts, caller: Caller, request: Request) -> Response:
    parts.spaces.get(caller, request.path_params["f"])
    caller.require_any("subscribe")
    name, wish = request.path_params["s"], await form(request, Wish)
    delivery = await parts.deliveries.wanted(wish)
    made = await parts.spaces.keep(caller, _place(request), name, wish, delivery)
    for one in made.values():
        parts.deliveries.follow(one)
    parts.audit_soon(caller, "subscription.put", f"{_place(request)}/{name}")
    return await space_subscription(parts, caller, request)


async def end_space_subscription(parts: Parts, caller: Caller, request: Request) -> Response:
    name = request.path_params["s"]
    for channel, one in parts.spaces.kept(caller, _place(request), name):
        await parts.subscribing.end(caller, channel, name)
        parts.deliveries.forget(one.key)
    await parts.audit(caller, "subscription.end", f"{_place(request)}/{name}")
    return Response(status_code=204)
