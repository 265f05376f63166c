"""What readers see: segments, and which of their subscriptions are alive. Never changed.

A reader takes one reference to the state and works on it to the end, whatever writers do.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tamis.engine.compile.plans import plan_of
from tamis.engine.compile.programs import Source
from tamis.engine.compile.segment import Segment
from tamis.engine.encode.batch import Messages
from tamis.engine.encode.block import Encoded, encode, encode_directly
from tamis.engine.encode.columns import AnyColumn
from tamis.engine.encode.single import Single, encode_one
from tamis.engine.encode.term_program import computed_terms
from tamis.engine.encode.term_words import words_of
from tamis.engine.kernels.direct import run_direct, run_lone
from tamis.engine.kernels.one_message import Graph, graph_of, run_one
from tamis.engine.kernels.output import BITMAP, COUNT, FILL, KEEP, Output, scatter, sort_rows
from tamis.engine.kernels.rows import ROWS
from tamis.engine.kernels.run import ALL, EVERYWHERE, TOUCHED, run
from tamis.engine.kernels.tree_walk import run_trees
from tamis.engine.kernels.words import Scratch
from tamis.engine.layout import (
    CUBE_COUNT,
    EVENT,
    FLAG,
    HOIST,
    I4,
    I8,
    NEED,
    ROOT,
    THRESHOLD,
    U1,
    U8,
    Block,
    Requirements,
    Trees,
)
from tamis.engine.lazy import lazy
from tamis.jit.first_use import heavy
from tamis.jit.vectors import WIDE, aligned
from tamis.language.tree import attributes
from tamis.logic import Derived, Lookups

_NO_BITS = np.empty((0, 0), np.uint64)
_NO_SLOTS = np.empty(0, np.int32)
_NO_PAIRS = np.zeros(1, np.int64)
_ALL_ALIVE = np.empty(0, np.uint8)
_FEW_PAIRS, _MANY_PAIRS = 1 << 20, 1 << 22  # that a batch keeps, at first and at most
MOST_PAIRS = 1 << 29  # of a message and a subscription that a result may hold: 2 GB of numbers
_LISTED = 1 << 14  # blocks that messages may go through side by side
_MANY_ROOTS = 256  # of cluster 0, from which on a single message goes through their graph
_FEW_MESSAGES = 64  # for which nobody makes a plan
_memory = threading.local()  # each thread's working memory, per segment


class OverflowingError(Exception):
    """There are more pairs than asked for: so many for each message, or somewhat fewer."""

    def __init__(self, counts: I8) -> None:
        super().__init__(counts)
        self.counts = counts


@dataclass(frozen=True, slots=True)
class Part:
    """A segment, which of its subscriptions are alive, and whether all are."""

    segment: Segment
    alive: U1
    whole: bool


@dataclass(frozen=True)
class Fresh:
    """A few subscriptions that nobody has asked yet; the first reader compiles them.

    Two that read at once both do: that is as fast as to wait, and the results are the same.
    """

    source: Source
    characters: int  # of their selectors
    compile: Callable[[Source], Segment]

    @lazy
    def segment(self) -> Segment:
        return self.compile(self.source)

    def with_more(self, source: Source, characters: int) -> Fresh:
        """With subscriptions that come later."""
        return Fresh(self.source.with_more(source), self.characters + characters, self.compile)

    def without(self, at: int) -> Fresh | None:
        """Without the subscription at that place; the characters are not known one by one."""
        if len(self.source) == 1:
            return None
        return Fresh(self.source.without(at), self.characters, self.compile)


@dataclass(frozen=True)
class State:
    segments: tuple[Segment, ...] = ()
    alive: tuple[U1, ...] = ()
    fresh: Fresh | None = None

    @lazy
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that some subscription looks at."""
        terms = [index.term for part in self.parts for index in part.segment.index.terms]
        return tuple(dict.fromkeys(name for term in terms for name in attributes(term)))

    @lazy
    def size(self) -> int:
        """How often one message can match at most: once per root or cube, whatever a snapshot
        holds."""
        return sum(_most(part.segment) for part in self.parts)

    @lazy
    def width(self) -> int:
        """Bytes of keys and flags that a message of a batch has at most, in any segment."""
        return max((_width(part.segment) for part in self.parts), default=0)

    def count(self, messages: Messages, lookups: Lookups, counts: I8) -> None:
        """Write how many subscriptions each message matches."""
        counts[:] = 0
        for part, block in self._blocks(messages, lookups):
            if part.segment.overlap:
                counts += np.diff(_found([(part, block)], len(messages), MOST_PAIRS)[0])
            else:
                _run(part, block, _output(part, counts), COUNT)

    def matched(
        self, messages: Messages, lookups: Lookups, most: int = MOST_PAIRS
    ) -> tuple[I8, I4]:
        """Offsets and slots: which subscriptions each message matches, in the order of adding.

        OverflowingError, where these are more than `most`.
        """
        return _found(self._blocks(messages, lookups), len(messages), most)

    def one(self, single: Single) -> I4:
        """The slots that a single message matches, in the order of adding."""
        # Lookups may match messages themselves: all values are known before memory is taken.
        heavy(sum(len(part.segment) for part in self.parts))
        blocks = [(p, Encoded(encode_one(p.segment.index, single))) for p in self.parts]
        cursor, slots = np.zeros(1, np.int64), _room(self.size + 1)
        for part, block in blocks:
            _run(part, block, _output(part, cursor, slots), FILL)
        found = slots[: cursor[0]].copy()
        if len(found) < 2 or (found[1:] > found[:-1]).all():
            return found
        return np.unique(found) if any(p.segment.overlap for p in self.parts) else np.sort(found)

    def bitmaps(self, messages: Messages, lookups: Lookups) -> tuple[I4, U8]:
        """The slots alive in the order of adding, and for each a row of bits, one per message."""
        width = (len(messages) + 63) // 64
        slots, rows = [_NO_SLOTS], [np.zeros((0, width), np.uint64)]
        for part, block in self._blocks(messages, lookups):
            bits = np.zeros((len(part.segment), width), np.uint64)
            _run(part, block, _output(part, np.empty(0, np.int64), bits=bits), BITMAP)
            kept = np.flatnonzero(part.alive)
            slots.append(part.segment.source.slot[kept])
            rows.append(bits[kept])
        found, bits = np.concatenate(slots), np.concatenate(rows)
        if (found[1:] > found[:-1]).all():
            return found, bits
        order = np.argsort(found)
        return found[order], bits[order]

    @lazy
    def parts(self) -> tuple[Part, ...]:
        both = zip(self.segments, self.alive, strict=True)
        parts = [Part(segment, alive, bool(alive.all())) for segment, alive in both]
        if self.fresh is not None:
            segment = self.fresh.segment
            parts.append(Part(segment, np.ones(len(segment), np.uint8), True))
        return tuple(parts)

    def _blocks(self, messages: Messages, lookups: Lookups) -> list[tuple[Part, Encoded]]:
        heavy(len(messages) * sum(4 + len(part.segment) for part in self.parts))
        return [(p, _block(p.segment, messages, lookups)) for p in self.parts]


def _found(blocks: list[tuple[Part, Encoded]], count: int, most: int) -> tuple[I8, I4]:
    """Offsets and slots of so many messages, at most so many slots.

    What is counted is kept beside as pairs; where these have no room all is found once more, and
    what every message is relevant to is in any case.
    """
    offsets = np.zeros(count + 1, np.int64)
    pairs = _pairs(count)
    pairs[0] = 0
    for part, block in blocks:
        _run(part, block, _output(part, offsets[1:], pairs=pairs), KEEP)
    np.cumsum(offsets, out=offsets)
    if offsets[-1] > most:
        raise OverflowingError(np.diff(offsets))
    slots = np.empty(int(offsets[-1]), np.int32)
    cursor = offsets[:-1].copy()
    kept = bool(pairs[0] < len(pairs))
    if not kept:
        _memory.pairs = np.empty(_MANY_PAIRS, np.int64)  # there may be more of such batches
    for part, block in blocks:
        _run(part, block, _output(part, cursor, slots), FILL, everywhere=kept)
    if kept:
        scatter(pairs, cursor, slots)
    return offsets, sort_rows(offsets, slots)


def _block(segment: Segment, messages: Messages, lookups: Lookups) -> Encoded:
    index, length = segment.index, len(messages)

    def column(term: Derived) -> AnyColumn:
        return messages.column(term, lookups)

    if length > _FEW_MESSAGES:
        plan = plan_of(segment, computed_terms(index))
        everywhere, words = segment.everywhere, words_of(segment)
        return encode_directly(plan, index, length, column, everywhere, words, messages.plain)
    return Encoded(encode(index, length, column, segment.access, segment.everywhere))


def _width(segment: Segment) -> int:
    words, columns = words_of(segment), segment.index.key_columns
    worded = 0 if words is None else int(np.count_nonzero(words.below >= 0))
    return 8 * (columns - worded) + len(segment.index.terms)


def _most(segment: Segment) -> int:
    """How often one message can match at most."""
    cubes = len(segment.cubes.subscription) + len(segment.trees.subscription)
    return len(segment.clusters.root) + cubes


def _output(
    part: Part, counts: I8, slots: I4 = _NO_SLOTS, bits: U8 = _NO_BITS, pairs: I8 = _NO_PAIRS
) -> Output:
    own = part.segment.source.slot
    if len(own) and own[-1] - own[0] == len(own) - 1:
        own = own[:1]
    return Output(counts, slots, bits, pairs, _ALL_ALIVE if part.whole else part.alive, own)


def _run(
    part: Part, given: Encoded, output: Output, mode: int, *, everywhere: bool = False
) -> None:
    """Match a block; `everywhere`: only what every message is relevant to."""
    segment, block = part.segment, given.block
    access = segment.access if given.plan is None else given.plan.access
    roots = int(segment.clusters.starts[1, ROOT])
    which = EVERYWHERE if everywhere else ALL
    if not everywhere:
        _run_led(part, given, output, mode)
    if mode == FILL and block.flags.shape[1] == 1 and roots >= _MANY_ROOTS:
        _run_graph(part, block, output)
        roots, which = 0, TOUCHED
    if roots == 0 and (everywhere or len(access.clusters) == 0):
        return
    links = (segment.requirements, access, segment.by_need)
    scratch = _scratch(segment, wide=block.flags.shape[1] > 64)
    run(segment.clusters, segment.cubes, links, block, scratch, output, mode, which)


def _run_graph(part: Part, block: Block, output: Output) -> None:
    """What every message is relevant to, for a single one."""
    segment = part.segment
    if not segment.graphs:
        segment.graphs.append(graph_of(segment.clusters))
    graph: Graph = segment.graphs[0]
    values: U1 | None = getattr(_memory, "values", None)
    if values is None or len(values) < graph.inputs + len(graph.test):
        values = _memory.values = np.empty(graph.inputs + len(graph.test), np.uint8)
    run_one(graph, segment.clusters, segment.requirements, block, values, output)


def _run_led(part: Part, given: Encoded, output: Output, mode: int) -> None:
    """Clusters that one value leads to, and trees."""
    segment, block = part.segment, given.block
    if given.plan is not None and len(given.ways.base):
        rows, sign, lone = given.plan.rows, given.signature, given.plan.lone
        if len(rows.row):
            run_direct(rows, given.ways, block.keys, block.flags, sign, output, mode)
        if len(lone.owner):
            run_lone(lone, given.lone, block.keys, output, mode)
    if len(segment.trees.tree):
        run_trees(segment.trees, block, _lists(segment.trees), output, mode)


def _lists(trees: Trees) -> I8:
    """This thread's two lists of blocks."""
    size = max(_LISTED, int(trees.tree[:, CUBE_COUNT].max()) // 8 + 16)
    lists: I8 | None = getattr(_memory, "lists", None)
    if lists is None or lists.shape[1] < size:
        lists = _memory.lists = np.empty((2, size), np.int64)
    return lists


def _pairs(messages: int) -> I8:
    """This thread's buffer for pairs of a batch."""
    size = min(max(8 * messages, _FEW_PAIRS), _MANY_PAIRS)
    pairs: I8 | None = getattr(_memory, "pairs", None)
    if pairs is None or len(pairs) < size:
        pairs = _memory.pairs = np.empty(size, np.int64)
    return pairs


def _room(size: int) -> I4:
    """This thread's buffer for the slots of one message."""
    room: I4 | None = getattr(_memory, "room", None)
    if room is None or len(room) < size:
        room = _memory.room = np.empty(size + size // 4 + 64, np.int32)
    return room


def _scratch(segment: Segment, *, wide: bool) -> Scratch:
    """This thread's working memory for a segment; it goes when the segment does."""
    known: dict[tuple[int, bool], tuple[weakref.ref[Segment], Scratch]] | None
    known = getattr(_memory, "scratch", None)
    if known is None:
        known = _memory.scratch = {}
    key = id(segment), wide
    if key not in known or known[key][0]() is not segment:
        if len(known) >= 32:
            known.clear()
        # Not a lambda: Ctrl-C within one that Python calls at the end of an object is lost.
        gone = weakref.ref(segment, partial(known.pop, key))
        known[key] = gone, _new_scratch(segment, wide)
    return known[key][1]


def _new_scratch(segment: Segment, wide: bool) -> Scratch:
    sizes = np.diff(segment.clusters.starts, axis=0)
    places = sizes[:, [THRESHOLD, EVENT, FLAG, HOIST]].sum(axis=1) + 2 + segment.longest
    return Scratch(
        np.zeros((max(segment.index.events, 1), WIDE if wide else 1), np.uint64),
        np.empty(int(places.max()), np.uint64),
        aligned(int(places[0]) if wide else 1),
        aligned(int(sizes[:, NEED].max()) + 1),
        aligned(ROWS if wide else 1),
        np.zeros(len(sizes), np.int32),
        np.zeros(len(sizes), np.int32),
        np.zeros(max(segment.index.events, 1), np.int32),
        _asked(segment.requirements),
    )


def _asked(requirements: Requirements) -> U8:
    columns = requirements.columns.astype(np.uint64)
    bits = np.where(columns < 64, np.uint64(1) << (columns & np.uint64(63)), np.uint64(0))
    asked = np.zeros(len(requirements.offsets) - 1, np.uint64)
    which = np.repeat(np.arange(len(asked)), np.diff(requirements.offsets))
    np.bitwise_or.at(asked, which, bits)
    return asked
