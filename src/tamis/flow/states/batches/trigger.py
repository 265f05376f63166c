"""One micro-batch of one bucket: states before, events in, states after and events out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tamis.flow.states.batches.catching_up import catch_up_table
from tamis.flow.states.batches.event_tables import starts_of, touched_rows
from tamis.flow.states.batches.expansions import expand_tables
from tamis.flow.states.batches.state_store import Counters, StateFiles, write_events
from tamis.flow.states.definitions.derived import Derived
from tamis.flow.states.definitions.keyed import States, arrow_schema
from tamis.flow.states.definitions.stepping import DEFAULT, Limits
from tamis.flow.states.definitions.summary import Summary
from tamis.flow.states.expansion.search import BUDGET
from tamis.flow.states.sequences.collapsing import collapse_table


@dataclass(frozen=True)
class Output:
    """Events that a trigger makes: `through` None are the shortest of the state's own events.

    They are written to `folder/batch=N/bucket-B.parquet`. `summary` is the part of the state that
    derived events tell of, where that is not all of it.
    """

    folder: str
    through: Derived | None
    summary: Summary | None = None


@dataclass(frozen=True)
class Trigger:
    """What every bucket does with its events."""

    summary: Summary
    files: StateFiles
    outputs: tuple[Output, ...] = ()
    limits: Limits = DEFAULT
    budget: int = BUDGET

    def run(self, bucket: int, batch: int, events: pa.Table) -> Counters:
        """Fold, keep the version, and write what is emitted; the counts of this batch alone."""
        held, counted = self.files.before(bucket, batch)
        states = States.from_table(self.summary, held) if held is not None else States(self.summary)
        after = collapse_table(events, self.summary, states, self.limits)
        emitted = failed = 0
        for number, output in enumerate(self.outputs):
            if output.through is None:
                made, bad = catch_up_table(states, events, self.summary, self.budget), _NONE
            else:
                owed = StateFiles(f"{self.files.folder}/owed-{number}", self.files.kept)
                debts = _Debts(output.summary or self.summary, owed, bucket, batch)
                made, bad = self._derived(output, debts, states, after, events)
            emitted, failed = emitted + made.num_rows, failed + bad.num_rows
            _keep(Path(output.folder) / f"batch={batch}", bucket, made, bad)
        mine = Counters(events.num_rows, after.late, emitted, failed)
        self.files.write(bucket, batch, after.to_table(), counted.plus(mine))
        return mine

    def _derived(
        self, output: Output, debts: _Debts, before: States, after: States, events: pa.Table
    ) -> tuple[pa.Table, pa.Table]:
        """The events, and the keys that no sequence leads to, each with the reason."""
        part = output.summary or self.summary
        rows = pa.array(touched_rows(self.summary, after.to_table(), events))
        start = starts_of(self.summary, before.to_table(), after.to_table())
        names = arrow_schema(part).names
        old, new = (t.select(names).take(rows) for t in (start, after.to_table()))
        old = debts.instead_of(old)
        made, failed = expand_tables(old, new, part, output.through, self.budget)
        debts.settle(old, [place for place, _ in failed])
        keys = [str([new[n][i].as_py() for n in part.key]) for i, _ in failed]
        reasons = pa.array([reason for _, reason in failed], pa.string())
        return made, pa.table({"key": pa.array(keys, pa.string()), "reason": reasons})


@dataclass
class _Debts:
    """Keys whose last state could not be told: the next sequence starts where the last ended."""

    summary: Summary
    files: StateFiles
    bucket: int
    batch: int
    held: dict[tuple[object, ...], dict[str, object]] = field(default_factory=dict)

    def instead_of(self, old: pa.Table) -> pa.Table:
        """The states as they were last told."""
        table, _ = self.files.before(self.bucket, self.batch)
        self.held = {} if table is None else self._by_key(table)
        if not self.held:
            return old
        rows = [self.held.get(self._key(row), row) for row in old.to_pylist()]
        return pa.Table.from_pylist(rows, old.schema)

    def settle(self, old: pa.Table, failed: list[int]) -> None:
        """Forget what has been told now, and remember what could not be."""
        told = {self._key(row) for row in old.to_pylist()} if self.held else set()
        left = {key: row for key, row in self.held.items() if key not in told}
        left |= self._by_key(old.take(pa.array(failed, pa.int64())))
        if left or self.held:
            table = pa.Table.from_pylist(list(left.values()), old.schema)
            self.files.write(self.bucket, self.batch, table, Counters())

    def _by_key(self, table: pa.Table) -> dict[tuple[object, ...], dict[str, object]]:
        return {self._key(row): row for row in table.to_pylist()}

    def _key(self, row: dict[str, object]) -> tuple[object, ...]:
        return tuple(row[name] for name in self.summary.key)


_NONE = pa.table({"key": pa.array([], pa.string()), "reason": pa.array([], pa.string())})


def _keep(place: Path, bucket: int, made: pa.Table, bad: pa.Table) -> None:
    """One file for the events of the bucket. Spark reads none that begins with an underscore."""
    for name, table in ((f"bucket-{bucket:05d}", made), (f"_failed-{bucket:05d}", bad)):
        path = place / f"{name}.parquet"
        if table.num_rows:
            write_events(path, table)
        else:
            path.unlink(missing_ok=True)
