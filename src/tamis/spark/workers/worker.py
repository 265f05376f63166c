"""What a worker does with the batches that Spark hands to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.engine import Details, Matcher, Matches
from tamis.engine.details import NO_LIMIT
from tamis.engine.ground.layout import I8
from tamis.engine.values.message_batch import from_table
from tamis.errors import MessageError
from tamis.logic import Lookups
from tamis.messages.columnar import typed
from tamis.messages.typed_tables import record_batch, take
from tamis.spark.workers.pinning import Following, Pinned
from tamis.spark.workers.shards import Sharded, Shards
from tamis.spark.workers.shipping import Shipment, opened_details
from tamis.spark.workers.tally import Tally

Columns: TypeAlias = "pa.Array | tuple[pa.Array, ...]"
Sieve: TypeAlias = Matcher | Sharded | Pinned
Wanted = Literal["ids", "count", "first"]  # "first": of the ids, as one value
Mask = npt.NDArray[np.bool_]

_FIRST_ROWS = 1 << 10  # rows that are matched before anything is known about their matches
_MOST_ROWS = 1 << 18
_GATHERED_ROWS, _GATHERED_BYTES = 1 << 17, 1 << 26
_IDS = 1 << 22  # ids that an array of results should hold
_SHOWN = 200  # characters of a row that cannot be read
_MOST_IDS = 2**31 - 1  # ids that it can hold


@dataclass(slots=True)
class Work:
    """One call of match: which matcher, which attributes in which order, and what is wanted.

    With `report`, a row that does not fit gets a reason instead of a result.
    """

    shipment: Shipment | Shards | Following
    names: tuple[str, ...]
    wanted: Wanted
    report: bool
    lookups: Lookups = field(default_factory=dict)
    tally: Tally | None = None
    details: Shipment | None = None
    malformed: str = ""  # the column with the text of each row that could not be read

    def __call__(self, batches: Iterator[Columns]) -> Iterator[pa.Array]:
        """For each row of the batches its result, in order; not always in as many batches."""
        matcher = self.shipment.opened(self.lookups)
        rows = _FIRST_ROWS
        for batch in gathered(map(self._batch, batches)):
            first = 0
            while first < batch.num_rows:
                result, ids = self._result(matcher, batch.slice(first, rows))
                if result is None:
                    rows = max(1, rows // 2)
                    continue
                yield result
                done = min(rows, batch.num_rows - first)
                first += done
                rows = max(1, min(_MOST_ROWS, _IDS * done // max(ids, 1)))
        if self.tally is not None:
            self.tally.end()

    def _batch(self, columns: Columns) -> pa.RecordBatch:
        given: list[Any] = list(columns) if isinstance(columns, tuple) else [columns]
        return record_batch(self.names, given[: len(self.names)], len(given[0]))

    def _result(self, matcher: Sieve, batch: pa.RecordBatch) -> tuple[pa.Array | None, int]:
        """The rows' results and how many ids they hold; None where these are too many."""
        bad = self._malformed(batch)
        self._refuse(bad)
        try:
            return self._good(matcher, batch, bad)
        except MessageError:
            misfit = misfits(matcher, batch)
            if not misfit.keys() - bad.keys():
                raise
        self._refuse(misfit)
        return self._good(matcher, batch, misfit | bad)

    def _refuse(self, bad: dict[int, str]) -> None:
        if bad and not self.report:
            hint = "on_error='report' puts such rows aside"
            raise MessageError(f"a message does not fit: {bad[min(bad)]}\n  {hint}") from None

    def _malformed(self, batch: pa.RecordBatch) -> dict[int, str]:
        if not self.malformed:
            return {}
        text = batch.column(self.malformed)
        rows = text.is_valid().to_numpy(zero_copy_only=False).nonzero()[0].tolist()
        return {row: f"the row cannot be read: {text[row].as_py()[:_SHOWN]}" for row in rows}

    def _good(
        self, matcher: Sieve, batch: pa.RecordBatch, bad: dict[int, str]
    ) -> tuple[pa.Array | None, int]:
        rows = batch.num_rows
        good = np.ones(rows, bool)
        if bad:
            good[list(bad)] = False
            batch = take(batch, np.flatnonzero(good).tolist())
        details = None if self.details is None else opened_details(self.details)
        if self.wanted == "count":
            counts = np.zeros(rows, np.int64)
            counts[good] = _counted(matcher, batch, details)
            if self.tally is not None:
                self.tally.add(counts[good], len(bad), None)
            return self._reported(pa.array(counts, mask=~good), bad), rows
        satisfied = matches = matcher.match_batch(batch)
        ids = int(matches.offsets[-1])
        if details is not None:
            matches = _picked(matcher, batch, matches, details)
            satisfied = self._satisfied(matcher, batch, satisfied, matches, details)
        if int(matches.offsets[-1]) > _MOST_IDS:
            return None, ids
        if self.tally is not None:
            self.tally.add(matches.counts, len(bad), satisfied)
        shaped = firsts if self.wanted == "first" else lists
        return self._reported(shaped(self._named(matcher, matches, details), good), bad), ids

    def _satisfied(
        self,
        matcher: Sieve,
        batch: pa.RecordBatch,
        matches: Matches,
        picked: Matches,
        details: Details,
    ) -> Matches:
        """What counts for each rule: a match that the limit cuts off is still a match."""
        if self.tally is None or not self.tally.named or details.limit == NO_LIMIT:
            return picked
        return _picked(matcher, batch, matches, details, limited=False)

    def _named(self, matcher: Any, matches: Matches, details: Details | None) -> Matches:
        """The matches with what is handed back in place of ids."""
        if details is None:
            return matches
        return Matches(matches.offsets, matches.slots, details.aligned(matches.names).names)

    def _reported(self, result: pa.Array, bad: dict[int, str]) -> pa.Array:
        if not self.report:
            return result
        reasons = pa.nulls(len(result), pa.string())
        if bad:
            reasons = pa.array([bad.get(i) for i in range(len(result))], pa.string())
        return pa.StructArray.from_arrays([result, reasons], ["result", "error"])


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches put together: the fewer there are, the less often the matcher is walked.

    Spark hands over what its reader has at once, and for Parquet that is 4,096 rows.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if not batches[0].num_columns:
        return record_batch([], [], sum(batch.num_rows for batch in batches))
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def lists(matches: Matches, good: Mask) -> pa.ListArray:
    """One list of ids per row; null where the row is not good and so was not matched."""
    counts = np.zeros(len(good) + 1, np.int32)
    counts[1:][good] = matches.counts
    mask = None if good.all() else pa.array(~good)
    offsets = pa.array(np.cumsum(counts, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, matches.ids, mask=mask)


def firsts(matches: Matches, good: Mask) -> pa.Array:
    """The first match of each row; null where there is none."""
    slots = np.zeros(len(good), np.int32)
    found = np.zeros(len(good), bool)
    found[good] = matches.counts > 0
    slots[found] = matches.slots[matches.offsets[:-1][matches.counts > 0]]
    return matches.names.take(pa.array(slots, mask=~found))


def _picked(
    matcher: Sieve,
    batch: pa.RecordBatch,
    matches: Matches,
    details: Details,
    *,
    limited: bool = True,
) -> Matches:
    names, semantics = () if details.valid_at is None else (details.valid_at,), matcher.semantics
    # What else a message must define under total semantics has been checked.
    rows = from_table(batch, names, "sql" if semantics == "total" else semantics, matcher.schema)
    aligned = details.aligned(matches.names)
    aligned = aligned if limited else replace(aligned, limit=NO_LIMIT)
    kept = aligned.pick(matches.offsets, matches.slots, details.times(rows))
    return Matches(*kept, matches.names)


def _counted(matcher: Sieve, batch: pa.RecordBatch, details: Details | None) -> I8:
    if details is None:
        return matcher.count_batch(batch)
    return _picked(matcher, batch, matcher.match_batch(batch), details).counts


def misfits(matcher: Sieve, batch: pa.RecordBatch) -> dict[int, str]:
    """The rows that the matcher cannot take, each with the reason."""
    names = [name for name in matcher.attributes if name in set(batch.schema.names)]
    rows, found = typed("the messages", batch, matcher.schema, names)
    if matcher.semantics == "total" and matcher.schema is not None:
        for i, missing in _missing(rows, list(matcher.schema)).items():
            found.setdefault(i, f"the message does not define {', '.join(missing)}")
    return found


def _missing(rows: pa.RecordBatch, names: list[str]) -> dict[int, list[str]]:
    missing: dict[int, list[str]] = {}
    for name in names:
        known = name in rows.schema.names
        absent = rows.column(name).is_null().to_numpy(False) if known else np.ones(len(rows), bool)
        for i in np.flatnonzero(absent).tolist():
            missing.setdefault(i, []).append(name)
    return missing
