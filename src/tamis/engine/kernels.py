"""A batch matched: cluster 0 for every message, the others for those that touch them."""

from __future__ import annotations

import numpy as np
from numba import njit

from tamis.engine.layout import NEED, ROOT
from tamis.engine.narrow import run_cubes
from tamis.engine.outputs import COUNT, KEEP
from tamis.engine.wide import run_wide
from tamis.engine.words import run_cluster, run_rest


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _run_everywhere(
    clusters, by_need, requirements, block, first, last, slots, alive, scratch, output, mode
):
    """Cluster 0, for messages first to last."""
    everyone = np.arange(first, last).astype(np.int32)
    if everyone.size <= 64:
        run_cluster(clusters, 0, requirements, block, everyone, slots, alive, scratch, output, mode)
        return
    if clusters.starts[1, NEED] > 1:
        everyone = _grouped(block.defined, first, last)
    run_wide(clusters, by_need, requirements, block, everyone, slots, alive, scratch, output, mode)


@njit(cache=True, nogil=True)
def run(clusters, cubes, links, block, alive, scratch, output, mode, skip):
    """Match all messages of the block against every cluster that they are relevant to.

    links: (requirements, access, roots by need, slot of each subscription). In mode KEEP, cluster
    0 is only counted; how many of the touched clusters were kept (their cubes, and the other
    roots) is returned for `skip` of the FILL that has to follow, and whether one has to.
    """
    requirements, access, by_need, slots = links
    last = block.flags.shape[1]
    everywhere = clusters.starts[1, ROOT] > 0
    if everywhere:
        _run_everywhere(
            clusters,
            by_need,
            requirements,
            block,
            0,
            last,
            slots,
            alive,
            scratch,
            output,
            COUNT if mode == KEEP else mode,
        )
    if access.clusters.size == 0:
        return 0, 0, everywhere
    touched = np.empty(clusters.starts.shape[0] - 2, np.int32)
    count = _touch(access, block, 0, last, scratch, touched)
    touched = touched[:count]
    starts = np.empty(count + 1, np.int64)
    chosen = _gather(access, block, 0, last, scratch, touched, starts)
    work = touched, starts, chosen, scratch.place
    a = run_cubes(clusters, cubes, requirements, block, work, skip[0], alive, slots, output, mode)
    rest = mode if a == count else COUNT if mode == KEEP else mode
    b = run_rest(clusters, requirements, block, work, skip[1], alive, slots, scratch, output, rest)
    if rest != mode:
        b = 0
    return a, b, everywhere or a < count or b < count
