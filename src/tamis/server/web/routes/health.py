"""What needs no rights: whether the broker is well, and its figures for Prometheus."""

from __future__ import annotations

import time

from starlette.responses import Response

from tamis.server.assembly.parts import Parts
from tamis.server.slices import sliced
from tamis.server.web.answers import json


async def health(parts: Parts) -> Response:
    """Without names: anybody may ask. `/api/overview` tells managers more."""
    problem, failing = parts.hub.problem, parts.hub.watch.counts()
    if aside := sum(len(channel.aside) for channel in parts.hub.broker.channels.values()):
        failing["subscriptions"] = aside
    status = "refusing" if problem else "failing" if failing else "ok"
    told = {"status": status, "seconds": round(time.time() - parts.hub.started, 3)}
    told |= {"problem": "the log cannot be written"} if problem else {}
    told |= {"faults": parts.hub.watch.failures} if parts.hub.watch.failures else {}
    told |= {"failing": failing} if failing else {}
    undelivered = parts.deliveries.failing
    return json({**told, **({"deliveries_failing": undelivered} if undelivered else {})})


async def metrics(parts: Parts) -> Response:
    broker, behind = parts.hub.broker, 0
    async for session in sliced(list(broker.sessions.values())):
        behind += session.behind
    subscriptions = sum(len(c.subscriptions) for c in broker.channels.values())
    values = {
        "tamis_published_messages_total": broker.published,
        "tamis_delivered_messages_total": broker.delivered,
        "tamis_refused_messages_total": parts.hub.refused,
        "tamis_refused_logins_total": parts.recognition.guesses.refused,
        "tamis_sessions": len(broker.sessions),
        "tamis_subscriptions": subscriptions,
        "tamis_channels": len(broker.channels),
        "tamis_subscriptions_behind": behind,
        "tamis_subscriptions_failed": sum(len(c.aside) for c in broker.channels.values()),
        "tamis_deliveries": len(parts.deliveries.known),
        "tamis_deliveries_failing": parts.deliveries.failing,
        "tamis_delivery_failures_total": parts.deliveries.tally.failures,
        "tamis_dead_letters_total": parts.deliveries.tally.dead,
        "tamis_webhooks_in_flight": parts.deliveries.poster.turns.taken,
        "tamis_background_failing": len(parts.hub.watch.failing),
        "tamis_background_failures_total": parts.hub.watch.failures,
        "tamis_connections": parts.gate.open,
        "tamis_refused_connections_total": parts.gate.refused,
        "tamis_late_connections_total": parts.gate.late,
        "tamis_unread_connections_total": parts.gate.unread,
    }
    lines = []
    for name, value in values.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE {name} {kind}", f"{name} {value}"]
    lines += parts.pauses.metrics()
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
