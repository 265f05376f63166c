"""All routes, as a table: what the server answers, and what /openapi.json tells."""

from __future__ import annotations

from typing import Any, NamedTuple

from tamis.server.channels import ChannelForm
from tamis.server.publishing import Message
from tamis.server.spaces import FlowForm
from tamis.server.subscribing import Wish
from tamis.server.web.answers import Handler
from tamis.server.web.routes import (
    channels,
    flow_drafts,
    flows,
    health,
    inspecting,
    links,
    overview,
    principals,
    replaying,
    searching,
    streaming,
    subscriptions,
)
from tamis.server.web.routes.principals import PrincipalForm, RightForm, TokenForm


class RouteEntry(NamedTuple):
    method: str
    path: str
    handler: Handler
    summary: str
    form: type[Any] | None = None
    query: tuple[str, ...] = ()
    media: str = "application/json"
    versioned: bool = False  # its answer has an ETag, and a change may ask for it by If-Match


OPEN = {"/health": health.health, "/metrics": health.metrics}
_C, _S, _P = "/api/channels/{c}", "/api/channels/{c}/subscriptions/{s}", "/api/principals/{p}"
_X, _L = "/api/flows/{f}/spaces/{x}", "/api/links/{r}/{c}"
_PAGE = ("q", "after", "limit")
_RANGE = ("first", "before", "since", "until", "selector", "subjects", "limit")
ROUTES: tuple[RouteEntry, ...] = (
    RouteEntry("GET", "/api/channels", channels.channels, "List channels", query=_PAGE),
    RouteEntry("GET", _C, channels.channel, "Show a channel", query=("epoch", "upto"),
               versioned=True),
    RouteEntry("PUT", _C, channels.put_channel, "Create or change a channel", ChannelForm,
               versioned=True),
    RouteEntry("DELETE", _C, channels.close_channel, "Close a channel and drop its messages",
               versioned=True),
    RouteEntry("POST", f"{_C}/messages", channels.publish,
               "Publish, or with dry=1 tell who would get it", Message, ("publisher", "dry")),
    RouteEntry("GET", f"{_C}/messages", replaying.replay, "Replay stored messages as JSON lines",
               query=_RANGE, media="application/x-ndjson"),
    RouteEntry("GET", f"{_C}/live", streaming.live, "Live messages as an event stream",
               query=("selector", "subjects", "start"), media="text/event-stream"),
    RouteEntry("POST", f"{_C}/check", inspecting.check, "Check a selector", Wish),
    RouteEntry("POST", f"{_C}/spelling", inspecting.spelling,
               "Attributes of messages that nothing uses", inspecting.Names),
    RouteEntry("POST", f"{_C}/explain", inspecting.explained, "Why a message matches or not",
               inspecting.Question),
    RouteEntry("POST", f"{_C}/near", inspecting.near, "Subscriptions that fail by one predicate",
               inspecting.Question),
    RouteEntry("GET", f"{_C}/values/{{a}}", inspecting.values, "Values of an attribute seen lately",
               query=("q",)),
    RouteEntry("GET", f"{_C}/subscriptions", subscriptions.subscriptions, "List subscriptions",
               query=_PAGE),
    RouteEntry("GET", _S, subscriptions.subscription, "Show a subscription"),
    RouteEntry("PUT", _S, subscriptions.put_subscription,
               "Make or change a durable subscription", Wish),
    RouteEntry("GET", f"{_S}/versions", subscriptions.versions, "Filters of a subscription"),
    RouteEntry("GET", f"{_S}/dead", subscriptions.dead_letters, "What a webhook gave up"),
    RouteEntry("POST", f"{_S}/dead/retry", subscriptions.retry_dead, "Bring dead letters again",
               subscriptions.Letters),
    RouteEntry("DELETE", _S, subscriptions.end_subscription, "End a durable subscription"),
    RouteEntry("POST", f"{_S}/pause", subscriptions.pause, "Pause a durable subscription"),
    RouteEntry("POST", f"{_S}/resume", subscriptions.resume, "Resume a durable subscription"),
    RouteEntry("POST", f"{_S}/drop", subscriptions.drop_waiting, "Give up what it has not got yet"),
    RouteEntry("PUT", f"{_S}/cursor", subscriptions.move, "Go on elsewhere",
               subscriptions.Place),
    RouteEntry("POST", f"{_S}/disconnect", subscriptions.disconnect, "Take it from its connection"),
    RouteEntry("GET", "/api/subscriptions", searching.search, "Search all subscriptions",
               query=_PAGE),
    RouteEntry("GET", "/api/subscriptions/count", searching.count, "Count what a search finds",
               query=("q",)),
    RouteEntry("GET", "/api/subscribers", overview.subscribers, "Subscribers by lag",
               query=("limit",)),
    RouteEntry("GET", "/api/overview", overview.overview, "Figures, problems, last changes"),
    RouteEntry("GET", "/api/events", overview.events, "The figures once a second",
               media="text/event-stream"),
    RouteEntry("GET", "/api/flows", flows.flows, "List flows"),
    RouteEntry("GET", "/api/flows/{f}", flows.flow, "Show a flow"),
    RouteEntry("PUT", "/api/flows/{f}", flows.put_flow, "Make or change a flow", FlowForm),
    RouteEntry("DELETE", "/api/flows/{f}", flows.end_flow, "End a flow"),
    RouteEntry("POST", "/api/flows/{f}/check", flow_drafts.check, "Check a draft of a flow",
               flow_drafts.FlowDraft),
    RouteEntry("POST", "/api/flows/{f}/rewrite", flow_drafts.rewrite,
               "Rewrite a draft rule by rule", flow_drafts.FlowDraft),
    RouteEntry("POST", "/api/flows/{f}/try", flow_drafts.trial,
               "What becomes of a message in a draft", flow_drafts.FlowTrial),
    RouteEntry("GET", f"{_X}/live", streaming.live_space, "Live messages of a derived space",
               query=("selector", "subjects", "start"), media="text/event-stream"),
    RouteEntry("GET", f"{_X}/subscriptions/{{s}}", flows.space_subscription,
               "Show a subscription on a derived space"),
    RouteEntry("PUT", f"{_X}/subscriptions/{{s}}", flows.put_space_subscription,
               "Make or change a durable subscription on a derived space", Wish),
    RouteEntry("DELETE", f"{_X}/subscriptions/{{s}}", flows.end_space_subscription,
               "End a subscription on a derived space"),
    RouteEntry("GET", "/api/principals", principals.principals, "List principals"),
    RouteEntry("PUT", _P, principals.put_principal, "Make or change a principal", PrincipalForm),
    RouteEntry("DELETE", _P, principals.end_principal, "End a principal"),
    RouteEntry("POST", f"{_P}/rights", principals.put_right, "Give a right", RightForm),
    RouteEntry("DELETE", f"{_P}/rights", principals.put_right, "Take a right back", RightForm),
    RouteEntry("POST", f"{_P}/tokens", principals.make_token, "Make a token", TokenForm),
    RouteEntry("GET", f"{_P}/tokens", principals.tokens, "List tokens, without their secrets"),
    RouteEntry("DELETE", f"{_P}/tokens/{{t}}", principals.end_token, "End a token"),
    RouteEntry("GET", "/api/links", links.links, "Links to other routers"),
    RouteEntry("POST", "/api/links/drain", links.drain, "Send children to other parents"),
    RouteEntry("POST", f"{_L}/pause", links.pause, "Send a child nothing for a while"),
    RouteEntry("POST", f"{_L}/resume", links.resume, "Go on sending"),
    RouteEntry("GET", f"{_L}/wants", links.wants, "What a link lets pass, piece by piece",
               query=("q", "limit")),
    RouteEntry("GET", f"{_L}/why", links.why, "Why a message crosses a link",
               query=("sequence",)),
    RouteEntry("GET", "/api/audit", principals.audit, "Who changed what", query=("limit",)),
)  # fmt: skip
