"""Channels: list, show, create, change and close them; publish to them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tamis.pubsub.broker.epochs import agreed
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.channels import ChannelForm, Open, shown
from tamis.server.web.answers import body, form, json, whole_number
from tamis.server.web.routes import inspecting


async def channels(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require_any()
    text, after = request.query_params.get("q", "").lower(), request.query_params.get("after", "")
    limit = whole_number(request, "limit", 50, 1000)
    found = [c for c in parts.channels.visible(caller) if c.entry.name > after
             and text in f"{c.entry.name} {c.entry.sentence}".lower()]  # fmt: skip
    found.sort(key=lambda c: c.entry.name)
    page = [shown(caller, c) for c in found[:limit]]
    return json({"channels": page, "more": len(found) > limit})


async def channel(parts: Parts, caller: Caller, request: Request) -> Response:
    """`epoch` and `upto` as parameters: what a reader had; `agreed` says whether it still holds."""
    found = parts.channels.get(caller, request.path_params["c"])
    log, number = parts.hub.log, found.entry.number
    oldest, _ = await parts.hub.in_reader(log.bounds, number)
    epochs = await parts.hub.in_reader(log.epochs, number)
    told = {**shown(caller, found), "first": oldest, "readable": found.live.matched + 1,
            "epoch": epochs[-1].name if epochs else ""}  # fmt: skip
    if epoch := request.query_params.get("epoch", ""):
        upto = whole_number(request, "upto", 0, 2**63 - 1)
        told["agreed"] = min(agreed(epochs, epoch, upto), found.live.next - 1)
    return _tagged(found, json(told))


def _tagged(found: Open, answer: Response) -> Response:
    answer.headers["ETag"] = found.tag
    return answer


async def put_channel(parts: Parts, caller: Caller, request: Request) -> Response:
    name = request.path_params["c"]
    caller.require("manage", name)
    told: ChannelForm = await form(request, ChannelForm)
    made, new = await parts.channels.put(caller, name, told, request.headers.get("if-match"))
    await parts.audit(caller, "channel.create" if new else "channel.change", name)
    return _tagged(made, json(shown(caller, made), 201 if new else 200))


async def close_channel(parts: Parts, caller: Caller, request: Request) -> Response:
    name = request.path_params["c"]
    await parts.channels.close(caller, name, request.headers.get("if-match"))
    await parts.audit(caller, "channel.close", name)
    return Response(status_code=204)


async def publish(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("publish", channel.entry.name)
    kind = request.headers.get("content-type", "")
    data = await body(request)
    messages = parts.publishing.read(data, "ndjson" in kind or "jsonl" in kind)
    if request.query_params.get("dry") == "1":
        return await inspecting.dry_run(parts, caller, channel, messages)
    publisher = request.query_params.get("publisher", "")
    sequences = await parts.publishing.publish(caller, channel, publisher, messages, len(data))
    return json({"sequences": sequences})
