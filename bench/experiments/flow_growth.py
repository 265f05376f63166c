"""What `tamis flow run` costs as a whole command on few messages, as flows grow."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import progress
from bench.measure import in_own_process
from bench.report import Cell, Goal, Result, Table, verdicts
from bench.workloads import layers
from tamis.flow import Graph, check, parse_flow

ABOUT = (
    f"`tamis flow run FLOW --output FOLDER` as a whole command on {layers.MESSAGES} messages in "
    "JSON files: CPU-seconds of the command, of Java and of all else that it starts. A job of one "
    "arc shows what Spark's own start costs. Flows of 5, 20 and 100 arcs have two arcs into each "
    "space, from the level before; *seven spaces* is a flow with transforms of up to four rules, "
    "whose paths share arcs."
)
SHARED = "seven spaces"
_TAMIS = (sys.executable, "-c", "from tamis.cli import main; main()")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl: orphans become ours, so we can wait for them
_ARCS = {"full": (5, 20, 100), "quick": (5, 20), "tiny": (5,)}


def run(scale: str) -> Result:
    flows = {
        "one arc": layers.ONE_ARC,
        SHARED: layers.SHARED,
        **{f"{arcs} arcs": layers.layered(arcs) for arcs in _ARCS[scale]},
    }
    rows = measured(flows)
    own = next(row for row in rows if row[0] == SHARED)
    goals = [
        Goal("seven spaces that share paths, with counts", 15, None, own[-2], " CPU-s", True),
        Goal("the same without counts", 15, None, own[-1], " CPU-s", True),
    ]
    columns = ("flow", "spaces", "arcs", "paths", "CPU s", "CPU s without counts")
    note = "One run of each; runs of the same flow differ by up to a second."
    table = Table("Growth with spaces and arcs", columns, rows, note)
    return Result("flow_growth", ABOUT, [verdicts(goals), table])


def measured(flows: dict[str, str]) -> list[list[Cell]]:
    """For each flow its size, and the CPU-seconds with counts and without."""
    rows: list[list[Cell]] = []
    for name, text in flows.items():
        progress.say(f"{name}, with counts and without")
        taken = [flow_cpu(text, counted) for counted in (True, False)]
        rows.append([name, *_size(check(parse_flow(text))), *taken])
    return rows


def _size(graph: Graph) -> tuple[int, int, int]:
    """Spaces, arcs, and paths into all spaces that arcs lead to."""
    paths = dict.fromkeys(graph.published, 1)
    for space in graph.schemas:
        into = sum(paths[arc.source] for arc in graph.into(space))
        paths[space] = paths.get(space, 0) + into
    return len(graph.schemas), len(graph.arcs), sum(paths[space] for space in graph.derived)


def flow_cpu(text: str, counted: bool) -> float:
    """CPU-seconds of the command, on a flow and the messages of the workload."""
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as name:
        folder = Path(name)
        (folder / "the.flow").write_text(text, encoding="utf-8")
        sources = [f"{space}={path}" for space, path in layers.save(folder).items()]
        command = [*_TAMIS, "flow", "run", str(folder / "the.flow")]
        command += [part for source in sources for part in ("--from", source)]
        command += ["--output", str(folder / "out"), *([] if counted else ["--no-counts"])]
        return in_own_process(command_cpu, command)


def command_cpu(command: Sequence[str]) -> float:
    """CPU-seconds of a command and of all processes below it, those that outlive it included
    (Linux). Other children of this process would count as well: call it in a process of its own.
    """
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    while _waited():
        pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _waited() -> bool:
    try:
        os.wait()
    except ChildProcessError:
        return False
    return True
