"""`tamis flow run` of a flow with states: a batch, and a stream that goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flow.states.examples import QUOTE, collapsed
from spark.states.test_streaming import as_json, ticks
from tamis.cli import main
from tamis.flow import check, parse_flow, run

STATES = Path(__file__).parents[3] / "examples" / "states"
GRYPHON, ALARMS = str(STATES / "gryphon.flow"), str(STATES / "alarms.flow")


def rows_in(folder: Path) -> list[dict]:
    found = []
    for path in sorted(folder.rglob("*.json")):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    return found


def test_a_batch_with_a_folder_for_states(spark, tmp_path, capsys) -> None:
    rows = ticks(60)
    as_json(tmp_path / "in", [rows])
    code = main(
        ["flow", "run", GRYPHON, "--from", f"Ticks={tmp_path}/in", "--from-format", "Ticks=json",
         "--to", f"QuietTicks={tmp_path}/quiet", "--to-format", "QuietTicks=json",
         "--states", f"{tmp_path}/kept"]
    )  # fmt: skip
    told = capsys.readouterr()
    assert code == 0, told.err
    assert "Quote: events" in told.out
    sent = rows_in(tmp_path / "quiet")
    assert collapsed(QUOTE, sent) == collapsed(QUOTE, rows)
    assert len(sent) <= 14
    assert main(["flow", "state", f"{tmp_path}/kept/states/Quote"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(r["issue"],): {"max": r["max"], "cur": r["cur"]} for r in shown} == collapsed(
        QUOTE, rows
    )


def test_a_stream_that_is_started_again(spark, tmp_path, capsys) -> None:
    rows = ticks(90)
    as_json(tmp_path / "in", [rows[:30], rows[30:60]])
    command = [
        "flow", "run", GRYPHON, "--stream", "--from", f"Ticks={tmp_path}/in",
        "--from-format", "Ticks=json", "--to", f"QuietTicks={tmp_path}/quiet",
        "--to-format", "QuietTicks=json", "--checkpoint", f"{tmp_path}/checkpoint",
        "--errors", f"{tmp_path}/bad",
    ]  # fmt: skip
    assert main(command) == 0, capsys.readouterr().err
    more = tmp_path / "in" / "more.json"
    more.write_text("".join(json.dumps(r) + "\n" for r in [*rows[60:], {"price": -1, "seq": 99}]))
    assert main(command) == 0, capsys.readouterr().err
    sent = rows_in(tmp_path / "quiet")
    assert collapsed(QUOTE, sent) == collapsed(QUOTE, rows)
    capsys.readouterr()
    assert main(["flow", "state", f"{tmp_path}/checkpoint/tamis/states/Quote", "--counts"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["events"], counts["keys"]) == (90, 7)
    bad = [r for r in spark.read.parquet(f"{tmp_path}/bad").collect() if r["space"] == "Ticks"]
    assert len(bad) == 1


PRICES = [
    {"issue": issue, "day": f"2026-03-0{day}", "price": price, "seq": seq}
    for seq, (issue, day, price) in enumerate(
        [("IBM", 2, 100.0), ("HP", 2, 90.0), ("IBM", 2, 75.0), ("IBM", 3, 130.0), ("IBM", 3, 60.0),
         ("HP", 2, -1.0), ("HP", 3, 95.0), ("HP", 3, 70.0)]
    )
]  # fmt: skip


def counted(text: str) -> dict[str, int]:
    """The lines of names and numbers that a run prints."""
    lines = [line.rpartition(" ") for line in text.splitlines() if line]
    return {name.strip(): int(n) for name, _, n in lines if n.isdigit()}


@pytest.mark.parametrize("streaming", [False, True])
def test_spaces_and_arcs_of_a_flow_with_states_are_counted(
    spark, tmp_path, capsys, streaming
) -> None:
    as_json(tmp_path / "in", [PRICES[:4], PRICES[4:]])
    more = ["--stream", "--checkpoint", f"{tmp_path}/checkpoint"] if streaming else []
    code = main(
        ["flow", "run", ALARMS, "--from", f"Prices={tmp_path}/in", "--from-format", "Prices=json",
         "--to", f"Crashes={tmp_path}/out", "--to-format", "Crashes=json",
         "--report", f"{tmp_path}/report.html", *more]
    )  # fmt: skip
    told = capsys.readouterr()
    assert code == 0, told.err
    found = counted(told.out)
    expected = run(check(parse_flow(Path(ALARMS).read_text())), {"Prices": PRICES})
    for space in ("Prices", "Drops", "Crashes", "DailyAverages", "Failed"):
        assert found[space] == len(expected.spaces[space]), space
    assert found["Drops -> Crashes"] == expected.arcs[1] == 1
    assert (found["messages"], found["rejected"]) == (len(PRICES), 1)
    assert found["Fall: emitted"] == len(expected.spaces["Drops"]) == 3
    page = (tmp_path / "report.html").read_text()
    assert "Messages of each space" in page
    assert "Fall: emitted" in page


def test_subscriptions_on_a_derived_event_space(spark, tmp_path, capsys) -> None:
    days = [("IBM", 100.0), ("HP", 90.0), ("IBM", 130.0), ("IBM", 75.0), ("HP", 60.0), ("HP", 50.0)]
    rows = [
        {"issue": issue, "day": "2026-03-02", "price": price, "seq": i}
        for i, (issue, price) in enumerate(days)
    ]
    as_json(tmp_path / "in", [rows])
    asked = tmp_path / "asked.csv"
    asked.write_text("id,selector\ndeep,top - low > 50\nhp,issue = 'HP'\nnone,top < low\n")
    code = main(
        ["flow", "run", ALARMS, "--from", f"Prices={tmp_path}/in", "--from-format", "Prices=json",
         "--to", f"Drops={tmp_path}/drops", "--to-format", "Drops=json",
         "--subscriptions", f"Drops={asked}", "--result", "deliveries"]
    )  # fmt: skip
    assert code == 0, capsys.readouterr().err
    found = sorted((r["subscription"], r["issue"], r["low"]) for r in rows_in(tmp_path / "drops"))
    assert found == [("deep", "IBM", 75.0), ("hp", "HP", 60.0)]
