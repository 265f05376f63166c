"""States on Spark: any split into micro-batches gives what plain Python gives."""

from __future__ import annotations

import json
import os
import random

import pytest

from flow.states.examples import ALERTS, QUOTE, collapsed
from tamis import Schema
from tamis.errors import StateError
from tamis.flow.states import Derived, DerivedEvent, States, Summary, collapse, expand
from tamis.flow.states.batches.state_store import StateFiles

ACCOUNTS = Summary.of(
    "Account",
    Schema.of(kind=str, account=int, amt=int, id=int),
    {"bal": (int, 0), "ov": [Schema.of(amt=int, id=int)]},
    [
        ("kind = 'D'", {"bal": "bal + amt"}),
        ("kind = 'W' AND bal >= amt", {"bal": "bal - amt"}),
        ("kind = 'W'", {"ov": ("amt", "id")}),
    ],
    key="account",
    order="id",
)
LEVELS = Derived.of(
    "Levels",
    QUOTE,
    [
        DerivedEvent.of("High", Schema.of(v=float), {"max": "v"}),
        DerivedEvent.of("Now", Schema.of(v=float), {"cur": "v"}),
    ],
)
TICKS = "issue string, price double, seq long"
TELLER = "kind string, account long, amt long, id long"


def ticks(count: int, seed: int = 1, first: int = 0) -> list[dict]:
    rng = random.Random(seed)
    return [
        {"issue": f"S{rng.randrange(7)}", "price": rng.randrange(1, 50) / 2, "seq": first + i}
        for i in range(count)
    ]


def tellers(count: int, seed: int = 1) -> list[dict]:
    rng = random.Random(seed)
    return [
        {
            "kind": rng.choice("DWX"),
            "account": rng.randrange(5),
            "amt": rng.randrange(1, 60),
            "id": i,
        }
        for i in range(count)
    ]


def split(rows: list[dict], parts: int, seed: int) -> list[list[dict]]:
    cuts = sorted(random.Random(seed).sample(range(1, len(rows)), parts - 1))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def as_frame(spark, rows, ddl):
    return spark.createDataFrame([tuple(r.values()) for r in rows], ddl)


def as_json(folder, batches):
    folder.mkdir()
    for i, rows in enumerate(batches):
        path = folder / f"{i:05d}.json"
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))  # Spark takes the oldest first
    return str(folder)


def run(spark, stream, source, ddl, tmp_path):
    reader = spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1)
    query = stream.start(reader.json(source), str(tmp_path / "checkpoint"), availableNow=True)
    assert query.awaitTermination(120)


def rows_of(folder, summary):
    table, counters = StateFiles(str(folder)).read(summary)
    return States.from_table(summary, table).rows, counters


def replayed(found, through, summary):
    """The states that derived events lead to, key by key, batch by batch."""
    states: dict[tuple, dict] = {}
    for row in found:
        key = tuple(row[n] for n in summary.key)
        (event,) = [e for e in through.events if e.name == row["event"]]
        rule = Summary(summary.name, event.columns, summary.components, (as_rule(event),))
        given = {n: row[n] for n in event.columns}
        states[key] = collapse(
            [given], rule, States(rule, {(): states.get(key, summary.initial)})
        ).only
    return states


def as_rule(event):
    from tamis.flow.states import Rule

    return Rule(event.where, event.changes)


@pytest.mark.parametrize("parts", [1, 4])
def test_streaming_equals_python_for_any_split(spark, tmp_path, parts) -> None:
    from tamis.spark.states import StateStream
    from tamis.spark.states.state_streams import emitted

    rows = ticks(300, seed=parts)
    source = as_json(tmp_path / "in", split(rows, parts, seed=parts))
    quiet, levels = str(tmp_path / "quiet"), str(tmp_path / "levels")
    stream = StateStream(
        QUOTE, str(tmp_path / "states"), ((quiet, None), (levels, LEVELS)), buckets=3
    )
    run(spark, stream, source, TICKS, tmp_path)
    states, counters = rows_of(tmp_path / "states", QUOTE)
    assert states == collapsed(QUOTE, rows)
    assert (counters.events, counters.late, counters.failed) == (300, 0, 0)
    few = [r.asDict() for r in emitted(spark, quiet).collect()]
    assert collapse([{n: r[n] for n in QUOTE.events} for r in few], QUOTE).rows == states
    assert len(few) <= 2 * 7 * parts
    for batch, part in enumerate(split(rows, parts, seed=parts)):
        own = [r for r in few if r["batch"] == batch]
        assert len(own) <= 2 * len({r["issue"] for r in part})
    derived = [r.asDict() for r in emitted(spark, levels).collect()]
    assert replayed(sorted(derived, key=lambda r: r["batch"]), LEVELS, QUOTE) == states


def test_lists_stream_as_well(spark, tmp_path) -> None:
    from tamis.spark.states import StateStream
    from tamis.spark.states.state_streams import emitted

    rows = tellers(120)
    source = as_json(tmp_path / "in", split(rows, 3, seed=3))
    alerts = str(tmp_path / "alerts")
    stream = StateStream(ACCOUNTS, str(tmp_path / "states"), ((alerts, ALERTS),), buckets=2)
    run(spark, stream, source, TELLER, tmp_path)
    states, _ = rows_of(tmp_path / "states", ACCOUNTS)
    assert states == collapsed(ACCOUNTS, rows)
    found = sorted((r.asDict() for r in emitted(spark, alerts).collect()), key=lambda r: r["batch"])
    assert replayed(found, ALERTS, ACCOUNTS) == states


def test_a_batch_that_is_done_again_changes_nothing(spark, tmp_path) -> None:
    from tamis.spark.states import StateStream
    from tamis.spark.states.state_streams import emitted

    quiet = str(tmp_path / "quiet")
    stream = StateStream(QUOTE, str(tmp_path / "states"), ((quiet, None),), buckets=2)
    first, second = ticks(80, 5), ticks(80, 6, first=80)
    stream(as_frame(spark, first, TICKS), 0)
    counted = [stream.fold(as_frame(spark, second, TICKS), 1) for _ in range(3)]
    assert counted[0] == counted[1] == counted[2]
    states, counters = rows_of(tmp_path / "states", QUOTE)
    assert states == collapsed(QUOTE, first + second)
    assert counters.events == 160
    few = [r.asDict() for r in emitted(spark, quiet).collect()]
    assert len(few) == counters.emitted
    assert collapse([{n: r[n] for n in QUOTE.events} for r in few], QUOTE).rows == states


def test_old_versions_go_and_late_events_are_counted(spark, tmp_path) -> None:
    from tamis.spark.states import StateStream

    stream = StateStream(QUOTE, str(tmp_path / "states"), buckets=1, kept=2)
    rows = ticks(60, 9)
    for batch in range(6):
        stream(as_frame(spark, rows[batch * 10 : batch * 10 + 10], TICKS), batch)
    assert StateFiles(str(tmp_path / "states")).versions(0) == [4, 5]
    told = stream.fold(as_frame(spark, rows[:10], TICKS), 6)
    assert told.late == sum(
        any(r["issue"] == old["issue"] and r["seq"] > old["seq"] for r in rows) for old in rows[:10]
    )


def test_a_state_gains_a_component(spark, tmp_path) -> None:
    from tamis.spark.states import StateStream, read_states

    folder = str(tmp_path / "states")
    first, second = ticks(40, 2), ticks(40, 3, first=40)
    StateStream(QUOTE, folder, buckets=2)(as_frame(spark, first, TICKS), 0)
    more = Summary.of(
        "Quote", QUOTE.events, {"max": (float, 0.0), "cur": (float, 0.0), "n": (int, 100)},
        [("price > max", {"max": "price", "cur": "price", "n": "n + 1"}),
         ("", {"cur": "price", "n": "n + 1"})],
        key="issue", order="seq",
    )  # fmt: skip
    StateStream(more, folder, buckets=5)(as_frame(spark, second, TICKS), 1)
    states, _ = rows_of(folder, more)
    both = collapsed(QUOTE, first + second)
    assert {k: (s["max"], s["cur"]) for k, s in states.items()} == {
        k: (s["max"], s["cur"]) for k, s in both.items()
    }
    for (issue,), state in states.items():
        assert state["n"] == 100 + sum(r["issue"] == issue for r in second)
    shown = read_states(spark, folder, more).collect()
    assert {r["issue"]: r["n"] for r in shown} == {k[0]: s["n"] for k, s in states.items()}


def test_states_of_another_key_are_refused(spark, tmp_path) -> None:
    from tamis.spark.states import StateStream

    folder = str(tmp_path / "states")
    StateStream(QUOTE, folder, buckets=1)(as_frame(spark, ticks(5), TICKS), 0)
    other = Summary.of("Quote", QUOTE.events, {"cur": (float, 0.0)}, [("", {"cur": "price"})],
                       key="seq", order="seq")  # fmt: skip
    with pytest.raises(StateError, match="use another folder"):
        StateStream(other, folder)(as_frame(spark, ticks(5), TICKS), 1)


SUMS = Summary.of(
    "Sums",
    QUOTE.events,
    {"low": (float, 20.0), "n": (int, 5), "big": (int, 2**62), "cur": float},
    [("low > price", {"low": "price", "n": "n + 1", "big": "big + seq", "cur": "price"}),
     ("", {"n": "n + 1", "big": "big + seq", "cur": "price"})],
    key="issue", order="seq",
)  # fmt: skip


def test_batch_equals_python_natively_and_folded(spark) -> None:
    """With undefined values, NaN, an overflow, and an undefined order."""
    from tamis.spark.states import collapse_frame

    odd = ticks(200)
    for i, (price, seq) in enumerate(((None, 500), (float("nan"), 501), (3.5, None), (0.0, 2**62))):
        odd[i] = odd[i] | {"price": price, "seq": seq}
    clean = [r | {"price": None if r["price"] != r["price"] else r["price"]} for r in odd]
    for summary in (QUOTE, SUMS):
        frame = as_frame(spark, odd, TICKS)
        expected = collapsed(summary, clean)
        for plan in ("native", "fold", "auto"):
            made = collapse_frame(frame, summary, plan=plan).toArrow()
            assert States.from_table(summary, made).rows == expected, plan
        plan = collapse_frame(frame, summary)._jdf.queryExecution().executedPlan().toString()
        assert "Arrow" not in plan.replace("ArrowScan", "")


def test_lists_are_folded_in_batches_too(spark) -> None:
    from tamis.spark.states import collapse_frame

    rows = tellers(80)
    made = collapse_frame(as_frame(spark, rows, TELLER), ACCOUNTS).toArrow()
    assert States.from_table(ACCOUNTS, made).rows == collapsed(ACCOUNTS, rows)
    with pytest.raises(StateError, match="needs the fold"):
        collapse_frame(as_frame(spark, rows, TELLER), ACCOUNTS, plan="native")


def test_expand_by_hand_is_what_the_stream_emits() -> None:
    assert expand(QUOTE.state(1, 1), QUOTE.state(3, 2), QUOTE, through=LEVELS) == [
        {"event": "High", "v": 3.0},
        {"event": "Now", "v": 2.0},
    ]
