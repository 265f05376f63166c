"""Warnings that strangers can cause: now and then one line, never one for each."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

_PAUSE = 60.0  # seconds between two lines of the same text
_THINNED = ("tamis.server.sockets", "uvicorn.error", "asyncio")


class Seldom(logging.Filter):
    """Lets one warning of each text pass in `pause` seconds; the next one says how many did not.

    Errors always pass.
    """

    def __init__(self, pause: float = _PAUSE) -> None:
        super().__init__()
        self._pause = pause
        self._seen: dict[str, tuple[float, int]] = {}  # by text: when it passed, how many did not

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        text, now = str(record.msg), time.monotonic()
        since, held = self._seen.get(text, (-self._pause, 0))
        if now - since < self._pause:
            self._seen[text] = since, held + 1
            return False
        self._seen[text] = now, 0
        if held:
            record.msg = f"{text} ({held:,} more since the last such line)"
        return True


@contextlib.contextmanager
def thinned() -> Iterator[None]:
    """Thin out the warnings of all that deals with connections."""
    seldom = Seldom()
    for name in _THINNED:
        logging.getLogger(name).addFilter(seldom)
    try:
        yield
    finally:
        for name in _THINNED:
            logging.getLogger(name).removeFilter(seldom)
