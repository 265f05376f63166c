"""The commands of the broker against a real server."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys

import pytest

from server.servers import served
from tamis.cli import main
from tamis.registry import SqliteRegistry


@pytest.fixture
def server(tmp_path, monkeypatch):
    with served(tmp_path / "data") as found:
        monkeypatch.setenv("TAMIS_SERVER", found.url)
        yield found


@pytest.fixture
def run(capfd):
    def call(*arguments):
        code = main(list(arguments))
        out, err = capfd.readouterr()
        return code, out, err

    return call


def test_from_a_channel_to_its_messages(server, run, tmp_path):
    form = "symbol:string,price:double"
    assert run("channel", "create", "quotes", form, "--sentence", "Quotes")[0] == 0
    assert (
        "quotes\t0 messages\t0 subscriptions\tsymbol:string,price:double"
        in run("channel", "list")[1]
    )
    file = tmp_path / "m.jsonl"
    lines = [{"symbol": s, "price": p} for s, p in (("IBM", 95.0), ("LU", 5.0), ("IBM", 120.0))]
    file.write_text("\n".join(map(json.dumps, lines)))
    for _ in range(2):  # the second time nothing is stored
        code, _, err = run("publish", "quotes", str(file), "--publisher", "p", "--batch", "2")
        assert (code, err) == (0, "3 messages published\n")
    assert json.loads(run("channel", "show", "quotes")[1])["next"] == 4
    code, out, _ = run("subscribe", "quotes", "symbol = 'IBM'", "--from", "all", "--count", "2",
                       "--durable", "mine", "--explain")  # fmt: skip
    assert code == 0
    assert out.count('"symbol": "IBM"') == 2
    assert out.count("=> match") == 2
    code, out, _ = run("publish", "quotes", str(file), "--dry-run")
    assert out.splitlines() == ['["mine"]', "[]", '["mine"]']
    assert run("channel", "close", "quotes")[0] == 0
    assert run("channel", "list")[1] == ""


@pytest.mark.parametrize("batch", ["1", "2", "500"])
@pytest.mark.parametrize("bad", ['{"price": "much"}', '{"price": 1.0', "[1]"])
def test_publishing_names_the_line_that_is_refused(server, run, tmp_path, batch, bad):
    assert run("channel", "create", "quotes", "price:double")[0] == 0
    file = tmp_path / "m.jsonl"
    file.write_text(f'{{"price": 1.0}}\n\n{{"price": 2.0}}\n{{"price": 3.0}}\n{bad}\n')
    code, _, err = run("publish", "quotes", str(file), "--batch", batch)
    stored = json.loads(run("channel", "show", "quotes")[1])["next"] - 1
    assert code == 2
    assert f"{file}: line 5: " in err
    assert "message " not in err.partition("line 5: ")[2]  # no other way of counting
    assert err.startswith(f"{stored} messages published, then:\n")
    assert stored == {"1": 3, "2": 2, "500": 0}[batch]


def test_publishing_to_no_channel_blames_no_line(server, run, tmp_path):
    file = tmp_path / "m.jsonl"
    file.write_text('{"price": 1.0}\n')
    code, _, err = run("publish", "nowhere", str(file))
    assert code == 2
    assert "line" not in err


TABLE_13 = """[ChannelSubjects 5]
NumberOfSubjects=1
subject1=Quotes.Nyse
mapping1=102.101
[ChannelAttributes 5]
NumberOfAttributes=2
name1=StockId
type1=PC_UINT_TYPE
name2=Price
type2=PC_DOUBLE_TYPE
decimals2=2
[ChannelProperties 5]
Timeout=60
"""
TOML = """[[channel]]
id = 5
retention = 30
[channel.subjects]
"Quotes.Nyse" = "102.101"
"Quotes.Lse" = "102.300"
[[channel.attributes]]
name = "StockId"
type = "uint32"
[[channel.attributes]]
name = "Price"
type = "double"
decimals = 2
[[channel.attributes]]
name = "Note"
type = "string"
"""


def test_us6910033_table_13_a_channel_from_a_file(server, run, tmp_path):
    old, new = tmp_path / "channels.ini", tmp_path / "channels.toml"
    old.write_text(TABLE_13)
    new.write_text(TOML)
    assert run("channel", "create", "quotes", "--file", str(old))[0] == 0
    shown = json.loads(run("channel", "show", "quotes")[1])
    assert shown["attributes"] == {"StockId": "uint32", "Price": "double"}
    assert (shown["subjects"], shown["retention"]) == (["Quotes.Nyse"], 60)
    assert run("channel", "create", "quotes", "--file", str(new))[0] == 0  # it grows
    shown = json.loads(run("channel", "show", "quotes")[1])
    assert (list(shown["attributes"]), shown["retention"]) == (["StockId", "Price", "Note"], 30)
    (channel,) = server.parts.channels.by_name.values()
    assert channel.channel.numbers["Lse"] == 300
    assert channel.channel.attributes[1].decimals == 2
    code, _, err = run("channel", "create", "quotes", "--file", str(old))
    assert (code, "can be added, not changed" in err) == (2, True)
    new.write_text(TOML.replace('"102.300"', '"102.301"'))
    code, _, err = run("channel", "create", "quotes", "--file", str(new))
    assert (code, "'Lse' has number 300: it stays so" in err) == (2, True)
    code, _, err = run("channel", "create", "more", "a:int", "--file", str(old))
    assert (code, "instead of attributes" in err) == (2, True)
    old.write_text(TABLE_13 + TABLE_13.replace(" 5]", " 6]"))
    code, _, err = run("channel", "create", "more", "--file", str(old))
    assert (code, "choose one with --number" in err) == (2, True)
    assert run("channel", "create", "more", "--file", str(old), "--number", "6")[0] == 0
    code, _, err = run("channel", "create", "more", "--file", str(tmp_path / "none"))
    assert (code, "No such file" in err) == (2, True)


def test_what_is_wrong_is_told(server, run, tmp_path):
    assert run("channel", "create", "quotes", "price:double")[0] == 0
    code, _, err = run("subscribe", "quotes", "price >")
    assert (code, "ends too early" in err) == (2, True)
    code, _, err = run("publish", "nowhere", str(tmp_path / "none.jsonl"))
    assert (code, "No such file" in err) == (2, True)
    code, _, err = run("channel", "list", "--server", "http://127.0.0.1:1")
    assert (code, "refused" in err) == (2, True)


def test_a_principal_with_rights_and_a_token(server, run, tmp_path, monkeypatch):
    right = ("--right", "subscribe:quotes:nyse.>", "--right", "manage:*")
    where = ("--directory", str(tmp_path / "data"))
    code, token, _ = run("principal", "boss", *where, *right, "--token")
    assert code == 0
    code, _, err = run("channel", "list")  # from now on one must say who one is
    assert (code, "say who you are" in err) == (2, True)
    assert run("channel", "create", "quotes", "--token", token.strip())[0] == 0
    monkeypatch.setattr(secrets, "token_urlsafe", lambda size: "-" + "x" * size)
    _, dashed, _ = run("principal", "boss", *where, "--token")  # one in 64 begins like this
    assert dashed.startswith("-")
    assert run("channel", "list", "--token", dashed.strip())[0] == 0
    registry = SqliteRegistry(tmp_path / "data" / "registry.db")
    assert len(registry.rights("boss")) == 2
    registry.close()
    code, _, err = run("principal", "boss", *where, "--right", "fly:*")
    assert (code, "is not a right" in err) == (2, True)


def test_without_the_extra_one_sentence_says_what_is_missing():
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'msgspec' else real(name, *a)\n"
        "from tamis.cli import main; sys.exit(main(['channel', 'list']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "the broker needs msgspec: pip install 'tamis[broker]'\n"


def test_what_was_missed_comes_as_its_summary(server, run, tmp_path):
    """Gryphon's example: [IBM, 200], [IBM, 120] after an absence."""
    state = tmp_path / "quote.flow"
    state.write_text("state Quote keyed by symbol from quotes ordered by sequence "
                     "(max: double := 0, cur: double := 0)\n"
                     "  rule price > max => max := price, cur := price\n"
                     "  rule             => cur := price\n")  # fmt: skip
    run("channel", "create", "quotes", "symbol:string,price:double")
    mine = ["subscribe", "quotes", "--durable", "mine", "--summary", str(state), "--count", "2"]

    def publish(*prices):
        file = tmp_path / "m.jsonl"
        file.write_text("\n".join(json.dumps({"symbol": "IBM", "price": p}) for p in prices))
        assert run("publish", "quotes", str(file))[0] == 0

    publish(160.0, 140.0)
    first = run(*mine, "--from", "all")[1]
    assert (first.count("\n"), "summarised" in first) == (2, False)
    publish(150.0, 200.0, 180.0, 170.0, 120.0)
    code, out, _ = run(*mine)
    assert code == 0
    got = [json.loads(line) for line in out.splitlines()]
    assert [one["attributes"]["price"] for one in got] == [200.0, 120.0]
    assert [one.get("summarised", False) for one in got] == [True, False]  # the last is real
    code, _, err = run("subscribe", "quotes", "--summary", str(state))
    assert (code, "--summary needs --durable" in err) == (2, True)
    code, _, err = run("subscribe", "quotes", "--durable", "x", "--summary", str(tmp_path / "no"))
    assert (code, "No such file" in err) == (2, True)


def test_following_a_channel_reports_what_the_table_cannot_hold(server, run, tmp_path):
    assert run("channel", "create", "quotes", "price:double")[0] == 0
    for name, selector in (("good", "price > 1"), ("odd", "prise > 1")):
        assert run("subscription", "create", "quotes", name, selector)[0] == 0
    code, out, err = run("channel", "follow", "quotes", str(tmp_path / "table"), "--once")
    assert (code, out) == (0, "version 1: 1 subscription\n")
    assert err.startswith("subscription odd is put aside: ")
    assert "prise" in err
