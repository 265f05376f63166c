"""Small files that are whole or not there, each under a name that is given only once.

They are text, so that a person can read them: a first line with a checksum of the others.
"""

from __future__ import annotations

import errno
import os
import re
import zlib
from pathlib import Path

from tamis.errors import InputError, SnapshotError
from tamis.files import flush, staged, sync_folder

FORMAT = 1
_SIGN = re.compile(rb"TAMIS ([a-z]{1,20}) (\d{1,9}) ([0-9a-f]{8})\n")
AGAIN = "copy the file again from where it is whole"
HINT = "a table needs a file system with hard links, local or shared by all who use it"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV)  # said by such systems


def signed(kind: str, body: bytes) -> bytes:
    """The contents of a file, with the line that goes before them."""
    return b"TAMIS %s %d %08x\n" % (kind.encode(), FORMAT, zlib.crc32(body)) + body


def unsigned(path: Path, kind: str, data: bytes) -> bytes:
    """The contents back; SnapshotError where they are not what was written."""
    sign = _SIGN.match(data)
    if sign is None or sign[1] != kind.encode():
        raise SnapshotError(path, f"is no file of {kind}, or is cut off", AGAIN)
    if int(sign[2]) != FORMAT:
        what = f"has format {int(sign[2])}, and this Tamis reads format {FORMAT}"
        raise SnapshotError(path, what, "install the Tamis that wrote it")
    body = data[sign.end() :]
    if zlib.crc32(body) != int(sign[3], 16):
        raise SnapshotError(path, "is damaged: it has another checksum", AGAIN)
    return body


def publish(path: Path, data: bytes) -> bool:
    """Write the file, whole and down to the disk; False where the name is taken."""
    try:
        with staged(path) as (name, file):
            file.write(data)
            flush(file)
            return _named(name, path)
    except OSError as error:
        hint = f"\n  {HINT}" if error.errno in _NO_LINKS else ""
        raise InputError(f"{path}: cannot be written: {error.strerror}{hint}") from error


def _named(staged: Path, path: Path) -> bool:
    try:
        os.link(staged, path)
    except FileExistsError:
        # Over a network the answer to a link that was made can get lost; then it is asked again.
        return staged.stat().st_nlink > 1
    sync_folder(path.parent)
    return True
