"""Plans: which rows the values of a batch lead to. A segment that meets its first batch makes one.

A *lone* cube asks for one bound at most and nothing else (`symbol = 'IBM' AND price < 120`, with
few such alerts on a symbol). In sets of many attributes nearly all are: what a row says about a
cluster would then cost more than the cubes in it, so these stand by themselves, under their value.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tamis.diagram.bdd import LOWEST
from tamis.engine.ground.layout import I4, I8, Access
from tamis.engine.paths.clusters.cluster_path import ClusterPath
from tamis.engine.paths.clusters.cubes import BOUND, TEST, Cubes
from tamis.engine.paths.direct.direct_rows import (
    ASKED,
    COUNT,
    MASK,
    MASKED,
    NEEDS,
    OWNER,
    SHAPE,
    Field,
    Fields,
    Flag,
    Marks,
    Rows,
    rows_of,
)
from tamis.engine.paths.everywhere.straight_line import ROOT
from tamis.jit.kernel import arrays_from, kernel

_LARGE = 1 << 22  # bytes of bounds and masks, beyond which no cache holds them
_FEW = 4  # cubes of a cluster that may be lone ones: more are sooner searched or tested together


class AccessValues(NamedTuple):
    """Which values messages have, way by way (a field, or some messages' values of one).

    Value v of way w leads to the rows from begin[base[w] + v] to the next; a base of -1: to none.
    order[places[w]:places[w + 1]] are the messages that have a value, by value; none: all, as they
    come.
    """

    begin: I4
    base: I8
    codes: I4  # way x message: its value, or -1
    order: I4
    places: I8


class Lone(NamedTuple):
    """Cubes that hold where `bound <= key`, of the column; of ~column the key is complemented."""

    begin: I4  # value -> its first cube, as in a plan
    column: I4
    bound: I8
    owner: I4  # subscription


class Plan(NamedTuple):
    rows: Rows
    lone: Lone
    begin: I4  # value -> its first row, the fields one behind the other
    begins: dict[Field, Begin]
    shifts: dict[Field, int]  # where a field stands in the signature
    flags: dict[Flag, int]  # where a flag does
    access: Access  # to the other clusters
    large: bool  # whether messages with the same value should stand side by side


class Begin(NamedTuple):
    """A field whose values lead somewhere: where it begins among all values, or -1."""

    row: int
    lone: int
    values: int  # how many it has


def plan_of(path: ClusterPath, computed: frozenset[int]) -> Plan:
    """The plan of these clusters. Values of the `computed` terms (their places in the index) reach
    the kernels as events alone: they lead to no row, and are not in a signature."""
    clusters, access, cubes = path.clusters, path.access, path.cubes
    valued = [t for i, t in enumerate(path.index.terms) if i not in computed]
    fields = {(t.number, f): p for t in valued for f, p in t.points.items()}
    direct = _single(access, fields, len(clusters.starts) - 1)
    direct &= np.diff(clusters.starts[:, ROOT]) == 0
    rows, shifts, flags = rows_of(path, fields, direct)
    lone = np.zeros(len(direct), bool)
    _mark_lone(cubes, rows, direct, lone)
    begins, by_row, by_lone = _by_value(fields, access, direct & (rows.row[:, COUNT] > 0), lone)
    others = ~direct[access.clusters]
    offsets = np.concatenate([[0], np.cumsum(others)])[access.offsets]
    rest = Access(offsets.astype(np.int64), access.clusters[others])
    large = rows.bound.nbytes + rows.mask.nbytes > _LARGE
    alone = _alone(cubes, rows, *by_lone)
    begin, chosen = by_row
    rows = rows._replace(row=rows.row[chosen])
    return Plan(rows, alone, begin, begins, shifts, flags, rest, large)


def _single(access: Access, fields: Fields, clusters: int) -> Marks:
    """Clusters with one way in, which is a value."""
    values = np.zeros(len(access.offsets) - 1, bool)
    for points in fields.values():
        values[points.events] = True
    good = access.clusters[np.repeat(values, np.diff(access.offsets))]
    single: Marks = np.bincount(access.clusters, minlength=clusters) == 1
    single &= np.bincount(good, minlength=clusters) == 1
    return single


@kernel
def _mark_lone(cubes, rows, direct, lone):
    """Mark the direct clusters that consist of a few lone cubes."""
    for c in range(1, direct.size):
        n = rows.row[c, COUNT]
        if not direct[c] or n == 0 or n > _FEW:
            continue
        s, mask = rows.row[c, SHAPE], rows.row[c, MASK]
        masked = rows.shape[s, MASKED] != 0
        alone = rows.shape[s, NEEDS] == 0 and (masked or rows.shape[s, ASKED] == 0)
        tests, first = cubes.starts[c + 1, TEST] - cubes.starts[c, TEST], cubes.starts[c, BOUND]
        for i in range(n):
            bounds = 0
            for t in range(tests):
                bounds += cubes.bound[first + t * n + i] != LOWEST
            alone &= bounds <= 1 and (not masked or rows.mask[mask + i] == 0)
        lone[c] = alone


def _by_value(
    fields: Fields, access: Access, direct: Marks, lone: Marks
) -> tuple[dict[Field, Begin], tuple[I4, I4], tuple[I4, I4]]:
    """The direct clusters, and the lone among them, in the order of the values that lead to them:
    of each value its first one, and these."""
    begins: dict[Field, Begin] = {}
    rows, cubes = _Listed(), _Listed()
    for field, points in fields.items():
        found = []
        for listed, wanted in ((rows, direct & ~lone), (cubes, lone)):
            found.append(listed.add(_reached, points.offsets, points.events, access, wanted))
        if found != [-1, -1]:
            begins[field] = Begin(found[0], found[1], len(points.offsets) - 1)
    return begins, rows.arrays(), cubes.arrays()


class _Listed:
    """Clusters in the order of the values that lead to them, one field behind the other."""

    def __init__(self) -> None:
        self.begins, self.clusters = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        self.count = self.place = 0

    def add(self, reached: Any, *given: Any) -> int:
        """Where the values of one more field begin; -1: they lead to none."""
        begin, clusters = arrays_from(reached, *given)
        if not len(clusters):
            return -1
        self.begins.append(begin + np.int32(self.count))
        self.clusters.append(clusters)
        place = self.place
        self.count, self.place = self.count + len(clusters), place + len(begin)
        return place

    def arrays(self) -> tuple[I4, I4]:
        return np.concatenate(self.begins), np.concatenate(self.clusters)


@kernel
def _reached(offsets, events, access, wanted):
    """Of each value, its first among the wanted clusters; and these."""
    begin = np.zeros(offsets.size, np.int32)
    found = np.empty(access.clusters.size, np.int32)
    count = 0
    for v in range(offsets.size - 1):
        for i in range(offsets[v], offsets[v + 1]):
            for k in range(access.offsets[events[i]], access.offsets[events[i] + 1]):
                if wanted[access.clusters[k]]:
                    found[count] = access.clusters[k]
                    count += 1
        begin[v + 1] = count
    return begin, found[:count].copy()


def _alone(cubes: Cubes, rows: Rows, begin: I4, chosen: I4) -> Lone:
    """The cubes of the chosen clusters."""
    ends = np.concatenate([[0], np.cumsum(rows.row[chosen, COUNT])]).astype(np.int32)
    column, owner = np.zeros((2, ends[-1]), np.int32)
    bound = np.full(ends[-1], LOWEST, np.int64)
    _write_lone(cubes, rows, chosen, column, bound, owner)
    return Lone(ends[begin], column, bound, owner)


@kernel
def _write_lone(cubes, rows, chosen, column, bound, owner):
    at = 0
    for c in chosen:
        n, first, test = rows.row[c, COUNT], cubes.starts[c, BOUND], cubes.starts[c, TEST]
        for i in range(n):
            owner[at] = rows.owner[rows.row[c, OWNER] + i]
            for t in range(cubes.starts[c + 1, TEST] - test):
                if cubes.bound[first + t * n + i] != LOWEST:
                    column[at] = cubes.test[test + t]
                    bound[at] = cubes.bound[first + t * n + i]
            at += 1
