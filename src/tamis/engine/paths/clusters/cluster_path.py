"""Clusters: an event, such as `symbol = 'IBM'`, leads to the subscriptions that need it.

Conditions of few paths are cubes; the rest are programs, as in cluster 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tamis.engine.choosing.claims import Claims, claim_by_events
from tamis.engine.choosing.path import (
    Arrays,
    Building,
    Code,
    Frame,
    Marks,
    Path,
    PathInput,
    Printer,
)
from tamis.engine.choosing.path_wording import bounds_text, joined, literal_text
from tamis.engine.ground.kernel_output import Output
from tamis.engine.ground.layout import I4, Access, Requirements
from tamis.engine.ground.sound import demand, tiling, within
from tamis.engine.lookup.term_index import Index
from tamis.engine.paths.clusters import cubes as k
from tamis.engine.paths.clusters.cubes import Cubes, cubes_of, strip
from tamis.engine.paths.clusters.touching import run_touched
from tamis.engine.paths.everywhere import straight_line as s
from tamis.engine.paths.everywhere.everywhere_path import EverywherePath
from tamis.engine.paths.everywhere.straight_line import Clusters
from tamis.engine.reading.templates import Template
from tamis.jit.kernel import arrays_from

_CUBE = -1  # the place of a cube's result, which has none


class ClusterPath(Path):
    ARRAYS: ClassVar = {
        "cube_starts": (np.int64, 6), "cube_test": (np.int32, 0), "cube_bound": (np.int64, 0),
        "cube_subscription": (np.int32, 0), "cube_bit": (np.int32, 0),
    }  # fmt: skip

    def __init__(self, everywhere: EverywherePath, cubes: Cubes, access: Access) -> None:
        self.everywhere, self.cubes, self.access = everywhere, cubes, access

    @property
    def clusters(self) -> Clusters:
        return self.everywhere.clusters

    @property
    def requirements(self) -> Requirements:
        return self.everywhere.requirements

    @property
    def index(self) -> Index:
        return self.everywhere.index

    @classmethod
    def claim(cls, claims: Claims, template: Template, members: I4) -> bool:
        return claim_by_events(claims, template, members)

    @classmethod
    def build(cls, building: Building) -> ClusterPath:
        everywhere = building.path(EverywherePath)
        *arrays, rest = arrays_from(cubes_of, everywhere.clusters)
        strip(everywhere.clusters, rest)
        everywhere.trim()
        return cls(everywhere, Cubes(*arrays), building.access)

    @classmethod
    def check(cls, arrays: Arrays, frame: Frame) -> ClusterPath:
        everywhere, access = frame.path(EverywherePath), frame.access
        clusters = len(everywhere.clusters.starts) - 1
        # cluster 0 is for every message: no event leads there, and kernels keep no place for it
        within(access.clusters.astype(np.int64) - 1, clusters - 1, "clusters")
        cubes = Cubes(*(arrays[name] for name in cls.ARRAYS))
        _check_cubes(cubes, everywhere.clusters, frame.index, frame.count)
        return cls(everywhere, cubes, access)

    def arrays(self) -> tuple[Any, ...]:
        return self.cubes

    @property
    def most(self) -> int:
        return len(self.cubes.subscription)

    @property
    def busy(self) -> bool:
        return len(self.access.clusters) > 0

    def mark(self, columns: Marks, events: Marks) -> None:
        clusters, test = self.clusters, self.cubes.test
        columns[clusters.group[clusters.starts[1, s.GROUP] :, s.GROUP_COLUMN]] = True
        columns[np.where(test < 0, ~test, test)] = True
        events[clusters.event[clusters.starts[1, s.EVENT] :]] = True
        events[np.diff(self.access.offsets) > 0] = True

    def run(self, messages: PathInput, own: None, output: Output, mode: int) -> None:
        block = messages.block
        if len(messages.access.clusters) == 0 or block.way_offsets[-1] == 0:
            return
        scratch = self.everywhere.scratch(block.flags.shape[1])
        links = self.requirements, messages.access
        run_touched(self.clusters, self.cubes, links, block, scratch, output, mode)

    # --- for people ----------------------------------------------------------

    def lines(self, printer: Printer) -> Iterator[str]:
        for event, (at, end) in enumerate(pairwise(self.access.offsets.tolist())):
            if at < end:
                touched = ", ".join(map(str, self.access.clusters[at:end].tolist()))
                yield f"event {event} leads to cluster {touched}"
        for c in range(1, len(self.clusters.starts) - 1):
            yield f"cluster {c}"
            yield from self.everywhere.programs(c, printer)
            yield from self._cubes(c, printer)

    def _cubes(self, c: int, printer: Printer) -> Iterator[str]:
        cubes = self.cubes
        at, end = cubes.starts[c], cubes.starts[c + 1]
        count, tests = int(end[k.CUBE] - at[k.CUBE]), cubes.test[at[k.TEST] : end[k.TEST]].tolist()
        if not count:
            return
        bits = self._bits(c, cubes.bit[at[k.BIT] : end[k.BIT]].tolist(), printer)
        rows = cubes.bound[at[k.BOUND] : end[k.BOUND]].reshape(-1, count).T.tolist()
        for i, row in enumerate(rows):
            must, want = row[len(tests) :] or (int(at[k.MUST]), int(at[k.WANT]))
            texts = bounds_text(printer.names, tests, row) + _bit_texts(bits, must, want)
            yield f"  {printer.owners[cubes.subscription[at[k.CUBE] + i]]}: {joined(texts)}"

    def _bits(self, c: int, numbers: list[int], printer: Printer) -> list[str]:
        """The meaning of the bits of the cubes of cluster c."""
        clusters, names = self.clusters, printer.names
        at, end = clusters.starts[c], clusters.starts[c + 1]
        texts = [printer.events[e] for e in clusters.event[at[s.EVENT] : end[s.EVENT]].tolist()]
        texts += [names.flag(*row) for row in clusters.flag[at[s.FLAG] : end[s.FLAG]].tolist()]
        needs = clusters.need[at[s.NEED] : end[s.NEED]].tolist()
        texts += [" AND ".join(printer.required[need]) for need in needs]
        return [texts[number] for number in numbers]

    def codes(self, add: Callable[[int, Code], None]) -> None:
        """Two subscriptions with equal cubes in a cluster match the same messages there. Bits that
        all cubes of the cluster ask for are left out."""
        cubes = self.cubes
        for c in np.flatnonzero(np.diff(cubes.starts[:, k.CUBE])).tolist():
            at, end = cubes.starts[c], cubes.starts[c + 1]
            owners = cubes.subscription[at[k.CUBE] : end[k.CUBE]].tolist()
            bounds = cubes.bound[at[k.BOUND] : end[k.BOUND]].reshape(-1, len(owners)).T
            for subscription, cube in zip(owners, bounds, strict=True):
                add(subscription, (c, _CUBE, 0, cube.tobytes()))


def _bit_texts(bits: list[str], must: int, want: int) -> list[str]:
    """The bits that must be set, or must not; a requirement of nothing is left out."""
    return [
        literal_text(text, want >> b & 1) for b, text in enumerate(bits) if must >> b & 1 and text
    ]


def _check_cubes(cubes: Cubes, clusters: Clusters, index: Index, subscriptions: int) -> None:
    """Tests, bounds and bits are there as the kernel will read them, some bounds ahead."""
    starts = cubes.starts
    demand(len(starts) == len(clusters.starts), "cubes do not fit the clusters")
    lengths = (len(cubes.test), len(cubes.bound) - k.SPARE, len(cubes.subscription), len(cubes.bit))
    for column, length in zip((k.TEST, k.BOUND, k.CUBE, k.BIT), lengths, strict=True):
        tiling(starts[:, column], length, "cubes")
    tests, bounds, count, bits = np.diff(starts[:, : k.MUST], axis=0).T
    within(tests, 2 * index.key_columns + 1, "tests of cubes")
    masks = bounds - tests * count  # a mask and a wanted value for each cube, or none
    demand(bool(((masks == 0) | (masks == 2 * count)).all()), "bounds of cubes do not fit")
    within(np.where(cubes.test < 0, ~cubes.test, cubes.test), index.key_columns, "columns of cubes")
    within(cubes.subscription, subscriptions, "subscriptions of cubes")
    within(bits, k.BITS + 1, "bits of cubes")
    known = np.diff(clusters.starts, axis=0)[:, [s.EVENT, s.FLAG, s.NEED]].sum(axis=1)
    within(cubes.bit, np.repeat(known, bits), "bits of cubes")
