"""Which version of a table each micro-batch uses: decided once, by whoever comes first.

A pin is a small file with the number of a version. It gets its name by link(2), which
never replaces a file: so all tasks of a batch, and a replay of it, read the same number.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tamis.table.atomic_files import publish, signed, unsigned

_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")


class Pins:
    """The pins of all queries that use a table: a folder for each query, a file for each batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pinned(self, query: str, batch: int) -> int | None:
        """The version that the batch uses, where that is decided already."""
        path = self._path(query, batch)
        try:
            return _version(path)
        except FileNotFoundError:
            return None

    def pin(self, query: str, batch: int, version: int) -> int:
        """Let the batch use the version, unless it uses one already: the one that it does use."""
        path = self._path(query, batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        if publish(path, signed("pin", b"%d\n" % version)):
            return version
        return _version(path)

    def prune(self, query: str, before: int) -> None:
        """Forget the query's batches before this one: no checkpoint goes back to them."""
        for path in _files(self.folder / _checked(query)):
            if int(path.name) < before:
                path.unlink(missing_ok=True)

    def oldest(self) -> int | None:
        """The oldest version that some batch may still need."""
        found = [v for query in self._queries() for path in _files(query) if (v := _read(path))]
        return min(found, default=None)

    def forget(self, idle: float) -> None:
        """Drop the pins of queries that pinned nothing for so many seconds."""
        for query in self._queries():
            newest = max((_changed(path) for path in [query, *_files(query)]), default=0.0)
            if newest < time.time() - idle:
                shutil.rmtree(query, ignore_errors=True)

    def _queries(self) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        except FileNotFoundError:
            return []

    def _path(self, query: str, batch: int) -> Path:
        return self.folder / _checked(query) / str(batch)


def _checked(query: str) -> str:
    if not _NAME.fullmatch(query):
        raise ValueError(f"{query!r} cannot name a query")
    return query


def _files(query: Path) -> Iterator[Path]:
    try:
        yield from [path for path in query.iterdir() if path.name.isdecimal()]
    except (FileNotFoundError, NotADirectoryError):
        return


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _read(path: Path) -> int | None:
    try:
        return _version(path)
    except FileNotFoundError:
        return None


def _version(path: Path) -> int:
    return int(unsigned(path, "pin", path.read_bytes()))
