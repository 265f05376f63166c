"""Micro-batches on disk: versions, replays, and what could not be told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flow.states.examples import ACCOUNT, ALERTS, QUOTE, collapsed
from tamis import Schema
from tamis.errors import StateError
from tamis.flow.states import Derived, DerivedEvent, States, Summary
from tamis.flow.states.batches.state_store import Counters, StateFiles
from tamis.flow.states.batches.trigger import Output, Trigger
from tamis.flow.states.sequences.collapsing import typed_events

METER = Summary.of(
    "Meter", Schema.of(k=str, t=float, n=int), {"t": (float, 0.0)}, [("", {"t": "event.t"})],
    key="k", order="n",
)  # fmt: skip
STEPS = Derived.of(
    "Steps",
    METER,
    [
        DerivedEvent.of("Up", Schema.of(v=float), {"t": "v"}, where="v > t AND v <= 10"),
        DerivedEvent.of("Down", Schema.of(v=float), {"t": "v"}, where="v < t"),
    ],
)


def events(summary: Summary, rows: list[dict]) -> pa.Table:
    return typed_events(summary, pa.Table.from_pylist(rows))


def told(folder: Path, batch: int) -> list[dict]:
    path = folder / f"batch={batch}" / "bucket-00000.parquet"
    return pq.ParquetFile(path).read().to_pylist() if path.exists() else []


def test_a_state_that_cannot_be_told_is_told_later(tmp_path: Path) -> None:
    """Up reaches at most 10: what lies above is owed until a reachable state comes."""
    out = tmp_path / "out"
    trigger = Trigger(METER, StateFiles(str(tmp_path / "s")), (Output(str(out), STEPS),))
    seen = []
    for batch, value in enumerate((4.0, 50.0, 60.0, 2.0)):
        rows = [{"k": "a", "t": value, "n": batch}]
        for _ in range(2):  # every batch is done twice
            counted = trigger.run(0, batch, events(METER, rows))
        seen.append(
            (counted.emitted, counted.failed, [(e["event"], e["v"]) for e in told(out, batch)])
        )
    assert seen == [(1, 0, [("Up", 4.0)]), (0, 1, []), (0, 1, []), (1, 0, [("Down", 2.0)])]
    failures = pq.ParquetFile(out / "batch=1" / "_failed-00000.parquet").read().to_pylist()
    assert failures[0]["key"] == "['a']"
    assert "no sequence of events leads from <t: 4.0> to <t: 50.0>" in failures[0]["reason"]


def test_lists_and_scalars_over_batches(tmp_path: Path) -> None:
    keyed = Summary(ACCOUNT.name, ACCOUNT.events, ACCOUNT.components, ACCOUNT.rules, order=("id",))
    out = tmp_path / "out"
    trigger = Trigger(keyed, StateFiles(str(tmp_path / "s")), (Output(str(out), ALERTS),))
    rows = [{"kind": k, "amt": a, "id": i} for i, (k, a) in
            enumerate((("D", 10), ("D", 20), ("W", 25), ("W", 10)))]  # fmt: skip
    for batch, row in enumerate(rows):
        trigger.run(0, batch, events(keyed, [row]))
    shown = [
        [{n: v for n, v in e.items() if v is not None} for e in told(out, b)] for b in range(4)
    ]
    assert shown == [
        [{"event": "B", "bal": 10}],
        [{"event": "B", "bal": 30}],
        [{"event": "B", "bal": 5}],
        [{"event": "OD", "amt": 10, "id": 3}],
    ]
    table, counters = StateFiles(str(tmp_path / "s")).read(keyed)
    assert States.from_table(keyed, table).rows == collapsed(keyed, rows)
    assert counters == Counters(4, 0, 4, 0)


def test_a_version_that_is_not_whole_is_told(tmp_path: Path) -> None:
    files = StateFiles(str(tmp_path))
    Trigger(QUOTE, files).run(0, 0, events(QUOTE, [{"issue": "A", "price": 1.0, "seq": 1}]))
    path = tmp_path / "bucket-00000" / "000000000000.arrow"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StateError, match="cannot be read"):
        files.before(0, 1)
    with pytest.raises(StateError, match="no states were kept there"):
        StateFiles(str(tmp_path / "nowhere")).meta()
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(StateError, match="is not whole"):
        files.open(QUOTE, 1)


def test_an_empty_folder_is_an_empty_state(tmp_path: Path) -> None:
    table, counters = StateFiles(str(tmp_path)).read(QUOTE)
    assert (table.num_rows, counters.events) == (0, 0)
    assert table.column_names == ["issue", "max", "cur", "_last_seq"]
