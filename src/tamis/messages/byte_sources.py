"""Files and standard input as bytes and as bounded lines."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from tamis.errors import InputError

MAX_LINE = 16 * 2**20
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Source:
    """An open input. `raw` counts the bytes that were taken from the file, packed or not."""

    name: str
    stream: io.BufferedReader
    raw: IO[bytes]
    size: int | None

    def progress(self) -> float | None:
        return min(1.0, self.raw.tell() / self.size) if self.size else None

    def peek(self, length: int) -> bytes:
        with reading(self.name):
            return self.stream.peek(length)[:length]


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what goes wrong while reading into an InputError that names the file."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name}: damaged gzip data: {error}") from None
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open a file, packed with gzip or not; "-" is standard input."""
    if str(path) == "-":
        yield _unpacked("standard input", cast(io.BufferedReader, sys.stdin.buffer), None)
        return
    name = str(path)
    with reading(name):
        file = Path(path).open("rb")  # noqa: SIM115
    with file:
        yield _unpacked(name, file, os.fstat(file.fileno()).st_size)


def _unpacked(name: str, file: io.BufferedReader, size: int | None) -> Source:
    with reading(name):
        if file.peek(2)[:2] != b"\x1f\x8b":
            return Source(name, file, file, size)
        unpacked: Any = io.BufferedReader(gzip.GzipFile(fileobj=file), 2**18)
        return Source(name, unpacked, file, size)


def lines(source: Source, limit: int = MAX_LINE) -> Iterator[tuple[int, bytes]]:
    """Each line with its number from 1, with its line end.

    A line of more than `limit` bytes comes as its first `limit + 1` bytes; the rest is skipped.
    """
    with reading(source.name):
        if source.peek(2) in _UTF16:
            raise InputError(f"{source.name}: this is UTF-16; save it as UTF-8")
        if source.peek(3) == _BOM:
            source.stream.read(3)
        number = 0
        while line := source.stream.readline(limit + 1):
            number += 1
            yield number, line
            while len(line) > limit and not line.endswith(b"\n"):
                line = source.stream.readline(limit + 1)
