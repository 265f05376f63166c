"""Matchers on the disk, so that a broker with very many subscriptions starts at once.

A snapshot may be old: whoever takes it up compares it with the registry, text by text. One that
is damaged, or of another version, is as good as none.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from tamis.engine.matcher import Matcher
from tamis.errors import SnapshotError
from tamis.pubsub.broker.judge import Judge

LOG = logging.getLogger("tamis.server")
_FEWEST = 1_000  # changes that are worth a snapshot; one subscription in twenty is, too


class Snapshots:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._saved: dict[int, int] = {}  # by channel: the changes that its snapshot contains

    def _path(self, channel: int) -> Path:
        return self._directory / f"{channel}.tamis"

    def load(self, channel: int) -> Matcher | None:
        path = self._path(channel)
        if not path.exists():
            return None
        try:
            return Matcher.load(path)
        except SnapshotError as error:
            LOG.warning("subscriptions are compiled anew: %s", error)
            return None

    def save(self, channel: int, judge: Judge) -> None:
        """Unless little changed since the last time. Others may use the judge meanwhile."""
        changes = judge.changes
        if changes - self._saved.get(channel, 0) < max(_FEWEST, len(judge.matcher) // 20):
            return
        try:
            judge.prepare()  # here, for the event loop would wait for it
            self._directory.mkdir(mode=0o700, exist_ok=True)
            judge.matcher.save(self._path(channel))
        except Exception as error:  # no space, or a judge that fails: the next start takes longer
            LOG.warning("no snapshot of channel %d: %s", channel, error)
            return
        self._saved[channel] = changes

    def forget(self, channel: int) -> None:
        self._saved.pop(channel, None)
        with contextlib.suppress(OSError):
            self._path(channel).unlink(missing_ok=True)
