"""`tamis wire`, and the pages that describe packets and routes."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tamis.cli import main
from tamis.pubsub.packet_lines import drawing, rows, said
from tamis.pubsub.subjects.channel import RESERVED
from tamis.pubsub.subjects.channel_files import read_channels
from tamis.pubsub.subjects.typecodes import FORMS, c_name, named
from tamis.pubsub.wire import Codec, Notification, Operator
from tamis.pubsub.wire.wire_messages import CONTROLS

DOCS = Path(__file__).parents[2] / "docs"
WIRE = (DOCS / "wire.md").read_text(encoding="utf-8")
CHANNEL = """
[[channel]]
id = 2
[channel.subjects]
"quotes.nyse" = "102.101"
[[channel.attributes]]
name = "price"
type = "uint32"
[[channel.attributes]]
name = "symbol"
type = "chararray"
[[channel.attributes]]
name = "when"
type = "timestamp"
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("channel.toml").write_text(CHANNEL, encoding="utf-8")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["wire", *arguments, "--channel", "channel.toml"])
        return (code, *capsys.readouterr())

    return call


def test_a_packet_is_drawn_and_read_again(run) -> None:
    code, hexadecimal, _ = run("price > 5 AND symbol = 'LU'", "--hex", "--subscription", "7")
    assert code == 0
    code, drawn, _ = run(hexadecimal.strip(), "--decode")
    assert code == 0
    assert "operand of price >=" in drawn
    assert drawn.splitlines()[-1] == "Subscription 7 to >: price >= 6 AND symbol = 'LU'"


def test_messages_are_encoded(run) -> None:
    message = '{"price": 7, "symbol": "LU", "when": "2000-02-01T00:00:00Z", "note": "hello"}'
    code, drawn, _ = run(message, "--message", "--subject", "quotes.nyse")
    assert code == 0
    assert "2000-02-01 00:00:00+00:00" in drawn
    assert drawn.splitlines()[-1].endswith("note = 'hello'")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["symbol LIKE '%a'"], "ask for a wider filter"),
        (["00ff", "--decode"], "the packet"),
        (["xyz", "--decode"], "hexadecimal"),
        (["{}", "--message"], "needs a --subject"),
        (["{}", "--message", "--subject", "a.b"], "has no number"),
        (["{}", "--message", "--decode"], "choose one"),
        (["price = 1", "--number", "9"], "choose one with --number"),
        (["price = 1", "--schema", "price:int"], "those of the channel"),
        (["price = 1 OR symbol = 'a'", "--limit-terms", "1"], "--limit-terms raises it"),
    ],
)
def test_what_is_wrong_is_told(run, arguments: list[str], what: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert re.search(what, err)


def test_widening_on_request(run) -> None:
    code, out, _ = run("symbol LIKE '%a' AND price = 1", "--widen")
    assert code == 0
    assert out.splitlines()[-1] == "Subscription 0 to >: price = 1 AND symbol >= ''"


def test_rows_of_a_drawing_are_the_packet() -> None:
    import random
    import sys

    sys.path.insert(0, str(Path(__file__).parent))
    import packets

    import strategies as st

    dice = st.Rolled(random.Random("drawing"))
    for channel in packets.CHANNELS:
        codec = Codec(channel)
        for _ in range(40):
            message = packets.message(dice, channel)
            packet = codec.encode(message)
            assert b"".join(row.data for row in rows(codec, packet)) == packet
            assert len(drawing(codec, packet).splitlines()) > 6
            nul = isinstance(message, Notification) or "\\0" in repr(message)
            assert nul or said(codec, message)


# --- the pages ----------------------------------------------------------------------


def test_the_page_on_packets_names_every_number() -> None:
    for code, form in FORMS.items():
        (line,) = re.findall(rf"^\| {code:d} \| `{form.toml}`.*$", WIRE, re.MULTILINE)
        assert c_name(code) in line
    for name, number in RESERVED.items():
        assert re.search(rf"`{re.escape(name)}` \| {number}\b", WIRE), name
    for operator in Operator:
        assert re.search(rf"^\| {operator:d} ", WIRE, re.MULTILINE)
    for name, (_, attributes) in CONTROLS.items():
        (line,) = re.findall(rf"^\| `#.{name}` .*$", WIRE, re.MULTILINE)
        assert all(f"`{own}`" in line for own, _ in attributes.values())


def test_names_of_types_on_the_page_are_known() -> None:
    for name in re.findall(r"`(PC_\w+_TYPE)`", WIRE):
        assert named(name) in FORMS


def test_the_channel_on_the_page_can_be_read() -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```", WIRE, re.MULTILINE | re.DOTALL)
    (channel,) = read_channels(text).values()
    assert (channel.properties.persistent, channel.properties.retention) == (True, 1440)
    assert [a.decimals for a in channel.attributes] == [None, 2]


def test_the_python_on_the_page_runs(tmp_path, monkeypatch) -> None:
    (channel,) = re.findall(r"^```toml\n(.*?)^```", WIRE, re.MULTILINE | re.DOTALL)
    (code,) = re.findall(r"^```python\n(.*?)^```", WIRE, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("channels.toml").write_text(channel, encoding="utf-8")
    names: dict[str, object] = {}
    exec(
        code.replace('open("channels.toml").read()', "open_text()"),
        {"open_text": lambda: Path("channels.toml").read_text(encoding="utf-8"), **names},
    )


def test_the_page_on_routing_is_true() -> None:
    text = (DOCS / "routing.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```pycon\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(code, {}, "routing.md", "routing.md", 0)
    assert len(example.examples) > 20
    assert doctest.DocTestRunner().run(example).failed == 0
