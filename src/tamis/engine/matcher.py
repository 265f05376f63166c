"""The matcher: subscriptions by id, and the messages that they match."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, overload

import numpy as np

from tamis.engine.collecting import uncollected
from tamis.engine.details import Details
from tamis.engine.encode.batch import Messages, from_table, roots
from tamis.engine.encode.mappings import Mappings
from tamis.engine.encode.single import Single
from tamis.engine.ids import Id, check_id, twin
from tamis.engine.intake.notices import Notice, notice
from tamis.engine.intake.reader import Dialect, Intake
from tamis.engine.layout import I4, I8, U8
from tamis.engine.live.background import ENDING, Background
from tamis.engine.live.generation import Contents
from tamis.engine.live.merging import Folding
from tamis.engine.live.state import MOST_PAIRS, OverflowingError, State
from tamis.engine.live.threads import shared
from tamis.engine.matches import Matches
from tamis.engine.report import Report, report
from tamis.errors import ResultError, SelectorError, SnapshotError, SubscriptionError, TamisError
from tamis.language import Limits
from tamis.language.tree import Condition
from tamis.logic import Explanation, Formula, Lookups, Semantics, explain
from tamis.messages.tabular import Rows, SupportsArrow, as_mapping, rows_of, subscription_rows
from tamis.notebook import SHOWN, html_table
from tamis.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from tamis.engine.implications import Implications, Statistics

T = TypeVar("T")
Tabular = SupportsArrow | Iterable[Mapping[str, object]]
Engine = Literal["diagram", "implication"]
OnError = Callable[[Id, str, SelectorError | SubscriptionError], None]
_PIECE = 1 << 24  # pairs of a row and an id that `match_batches` hands out at once
_ROWS = 1 << 16  # messages that are matched in one piece, if there are not too many
_BYTES = 1 << 25  # of keys and flags in all: conditions may compare thousands of terms
_FEWEST_ROWS = 512
_TOGETHER = 2048  # messages that kernels take together at most: pieces are multiples
_TRIED_ROWS = 1 << 10  # messages after which it is known how many subscriptions they match
_FOUND_PAIRS = 1 << 21  # that are found at once where only some of them are kept
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
        return Contents(intake, _graph if self._engine == "implication" else None)

    @property
    def implications(self) -> Implications | None:
        """The graph of a matcher with engine="implication"."""
        return _graph_of(self._contents)

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

        def put(inside: Contents) -> Notice | None:
            self._refuse_taken(id, {})
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
            self._refuse_twin(id, {})
            inside.put(id, selector, *inside.intake.read(selector))
            self._renew_later(inside)

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
            return self._write(lambda inside: self._add_all(inside, given, texts, on_error))

    def _add_all(
        self, inside: Contents, given: list[Id], texts: list[str], on_error: OnError | None
    ) -> int:
        ids: dict[Id, str] = {}
        templates, sizes, keys = array("i"), array("q"), array("q")
        read, fresh = inside.intake.read, not inside.slots  # nothing is there that could be taken
        kind = type(given[0]) if given and fresh else None  # while all are of one, no two twins
        for id, selector in zip(given, texts, strict=True):
            try:
                if type(id) is kind:
                    check_id(id)
                    if id in ids:
                        self._refuse_taken(id, ids)
                else:
                    kind = None
                    self._refuse_taken(id, ids)
                template, own = read(selector)
            except (SelectorError, SubscriptionError) as error:
                if on_error is None:
                    raise
                on_error(id, selector, error)
                continue
            ids[id] = selector
            templates.append(template)
            sizes.append(len(own))
            keys.extend(own)
        if on_error is not None:  # it may have changed the matcher
            for id in ids:
                self._refuse_taken(id, {})
        if ids:
            inside.append(list(ids), list(ids.values()), templates, sizes, keys)
        return len(ids)

    def remove(self, id: Id) -> None:
        """End a subscription."""
        check_id(id)

        def remove(inside: Contents) -> None:
            if id not in inside.slots:
                raise SubscriptionError(f"there is no subscription {id!r}")
            inside.remove(id)
            self._renew_later(inside)

        self._write(remove)

    def settle(self) -> None:
        """Wait for the background: afterwards matching is as fast as it gets."""
        self._renewal.wait()
        self._contents.folding.settle()

    def _write(self, change: Callable[[Contents], T]) -> T:
        """Do the change while nobody else changes or renews the contents.

        A lock that is taken in a generator would stay taken where Ctrl-C comes between the two.
        """
        while True:
            inside = self._contents
            with inside.lock:
                if inside is self._contents:
                    return change(inside)

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
        from tamis.engine.snapshot.store import save

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
        from tamis.engine.snapshot.store import load

        return load(path, lookups=lookups, verify=verify)

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
        return inside.names.of(inside.folding.state.one(self._single(message)))

    def match_array(self, message: Mapping[str, object]) -> pa.Array:
        """The same ids as an Arrow array: quicker where thousands match, as no Python object is
        made of each. Where some ids are integers and some strings, all are strings."""
        inside = self._contents
        return inside.names.picked(inside.folding.state.one(self._single(message)))

    def match_each(self, message: Mapping[str, object]) -> Iterator[Id]:
        """The same ids as they are decided, the first before the last is known.

        Only the implication graph decides one after the other; the diagram decides all at once.
        """
        inside = self._contents
        graph = _graph_of(inside)
        if graph is None:
            yield from self.match(message)
            return
        for slot in graph.state.each(self._single(message)):
            yield inside.ids[slot]

    def statistics(self, message: Mapping[str, object]) -> Statistics:
        """What matching the message takes the implication graph."""
        if self.implications is None:
            raise TamisError("statistics are kept by a matcher with engine='implication' only")
        batch = Mappings([as_mapping(message)], self.semantics, self.schema)
        return self.implications.state.statistics(batch, self.lookups)

    def match_many(self, messages: Iterable[Mapping[str, object]]) -> Matches:
        """Like `match_batch`, of Python mappings alone and in one piece."""
        inside = self._contents
        rows = [as_mapping(m) for m in messages]
        batch = Mappings(rows, self.semantics, self.schema)
        try:
            found = inside.folding.state.matched(batch, self.lookups)
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
            return self._detailed(table, details, _counted(threads))
        inside = self._contents
        state, taken = inside.folding.state, [0]
        rows = self._rows(table, state)

        def work(part: slice) -> tuple[I8, I4]:
            columns = self._columns(rows, state, part)
            found = state.matched(columns, self.lookups, limit - taken[0])
            taken[0] += len(found[1])
            return found

        try:
            found = _joined(shared(work, _cut(len(rows), _counted(threads), _most(state)), threads))
            if taken[0] > limit:
                raise OverflowingError(np.diff(found[0]))
        except OverflowingError:
            pairs = int(self.count_batch(rows, threads=threads).sum())
            raise ResultError(len(rows), pairs, limit) from None
        return Matches(*found, inside.names.array(), inside.names.given)

    def _detailed(self, table: Tabular, details: Details, threads: int) -> Matches:
        """Piece by piece: of what was found, only what is wanted is kept."""
        inside = self._contents
        state, aligned = inside.folding.state, details.aligned(inside.names.array())
        reads = () if details.valid_at is None else (details.valid_at,)
        rows = self._rows(table, state, reads)

        def piece(part: slice) -> tuple[tuple[I8, I4], int]:
            columns = self._columns(rows, state, part, reads)
            offsets, slots = state.matched(columns, self.lookups)
            return aligned.pick(offsets, slots, details.times(columns)), len(slots)

        def work(part: slice) -> tuple[I8, I4]:
            found, first, size = list[tuple[I8, I4]](), part.start, _TRIED_ROWS
            while first < part.stop:
                last = min(first + size, part.stop)
                try:
                    kept, pairs = piece(slice(first, last))
                except OverflowingError:
                    if last == first + 1:
                        raise ResultError(1, len(self), MOST_PAIRS) from None
                    size = (last - first) // 2
                    continue
                found.append(kept)
                size = max(1, min(_ROWS, _FOUND_PAIRS * (last - first) // max(pairs, 1)))
                first = last
            return _joined(found)

        parts = shared(work, _cut(len(rows), threads, _most(state)), threads)
        given = None if details.carry else inside.names.given
        return Matches(*_joined(parts), aligned.names, given)

    def match_batches(self, table: Tabular, *, pairs: int = _PIECE) -> Iterator[Matches]:
        """The same piece by piece, for results that do not fit into memory: the matches of the
        first rows, then of those behind them, until all rows are done.

        A piece has at most so many `pairs` of a row and an id, or it is a single row. Changes of
        the subscriptions meanwhile are not seen.
        """
        inside = self._contents
        state = inside.folding.state
        rows = self._rows(table, state)

        def matched(part: slice, most: int) -> Matches:
            found = state.matched(self._columns(rows, state, part), self.lookups, most)
            return Matches(*found, inside.names.array(), inside.names.given)

        for part in _cut(len(rows), 1, _most(state)):
            try:
                yield matched(part, pairs)
            except OverflowingError as error:
                for piece in _pieces(part, error.counts, pairs):
                    yield matched(piece, sys.maxsize)

    def count_batch(self, table: Tabular, *, threads: int = 1) -> I8:
        """How many subscriptions each row matches, without naming them."""
        state = self._contents.folding.state
        rows = self._rows(table, state)
        counts = np.empty(len(rows), np.int64)

        def work(part: slice) -> None:
            open = [part]  # a function that calls itself would keep the counts in memory
            while open:
                rest = open.pop()
                try:
                    state.count(self._columns(rows, state, rest), self.lookups, counts[rest])
                except OverflowingError:  # to count, some have to be found
                    middle = (rest.start + rest.stop) // 2
                    open += slice(rest.start, middle), slice(middle, rest.stop)

        shared(work, _cut(len(rows), _counted(threads), _most(state)), threads)
        return counts

    def bitmap_batch(self, table: Tabular) -> tuple[list[Id], U8]:
        """The ids, and for each a row of bits: bit m % 64 of word m // 64 is row m of the table."""
        inside = self._contents
        state = inside.folding.state
        rows = self._rows(table, state)
        whole = self._columns(rows, state, slice(0, len(rows)))
        slots, bits = state.bitmaps(whole, self.lookups)
        return [inside.ids[s] for s in slots.tolist()], bits

    def explain(self, id: Id, message: Mapping[str, object]) -> Explanation:
        """Why the subscription matches the message or not, predicate by predicate."""
        asked = as_mapping(message)
        return explain(self._condition(id), asked, self.schema, self.semantics, self.lookups)

    def report(self) -> Report:
        """Subscriptions that match never, always, or the same as another. Takes a while on many."""
        inside = self._contents
        return report(inside.folding.diagrams(), inside.ids)

    def compiled(self) -> str:
        """What the engine made of the subscriptions, as text: indexes, access, clusters, trees."""
        from tamis.engine.compile.printer import text_of

        inside = self._contents
        known, parts = inside.intake, inside.folding.diagrams().parts

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

    def _rows(self, table: Tabular, state: State, more: tuple[str, ...] = ()) -> Rows:
        """The messages of a table, of which the state reads some columns."""
        return rows_of(table, lambda: roots((*self._attributes(state), *more)))

    def _columns(
        self, rows: Rows, state: State, part: slice, more: tuple[str, ...] = ()
    ) -> Messages:
        if isinstance(rows, list):
            return Mappings(rows[part], self.semantics, self.schema)
        table = rows.slice(part.start, part.stop - part.start)
        names = (*self._attributes(state), *more)
        return from_table(table, names, self.semantics, self.schema, part.start)


def _graph(intake: Intake) -> Implications:
    from tamis.engine.implications import Implications

    return Implications(intake.vocabulary, intake.templates)


def _graph_of(contents: Contents) -> Implications | None:
    return None if type(contents.folding) is Folding else cast("Implications", contents.folding)


def _counted(threads: object) -> int:
    if isinstance(threads, int):
        return threads
    raise TamisError(f"threads is how many threads share the rows, such as 4, not {threads!r}")


def _most(state: State) -> int:
    """How many messages may be matched in one piece."""
    rows = min(_ROWS, max(_FEWEST_ROWS, _BYTES // max(state.width, 1)))
    return rows - rows % _TOGETHER if rows > _TOGETHER else rows


def _cut(rows: int, threads: int, most: int) -> list[slice]:
    """The parts in which rows are matched: one for each thread, unless they are too large."""
    parts = max(threads, 1) * -(-rows // (most * max(threads, 1)))
    step = max(1, -(-rows // max(parts, 1)))
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]


def _pieces(rows: slice, counts: I8, pairs: int) -> Iterator[slice]:
    """The rows cut so that no piece has more pairs, but for single rows; so many have the rows."""
    totals = np.cumsum(counts)
    first = 0
    while first < len(totals):
        before = int(totals[first - 1]) if first else 0
        last = max(int(np.searchsorted(totals, before + pairs, "right")), first + 1)
        yield slice(rows.start + first, rows.start + last)
        first = last


def _joined(parts: list[tuple[I8, I4]]) -> tuple[I8, I4]:
    """Offsets and slots of parts that stand one behind the other."""
    if len(parts) == 1:
        return parts[0]
    offsets = [np.zeros(1, np.int64)]
    for own, _ in parts:
        offsets.append(own[1:] + offsets[-1][-1])
    return np.concatenate(offsets), np.concatenate([_NO_SLOTS, *(slots for _, slots in parts)])
