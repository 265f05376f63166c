"""The playground, inside a broker and by itself, and the form for selectors."""

from __future__ import annotations

import signal
import subprocess
import sys

import httpx
import pytest
from hypothesis import given, settings

from dose import dose
from strategies import conditions
from tamis.language import canonical, parse
from tamis.logic import explain
from tamis.server.pages.by_form import Row, rows_of, selector_of
from tamis.server.pages.playing import MOST, SEMANTICS, play

SCHEMA = "symbol string\nprice double\nvolume int"


def test_all_semantics_side_by_side():
    messages = '{"price": 1}\n{"volume": 9, "symbol": "a", "price": 2}'
    found = play(SCHEMA, "NOT (volume > 500)", messages, "tamis", (0, 0))
    assert found.truths[1] == [[True] * 4]
    row = dict(zip(SEMANTICS, found.truths[0][0], strict=True))
    assert (row["sql"], row["strict"], row["default"]) == (False, False, True)
    assert "does not define" in row["total"]
    assert found.explained is not None
    assert not found.explained.matches
    assert str(found.drawing).startswith("<svg")
    assert "<style" not in found.drawing


def test_what_cannot_be_read_is_told_in_its_place():
    found = play(SCHEMA, "price <\nprice < 3", '{"price": 1}', "tamis", (0, 0))
    assert found.selectors[0].error is not None
    assert found.truths[0][1][0] is True
    for schema, messages in (("a nothing", "{}"), ("", "{"), ("", "7"), ("", "[" * 10_000)):
        assert play(schema, "TRUE", messages, "tamis", (0, 0)).error is not None
    assert play("", "TRUE\n" * (MOST + 1), "", "tamis", (0, 0)).error is not None


def test_never_and_always_are_noted():
    found = play("", "price < 1 AND price > 2", "", "tamis", (0, 0))
    assert found.selectors[0].note == "unsatisfiable"


@pytest.fixture(scope="module")
def alone():
    """`tamis try`, as somebody runs it."""
    program = "from tamis.cli import main; main()"
    command = [sys.executable, "-c", program, "try", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        place = running.stdout.readline().split()[-1].removesuffix("/try")
        with httpx.Client(base_url=place, follow_redirects=True, timeout=20) as http:
            yield http
        running.send_signal(signal.SIGINT)
        assert running.wait(20) in (0, 130, -2)


def test_the_playground_by_itself(alone):
    page = alone.get("/")
    assert page.status_code == 200
    assert "price &lt; 100 AND symbol" in page.text
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "data-live-socket" not in page.text
    shown = alone.get("/try", params={"selectors": "<script>", "messages": "{}"}).text
    assert "<script>" not in shown.partition("<main")[2]
    assert alone.get("/try", params={"s": "x"}).status_code == 422
    for name in page.text.split("/static/")[1:]:
        assert alone.get("/static/" + name.split('"')[0]).status_code == 200
    dark = alone.post("/theme", data={"theme": "dark", "next": "/try"})
    assert 'data-theme="dark"' in dark.text
    assert alone.post("/theme", data={"next": "//evil.example"}).url.host == "127.0.0.1"
    foreign = alone.post("/theme", data={"theme": "light"}, headers={"sec-fetch-site": "same-site"})
    assert foreign.status_code == 403


def test_a_name_that_was_pointed_at_this_machine_shows_nothing(alone):
    answer = alone.get("/try", headers={"host": "evil.example"})
    assert (answer.status_code, "Playground</h1>" in answer.text) == (403, False)


# --- selectors by form ------------------------------------------------------------------


@given(conditions())
@settings(max_examples=dose(30, 1_000), deadline=None)
def test_rows_mean_what_the_text_means(condition):
    text = canonical(condition)
    rows = rows_of(text, "tamis")
    if rows:
        assert parse(selector_of(rows, {})) == parse(text)


@pytest.mark.parametrize(
    ("rows", "types", "selector"),
    [
        ([("price", "<", "10")], {"price": "double"}, "price < 10"),
        ([("code", "=", "10")], {"code": "string"}, "code = '10'"),
        ([("code", "=", "10")], {}, "code = 10"),
        ([("name", "=", "O'Hara")], {}, "name = 'O''Hara'"),
        ([("a", "IN", "x, 'y, z'"), ("b", "IS NULL", "")], {}, "a IN ('x', 'y, z') AND b IS NULL"),
        ([("a b", "CONTAINS", "12")], {}, "`a b` CONTAINS '12'"),
    ],
)
def test_a_form_says(rows, types, selector):
    made = selector_of([Row(*row) for row in rows], types)
    assert made == selector
    parse(made)


def test_text_that_is_not_a_plain_conjunction_has_no_form():
    for text in ("a = 1 OR b = 2", "NOT (a = 1)", "price * 2 > 3", "a <"):
        assert rows_of(text, "tamis") is None


def test_the_explanation_is_that_of_the_library(alone):
    shown = explain(parse("price < 2"), {"price": 1.0})
    page = alone.get("/try", params={"selectors": "price < 2", "messages": '{"price": 1.0}'})
    assert shown.lines[0].why in page.text
