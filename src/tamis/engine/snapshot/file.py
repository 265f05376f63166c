"""One file of named arrays that can be mapped into memory and shared by processes.

    header        64 bytes: magic, version, lengths, checksums
    arrays        one behind the other, each on a cache line, filled up with zeros
    directory     JSON: name, type, shape and checksum of each array

Every byte stands under a checksum. Where an array begins follows from the sizes before
it, so no entry can point anywhere else. The file gets its name when it is complete: a crash
leaves the file that was there before.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.errors import SnapshotError
from tamis.files import write_whole

MAGIC = b"TAMIS\r\n\x1a"
VERSION = 5
_HEADER = struct.Struct("<8sIIQQIxxxxQ")  # of 48 bytes; zeros and a checksum fill the line
_LINE = 64
_ZEROS = bytes(_LINE)
_LARGEST = 1 << 20  # bytes of a directory
_DTYPES = {"int32": "<i4", "int64": "<i8", "uint8": "|u1", "float64": "<f8"}
_AGAIN = "save the matcher again, or copy the file again from where it is whole"

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Parts = Sequence[Array]  # of one array, cut along the first axis


class Entry(NamedTuple):
    """What the directory says of one array."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    checksum: int

    @property
    def size(self) -> int:
        """In bytes, without what fills the last line."""
        return np.dtype(_DTYPES[self.dtype]).itemsize * math.prod(self.shape)


# --- writing -----------------------------------------------------------------


def write(path: Path, arrays: Iterable[tuple[str, Parts]]) -> None:
    """Write the arrays, given in parts, to `path`: the whole file or, on any failure, nothing."""
    try:
        parts = list(arrays)
        write_whole(path, lambda file: write_into(file, path, parts))
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise SnapshotError(path, f"cannot be written: {said}") from error


def write_into(file: BinaryIO, path: Path, arrays: Sequence[tuple[str, Parts]]) -> None:
    """From first to last byte: a pipe will do."""
    entries = [_entry(name, parts) for name, parts in arrays]
    begin = _LINE + sum(e.size + -e.size % _LINE for e in entries)
    directory = json.dumps(entries, separators=(",", ":")).encode()
    if len(directory) > _LARGEST:
        raise SnapshotError(path, "has too many arrays for one directory")
    file.write(_header(begin + len(directory), begin, directory))
    for _, parts in arrays:
        size = sum(file.write(_bytes(part)) for part in parts)
        file.write(_ZEROS[: -size % _LINE])
    file.write(directory)


def _header(total: int, begin: int, directory: bytes) -> bytes:
    checksum = zlib.crc32(directory)
    fields = _HEADER.pack(MAGIC, VERSION, 0, total, begin, checksum, len(directory))
    padded = fields.ljust(_LINE - 4, b"\0")
    return padded + struct.pack("<I", zlib.crc32(padded))


def _entry(name: str, parts: Parts) -> Entry:
    first, checksum, size = parts[0], 0, 0
    for part in parts:
        data = _bytes(part)
        checksum, size = zlib.crc32(data, checksum), size + len(data)
    shape = (sum(map(len, parts)), *first.shape[1:])
    return Entry(name, first.dtype.name, shape, zlib.crc32(_ZEROS[: -size % _LINE], checksum))


def _bytes(part: Array) -> memoryview:
    return np.ascontiguousarray(part).reshape(-1).view(np.uint8).data


# --- reading -----------------------------------------------------------------


def read(path: Path, *, verify: bool = True) -> Arrays:
    """The arrays of the file, mapped. `verify=False` trusts the bytes of the arrays.

    The mapping is private: whoever writes to an array changes a copy of that page alone. So
    arrays can be of the writable kind, for which the kernels are compiled already.
    """
    try:
        memory = _mapped(path)
    except (OSError, ValueError) as error:
        raise SnapshotError(path, f"cannot be read: {error}") from error
    return arrays_in(path, memory, verify=verify)


def arrays_in(path: Path, memory: memoryview, *, verify: bool = True) -> Arrays:
    """The arrays of a file that is in memory; `path` is what errors call it."""
    entries, end = _entries(path, memory)
    found: Arrays = {}
    for entry, begin, after in _places(path, entries, end):
        if verify and zlib.crc32(memory[begin:after]) != entry.checksum:
            raise SnapshotError(path, f"is damaged: {entry.name} has another checksum", _AGAIN)
        part = np.frombuffer(memory, _DTYPES[entry.dtype], math.prod(entry.shape), begin)
        found[entry.name] = part.reshape(entry.shape)
    return found


def _mapped(path: Path) -> memoryview:
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
        raise SnapshotError(path, "is no ordinary file", "give the path of a snapshot")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise SnapshotError(path, "is empty", _AGAIN)
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY))


def _entries(path: Path, memory: memoryview) -> tuple[list[Entry], int]:
    """The directory, and where the arrays end."""
    header = bytes(memory[:_LINE])
    if header[: len(MAGIC)] != MAGIC[: len(header)] or len(header) < len(MAGIC):
        if not any(header):
            raise SnapshotError(path, "was not written to its end", _AGAIN)
        raise SnapshotError(path, "is no snapshot of Tamis", "give the path of a saved matcher")
    if len(header) < _LINE:
        raise SnapshotError(path, "is cut off within its header", _AGAIN)
    if struct.unpack("<I", header[-4:])[0] != zlib.crc32(header[:-4]):
        raise SnapshotError(path, "is damaged: its header has another checksum", _AGAIN)
    _, version, _, total, begin, checksum, length = _HEADER.unpack_from(header)
    if version != VERSION:
        raise _other_version(path, version)
    if total != len(memory):
        what = f"has {len(memory):,} bytes where {total:,} were written"
        raise SnapshotError(path, what, _AGAIN)
    if begin < _LINE or length > _LARGEST or begin + length != total:
        raise SnapshotError(path, "has a directory in a wrong place", _AGAIN)
    directory = bytes(memory[begin:])
    if zlib.crc32(directory) != checksum:
        raise SnapshotError(path, "is damaged: its directory has another checksum", _AGAIN)
    return _parsed(path, directory), begin


def _other_version(path: Path, version: int) -> SnapshotError:
    what = f"has format {version}, and this Tamis reads format {VERSION}"
    if version > VERSION:
        return SnapshotError(path, what, "install the Tamis that wrote it, or a newer one")
    return SnapshotError(path, what, "add the subscriptions to a new matcher and save that")


def _parsed(path: Path, directory: bytes) -> list[Entry]:
    try:
        rows = json.loads(directory)
        entries = [Entry(name, dtype, tuple(shape), check) for name, dtype, shape, check in rows]
    except (ValueError, TypeError, RecursionError):
        raise SnapshotError(path, "has a directory that cannot be read", _AGAIN) from None
    if not all(map(_plausible, entries)) or len({e.name for e in entries}) != len(entries):
        raise SnapshotError(path, "has a directory that makes no sense", _AGAIN)
    return entries


def _plausible(entry: Entry) -> bool:
    sizes = (*entry.shape, entry.checksum)
    return (
        isinstance(entry.name, str)
        and isinstance(entry.dtype, str)
        and entry.dtype in _DTYPES
        and 1 <= len(entry.shape) <= 2
        and all(type(size) is int and 0 <= size < 1 << 62 for size in sizes)
        and all(0 < size <= _LINE for size in entry.shape[1:])
    )


def _places(path: Path, entries: list[Entry], end: int) -> Iterator[tuple[Entry, int, int]]:
    """Each entry with where its array begins, and where the next one does."""
    sizes = [e.size + -e.size % _LINE for e in entries]
    if _LINE + sum(sizes) != end:
        raise SnapshotError(path, "has arrays of other sizes than its directory says", _AGAIN)
    at = _LINE
    for entry, size in zip(entries, sizes, strict=True):
        yield entry, at, at + size
        at += size
