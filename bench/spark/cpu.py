"""CPU-seconds of this process and all below it: driver, Java and Python workers (Linux)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from statistics import median

from pyspark.sql import DataFrame

from bench.spark.rows import Job, consume
from bench.spark.workers import descendants, parent, processes, read

_TICKS = os.sysconf("SC_CLK_TCK")
SETTLED = 0.2  # seconds in which what a job leaves behind (compiling, collecting) comes to rest


def used() -> float:
    """What all of them have used so far; of children that have ended, their parents know."""
    children: dict[int, list[int]] = {}
    for pid in processes():
        children.setdefault(parent(pid), []).append(pid)
    own = [os.getpid(), *descendants(os.getpid(), children)]
    return sum(map(_used_by, own)) / _TICKS


def _used_by(pid: int) -> int:
    after_name = read(pid, "stat").rpartition(b")")[2].split()
    return sum(map(int, after_name[11:15]))


def by_turns(
    jobs: Mapping[str, Job], frame: DataFrame, repeat: int, warm: int = 2
) -> dict[str, float]:
    """The median for each job, planning included. They take turns, after `warm` that do not
    count."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeat + warm):
        for name, job in jobs.items():
            start = used()
            consume(job(frame))
            time.sleep(SETTLED)
            if turn >= warm:
                taken[name].append(used() - start)
    return {name: median(times) for name, times in taken.items()}
