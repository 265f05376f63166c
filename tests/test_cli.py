"""The commands, in this process and a few times as a process of their own."""

import csv
import datetime
import io
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis.cli import app, main
from tamis.cli.jobs.job_options import pairs

ROOT = Path(__file__).parent.parent
ALICE = "price < 1500 AND company CONTAINS 'IBM'"
SUBSCRIPTIONS = [
    {"id": "alice", "selector": ALICE},
    {"id": "bob", "selector": "company IN ('IBM', 'Dell')"},
    {"id": "carol", "selector": "price IS NULL"},
]
MESSAGES = [
    {"company": "IBM", "price": 1200.5},
    {"company": "Dell"},
    {"company": "HP", "price": 1.0},
]
EXPECTED = [
    {"message": 0, "subscriptions": ["alice", "bob"]},
    {"message": 1, "subscriptions": ["bob", "carol"]},
]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """subscriptions and messages as JSON lines in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "s.jsonl", SUBSCRIPTIONS)
    write_lines(tmp_path / "m.jsonl", MESSAGES)
    return tmp_path


@pytest.fixture
def run(capfd):
    """Runs a command; gives its exit code, its output and its complaints."""

    def call(*arguments):
        code = main(list(arguments))
        out, err = capfd.readouterr()
        return code, out, err

    return call


def inner(command):
    return [name for name in app[command] if not name.startswith("-")]


def options_of(command, *rest):
    found = app[command]
    for name in rest:
        found = found[name]
    return {
        name
        for argument in found.assemble_argument_collection()
        for name in argument.names
        if name.startswith("--")
    }


def found(out):
    return [json.loads(line) for line in out.splitlines()]


def give_input(monkeypatch, data):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))


# --- check ---------------------------------------------------------------------


def test_check_prints_the_canonical_form_and_the_attributes(run):
    code, out, err = run("check", "price<10 and `odd name` like 'a%' and other is null")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "price < 10 AND `odd name` LIKE 'a%' AND other IS NULL"
    assert out.splitlines()[2:] == ["  `odd name`: string", "  other: any type"]


def test_check_with_a_schema_names_its_types(run):
    code, out, _ = run("check", "price < 10", "--schema", "price:double")
    assert (code, out) == (0, "price < 10\n  price: double\n")


def test_check_shows_the_error_with_its_caret(run):
    code, out, err = run("check", "price > 100 AND AND region = 'EU'")
    assert (code, out) == (2, "")
    line, caret = err.splitlines()[1:3]
    assert line[caret.index("^") :] == "AND region = 'EU'"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["name > 1", "--schema", "name:string"], "name is a string"),
        (["nobody = 1", "--schema", "name:string"], "nobody"),
        (["a = 1", "--schema", "a:integers"], "choose int, double"),
        (["a = 1", "--schema", "gone.json"], "gone.json: No such file"),
        (["name > 'a'", "--dialect", "jms"], "name > 'a'"),
        (["a = 1 AND b = 2", "--limit-length", "5"], "--limit-length raises it"),
        (["((((a = 1))))", "--limit-depth", "2"], "--limit-depth raises it"),
        (["a IN (1, 2, 3)", "--limit-items", "2"], "--limit-items raises it"),
        (["a MATCHES 'abc'", "--limit-pattern", "2"], "--limit-pattern raises it"),
        (["a = 1", "--limit-depth", "0"], "--limit-depth"),
        (["a = 1", "--dialect", "cobol"], "cobol"),
        ([], "give one selector, or a file"),
    ],
)
def test_check_refuses_with_exit_code_2(run, arguments, what):
    code, out, err = run("check", *arguments)
    assert (code, out) == (2, "")
    assert what in err
    assert "Traceback" not in err


def test_a_selector_may_begin_with_a_hyphen_or_be_standard_input(run, monkeypatch):
    assert run("check", "-1 < a")[1].startswith("-1 < a\n")
    give_input(monkeypatch, "a ≤ 5\n".encode())
    assert run("check", "-")[1].startswith("a <= 5\n")
    give_input(monkeypatch, b"a = '\xff'")
    assert run("check", "-") == (2, "", "the selector on standard input is not UTF-8\n")


def test_the_dialect_is_passed_on(run):
    assert run("check", "a = 7. AND b = 0x1d", "--dialect", "jms")[0] == 0


# --- explain -------------------------------------------------------------------


def test_explain_tells_each_predicate_and_the_verdict(run):
    message = '{"price": 2000.0, "company": "IBM"}'
    code, out, err = run("explain", ALICE, message)
    assert (code, err) == (0, "")
    told = [re.split(r"  +", line.strip()) for line in out.splitlines()]
    assert told == [
        ["all of", "false"],
        ["price < 1500", "false", "price = 2000.0"],
        ["company CONTAINS 'IBM'", "true", "company = 'IBM'"],
        ["=> no match"],
    ]


def test_explain_reads_files_standard_input_and_xml(run, tmp_path, monkeypatch):
    expected = run("explain", "a.b = 1", '{"a": {"b": 1}}')
    assert expected[1].endswith("=> match\n")
    (tmp_path / "m.json").write_text('\ufeff{\n "a": {"b": 1}\n}\n')
    assert run("explain", "a.b = 1", f"@{tmp_path / 'm.json'}") == expected
    give_input(monkeypatch, b'{"a": {"b": 1}}')
    assert run("explain", "a.b = 1", "-") == expected
    assert run("explain", "a.b = 1", "<m><a><b> 1 </b></a></m>") == expected


def test_explain_follows_semantics_and_schema(run):
    paradox = "price < 1000 OR price > 500 OR a = 1"
    assert run("explain", paradox, '{"a": 1}')[1].endswith("=> match\n")
    assert run("explain", paradox, '{"a": 1}', "--semantics", "strict")[1].endswith("=> no match\n")
    default = ["--semantics", "default", "--schema", "price:double=-1.0,t:timestamp"]
    out = run(
        "explain", "price < 0 AND t < TIMESTAMP '2000-02-02'", '{"t": "2000-02-01"}', *default
    )[1]
    assert out.endswith("=> match\n")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["a = 1", "{"], "broken JSON"),
        (["a = 1", "[]"], "expected a JSON object"),
        (["a = 1", ""], "expected a message"),
        (["a = 1", "<a>"], "broken XML"),
        (["a = 1", "@gone.json"], "gone.json: No such file"),
        (["a = 1", '{"a": 9223372036854775808}'], "64 bits"),
        (["a =", "{}"], "^"),
        (["-", "-"], "only one"),
        (["a = 1", "{}", "--semantics", "total"], "needs a schema"),
        (["a = 1", "{}", "--semantics", "total", "--schema", "a:int"], "does not define a"),
        (["a = 1", '{"a": "x"}', "--schema", "a:int"], "not of type int"),
    ],
)
def test_explain_refuses_with_exit_code_2(run, arguments, what):
    code, out, err = run("explain", *arguments)
    assert (code, out) == (2, "")
    assert what in err


# --- match ---------------------------------------------------------------------


def test_match_writes_json_lines(run, files):
    code, out, err = run("match", "s.jsonl", "m.jsonl")
    assert (code, err) == (0, "")
    assert found(out) == EXPECTED


def test_match_all_writes_every_message(run, files):
    out = run("match", "s.jsonl", "m.jsonl", "--all")[1]
    assert found(out) == [*EXPECTED, {"message": 2, "subscriptions": []}]


def test_match_writes_parquet_by_name_or_by_option(run, files):
    assert run("match", "s.jsonl", "m.jsonl", "--output", "o.parquet") == (0, "", "")
    assert run("match", "s.jsonl", "m.jsonl", "--output", "o", "--format", "parquet") == (0, "", "")
    for name in ("o.parquet", "o"):
        table = pq.read_table(name)
        assert table.to_pylist() == EXPECTED
        assert table.schema.field("message").type == pa.int64()
        assert table.schema.field("subscriptions").type == pa.list_(pa.string())


def test_match_writes_csv_by_name_or_by_option(run, files):
    wanted = "message,subscription\n0,alice\n0,bob\n1,bob\n1,carol\n"
    assert run("match", "s.jsonl", "m.jsonl", "--output", "o.csv") == (0, "", "")
    assert Path("o.csv").read_text() == wanted
    assert run("match", "s.jsonl", "m.jsonl", "--format", "csv", "--all")[1] == wanted + "2,\n"


@pytest.mark.parametrize("source", ["m.jsonl", "m.parquet"])
def test_match_writes_messages_too(run, files, source):
    pq.write_table(pa.Table.from_pylist(MESSAGES), "m.parquet")
    _, out, _ = run("match", "s.jsonl", source, "--with-messages")
    wanted = [{**line, "content": MESSAGES[line["message"]]} for line in EXPECTED]
    assert [json.loads(line) for line in out.splitlines()] == wanted
    run("match", "s.jsonl", source, "--with-messages", "--output", "o.parquet")
    rows = pq.read_table("o.parquet").to_pylist()
    assert [{**row, "content": json.loads(row["content"])} for row in rows] == wanted
    out = run("match", "s.jsonl", source, "--with-messages", "--format", "csv")[1]
    lines = list(csv.DictReader(io.StringIO(out)))
    assert [json.loads(line["content"]) for line in lines] == [MESSAGES[i] for i in (0, 0, 1, 1)]


def test_messages_are_written_as_json_has_them(run, files):
    columns = {
        "price": [math.inf, 2.5],
        "day": [datetime.date(2013, 1, 2), None],
        "b": [b"x", None],
    }
    pq.write_table(pa.table(columns), "odd.parquet")
    _, out, _ = run("match", "s.jsonl", "odd.parquet", "--with-messages", "--all")
    found = [json.loads(line)["content"] for line in out.splitlines()]
    assert found == [
        {"price": "inf", "day": "2013-01-02T00:00:00+00:00", "b": "78"},
        {"price": 2.5},
    ]


def test_match_writes_parquet_without_matches(run, files):
    write_lines(files / "none.jsonl", [])
    for arguments, rows in ([[], 0], [["--all"], 3]):
        run("match", "none.jsonl", "m.jsonl", "--output", "o.parquet", *arguments)
        assert pq.read_table("o.parquet").num_rows == rows
    run("match", "s.jsonl", "none.jsonl", "--output", "o.parquet")
    assert pq.read_table("o.parquet").schema.names == ["message", "subscriptions"]


def test_integer_ids_stay_integers(run, files):
    write_lines(files / "s.jsonl", [{"id": 2**63 - 1, "selector": "price > 0"}])
    assert found(run("match", "s.jsonl", "m.jsonl")[1])[0]["subscriptions"] == [2**63 - 1]
    run("match", "s.jsonl", "m.jsonl", "--output", "o.parquet")
    assert pq.read_table("o.parquet").schema.field("subscriptions").type == pa.list_(pa.int64())


def test_ids_of_both_kinds_become_strings(run, files):
    both = [{"id": 1, "selector": "company = 'IBM'"}, {"id": "b", "selector": "price IS NULL"}]
    write_lines(files / "s.jsonl", both)
    expected = [{"message": 0, "subscriptions": ["1"]}, {"message": 1, "subscriptions": ["b"]}]
    assert found(run("match", "s.jsonl", "m.jsonl", "--batch-rows", "1")[1]) == expected
    run("match", "s.jsonl", "m.jsonl", "--output", "o.parquet", "--batch-rows", "1")
    assert pq.read_table("o.parquet").to_pylist() == expected


@pytest.mark.parametrize("options", [[], ["--schema", "company:string,price:double"]])
@pytest.mark.parametrize("batch_rows", ["1", "2", "65536"])
def test_every_pair_of_formats_gives_the_same(run, files, options, batch_rows):
    pq.write_table(pa.Table.from_pylist(SUBSCRIPTIONS), "s.parquet")
    lines = [f'{s["id"]},"{s["selector"]}"\n' for s in SUBSCRIPTIONS]
    Path("s.csv").write_text("".join(["id,selector\n", *lines]))
    table = pa.Table.from_pylist(MESSAGES)
    pq.write_table(table, "m.parquet")
    with pa.ipc.new_file("m.arrow", table.schema) as sink:
        sink.write_table(table)
    Path("m.csv").write_text("company,price\nIBM,1200.5\nDell,\nHP,1.0\n")
    Path("m.xml").write_text(
        "<company> IBM </company><price>1200.5</price>\n\n"
        "<company>Dell</company>\n\n<company>HP</company><price>1.0</price>\n"
    )
    for subscriptions in ("s.jsonl", "s.csv", "s.parquet"):
        for messages in ("m.jsonl", "m.csv", "m.xml", "m.parquet", "m.arrow"):
            out = run("match", subscriptions, messages, "--batch-rows", batch_rows, *options)
            assert (out[0], found(out[1]), out[2]) == (0, EXPECTED, ""), (subscriptions, messages)


def test_match_from_standard_input(run, files, monkeypatch):
    give_input(monkeypatch, Path("m.jsonl").read_bytes())
    assert found(run("match", "s.jsonl", "-")[1]) == EXPECTED
    give_input(monkeypatch, Path("s.jsonl").read_bytes())
    assert found(run("match", "-", "m.jsonl")[1]) == EXPECTED
    give_input(monkeypatch, b"company,price\nIBM,1200.5\n")
    out = run("match", "s.jsonl", "-", "--messages-format", "csv")[1]
    assert found(out) == EXPECTED[:1]


def test_a_selector_without_attributes_matches_every_row_of_a_table(run, files):
    write_lines(files / "s.jsonl", [{"id": "all", "selector": ""}])
    pq.write_table(pa.table({"a": [1, 2, 3]}), "m.parquet")
    out = run("match", "s.jsonl", "m.parquet")[1]
    assert found(out) == [{"message": i, "subscriptions": ["all"]} for i in range(3)]


def test_semantics_are_followed(run, files):
    schema = ["--schema", "company:string,price:double=-1.0"]
    write_lines(files / "s.jsonl", [{"id": 1, "selector": "price < 0 OR company <> 'IBM'"}])

    def rows(*options):
        return [line["message"] for line in found(run("match", "s.jsonl", "m.jsonl", *options)[1])]

    assert rows() == rows("--semantics", "sql") == [1, 2]
    assert rows("--semantics", "strict") == [2]
    assert rows("--semantics", "default", *schema) == [1, 2]
    code, out, err = run("match", "s.jsonl", "m.jsonl", "--semantics", "total", *schema)
    assert (code, [line["message"] for line in found(out)]) == (0, [2])
    assert re.search(r"m\.jsonl, line 2: .* price", err)
    code, _, err = run("match", "s.jsonl", "m.jsonl", "--semantics", "total")
    assert (code, "--schema" in err) == (2, True)


def test_bad_rows_and_selectors_are_reported_and_the_rest_is_matched(run, files):
    Path("s.jsonl").write_text(
        '{"id": "alice", "selector": "price <"}\n{"id": true, "selector": ""}\nno\n'
        + '{"id": "bob", "selector": "price > 0"}\n' * 2
        + '{"id": "x"}\n'
    )
    Path("m.jsonl").write_text('{"price": 1}\nno\n{"price": 18446744073709551616}\n{"price": 2}\n')
    code, out, err = run("match", "s.jsonl", "m.jsonl")
    assert code == 0
    assert found(out) == [{"message": i, "subscriptions": ["bob"]} for i in (0, 3)]
    places = re.findall(r"^(\w)\.jsonl, line (\d+): ", err, re.MULTILINE)
    assert sorted(places) == [
        ("m", "2"), ("m", "3"), ("s", "1"), ("s", "2"), ("s", "3"), ("s", "5"), ("s", "6")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "line"),
    [("s.jsonl", '{"id": 1, "selector": "a >"}'), ("s.jsonl", "no"), ("m.jsonl", "no")],
)
def test_strict_input_stops_at_the_first(run, files, name, line):
    before = Path(name).read_text()
    Path(name).write_text(before + line + "\n")
    Path("o").write_text("as it was")
    code, out, err = run("match", "s.jsonl", "m.jsonl", "--strict-input", "--output", "o")
    assert (code, out) == (2, "")
    assert f"{name}, line {len(before.splitlines()) + 1}: " in err
    assert Path("o").read_text() == "as it was"
    assert sorted(p.name for p in files.iterdir()) == ["m.jsonl", "o", "s.jsonl"]


def test_many_bad_rows_are_counted(run, files):
    Path("m.jsonl").write_text("no\n" * 1000)
    code, out, err = run("match", "s.jsonl", "m.jsonl")
    assert (code, out) == (0, "")
    assert err.count("m.jsonl, line ") == 20
    assert err.endswith("... and 980 more; 1,000 in all\n")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["gone.jsonl", "m.jsonl"], "gone.jsonl: No such file"),
        (["s.jsonl", "gone.jsonl"], "gone.jsonl: No such file"),
        (["-", "-"], "only one"),
        (["s.jsonl", "m.jsonl", "--output", "no/such/folder/o"], "cannot write no/such/folder/o"),
        (["s.jsonl", "m.jsonl", "--format", "xls"], "xls"),
        (["s.jsonl", "m.jsonl", "--batch-rows", "0"], "--batch-rows"),
        (["m.csv", "m.jsonl"], "there is no column id and no column selector"),
        (["s.jsonl", "m.jsonl", "--messages-format", "parquet"], "not a whole parquet file"),
        (["s.jsonl"], "MESSAGES"),
    ],
)
def test_match_refuses_with_exit_code_2(run, files, arguments, what):
    Path("m.csv").write_text("a,b\n1,2\n")
    code, out, err = run("match", *arguments)
    assert (code, out) == (2, "")
    assert what in err
    assert "Traceback" not in err


# --- as a process --------------------------------------------------------------


def start(*arguments, **options):
    code = "import sys; from tamis.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=environment, stderr=subprocess.PIPE, **options
    )


def test_version_and_help_need_no_heavy_imports():
    process = start("--version", stdout=subprocess.PIPE)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert re.fullmatch(rb"\d+\.\d+\.\d+\S*\n", out)
    code = (
        "import sys; from tamis.cli import main; code = main(['--help']);"
        "assert not {'numba', 'pyarrow', 'numpy'} & set(sys.modules); sys.exit(code)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    helped = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert (helped.returncode, helped.stderr) == (0, b"")
    assert all(command in helped.stdout for command in (b"check", b"match", b"explain"))


def test_a_closed_pipe_is_quiet(files):
    write_lines(files / "many.jsonl", MESSAGES * 20_000)
    process = start("match", "s.jsonl", "many.jsonl", "--batch-rows", "100", stdout=subprocess.PIPE)
    assert json.loads(process.stdout.readline()) == EXPECTED[0]
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(20) == 141
    process.stderr.close()


def test_an_interrupt_is_clean(files):
    process = start(
        "match", "s.jsonl", "-", "--output", "o", "--batch-rows", "1", stdin=subprocess.PIPE
    )
    process.stdin.write(b'{"price": 1}\n' * 10)
    process.stdin.flush()
    deadline = time.monotonic() + 20
    while not list(files.glob(".o.*.tmp")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert process.stderr.read() == b""
    assert sorted(p.name for p in files.iterdir()) == ["m.jsonl", "s.jsonl"]
    process.stdin.close()
    process.stderr.close()


def test_an_interrupt_that_python_drops_comes_again():
    """Python drops what is raised in a callback of a library, or in a `__del__`."""
    code = """if True:
        import os, signal, time
        from tamis.cli import commands

        class Dropping:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0)

        def command(*arguments, **options):
            del [Dropping()][:]
            time.sleep(20)

        commands.app = command
        raise SystemExit(commands.main(["x"]))
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_terminal_sees_a_summary(files):
    read, write = os.openpty()
    code = "import sys; from tamis.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"}
    arguments = [sys.executable, "-c", code, "match", "s.jsonl", "m.jsonl"]
    told: list[bytes] = []  # a terminal holds little: read while the command runs
    reader = threading.Thread(target=lambda: told.extend(iter(lambda: os.read(read, 4096), b"")))
    reader.daemon = True
    reader.start()
    process = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, stderr=write)
    deadline = time.monotonic() + 20
    while b"subscriptions" not in b"".join(told) and time.monotonic() < deadline:
        time.sleep(0.02)
    told_text = b"".join(told).decode(errors="replace")
    assert found(process.stdout.decode()) == EXPECTED
    assert "3 messages (2 matched), 4 matches, 3 subscriptions" in told_text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told(files):
    with Path("/dev/full").open("wb") as full:
        process = start("match", "s.jsonl", "m.jsonl", stdout=full)
        _, err = process.communicate()
    assert process.returncode == 2
    assert err == b"cannot write: No space left on device\n"


# --- draw ----------------------------------------------------------------------


def test_draw_writes_mermaid_or_svg_by_name(run, tmp_path):
    code, out, err = run("draw", ALICE, "-1 < price")
    assert (code, err) == (0, "")
    assert out.startswith("flowchart TD\n")
    assert "company CONTAINS 'IBM'<br/>Q1" in out
    assert run("draw", ALICE, "-1 < price", "--output", str(tmp_path / "x.mmd")) == (0, "", "")
    assert (tmp_path / "x.mmd").read_text() == out
    assert run("draw", ALICE, "--output", str(tmp_path / "x.svg")) == (0, "", "")
    assert (tmp_path / "x.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize("option", [["--output", "-"], ["--output=-"]])
def test_a_hyphen_is_standard_output(run, files, option):
    code, out, err = run("draw", ALICE, *option)
    assert (code, out, err) == run("draw", ALICE)
    assert out.startswith("flowchart")
    code, out, err = run("match", "s.jsonl", "m.jsonl", *option)
    assert (code, found(out), err) == (0, EXPECTED, "")


def test_draw_restricts_unless_told_otherwise(run):
    redundant = "n = 10 AND n > 8", "--schema", "n:int"
    assert "n #60; 9" not in run("draw", *redundant)[1]
    assert "n #60; 9" in run("draw", *redundant, "--unrestricted")[1]


def test_draw_prints_what_the_engine_makes_of_selectors(run, tmp_path):
    code, out, err = run("draw", "--compiled", "a < 5", "s NOT LIKE 'x'", "--dialect", "jms")
    assert (code, err) == (0, "")
    assert "cluster 0\n  2: a < 5\n" in out
    assert "  id 1: 5 = 2 ? 1 : 0; result 5; needs a IS NOT NULL\n" in out
    file = tmp_path / "segment.txt"
    assert run("draw", "--compiled", "a < 5", "--output", str(file)) == (0, "", "")
    assert file.read_text() == run("draw", "--compiled", "a < 5")[1]


def test_draw_takes_one_selector_from_standard_input(run, monkeypatch):
    give_input(monkeypatch, b"a = 1\n")
    assert run("draw", "-")[1] == run("draw", "a = 1")[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "draw what?"),
        (["a = 1", "--bogus"], "draw has no option --bogus"),
        (["-", "-"], "only one of the SELECTORS"),
        (["a = 1", "--output", "x.png"], "must end in .svg or .mmd"),
        (["a = 1", "--output", "/no/where/x.svg"], "cannot write /no/where/x.svg"),
        (["a ="], "the selector ends too early"),
        (["a = 1", "--semantics", "total"], "needs a schema"),
        ([" OR ".join(f"a{i} = 1" for i in range(401))], "401 nodes is too large to be drawn"),
    ],
)
def test_draw_says_what_is_wrong(run, arguments, complaint):
    code, out, err = run("draw", *arguments)
    assert (code, out) == (2, "")
    assert complaint in err


# --- run: its options and its job file (what it does is in tests/spark/test_run.py) ---------

VALUES = {
    "result": "semi",
    "semantics": "strict",
    "on-error": "raise",
    "dialect": "jms",
    "trigger": "5",
}


def given(*arguments):
    """What `tamis run` understands."""
    _, bound, *_ = app.parse_args(["run", *arguments], exit_on_error=False, print_error=False)
    return {name: value for name, value in bound.arguments.items() if name != "job"}


def run_options():
    """Each option with a value: as on the command line, and as in a job file."""
    for name in sorted(options_of("run")):
        bare = name.removeprefix("--")
        if bare.startswith("no-"):
            continue
        if bare in ("stream", "first"):
            yield bare, [name], "true"
        elif bare.endswith(("-option", "setting")):
            yield bare, [f"{name}=a.b=1", f"{name}=c=x=y"], '{a.b = 1, c = "x=y"}'
        elif bare == "messages-select":
            yield bare, [f"{name}=n + 1 AS m", f"{name}=-n"], '["n + 1 AS m", "-n"]'
        elif bare.startswith(("limit", "shard")):
            yield bare, [f"{name}=7"], "7"
        else:
            yield bare, [f"{name}={VALUES.get(bare, '-x')}"], f'"{VALUES.get(bare, "-x")}"'


RUN_OPTIONS = list(run_options())


@pytest.mark.parametrize(("name", "flags", "toml"), RUN_OPTIONS, ids=[o[0] for o in RUN_OPTIONS])
def test_a_job_file_knows_every_option_of_run(tmp_path, name, flags, toml):
    job = tmp_path / "job.toml"
    job.write_text(f"{name} = {toml}\n")
    assert given(str(job)) == given(*flags)
    assert given(*flags) != given()


def test_the_command_line_wins_over_the_job_file(tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(
        'messages = "a"\nstream = true\nresult = "semi"\nlimit-depth = 9\nmessages-select = ["n"]\n'
        "[setting]\nspark.a = 1\nspark.b = 2\n"
    )
    said = ["--messages", "b", "--no-stream", "--result", "match", "--setting", "spark.a=3"]
    found = given(str(job), *said, "--messages-select", "m")
    assert found["messages"].messages_select == ("m",)
    assert found["messages"].messages == "b"
    assert found["streaming"].stream is False
    assert found["result"] == "match"
    assert found["language"].limit_depth == 9
    assert pairs("setting", found["cluster"].setting) == {"spark.a": "3", "spark.b": "2"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("mesages = 'x'", "there is no option mesages; did you mean messages?"),
        ("output_mode = 'append'", "there is no option output_mode; did you mean output-mode?"),
        ("zzz = 1", "there is no option zzz\n"),
        ("job = 'x'", "there is no option job"),
        ("messages = ", "job.toml: "),
        ("messages = 1979-05-27", "messages must be text"),
        ("messages = [[1]]", "messages must be text"),
        ("result = 'all'", "all"),
        ("shards = 0", "--shards"),
        ("", "--messages is missing"),
        ("messages = 'm'", "--subscriptions is missing"),
        ("messages = 'm'\nsubscriptions = 's'", "--output is missing"),
    ],
)
def test_a_bad_job_file_is_refused_with_exit_code_2(run, tmp_path, text, what):
    job = tmp_path / "job.toml"
    job.write_text(text)
    code, out, err = run("run", str(job))
    assert (code, out) == (2, "")
    assert what in err
    assert "Traceback" not in err


def test_a_job_file_that_is_not_there_is_told(run):
    assert run("run", "gone.toml") == (2, "", "gone.toml: No such file or directory\n")


# --- check: names of files, and files -----------------------------------------


def test_check_of_a_file_name_says_what_was_meant(run, files):
    code, out, err = run("check", "s.jsonl")
    assert (code, out) == (2, "")
    assert "tamis check --file s.jsonl" in err


@pytest.mark.parametrize("selector", ["flag", "rules.csv", " `flag` "[1:-1].strip("`")])
def test_a_name_alone_is_noted(run, tmp_path, monkeypatch, selector):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("check", selector)
    assert code == 0
    assert out.startswith(f"{selector} = TRUE\n")
    assert err == "note: a name alone asks for a Boolean attribute that is TRUE\n"
    assert run("check", selector, "--schema", f"{selector}:bool")[2] == ""
    assert run("check", f"{selector} = TRUE")[2] == ""


@pytest.mark.parametrize("arguments", [[], ["a = 1", "--file", "s.jsonl"]])
def test_check_takes_a_selector_or_a_file(run, files, arguments):
    assert run("check", *arguments)[0] == 2


def test_check_of_a_good_file(run, files):
    assert run("check", "--file", "s.jsonl") == (0, "s.jsonl: 3 good subscriptions\n", "")


def test_check_of_a_file_by_schema_semantics_and_dialect(run, files):
    code, _, err = run("check", "--file", "s.jsonl", "--schema", "price:double")
    assert code == 2
    assert err.count("there is no attribute") == 2
    assert run("check", "--file", "s.jsonl", "--dialect", "jms")[0] == 2
    code, _, err = run("check", "--file", "s.jsonl", "--semantics", "strict")
    assert (code, err) == (0, "note: subscription 'carol': no message can match it\n")


def test_check_of_a_file_notes_what_is_odd(run, files):
    rows = [("a", "x > 1"), ("b", "x > 1"), ("c", "x = 1 AND x = 2"), ("d", " "), ("e", "flag")]
    write_lines(files / "odd.jsonl", [{"id": id, "selector": text} for id, text in rows])
    code, out, err = run("check", "--file", "odd.jsonl")
    assert (code, out) == (0, "odd.jsonl: 5 good subscriptions\n")
    assert "line 4: subscription 'd': the selector is empty" in err
    assert "line 5: subscription 'e': a name alone" in err
    assert "subscription 'c': no message can match it" in err
    assert "subscription 'a': the same messages match 'b'" in err


def test_match_notes_an_empty_selector(run, files):
    write_lines(files / "s.jsonl", [{"id": "all", "selector": ""}])
    code, out, err = run("match", "s.jsonl", "m.jsonl")
    assert (code, len(found(out))) == (0, 3)
    assert err.startswith("note: s.jsonl, line 1: subscription 'all': the selector is empty")


def test_draw_has_a_short_name_for_its_output(run, tmp_path):
    assert run("draw", ALICE, "-o", str(tmp_path / "x.svg")) == (0, "", "")
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


# --- the documentation ---------------------------------------------------------


def test_every_option_is_documented():
    text = (ROOT / "docs" / "commands.md").read_text()
    sections = dict(re.findall(r"^## `tamis (\w+)[^\n]*\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    commands = [name for name in app if not name.startswith("-")]
    commands.remove("flow")  # in docs/flows.md, and tested there
    assert sorted(sections) == sorted(commands)
    assert len(commands) >= 8
    apart = {"serve", "stop", "status", "top", "channel", "publish", "subscribe", "subscription",
             "principal", "access", "warm", "links", "try"}  # nothing is shared  # fmt: skip
    shared = re.search(r"^## Options of all commands\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    for command in commands:
        if command in apart:
            parts = [(command, name) for name in inner(command)] or [(command,)]
            options = set().union(*(options_of(*part) for part in parts))
            documented = set(re.findall(r"`(--[a-z-]+)", sections[command]))
            assert options == documented, command
            continue
        options = options_of(command)
        assert len(options) > 5
        documented = set(re.findall(r"`(--[a-z-]+)", sections[command] + shared))
        assert options <= documented, command
        assert documented <= options | {"--help", "--version"}, command


def test_the_examples_in_the_documentation_are_true(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "commands.md").read_text()
    shown = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for command, expected in re.findall(r"^\$ ([^\n]+)\n(.*?)(?=^\$ |\Z)", block, re.M | re.S):
            name, *arguments = shlex.split(command)
            if name == "cat":
                Path(arguments[0]).write_text(expected)
            else:
                _, out, err = run(*arguments)
                assert out + err == expected, command
                shown.append(arguments[0])
    assert {"check", "diff", "draw", "explain", "match", "report", "test"} <= set(shown)


def test_a_report_names_options_as_they_are_given() -> None:
    from tamis.cli.flows.flow_options import Ends
    from tamis.cli.jobs.job_options import told

    assert ("from", "Newark") in told(Ends(from_=("Newark=a.csv",)))
