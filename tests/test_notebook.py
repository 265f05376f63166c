"""What things look like: in a terminal, and in a notebook."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tamis import Matcher, Schema
from tamis.table import Subscriptions


@pytest.fixture
def matcher() -> Matcher:
    made = Matcher(Schema.of(x=int, s=str))
    made.add_many([("<b>", "s = '<script>'"), *((f"i{i}", f"x > {i}") for i in range(20))])
    return made


def test_reprs_tell(matcher: Matcher, tmp_path):
    assert repr(matcher) == "<Matcher: 21 subscriptions, 2 attributes, sql semantics>"
    assert repr(Matcher()) == "<Matcher: 0 subscriptions, no schema, sql semantics>"
    matches = matcher.match_batch(pa.table({"x": [2, -1]}))
    assert repr(matches) == "<Matches: 2 rows, 1 matched, 2 ids>"
    explained = matcher.explain("i1", {"x": 2})
    assert repr(explained) == str(explained) == "x > 1  true     x = 2\n=> match"
    table = Subscriptions.create(tmp_path / "t")
    table.add("a", "x > 1")
    assert repr(table) == f"<Subscriptions '{tmp_path / 't'}': version 1, 1 of them>"


def test_a_table_that_is_gone_has_a_repr(tmp_path):
    table = Subscriptions.create(tmp_path / "t")
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    assert repr(table).startswith("<Subscriptions '")


def test_html_holds_no_markup_of_others(matcher: Matcher, tmp_path):
    table = Subscriptions.create(tmp_path / "<i>")
    table.add("<b>", "s = '<script>'", "<u>")
    matches = matcher.match_batch(pa.table({"s": ["<script>"] * 30, "x": [50] * 30}))
    for shown in (matcher, matches, matcher.explain("<b>", {"s": "<script>"}), table):
        html = shown._repr_html_()
        assert html.startswith("<table>")
        assert not {"<script>", "<b>", "<i>", "<u>"} & set(html.replace("><", "> <").split())
        assert "<script" not in html
        assert html.count("<tr>") <= 11
    assert "&lt;b&gt;" in matcher._repr_html_()
    assert Matcher().match_batch(pa.table({"x": [1]}))._repr_html_().count("<td>") == 2
