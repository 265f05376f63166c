"""An implication graph, ready to be evaluated; and what readers see of several."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tamis.engine.ground.kernel_output import sort_rows
from tamis.engine.ground.layout import I4, I8, U1, U8, Block
from tamis.engine.ground.lazy import lazy
from tamis.engine.implications import rank
from tamis.engine.implications.edges import Edges, no_edges
from tamis.engine.implications.forest import Forest
from tamis.engine.implications.rank import Memory, Questions, Rank, Starters
from tamis.engine.live.state import MOST_PAIRS, OverflowingError, State
from tamis.engine.lookup.term_index import Index
from tamis.engine.paths.segment import Segment
from tamis.engine.values.block import block_of, encode
from tamis.engine.values.message_batch import Messages
from tamis.engine.values.single_message import Single, encode_one
from tamis.language.tree import attributes
from tamis.logic import Kind, Lookups

_ROOM = 1 << 16
_memory = threading.local()  # each thread's working memory, per graph


@dataclass(frozen=True, slots=True)
class Statistics:
    """What matching took: predicates evaluated, tests that an implication saved, nodes visited."""

    evaluated: int
    implied: int  # predicates whose truth followed from others
    shortcuts: int  # subscriptions that an edge moved on
    visited: int

    @property
    def saved(self) -> int:
        return self.implied + self.shortcuts


@dataclass(frozen=True)
class Graph:
    """A forest with its edges; `beside` holds the subscriptions that are too large for a tree."""

    forest: Forest
    edges: Edges
    kernel: rank.Graph
    beside: Segment | None

    @classmethod
    def of(cls, forest: Forest, beside: Segment | None) -> Graph:
        edges = no_edges(len(forest.trees.test))
        variables, questions = forest.atoms.variables, _questions(forest)
        kernel = rank.Graph(forest.trees, edges, variables, questions, starters(forest))
        return cls(forest, edges, kernel, beside)

    def with_edges(self, edges: Edges) -> Graph:
        kernel = self.kernel._replace(edges=edges)
        return Graph(self.forest, edges, kernel, self.beside)

    def __len__(self) -> int:
        return len(self.forest)

    def memory(self) -> Memory:
        """New working memory. The stack holds what one step may push: every edge once."""
        start = self.kernel.start
        return Memory(
            _rank(self.forest),
            np.zeros(max(self.forest.index.events, 1), np.int64),
            np.zeros((len(start.waiting), 4), np.int64),
            np.empty(len(self.edges.target) + 1, np.int32),
            np.zeros(4, np.int64),
        )


def _rank(forest: Forest) -> Rank:
    """Nobody waits. A subscription enters at most as many lists as its tree has nodes."""
    start, trees = starters(forest), len(forest)
    return Rank(
        np.full(len(start.offsets) - 1, -1, np.int32),
        np.empty((len(forest.trees.test) + 1, 2), np.int32),
        np.zeros(trees, np.int32),
        np.zeros(trees, np.int64),
        start.filled.copy(),
        start.waiting.copy(),
    )


def starters(forest: Forest) -> Starters:
    """Every subscription at the root of its tree."""
    trees, variables, kind = forest.trees, forest.atoms.variables, forest.atoms.kind
    atoms, groups = len(kind), len(variables.table)
    known = np.flatnonzero(trees.root >= 0)
    tests = trees.test[trees.root[known]]
    leaves = known[tests == atoms]
    order = np.argsort(tests, kind="stable")[: len(known) - len(leaves)]
    offsets = np.searchsorted(tests[order], np.arange(atoms + 1)).astype(np.int64)
    asked = np.diff(offsets) > 0
    quiet = _quiet(forest, known[order], tests[order]) & asked
    filled = asked & ~quiet
    # A group whose quiet variables may come up is looked at when its first variable's turn is.
    quiet_groups, first = np.unique(variables.group, return_index=True)
    filled[first[np.isin(quiet_groups, variables.group[quiet])]] = True
    return Starters(
        offsets,
        known[order].astype(np.int32),
        _bits(filled),
        np.bincount(variables.group[tests[order]], minlength=max(groups, 1)).astype(np.int32),
        np.searchsorted(variables.group[quiet], np.arange(groups + 1)).astype(np.int64),
        np.flatnonzero(quiet).astype(np.int32),
        leaves[trees.low[trees.root[leaves]] == 1].astype(np.int32),
    )


def _quiet(forest: Forest, subscriptions: I8, tests: I4) -> npt.NDArray[np.bool_]:
    """The equalities whose failure is that of every subscription that starts with them."""
    trees, variables = forest.trees, forest.atoms.variables
    atoms = len(variables.group)
    low = trees.low[trees.root[subscriptions]]
    quiet: npt.NDArray[np.bool_] = (forest.atoms.kind == Kind.MEMBER) & (
        variables.low < variables.high
    )
    quiet[tests[(trees.test[low] < atoms) | (trees.low[low] == 1)]] = False
    return quiet


def _bits(flags: npt.NDArray[np.bool_]) -> U8:
    padded = np.zeros(64 * (len(flags) // 64 + 1), bool)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view(np.uint64)


def _questions(forest: Forest) -> Questions:
    atoms, index = forest.atoms, forest.index
    kind, variables = atoms.kind, atoms.variables
    bit = np.where(kind == Kind.DEFINED, 1, np.where(kind == Kind.TYPED, 2 << atoms.family, 0))
    posts = np.flatnonzero((kind == Kind.BELOW) & (variables.low < variables.high))
    groups = max(len(variables.table), 1)
    offsets = np.searchsorted(variables.group[posts], np.arange(groups + 1)).astype(np.int64)
    column, family = np.zeros(groups, np.int32), np.zeros(groups, np.uint8)
    for v in posts[offsets[:-1][np.diff(offsets) > 0]].tolist():
        column[variables.group[v]] = index.column[int(atoms.term[v])]
        family[variables.group[v]] = 2 << int(atoms.family[v])
    return Questions(
        kind.astype(np.uint8),
        index.place,
        bit.astype(np.uint8),
        index.threshold,
        offsets,
        posts.astype(np.int32),
        column,
        family,
    )


@dataclass(frozen=True)
class GraphState(State):
    """What readers see: graphs, and which of their subscriptions are alive. Never changed.

    It has no segments of its own; `living` goes with `graphs`.
    """

    graphs: tuple[Graph, ...] = ()
    living: tuple[U1, ...] = ()
    signposts: bool = True

    @lazy
    def beside(self) -> State:
        """The subscriptions that are too large for trees, as diagrams."""
        pairs = [
            (g.beside, a[g.forest.large])
            for g, a in zip(self.graphs, self.living, strict=True)
            if g.beside is not None
        ]
        return State(tuple(s for s, _ in pairs), tuple(a for _, a in pairs))

    @lazy
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that some subscription looks at."""
        terms = [t.term for graph in self.graphs for t in graph.forest.index.terms]
        names = [name for term in terms for name in attributes(term)]
        return tuple(dict.fromkeys((*names, *self.beside.attributes)))

    @lazy
    def size(self) -> int:
        """Subscriptions, dead ones included."""
        return sum(map(len, self.graphs))

    def matched(
        self, messages: Messages, lookups: Lookups, most: int = MOST_PAIRS
    ) -> tuple[I8, I4]:
        """Offsets and slots: which subscriptions each message matches, in the order of adding."""
        statistics = np.zeros(4, np.int64)
        parts = [self.beside.matched(messages, lookups, most)]
        for graph, alive, block in self._encoded(messages, lookups):
            parts.append(_matched(graph, alive, block, statistics, self.signposts))
        offsets, slots = _merged(parts)
        if len(slots) > most:
            raise OverflowingError(np.diff(offsets))
        return offsets, slots

    def count(self, messages: Messages, lookups: Lookups, counts: I8) -> None:
        """Write how many subscriptions each message matches."""
        counts[:] = np.diff(self.matched(messages, lookups)[0])

    def statistics(self, messages: Messages, lookups: Lookups) -> Statistics:
        """What matching the messages takes, all together; subscriptions beside are not counted."""
        statistics = np.zeros(4, np.int64)
        for graph, alive, block in self._encoded(messages, lookups):
            _matched(graph, alive, block, statistics, self.signposts)
        return Statistics(*statistics.tolist())

    def brute_force(self, messages: Messages, lookups: Lookups) -> Statistics:
        """The same where every tree is evaluated on its own."""
        statistics = np.zeros(4, np.int64)
        for graph, alive, block in self._encoded(messages, lookups):
            rank.brute_force(graph.kernel, block, alive, _scratch(graph), statistics)
        return Statistics(*statistics.tolist())

    def one(self, single: Single) -> I4:
        """The slots that a single message matches, in the order of adding."""
        return np.sort(np.fromiter(self.each(single, at_once=True), np.int32))

    def each(self, single: Single, *, at_once: bool = False) -> Iterator[int]:
        """The slots that a message matches, as they are decided.

        Matching rests between two of them, so whoever has seen enough pays for no more.
        """
        statistics = np.zeros(4, np.int64)
        for graph, alive in zip(self.graphs, self.living, strict=True):
            kernel, subscribers = graph.kernel, rank.Subscribers(alive, graph.forest.source.slot)
            out = np.empty(len(graph), np.int32)
            memory = _scratch(graph) if at_once else graph.memory()
            block = encode_one(graph.forest.index, single)
            memory.cursor[2] = done = 0
            rank.begin(kernel, block, 0, subscribers, memory, out)
            finished = False
            while not finished:
                enough = len(out) + 1 if at_once else int(memory.cursor[2]) + 1
                rules = enough, self.signposts
                finished = rank.proceed(
                    kernel, block, 0, subscribers, memory, out, statistics, rules
                )
                found = out[done : memory.cursor[2]].tolist()
                done = int(memory.cursor[2])
                yield from found
        yield from self.beside.one(single).tolist()

    def bitmaps(self, messages: Messages, lookups: Lookups) -> tuple[I4, U8]:
        """The slots alive, and for each a row of bits, one per message."""
        offsets, slots = self.matched(messages, lookups)
        living = [
            g.forest.source.slot[a.view(bool)]
            for g, a in zip(self.graphs, self.living, strict=True)
        ]
        rows = np.sort(np.concatenate([np.empty(0, np.int32), *living]))
        bits = np.zeros((len(rows), (len(messages) + 63) // 64), np.uint64)
        message = np.repeat(np.arange(len(messages)), np.diff(offsets))
        ones = np.uint64(1) << (message % 64).astype(np.uint64)
        np.bitwise_or.at(bits, (np.searchsorted(rows, slots), message // 64), ones)
        return rows, bits

    def _encoded(self, messages: Messages, lookups: Lookups) -> list[tuple[Graph, U1, Block]]:
        return [
            (g, a, _block(g.forest.index, messages, lookups))
            for g, a in zip(self.graphs, self.living, strict=True)
        ]


def _block(index: Index, messages: Messages, lookups: Lookups) -> Block:
    encoded = encode(index, len(messages), lambda term: messages.column(term, lookups))
    return block_of(index, encoded)


def _matched(
    graph: Graph, alive: U1, block: Block, statistics: I8, signposts: bool
) -> tuple[I8, I4]:
    length = block.flags.shape[1]
    ends = np.zeros(length, np.int64)
    out = np.empty(max(_ROOM, 4 * len(graph)), np.int32)
    memory, subscribers = _scratch(graph), rank.Subscribers(alive, graph.forest.source.slot)
    parts: list[I4] = [np.empty(0, np.int32)]
    first = 0
    while first < length:
        after = rank.run(
            graph.kernel, block, first, subscribers, memory, (out, ends), statistics, signposts
        )
        size = int(ends[after - 1])
        parts.append(out[:size].copy())
        ends[first:after] += sum(map(len, parts[:-1]))
        first = after
    return np.concatenate([[0], ends]).astype(np.int64), np.concatenate(parts)


def _merged(parts: list[tuple[I8, I4]]) -> tuple[I8, I4]:
    """The matches of several graphs as one, by message and slot."""
    counts = [np.diff(offsets) for offsets, _ in parts]
    offsets = np.concatenate([[0], np.cumsum(np.sum(counts, axis=0))]).astype(np.int64)
    message = np.concatenate([np.repeat(np.arange(len(c)), c) for c in counts])
    slots = np.concatenate([slots for _, slots in parts])
    slots = slots[np.argsort(message, kind="stable")]
    sort_rows(offsets, slots)
    return offsets, slots


def _scratch(graph: Graph) -> Memory:
    """This thread's working memory for a graph."""
    known: dict[int, tuple[Graph, Memory]] | None = getattr(_memory, "scratch", None)
    if known is None:
        known = _memory.scratch = {}
    if id(graph) not in known or known[id(graph)][0] is not graph:
        if len(known) >= 8:
            known.clear()
        known[id(graph)] = graph, graph.memory()
    return known[id(graph)][1]
