"""A clock that no momentary jump moves.

It follows the computer's clock, with one exception: a step ahead counts only after it has lasted
for ten minutes. Until then time goes on from where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable

TOLERANCE = 1.0  # seconds ahead that are followed at once
LASTING = 600.0  # seconds until a longer step ahead is believed


def _steady() -> float:
    """Seconds that no one sets; they count on while the computer sleeps, if the system can."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class Clock:
    """Seconds since 1970. `start`: the last time that is known for certain; else it is now."""

    def __init__(
        self,
        start: float | None = None,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = _steady,
    ) -> None:
        self._wall, self._steady = wall, steady
        self._offset = (wall() if start is None else start) - steady()
        self._ahead: tuple[float, float] | None = None  # since when, by which offset
        self.now()

    def now(self) -> float:
        steady = self._steady()
        offset = self._wall() - steady
        if offset <= self._offset + TOLERANCE or self._has_lasted(steady, offset):
            self._offset, self._ahead = offset, None
        return steady + self._offset

    def micros(self) -> int:
        return int(self.now() * 1e6)

    def _has_lasted(self, steady: float, offset: float) -> bool:
        if self._ahead is None or abs(offset - self._ahead[1]) > TOLERANCE:
            self._ahead = steady, offset
        return steady - self._ahead[0] >= LASTING
