"""The report: whatever a selector says, it is text."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.spark.jobs.page import Facts, page, spread
from tamis.spark.jobs.page_charts import area, bars, ceiling, short

FACTS = Facts(
    title="tamis run: match",
    when="2013-01-01 12:00 UTC",
    figures=[("rows", "1,000")],
    settings=[("messages", "m.parquet")],
    pace=[(0.0, 10.0), (0.25, 20.0), (1.0, 5.0)],
    step=0.25,
    counts=[1, 2, 30],
    never=4,
    silent=[("quiet", "price < 0")],
    costly=[("slow", "NOT price = 1", 1)],
    costly_in_all=1,
    top=[("a", "price > 1", 30)],
    refused=[],
    refused_in_all=0,
    bad_rows=0,
)
VOID = {"meta", "path", "rect"}
HOSTILE = (
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "</code></td></table></main><iframe src=//evil>",
    "a\x00b\x1b[31m",
    "\u202e gnorw",
    "&lt;b&gt;",
    "<!--",
    "]]>",
    "\ud800",
)


class Reader(HTMLParser):
    """All tags, attributes and texts; every tag must be closed in turn."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.open = set(), set(), [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


PLAIN = Reader(page(FACTS))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    bad = (text, text, text)
    hostile = replace(
        FACTS, title=text, top=[(text, text, 3)], refused=[bad], refused_in_all=1,
        settings=[(text, text)], figures=[(text, text)],
    )  # fmt: skip
    made = page(hostile)
    made.encode("utf-8", "replace")
    read = Reader(made)
    assert read.tags <= PLAIN.tags
    assert read.attributes <= PLAIN.attributes
    shown = "".join(c if c.isprintable() or c == "\u202e" else "�" for c in text)
    assert read.texts.count(shown) >= 8


@given(st.text())
def test_any_text_keeps_the_page_whole(text):
    read = Reader(page(replace(FACTS, top=[(text, text, 3)])))
    assert read.tags <= PLAIN.tags


def test_it_loads_and_runs_nothing():
    made = page(FACTS)
    assert {"script", "link", "img", "iframe", "object"} & PLAIN.tags == set()
    assert {"src", "href", "onclick", "onload"} & PLAIN.attributes == set()
    assert "default-src 'none'" in made
    assert "url(" not in made
    assert "http://" not in made.replace("http-equiv", "")


def test_long_selectors_are_cut():
    made = page(replace(FACTS, top=[("a", "x" * 100_000, 3)]))
    assert len(made) < 20_000


def test_what_was_not_counted_or_did_not_happen_is_said():
    assert "Not counted" in page(replace(FACTS, counts=None, top=[]))
    assert "No row was matched" in page(replace(FACTS, pace=[], counts=[], top=[]))
    assert "None." in page(FACTS)
    many = replace(FACTS, refused=[("a", "b", "c")], refused_in_all=7, bad_rows=1234)
    assert "7 bad selectors, of which 1 are shown" in page(many)
    assert "1,234 bad rows" in page(many)


@given(st.lists(st.integers(1, 10**7)), st.integers(0, 100))
def test_every_subscription_is_in_one_bar(counts, never):
    named = spread(counts, never)
    assert sum(count for _, count in named) == len(counts) + never
    assert named[0] == ("0", never)


def test_bars_begin_at_their_numbers():
    assert spread([1, 2, 4, 5, 9, 10, 19, 20], 3) == [
        ("0", 3), ("1", 1), ("2", 2), ("5", 2), ("10", 2), ("20", 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (1000, "1k"),
        (1234, "1.2k"),
        (12_345, "12k"),
        (999_999, "1M"),
        (5.6e6, "5.6M"),
    ],
)
def test_numbers_are_short(number, shown):
    assert short(number) == shown


@given(st.floats(1, 1e12))
def test_scales_end_at_round_numbers(number):
    top = ceiling(number)
    assert number <= top <= number * 1.6 or top == 1
    assert float(f"{top:.2g}") == top


def test_charts_stay_inside_their_frame():
    drawn = area([(i / 4, i * 1000.0) for i in range(40)], 0.25, "t", "seconds")
    drawn += bars([(str(i), i) for i in range(20)], "t", "matches")
    assert "nan" not in drawn
    assert drawn.count("<rect") == 20
    for word in drawn.replace("M", " ").replace("V", " ").replace("H", " ").split('"'):
        for number in word.split():
            if number.replace(".", "").isdigit():
                assert 0 <= float(number) <= 480


def test_labels_of_bars_have_room():
    for most in (1, 9, 999, 1_000, 10**6, 10**9):
        named = spread([most], 3)
        assert sum(height for _, height in named) == 4
        assert len(named) <= 14
        room = 414 / len(named)
        assert all(len(name) * 7 <= room for name, _ in named), named


def test_rules_that_never_matched_and_costly_ones_are_named():
    told = Reader(page(replace(FACTS, costly_in_all=30))).texts
    text = " ".join(told)
    assert "Never matched" in text
    assert "quiet" in text
    assert "price < 0" in text
    assert "30 subscriptions, of which 1 are shown" in text
    assert "slow" in text
    assert "Never matched" not in page(replace(FACTS, counts=None))
