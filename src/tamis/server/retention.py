"""Retention: what is too old or too much goes, by whole blocks; readers go on.

Age is counted by a clock that starts at the newest message in the log: a jump ahead of the
computer's clock, while the broker runs or before it starts, drops nothing until it has lasted.
"""

from __future__ import annotations

from functools import partial

from tamis.server.channels import Channels, Open
from tamis.server.clock import Clock
from tamis.server.hub import Hub

_EVERY = 5.0  # seconds between two looks at what may go
KIND = "retention"  # what /health calls it


class Retention:
    def __init__(self, hub: Hub, channels: Channels) -> None:
        self.hub, self.channels = hub, channels
        self.clock = hub.clock

    def start(self) -> None:
        newest = max((c.live.time for c in self.channels.by_number.values()), default=0)
        self.clock = Clock(newest / 1e6 if newest else None)
        self.hub.keep(self.hub.watch.repeat(KIND, _EVERY, self.trim_all))

    async def trim_all(self) -> None:
        """Each channel by itself: one that fails is reported, the others go on."""
        for known in list(self.channels.by_number.values()):
            await self.hub.watch.attempt(KIND, partial(self.trim, known), known.entry.number)

    async def trim(self, known: Open) -> None:
        hub, number = self.hub, known.entry.number
        first, following = await hub.in_reader(hub.log.bounds, number)
        before, retention = first, known.channel.properties.retention
        if retention is not None:
            oldest = max(0, int((self._now() - 60 * retention) * 1e6))
            before = max(before, await hub.in_reader(hub.log.kept_since, number, oldest))
        if known.entry.retention_bytes:
            size = await hub.in_reader(hub.log.size, number)
            if size > known.entry.retention_bytes:
                kept = (following - first) * known.entry.retention_bytes // size
                before = max(before, following - kept)
        await hub.absences.advance(known.live, before)
        if before > first and self.channels.by_number.get(number) is known:
            await hub.settle_before_trim(known.live, before)
            hub.trimmed(number, await hub.in_writer(hub.log.trim, number, before))

    def _now(self) -> float:
        return min(self.clock.now(), self.hub.clock.now())
