"""The matcher: subscriptions by id, and the messages that they match."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tamis.engine.batch import Messages, from_mappings, from_table
from tamis.engine.folding import Folding
from tamis.engine.ids import Id, check_id, twin
from tamis.engine.implications import Implications, Statistics
from tamis.engine.intake import Dialect, Intake
from tamis.engine.layout import I4, I8, U8
from tamis.engine.matches import Matches
from tamis.engine.notices import Notice, notice
from tamis.engine.report import Report, report
from tamis.engine.segment import Segment, compile_segment
from tamis.engine.slots import Slots
from tamis.engine.source import Source
from tamis.engine.state import State
from tamis.engine.threads import shared
from tamis.errors import SelectorError, SnapshotError, SubscriptionError, TamisError
from tamis.language import Limits
from tamis.language.tree import Condition
from tamis.logic import Explanation, Lookups, Semantics, explain, finder, value
from tamis.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Engine = Literal["diagram", "implication"]
OnError = Callable[[Id, str, SelectorError | SubscriptionError], None]
_ROWS = 1 << 17  # messages that are matched in one piece
_NO_SLOTS = np.empty(0, np.int32)


class Matcher:
    """A set of subscriptions. Add, remove, and ask which of them a message matches.

    Safe to use from several threads: readers work on one immutable state and never wait, writers
    take turns.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        semantics: Semantics = "sql",
        dialect: Dialect = "tamis",
        limits: Limits = Limits(),
        lookups: Lookups | None = None,
        engine: Engine = "diagram",
    ) -> None:
        self.schema, self.semantics, self.dialect, self.limits = schema, semantics, dialect, limits
        self.lookups: Lookups = lookups or {}
        self._intake = Intake(schema, semantics, dialect, limits, self.lookups)
        self._ids: list[Id] = []
        self._texts: list[str] = []
        self._slots = Slots(self._ids)
        self._folding = Folding(self._compile)
        self.implications: Implications | None = None
        if engine not in get_args(Engine):
            raise TamisError(f"engine {engine!r}: choose one of {', '.join(get_args(Engine))}")
        if engine == "implication":
            vocabulary, templates = self._intake.vocabulary, self._intake.templates
            self._folding = self.implications = Implications(vocabulary, templates)
        self._known_names: pa.Array | None = None
        self._given: Sequence[Id] | None = None  # the ids, where there are integers and strings

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, id: object) -> bool:
        return id in self._slots

    def __iter__(self) -> Iterator[Id]:
        """The ids, in the order of adding."""
        return iter(list(self._slots))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that matching looks at."""
        return self._attributes(self._folding.state)

    def _attributes(self, state: State) -> tuple[str, ...]:
        names = state.attributes
        if self.semantics == "total" and self.schema is not None:
            return tuple(dict.fromkeys((*names, *self.schema)))
        return names

    # --- writing -------------------------------------------------------------

    def add(self, id: Id, selector: str) -> Notice | None:
        """Subscribe `id` (not yet in use) to the messages that `selector` describes.

        Says so where no message, or every message, can match it.
        """
        with self._folding.lock:
            self._refuse_taken(id, {})
            template, keys = self._put(id, selector)
        return notice(self._intake.vocabulary, self._intake.templates.items[template], keys)

    def replace(self, id: Id, selector: str) -> None:
        """Give the subscription another selector (or add it); it moves to the end of the order."""
        check_id(id)
        with self._folding.lock:
            self._refuse_twin(id, {})
            self._put(id, selector)

    def add_many(
        self,
        subscriptions: Iterable[tuple[Id, str]] | pa.Table | pa.RecordBatch,
        on_error: OnError | None = None,
    ) -> int:
        """Add all, and say how many were good: pairs (id, selector), or Arrow columns so named.

        A bad one goes to `on_error`; without that it raises, and none is added.
        """
        ids: dict[Id, str] = {}
        templates, sizes, keys = array("i"), array("q"), array("q")
        with self._folding.lock:
            for id, selector in _pairs(subscriptions):
                try:
                    self._refuse_taken(id, ids)
                    template, own = self._intake.read(selector)
                except (SelectorError, SubscriptionError) as error:
                    if on_error is None:
                        raise
                    on_error(id, selector, error)
                    continue
                ids[id] = selector
                templates.append(template)
                sizes.append(len(own))
                keys.extend(own)
            if ids:
                self._append(list(ids), list(ids.values()), templates, sizes, keys)
        return len(ids)

    def remove(self, id: Id) -> None:
        """End a subscription."""
        with self._folding.lock:
            if id not in self._slots:
                raise SubscriptionError(f"there is no subscription {id!r}")
            self._folding.remove(self._slots.pop(id))

    def settle(self) -> None:
        """Wait for the background: afterwards matching is as fast as it gets."""
        self._folding.settle()

    def _refuse_taken(self, id: Id, more: Mapping[Id, str]) -> None:
        check_id(id)
        if id in self._slots or id in more:
            raise SubscriptionError(f"there is a subscription {id!r} already: remove or replace it")
        self._refuse_twin(id, more)

    def _refuse_twin(self, id: Id, more: Mapping[Id, str]) -> None:
        """1 and "1" would be one and the same in Arrow, where ids of both types are texts."""
        other = twin(id)
        if other is not None and (other in self._slots or other in more):
            raise SubscriptionError(
                f"there is a subscription {other!r}, and {id!r} would look the same in Arrow: "
                "choose another id, or give all of one type"
            )

    def _put(self, id: Id, selector: str) -> tuple[int, Sequence[int]]:
        """Add one subscription, in place of the one of that id; its template and keys."""
        template, keys = self._intake.read(selector)
        sizes, old = array("q", [len(keys)]), self._slots.get(id)
        self._append([id], [selector], array("i", [template]), sizes, keys, old)
        return template, keys

    def _append(
        self,
        ids: Sequence[Id],
        texts: Sequence[str],
        templates: Sequence[int],
        sizes: Sequence[int],
        keys: Sequence[int],
        instead_of: int = -1,
    ) -> None:
        """Subscribe `ids`. Readers find the names of slots before the slots; should compiling
        fail, no id is taken."""
        first = len(self._ids)
        self._ids.extend(ids)
        self._texts.extend(texts)
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        slots = np.arange(first, first + len(ids), dtype=np.int32)
        source = Source(slots, np.array(templates, np.int32), offsets, np.array(keys, np.int64))
        self._folding.append(source, sum(map(len, texts)), instead_of=instead_of)
        if instead_of >= 0:
            self._slots.pop(ids[0])  # it moves to the end
        self._slots.add(ids, first)

    def _compile(self, source: Source) -> Segment:
        return compile_segment(self._intake.vocabulary, self._intake.templates, source)

    # --- snapshots -----------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, or nothing: a crash leaves the file that was there."""
        from tamis.engine.snapshot import save

        if self.implications is not None:
            raise SnapshotError(path, "only a matcher with engine='diagram' can be saved")
        save(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        lookups: Lookups | None = None,
        verify: bool = True,
    ) -> Matcher:
        """The matcher that was saved. Processes that load one file share its memory.

        `lookups` are the functions that its selectors call: they are not saved. `verify=False`
        skips the checksums of the contents.
        """
        from tamis.engine.snapshot import load

        return load(path, lookups=lookups, verify=verify)

    # --- reading -------------------------------------------------------------

    def match(self, message: Mapping[str, object]) -> list[Id]:
        """The ids of the subscriptions that the message matches, in the order of adding."""
        find, lookups = self._finder(message), self.lookups
        slots = self._folding.state.one(lambda term: value(term, find, lookups))
        return [self._ids[s] for s in slots]

    def match_each(self, message: Mapping[str, object]) -> Iterator[Id]:
        """The same ids as they are decided, the first before the last is known.

        Only the implication graph decides one after the other; the diagram decides all at once.
        """
        if self.implications is None:
            yield from self.match(message)
            return
        find, lookups, state = self._finder(message), self.lookups, self.implications.state
        for slot in state.each(lambda term: value(term, find, lookups)):
            yield self._ids[slot]

    def statistics(self, message: Mapping[str, object]) -> Statistics:
        """What matching the message takes the implication graph."""
        if self.implications is None:
            raise TamisError("statistics are kept by a matcher with engine='implication' only")
        batch = from_mappings([message], self.semantics, self.schema)
        return self.implications.state.statistics(batch, self.lookups)

    def match_many(self, messages: Sequence[Mapping[str, object]]) -> Matches:
        """Like `match_batch`, of Python mappings."""
        batch = from_mappings(messages, self.semantics, self.schema)
        found = self._folding.state.matched(batch, self.lookups)
        names = self._names()
        return Matches(*found, names, self._given)

    def match_batch(self, table: pa.Table | pa.RecordBatch, *, threads: int = 1) -> Matches:
        """The ids that each row matches. `threads` share the rows."""
        state = self._folding.state

        def work(part: slice) -> tuple[I8, I4]:
            return state.matched(self._columns(table, state, part), self.lookups)

        found = _joined(shared(work, _cut(table.num_rows, threads), threads))
        names = self._names()
        return Matches(*found, names, self._given)

    def count_batch(self, table: pa.Table | pa.RecordBatch, *, threads: int = 1) -> I8:
        """How many subscriptions each row matches, without naming them."""
        state = self._folding.state
        counts = np.empty(table.num_rows, np.int64)

        def work(part: slice) -> None:
            counts[part] = state.counts(self._columns(table, state, part), self.lookups)

        shared(work, _cut(table.num_rows, threads), threads)
        return counts

    def bitmap_batch(self, table: pa.Table | pa.RecordBatch) -> tuple[list[Id], U8]:
        """The ids, and for each a row of bits: bit m % 64 of word m // 64 is row m of the table."""
        state = self._folding.state
        slots, bits = state.bitmaps(self._columns(table, state), self.lookups)
        return [self._ids[s] for s in slots.tolist()], bits

    def explain(self, id: Id, message: Mapping[str, object]) -> Explanation:
        """Why the subscription matches the message or not, predicate by predicate."""
        return explain(self._condition(id), message, self.schema, self.semantics, self.lookups)

    def report(self) -> Report:
        """Subscriptions that match never, always, or the same as another. Takes a while on many."""
        inside = self.implications
        return report(inside.diagrams() if inside else self._folding.state, self._ids)

    def covers(self, a: Id, b: Id) -> bool:
        """Whether every message that `b` matches is matched by `a` too; False where in doubt."""
        from tamis.diagram.reasoning import covers

        wider, narrower = self._condition(a), self._condition(b)
        return covers(wider, narrower, self.schema, self.semantics, lookups=self.lookups)

    def example(self, id: Id) -> dict[str, object] | None:
        """A message that the subscription matches; None where none exists or none was found."""
        from tamis.diagram.reasoning import example

        return example(self._condition(id), self.schema, self.semantics, lookups=self.lookups)

    def _finder(self, message: Mapping[str, object]) -> Callable[[str], object]:
        return finder(message, self.semantics, self.schema)

    def _condition(self, id: Id) -> Condition:
        if id not in self._slots:
            raise SubscriptionError(f"there is no subscription {id!r}")
        return self._intake.condition(self._texts[self._slots[id]])

    def _columns(
        self, table: pa.Table | pa.RecordBatch, state: State, rows: slice | None = None
    ) -> Messages:
        names, first = self._attributes(state), 0
        if rows is not None:
            table, first = table.slice(rows.start, rows.stop - rows.start), rows.start
        return from_table(table, names, self.semantics, self.schema, first)

    def _names(self) -> pa.Array:
        """The ids of all slots; integers unless some id is a string."""
        import pyarrow as pa

        known, ids = self._known_names, self._ids
        if known is None or len(known) != len(ids):
            try:
                known = pa.array(ids, pa.int64())
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                texts = [str(i) for i in ids]
                known = pa.array(texts, pa.string())
                if any(text is not id for text, id in zip(texts, ids, strict=False)):
                    self._given = ids  # integers among them
            self._known_names = known
        return known


def _cut(rows: int, threads: int) -> list[slice]:
    """The parts in which rows are matched: one for each thread, unless they are too large."""
    parts = max(threads, 1) * -(-rows // (_ROWS * max(threads, 1)))
    step = max(1, -(-rows // max(parts, 1)))
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]


def _joined(parts: list[tuple[I8, I4]]) -> tuple[I8, I4]:
    """Offsets and slots of parts that stand one behind the other."""
    if len(parts) == 1:
        return parts[0]
    offsets = [np.zeros(1, np.int64)]
    for own, _ in parts:
        offsets.append(own[1:] + offsets[-1][-1])
    return np.concatenate(offsets), np.concatenate([_NO_SLOTS, *(slots for _, slots in parts)])


def _pairs(
    subscriptions: Iterable[tuple[Id, str]] | pa.Table | pa.RecordBatch,
) -> Iterable[tuple[Id, str]]:
    if not type(subscriptions).__module__.startswith("pyarrow"):  # spares the import
        return subscriptions
    table: Any = subscriptions
    for name in ("id", "selector"):
        if name not in table.schema.names:
            raise SubscriptionError(f"the table has no column {name!r}: it needs id and selector")
    columns = (table.column(name).to_pylist() for name in ("id", "selector"))
    return zip(*columns, strict=True)
