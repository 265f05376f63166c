"""Subscriptions of a channel: list, show, make, change and end them; what waits for them."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tamis.errors import SubscriptionError
from tamis.pubsub.broker.judge import Judge
from tamis.server.access import Caller
from tamis.server.assembly.parts import Parts
from tamis.server.numbers import Whole
from tamis.server.subscribing import Wish
from tamis.server.web.answers import form, json, whole_number


async def subscriptions(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require_subscriptions(channel.entry.name)
    text, after = request.query_params.get("q", "").lower(), request.query_params.get("after", "")
    limit = whole_number(request, "limit", 50, 1000)

    def listed() -> Response:
        found, held = [], channel.live.subscriptions
        for name in sorted(name for name in list(held) if name > after):
            one = held.get(name)
            if one is None or not parts.subscribing.shows(caller, channel, one):
                continue
            if text in f"{name} {one.filter.selector}".lower():
                found.append(parts.shown(channel, one))
                if len(found) > limit:
                    break
        return json({"subscriptions": found[:limit], "more": len(found) > limit})

    return await parts.questions.run(caller.name, listed)


async def subscription(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    found = parts.subscribing.find(caller, channel, request.path_params["s"])
    return json(parts.shown(channel, found))


async def versions(parts: Parts, caller: Caller, request: Request) -> Response:
    """Its filters, as far as messages may still be judged by them; the one in force is last."""
    channel = parts.channels.get(caller, request.path_params["c"])
    found = parts.subscribing.find(caller, channel, request.path_params["s"])
    return json({"versions": [
        {"since": one.since, "subjects": one.subjects, "selector": one.selector}
        for one in found.versions
    ]})  # fmt: skip


async def put_subscription(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    caller.require("subscribe", channel.entry.name)
    name, wish = request.path_params["s"], await form(request, Wish)
    parts.subscribing.check(caller, channel, wish)
    delivery = await parts.deliveries.wanted(wish)
    noted = asyncio.ensure_future(parts.notes(caller, channel, wish, name))  # beside the disk
    try:
        made = await parts.subscribing.durable(caller, channel, name, wish, delivery=delivery)
    except BaseException:
        noted.cancel()
        raise
    notes = await noted
    parts.deliveries.follow(made)
    parts.audit_soon(caller, "subscription.put", f"{channel.entry.name}/{name}")
    return json({**parts.shown(channel, made), "notes": notes})


async def dead_letters(parts: Parts, caller: Caller, request: Request) -> Response:
    channel = parts.channels.get(caller, request.path_params["c"])
    found = parts.subscribing.find(caller, channel, request.path_params["s"])
    delivery = parts.deliveries.known.get(found.key)
    letters = list(delivery.dead) if delivery else []
    return json({"failures": delivery.failures if delivery else 0, "dead": [
        {"sequence": record.sequence, "problem": problem} for record, problem in letters
    ]})  # fmt: skip


class Letters(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters; none named: all."""

    sequences: Annotated[list[Whole], msgspec.Meta(max_length=1_000)] = []


async def retry_dead(parts: Parts, caller: Caller, request: Request) -> Response:
    """Bring dead letters once more, those that its principal may still read."""
    channel = parts.channels.get(caller, request.path_params["c"])
    found = parts.subscribing.find(caller, channel, request.path_params["s"])
    asked: Letters = await form(request, Letters)
    delivery = parts.deliveries.known.get(found.key)
    if delivery is None or not delivery.running:
        why = delivery.problem if delivery else ""
        raise SubscriptionError(f"{found.name} is not delivered now" + (f": {why}" if why else ""))
    judge = Judge(channel.live.language)
    judge.add(0, ">", "", found.bound)
    letters = [record for record, _ in delivery.dead]
    allowed = {r.sequence for r in judge.hits(letters)}
    named = set(asked.sequences) or allowed
    taken, problem = await delivery.retry(lambda record: record.sequence in allowed & named)
    await parts.audit(caller, "subscription.retry", f"{channel.entry.name}/{found.name} {taken}")
    return json({"delivered": taken, "left": len(delivery.dead), "problem": problem})


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
    lag = parts.shown(channel, found)["lag"]
    parts.hub.broker.skip(found)
    parts.hub.pump()
    await parts.audit(caller, "subscription.drop", f"{channel.entry.name}/{found.name} {lag}")
    return json({"dropped": lag, **parts.shown(channel, found)})


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """Where to go on: "now", "all", a sequence, or a time in ISO 8601."""

    start: str | Whole


async def move(parts: Parts, caller: Caller, request: Request) -> Response:
    """Its cursor is set, and stored when this is answered."""
    channel = parts.channels.get(caller, request.path_params["c"])
    name = parts.subscribing.find(caller, channel, request.path_params["s"]).name
    place = await form(request, Place)
    found = await parts.subscribing.move(caller, channel, name, place.start)
    target = f"{channel.entry.name}/{name} {found.cursor + 1}"
    await parts.audit(caller, "subscription.move", target)
    return json(parts.shown(channel, found))


async def disconnect(parts: Parts, caller: Caller, request: Request) -> Response:
    """Nothing is lost: it goes on at its cursor when somebody takes it up again."""
    channel = parts.channels.get(caller, request.path_params["c"])
    found = parts.subscribing.find(caller, channel, request.path_params["s"])
    parts.hub.broker.send_away(found)
    parts.hub.pump()
    await parts.audit(caller, "subscription.disconnect", f"{channel.entry.name}/{found.name}")
    return await subscription(parts, caller, request)
