"""The matcher: subscriptions by id, and the messages that they match."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload

import numpy as np

from tamis.engine.details import Details
from tamis.engine.ground.collecting import uncollected
from tamis.engine.ground.ids import Id, check_id
from tamis.engine.ground.layout import I8, U8
from tamis.engine.ground.matches import Matches
from tamis.engine.live.adding import OnError, add_all
from tamis.engine.live.background import ENDING, Background
from tamis.engine.live.generation import Contents
from tamis.engine.live.id_table import refuse_taken, refuse_twin
from tamis.engine.live.state import MOST_PAIRS, OverflowingError
from tamis.engine.piecewise import PIECE, TableBatch, Tabular, attributes_of, counted, detailed
from tamis.engine.reading.intake import Dialect, Intake
from tamis.engine.reading.selector_notices import Notice, notice
from tamis.engine.subscription_report import Report, report
from tamis.engine.values.mappings import Mappings
from tamis.engine.values.single_message import Single
from tamis.errors import ResultError, SubscriptionError, TamisError
from tamis.language import Limits
from tamis.language.tree import Condition
from tamis.logic import Explanation, Formula, Lookups, Semantics, explain
from tamis.messages.tabular import SupportsArrow, as_mapping, subscription_rows
from tamis.notebook import SHOWN, html_table
from tamis.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from tamis.engine.implications import Implications, Statistics

T = TypeVar("T")
Engine = Literal["diagram", "implication"]
_FEW = 64  # changes that a compaction makes up for while others wait
_NO_SLOTS = np.empty(0, np.int32)


class Matcher:
    """A set of subscriptions. Add, remove, and ask which of them a message matches.

    Safe to use from several threads: readers work on one immutable state and never wait, writers
    take turns.
    """

    def __new__(cls, *_: Any, engine: Engine = "diagram", **__: Any) -> Matcher:
        if engine not in get_args(Engine):
            raise TamisError(f"engine {engine!r}: choose one of {', '.join(get_args(Engine))}")
        if engine == "implication" and cls is Matcher:
            from tamis.engine.implication_matcher import ImplicationMatcher

            return object.__new__(ImplicationMatcher)
        return object.__new__(cls)

    _compacts = True  # where slots mean something to somebody else, they must stay what they are

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
        self._contents = self._empty()
        failing = "compacting failed: matching goes on, in more memory than it needs"
        self._compaction = Background(self._compact, failing)

    def _intake(self) -> Intake:
        return Intake(self.schema, self.semantics, self.dialect, self.limits, self.lookups)

    def _empty(self) -> Contents:
        return Contents(self._intake())

    @property
    def implications(self) -> Implications | None:
        """The graph of a matcher with engine="implication"."""
        return None

    def __len__(self) -> int:
        return len(self._contents.slots)

    def __repr__(self) -> str:
        known = "no schema" if self.schema is None else f"{len(self.schema):,} attributes"
        return f"<Matcher: {len(self):,} subscriptions, {known}, {self.semantics} semantics>"

    def _repr_html_(self) -> str:
        inside = self._contents
        slots = inside.slots.all()[:SHOWN].tolist()
        return html_table(
            repr(self)[1:-1], ("id", "selector"), [(inside.ids[s], inside.texts[s]) for s in slots]
        )

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str | int) and type(id) is not bool and id in self._contents.slots

    def __iter__(self) -> Iterator[Id]:
        """The ids, in the order of adding."""
        return iter(list(self._contents.slots))

    def items(self) -> list[tuple[Id, str]]:
        """Pairs (id, selector), in the order of adding."""

        def take(inside: Contents) -> list[tuple[Id, str]]:
            ids, texts, slots = inside.ids, inside.texts, inside.slots.all().tolist()
            if 2 * len(slots) > len(ids):  # saved ones are read together, not one by one
                ids, texts = list(ids), list(texts)
            return [(ids[s], texts[s]) for s in slots]

        return self._write(take)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that matching looks at."""
        return attributes_of(self._contents.merging.state, self.semantics, self.schema)

    # --- writing -------------------------------------------------------------

    def add(self, id: Id, selector: str) -> Notice | None:
        """Subscribe `id` (not yet in use) to the messages that `selector` describes.

        Says so where no message, or every message, can match it.
        """

        def put(inside: Contents) -> Notice | None:
            refuse_taken(inside.slots, id, {})
            intake = inside.intake
            template, keys = intake.read(selector)
            said = notice(intake.vocabulary, intake.templates.items[template], keys)
            inside.put(id, selector, template, keys)  # last: an error before it adds nothing
            return said

        return self._write(put)

    def replace(self, id: Id, selector: str) -> None:
        """Give the subscription another selector (or add it); it moves to the end of the order."""
        check_id(id)

        def put(inside: Contents) -> None:
            refuse_twin(inside.slots, id, {})
            inside.put(id, selector, *inside.intake.read(selector))
            self._compact_later(inside)

        self._write(put)

    def add_many(
        self,
        subscriptions: Iterable[Any] | SupportsArrow,
        on_error: OnError | None = None,
    ) -> int:
        """Add all, and say how many were good: pairs (id, selector), mappings with these keys, or
        a table of any library with these columns.

        A bad one goes to `on_error`; without that it raises, and none is added.
        """
        # Before the lock: an iterable may change the matcher. Two lists, as a pair for each would
        # lie between the texts, which stay, and leave holes of 64 bytes there.
        given, texts = list[Id](), list[str]()
        for id, text, _ in subscription_rows(subscriptions, subscribers=False):
            given.append(id)
            texts.append(text)
        with uncollected:
            return self._write(lambda inside: add_all(inside, given, texts, on_error))

    def remove(self, id: Id) -> None:
        """End a subscription."""
        check_id(id)

        def remove(inside: Contents) -> None:
            if id not in inside.slots:
                raise SubscriptionError(f"there is no subscription {id!r}")
            inside.remove(id)
            self._compact_later(inside)

        self._write(remove)

    def settle(self) -> None:
        """Wait for the background: afterwards matching is as fast as it gets."""
        self._compaction.wait()
        self._contents.merging.settle()

    def _write(self, change: Callable[[Contents], T]) -> T:
        """Do the change while nobody else changes or compacts the contents.

        A lock that is taken in a generator would stay taken where Ctrl-C comes between the two.
        """
        while True:
            inside = self._contents
            with inside.lock:
                if inside is self._contents:
                    return change(inside)

    def _compact_later(self, inside: Contents) -> None:
        if self._compacts and inside.worn:
            self._compaction.start()

    def _compact(self) -> None:
        """Write what is alive into new contents, whatever changes meanwhile, and let them take the
        place of the old. Holds the lock only for the last few changes."""
        old, new, known = self._contents, self._empty(), _NO_SLOTS
        while not ENDING.is_set():
            with old.lock:
                now = old.slots.all()
                if len(np.setxor1d(known, now, assume_unique=True)) <= _FEW:
                    new.carry(old, known, now)
                    self._compaction.end()
                    self._contents = new
                    return
            new.carry(old, known, now)
            known = now

    # --- snapshots -----------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, or nothing: a crash leaves the file that was there."""
        from tamis.engine.snapshot.snapshot_store import save

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
        from tamis.engine.snapshot.snapshot_store import load

        return load(cls, path, lookups=lookups, verify=verify)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its snapshot; lookups are pickled beside it."""
        from tamis.engine.snapshot.pickled import pickled

        return pickled(self)

    def __copy__(self) -> Matcher:
        """Another matcher with the same subscriptions and lookups."""
        from tamis.engine.snapshot.pickled import copied

        return copied(self)

    def __deepcopy__(self, memo: object) -> Matcher:
        return self.__copy__()

    # --- reading -------------------------------------------------------------

    @overload
    def match(self, message: Mapping[str, object]) -> list[Id]: ...
    @overload
    def match(self, message: Mapping[str, object], details: Details) -> list[Any]: ...
    def match(self, message: Mapping[str, object], details: Details | None = None) -> list[Any]:
        """The ids of the subscriptions that the message matches, in the order of adding.

        The message is a mapping, or a `Row` of Spark. `details` say which come first, and what
        each carries: then it is a mapping.
        """
        if details is not None:
            return self.match_batch([as_mapping(message)], details=details).to_pylist()[0]
        inside = self._contents
        return inside.names.of(inside.merging.state.one(self._single(message)))

    def match_array(self, message: Mapping[str, object]) -> pa.Array:
        """The same ids as an Arrow array: quicker where thousands match, as no Python object is
        made of each. Where some ids are integers and some strings, all are strings."""
        inside = self._contents
        return inside.names.picked(inside.merging.state.one(self._single(message)))

    def match_each(self, message: Mapping[str, object]) -> Iterator[Id]:
        """The same ids as they are decided, the first before the last is known.

        Only the implication graph decides one after the other; the diagram decides all at once.
        """
        yield from self.match(message)

    def statistics(self, message: Mapping[str, object]) -> Statistics:
        """What matching the message takes the implication graph."""
        raise TamisError("statistics are kept by a matcher with engine='implication' only")

    def match_many(self, messages: Iterable[Mapping[str, object]]) -> Matches:
        """Like `match_batch`, of Python mappings alone and in one piece."""
        inside = self._contents
        rows = [as_mapping(m) for m in messages]
        batch = Mappings(rows, self.semantics, self.schema)
        try:
            found = inside.merging.state.matched(batch, self.lookups)
        except OverflowingError as error:
            raise ResultError(len(rows), int(error.counts.sum()), MOST_PAIRS) from None
        return Matches(*found, inside.names.array(), inside.names.given)

    def match_batch(
        self,
        table: Tabular,
        *,
        threads: int = 1,
        limit: int = MOST_PAIRS,
        details: Details | None = None,
    ) -> Matches:
        """The ids that each row matches. `threads` share the rows.

        The table is of any library that speaks Arrow (pyarrow, pandas, Polars, DuckDB, ...), or a
        list of mappings. ResultError, where there are more than `limit` pairs of a row and an id.
        `details` say which matches of a row come first, which are left out, and what each carries.
        """
        if details is not None:
            return detailed(self._contents, table, details, counted(threads))
        return TableBatch(self._contents, table).matched(counted(threads), limit)

    def match_batches(self, table: Tabular, *, pairs: int = PIECE) -> Iterator[Matches]:
        """The same piece by piece, for results that do not fit into memory: the matches of the
        first rows, then of the next, until all rows are done.

        A piece has at most so many `pairs` of a row and an id, or it is a single row. Changes of
        the subscriptions meanwhile are not seen.
        """
        yield from TableBatch(self._contents, table).pieces(pairs)

    def count_batch(self, table: Tabular, *, threads: int = 1) -> I8:
        """How many subscriptions each row matches, without naming them."""
        return TableBatch(self._contents, table).counts(counted(threads))

    def bitmap_batch(self, table: Tabular) -> tuple[list[Id], U8]:
        """The ids, and for each a row of bits: bit m % 64 of word m // 64 is row m of the table."""
        batch = TableBatch(self._contents, table)
        slots, bits = batch.bitmaps()
        return [batch.contents.ids[s] for s in slots.tolist()], bits

    def explain(self, id: Id, message: Mapping[str, object]) -> Explanation:
        """Why the subscription matches the message or not, predicate by predicate."""
        asked = as_mapping(message)
        return explain(self._condition(id), asked, self.schema, self.semantics, self.lookups)

    def report(self) -> Report:
        """Subscriptions that match never, always, or the same as another. Takes a while on many."""
        inside = self._contents
        return report(inside.merging.diagrams(), inside.ids)

    def compiled(self) -> str:
        """What the engine made of the subscriptions, as text: indexes, access, clusters, trees."""
        from tamis.engine.paths.printing import text_of

        inside = self._contents
        known, parts = inside.intake, inside.merging.diagrams().parts

        def name(slot: int) -> str:
            return f"id {inside.ids[slot]!r}"

        texts = (text_of(p.segment, known.vocabulary, known.templates, name) for p in parts)
        return "\n".join(texts)

    def covers(self, a: Id, b: Id) -> bool:
        """Whether every message that `b` matches is matched by `a` too; False where in doubt."""
        from tamis.reasoning.covers import covers

        wider, narrower = self._condition(a), self._condition(b)
        return covers(wider, narrower, self.schema, self.semantics, lookups=self.lookups)

    def example(self, id: Id) -> dict[str, object] | None:
        """A message that the subscription matches; None where none exists or none was found."""
        from tamis.reasoning.covers import example

        return example(self._condition(id), self.schema, self.semantics, lookups=self.lookups)

    def _single(self, message: Mapping[str, object]) -> Single:
        if type(message) is not dict:
            message = as_mapping(message)
        return Single(message, self.semantics, self.schema, self.lookups)

    def _condition(self, id: Id) -> Condition:
        check_id(id)
        inside = self._contents
        slot = inside.slots.get(id)
        if slot < 0:
            raise SubscriptionError(f"there is no subscription {id!r}")
        return inside.intake.condition(inside.texts[slot])

    def _formulas(self) -> dict[Id, Formula]:
        """What the selectors mean, in the order of adding."""
        inside = self._contents
        with inside.lock:  # reading a selector may number new constants
            slots = {id: inside.slots[id] for id in inside.slots}
            return {id: inside.intake.formula(inside.texts[slot]) for id, slot in slots.items()}
