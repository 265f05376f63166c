"""What a match carries: columns beside the selector, an order, a limit, and times of validity."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.engine.ground.kernel_output import sort_rows
from tamis.engine.ground.layout import I4, I8
from tamis.engine.ground.picking import ALWAYS, FOREVER, UNKNOWN, pick
from tamis.engine.values.message_batch import Messages
from tamis.engine.values.typed_columns import Column
from tamis.errors import InputError
from tamis.messages.tabular import SupportsArrow, arrow_of, as_mapping
from tamis.messages.value_columns import fit
from tamis.schema import Type

if TYPE_CHECKING:
    import pyarrow as pa

NOW = "now()"  # what `valid_at` says for the clock
NO_LIMIT = 2**31 - 1
_NO_RANKS = np.empty(0, np.int32)
_NO_TIMES = np.empty(0, np.int64)


class Details:
    """Columns of a table of subscriptions, and what of them a match should carry.

    `carry` names the columns that come along with an id. `order_by` names those that say which
    matches come first ("priority", "priority DESC"): NULL and NaN last, and what is equal in the
    order of adding. `limit` keeps the first so many of each message, `first` the first one.

    `valid_at` names an attribute with a time, or is "now()" for the clock: then a subscription
    matches only from its `valid_from` on and before its `valid_to`. NULL is no bound. A message
    without a time matches only what has no bounds.
    """

    def __init__(
        self,
        rows: SupportsArrow | Iterable[Mapping[str, object]],
        *,
        carry: Sequence[str] = (),
        order_by: str | Sequence[str] = (),
        limit: int | None = None,
        first: bool = False,
        valid_at: str | None = None,
    ) -> None:
        self.carry = _names("carry", carry)
        order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
        table = _table(rows, {"id", *self.carry, *_ordering(order), "valid_from", "valid_to"})
        self.first, self.valid_at = first, valid_at
        self.limit = _limit(limit, first)
        self.ids = _column(table, "id")
        self.carried = {name: _column(table, name) for name in self.carry}
        self.rank = _ranked(table, order) if order else None
        self.bounds = None if valid_at is None else _bounds(table)
        self._aligned: Aligned | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_aligned": None}

    def aligned(self, names: pa.Array) -> Aligned:
        """The same by slot; `names` are the ids of all slots."""
        known = self._aligned
        if known is None or known.ids is not names:
            known = self._aligned = _align(self, names)
        return known

    def times(self, messages: Messages) -> I8:
        """The time of each message; empty where nobody asks."""
        if self.valid_at is None:
            return _NO_TIMES
        if self.valid_at == NOW and not messages.has(NOW):
            return np.full(len(messages), time.time_ns() // 1000, np.int64)
        column = messages.attribute(self.valid_at)
        if isinstance(column, Column) and column.type is Type.TIMESTAMP:
            return np.where(column.valid, column.data, UNKNOWN)
        if isinstance(column, Column) and not column.valid.any():
            return np.full(len(messages), UNKNOWN, np.int64)
        raise InputError(f"valid_at: the attribute {self.valid_at} is not a timestamp")


@dataclass(frozen=True, slots=True)
class Aligned:
    """Details by slot of a matcher: `names` are its ids, with what is carried beside them."""

    ids: pa.Array
    names: pa.Array
    rank: I4
    by_rank: I4
    bounds: tuple[I8, I8]
    limit: int

    def pick(self, offsets: I8, slots: I4, times: I8) -> tuple[I8, I4]:
        """Of matches those that are valid, the first ones, in order."""
        room = len(slots)
        if self.limit < room:
            room = int(np.minimum(np.diff(offsets), self.limit).sum())
        kept, out = np.empty(len(offsets), np.int64), np.empty(room, np.int32)
        valid = times, *self.bounds
        out = out[: pick(offsets, slots, self.rank, valid, self.limit, kept, out)]
        if not len(self.rank):
            return kept, out
        return kept, self.by_rank[sort_rows(kept, out)]


def _align(details: Details, names: pa.Array) -> Aligned:
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = details.ids
    same = ids.type == names.type
    texts = names if same else names.cast(pa.string())
    found = pc.index_in(texts, value_set=ids if same else ids.cast(pa.string()))
    rows = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
    carried = names
    if details.carry:
        columns = [names, *(c.take(found) for c in details.carried.values())]
        carried = pa.StructArray.from_arrays(columns, ["id", *details.carried])
    rank, by_rank = _NO_RANKS, _NO_RANKS
    if details.rank is not None:
        last = len(details.rank)
        place = np.append(details.rank, last)[rows]  # -1: unknown ones come last
        by_rank = np.argsort(place, kind="stable").astype(np.int32)
        rank = np.empty(len(by_rank), np.int32)
        rank[by_rank] = np.arange(len(by_rank), dtype=np.int32)
    bounds = _NO_TIMES, _NO_TIMES
    if details.bounds is not None:
        since, until = details.bounds
        bounds = np.append(since, ALWAYS)[rows], np.append(until, FOREVER)[rows]
    return Aligned(names, carried, rank, by_rank, bounds, details.limit)


# --- reading the table ----------------------------------------------------------


def _ordering(order: Sequence[str]) -> list[str]:
    """Columns that `order_by` may name: with a direction after them, or without."""
    return [name for said in order for name in (said, said.rpartition(" ")[0].strip())]


def _table(rows: Any, wanted: set[str]) -> pa.Table:
    """The rows as a table. Columns that are not wanted may hold anything."""
    import pyarrow as pa

    table = arrow_of(rows, lambda: wanted)
    if table is None:
        if isinstance(rows, Mapping | str | bytes) or not isinstance(rows, Iterable):
            raise InputError("details are a table with id and more columns, or a list of mappings")
        given = [row if isinstance(row, Mapping) else as_mapping(row) for row in rows]
        names = dict.fromkeys(name for row in given for name in row)
        columns = {n: [row.get(n) if n in wanted else None for row in given] for n in names}
        try:
            table = pa.table({name: pa.array(values) for name, values in columns.items()})
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise InputError(f"the details make no table: {error}") from None
    return table if isinstance(table, pa.Table) else pa.Table.from_batches([table])


def _column(table: pa.Table, name: str) -> pa.Array:
    import pyarrow as pa

    if table.schema.names.count(name) != 1:
        has = ", ".join(table.schema.names) or "none"
        raise InputError(f"the subscriptions have no column {name}; they have {has}")
    column = table.column(name)
    column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if name != "id":
        return column
    whole = pa.types.is_integer(column.type)
    text = column.type in (pa.string(), pa.large_string(), pa.string_view(), pa.null())
    if not whole and not text:
        raise InputError(f"the subscriptions' column id cannot be of type {column.type}")
    return column.cast(pa.int64() if whole else pa.string())


def _ranked(table: pa.Table, order: Sequence[str]) -> I8:
    """The place of each row in the order; those that are equal share none: the first is first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys, columns = [], []
    for number, said in enumerate(order):
        name, direction = _direction(table, said)
        column = _column(table, name)
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        columns.append(column)
        keys.append((str(number), direction))
    try:
        named = pa.table(columns, [str(number) for number in range(len(columns))])
        # Arrow's sort keeps the order of what is equal; the row's number says so by itself.
        named = named.append_column("row", pa.array(np.arange(len(table))))
        by_rank = pc.sort_indices(named, sort_keys=[*keys, ("row", "ascending")]).to_numpy()
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"order_by: {', '.join(order)} cannot be ordered: {error}") from None
    rank = np.empty(len(by_rank), np.int64)
    rank[by_rank] = np.arange(len(by_rank))
    return rank


def _direction(table: pa.Table, said: str) -> tuple[str, str]:
    """`priority`, `priority ASC` or `priority DESC`; a column of exactly that name wins."""
    name, _, word = said.rpartition(" ")
    if said in table.schema.names or word.upper() not in ("ASC", "DESC"):
        return said, "ascending"
    return name.strip(), "descending" if word.upper() == "DESC" else "ascending"


def _bounds(table: pa.Table) -> tuple[I8, I8]:
    if not {"valid_from", "valid_to"} & set(table.schema.names):
        raise InputError("valid_at: the subscriptions have neither valid_from nor valid_to")
    return _moments(table, "valid_from", ALWAYS), _moments(table, "valid_to", FOREVER)


def _moments(table: pa.Table, name: str, none: int) -> I8:
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in table.schema.names:
        return np.full(len(table), none, np.int64)
    column, misfits = _column(table, name), dict[int, str]()
    if pa.types.is_string(column.type):  # as JSON and CSV have them
        column = _read(name, column)
    found = fit(name, column, Type.TIMESTAMP, misfits)
    if misfits:
        raise InputError(f"the subscriptions: {next(iter(misfits.values()))}")
    moments = found.cast(pa.int64())
    return pc.fill_null(moments, none).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _read(name: str, column: pa.Array) -> pa.Array:
    import pyarrow as pa

    for zone in (None, "UTC"):  # without a zone it is UTC, as in selectors
        try:
            return column.cast(pa.timestamp("us", zone))
        except pa.ArrowException as error:
            reason = str(error)
    raise InputError(f"the subscriptions' column {name}: {reason}")


def _names(option: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InputError(f"{option} is a list of columns: [{given!r}]")
    names = tuple(given)
    if len(set(names)) != len(names) or "id" in names:
        raise InputError(f"{option} names each column once, and not id, which is there anyway")
    return names


def _limit(limit: int | None, first: bool) -> int:
    if first and limit not in (None, 1):
        raise InputError("first and limit contradict each other: give one of them")
    if limit is None:
        return 1 if first else NO_LIMIT
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit < 2**31:
        raise InputError(f"limit is a number of matches from 1 on, not {limit!r}")
    return limit
