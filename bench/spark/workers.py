"""The Python workers of this process's Spark, and the memory that each of them has (Linux)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Worker:
    """Bytes: `private` are no other process's, `pss` counts a page that n share as 1/n of it."""

    private: int
    pss: int
    rss: int


def workers() -> list[Worker]:
    """Those that a daemon below this process has forked: they run the same command as it."""
    children: dict[int, list[int]] = {}
    for pid in processes():
        children.setdefault(parent(pid), []).append(pid)
    below = list(descendants(os.getpid(), children))
    forked = [pid for pid in below if read(pid, "cmdline") == read(parent(pid), "cmdline")]
    return [_worker(pid) for pid in sorted(forked)]


def processes() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def descendants(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, []):
        yield child
        yield from descendants(child, children)


def parent(pid: int) -> int:
    """-1 for a process that has ended meanwhile."""
    after_name = read(pid, "stat").rpartition(b")")[2].split()
    return int(after_name[1]) if after_name else -1


def read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _worker(pid: int) -> Worker:
    sizes: dict[bytes, int] = {}
    for line in read(pid, "smaps_rollup").splitlines()[1:]:
        key, value, *_ = line.split()
        sizes[key] = 1024 * int(value)
    private = sum(sizes[key] for key in (b"Private_Clean:", b"Private_Dirty:"))
    return Worker(private, sizes[b"Pss:"], sizes[b"Rss:"])
