"""Drivers of Spark that are killed: started as processes of their own, ended without warning.

TAMIS_KILLS says how often each test kills its driver: once unless it is set, 20 for the full dose.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

KILLS = int(os.environ.get("TAMIS_KILLS", "1"))
QUICK = '{"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Xshare:auto"}'  # settings


def start(code: str, *arguments: object, paths: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Python code as a process; it can import what the tests can, and from `paths`."""
    found = os.pathsep.join([*paths, *(p for p in sys.path if p)])
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": found},
        start_new_session=True,
    )


@contextlib.contextmanager
def started(code: str, *arguments: object) -> Iterator[str]:
    """A driver that has printed its first line, which is given; killed at the end."""
    driver = start(code, *arguments)
    assert driver.stdout is not None
    assert driver.stderr is not None
    try:
        line = driver.stdout.readline()
        assert line, driver.stderr.read()[-3000:]
        yield line
    finally:
        kill(driver)


def finished(code: str, *arguments: object) -> str:
    """What a driver prints that comes to its end by itself."""
    told, errors = start(code, *arguments).communicate(timeout=600)
    assert told.endswith("done\n"), errors[-3000:]
    return told


def family(pid: int) -> list[int]:
    """The process and all that come from it: the JVM, and the Python workers."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                after_name = (entry / "stat").read_text().rpartition(")")[2]
                children.setdefault(int(after_name.split()[1]), []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def kill(process: subprocess.Popen[str]) -> None:
    """All of the family at once, by their ids, with no chance to clean up."""
    for pid in family(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def batches(folder: Path, kind: str) -> set[str]:
    """The batches that were begun (`offsets`), or that are done (`commits`)."""
    return {path.name for path in (folder / "checkpoint" / kind).glob("[0-9]*")}


def unfinished(folder: Path) -> bool:
    """Whether a micro-batch was begun and not ended: it has to be done again."""
    return bool(batches(folder, "offsets") - batches(folder, "commits"))


def wait_for_a_batch(folder: Path) -> None:
    """Until one more is done than now, or for 90 seconds."""
    before, deadline = batches(folder, "commits"), time.monotonic() + 90
    while batches(folder, "commits") == before and time.monotonic() < deadline:
        time.sleep(0.02)
