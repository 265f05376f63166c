"""Everywhere: subscriptions that no event or bound leads to. Every message meets all of them.

They are cluster 0 of the programs; the other clusters are those of `ClusterPath`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tamis.diagram.shared import allocate, grown
from tamis.engine.choosing.claims import Claims
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
from tamis.engine.ground.kernel_output import COUNT, FILL, KEEP, Output
from tamis.engine.ground.layout import I4, I8, U1, Requirements
from tamis.engine.ground.lazy import lazy
from tamis.engine.lookup.term_index import Index
from tamis.engine.paths.everywhere import emit
from tamis.engine.paths.everywhere import straight_line as s
from tamis.engine.paths.everywhere.one_message import Graph, graph_of, run_one
from tamis.engine.paths.everywhere.program_checks import checked_programs
from tamis.engine.paths.everywhere.scratch import new_scratch
from tamis.engine.paths.everywhere.straight_line import ByNeed, Clusters
from tamis.engine.paths.everywhere.term_words import words_of
from tamis.engine.paths.everywhere.wide_rows import run_everywhere
from tamis.engine.paths.everywhere.words import Scratch, run_cluster
from tamis.engine.reading.templates import Template
from tamis.engine.values.term_program import TermWords

_APART = 1024  # nodes of a condition that is built by itself
_MANY_ROOTS = 256  # from which on a single message goes through their graph
_memory = threading.local()


class EverywherePath(Path):
    ARRAYS: ClassVar = {
        "starts": (np.int64, 8), "group": (np.int32, 3), "threshold": (np.int64, 0),
        "event": (np.int32, 0), "flag": (np.int32, 2), "need": (np.int32, 0),
        "hoist": (np.int32, 0), "node": (np.int32, 3), "root": (np.int32, 4),
    }  # fmt: skip
    KEEPS = False  # its pairs would be larger than the result

    def __init__(self, clusters: Clusters, requirements: Requirements, index: Index) -> None:
        self.clusters, self.requirements, self.index = clusters, requirements, index

    @classmethod
    def claim(cls, claims: Claims, template: Template, members: I4) -> bool:
        claims.rest.append(members)
        return True

    @classmethod
    def build(cls, building: Building) -> EverywherePath:
        offsets, words = building.programs
        given = emit.Given(
            building.given.atoms.variables,
            *building.asked,
            offsets,
            words,
            *building.pairs,
            building.required,
        )
        clusters = _compile(given, building.budget)
        return cls(clusters, building.requirements, building.index)

    @classmethod
    def check(cls, arrays: Arrays, frame: Frame) -> EverywherePath:
        clusters = Clusters(*(arrays[name] for name in cls.ARRAYS))
        checked_programs(clusters, frame.index, frame.count, len(frame.requirements.offsets) - 1)
        return cls(clusters, frame.requirements, frame.index)

    def trim(self) -> None:
        """Give back the room behind the last program."""
        starts: I8 = self.clusters.starts
        arrays: Any = self.clusters[1:]
        ends = starts[-1].tolist()
        trimmed: Any = (array[:end].copy() for array, end in zip(arrays, ends, strict=True))
        self.clusters = Clusters(starts, *trimmed)

    def arrays(self) -> tuple[Any, ...]:
        return self.clusters

    @lazy
    def roots(self) -> int:
        return int(self.clusters.starts[1, s.ROOT])

    @lazy
    def longest(self) -> int:
        """An upper bound of the nodes of any part: the longest run between two starts of parts."""
        clusters = self.clusters
        first = np.repeat(clusters.starts[:-1, s.NODE], np.diff(clusters.starts[:, s.ROOT]))
        hoist = np.repeat(clusters.starts[:-1, s.NODE], np.diff(clusters.starts[:, s.HOIST]))
        begins = np.concatenate(
            [
                clusters.root[:, s.ROOT_NODE] + first,
                clusters.hoist + hoist,
                clusters.starts[:, s.NODE],
            ]
        )
        return int(np.diff(np.sort(begins)).max(initial=0))

    @lazy
    def by_need(self) -> ByNeed:
        """How the roots of cluster 0 share their requirements."""
        needs = self.clusters.root[: self.roots, s.ROOT_NEED]
        count = int(self.clusters.starts[1, s.NEED])
        starts = np.concatenate([[0], np.cumsum(np.bincount(needs, minlength=count))])
        return ByNeed(starts.astype(np.int64), np.argsort(needs, kind="stable").astype(np.int32))

    @lazy
    def graph(self) -> Graph:
        """Of all roots, for single messages."""
        return graph_of(self.clusters)

    @property
    def subscriptions(self) -> I4:
        """Those that every message meets."""
        return np.unique(self.clusters.root[: self.roots, s.ROOT_OWNER])

    @property
    def most(self) -> int:
        return len(self.clusters.root)

    @property
    def busy(self) -> bool:
        return self.roots > 0

    @property
    def events(self) -> I4:
        return np.unique(self.clusters.event[: self.clusters.starts[1, s.EVENT]])

    def mark(self, columns: Marks, events: Marks) -> None:
        end = self.clusters.starts[1]
        columns[self.clusters.group[: end[s.GROUP], s.GROUP_COLUMN]] = True
        events[self.clusters.event[: end[s.EVENT]]] = True

    def term_words(self, index: Index, columns: Marks, events: Marks) -> TermWords | None:
        return words_of(index, self.clusters, columns, events)

    def run(self, messages: PathInput, own: None, output: Output, mode: int) -> None:
        block, count = messages.block, messages.block.flags.shape[1]
        if mode == FILL and count == 1 and self.roots >= _MANY_ROOTS:
            graph = self.graph
            run_one(graph, self.clusters, self.requirements, block, _values(graph), output)
            return
        clusters, requirements, scratch = self.clusters, self.requirements, self.scratch(count)
        if count > 64:
            run_everywhere(clusters, self.by_need, requirements, block, scratch, output, mode)
        else:
            counted = COUNT if mode == KEEP else mode
            everyone = np.arange(count, dtype=np.int32)
            run_cluster(clusters, 0, requirements, block, everyone, scratch, output, counted)

    def scratch(self, messages: int) -> Scratch:
        """This thread's memory for so many messages; it goes when the path does."""
        known: dict[tuple[int, bool], tuple[weakref.ref[EverywherePath], Scratch]] | None
        known = getattr(_memory, "scratch", None)
        if known is None:
            known = _memory.scratch = {}
        wide = messages > 64
        key = id(self), wide
        if key not in known or known[key][0]() is not self:
            if len(known) >= 32:
                known.clear()
            # Not a lambda: Ctrl-C within one that Python calls at the end of an object is lost.
            gone = weakref.ref(self, partial(known.pop, key))
            sizes = self.clusters, self.requirements, self.index, self.longest
            known[key] = gone, new_scratch(*sizes, wide=wide)
        return known[key][1]

    # --- for people ----------------------------------------------------------

    def lines(self, printer: Printer) -> Iterator[str]:
        yield "cluster 0"
        yield from self.programs(0, printer)

    def programs(self, c: int, printer: Printer) -> Iterator[str]:
        """A node `7 = 2 ? 5 : 0` has the value of place 5 if place 2 is true, else of place 0."""
        clusters = self.clusters
        at, end = clusters.starts[c], clusters.starts[c + 1]
        roots = clusters.root[at[s.ROOT] : end[s.ROOT]]
        if not len(roots):
            return
        inputs = self._inputs(at, end, printer)
        for place, text in enumerate(inputs, 2):
            yield f"  {place}: {text}"
        hoists = clusters.hoist[at[s.HOIST] : end[s.HOIST]].tolist()
        first = 2 + len(inputs)
        begins = [*hoists, *roots[:, s.ROOT_NODE].tolist(), int(end[s.NODE] - at[s.NODE])]
        parts = [
            self._nodes(at[s.NODE] + begin, at[s.NODE] + stop, first + len(hoists))
            for begin, stop in pairwise(begins)
        ]
        for i, part in enumerate(parts[: len(hoists)]):
            yield f"  {first + i}, shared: {'; '.join(part)}"
        for row, part in zip(roots.tolist(), parts[len(hoists) :], strict=True):
            _, place, subscription, need = row
            names = printer.required[clusters.need[at[s.NEED] + need]]
            required = f"; needs {' AND '.join(names)}" if names else ""
            steps = "; ".join([*part, f"result {place}"])
            yield f"  {printer.owners[subscription]}: {steps}{required}"

    def _inputs(self, at: I8, end: I8, printer: Printer) -> list[str]:
        """What the places from 2 on hold before any node."""
        clusters, names = self.clusters, printer.names
        thresholds = clusters.threshold[at[s.THRESHOLD] : end[s.THRESHOLD]].tolist()
        texts = [
            names.bound(column, thresholds[first + i], below=True)
            for column, first, count in clusters.group[at[s.GROUP] : end[s.GROUP]].tolist()
            for i in range(count)
        ]
        texts += [printer.events[e] for e in clusters.event[at[s.EVENT] : end[s.EVENT]].tolist()]
        return texts + [
            names.flag(*row) for row in clusters.flag[at[s.FLAG] : end[s.FLAG]].tolist()
        ]

    def _nodes(self, begin: int, stop: int, place: int) -> list[str]:
        rows = self.clusters.node[begin:stop].tolist()
        return [f"{place + i} = {t} ? {high} : {low}" for i, (t, low, high) in enumerate(rows)]

    def codes(self, add: Callable[[int, Code], None]) -> None:
        """Of the roots of all clusters."""
        clusters = self.clusters
        for c in np.flatnonzero(np.diff(clusters.starts[:, s.ROOT])).tolist():
            at, end = clusters.starts[c], clusters.starts[c + 1]
            roots = clusters.root[at[s.ROOT] : end[s.ROOT]]
            bounds = np.append(roots[:, s.ROOT_NODE], end[s.NODE] - at[s.NODE]) + at[s.NODE]
            needs = clusters.need[at[s.NEED] : end[s.NEED]]
            for i, (_, place, subscription, need) in enumerate(roots.tolist()):
                nodes = clusters.node[bounds[i] : bounds[i + 1]].tobytes()
                add(subscription, (c, place, int(needs[need]), nodes))


def _values(graph: Graph) -> U1:
    """This thread's working memory: a byte for each input and node."""
    size = graph.inputs + len(graph.test)
    values: U1 | None = getattr(_memory, "values", None)
    if values is None or len(values) < size:
        values = _memory.values = np.empty(size, np.uint8)
    return values


# --- compilation -------------------------------------------------------------


def _compile(given: emit.Given, budget: int) -> Clusters:
    """The compiled clusters, with room behind the last of them."""
    count, words = len(given.pair_at) - 1, len(given.words)
    out = _empty(count, max(1024, words + words // 2), len(given.member))
    largest = max(1024, 2 * words if count == 1 else 2 * _largest(given))
    nodes, apart = allocate(largest), allocate(_APART)
    done, stretch = 0, 1
    while True:
        done = emit.clusters(given, nodes, apart, done, out, budget, stretch)
        if done == count:
            return out
        if done < 0:
            done, nodes, stretch = -done - 1, grown(nodes), 2 * stretch
        else:
            out = Clusters(out.starts, *(np.concatenate([a, np.empty_like(a)]) for a in out[1:]))


def _largest(given: emit.Given) -> int:
    """The words of the largest cluster."""
    sizes = np.diff(given.offsets)[given.member]
    return int(np.add.reduceat(np.append(sizes, 0), given.pair_at[:-1]).max(initial=1))


def _empty(clusters: int, room: int, roots: int) -> Clusters:
    rooms = (room, room, room, room, room, room, 2 * room, max(roots, 1))
    kinds: Any = list(EverywherePath.ARRAYS.values())[1:]
    arrays: Any = (
        np.empty((size, width) if width else size, kind)
        for size, (kind, width) in zip(rooms, kinds, strict=True)
    )
    return Clusters(np.zeros((clusters + 1, 8), np.int64), *arrays)
