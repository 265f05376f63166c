"""What readers see: segments, and which of their subscriptions are alive. Never changed.

A reader takes one reference to the state and works on it to the end, whatever writers do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tamis.engine.choosing.path import PathInput
from tamis.engine.ground.kernel_output import BITMAP, COUNT, FILL, KEEP, Output, scatter, sort_rows
from tamis.engine.ground.layout import I4, I8, U1, U8
from tamis.engine.ground.lazy import lazy
from tamis.engine.ground.sources import Source
from tamis.engine.paths.segment import Segment
from tamis.engine.values.message_batch import Messages
from tamis.engine.values.single_message import Single, encode_one
from tamis.engine.values.typed_columns import AnyColumn
from tamis.jit.first_use import FIRST_USE, heavy
from tamis.language.tree import attributes
from tamis.logic import Derived, Lookups

_NO_BITS = np.empty((0, 0), np.uint64)
_NO_SLOTS = np.empty(0, np.int32)
_NO_PAIRS = np.zeros(1, np.int64)
_ALL_ALIVE = np.empty(0, np.uint8)
_FEW_PAIRS, _MANY_PAIRS = 1 << 20, 1 << 22  # that a batch keeps, at first and at most
MOST_PAIRS = 1 << 29  # of a message and a subscription that a result may hold: 2 GB of numbers
_memory = threading.local()  # each thread's working memory, per segment


class OverflowingError(Exception):
    """There are more pairs than asked for: so many for each message, or somewhat fewer."""

    def __init__(self, counts: I8) -> None:
        super().__init__(counts)
        self.counts = counts


@dataclass(frozen=True, slots=True)
class LivePart:
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
        return sum(part.segment.most for part in self.parts)

    @lazy
    def width(self) -> int:
        """Bytes of keys and flags that a message of a batch has at most, in any segment."""
        return max((part.segment.width for part in self.parts), default=0)

    def count(self, messages: Messages, lookups: Lookups, counts: I8) -> None:
        """Write how many subscriptions each message matches."""
        counts[:] = 0
        for part, block in self._blocks(messages, lookups):
            if part.segment.overlap:
                counts += np.diff(_found([(part, block)], len(messages), MOST_PAIRS)[0])
            else:
                part.segment.run(block, _output(part, counts), COUNT)

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
        if FIRST_USE.plain:
            heavy(sum(len(part.segment) for part in self.parts))
        blocks = [(p, p.segment.single(encode_one(p.segment.index, single))) for p in self.parts]
        cursor, slots = np.zeros(1, np.int64), _room(self.size + 1)
        for part, block in blocks:
            part.segment.run(block, _output(part, cursor, slots), FILL)
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
            output = _output(part, np.empty(0, np.int64), bits=bits)
            part.segment.run(block, output, BITMAP)
            kept = np.flatnonzero(part.alive)
            slots.append(part.segment.source.slot[kept])
            rows.append(bits[kept])
        found, bits = np.concatenate(slots), np.concatenate(rows)
        if (found[1:] > found[:-1]).all():
            return found, bits
        order = np.argsort(found)
        return found[order], bits[order]

    @lazy
    def parts(self) -> tuple[LivePart, ...]:
        both = zip(self.segments, self.alive, strict=True)
        parts = [LivePart(segment, alive, bool(alive.all())) for segment, alive in both]
        if self.fresh is not None:
            segment = self.fresh.segment
            parts.append(LivePart(segment, np.ones(len(segment), np.uint8), True))
        return tuple(parts)

    def _blocks(self, messages: Messages, lookups: Lookups) -> list[tuple[LivePart, PathInput]]:
        if FIRST_USE.plain:
            heavy(len(messages) * sum(4 + len(part.segment) for part in self.parts))

        def column(term: Derived) -> AnyColumn:
            return messages.column(term, lookups)

        count, plain = len(messages), messages.plain
        return [(p, p.segment.read(count, column, plain)) for p in self.parts]


def _found(blocks: list[tuple[LivePart, PathInput]], count: int, most: int) -> tuple[I8, I4]:
    """Offsets and slots of so many messages, at most so many slots.

    What is counted is kept beside as pairs; where these have no room all is found once more, and
    what every message is relevant to is in any case.
    """
    offsets = np.zeros(count + 1, np.int64)
    pairs = _pairs(count)
    pairs[0] = 0
    for part, block in blocks:
        part.segment.run(block, _output(part, offsets[1:], pairs=pairs), KEEP)
    np.cumsum(offsets, out=offsets)
    if offsets[-1] > most:
        raise OverflowingError(np.diff(offsets))
    slots = np.empty(int(offsets[-1]), np.int32)
    cursor = offsets[:-1].copy()
    kept = bool(pairs[0] < len(pairs))
    if not kept:
        _memory.pairs = np.empty(_MANY_PAIRS, np.int64)  # there may be more of such batches
    for part, block in blocks:
        part.segment.run(block, _output(part, cursor, slots), FILL, rest=kept)
    if kept:
        scatter(pairs, cursor, slots)
    return offsets, sort_rows(offsets, slots)


def _output(
    part: LivePart, counts: I8, slots: I4 = _NO_SLOTS, bits: U8 = _NO_BITS, pairs: I8 = _NO_PAIRS
) -> Output:
    own = part.segment.source.slot
    if len(own) and own[-1] - own[0] == len(own) - 1:
        own = own[:1]
    return Output(counts, slots, bits, pairs, _ALL_ALIVE if part.whole else part.alive, own)


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
