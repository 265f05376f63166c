"""Clusters that the events of messages touch: which, by whom, and what matches there."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.engine.paths.clusters.cube_scan import run_cubes
from tamis.engine.paths.everywhere.straight_line import ROOT
from tamis.engine.paths.everywhere.words import run_cluster
from tamis.jit.kernel import kernel


@kernel
def _touch(access, block, first, last, scratch, touched):
    """Count the messages of every cluster that an event of theirs touches; how many clusters."""
    clusters = 0
    for m in range(first, last):
        for i in range(block.way_offsets[m], block.way_offsets[m + 1]):
            e = block.ways[i]
            for k in range(access.offsets[e], access.offsets[e + 1]):
                c = access.clusters[k]
                if scratch.last[c] != m + 1:
                    scratch.last[c] = m + 1
                    if scratch.count[c] == 0:
                        touched[clusters] = c
                        clusters += 1
                    scratch.count[c] += 1
    return clusters


@kernel
def _gather(access, block, first, last, scratch, touched, starts):
    """The messages of the touched clusters, one cluster behind the other."""
    total = 0
    for i in range(touched.size):
        c = touched[i]
        starts[i] = total
        total += scratch.count[c]
        scratch.count[c] = starts[i]
    starts[touched.size] = total
    chosen = np.empty(total, np.int32)
    for m in range(first, last):
        for i in range(block.way_offsets[m], block.way_offsets[m + 1]):
            e = block.ways[i]
            for k in range(access.offsets[e], access.offsets[e + 1]):
                c = access.clusters[k]
                if scratch.last[c] != -(m + 1):
                    scratch.last[c] = -(m + 1)
                    chosen[scratch.count[c]] = m
                    scratch.count[c] += 1
    for c in touched:
        scratch.count[c] = 0
        scratch.last[c] = 0
    return chosen


@kernel
def _run_rest(clusters, requirements, block, work, scratch, output, mode):
    """The roots of the touched clusters that are no cubes. `work` is that of `run_cubes`."""
    touched, starts, chosen, _ = work
    for i in range(touched.size):
        c = touched[i]
        if clusters.starts[c, ROOT] < clusters.starts[c + 1, ROOT]:
            part = chosen[starts[i] : starts[i + 1]]
            run_cluster(clusters, c, requirements, block, part, scratch, output, mode)


@kernel
def run_touched(clusters, cubes, links, block, scratch, output, mode):
    """Match all messages of the block against the clusters that their events touch.

    links: (requirements, access).
    """
    requirements, access = links
    last = block.flags.shape[1]
    touched = np.empty(clusters.starts.shape[0] - 2, np.int32)
    count = _touch(access, block, 0, last, scratch, touched)
    if count == 0:
        return
    touched = touched[:count]
    starts = np.empty(count + 1, np.int64)
    chosen = _gather(access, block, 0, last, scratch, touched, starts)
    work = touched, starts, chosen, scratch.place
    run_cubes(clusters, cubes, requirements, block, work, output, mode)
    _run_rest(clusters, requirements, block, work, scratch, output, mode)
