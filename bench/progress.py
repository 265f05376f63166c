"""What is being measured now, and since when, on standard error."""

from __future__ import annotations

import sys
import time

_started: dict[str, float] = {}


def begin(experiment: str) -> None:
    """From now on `say` speaks of this experiment. Before the first call it is silent."""
    _started.clear()
    _started[experiment] = time.perf_counter()
    say("begins")


def say(what: str) -> None:
    for experiment, start in _started.items():
        seconds = time.perf_counter() - start
        print(f"{experiment} {seconds:6.1f} s  {what}", file=sys.stderr, flush=True)
