"""States: one state for each key, as a mapping and as an Arrow table.

Beside its components a key remembers the order of its last event (`_last_seq`): late events are
counted by it, and generated ones count on from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tamis.errors import StateError
from tamis.flow.states.definitions.summary import Summary
from tamis.messages.typed_tables import arrow_type
from tamis.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

LAST = "_last_"
Key = tuple[object, ...]
State = dict[str, object]


class States(Mapping[Any, State]):
    """The states of a summary by key; a single key attribute may stand without its tuple.

    `late` is how many of the events that were collapsed last came after a later one of their key
    had been collapsed before.
    """

    def __init__(
        self,
        summary: Summary,
        rows: dict[Key, State] | None = None,
        table: pa.Table | None = None,
        *,
        last: dict[Key, Key] | None = None,
        late: int = 0,
    ) -> None:
        self.summary, self.late = summary, late
        self._rows = {} if rows is None and table is None else rows
        self._last = last or {}
        self._table = table

    # --- by key ----------------------------------------------------------------

    def __getitem__(self, key: object) -> State:
        return self.rows[self._key(key)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self._rows) if self._rows is not None else self.to_table().num_rows

    def __repr__(self) -> str:
        return f"States({self.summary.name}, {len(self):,} keys)"

    def at(self, key: object) -> State:
        """The state of a key, the initial one where no event had it."""
        return self.rows.get(self._key(key), self.summary.initial)

    def last(self, key: object) -> dict[str, object]:
        """The order of the key's last event; empty where there was none."""
        _ = self.rows
        found = zip(self.summary.order, self._last.get(self._key(key), ()), strict=False)
        return {name: value for name, value in found if value is not None}

    @property
    def only(self) -> State:
        """The state of a summary without a key."""
        return self.at(())

    @property
    def rows(self) -> dict[Key, State]:
        if self._rows is None:
            self._rows, self._last = _from_table(self.summary, self._table)
        return self._rows

    def _key(self, key: object) -> Key:
        return key if isinstance(key, tuple) else (key,)

    # --- as a table --------------------------------------------------------------

    def to_table(self) -> pa.Table:
        """One row for each key: key, components, and the order of the last event."""
        if self._table is None:
            self._table = _to_table(self.summary, self._rows or {}, self._last)
        return self._table

    @classmethod
    def from_table(cls, summary: Summary, table: pa.Table) -> States:
        """The states of `to_table`; components that it lacks have their initial values."""
        import pyarrow as pa

        schema = arrow_schema(summary)
        for name in summary.key:
            if name not in table.column_names:
                raise StateError(f"the table of {summary.name} has no column {name}")
        columns = []
        for column in schema:
            if column.name in table.column_names:
                columns.append(table[column.name].cast(column.type))
            else:
                first = summary.initial.get(column.name)
                first = [] if column.name in summary.lists else first
                columns.append(pa.chunked_array([pa.array([first] * len(table), column.type)]))
        return cls(summary, table=pa.table(columns, schema=schema))


def arrow_schema(summary: Summary) -> pa.Schema:
    """The columns of a table of states."""
    import pyarrow as pa

    columns = [(n, arrow_type(summary.events[n].type)) for n in summary.key]
    columns += [
        (n, pa.list_(_struct(summary.lists[n])) if n in summary.lists
         else arrow_type(summary.scalars[n].type))
        for n in summary.initial
    ]  # fmt: skip
    columns += [(LAST + n, arrow_type(summary.events[n].type)) for n in summary.order]
    return pa.schema(columns)


def _struct(fields: Schema) -> pa.DataType:
    import pyarrow as pa

    return pa.struct([(f.name, arrow_type(f.type)) for f in fields.attributes])


def _to_table(summary: Summary, rows: dict[Key, State], last: dict[Key, Key]) -> pa.Table:
    import pyarrow as pa

    schema = arrow_schema(summary)
    none = (None,) * len(summary.order)
    columns: list[list[object]] = [[key[i] for key in rows] for i in range(len(summary.key))]
    columns += [_column(summary, name, rows) for name in summary.initial]
    columns += [[last.get(key, none)[i] for key in rows] for i in range(len(summary.order))]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _column(summary: Summary, name: str, rows: dict[Key, State]) -> list[object]:
    fields = summary.lists.get(name)
    if fields is None:
        return [state[name] for state in rows.values()]
    names = list(fields)
    return [[dict(zip(names, entry, strict=True)) for entry in state[name]]  # type: ignore[attr-defined]
            for state in rows.values()]  # fmt: skip


def _from_table(summary: Summary, table: pa.Table) -> tuple[dict[Key, State], dict[Key, Key]]:
    keys = _tuples(table, summary.key)
    parts = {n: table[n].to_pylist() for n in summary.initial}
    for name in summary.lists:
        parts[name] = [tuple(tuple(e.values()) for e in entries) for entries in parts[name]]
    rows = {key: {n: parts[n][i] for n in parts} for i, key in enumerate(keys)}
    last = dict(zip(keys, _tuples(table, [LAST + n for n in summary.order]), strict=True))
    return rows, last


def _tuples(table: pa.Table, names: Any) -> list[Key]:
    if not names:
        return [()] * len(table)
    return list(zip(*(table[n].to_pylist() for n in names), strict=True))
