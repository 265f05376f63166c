"""Cubes: conditions that are a handful of conjunctions, evaluated for one message at a time.

Words of 64 messages waste most of their bits where a cluster has few messages. There the
vector runs over the subscriptions instead. A root whose diagram has few paths to TRUE is
written as its paths: each a conjunction, no two of them true of one message. A path asks for
bounds of keys and for bits (events, flags, requirements of the cluster).
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.diagram.bdd import HIGHEST, LOWEST
from tamis.engine.ground.layout import I4, I8
from tamis.engine.paths.everywhere.straight_line import (
    EVENT,
    FLAG,
    GROUP,
    GROUP_COLUMN,
    GROUP_COUNT,
    GROUP_FIRST,
    HOIST,
    NEED,
    NODE,
    NODE_LOW,
    NODE_TEST,
    ROOT,
    ROOT_NEED,
    ROOT_NODE,
    ROOT_OWNER,
    ROOT_PLACE,
    THRESHOLD,
)
from tamis.jit.kernel import kernel


class Cubes(NamedTuple):
    """Conditions as cubes; those of cluster c begin at `starts[c]`.

    A test is a column of keys: cube i of a cluster of n asks `bound <= key` of its test t, where
    bound is the cluster's bounds[t * n + i]. A test ~column asks the same of ~key. Behind the
    tests may stand 2 * n bounds more: `must` and `want` of each cube, which asks that of the bits
    in `must` just those in `want` are set. Where all cubes of a cluster ask for the same bits,
    these stand in `starts`. The bounds of the first test ascend.
    """

    starts: I8
    test: I4
    bound: I8
    subscription: I4
    bit: I4  # what each bit stands for: the number of an event, flag or need of the cluster


TEST, BOUND, CUBE, BIT, MUST, WANT = range(6)


PATHS = 4  # of a root that becomes cubes
BITS = 62  # events, flags and requirements that cubes of one cluster can ask for
SPARE = 8  # bounds are read so many at a time, also at the end
_DEPTH = 32


@kernel
def _paths(node, first, own, inputs, place, path, length):
    """The paths from `place` to TRUE into rows of `path`, as 2 * place + truth; -1: too many.

    Nodes stand from row `first` on and fill the places from `own` on; tests are places below
    `inputs`. What no compiler writes is refused likewise.
    """
    stack = np.empty((2 * _DEPTH + 2, 3), np.int64)  # place, depth, literal that leads there
    stack[0, 0], stack[0, 1] = place, 0
    size, count = 1, 0
    now = np.empty(_DEPTH, np.int64)
    for _ in range(4 * _DEPTH):
        if size == 0:
            return count
        size -= 1
        at, depth = stack[size, 0], stack[size, 1]
        if depth:
            now[depth - 1] = stack[size, 2]
        if at == 1:
            if count == PATHS:
                return -1
            path[count, :depth] = now[:depth]
            length[count] = depth
            count += 1
        elif at > 1:
            n = first + at - own
            test = node[n, NODE_TEST]
            if at < own or depth == _DEPTH or test >= inputs or test < 2:
                return -1
            for truth in range(2):
                stack[size, 0], stack[size, 1] = node[n, NODE_LOW + truth], depth + 1
                stack[size, 2] = 2 * test + truth
                size += 1
    return -1


@kernel
def _bit(number, known, used):
    """The bit for an event, flag or need of the cluster; 0 where there are too many."""
    if known[number] == 0:
        if used[0] == BITS:
            return np.int64(0)
        known[number] = np.int64(1) << used[0]
        used[1 + used[0]] = number
        used[0] += 1
    return known[number]


@kernel
def _cube(path, groups, thresholds, known, used, low, high, bits):
    """Write a path as bounds (of each group) and bits (must, want), which begin with the need.

    0: no message can be so, -1: there are too many bits, else 1.
    """
    low[:], high[:] = LOWEST, HIGHEST
    for i in range(path.size):
        place, truth = (path[i] >> 1) - 2, path[i] & 1
        if place < thresholds.size:
            g = 0
            while g < low.size - 1 and place >= groups[g, GROUP_FIRST] + groups[g, GROUP_COUNT]:
                g += 1
            if truth and thresholds[place] == LOWEST:
                return 0
            if truth:
                high[g] = min(high[g], thresholds[place] - 1)
            else:
                low[g] = max(low[g], thresholds[place])
        else:
            bit = _bit(place - thresholds.size, known, used)
            if bit == 0:
                return -1
            if bits[0] & bit and (bits[1] & bit != 0) != (truth != 0):
                return 0
            bits[0] |= bit
            if truth:
                bits[1] |= bit
    return 0 if (low > high).any() else 1


@kernel
def _of_cluster(clusters, c, low, high, bits, owner, rest, used):
    """The cubes of cluster c into rows of low, high and bits; how many, and how many roots are
    left over in `rest`. `used`: how many bits, and what they stand for."""
    at, end = clusters.starts[c], clusters.starts[c + 1]
    groups = clusters.group[at[GROUP] : end[GROUP]]
    thresholds = clusters.threshold[at[THRESHOLD] : end[THRESHOLD]]
    asked = end[EVENT] - at[EVENT] + end[FLAG] - at[FLAG]
    inputs = 2 + thresholds.size + asked
    own = inputs + end[HOIST] - at[HOIST]
    known = np.zeros(asked + end[NEED] - at[NEED], np.int64)
    path, length = np.empty((PATHS, _DEPTH), np.int64), np.empty(PATHS, np.int64)
    used[0] = count = left = 0
    for r in range(at[ROOT], end[ROOT]):
        first = at[NODE] + clusters.root[r, ROOT_NODE]
        found = _paths(
            clusters.node, first, own, inputs, clusters.root[r, ROOT_PLACE], path, length
        )
        need = _bit(asked + clusters.root[r, ROOT_NEED], known, used)
        before = count
        if need == 0:
            found = -1
        for p in range(found):
            bits[count] = need
            owner[count] = clusters.root[r, ROOT_OWNER]
            way = path[p, : length[p]]
            made = _cube(way, groups, thresholds, known, used, low[count], high[count], bits[count])
            if made < 0:
                count, found = before, -1
                break
            count += made
        if found < 0:
            rest[left] = r
            left += 1
    return count, left


@kernel
def _varied(values):
    """How many different values there are."""
    ordered = values[np.argsort(values)]  # as elsewhere: one sort to compile
    return 1 + np.count_nonzero(ordered[1:] != ordered[:-1])


@kernel
def _tests(groups, low, high, columns, bounds):
    """What the cubes ask of keys, as columns and bounds (`bound <= key`, for ~column both
    inverted); the most telling first. How many there are."""
    count = best = most = 0
    for g in range(groups.shape[0]):
        for upper in range(2):
            side = ~high[:, g] if upper else low[:, g].copy()
            if (side == LOWEST).all():
                continue
            columns[count] = ~groups[g, GROUP_COLUMN] if upper else groups[g, GROUP_COLUMN]
            bounds[count] = side
            varied = _varied(side)
            if varied > most:
                best, most = count, varied
            count += 1
    if best > 0:
        columns[0], columns[best] = columns[best], columns[0]
        first = bounds[0].copy()
        bounds[0], bounds[best] = bounds[best], first
    return count


@kernel
def _grown(array, size):
    """The array with room for `size` items."""
    if size <= array.size:
        return array
    larger = np.empty(max(size, 2 * array.size), array.dtype)
    larger[: array.size] = array
    return larger


@kernel
def cubes_of(clusters):
    """The arrays of the cubes of all clusters but 0, in the order of their clusters; and the roots
    of these clusters that are no cubes."""
    count = clusters.starts.shape[0] - 1
    starts = np.zeros((count + 1, 6), np.int64)
    test, bound = np.empty(16, np.int32), np.empty(64, np.int64)
    owners, rest, bit = np.empty((3, 16), np.int32)
    used = np.empty(1 + BITS, np.int64)
    over = 0
    for c in range(count):
        at, end = starts[c], starts[c + 1]
        end[:MUST] = at[:MUST]
        roots = clusters.starts[c + 1, ROOT] - clusters.starts[c, ROOT]
        if c == 0 or roots == 0:
            continue
        groups = clusters.group[clusters.starts[c, GROUP] : clusters.starts[c + 1, GROUP]]
        low, high = np.empty((2, PATHS * roots, groups.shape[0]), np.int64)
        bits, owner = np.empty((PATHS * roots, 2), np.int64), np.empty(PATHS * roots, np.int32)
        left = np.empty(roots, np.int32)
        cubes, lefts = _of_cluster(clusters, c, low, high, bits, owner, left, used)
        low, high, bits, owner = low[:cubes], high[:cubes], bits[:cubes], owner[:cubes]
        rest = _grown(rest, over + lefts)
        rest[over : over + lefts] = left[:lefts]
        over += lefts
        if cubes == 0:
            continue
        bit = _grown(bit, end[BIT] + used[0])
        bit[end[BIT] : end[BIT] + used[0]] = used[1 : 1 + used[0]]
        end[BIT] += used[0]
        columns = np.empty(2 * groups.shape[0], np.int32)
        bounds = np.empty((2 * groups.shape[0], cubes), np.int64)
        tests = _tests(groups, low, high, columns, bounds)
        order = np.argsort(bounds[0]) if tests else np.arange(cubes)
        alike = (bits[:, 0] == bits[0, 0]).all() and (bits[:, 1] == bits[0, 1]).all()
        if alike:
            at[MUST], at[WANT] = bits[0, 0], bits[0, 1]
        test = _grown(test, end[TEST] + tests + 1)
        test[end[TEST] : end[TEST] + tests] = columns[:tests]
        end[TEST] += tests
        vectors = tests if alike else tests + 2
        bound = _grown(bound, end[BOUND] + vectors * cubes + SPARE)
        for t in range(tests):
            bound[end[BOUND] : end[BOUND] + cubes] = bounds[t][order]
            end[BOUND] += cubes
        if not alike:
            for side in range(2):
                bound[end[BOUND] : end[BOUND] + cubes] = bits[:, side][order]
                end[BOUND] += cubes
        owners = _grown(owners, end[CUBE] + cubes)
        owners[end[CUBE] : end[CUBE] + cubes] = owner[order]
        end[CUBE] += cubes
    end = starts[count]
    bound = _grown(bound, end[BOUND] + SPARE)
    bound[end[BOUND] :] = 0
    return (
        starts,
        test[: end[TEST]].copy(),
        bound[: end[BOUND] + SPARE].copy(),
        owners[: end[CUBE]].copy(),
        bit[: end[BIT]].copy(),
        rest[:over].copy(),
    )


@kernel
def strip(clusters, rest):
    """Leave of all clusters but 0 what `cubes_of` did not take: the roots `rest`, their nodes and
    what these look at. Events, flags and needs stay: the bits of cubes are numbers of these.

    In place: rows move to the front, and `starts` says where they end.
    """
    starts = clusters.starts
    at = starts[1].copy()  # where the cluster began before anything moved
    taken = 0
    for c in range(1, starts.shape[0] - 1):
        end, now = starts[c + 1].copy(), starts[c]
        first = taken
        while taken < rest.size and rest[taken] < end[ROOT]:
            taken += 1
        starts[c + 1] = now
        starts[c + 1, EVENT : NEED + 1] = end[EVENT : NEED + 1]
        if taken > first:
            _keep(clusters, at, end, rest[first:taken], starts[c + 1])
        at = end


@kernel
def _keep(clusters, at, end, roots, to):
    """Move these roots of the cluster that stands from `at` to `end`, and all that the cluster's
    roots share, to rows from `to` on; `to` moves behind them."""
    for i in range(end[GROUP] - at[GROUP]):
        clusters.group[to[GROUP] + i] = clusters.group[at[GROUP] + i]
    for i in range(end[THRESHOLD] - at[THRESHOLD]):
        clusters.threshold[to[THRESHOLD] + i] = clusters.threshold[at[THRESHOLD] + i]
    for i in range(end[HOIST] - at[HOIST]):
        clusters.hoist[to[HOIST] + i] = clusters.hoist[at[HOIST] + i]
    for column in (GROUP, THRESHOLD, HOIST):
        to[column] += end[column] - at[column]
    base = to[NODE]
    to[NODE] = _move(clusters.node, at[NODE], at[NODE] + clusters.root[at[ROOT], ROOT_NODE], base)
    for r in roots:
        begin = at[NODE] + clusters.root[r, ROOT_NODE]
        after = at[NODE] + clusters.root[r + 1, ROOT_NODE] if r + 1 < end[ROOT] else end[NODE]
        clusters.root[to[ROOT]] = clusters.root[r]
        clusters.root[to[ROOT], ROOT_NODE] = to[NODE] - base
        to[ROOT] += 1
        to[NODE] = _move(clusters.node, begin, after, to[NODE])


@kernel
def _move(rows, first, last, to):
    """Rows first to last copied to rows from `to` on, which is no later; the row behind them."""
    for n in range(first, last):
        rows[to + n - first] = rows[n]
    return to + last - first
