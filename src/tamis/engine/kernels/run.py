"""A batch matched: cluster 0 for every message, the others for those that touch them."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

import numpy as np

from tamis.engine.kernels.cube_scan import run_cubes
from tamis.engine.kernels.output import COUNT, KEEP
from tamis.engine.kernels.rows import run_wide
from tamis.engine.kernels.words import run_cluster, run_rest
from tamis.engine.layout import NEED, ROOT
from tamis.jit.kernel import kernel

ALL, EVERYWHERE, TOUCHED = range(3)  # clusters: all, cluster 0, those that messages touch


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
def _grouped(defined, first, last):
    """Messages first to last, those that define the same columns side by side."""
    count = last - first
    size = 16
    while size < 2 * count:
        size *= 2
    group, label = np.full(size, -1, np.int32), np.empty(count, np.int32)
    head, total = np.empty(count, np.int64), np.zeros(count, np.int64)
    groups = 0
    for m in range(count):
        mask = defined[first + m]
        at = np.int64((mask ^ (mask >> np.uint64(29))) & np.uint64(size - 1))
        while group[at] >= 0 and defined[head[group[at]]] != mask:
            at = (at + 1) & (size - 1)
        if group[at] < 0:
            group[at] = groups
            head[groups] = first + m
            groups += 1
        label[m] = group[at]
        total[group[at]] += 1
    start = 0
    for g in range(groups):
        start, total[g] = start + total[g], start
    order = np.empty(count, np.int32)
    for m in range(count):
        order[total[label[m]]] = first + m
        total[label[m]] += 1
    return order


@kernel
def _run_everywhere(clusters, by_need, requirements, block, count, scratch, output, mode):
    """Cluster 0, for all messages."""
    everyone = np.arange(count).astype(np.int32)
    if everyone.size <= 64:
        run_cluster(clusters, 0, requirements, block, everyone, scratch, output, mode)
        return
    if clusters.starts[1, NEED] > 1:
        everyone = _grouped(block.defined, 0, count)
    run_wide(clusters, by_need, requirements, block, everyone, scratch, output, mode)


@kernel
def run(clusters, cubes, links, block, scratch, output, mode, which):
    """Match all messages of the block against every cluster that they are relevant to.

    links: (requirements, access, roots by need). In mode KEEP, cluster
    0 is only counted: its pairs would be larger than the result. which: ALL, EVERYWHERE or TOUCHED.
    """
    requirements, access, by_need = links
    last = block.flags.shape[1]
    if which != TOUCHED and clusters.starts[1, ROOT] > 0:
        counted = COUNT if mode == KEEP else mode
        _run_everywhere(clusters, by_need, requirements, block, last, scratch, output, counted)
    if which == EVERYWHERE or access.clusters.size == 0:
        return
    touched = np.empty(clusters.starts.shape[0] - 2, np.int32)
    count = _touch(access, block, 0, last, scratch, touched)
    touched = touched[:count]
    starts = np.empty(count + 1, np.int64)
    chosen = _gather(access, block, 0, last, scratch, touched, starts)
    work = touched, starts, chosen, scratch.place
    run_cubes(clusters, cubes, requirements, block, work, output, mode)
    run_rest(clusters, requirements, block, work, scratch, output, mode)
