"""`tamis run`: whole jobs, each compared with the matcher in this process."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as spark_types

from tamis import Matcher
from tamis.cli import main
from tamis.cli.jobs.run_summary import _part, _progress_text, chart, job_progress
from tamis.spark import Subscriptions
from tamis.spark.jobs.column_types import csv_types
from tamis.spark.jobs.failures import reason
from tamis.spark.jobs.job import Job, Sink, Source, format_of
from tamis.spark.jobs.job_running import Progress, Totals, _summed
from tamis.spark.jobs.opening import _no_interrupt, _without_chatter
from tamis.spark.workers.tally import Part, Tasks

ROOT = Path(__file__).parents[2]
FLIGHTS = ROOT / "examples" / "flights"
RULES = {"cheap": "price < 10", "ibm": "company = 'IBM'", "none": "price < 0"}
ROWS = {"company": ["IBM", "Dell", None, "IBM"], "price": [12.5, 3.0, 1.0, None]}
EXPECTED = [["ibm"], ["cheap"], ["cheap"], ["ibm"]]


@pytest.fixture
def files(spark, tmp_path, monkeypatch):
    """m.parquet and s.jsonl in the working directory; `spark` is the session that runs use."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(ROWS), "m.parquet")
    rules = [{"id": id, "selector": text, "subscriber": id[0]} for id, text in RULES.items()]
    write_lines("s.jsonl", rules)
    return tmp_path


def write_lines(path, rows):
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run(capfd):
    """Runs a job; gives its exit code, the figures of its summary, and its complaints."""

    def call(*arguments, messages="@m.parquet", subscriptions="@s.jsonl", output="@o"):
        ends = ["--messages", messages, "--subscriptions", subscriptions, "--output", output]
        # Java does not know of a change of the working directory, so paths for it are made whole.
        whole = [re.sub("^@", f"{Path.cwd()}/", text) for text in [*ends, *arguments]]
        code = main(["run", *whole])
        out, err = capfd.readouterr()
        return code, dict(re.findall(r"^([a-z][a-z/ -]*?)  +([\d,.]+)$", out, re.M)), err

    return call


def written(path="o"):
    return pq.read_table(path).to_pylist()


def figures(found):
    return [
        found[name] for name in ("rows", "matched rows", "matches", "bad selectors", "bad rows")
    ]


# --- what comes out --------------------------------------------------------------


def test_match_adds_the_ids_and_the_summary_counts_them(files, run):
    code, found, err = run()
    assert (code, err) == (0, "")
    assert [row["subscriptions"] for row in written()] == EXPECTED
    assert figures(found) == ["4", "4", "4", "0", "0"]
    assert found["subscriptions"] == "3"


def test_the_other_results(files, run):
    assert run("--result", "counts", "--column", "n")[1]["matches"] == "4"
    assert [row["n"] for row in written()] == [1, 1, 1, 1]
    write_lines("s.jsonl", [{"id": "ibm", "selector": "company = 'IBM'", "subscriber": "i"}])
    _, found, _ = run("--result", "semi", "--output-mode", "overwrite")
    assert [row["price"] for row in written()] == [12.5, None]
    assert figures(found) == ["4", "2", "2", "0", "0"]
    _, found, _ = run("--result", "deliveries", output="@d.parquet")
    rows = written("d.parquet")
    assert [(row["subscription"], row["subscriber"]) for row in rows] == [("ibm", "i")] * 2
    assert figures(found) == ["4", "2", "2", "0", "0"]


def test_a_match_carries_columns_in_order(files, run):
    write_lines(
        "s.jsonl",
        [
            {"id": "a", "selector": "price > 0", "owner": "A", "priority": 2, "valid_to": None},
            {"id": "b", "selector": "price > 0", "owner": "B", "priority": 1, "valid_to": None},
            {"id": "c", "selector": "", "owner": "C", "priority": 9, "valid_to": "2000-01-01"},
        ],
    )
    options = ["--carry", "owner", "--order-by", "priority DESC", "--limit", "1"]
    assert run(*options, "--valid-at", "now()")[0] == 0
    one = [{"id": "a", "owner": "A"}]
    assert [row["subscriptions"] for row in written()] == [one, one, one, []]
    assert run("--first", "--order-by", "priority", "--column", "rule", output="@f.parquet")[0] == 0
    assert [row["rule"] for row in written("f.parquet")] == ["b", "b", "b", "c"]


def test_the_matches_of_each_rule_stand_beside_the_report(files, run):
    write_lines(
        "s.jsonl", [{"id": i, "selector": s} for i, s in [*RULES.items(), ("not", "NOT x > 1")]]
    )
    assert (
        run("--report", "@r/report.html", "--messages-select", "*", "--messages-select", "0 AS x")[
            0
        ]
        == 0
    )
    rows = pq.read_table("r/report.rules.parquet").to_pylist()
    assert {row["id"]: row["matches"] for row in rows} == {
        "ibm": 2,
        "cheap": 2,
        "not": 4,
        "none": 0,
    }
    assert [row["matches"] for row in rows] == [4, 2, 2, 0]
    told = json.loads(Path("r/report.rules.json").read_text())
    assert told["rules"] == rows
    assert told["never_matched"] == 1
    assert (told["rows"], told["matches"], told["matched_rows"]) == (4, 8, 4)
    assert told["versions"].keys() >= {"tamis", "spark", "python"}
    assert told["compile_seconds"] > 0
    page = Path("r/report.html").read_text()
    assert "Never matched" in page
    assert "trigger" not in page
    code, _, _ = run("--result", "counts", "--report", "@c.html", output="@c")
    assert code == 0
    assert not Path("c.rules.json").exists()


def test_formats_are_told_by_names_and_options(files, run):
    Path("m.csv").write_text('company,price\nIBM,12.5\n"D""ell",3\n')
    Path("s.csv").write_text('id,selector\n1,"company = \'D""ell\' OR\n price > 12"\n2,price < 4\n')
    options = ["--output-format", "json", "--messages-select", "upper(company) AS company",
               "--messages-select", "price"]  # fmt: skip
    assert run(*options, messages="@m.csv", subscriptions="@s.csv")[0] == 0
    text = "".join(file.read_text() for file in sorted(Path("o").glob("*.json")))
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines == [
        {"company": "IBM", "price": 12.5, "subscriptions": ["1"]},
        {"company": 'D"ELL', "price": 3.0, "subscriptions": ["2"]},
    ]


def lines_of(folder="o"):
    text = "".join(file.read_text() for file in sorted(Path(folder).glob("*.json")))
    return [json.loads(line) for line in text.splitlines()]


ODD_ROWS = {
    "m.csv": "company,price\nIBM,5\nDell,12.5\nHP,n/a\nIBM,7,8\nX,3\n",
    "m.jsonl": '{"company":"IBM","price":5}\n{"company":"Dell","price":12.5}\n'
    '{"company":"HP","price":"n/a"}\n{broken\n{"company":"X","price":3}\n',
}


@pytest.mark.parametrize("name", ODD_ROWS)
def test_an_odd_value_is_a_bad_row_and_the_column_keeps_its_type(files, run, name):
    Path(name).write_text(ODD_ROWS[name])
    code, summary, err = run("--output-format", "json", messages=f"@{name}")
    assert (code, figures(summary)) == (0, ["5", "2", "3", "0", "2"])
    assert "2 bad rows: column _error says why" in err
    good = [(row["company"], row["subscriptions"]) for row in lines_of() if "_error" not in row]
    assert good == [("IBM", ["cheap", "ibm"]), ("Dell", []), ("X", ["cheap"])]
    bad = [row["_error"] for row in lines_of() if "_error" in row]
    assert len(bad) == 2
    assert all(text.startswith("the row cannot be read: ") for text in bad)
    code, _, err = run("--on-error", "raise", messages=f"@{name}", output="@p")
    assert (code, "the row cannot be read" in err) == (2, True)


def test_a_schema_decides_and_quoted_numbers_of_json_are_texts(files, run):
    Path("m.csv").write_text("company,price\nIBM,1\nDell,2\nHP,n/a\n")
    write_lines("s2.jsonl", [{"id": "odd", "selector": "price = 'n/a'"}])
    schema = ("--messages-schema", "company STRING, price STRING", "--output-format", "json")
    code, summary, _ = run(*schema, messages="@m.csv", subscriptions="@s2.jsonl")
    assert (code, figures(summary)) == (0, ["3", "1", "1", "0", "0"])
    write_lines("m2.jsonl", [{"price": "1"}, {"price": "2"}, {"price": "n/a"}])
    code, summary, _ = run(messages="@m2.jsonl", subscriptions="@s2.jsonl", output="@p")
    assert (code, figures(summary)) == (0, ["3", "1", "1", "0", "0"])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2", "x"], spark_types.LongType()),
        (["1", "2.5", "x"], spark_types.DoubleType()),
        (["true", "FALSE", "x"], spark_types.BooleanType()),
        (["2026-01-01", "2026-01-01T10:00:00", "x"], spark_types.TimestampType()),
        (["1", "x", None], None),
        ([None], None),
        (["2026", "12:30", "x"], None),
    ],
)
def test_most_values_decide_on_the_type_of_a_csv_column(spark, values, kind):
    frame = spark.createDataFrame([(value,) for value in values], "`a.b` string")
    assert csv_types(frame, ["a.b"]) == ({} if kind is None else {"a.b": kind})


def test_numbers_of_a_csv_with_rules_are_ordered_as_numbers(files, run):
    Path("s.csv").write_text("id,priority,selector\n7,9,price > 0\n8,100,price > 0\n")
    options = ("--first", "--order-by", "priority DESC", "--output-format", "json")
    assert run(*options, subscriptions="@s.csv")[0] == 0
    assert {row.get("subscriptions") for row in lines_of()} == {"8", None}


def test_a_match_that_the_limit_cuts_off_is_a_match_of_its_rule(files, run):
    write_lines("s2.jsonl", [{"id": id, "selector": "price > 0"} for id in ("a", "b")])
    options = ("--limit", "1", "--report", "@r/report.html")
    code, summary, _ = run(*options, subscriptions="@s2.jsonl")
    assert (code, summary["matches"]) == (0, "3")
    told = json.loads(Path("r/report.rules.json").read_text())
    assert told["never_matched"] == 0
    assert [rule["matches"] for rule in told["rules"]] == [3, 3]


def test_tables_of_the_catalog(files, run, spark):
    spark.createDataFrame([(1,), (5,)], "n int").createOrReplaceTempView("numbers")
    write_lines("s.jsonl", [{"id": 7, "selector": "n > 3"}])
    run("--messages-format", "table", messages="numbers")
    assert [row["subscriptions"] for row in written()] == [[], [7]]


def test_a_saved_matcher_and_a_folder_of_subscriptions(files, run):
    matcher = Matcher()
    matcher.add_many(RULES.items())
    matcher.save("saved")
    code, found, err = run("--report", "r.html", subscriptions="@saved")
    assert (code, err, found["subscriptions"]) == (0, "", "3")
    assert [row["subscriptions"] for row in written()] == EXPECTED
    assert "company = &#x27;IBM&#x27;" in Path("r.html").read_text()
    table = Subscriptions.create("folder")
    table.add_many(RULES.items())
    code, found, err = run("--version-column", "v", subscriptions="@folder", output="@o2")
    assert (code, err, found["subscriptions"]) == (0, "", "3")
    assert [row["subscriptions"] for row in written("o2")] == EXPECTED
    assert {row["v"] for row in written("o2")} == {table.version}


def test_shards_and_semantics_are_passed_on(files, run):
    code, found, _ = run("--shards", "2", "--semantics", "strict", "--report", "r.html")
    assert (code, found["matches"]) == (0, "4")
    rows = sorted(written(), key=lambda row: (row["price"] is None, row["price"]))
    assert [row["subscriptions"] for row in rows] == [["cheap"], ["cheap"], ["ibm"], ["ibm"]]


# --- what is bad -----------------------------------------------------------------


def test_bad_selectors_and_rows_are_put_aside_and_counted(files, run):
    bad = [{"id": "bad", "selector": "price >"}, {"id": "cheap", "selector": "price < 10"}]
    write_lines("s.jsonl", [*bad, {"id": None, "selector": "<script>"}])
    prices = pa.array(["12.5", "0.1234567890123456789"]).cast(pa.decimal128(25, 19))
    pq.write_table(pa.table({"price": prices}), "m.parquet")
    code, found, err = run("--problems", "new/p.jsonl", "--report", "r.html")
    assert code == 0
    assert figures(found) == ["2", "0", "0", "2", "1"]
    assert [row["_error"] is None for row in written()] == [True, False]
    problems = [json.loads(line) for line in Path("new/p.jsonl").read_text().splitlines()]
    assert [(bad["id"], bad["selector"]) for bad in problems] == [
        ("bad", "price >"),
        (None, "<script>"),
    ]
    assert "subscription 'bad': the selector ends too early" in err
    page = Path("r.html").read_text()
    assert "2 bad selectors" in page
    assert "1 bad rows" in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--on-error", "raise"], "subscription 'bad': the selector ends too early"),
        (["messages=@gone.parquet"], "gone.parquet"),
        (["--messages-format", "nonsense"], "nonsense"),
        (["--messages-select", "nobody + 1"], "nobody"),
        (["subscriptions=@m.parquet"], "no column id"),
        (["--subscriptions-format", "versions"], "there is no table of subscriptions"),
        (["output=@taken"], "taken"),
        (["--output-mode", "update"], "a batch has no output mode update"),
        (["--stream"], "give --checkpoint"),
        (["--stream", "--checkpoint", "@c", "--trigger", "soon"], "not soon"),
        (["--setting", "x"], "KEY=VALUE"),
        (["--column", "price"], "a column price already"),
        (["--result", "semi", "--column", "x"], "semi adds no column"),
        (["--version-column", "v"], "version is for Subscriptions"),
        (["--report", "m.parquet/r.html"], "cannot write"),
    ],
)
def test_what_cannot_be_done_is_told_with_exit_code_2(files, run, arguments, what):
    write_lines("s.jsonl", [{"id": "bad", "selector": "price >"}])
    pq.write_table(pa.table(ROWS), "taken")
    ends = dict(text.split("=") for text in arguments if text[0] != "-" and "=@" in text)
    code, found, err = run(*([] if ends else arguments), **ends)
    assert (code, found) == (2, {})
    assert what in err
    assert "Traceback" not in err
    assert "\tat " not in err


def test_a_bad_row_stops_the_job_where_that_is_asked_for(files, run):
    write_lines("s.jsonl", [{"id": 1, "selector": "company = 'IBM' AND price > 1"}])
    code, _, err = run("--on-error", "raise", "--semantics", "total")
    assert code == 2
    assert err.startswith("a message does not fit: the message does not define ")
    assert not Path("o/_SUCCESS").exists()


def test_reasons_are_cut_out_of_stacks():
    stack = (
        'x\nTraceback:\n  File "y"\ntamis.errors.MessageError: row 3\n  hint\n\n\tat org.apache.x'
    )
    assert reason(stack) == "row 3\n  hint"
    assert reason("[NO] not there.\n\nJVM stacktrace:\nx") == "[NO] not there."


# --- streams ---------------------------------------------------------------------


def test_a_stream_goes_on_from_its_checkpoint(files, run):
    Path("in").mkdir()
    pq.write_table(pa.table(ROWS), "in/1.parquet")
    options = ["--stream", "--checkpoint", "@c", "--report", "r.html"]
    code, found, err = run(*options, messages="@in")
    assert (code, err) == (0, "")
    assert figures(found) == ["4", "4", "4", "0", "0"]
    assert found["micro-batches"] == "1"
    pq.write_table(pa.table({"company": ["Dell"], "price": [5.0]}), "in/2.parquet")
    _, found, _ = run(*options, messages="@in")
    assert figures(found) == ["1", "1", "1", "0", "0"]
    assert sorted(row["subscriptions"] for row in written()) == sorted([*EXPECTED, ["cheap"]])


def test_an_interrupted_stream_tells_what_it_did_and_goes_on_later(files, run, monkeypatch):
    Path("in").mkdir()
    pq.write_table(pa.table(ROWS), "in/1.parquet")
    options = ["--stream", "--checkpoint", "@c", "--trigger", "0.2"]
    with interrupted_when(lambda: len(list(Path("c/commits").glob("[0-9]"))) > 0):
        code, found, err = run(*options, messages="@in")
    assert (code, err) == (130, "")
    assert figures(found)[:3] == ["4", "4", "4"]
    pq.write_table(pa.table({"company": ["Dell"], "price": [5.0]}), "in/2.parquet")
    _, found, _ = run("--stream", "--checkpoint", "@c", messages="@in")
    assert figures(found)[:3] == ["1", "1", "1"]
    assert len(written()) == 5


def test_subscriptions_that_change_between_two_runs_of_a_stream(files, run):
    table = Subscriptions.create("folder", ids="string")
    table.add("ibm", "company = 'IBM'", "ann")
    Path("in").mkdir()
    pq.write_table(pa.table(ROWS), "in/1.parquet")
    options = ["--stream", "--checkpoint", "@c", "--result", "deliveries", "--version-column", "v"]
    ends = {"messages": "@in", "subscriptions": "@folder"}
    assert run(*options, **ends)[1]["matches"] == "2"
    table.add("cheap", "price < 10", "bob")
    pq.write_table(pa.table({"company": ["IBM"], "price": [5.0]}), "in/2.parquet")
    _, found, _ = run(*options, "--report", "r.html", **ends)
    assert (found["matches"], found["subscriptions"]) == ("2", "2")
    rows = [(row["subscription"], row["subscriber"], row["v"]) for row in written()]
    assert sorted(rows) == [
        ("cheap", "bob", 2),
        ("ibm", "ann", 1),
        ("ibm", "ann", 1),
        ("ibm", "ann", 2),
    ]
    assert "price &lt; 10" in Path("r.html").read_text()


class interrupted_when:  # noqa: N801 (reads like a word)
    """Ctrl-C for this process, as soon as something is so and a moment has passed."""

    def __init__(self, so):
        self.so, self.over = so, threading.Event()

    def __enter__(self):
        # Spark's own handler of the shared session is not what a user of the command has.
        self.before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.thread = threading.Thread(target=self.wait)
        self.thread.start()

    def wait(self):
        while not self.over.wait(0.05):
            if self.so():
                self.over.wait(1)
                os.kill(os.getpid(), signal.SIGINT)
                return

    def __exit__(self, *error):
        self.over.set()
        self.thread.join()
        signal.signal(signal.SIGINT, self.before)


def test_an_interrupted_batch_leaves_no_output_that_looks_whole(files):
    """As a process of its own: this is what a user sees."""
    pq.write_table(pa.table({"price": [float(i) for i in range(5000)]}), "m.parquet")
    slow = "aggregate(sequence(1, 2000000), 0L, (a, x) -> a + x) AS slow"
    code = "import sys; from tamis.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "run", "--messages", "m.parquet",
               "--messages-select", "price", "--messages-select", slow,
               "--subscriptions", "s.jsonl", "--output", "o", "--master", "local[1]"]  # fmt: skip
    write_lines("s.jsonl", [{"id": 1, "selector": "price > 1 AND slow > 1"}])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not Path("o/_temporary").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert Path("o/_temporary").exists()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    # Where the kernels are not compiled yet, that is told first.
    told = [line for line in err.decode().splitlines() if not line.startswith("compiling")]
    assert (process.returncode, out, told) == (130, b"", ["stopped: the output is not whole"])
    assert [path for path in Path("o").rglob("*") if path.is_file()] == []


def test_an_interrupt_while_spark_starts_is_put_off(capfd):
    """A Java that loses its Python while it starts would stay behind for ever."""
    before = signal.getsignal(signal.SIGINT)
    with _no_interrupt() as came:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
    assert came == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is before
    assert capfd.readouterr().err == "stopping as soon as Spark has started\n"


# --- the bundled example ---------------------------------------------------------


def test_the_job_of_the_example_matches_as_the_library_does(files, run, monkeypatch):
    subscriptions = runpy.run_path(str(FLIGHTS / "subscriptions.py"))["subscriptions"]()[::20]
    flights = pq.read_table(FLIGHTS / "flights.parquet").slice(0, 5000)
    write_lines("s.jsonl", subscriptions)
    pq.write_table(flights, "m.parquet")
    matcher = Matcher()
    matcher.add_many((s["id"], s["selector"]) for s in subscriptions)
    expected = matcher.match_batch(flights)
    code, found, err = run(str(FLIGHTS / "job.toml"), "--report", "r.html", "--problems", "p.jsonl")
    assert (code, err) == (0, "")
    assert [row["subscriptions"] for row in written()] == expected.to_pylist()
    assert found["matches"] == f"{len(expected.ids):,}"
    page = Path("r.html").read_text()
    never = len(subscriptions) - len(set(expected.slots.tolist()))
    assert f"{never:,} subscriptions never matched" in page


def test_nothing_need_be_written(files, run):
    code, found, err = run("--output-format", "noop", "--report", "r.html")
    assert (code, err, found["matches"]) == (0, "", "4")


# --- parts -----------------------------------------------------------------------


def test_a_task_that_is_done_twice_counts_once():
    parts = Tasks()
    both = parts.addInPlace({(0, 1): Part(rows=5)}, {(0, 1): Part(rows=5), (1, 1): Part(rows=2)})
    assert [part.rows for part in both.values()] == [5, 2]


def test_totals_add_up_and_their_points_in_time_stay_few():
    totals = Totals()
    for tick in range(10_000):
        found = [(pa.array(["a", "b"]), [1, tick])]
        totals.add([Part(1, 1, 1 + tick, 0, {tick: 1.0}, found if tick < 3 else [])])
    assert (totals.rows, totals.matched) == (10_000, 10_000)
    assert sum(totals.pace.values()) == 10_000
    assert len(totals.pace) <= 2048
    assert totals.width == 8
    assert {row["id"]: row["count"] for row in totals.counts.to_pylist()} == {"a": 3, "b": 3}


def test_sums_keep_the_types_of_ids():
    tables = [pa.table({"id": [1, 2], "count": [1, 1]}), pa.table({"id": [2], "count": [3]})]
    assert _summed(tables).sort_by("id").to_pylist() == [
        {"id": 1, "count": 1},
        {"id": 2, "count": 4},
    ]


@pytest.mark.parametrize(
    ("path", "format"),
    [("a.csv", "csv"), ("x/a.jsonl.gz", "json"), ("a.JSON", "json"), ("s3://b/a", "parquet"),
     ("a.orc", "orc"), (None, "parquet"), ("a.gz", "parquet")],
)  # fmt: skip
def test_formats_by_name(path, format):
    assert format_of(path) == format


def test_rows_are_known_before_where_parquet_is_at_hand(files):
    def rows(path, format=None):
        return Job(Source(path, format), Source("s"), Sink("o")).rows()

    assert rows("m.parquet") == 4
    assert rows(str(files)) == 4
    assert rows("s3://bucket/m.parquet") is None
    assert rows("m.parquet", "csv") is None
    assert rows("s.jsonl") is None


def test_java_is_quiet_about_itself_and_about_nothing_else(capfd):
    with _without_chatter():
        lines = "WARNING: Using incubator modules: x\\nERROR: y\\n"
        subprocess.run(
            [sys.executable, "-c", f"import sys; sys.stderr.write('{lines}')"], check=True
        )
    deadline, told = time.monotonic() + 10, ""
    while not told and time.monotonic() < deadline:
        time.sleep(0.02)
        told += capfd.readouterr().err
    assert told == "ERROR: y\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_how_far_it_is(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    with job_progress() as (say, tell):
        say("matching")
        tell(Progress(1500, 20, of_rows=3000, tasks=1, of_tasks=2))
        time.sleep(0.2)  # it draws ten times a second
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sys.stderr.getvalue())
    assert "1,500 of 3,000 rows" in shown
    assert "rows/s, 20 matches" in shown


def test_the_bar_shows_rows_where_their_number_is_known_and_else_tasks():
    assert _part(Progress(5, 1, of_rows=10, tasks=1, of_tasks=4)) == (5, 10)
    assert _part(Progress(0, 0, of_rows=10, tasks=1, of_tasks=4)) == (1, 4)
    assert _part(Progress(5, 1, tasks=1, of_tasks=4)) == (1, 4)
    assert _part(Progress(5, 1, batches=2)) == (0, None)
    assert (
        _progress_text(Progress(5, 1, batches=2), 2.0)
        == "5 rows, 2 rows/s, 1 match, 2 micro-batches"
    )


def test_a_chart_of_letters():
    assert list(chart([("0", 0), ("1", 1), ("2", 80)])) == [
        "      0   0", "      1   █ 1", f"      2   {'█' * 40} 80"
    ]  # fmt: skip
