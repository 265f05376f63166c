"""Files are written whole or not at all, and what is not a plain file is written into.

All output of Tamis goes through here. A file takes the place of an older one in one moment and
keeps its mode and owner. A symbolic link is followed. A device, a pipe, or what standard output
is connected to already stays what it is and gets the bytes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tamis.critical_section import uninterrupted

READER_WAIT = 10.0  # seconds that a named pipe may be without a reader
_LONGEST_NAME = 40  # characters of a target's name in the name of its staged file


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """As `whole_file`. Nothing is left over, in whatever moment Ctrl-C comes: a generator may stay
    where it is until its last reference goes."""
    name = _staged_name(Path(os.path.realpath(path)))
    try:
        with whole_file(path, name) as file:
            write(file)
    finally:
        with uninterrupted(), contextlib.suppress(OSError):
            name.unlink()


def make_private(path: Path) -> None:
    """A file that only its owner reads; one that is there stays as it is."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


@contextmanager
def whole_file(path: Path, name: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write: it has its name when the block ends well, and else was never there.

    Raises OSError with the cause. Only a plain file can be sought in.
    """
    old = _status(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with _special(path, old) as file:
            yield file
        return
    if old is not None and (handle := _standard(old)) is not None:
        with os.fdopen(os.dup(handle), "wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    with staged(target, name) as (name, file):
        yield file
        flush(file)
        if old is not None:
            _keep_owner_and_mode(file, old)
        name.replace(target)
    sync_folder(target.parent)


@contextmanager
def staged(target: Path, name: Path | None = None) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside `target` under a name of its own, which is deleted if it still has it."""
    name = name or _staged_name(target)
    with name.open("xb") as file:
        try:
            yield name, file
        finally:
            with contextlib.suppress(OSError):
                name.unlink()


def _staged_name(target: Path) -> Path:
    return target.with_name(f".{target.name[:_LONGEST_NAME]}.{secrets.token_hex(4)}.tmp")


def flush(file: BinaryIO) -> None:
    """Down to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a new name last; not every file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _status(path: Path) -> os.stat_result | None:
    """What the path leads to; None where that is still to be made."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _standard(found: os.stat_result) -> int | None:
    """Standard output or error, if it is the same file: opened anew it would begin at its start."""
    for handle in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), found):
                return handle
    return None


def _special(path: Path, found: os.stat_result) -> BinaryIO:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISFIFO(found.st_mode):
        return os.fdopen(_pipe(path), "wb")
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY), "wb")


def _pipe(path: Path) -> int:
    """A plain open would wait for a reader without end."""
    deadline = time.monotonic() + READER_WAIT
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:
                what = f"no process reads this pipe (waited {READER_WAIT:g} s)"
                raise OSError(errno.ENXIO, what, str(path)) from None
            time.sleep(0.01)
        else:
            os.set_blocking(handle, True)
            return handle


def _keep_owner_and_mode(file: BinaryIO, old: os.stat_result) -> None:
    """As far as this user may: the owner first, because a new one takes some bits of the mode."""
    new = os.fstat(file.fileno())
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        if (owner, group) in ((new.st_uid, -1), (-1, new.st_gid)):
            continue
        with contextlib.suppress(PermissionError):
            os.fchown(file.fileno(), owner, group)
    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
