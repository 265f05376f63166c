"""Snapshots: a matcher as one file, and the file as a matcher again.

What was compiled is kept as it is, and mapped. What is quick to make again (terms from
their text, the index of each segment from its atoms) is not. Functions cannot be saved.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from tamis.engine.snapshot.file import Arrays, read, write
from tamis.engine.snapshot.loading import matcher_of
from tamis.engine.snapshot.saving import Savable, arrays_of
from tamis.errors import SnapshotError
from tamis.logic import Lookups

M = TypeVar("M", bound=Savable)


def save(matcher: Savable, path: str | os.PathLike[str]) -> None:
    """Write the matcher to `path`: all of it, or nothing. Others may go on using the matcher."""
    target = Path(path)
    try:
        arrays = list(arrays_of(matcher))
    except UnicodeEncodeError as error:
        what = f"cannot be written: {error.object!r} is no text"
        raise SnapshotError(target, what, "give the subscription another id") from error
    write(target, arrays)


def load(
    kind: type[M],
    path: str | os.PathLike[str],
    *,
    lookups: Lookups | None = None,
    verify: bool = True,
) -> M:
    """The matcher that was saved to `path`, its arrays mapped: processes share the pages.

    `lookups` are the functions that its selectors call. `verify=False` skips the checksums of
    the contents; that every number is within its bounds is checked all the same.
    """
    return opened(kind, Path(path), read(Path(path), verify=verify), lookups or {})


def opened(kind: type[M], path: Path, arrays: Arrays, lookups: Lookups) -> M:
    """The matcher in these arrays; `path` is what errors call it."""
    try:
        return matcher_of(kind, path, arrays, lookups)
    except SnapshotError:
        raise
    except Exception as error:
        hint = "it was not made by Tamis, or by another version: save the matcher again"
        raise SnapshotError(path, f"holds what no matcher has: {error}", hint) from error
