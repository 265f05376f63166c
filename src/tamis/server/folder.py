"""The directory of a broker: only its owner reads it, and one broker uses it at a time.

Its log and its registry are SQLite files here. The hub knows their protocols alone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tamis.errors import LogError
from tamis.log import SqliteLog
from tamis.registry import SqliteRegistry

LOG = logging.getLogger("tamis.server")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Opened(NamedTuple):
    """What a directory holds; `unlock` comes after log and registry were closed."""

    log: SqliteLog
    registry: SqliteRegistry
    unlock: partial[None]


def opened(directory: Path) -> Opened:
    with ExitStack() as stack:
        lock = take(directory)
        stack.callback(os.close, lock)
        log = stack.enter_context(SqliteLog(directory / "log.db"))
        registry = SqliteRegistry(directory / "registry.db")
        stack.pop_all()
    for note in registry.notes:
        LOG.warning(note)
    return Opened(log, registry, partial(os.close, lock))


def take(directory: Path) -> int:
    """Make it or tighten it, and lock it; closing what this returns unlocks it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LogError(f"{directory}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise LogError(f"{directory}: another broker uses this directory") from None
    os.truncate(lock, 0)
    os.write(lock, b"%d\n" % os.getpid())  # whom `tamis stop` asks to stop
    _tighten(directory)
    return lock


def _tighten(directory: Path) -> None:
    """Messages, hashes of passwords and the key of webhooks are in these files."""
    for path in (directory, *directory.glob("*"), *directory.glob("matchers/*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink() or not mode & _OTHERS:
            continue
        try:
            path.chmod(mode & ~_OTHERS)
        except OSError as error:
            LOG.warning("%s: others may read it: %s", path, error.strerror)
        else:
            LOG.warning("%s: others could read it; its mode was %o, and is %o now",
                        path, mode, mode & ~_OTHERS)  # fmt: skip
