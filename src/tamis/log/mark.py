"""A few bytes beside a database: how many commits there were.

SQLite takes a damaged end of its write-ahead log for commits that never happened; the mark tells
the two apart. It is written after each commit, so it is never ahead of what the disk has.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

_FORM = struct.Struct("<QQ")  # commits, and the same number with all bits flipped
_FLIP = 2**64 - 1


class Mark:
    def __init__(self, database: Path) -> None:
        self.path = database.with_suffix(".mark")
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)

    def missing(self, commits: int) -> int:
        """How many commits are lost if the database has this many.

        0 if the mark is torn, as the last moment of a machine may leave it.
        """
        data = os.pread(self._file, _FORM.size, 0)
        count, flipped = _FORM.unpack(data) if len(data) == _FORM.size else (0, 0)
        return max(0, count - commits) if count ^ flipped == _FLIP else 0

    def write(self, commits: int) -> None:
        """The commit counts whether this works or not: a mark that is late only tells of less."""
        with contextlib.suppress(OSError):
            os.pwrite(self._file, _FORM.pack(commits, commits ^ _FLIP), 0)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
