"""What goes on: figures of the last minutes, slow subscribers, problems, what changed last."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Hashable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tamis.pubsub.broker.subscription import Subscription
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.channels import Open, seen_subscriptions
from tamis.server.frames import encode
from tamis.server.history import FIGURES, SECONDS, figures
from tamis.server.web.answers import json, whole_number

_SHOWN = 5
_PROBLEMS = 50
_STALLED = 1_000  # messages behind, with a session and without room: it does not read


async def overview(parts: Parts, caller: Caller, request: Request) -> Response:
    """Of all channels that the caller sees; figures of those that it may read wholly or manage;
    changes only for those who manage all."""
    caller.require_any()
    channels = parts.channels.visible(caller)
    slowest = await _slowest_of(parts, caller, channels, _SHOWN)
    whole = _whole(caller, channels)
    busiest = heapq.nlargest(_SHOWN, whole, key=lambda c: parts.history.rate(c.entry.number))
    unheard = await _unheard(parts, caller, channels)
    changes = []
    if caller.may("manage", "*"):
        tenant = None if caller.rights is None else caller.tenant
        changes = parts.hub.registry.audits(10, tenant)
    return json({
        **totals(caller, channels),
        "history": {"seconds": SECONDS, **parts.history.of(c.entry.number for c in whole)},
        "slowest": slowest,
        "channels": [{"name": c.entry.name, "rate": parts.history.rate(c.entry.number)}
                     for c in busiest],
        "problems": (_problems(parts, caller, channels) + unheard)[:_PROBLEMS],
        "changes": changes,
    })  # fmt: skip


def _whole(caller: Caller, channels: list[Open]) -> list[Open]:
    return [c for c in channels if caller.sees_figures(c.entry.name)]


def totals(caller: Caller, channels: list[Open]) -> dict[str, int]:
    rows = (figures(c.live) for c in _whole(caller, channels))
    sums = [sum(values) for values in zip(*rows, strict=True)]
    return dict(zip(FIGURES, sums or [0] * len(FIGURES), strict=True)) | {
        "subscriptions": sum(seen_subscriptions(caller, c) for c in channels)
    }


def _problems(parts: Parts, caller: Caller, channels: list[Open]) -> list[str]:
    found = ["the log cannot be written: publishing is refused"] if parts.hub.problem else []
    found += _failing(parts, caller, channels)
    by_number = {channel.entry.number: channel for channel in channels}
    for key, delivery in parts.deliveries.known.items():
        one, channel = delivery.subscription, by_number.get(key[0])
        if channel is None or not parts.subscribing.shows(caller, channel, one):
            continue
        if delivery.dead:
            found.append(f"{one.name} gave up {len(delivery.dead):,} messages")
        if delivery.problem:
            found.append(f"{one.name} is not delivered: {delivery.problem}")
    return found[:_PROBLEMS]


async def _unheard(parts: Parts, caller: Caller, channels: list[Open]) -> list[str]:
    """Subscriptions that cannot match: no message has an attribute that they test."""
    await parts.spelling.look_for_problems(channels)
    return await parts.questions.run(caller.name, _unheard_of, parts, caller, channels)


def _unheard_of(parts: Parts, caller: Caller, channels: list[Open]) -> list[str]:
    found: list[str] = []
    for channel in channels:
        place = channel.entry.name
        hints = caller.may("manage", place)
        for name, attribute in parts.spelling.troubled(channel).items():
            one = channel.live.subscriptions.get(name)
            if one is None or one.matched + one.seated or len(found) >= _PROBLEMS:
                continue
            if parts.subscribing.shows(caller, channel, one):
                problem = parts.spelling.problem(channel, attribute, hints)
                found.append(f"subscription {one.label} of {place}: {problem}")
    return found


def _failing(parts: Parts, caller: Caller, channels: list[Open]) -> list[str]:
    """Background work that fails: of channels that the caller manages, and for all channels."""
    names: dict[Hashable, str] = {c.entry.number: f" of channel {c.entry.name}" for c in channels
             if caller.may("manage", c.entry.name)}  # fmt: skip
    names |= {None: ""} if caller.may("manage", "*") else {}
    failing = parts.hub.watch.failing.items()
    return [f"{kind}{names[about]} fails: {failure.error}"
            for (kind, about), failure in failing if about in names]  # fmt: skip


async def events(parts: Parts, caller: Caller, request: Request) -> Response:
    """The totals once a second, as server-sent events."""
    caller.require_any()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_ticks(parts, caller), media_type="text/event-stream", headers=headers)


async def _ticks(parts: Parts, caller: Caller) -> AsyncIterator[bytes]:
    with parts.visits.during(caller) as visit:
        while visit.error is None:
            caller = visit.caller
            yield b"data: %b\n\n" % encode(totals(caller, parts.channels.visible(caller)))
            await asyncio.sleep(1)


# --- subscribers --------------------------------------------------------------------


async def subscribers(parts: Parts, caller: Caller, request: Request) -> Response:
    """Durable subscriptions, those that are furthest behind first."""
    caller.require_any()
    limit = whole_number(request, "limit", 50, 1000)
    channels = parts.channels.visible(caller)
    return json({"subscribers": await _slowest_of(parts, caller, channels, limit)})


async def _slowest_of(
    parts: Parts, caller: Caller, channels: list[Open], most: int
) -> list[dict[str, Any]]:
    return await parts.questions.run(caller.name, _slowest, parts, caller, channels, most)


def _slowest(parts: Parts, caller: Caller, channels: list[Open], most: int) -> list[dict[str, Any]]:
    durable = [
        (c.live.matched - one.done(c.live.matched), c, one)
        for c in channels
        for one in list(c.live.subscriptions.values())
        if one.durable and parts.subscribing.shows(caller, c, one)
    ]
    found = heapq.nlargest(most, durable, key=lambda row: row[0])
    return [_subscriber(parts, channel, one) for _, channel, one in found]


def _subscriber(parts: Parts, channel: Open, one: Subscription) -> dict[str, Any]:
    told = parts.shown(channel, one)
    delivery = parts.deliveries.known.get(one.key)
    return {
        "channel": channel.entry.name,
        **told,
        "state": _state(one, told["lag"]),
        "waiting": len(one.sent or ()),
        "window": one.window,
        "failures": delivery.failures if delivery else 0,
        "dead": len(delivery.dead) if delivery else 0,
    }


def _state(one: Subscription, lag: int) -> str:
    if one.paused or one.session is None:
        return "paused" if one.paused else "gone"
    if not one.ready and lag > _STALLED:
        return "stalled"
    return "keeps up" if one.live else "behind"
