"""How subscriptions come and go without stopping readers.

A few new subscriptions stay together as they are, and whoever reads next compiles them; when
there are more they become a segment, and a background thread merges segments of like size
together, so that there are never many. Removed subscriptions are marked, and gone after the
next merge.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from tamis.critical_section import notify_after_fork
from tamis.engine.ground.layout import I4, U1
from tamis.engine.ground.sources import Source
from tamis.engine.live.background import ENDING, Background
from tamis.engine.live.state import Fresh, State
from tamis.engine.paths.segment import Segment

SEALED = 32  # fresh subscriptions that take no more
_CHARACTERS = 1024  # that each of them may have on average: readers soon compile them
_LIKE = 4  # segments of one size class that are merged together
_QUIET = 0.05  # seconds without a change after which small segments are merged into one

Compile = Callable[[Source], Segment]


def joined(parts: Sequence[tuple[Source, U1]]) -> Source:
    """The living subscriptions of some sources as one, by slot."""
    slot = np.concatenate([s.slot[a.view(bool)] for s, a in parts])
    order = np.argsort(slot, kind="stable")
    template = np.concatenate([s.template[a.view(bool)] for s, a in parts])[order]
    sizes = np.concatenate([np.diff(s.offsets)[a.view(bool)] for s, a in parts])
    keys = np.concatenate([s.keys[np.repeat(a.view(bool), np.diff(s.offsets))] for s, a in parts])
    starts = np.cumsum(sizes) - sizes
    sizes, starts = sizes[order], starts[order]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    picked = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Source(slot[order], template, offsets, keys[picked])


class Merging:
    """The changing state of a matcher. Writers hold `lock`; readers just take `state`.

    A change is prepared as a new state (`with_more`, `without`) and then shown.
    """

    eager = True  # whether writers compile what is more than a few

    def __init__(self, compile: Compile, compile_fresh: Compile | None = None) -> None:
        """`compile_fresh` is called by readers: no subscription makes it fail for the others."""
        self.state = State()
        self.lock = threading.RLock()
        self._compile, self._compile_fresh = compile, compile_fresh or compile
        failing = "merging failed: matching goes on, but slower"
        self._background = Background(self._merge, failing)
        notify_after_fork(self)

    def after_fork(self) -> None:
        """Who held the lock in the parent does not exist in the child."""
        self.lock = threading.RLock()

    def with_more(self, source: Source, characters: int, *, instead_of: int = -1) -> State:
        """The state with these subscriptions, and without slot `instead_of` (-1: with all).

        Their selectors have so many characters. More than a few are compiled at once. The caller
        holds the lock.
        """
        state = self.state if instead_of < 0 else self.without(instead_of)
        segments, alive, fresh = list(state.segments), list(state.alive), state.fresh
        new = Fresh(source, characters, self._compile_fresh)
        if self.eager and not _few(new):
            segments.append(self._compile(source))
            alive.append(_ones(len(source)))
        elif fresh is None:
            fresh = new
        elif _few(both := fresh.with_more(source, characters)) or not self.eager:
            fresh = both
        else:
            segments.append(fresh.segment)
            alive.append(_ones(len(fresh.source)))
            fresh = new
        return State(tuple(segments), tuple(alive), fresh)

    def show(self, state: State) -> None:
        """Let readers see the state. The caller holds the lock."""
        self.state = state
        self._merge_later()

    def without(self, slot: int) -> State:
        """The state in which the subscription is marked as removed."""
        alive, fresh = list(self.state.alive), self.state.fresh
        if fresh is not None and (at := place(fresh.source.slot, slot)) >= 0:
            return State(self.state.segments, self.state.alive, fresh.without(at))
        for i, segment in enumerate(self.state.segments):
            if (at := place(segment.source.slot, slot)) >= 0:
                alive[i] = alive[i].copy()
                alive[i][at] = 0
        return State(self.state.segments, tuple(alive), fresh)

    def diagrams(self) -> State:
        """All subscriptions as diagrams."""
        return self.state

    def settle(self) -> None:
        """Wait until the background thread has merged what it would merge.

        Raises what it failed with, if it did; a further call tries again. A failure changes no
        answer: small segments stay small until the next change, or call.
        """
        with self.lock:
            if self._background.broken:
                self._merge_later()
        self._background.wait()

    def _merge_later(self) -> None:
        if len(self.state.segments) > 1:
            self._background.start()

    def _merge(self) -> None:
        """Fold while something is due, and when it is quiet. Compiling happens outside the lock."""
        while not ENDING.is_set():
            state = self.state
            chosen = due(state)
            if not chosen:
                ENDING.wait(_QUIET)
                with self.lock:
                    if self.state is not state:
                        continue
                    chosen = small(state)
                    if not chosen:
                        self._background.end()
                        return
            parts = [(state.segments[i].source.source(), state.alive[i]) for i in chosen]
            source = joined(parts)
            merged = self._compile(source) if len(source) else None
            if merged is not None and merged.index.texts is not None and not due(self.state):
                merged.index.texts.prepared()  # else the next reader would
            if merged is not None:
                merged.follow([state.segments[i] for i in chosen])
            with self.lock:
                self._swap([state.segments[i] for i in chosen], merged)

    def _swap(self, old: list[Segment], merged: Segment | None) -> None:
        """Put the merged segment where the old ones were; what was removed meanwhile stays so."""
        segments: list[Segment] = []
        alive: list[U1] = []
        living: list[np.ndarray] = []
        gone = {id(segment) for segment in old}
        where = None
        for segment, marks in zip(self.state.segments, self.state.alive, strict=True):
            if id(segment) not in gone:
                segments.append(segment)
                alive.append(marks)
                continue
            where = len(segments) if where is None else where
            living.append(segment.source.slot[marks.view(bool)])
        if merged is not None:
            assert where is not None
            marks = np.isin(merged.source.slot, np.concatenate(living)).astype(np.uint8)
            segments.insert(where, merged)
            alive.insert(where, marks)
        self.state = State(tuple(segments), tuple(alive), self.state.fresh)


def _few(fresh: Fresh) -> bool:
    """Whether compiling them is nothing that a reader would notice."""
    return len(fresh.source) <= SEALED and fresh.characters <= _CHARACTERS * SEALED


def place(slots: I4, slot: int) -> int:
    """Where the slot stands among ascending ones, -1 where it does not."""
    at = int(np.searchsorted(slots, np.int32(slot)))  # of another type, all would be converted
    return at if at < len(slots) and slots[at] == slot else -1


def due(state: State) -> list[int]:
    """The segments that should be merged together now: of like sizes, or one that is half dead."""
    classes: dict[int, list[int]] = {}
    for i in range(len(state.segments)):
        if 2 * int(state.alive[i].sum()) < len(state.segments[i]):
            return [i]
        classes.setdefault(_size_class(len(state.segments[i])), []).append(i)
    full = [members for members in classes.values() if len(members) >= _LIKE]
    return min(full, key=len) if full else []


def small(state: State) -> list[int]:
    """Segments that are much smaller than the largest, if there are several."""
    sizes = [len(segment) for segment in state.segments]
    found = [i for i, size in enumerate(sizes) if 4 * size <= max(sizes)]
    return found if len(found) > 1 else []


def _size_class(size: int) -> int:
    return max(size // SEALED, 1).bit_length() // 2


def _ones(count: int) -> U1:
    return np.ones(count, np.uint8)
