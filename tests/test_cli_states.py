"""`tamis flow` with states: by hand, as text, and what a run keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tamis.cli import main
from tamis.flow import check, parse_flow
from tamis.flow.states.batches.state_store import StateFiles
from tamis.flow.states.batches.trigger import Trigger
from tamis.flow.states.sequences.collapsing import typed_events

EXAMPLES = Path(__file__).parents[1] / "examples" / "states"
GRYPHON = str(EXAMPLES / "gryphon.flow")


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(list(arguments)) == code
    told = capsys.readouterr()
    return told.out, told.err


def test_expand_by_hand(capsys) -> None:
    out, err = said(
        capsys, "flow", "expand", GRYPHON, "Quote", "--from", "[160, 140]", "--to", "[200, 120]",
        "--key", '{"issue": "IBM"}', "--steps",
    )  # fmt: skip
    assert [json.loads(line)["price"] for line in out.splitlines()] == [200, 120]
    assert err.splitlines() == [
        "0 + 1  [200, 120]",
        "1 + 1  [200, *]  before rule 2",
        "2 + 0  [*, *] | max < 200  before rule 1",
    ]


def test_expand_into_derived_events(capsys) -> None:
    goal = '{"bal": 5, "ov": [[10, 30]]}'
    out, _ = said(capsys, "flow", "expand", GRYPHON, "Account", "--to", goal, "--into", "Alerts")
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["B", "OD"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("Quotes", "--to", "[1, 1]"), "has no state Quotes: did you mean Quote?"),
        (("Quote", "--to", "[1"), "--to: not JSON"),
        (("Quote", "--to", "[1, 1, 1]"), "Quote has 2 components"),
        (("Quote", "--to", '{"may": 1}'), "Quote has no component may"),
        (("Quote", "--to", "[1, 1]", "--into", "Alerts"), "Quote is not expanded into Alerts"),
        (("Quote", "--from", "[9, 9]", "--to", "[1, 1]"), "no sequence of events leads"),
    ],
)
def test_what_cannot_be_expanded_is_told(capsys, arguments, told) -> None:
    _, err = said(capsys, "flow", "expand", GRYPHON, *arguments, code=2)
    assert told in err


@pytest.mark.parametrize("name", ["gryphon", "alarms"])
def test_the_examples_pass_their_own_tests(capsys, name) -> None:
    out, _ = said(capsys, "flow", "test", str(EXAMPLES / f"{name}.flow"))
    assert out.splitlines()[-1].endswith("tests, 0 failed")


def test_check_and_show_name_states(capsys) -> None:
    out, _ = said(capsys, "flow", "check", GRYPHON)
    assert "state Quote keyed by issue (max: double := 0.0, cur: double := 0.0)\n" in out
    assert "  expand -> QuietTicks: constrained\n" in out
    out, _ = said(capsys, "flow", "show", GRYPHON)
    assert "Quote by issue" in out


def test_states_of_a_run_as_a_table(capsys, tmp_path) -> None:
    summary = check(parse_flow(Path(GRYPHON).read_text())).states[1].summary
    rows = [{"issue": "A", "price": 2.5, "seq": 1}, {"issue": "B", "price": 1.0, "seq": 2}]
    files = StateFiles(str(tmp_path))
    files.open(summary, 1)
    Trigger(summary, files).run(0, 0, typed_events(summary, pa.Table.from_pylist(rows)))
    out, _ = said(capsys, "flow", "state", str(tmp_path), "--limit", "1")
    assert json.loads(out) == {"issue": "A", "max": 2.5, "cur": 2.5, "_last_seq": 1}
    out, _ = said(capsys, "flow", "state", str(tmp_path), "--format", "csv")
    assert out.splitlines() == ["issue,max,cur,_last_seq", "A,2.5,2.5,1", "B,1.0,1.0,2"]
    out, _ = said(capsys, "flow", "state", str(tmp_path), "--counts")
    assert json.loads(out) == {"keys": 2, "events": 2, "late": 0, "emitted": 0, "failed": 0}
    _, err = said(capsys, "flow", "state", str(tmp_path / "nowhere"), code=2)
    assert "no states were kept there" in err


def test_a_subscription_on_a_derived_space() -> None:
    """Messages that states derive are matched like any others."""
    from tamis import Matcher
    from tamis.flow import run

    graph = check(parse_flow((EXAMPLES / "alarms.flow").read_text()))
    matcher = Matcher(graph.schemas["Drops"])
    matcher.add("deep", "top - low > 50")
    matcher.add("ibm", "issue = 'IBM'")
    prices = (100, 130, 75)
    rows = [{"issue": "IBM", "day": "mon", "price": p, "seq": i} for i, p in enumerate(prices)]
    (drop,) = run(graph, {"Prices": rows}).spaces["Drops"]
    assert matcher.match(drop) == ["deep", "ibm"]
