"""The files of a table: what each version changed, and now and then the whole of it.

    settings               how selectors are read; written once
    versions/7.changes     what version 7 changed; written once, by whoever was first
    versions/7.table       all subscriptions of version 7, as one file of changes
    versions/7.snapshot    the same, compiled: it can be made again from the table
    versions/7.oldest      empty: what was before version 7 has been cleared away
    pins/<query>/<batch>   which version a micro-batch uses

Versions follow each other without a gap. All changes after the oldest version are there.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tamis.errors import SnapshotError, SubscriptionError
from tamis.table.atomic_files import AGAIN, publish
from tamis.table.table_changes import Changes, decode, encode

_NAME = re.compile(r"(\d{1,18})\.(changes|table|oldest)")
_STALE = 3600.0  # seconds after which a file without a name was left by a crash
_TABLES = 2  # the last tables are kept in any case
_SPANS = 4  # and about so many between the oldest and the newest version


class Present(NamedTuple):
    """The numbers of the files that are there, ascending."""

    changes: list[int]
    tables: list[int]
    marks: list[int]

    @property
    def newest(self) -> int:
        return max([0, *self.changes[-1:], *self.tables[-1:]])

    @property
    def oldest(self) -> int:
        """The oldest version that can be had."""
        return max([0, *self.marks])

    def base(self, version: int) -> int:
        """The newest table that is not newer than the version; 0 is the empty one."""
        found = [table for table in self.tables if table <= version]
        return found[-1] if found else 0


class Versions:
    """One folder of versions. Any number of processes may read and write it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, version: int, kind: str) -> Path:
        return self.folder / f"{version}.{kind}"

    def present(self) -> Present:
        kinds = ("changes", "table", "oldest")
        found: dict[str, list[int]] = {kind: [] for kind in kinds}
        for name in os.listdir(self.folder):  # noqa: PTH208 (no Path for each of many)
            if known := _NAME.fullmatch(name):
                found[known[2]].append(int(known[1]))
        return Present(*(sorted(numbers) for numbers in found.values()))

    def newest(self, known: int = 0) -> int:
        """The number of the current version, from one that was current before."""
        if not self.path(known, "changes").exists():
            return self.present().newest
        while self.path(known + 1, "changes").exists():
            known += 1
        return known

    def publish(self, changes: Changes) -> bool:
        """Make the changes the next version; False where another writer was quicker."""
        path = self.path(changes.version, "changes")
        if not publish(path, encode(changes)):
            return False
        if changes.version > self.present().oldest:
            return True
        # The number was free because it is so old that its file had been cleared away.
        path.unlink()
        return False

    def read(self, version: int, kind: str = "changes") -> Changes:
        """One file. FileNotFoundError where it is not there (any more)."""
        path = self.path(version, kind)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SnapshotError(path, f"cannot be read: {error.strerror}", AGAIN) from error
        return decode(path, data, version)

    def after(self, version: int, last: int) -> Iterator[Changes]:
        """The changes of all versions after the one up to the last."""
        return map(self.read, range(version + 1, last + 1))

    def size(self, version: int, last: int) -> int:
        """How many bytes of changes lie between."""
        paths = (self.path(v, "changes") for v in range(version + 1, last + 1))
        return sum(path.stat().st_size for path in paths)

    def missing(self, version: int) -> SubscriptionError:
        present = self.present()
        return SubscriptionError(
            f"{self.folder.parent}: there is no version {version}:"
            f" kept are {present.oldest} to {present.newest}"
        )

    # --- clearing away ---------------------------------------------------------

    def vacuum(self, needed: int) -> int:
        """Delete what is not needed to have all versions from `needed` on; the oldest one left.

        First it is said which version will be the oldest, so this may be cut short anywhere.
        """
        present = self.present()
        base = max(present.oldest, present.base(min(needed, present.newest)))
        if base > present.oldest:
            publish(self.path(base, "oldest"), b"")
        kept = _thinned(present.tables, base, present.newest)
        for version in (v for v in present.tables if v not in kept):
            self._delete(version, "table")  # this first: readers look for tables
            self._delete(version, "snapshot")
        for version in (v for v in present.changes if v <= base):
            self._delete(version, "changes")
        for version in (v for v in present.marks if v < base):
            self._delete(version, "oldest")
        self._delete_stale()
        return base

    def _delete(self, version: int, kind: str) -> None:
        self.path(version, kind).unlink(missing_ok=True)

    def _delete_stale(self) -> None:
        for path in self.folder.glob(".*.tmp"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _STALE:
                    path.unlink()

    def recent(self, seconds: float) -> int:
        """The oldest version that was current within the last seconds."""
        now, newest = time.time(), self.newest()
        version = newest
        while version > 0:
            with contextlib.suppress(FileNotFoundError):
                if self.path(version, "changes").stat().st_mtime < now - seconds:
                    break
            version -= 1
            if not self.path(version, "changes").exists():
                break
        return version


def _thinned(tables: list[int], base: int, newest: int) -> set[int]:
    """The tables that are worth their room: spread evenly, so that the oldest can move on."""
    span, kept = max(1, (newest - base) // _SPANS), [base]
    for table in tables:
        if table >= kept[-1] + span:
            kept.append(table)
    return {*kept, *(t for t in tables[-_TABLES:] if t >= base)}
