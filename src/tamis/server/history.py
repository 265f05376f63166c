"""How much passed through each channel in the last quarter of an hour."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tamis.pubsub.broker.live_channel import LiveChannel
from tamis.server.hub import Hub

SECONDS = 10  # between two samples
_SAMPLES = 90
FIGURES = ("messages", "matches", "deliveries")


def figures(live: LiveChannel) -> tuple[int, int, int]:
    return live.published, live.matches, live.deliveries


class History:
    """The counters of all channels, by time; 90 samples of each."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._samples: dict[int, deque[tuple[int, int, int]]] = {}

    def start(self) -> None:
        self.sample()
        self._hub.keep(self._hub.watch.repeat("history", SECONDS, self._sample))

    async def _sample(self) -> None:
        self.sample()

    def sample(self) -> None:
        channels = self._hub.broker.channels
        for number, live in channels.items():
            kept = self._samples.setdefault(number, deque(maxlen=_SAMPLES + 1))
            kept.append(figures(live))
        for number in self._samples.keys() - channels.keys():
            del self._samples[number]

    def rate(self, channel: int) -> float:
        """Messages a second, between the last two samples."""
        kept = self._samples.get(channel, deque[tuple[int, int, int]]())
        return (kept[-1][0] - kept[-2][0]) / SECONDS if len(kept) > 1 else 0.0

    def of(self, channels: Iterable[int]) -> dict[str, list[float]]:
        """What passed each second through these channels together; the newest last."""
        sums = [[0.0] * _SAMPLES for _ in FIGURES]
        for channel in channels:
            kept = list(self._samples.get(channel, ()))
            for place, (new, old) in enumerate(zip(kept[:0:-1], kept[-2::-1], strict=True), 1):
                for figure, total in enumerate(sums):
                    total[-place] += (new[figure] - old[figure]) / SECONDS
        return dict(zip(FIGURES, sums, strict=True))
