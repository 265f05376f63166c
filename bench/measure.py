"""Clocks. Work is done once before it is timed, so that nothing is compiled under the clock."""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import importlib.util
import multiprocessing
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import pyarrow as pa

_PACKAGES = ("duckdb", "msgspec", "numba", "numpy", "pyarrow", "pyspark")
_ENOUGH = 4.0  # seconds: what has run so long is not run again
Call, Found = TypeVar("Call"), TypeVar("Found")


def cpu_seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """The median CPU time of one call, threads of this process included.

    CPU time, not wall time: another program on the same machine then disturbs less.
    """
    return _median(work, repeat, time.process_time)


def wall_by_turns(works: Sequence[Callable[[], object]], repeat: int = 9) -> list[float]:
    """The median time of each on the wall. They take turns: a slow moment of the machine is one for
    all of them."""
    taken: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    gc.collect()
    for _ in range(repeat):
        for work, times in zip(works, taken, strict=True):
            times.append(_once(work, time.perf_counter))
    return [median(times) for times in taken]


def _median(work: Callable[[], object], repeat: int, clock: Callable[[], float]) -> float:
    """Of fewer calls than `repeat` where they are long: those vary little."""
    work()
    gc.collect()
    taken: list[float] = []
    while len(taken) < repeat and sum(taken) < _ENOUGH:
        taken.append(_once(work, clock))
    return median(taken)


def _once(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def peer_rate(work: Callable[[pa.Table], object], messages: pa.Table, least: int = 512) -> float:
    """Messages per CPU-second of something that may be very slow.

    It gets more and more messages, `least` of them first, until a call takes some seconds: so
    what a call costs however few messages it has (reading all subscriptions, say) weighs little.
    """
    count = min(least, len(messages))
    work(messages.slice(0, count))
    while True:
        given = messages.slice(0, count)
        taken = _once(lambda given=given: work(given), time.process_time)
        if taken > _ENOUGH / 2 or count == len(messages):
            return count / max(taken, 1e-9)
        growth = min(8.0, max(2.0, _ENOUGH / max(taken, 1e-9)))
        count = min(len(messages), int(count * growth))


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of a single call, for work that is too long to repeat (building)."""
    gc.collect()
    return _once(work, time.process_time)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds for one call among many."""

    median: float
    p99: float
    worst: float


def latency(calls: Iterable[Callable[[], object]]) -> Latency:
    """How long each of the calls takes on the wall."""
    taken = []
    for call in calls:
        start = time.perf_counter_ns()
        call()
        taken.append(time.perf_counter_ns() - start)
    seconds = np.array(taken) / 1e9
    return Latency(*(float(q) for q in np.quantile(seconds, (0.5, 0.99, 1.0))))


def few(calls: Iterable[Call], least: int = 100) -> Iterator[Call]:
    """The calls until some seconds are over, but `least` of them."""
    start = time.perf_counter()
    for number, call in enumerate(calls):
        if number >= least and time.perf_counter() - start > _ENOUGH:
            return
        yield call


def in_own_process(work: Callable[..., Found], *arguments: object) -> Found:
    """What the work returns, done in a new process: nothing is there before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def resident_bytes() -> int:
    """Memory of this process that is in RAM now (Linux), what was freed not counted."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc keeps it otherwise
        trim(0)
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def machine() -> dict[str, object]:
    """What a reader must know of the machine; nothing that names it."""
    return {
        "cpus": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES if _installed(name)},
    }


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
