"""The matcher: subscriptions by id, and the messages that they match."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tamis.engine.batch import Messages, from_mappings, from_table
from tamis.engine.encode import encode
from tamis.engine.intake import Dialect, Intake
from tamis.engine.kernels import BITMAP, COUNT, FILL, ROWS, Output, Scratch, run, sort_rows
from tamis.engine.layout import EVENT, FLAG, HOIST, I4, I8, NEED, THRESHOLD, U1, U8, Block
from tamis.engine.matches import Matches
from tamis.engine.vector import WIDE, aligned
from tamis.engine.segment import Segment, Source, compile_segment
from tamis.errors import SelectorError, SubscriptionError
from tamis.language import Limits
from tamis.language.tree import attributes
from tamis.logic import Explanation, Lookups, Semantics, explain
from tamis.schema import INT_MAX, INT_MIN, Schema

if TYPE_CHECKING:
    import pyarrow as pa

Id = str | int
OnError = Callable[[Id, str, SelectorError | SubscriptionError], None]
_ROWS = 65_536  # messages that one kernel call sees


@dataclass(frozen=True, slots=True)
class State:
    """What readers see: segments, and which of their subscriptions are still alive. Never changed."""

    segments: tuple[Segment, ...] = ()
    alive: tuple[U1, ...] = ()


class Matcher:
    """A set of subscriptions. Add, remove, and ask which of them a message matches.

    Safe to use from several threads: a reader works on one immutable state, writers take turns.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        semantics: Semantics = "sql",
        dialect: Dialect = "tamis",
        limits: Limits = Limits(),
        lookups: Lookups | None = None,
    ) -> None:
        self.schema, self.semantics, self.dialect, self.limits = schema, semantics, dialect, limits
        self.lookups: Lookups = lookups or {}
        self._intake = Intake(schema, semantics, dialect, limits, self.lookups)
        self._ids: list[Id] = []
        self._texts: list[str] = []
        self._slots: dict[Id, int] = {}
        self._state = State()
        self._lock = threading.Lock()
        self._local = threading.local()
        self._known_names: pa.Array | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, id: object) -> bool:
        return id in self._slots

    def __iter__(self) -> Iterator[Id]:
        """The ids, in the order of adding."""
        return iter(list(self._slots))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that some subscription looks at."""
        terms = [index.term for s in self._state.segments for index in s.index.terms]
        names = dict.fromkeys(name for term in terms for name in attributes(term))
        if self.semantics == "total" and self.schema is not None:
            names |= dict.fromkeys(self.schema)
        return tuple(names)

    # --- writing -------------------------------------------------------------

    def add(self, id: Id, selector: str) -> None:
        """Subscribe `id` (not yet in use) to the messages that `selector` describes."""
        self.add_many([(id, selector)])

    def replace(self, id: Id, selector: str) -> None:
        """Give the subscription another selector; it moves to the end of the order."""
        _check_id(id)
        read = self._intake.read(selector)
        with self._lock:
            if id in self._slots:
                self._drop(id)
            self._append([(id, selector, read)])

    def add_many(
        self, subscriptions: Iterable[tuple[Id, str]], on_error: OnError | None = None
    ) -> int:
        """Add all, and say how many were good.

        A bad one goes to `on_error`; without that it raises, and none is added.
        """
        good = []
        fresh: set[Id] = set()
        for id, selector in subscriptions:
            try:
                _check_id(id)
                if id in self._slots or id in fresh:
                    raise SubscriptionError(
                        f"there is a subscription {id!r} already: remove or replace it"
                    )
                good.append((id, selector, self._intake.read(selector)))
                fresh.add(id)
            except (SelectorError, SubscriptionError) as error:
                if on_error is None:
                    raise
                on_error(id, selector, error)
        with self._lock:
            self._append(good)
        return len(good)

    def remove(self, id: Id) -> None:
        """End a subscription."""
        with self._lock:
            if id not in self._slots:
                raise SubscriptionError(f"there is no subscription {id!r}")
            self._drop(id)

    def _append(self, rows: Sequence[tuple[Id, str, tuple[int, tuple[int, ...]]]]) -> None:
        if not rows:
            return
        first = len(self._ids)
        for id, selector, _ in rows:
            self._slots[id] = len(self._ids)
            self._ids.append(id)
            self._texts.append(selector)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(keys) for _, _, (_, keys) in rows], out=offsets[1:])
        source = Source(
            np.arange(first, first + len(rows), dtype=np.int32),
            np.array([template for _, _, (template, _) in rows], np.int32),
            offsets,
            np.array([k for _, _, (_, keys) in rows for k in keys], np.int64),
        )
        segment = compile_segment(self._intake.vocabulary, self._intake.templates, source)
        state = self._state
        self._state = State(
            (*state.segments, segment), (*state.alive, np.ones(len(source), np.uint8))
        )

    def _drop(self, id: Id) -> None:
        slot = self._slots.pop(id)
        state = self._state
        alive = list(state.alive)
        for i, segment in enumerate(state.segments):
            at = int(np.searchsorted(segment.source.slot, slot))
            if at < len(segment) and segment.source.slot[at] == slot:
                alive[i] = alive[i].copy()
                alive[i][at] = 0
        self._state = State(state.segments, tuple(alive))

    # --- reading -------------------------------------------------------------

    def match(self, message: Mapping[str, object]) -> list[Id]:
        """The ids of the subscriptions that the message matches, in the order of adding."""
        _, slots = self._matched(from_mappings([message], self.semantics, self.schema))
        return [self._ids[s] for s in slots.tolist()]

    def match_many(self, messages: Sequence[Mapping[str, object]]) -> Matches:
        """Like `match_batch`, of Python mappings."""
        return self._matches(from_mappings(messages, self.semantics, self.schema))

    def match_batch(self, table: pa.Table | pa.RecordBatch, *, threads: int = 1) -> Matches:
        """The ids that each row matches."""
        return self._matches(from_table(table, self.attributes, self.semantics, self.schema), threads)

    def count_batch(self, table: pa.Table | pa.RecordBatch, *, threads: int = 1) -> I8:
        """How many subscriptions each row matches, without naming them."""
        messages = from_table(table, self.attributes, self.semantics, self.schema)
        state = self._state
        return self._counts(state, self._blocks(state, messages), len(messages), threads)

    def bitmap_batch(self, table: pa.Table | pa.RecordBatch) -> tuple[list[Id], U8]:
        """The ids, and for each a row of bits: bit m % 64 of word m // 64 is row m of the table."""
        messages = from_table(table, self.attributes, self.semantics, self.schema)
        state = self._state
        ids: list[Id] = []
        rows = []
        none = np.empty(0, np.int64)
        for segment, alive in zip(state.segments, state.alive, strict=True):
            bits = np.zeros((len(segment), (len(messages) + 63) // 64), np.uint64)
            block = self._encoded(segment, messages)
            output = Output(none, np.empty(0, np.int32), bits)
            self._run(segment, alive, block, 0, len(messages), output, BITMAP)
            kept = np.flatnonzero(alive)
            ids.extend(self._ids[s] for s in segment.source.slot[kept].tolist())
            rows.append(bits[kept])
        width = (len(messages) + 63) // 64
        return ids, np.concatenate(rows) if rows else np.zeros((0, width), np.uint64)

    def explain(self, id: Id, message: Mapping[str, object]) -> Explanation:
        """Why the subscription matches the message or not, predicate by predicate."""
        if id not in self._slots:
            raise SubscriptionError(f"there is no subscription {id!r}")
        condition = self._intake.condition(self._texts[self._slots[id]])
        return explain(condition, message, self.schema, self.semantics, self.lookups)

    def _matches(self, messages: Messages, threads: int = 1) -> Matches:
        offsets, slots = self._matched(messages, threads)
        return Matches(offsets, slots, self._names())

    def _matched(self, messages: Messages, threads: int = 1) -> tuple[I8, I4]:
        """Offsets and slots: which subscriptions each message matches."""
        state = self._state
        length = len(messages)
        blocks = self._blocks(state, messages)
        counts = self._counts(state, blocks, length, threads)
        offsets = np.zeros(length + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        slots = np.empty(int(offsets[-1]), np.int32)
        output = Output(offsets[:-1].copy(), slots, np.empty((0, 0), np.uint64))
        self._each(state, blocks, length, output, FILL, threads)
        sort_rows(offsets, slots)
        return offsets, slots

    def _counts(self, state: State, blocks: list[Block], length: int, threads: int) -> I8:
        counts = np.zeros(length, np.int64)
        output = Output(counts, np.empty(0, np.int32), np.empty((0, 0), np.uint64))
        self._each(state, blocks, length, output, COUNT, threads)
        return counts

    def _blocks(self, state: State, messages: Messages) -> list[Block]:
        return [self._encoded(segment, messages) for segment in state.segments]

    def _encoded(self, segment: Segment, messages: Messages) -> Block:
        return encode(
            segment.index, len(messages), lambda term: messages.column(term, self.lookups)
        )

    def _each(
        self, state: State, blocks: list[Block], length: int, output: Output, mode: int, threads: int
    ) -> None:
        """Run every segment over all messages, in parts that threads can share."""
        step = min(_ROWS, max(64, -(-length // threads)))
        parts = [
            (segment, alive, block, first, min(first + step, length), output, mode)
            for segment, alive, block in zip(state.segments, state.alive, blocks, strict=True)
            for first in range(0, length, step)
        ]
        if threads <= 1 or len(parts) < 2:
            for part in parts:
                self._run(*part)
            return
        with ThreadPoolExecutor(threads) as pool:
            # a message's results come from one segment after the other: never two at once
            for i in range(len(state.segments)):
                own = [p for p in parts if p[0] is state.segments[i]]
                list(pool.map(lambda part: self._run(*part), own))

    def _run(
        self, segment: Segment, alive: U1, block: Block, first: int, last: int, output: Output, mode: int
    ) -> None:
        links = (segment.requirements, segment.access, segment.source.slot)
        scratch = self._scratch(segment, wide=last - first > 64)
        run(segment.clusters, links, block, first, last, alive, scratch, output, mode)

    def _scratch(self, segment: Segment, wide: bool) -> Scratch:
        """This thread's working memory, large enough for the segment."""
        known: dict[tuple[int, bool], tuple[Segment, Scratch]] | None
        known = getattr(self._local, "scratch", None)
        if known is None:
            known = self._local.scratch = {}
        key = id(segment), wide
        if key not in known or known[key][0] is not segment:
            if len(known) > 64:
                known.clear()
            known[key] = segment, scratch_for(segment, wide)
        return known[key][1]

    def _names(self) -> pa.Array:
        """The ids of all slots; integers unless some id is a string."""
        import pyarrow as pa

        known = self._known_names
        ids = self._ids
        if known is None or len(known) != len(ids):
            try:
                known = pa.array(ids, pa.int64())
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                known = pa.array([str(i) for i in ids], pa.string())
            self._known_names = known
        return known


def scratch_for(segment: Segment, wide: bool) -> Scratch:
    sizes = np.diff(segment.clusters.starts, axis=0)
    places = sizes[:, [THRESHOLD, EVENT, FLAG, HOIST]].sum(axis=1) + 2 + segment.longest
    return Scratch(
        np.zeros((max(segment.index.events, 1), WIDE), np.uint64),
        np.empty(int(places.max()), np.uint64),
        aligned(int(places[0]) if wide else 1),
        aligned(int(sizes[:, NEED].max()) + 1),
        aligned(ROWS if wide else 1),
        np.zeros(len(sizes), np.int32),
        np.zeros(len(sizes), np.int32),
    )


def _check_id(id: object) -> None:
    if not isinstance(id, str | int) or isinstance(id, bool):
        raise SubscriptionError(f"an id is a string or a 64-bit integer, not {id!r}")
    if isinstance(id, int) and not INT_MIN <= id <= INT_MAX:
        raise SubscriptionError(f"id {id} does not fit into 64 bits")
