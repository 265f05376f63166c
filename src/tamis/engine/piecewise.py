"""Tables of messages, matched piece by piece: on several threads, and within limits."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tamis.engine.details import Details
from tamis.engine.ground.layout import I4, I8, U8
from tamis.engine.ground.matches import Matches
from tamis.engine.live.generation import Contents
from tamis.engine.live.state import MOST_PAIRS, OverflowingError, State
from tamis.engine.live.threads import shared
from tamis.engine.values.mappings import Mappings
from tamis.engine.values.message_batch import Messages, from_table, roots
from tamis.errors import ResultError, TamisError
from tamis.logic import Semantics
from tamis.messages.tabular import SupportsArrow, rows_of
from tamis.schema import Schema

Tabular = SupportsArrow | Iterable[Mapping[str, object]]
PIECE = 1 << 24  # pairs of a row and an id that `match_batches` hands out at once
_ROWS = 1 << 16  # messages that are matched in one piece, if there are not too many
_BYTES = 1 << 25  # of keys and flags in all: conditions may compare thousands of terms
_FEWEST_ROWS = 512
_TOGETHER = 2048  # messages that kernels take together at most: pieces are multiples
_TRIED_ROWS = 1 << 10  # messages after which it is known how many subscriptions they match
_FOUND_PAIRS = 1 << 21  # that are found at once if only some of them are kept
_NO_SLOTS = np.empty(0, np.int32)
Found = tuple[I8, I4]  # offsets and slots


class TableBatch:
    """The messages of one table, and the subscriptions of one moment. `more` names attributes that
    are read beside those of the subscriptions."""

    def __init__(self, contents: Contents, table: Tabular, more: tuple[str, ...] = ()) -> None:
        self.contents, self.state, intake = contents, contents.merging.state, contents.intake
        self.semantics, self.schema, self.lookups = intake.semantics, intake.schema, intake.lookups
        self.names = (*attributes_of(self.state, self.semantics, self.schema), *more)
        self.rows = rows_of(table, lambda: roots(self.names))

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self, part: slice) -> Messages:
        if isinstance(self.rows, list):
            return Mappings(self.rows[part], self.semantics, self.schema)
        table = self.rows.slice(part.start, part.stop - part.start)
        return from_table(table, self.names, self.semantics, self.schema, part.start)

    def parts(self, threads: int) -> list[slice]:
        """The parts in which rows are matched: one for each thread, unless they are too large."""
        rows, most = len(self), _most(self.state)
        parts = max(threads, 1) * -(-rows // (most * max(threads, 1)))
        step = max(1, -(-rows // max(parts, 1)))
        return [slice(first, min(first + step, rows)) for first in range(0, rows, step)]

    def matches(self, found: Found) -> Matches:
        names = self.contents.names
        return Matches(*found, names.array(), names.given)

    def matched(self, threads: int, limit: int) -> Matches:
        taken = 0

        def work(part: slice) -> Found:
            nonlocal taken
            found = self.state.matched(self.columns(part), self.lookups, limit - taken)
            taken += len(found[1])
            return found

        try:
            found = _joined(shared(work, self.parts(threads), threads))
            if taken > limit:
                raise OverflowingError(np.diff(found[0]))
        except OverflowingError:
            raise ResultError(len(self), int(self.counts(threads).sum()), limit) from None
        return self.matches(found)

    def counts(self, threads: int) -> I8:
        counts = np.empty(len(self), np.int64)

        def work(part: slice) -> None:
            open = [part]  # a function that calls itself would keep the counts in memory
            while open:
                rest = open.pop()
                try:
                    self.state.count(self.columns(rest), self.lookups, counts[rest])
                except OverflowingError:  # to count, some have to be found
                    middle = (rest.start + rest.stop) // 2
                    open += slice(rest.start, middle), slice(middle, rest.stop)

        shared(work, self.parts(threads), threads)
        return counts

    def pieces(self, pairs: int) -> Iterator[Matches]:
        """Matches of the first rows, then of the next, with so many pairs at most."""

        def matched(part: slice, most: int) -> Matches:
            return self.matches(self.state.matched(self.columns(part), self.lookups, most))

        for part in self.parts(1):
            try:
                yield matched(part, pairs)
            except OverflowingError as error:
                for piece in _pieces(part, error.counts, pairs):
                    yield matched(piece, sys.maxsize)

    def bitmaps(self) -> tuple[I4, U8]:
        return self.state.bitmaps(self.columns(slice(0, len(self))), self.lookups)


def detailed(contents: Contents, table: Tabular, details: Details, threads: int) -> Matches:
    """Piece by piece: of all matches, only the wanted ones are kept."""
    reads = () if details.valid_at is None else (details.valid_at,)
    batch, aligned = TableBatch(contents, table, reads), details.aligned(contents.names.array())

    def piece(part: slice) -> tuple[Found, int]:
        columns = batch.columns(part)
        offsets, slots = batch.state.matched(columns, batch.lookups)
        return aligned.pick(offsets, slots, details.times(columns)), len(slots)

    def work(part: slice) -> Found:
        found, first, size = list[Found](), part.start, _TRIED_ROWS
        while first < part.stop:
            last = min(first + size, part.stop)
            try:
                kept, pairs = piece(slice(first, last))
            except OverflowingError:
                if last == first + 1:
                    raise ResultError(1, len(contents.slots), MOST_PAIRS) from None
                size = (last - first) // 2
                continue
            found.append(kept)
            size = max(1, min(_ROWS, _FOUND_PAIRS * (last - first) // max(pairs, 1)))
            first = last
        return _joined(found)

    found = _joined(shared(work, batch.parts(threads), threads))
    return Matches(*found, aligned.names, None if details.carry else contents.names.given)


def attributes_of(state: State, semantics: Semantics, schema: Schema | None) -> tuple[str, ...]:
    """The names of the attributes that matching looks at."""
    if semantics == "total" and schema is not None:
        return tuple(dict.fromkeys((*state.attributes, *schema)))
    return state.attributes


def counted(threads: object) -> int:
    if isinstance(threads, int):
        return threads
    raise TamisError(f"threads must be an integer such as 4, not {threads!r}")


def _most(state: State) -> int:
    """How many messages may be matched in one piece."""
    rows = min(_ROWS, max(_FEWEST_ROWS, _BYTES // max(state.width, 1)))
    return rows - rows % _TOGETHER if rows > _TOGETHER else rows


def _pieces(rows: slice, counts: I8, pairs: int) -> Iterator[slice]:
    """The rows cut so that no piece has more pairs, but for single rows; so many have the rows."""
    totals = np.cumsum(counts)
    first = 0
    while first < len(totals):
        before = int(totals[first - 1]) if first else 0
        last = max(int(np.searchsorted(totals, before + pairs, "right")), first + 1)
        yield slice(rows.start + first, rows.start + last)
        first = last


def _joined(parts: list[Found]) -> Found:
    """Offsets and slots of consecutive parts."""
    if len(parts) == 1:
        return parts[0]
    offsets = [np.zeros(1, np.int64)]
    for own, _ in parts:
        offsets.append(own[1:] + offsets[-1][-1])
    return np.concatenate(offsets), np.concatenate([_NO_SLOTS, *(slots for _, slots in parts)])
