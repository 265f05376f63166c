"""All routes, as a table: what the server answers, and what /openapi.json tells."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from tamis.errors import AccessError, RegistryError
from tamis.language import parse
from tamis.registry import Principal, Right
from tamis.server.access import Caller, hashed, new_token
from tamis.server.channels import ChannelForm
from tamis.server.channels import shown as shown_channel
from tamis.server.parts import Parts
from tamis.server.publishing import Message, read_messages
from tamis.server.spaces import FlowForm
from tamis.server.spaces import shown as shown_flow
from tamis.server.subscribing import Wish
from tamis.server.subscribing import shown as shown_subscription
from tamis.server.web import inspecting, overview, replaying, searching, streaming
from tamis.server.web.forms import PrincipalForm, RightForm, TokenForm
from tamis.server.web.http import Handler, body, form, json, whole_number


class RouteEntry(NamedTuple):
    method: str
    path: str
    handler: Handler
    summary: str
    form: type[Any] | None = None
    query: tuple[str, ...] = ()
    media: str = "application/json"


# --- channels ---------------------------------------------------------------------


async def channels(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require_any()
    text, after = request.query_params.get("q", "").lower(), request.query_params.get("after", "")
    limit = whole_number(request, "limit", 50, 1000)
    found = [shown_channel(c) for c in parts.channels.visible(caller)]
    found = [c for c in found if text in f"{c['name']} {c['sentence']}".lower()]
    found = sorted((c for c in found if c["name"] > after), key=lambda c: str(c["name"]))
    return json({"channels": found[:limit], "more": len(found) > limit})


async def channel(parts: Parts, caller: Caller, request: Request) -> Response:
    found = parts.channels.get(caller, request.path_params["c"])
    oldest, _ = await parts.hub.in_reader(parts.hub.log.bounds, found.entry.number)
    readable = found.live.matched + 1
    return json({**shown_channel(found), "first": oldest, "readable": readable})


async def put_channel(parts: Parts, caller: Caller, request: Request) -> Response:
    name = request.path_params["c"]
    caller.require("manage", name)
    told: ChannelForm = await form(request, ChannelForm)
    known = (caller.tenant, name) in parts.channels.by_name
    change = parts.channels.change if known else parts.channels.create
    made = await change(caller, name, told)
    await parts.audit(caller, "channel.change" if known else "channel.create", name)
    return json(shown_channel(made), 200 if known else 201)


async def close_channel(parts: Parts, caller: Caller, request: Request) -> Response:
    name = request.path_params["c"]
    await parts.channels.close(caller, name)
    await parts.audit(caller, "channel.close", name)
    return Response(status_code=204)


# --- messages ---------------------------------------------------------------------


async def publish(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("publish", channel.entry.name)
    kind = request.headers.get("content-type", "")
    messages = read_messages(await body(request), "ndjson" in kind or "jsonl" in kind)
    if request.query_params.get("dry") == "1":
        drafts = parts.publishing.drafts(caller, channel, messages)
        return json({"matches": inspecting.would_match(caller, channel, drafts)})
    publisher = request.query_params.get("publisher", "")
    sequences = await parts.publishing.publish(caller, channel, publisher, messages)
    return json({"sequences": sequences})


# --- subscriptions ----------------------------------------------------------------


async def subscriptions(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("subscribe", channel.entry.name)
    text, after = request.query_params.get("q", "").lower(), request.query_params.get("after", "")
    limit = whole_number(request, "limit", 50, 1000)
    found = []
    for name in sorted(channel.live.subscriptions):
        one = channel.live.subscriptions[name]
        own = parts.subscribing.shows(caller, channel, one)
        if name > after and own and text in f"{name} {one.filter.selector}".lower():
            found.append(shown_subscription(one, channel.live.matched))
            if len(found) > limit:
                break
    return json({"subscriptions": found[:limit], "more": len(found) > limit})


async def subscription(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    found = parts.subscribing.find(caller, channel, request.path_params["s"])
    return json(shown_subscription(found, channel.live.matched))


async def put_subscription(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("subscribe", channel.entry.name)
    name, wish = request.path_params["s"], await form(request, Wish)
    parts.subscribing.check(caller, channel, wish)
    delivery = parts.deliveries.wanted(wish)
    noted = asyncio.ensure_future(parts.notes(caller, channel, wish, name))  # beside the disk
    try:
        made = await parts.subscribing.durable(caller, channel, name, wish, delivery=delivery)
    except BaseException:
        noted.cancel()
        raise
    notes = await noted
    parts.deliveries.follow(made)
    parts.audit_soon(caller, "subscription.put", f"{channel.entry.name}/{name}")
    return json({**shown_subscription(made, channel.live.matched), "notes": notes})


async def dead_letters(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    found = parts.subscribing.find(caller, channel, request.path_params["s"])
    delivery = parts.deliveries.running.get(found.key)
    letters = list(delivery.dead) if delivery else []
    return json({"failures": delivery.failures if delivery else 0, "dead": [
        {"sequence": record.sequence, "problem": problem} for record, problem in letters
    ]})  # fmt: skip


async def end_subscription(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    await parts.subscribing.end(caller, channel, request.path_params["s"])
    parts.deliveries.forget((channel.entry.number, request.path_params["s"]))
    name = f"{channel.entry.name}/{request.path_params['s']}"
    await parts.audit(caller, "subscription.end", name)
    return Response(status_code=204)


async def pause(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    await parts.subscribing.pause(caller, channel, request.path_params["s"], True)
    return await subscription(parts, caller, request)


async def resume(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    await parts.subscribing.pause(caller, channel, request.path_params["s"], False)
    return await subscription(parts, caller, request)


async def drop_waiting(parts: Parts, caller: Caller, request: Request) -> Response:
    """What it has not got yet is given up; the answer says how much that was."""
    channel = parts.channels.get(caller, request.path_params["c"])
    found = parts.subscribing.find(caller, channel, request.path_params["s"])
    lag = shown_subscription(found, channel.live.matched)["lag"]
    parts.hub.broker.skip(found)
    parts.hub.pump()
    await parts.audit(caller, "subscription.drop", f"{channel.entry.name}/{found.name} {lag}")
    return json({"dropped": lag, **shown_subscription(found, channel.live.matched)})


async def disconnect(parts: Parts, caller: Caller, request: Request) -> Response:
    """Nothing is lost: it goes on at its cursor when somebody takes it up again."""
    channel = parts.channels.get(caller, request.path_params["c"])
    found = parts.subscribing.find(caller, channel, request.path_params["s"])
    parts.hub.broker.send_away(found)
    parts.hub.pump()
    await parts.audit(caller, "subscription.disconnect", f"{channel.entry.name}/{found.name}")
    return await subscription(parts, caller, request)


# --- flows ------------------------------------------------------------------------


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
        channel.entry.name: shown_subscription(one, channel.live.matched) for channel, one in found
    }})  # fmt: skip


async def put_space_subscription(parts: Parts, caller: Caller, request: Request) -> Response:
    parts.spaces.get(caller, request.path_params["f"])
    caller.require_any("subscribe")
    name, wish = request.path_params["s"], await form(request, Wish)
    delivery = parts.deliveries.wanted(wish)
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


# --- principals -------------------------------------------------------------------


def _managed(parts: Parts, caller: Caller, name: str) -> Principal:
    """A principal of the caller's tenant; only managers of all may ask."""
    caller.require("manage", "*")
    found = _known(parts, caller.tenant, name)
    if found is None:
        raise RegistryError(f"there is no principal {name}")
    return found


def _known(parts: Parts, tenant: str, name: str) -> Principal | None:
    everybody = parts.hub.registry.principals()
    return next((p for p in everybody if (p.tenant, p.name) == (tenant, name)), None)


async def put_principal(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require("manage", "*")
    name, told = request.path_params["p"], await form(request, PrincipalForm)
    tenant = told.tenant or caller.tenant
    if caller.rights is not None and tenant != caller.tenant:
        raise AccessError(f"{caller.name} has no right to another tenant")
    known = _known(parts, tenant, name)
    if told.selector:
        for dialect in ("tamis", "jms"):
            parse(told.selector, dialect=dialect)
    password = hashed(told.password) if told.password else known.password if known else ""
    made = Principal(name, tenant, password, told.selector, told.rate, told.subscriptions)
    await parts.hub.in_registry(parts.hub.registry.put_principal, made)
    await parts.visits.renew()
    await parts.audit(caller, "principal.put", made.login)
    return json({"name": name, "tenant": tenant, "login": made.login}, 200 if known else 201)


async def principals(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require("manage", "*")
    found = [p for p in parts.hub.registry.principals()
             if caller.rights is None or p.tenant == caller.tenant]  # fmt: skip
    return json({"principals": [
        {"name": p.name, "tenant": p.tenant, "login": p.login, "selector": p.selector,
         "rate": p.rate, "rights": parts.hub.registry.rights(p.login)} for p in found
    ]})  # fmt: skip


async def end_principal(parts: Parts, caller: Caller, request: Request) -> Response:
    name = _managed(parts, caller, request.path_params["p"]).login
    await parts.hub.in_registry(parts.hub.registry.remove_principal, name)
    gone = AccessError(f"principal {name} has ended", known=False)
    for live in parts.hub.broker.channels.values():
        for one in [s for s in live.subscriptions.values() if s.principal == name]:
            parts.hub.broker.drop(one, gone)
    parts.hub.pump()
    await parts.visits.renew()
    await parts.audit(caller, "principal.end", name)
    return Response(status_code=204)


async def put_right(parts: Parts, caller: Caller, request: Request) -> Response:
    name = _managed(parts, caller, request.path_params["p"]).login
    told = await form(request, RightForm)
    change = parts.hub.registry.put_right if request.method == "POST" else (
        parts.hub.registry.remove_right
    )  # fmt: skip
    await parts.hub.in_registry(change, Right(name, told.verb, told.channel, told.subjects))
    await parts.visits.renew()
    verb = "right.give" if request.method == "POST" else "right.take"
    await parts.audit(caller, verb, f"{name} {told.verb} {told.channel} {told.subjects}")
    return json({"rights": parts.hub.registry.rights(name)})


async def make_token(parts: Parts, caller: Caller, request: Request) -> Response:
    name = _managed(parts, caller, request.path_params["p"]).login
    told = await form(request, TokenForm)
    registry = parts.hub.registry
    secret = await parts.hub.in_registry(
        new_token, registry, name, told.label, tuple(told.verbs), told.seconds
    )
    await parts.audit(caller, "token.make", f"{name} {told.label}")
    return json({"token": secret}, 201)


async def tokens(parts: Parts, caller: Caller, request: Request) -> Response:
    """Never the secrets themselves: only their hashes are kept."""
    name = _managed(parts, caller, request.path_params["p"]).login
    found = parts.hub.registry.tokens(name)
    return json({"tokens": [
        {"id": t.digest[:_TOKEN_ID], "label": t.label, "verbs": t.verbs, "expires": t.expires}
        for t in found
    ]})  # fmt: skip


async def end_token(parts: Parts, caller: Caller, request: Request) -> Response:
    name = _managed(parts, caller, request.path_params["p"]).login
    wanted = request.path_params["t"]
    known = [t for t in parts.hub.registry.tokens(name) if t.digest[:_TOKEN_ID] == wanted]
    if not known:
        raise RegistryError(f"there is no token {wanted}")
    await parts.hub.in_registry(parts.hub.registry.remove_token, known[0].digest)
    await parts.visits.renew()
    await parts.audit(caller, "token.end", f"{name} {known[0].label}")
    return Response(status_code=204)


async def audit(parts: Parts, caller: Caller, request: Request) -> Response:
    caller.require("manage", "*")
    most = whole_number(request, "limit", 100, 1000)
    await parts.hub.flush_audits()
    entries = parts.hub.registry.audits(most, None if caller.rights is None else caller.tenant)
    return json({"audit": entries})


# --- what needs no rights -----------------------------------------------------------


def health(parts: Parts) -> Response:
    problem = parts.hub.problem
    seconds = round(time.time() - parts.hub.started, 3)
    status = {"status": "refusing" if problem else "ok", "seconds": seconds}
    return json({**status, **({"problem": "the log cannot be written"} if problem else {})})


def metrics(parts: Parts) -> Response:
    broker = parts.hub.broker
    subscriptions = sum(len(c.subscriptions) for c in broker.channels.values())
    values = {
        "tamis_published_messages_total": broker.published,
        "tamis_delivered_messages_total": broker.delivered,
        "tamis_refused_messages_total": parts.hub.refused,
        "tamis_sessions": len(broker.sessions),
        "tamis_subscriptions": subscriptions,
        "tamis_channels": len(broker.channels),
        "tamis_subscriptions_behind": broker.behind,
    }
    lines = []
    for name, value in values.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE {name} {kind}", f"{name} {value}"]
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


OPEN = {"/health": health, "/metrics": metrics}
_C, _S, _P = "/api/channels/{c}", "/api/channels/{c}/subscriptions/{s}", "/api/principals/{p}"
_X = "/api/flows/{f}/spaces/{x}"
_PAGE = ("q", "after", "limit")
_TOKEN_ID = 16  # characters of a token's hash that name it
_RANGE = ("first", "before", "since", "until", "selector", "subjects", "limit")
ROUTES: tuple[RouteEntry, ...] = (
    RouteEntry("GET", "/api/channels", channels, "List channels", query=_PAGE),
    RouteEntry("GET", _C, channel, "Show a channel"),
    RouteEntry("PUT", _C, put_channel, "Create or change a channel", ChannelForm),
    RouteEntry("DELETE", _C, close_channel, "Close a channel and drop its messages"),
    RouteEntry("POST", f"{_C}/messages", publish, "Publish, or with dry=1 tell who would get it",
               Message, ("publisher", "dry")),
    RouteEntry("GET", f"{_C}/messages", replaying.replay, "Replay stored messages as JSON lines",
               query=_RANGE, media="application/x-ndjson"),
    RouteEntry("GET", f"{_C}/live", streaming.live, "Live messages as an event stream",
               query=("selector", "subjects", "start"), media="text/event-stream"),
    RouteEntry("POST", f"{_C}/check", inspecting.check, "Check a selector", Wish),
    RouteEntry("POST", f"{_C}/explain", inspecting.explained, "Why a message matches or not",
               inspecting.Question),
    RouteEntry("POST", f"{_C}/near", inspecting.near, "Subscriptions that fail by one predicate",
               inspecting.Question),
    RouteEntry("GET", f"{_C}/values/{{a}}", inspecting.values, "Values of an attribute seen lately",
               query=("q",)),
    RouteEntry("GET", f"{_C}/subscriptions", subscriptions, "List subscriptions", query=_PAGE),
    RouteEntry("GET", _S, subscription, "Show a subscription"),
    RouteEntry("PUT", _S, put_subscription, "Make or change a durable subscription", Wish),
    RouteEntry("GET", f"{_S}/dead", dead_letters, "What a webhook gave up"),
    RouteEntry("DELETE", _S, end_subscription, "End a durable subscription"),
    RouteEntry("POST", f"{_S}/pause", pause, "Pause a durable subscription"),
    RouteEntry("POST", f"{_S}/resume", resume, "Resume a durable subscription"),
    RouteEntry("POST", f"{_S}/drop", drop_waiting, "Give up what it has not got yet"),
    RouteEntry("POST", f"{_S}/disconnect", disconnect, "Take it from its connection"),
    RouteEntry("GET", "/api/subscriptions", searching.search, "Search all subscriptions",
               query=_PAGE),
    RouteEntry("GET", "/api/subscriptions/count", searching.count, "Count what a search finds",
               query=("q",)),
    RouteEntry("GET", "/api/subscribers", overview.subscribers, "Subscribers by lag",
               query=("limit",)),
    RouteEntry("GET", "/api/overview", overview.overview, "Figures, problems, last changes"),
    RouteEntry("GET", "/api/events", overview.events, "The figures once a second",
               media="text/event-stream"),
    RouteEntry("GET", "/api/flows", flows, "List flows"),
    RouteEntry("GET", "/api/flows/{f}", flow, "Show a flow"),
    RouteEntry("PUT", "/api/flows/{f}", put_flow, "Make or change a flow", FlowForm),
    RouteEntry("DELETE", "/api/flows/{f}", end_flow, "End a flow"),
    RouteEntry("GET", f"{_X}/live", streaming.live_space, "Live messages of a derived space",
               query=("selector", "subjects", "start"), media="text/event-stream"),
    RouteEntry("GET", f"{_X}/subscriptions/{{s}}", space_subscription,
               "Show a subscription on a derived space"),
    RouteEntry("PUT", f"{_X}/subscriptions/{{s}}", put_space_subscription,
               "Make or change a durable subscription on a derived space", Wish),
    RouteEntry("DELETE", f"{_X}/subscriptions/{{s}}", end_space_subscription,
               "End a subscription on a derived space"),
    RouteEntry("GET", "/api/principals", principals, "List principals"),
    RouteEntry("PUT", _P, put_principal, "Make or change a principal", PrincipalForm),
    RouteEntry("DELETE", _P, end_principal, "End a principal"),
    RouteEntry("POST", f"{_P}/rights", put_right, "Give a right", RightForm),
    RouteEntry("DELETE", f"{_P}/rights", put_right, "Take a right back", RightForm),
    RouteEntry("POST", f"{_P}/tokens", make_token, "Make a token", TokenForm),
    RouteEntry("GET", f"{_P}/tokens", tokens, "List tokens, without their secrets"),
    RouteEntry("DELETE", f"{_P}/tokens/{{t}}", end_token, "End a token"),
    RouteEntry("GET", "/api/audit", audit, "Who changed what", query=("limit",)),
)  # fmt: skip
