"""`tamis flow` without Spark: what it prints, its exit codes, and its documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tamis.cli import app, main

ROOT = Path(__file__).parents[2]
STOCKS = str(ROOT / "examples" / "stocks" / "stocks.flow")


@pytest.fixture
def tamis(capsys):
    def run(*arguments):
        code = main(["flow", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def flow(tmp_path):
    def write(text, name="a.flow"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_check_prints_types(tamis):
    code, out, err = tamis("check", STOCKS)
    assert (code, err) == (0, "")
    assert "LargeTrades(com: string, cap: double)" in out


def test_check_tells_notices_and_strict_makes_them_errors(tamis, flow):
    file = flow("space A(x: int)\nA -> B : [x when x > 1] => [x] | [x when x > 2] => [x := 1]\n")
    code, _, err = tamis("check", file)
    assert code == 0
    assert "line 2, arc A -> B: rule 2" in err
    assert "rule 1 matches all that it could match" in err
    assert tamis("check", file, "--strict")[0] == 2


def test_a_bad_flow_is_told_with_its_place(tamis, flow):
    code, out, err = tamis("check", flow("space A(x: int)\nA -> B : select y > 1\n"))
    assert (code, out) == (2, "")
    assert err.startswith("line 2, arc A -> B: y is not in the space before; it has x\n")


def test_a_file_that_is_not_there_is_told(tamis):
    code, _, err = tamis("check", "gone.flow")
    assert (code, err) == (2, "gone.flow: No such file or directory\n")


@pytest.mark.parametrize("after", [(), ("--after", "all"), ("--after", "externalise")])
def test_show_draws_mermaid_and_svg(tamis, tmp_path, after):
    code, out, _ = tamis("show", STOCKS, *after)
    assert code == 0
    assert out.startswith("flowchart TD\n")
    target = tmp_path / "a.svg"
    assert tamis("show", STOCKS, *after, "--output", str(target))[0] == 0
    import xml.etree.ElementTree as ET

    assert ET.fromstring(target.read_text("utf-8")).tag.endswith("svg")


def test_show_draws_every_rule(tamis, tmp_path):
    assert tamis("show", STOCKS, "--steps", str(tmp_path / "steps"))[0] == 0
    assert len(list((tmp_path / "steps").glob("*.svg"))) == 10


def test_show_refuses_unknown_rules_and_endings(tamis):
    assert "there is no rule magic" in tamis("show", STOCKS, "--after", "magic")[2]
    assert "must end in .svg or .mmd" in tamis("show", STOCKS, "--output", "a.png")[2]


def test_rewrite_prints_paths_and_what_they_share(tamis):
    code, out, _ = tamis("rewrite", STOCKS, "--space", "LargeTrades")
    assert code == 0
    assert "NYSE: _shared1 := price * vol\n" in out
    assert "_p -> LargeTrades_s : select price > 0 AND _shared1 >= 1000000" in out
    code, out, _ = tamis("rewrite", STOCKS, "--rules")
    assert re.findall(r"^# (\w+)$", out, re.M)[:2] == ["externalise", "drop_unread"]


def test_lineage(tamis):
    code, out, _ = tamis("lineage", STOCKS, "LargeTrades")
    assert code == 0
    assert "cap\n  NYSE: price * vol, if price, vol let it pass" in out


def test_explain_tells_arc_by_arc(tamis):
    message = '{"issue": "IBM", "price": 3.0, "vol": 5}'
    ends = ("--source", "NYSE", "--space", "LargeTrades")
    code, out, _ = tamis("explain", STOCKS, *ends, "--message", message)
    assert code == 0
    assert "stops at select cap >= 1000000" in out
    assert out.endswith("=> 0 messages arrive in LargeTrades\n")
    code, out, _ = tamis("explain", STOCKS, *ends, "--message", message.replace("3.0", "3e6"))
    assert out.endswith("=> 1 message arrives in LargeTrades\n")
    code, out, _ = tamis("explain", STOCKS, *ends, "--message", message.replace("3.0", "-3"))
    assert "NYSE rejects it: it breaks the space's where" in out
    code, out, _ = tamis("explain", STOCKS)
    assert "LargeTrades_s" in out


def test_explain_in_a_diamond_counts_both_ways(tamis, flow):
    file = flow("space A(x: int)\nA -> B\nA -> C\nB -> D\nC -> D\n")
    _, out, _ = tamis("explain", file, "--source", "A", "--space", "D", "--message", '{"x": 1}')
    assert out.endswith("=> 2 messages arrive in D\n")


def test_tests_in_the_file_and_beside_it(tamis, flow):
    file = flow(
        "space A(x: int)\nA -> B : [x] => [x := x + 1]\ntest 'a'\n  given A (1)\n  expect B (2)\n"
    )
    code, out, _ = tamis("test", file)
    assert (code, out) == (0, "ok   a\n1 tests, 0 failed\n")
    flow("test 'b'\n  given A (1), (NULL)\n  expect B (3), (NULL)\n", "a.test.flow")
    code, out, _ = tamis("test", file)
    assert code == 2
    assert "FAIL b\n       B (3) is missing\n       B (2) is not expected\n" in out


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("test 'x'\n  given A (1, 2)\n  expect B nothing", "a row of A has 1 values, this one 2"),
        ("test 'x'\n  given A ('a')\n  expect B nothing", "x = 'a' is not of type int"),
        ("test 'x'\n  given Aa (1)\n  expect B nothing", "there is no space Aa"),
        ("test 'x'\n  with L 1 -> 2\n  given A (1)\n  expect B nothing", "there is no lookup L"),
    ],
)
def test_bad_tests_name_themselves(tamis, flow, test, message):
    code, _, err = tamis("test", flow(f"space A(x: int)\nA -> B\n{test}\n"))
    assert code == 2
    assert "test 'x': " in err
    assert message in err


@pytest.mark.parametrize("name", ["stocks/stocks", "flights-flow/flights"])
def test_the_examples_pass_their_own_tests(tamis, name):
    code, out, _ = tamis("test", str(ROOT / "examples" / f"{name}.flow"))
    assert code == 0, out
    assert tamis("check", str(ROOT / "examples" / f"{name}.flow"), "--strict")[0] == 0


def test_run_wants_sources(tamis):
    pytest.importorskip("pyspark")
    assert "give --from SPACE=PATH" in tamis("run", STOCKS)[2]


def test_every_option_is_documented():
    text = (ROOT / "docs" / "flows.md").read_text("utf-8")
    sections = dict(re.findall(r"^## `tamis flow (\w+)[^\n]*\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    flows = app["flow"]
    commands = [name for name in flows if not name.startswith("-")]
    assert sorted(sections) == sorted(commands)
    for command in commands:
        arguments = flows[command].assemble_argument_collection()
        names = {n for a in arguments for n in a.names if n.startswith("--")}
        options = {n for n in names if not n.startswith("--no-")}
        documented = set(re.findall(r"`(--[a-z-]+)", sections[command]))
        if command == "explain":  # it takes the ends of run as well
            documented |= set(re.findall(r"`(--[a-z-]+)", sections["run"])) & options
        assert options <= documented, command
        assert documented - {"--no-counts", "--output-mode"} <= options, command


def test_the_python_in_the_documentation_is_true():
    text = (ROOT / "docs" / "flows.md").read_text("utf-8")
    code = re.search(r"^## In Python\n+```python\n(.*?)^```", text, re.M | re.S)[1]
    names = {}
    exec("\n".join(line for line in code.splitlines() if "stocks.flow" not in line), names)
    assert names["result"].spaces["Large"] == [{"com": "Int", "cap": 1200000.0}]
