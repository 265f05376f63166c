"""What readers see: segments, and which of their subscriptions are alive. Never changed.

A reader takes one reference to the state and works on it to the end, whatever writers do.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tamis.engine.batch import Messages
from tamis.engine.columns import AnyColumn
from tamis.engine.direct import run_direct
from tamis.engine.encode import Encoded, encode, encode_directly, encode_one
from tamis.engine.kernels import run
from tamis.engine.layout import (
    EVENT,
    FLAG,
    HOIST,
    I4,
    I8,
    NEED,
    THRESHOLD,
    U1,
    U8,
    Requirements,
)
from tamis.engine.lazy import lazy
from tamis.engine.outputs import BITMAP, COUNT, FILL, KEEP, Output, scatter, sort_rows
from tamis.engine.plan import plan_of
from tamis.engine.segment import Segment
from tamis.engine.source import Source
from tamis.engine.vector import WIDE, aligned
from tamis.engine.wide import ROWS
from tamis.engine.words import Scratch
from tamis.language.tree import attributes
from tamis.logic import Derived, Lookups

_NO_BITS = np.empty((0, 0), np.uint64)
_NO_SLOTS = np.empty(0, np.int32)
_NO_PAIRS = np.empty(0, np.int64)
_FEW_PAIRS, _MANY_PAIRS = 1 << 20, 1 << 22  # that a batch keeps before it counts on
_FEW_MESSAGES = 64  # for which nobody makes a plan
_memory = threading.local()  # each thread's working memory, per segment


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
        own = [part.segment for part in self.parts]
        return sum(len(s.clusters.root) + len(s.cubes.subscription) for s in own)

    def counts(self, messages: Messages, lookups: Lookups) -> I8:
        """How many subscriptions each message matches."""
        counts = np.zeros(len(messages), np.int64)
        for part, block in self._blocks(messages, lookups):
            _run(part, block, _output(part, counts), COUNT)
        return counts

    def matched(self, messages: Messages, lookups: Lookups) -> tuple[I8, I4]:
        """Offsets and slots: which subscriptions each message matches, in the order of adding.

        What is counted is kept beside, as far as there is room; the rest is found once more.
        """
        blocks = self._blocks(messages, lookups)
        offsets = np.zeros(len(messages) + 1, np.int64)
        pairs, at = _pairs(len(messages)), np.zeros(1, np.int64)
        kept = [
            _run(part, block, Output(offsets[1:], _NO_SLOTS, _NO_BITS, pairs, at, part.whole), KEEP)
            for part, block in blocks
        ]
        np.cumsum(offsets, out=offsets)
        slots = np.empty(int(offsets[-1]), np.int32)
        cursor = offsets[:-1].copy()
        for (part, block), done in zip(blocks, kept, strict=True):
            if done.again:
                _run(part, block, _output(part, cursor, slots), FILL, done)
        scatter(pairs[: at[0]], cursor, slots)
        sort_rows(offsets, slots)
        return offsets, slots

    def one(self, value_of: Callable[[Derived], object]) -> list[int]:
        """The slots that a single message matches; `value_of` gives its terms (None: undefined)."""
        known: dict[Derived, object] = {}

        def value(term: Derived) -> object:
            if term not in known:
                known[term] = value_of(term)
            return known[term]

        # Lookups may match messages themselves: all values are known before memory is taken.
        blocks = [(p, Encoded(encode_one(p.segment.index, value))) for p in self.parts]
        cursor, slots = np.zeros(1, np.int64), _room(self.size)
        for part, block in blocks:
            _run(part, block, _output(part, cursor, slots), FILL)
        return sorted(slots[: cursor[0]].tolist())

    def bitmaps(self, messages: Messages, lookups: Lookups) -> tuple[I4, U8]:
        """The slots alive in the order of adding, and for each a row of bits, one per message."""
        width = (len(messages) + 63) // 64
        slots, rows = [_NO_SLOTS], [np.zeros((0, width), np.uint64)]
        for part, block in self._blocks(messages, lookups):
            bits = np.zeros((len(part.segment), width), np.uint64)
            _run(part, block, _output(part, _NO_PAIRS, _NO_SLOTS, bits), BITMAP)
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
        return [(p, _block(p.segment, messages, lookups)) for p in self.parts]


def _block(segment: Segment, messages: Messages, lookups: Lookups) -> Encoded:
    everywhere = segment.clusters.event[: segment.clusters.starts[1, EVENT]]
    index, length = segment.index, len(messages)

    def column(term: Derived) -> AnyColumn:
        return messages.column(term, lookups)

    if length > _FEW_MESSAGES:
        return encode_directly(plan_of(segment), index, length, column, everywhere)
    return Encoded(encode(index, length, column, segment.access, everywhere))


def _output(part: Part, counts: I8, slots: I4 = _NO_SLOTS, bits: U8 = _NO_BITS) -> Output:
    return Output(counts, slots, bits, _NO_PAIRS, np.zeros(1, np.int64), part.whole)


class _Done(NamedTuple):
    """What was kept: clusters by their cubes and by the rest, and messages of each way."""

    cubes: int = 0
    rest: int = 0
    ways: tuple[int, ...] = ()
    again: bool = True  # whether that was not all


_NOTHING = _Done()


def _run(part: Part, given: Encoded, output: Output, mode: int, done: _Done = _NOTHING) -> _Done:
    segment, block = part.segment, given.block
    slots, access, kept = segment.source.slot, segment.access, []
    if given.plan is not None:
        rows, sign, access = given.plan.rows, given.signature, given.plan.access
        for i, way in enumerate(given.ways):
            first = done.ways[i] if done.ways else 0
            kept.append(
                run_direct(rows, *way, block.keys, sign, first, part.alive, slots, output, mode)
            )
    again = any(messages < block.flags.shape[1] for messages in kept)
    if given.plan is not None and given.plan.alone:
        return _Done(0, 0, tuple(kept), again)
    links = (segment.requirements, access, segment.by_need, slots)
    scratch = _scratch(segment, wide=block.flags.shape[1] > 64)
    skip = done.cubes, done.rest
    cubes, rest, more = run(
        segment.clusters, segment.cubes, links, block, part.alive, scratch, output, mode, skip
    )
    return _Done(cubes, rest, tuple(kept), again or more)


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
        gone = weakref.ref(segment, lambda _: known.pop(key, None))
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
