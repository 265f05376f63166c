"""How long the event loop is held: every connection waits that long.

A timer beats a few hundred times a second and measures how late it is. A thread looks where the
loop is when a beat is overdue, so that the log can name the code that held it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

LOG = logging.getLogger("tamis.server.pauses")
LIMIT = 0.05  # seconds; a longer pause is logged
_BEAT = 0.005  # seconds between two beats: no pause is measured shorter than it was by more
_MINUTE = 60.0
_FRAMES = 4  # functions that a line in the log names
_QUIET = 1.0  # seconds between two lines in the log
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_ASYNCIO = str(Path(asyncio.__file__).parent)
_Place = tuple[tuple[CodeType, int], ...]
_NAME = "tamis_loop_pause_seconds"


class Pauses:
    """The pauses of the loop that runs when `start` is called, until `stop`."""

    def __init__(self) -> None:
        self.longest = 0.0  # seconds, since the start
        self._recent: deque[tuple[float, float]] = (
            deque()
        )  # times and pauses, each the longest since
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0
        self._due = self._logged = 0.0
        self._collecting = self._collected = 0.0
        self._places: list[_Place] = []  # where the loop was seen since a beat is overdue
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = time.monotonic()
        self._beat()
        gc.callbacks.append(self._on_collection)
        loop_thread = threading.get_ident()
        self._watcher = threading.Thread(
            target=self._watch, args=(loop_thread,), name="tamis-pauses", daemon=True
        )
        self._watcher.start()

    def stop(self) -> None:
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join()
            gc.callbacks.remove(self._on_collection)
            self._watcher = None

    # --- measuring ------------------------------------------------------------------

    def _beat(self) -> None:
        if self._ended.is_set():
            return
        now = time.monotonic()
        self.note(now, max(0.0, now - self._due))
        self._due = now + _BEAT
        self._loop.call_later(_BEAT, self._beat)

    def note(self, now: float, pause: float) -> None:
        """The loop was held for so many seconds until now."""
        self._counts[bisect_left(_BOUNDS, pause)] += 1
        self._sum += pause
        self.longest = max(self.longest, pause)
        while self._recent and self._recent[-1][1] <= pause:
            self._recent.pop()
        self._recent.append((now, pause))
        self._forget(now)
        if pause > LIMIT and now - self._logged > _QUIET:
            self._logged = now
            collected = self._collected > pause / 2
            where = "garbage collection" if collected else self._held_by
            LOG.warning("the event loop was held for %.0f ms by %s", pause * 1000, where)
        self._places, self._collected = [], 0.0

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - _MINUTE:
            self._recent.popleft()

    def last_minute(self, now: float) -> float:
        """The longest pause of the last minute, in seconds."""
        self._forget(now)
        return self._recent[0][1] if self._recent else 0.0

    # --- naming ---------------------------------------------------------------------

    def _watch(self, thread: int) -> None:
        while not self._ended.wait(LIMIT / 5):
            if time.monotonic() - self._due > LIMIT / 2:
                self._places.append(_place(sys._current_frames().get(thread)))

    @property
    def _held_by(self) -> str:
        """Where it was seen most often."""
        if not self._places:
            return "unknown code"
        ((place, _),) = Counter(self._places).most_common(1)
        return ", in ".join(map(_name, place))

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._collecting = time.monotonic()
        else:
            self._collected += time.monotonic() - self._collecting

    # --- telling --------------------------------------------------------------------

    def metrics(self) -> list[str]:
        """Lines for Prometheus."""
        values = {
            "tamis_loop_longest_pause_seconds": self.longest,
            "tamis_loop_longest_pause_minute_seconds": self.last_minute(time.monotonic()),
        }
        lines = []
        for name, value in values.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:.6f}"]
        lines.append(f"# TYPE {_NAME} histogram")
        total = 0
        for bound, count in zip((*_BOUNDS, "+Inf"), self._counts, strict=True):
            total += count
            lines.append(f'{_NAME}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{_NAME}_sum {self._sum:.6f}", f"{_NAME}_count {total}"]


def _place(frame: FrameType | None) -> _Place:
    """The functions that run there, the innermost first; those of asyncio say nothing."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < _FRAMES:
        if not frame.f_code.co_filename.startswith(_ASYNCIO):
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def _name(place: tuple[CodeType, int]) -> str:
    code, line = place
    path = Path(code.co_filename)
    return f"{code.co_name} ({path.parent.name}/{path.name}:{line})"
