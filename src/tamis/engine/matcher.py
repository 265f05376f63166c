"""The matcher: subscriptions by id, and the messages that they match."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tamis.engine.background import ENDING, Background
from tamis.engine.batch import Messages, from_mappings, from_table
from tamis.engine.contents import Contents
from tamis.engine.ids import Id, check_id, twin
from tamis.engine.implications import Implications, Statistics
from tamis.engine.intake import Dialect, Intake
from tamis.engine.layout import I4, I8, U8
from tamis.engine.matches import Matches
from tamis.engine.notices import Notice, notice
from tamis.engine.report import Report, report
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
_ROWS = 1 << 16  # messages that are matched in one piece
_FEW = 64  # changes that a renewal makes up for while others wait
_NO_SLOTS = np.empty(0, np.int32)


class Matcher:
    """A set of subscriptions. Add, remove, and ask which of them a message matches.

    Safe to use from several threads: readers work on one immutable state and never wait, writers
    take turns.
    """

    _renews = True  # where slots mean something to somebody else, they must stay what they are

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
        if engine not in get_args(Engine):
            raise TamisError(f"engine {engine!r}: choose one of {', '.join(get_args(Engine))}")
        self._engine = engine
        self._contents = self._empty()
        failing = "renewing failed: matching goes on, in more memory than it needs"
        self._renewal = Background(self._renew, failing)

    def _empty(self) -> Contents:
        intake = Intake(self.schema, self.semantics, self.dialect, self.limits, self.lookups)
        return Contents(intake, graph=self._engine == "implication")

    @property
    def implications(self) -> Implications | None:
        """The graph of a matcher with engine="implication"."""
        folding = self._contents.folding
        return folding if isinstance(folding, Implications) else None

    def __len__(self) -> int:
        return len(self._contents.slots)

    def __contains__(self, id: object) -> bool:
        return id in self._contents.slots

    def __iter__(self) -> Iterator[Id]:
        """The ids, in the order of adding."""
        return iter(list(self._contents.slots))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that matching looks at."""
        return self._attributes(self._contents.folding.state)

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
        with self._writing() as inside:
            self._refuse_taken(id, {})
            template, keys = inside.put(id, selector)
            intake = inside.intake
        return notice(intake.vocabulary, intake.templates.items[template], keys)

    def replace(self, id: Id, selector: str) -> None:
        """Give the subscription another selector (or add it); it moves to the end of the order."""
        check_id(id)
        with self._writing() as inside:
            self._refuse_twin(id, {})
            inside.put(id, selector)
            self._renew_later(inside)

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
        with self._writing() as inside:
            for id, selector in _pairs(subscriptions):
                try:
                    self._refuse_taken(id, ids)
                    template, own = inside.intake.read(selector)
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
                inside.append(list(ids), list(ids.values()), templates, sizes, keys)
        return len(ids)

    def remove(self, id: Id) -> None:
        """End a subscription."""
        with self._writing() as inside:
            if id not in inside.slots:
                raise SubscriptionError(f"there is no subscription {id!r}")
            inside.remove(id)
            self._renew_later(inside)

    def settle(self) -> None:
        """Wait for the background: afterwards matching is as fast as it gets."""
        self._renewal.wait()
        self._contents.folding.settle()

    @contextmanager
    def _writing(self) -> Iterator[Contents]:
        """The contents, while nobody else changes or renews them."""
        while True:
            inside = self._contents
            with inside.lock:
                if inside is self._contents:
                    yield inside
                    return

    def _renew_later(self, inside: Contents) -> None:
        if self._renews and inside.worn:
            self._renewal.start()

    def _renew(self) -> None:
        """Write what is alive into new contents, whatever changes meanwhile, and let them take the
        place of the old. Holds the lock only for the last few changes."""
        old, new, known = self._contents, self._empty(), _NO_SLOTS
        while not ENDING.is_set():
            with old.lock:
                now = old.slots.all()
                if len(np.setxor1d(known, now, assume_unique=True)) <= _FEW:
                    new.carry(old, known, now)
                    self._renewal.end()
                    self._contents = new
                    return
            new.carry(old, known, now)
            known = now

    def _refuse_taken(self, id: Id, more: Mapping[Id, str]) -> None:
        check_id(id)
        if id in self._contents.slots or id in more:
            raise SubscriptionError(f"there is a subscription {id!r} already: remove or replace it")
        self._refuse_twin(id, more)

    def _refuse_twin(self, id: Id, more: Mapping[Id, str]) -> None:
        """1 and "1" would be one and the same in Arrow, where ids of both types are texts."""
        other = twin(id)
        if other is not None and (other in self._contents.slots or other in more):
            raise SubscriptionError(
                f"there is a subscription {other!r}, and {id!r} would look the same in Arrow: "
                "choose another id, or give all of one type"
            )

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
        inside = self._contents
        slots = inside.folding.state.one(lambda term: value(term, find, lookups))
        return [inside.ids[s] for s in slots]

    def match_each(self, message: Mapping[str, object]) -> Iterator[Id]:
        """The same ids as they are decided, the first before the last is known.

        Only the implication graph decides one after the other; the diagram decides all at once.
        """
        inside = self._contents
        if not isinstance(inside.folding, Implications):
            yield from self.match(message)
            return
        find, lookups = self._finder(message), self.lookups
        for slot in inside.folding.state.each(lambda term: value(term, find, lookups)):
            yield inside.ids[slot]

    def statistics(self, message: Mapping[str, object]) -> Statistics:
        """What matching the message takes the implication graph."""
        if self.implications is None:
            raise TamisError("statistics are kept by a matcher with engine='implication' only")
        batch = from_mappings([message], self.semantics, self.schema)
        return self.implications.state.statistics(batch, self.lookups)

    def match_many(self, messages: Sequence[Mapping[str, object]]) -> Matches:
        """Like `match_batch`, of Python mappings."""
        inside = self._contents
        batch = from_mappings(messages, self.semantics, self.schema)
        found = inside.folding.state.matched(batch, self.lookups)
        return Matches(*found, inside.names.array(), inside.names.given)

    def match_batch(self, table: pa.Table | pa.RecordBatch, *, threads: int = 1) -> Matches:
        """The ids that each row matches. `threads` share the rows."""
        inside = self._contents
        state = inside.folding.state

        def work(part: slice) -> tuple[I8, I4]:
            return state.matched(self._columns(table, state, part), self.lookups)

        found = _joined(shared(work, _cut(table.num_rows, threads), threads))
        return Matches(*found, inside.names.array(), inside.names.given)

    def count_batch(self, table: pa.Table | pa.RecordBatch, *, threads: int = 1) -> I8:
        """How many subscriptions each row matches, without naming them."""
        state = self._contents.folding.state
        counts = np.empty(table.num_rows, np.int64)

        def work(part: slice) -> None:
            counts[part] = state.counts(self._columns(table, state, part), self.lookups)

        shared(work, _cut(table.num_rows, threads), threads)
        return counts

    def bitmap_batch(self, table: pa.Table | pa.RecordBatch) -> tuple[list[Id], U8]:
        """The ids, and for each a row of bits: bit m % 64 of word m // 64 is row m of the table."""
        inside = self._contents
        state = inside.folding.state
        slots, bits = state.bitmaps(self._columns(table, state), self.lookups)
        return [inside.ids[s] for s in slots.tolist()], bits

    def explain(self, id: Id, message: Mapping[str, object]) -> Explanation:
        """Why the subscription matches the message or not, predicate by predicate."""
        return explain(self._condition(id), message, self.schema, self.semantics, self.lookups)

    def report(self) -> Report:
        """Subscriptions that match never, always, or the same as another. Takes a while on many."""
        inside = self._contents
        return report(inside.folding.diagrams(), inside.ids)

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
        inside = self._contents
        slot = inside.slots.get(id)
        if slot < 0:
            raise SubscriptionError(f"there is no subscription {id!r}")
        return inside.intake.condition(inside.texts[slot])

    def _columns(
        self, table: pa.Table | pa.RecordBatch, state: State, rows: slice | None = None
    ) -> Messages:
        names, first = self._attributes(state), 0
        if rows is not None:
            table, first = table.slice(rows.start, rows.stop - rows.start), rows.start
        return from_table(table, names, self.semantics, self.schema, first)


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
