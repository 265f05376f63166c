"""ILIKE is LIKE of characters without their case, one by one; on what is no string it is LIKE."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from tamis import Matcher, Schema
from tamis.language import canonical, parse
from tamis.language.patterns import folded
from tamis.language.tree import Attribute, Like

LETTERS = "aAbB%_!σςΣßẞİıiIſsKkǅǆᾈᾀŉé\n𐐀𐐨"
TEXTS = st.text(LETTERS, max_size=6)


def test_folding_keeps_every_character_one_character():
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            c = chr(code)
            assert len(folded(c)) == 1
            assert folded(folded(c)) == folded(c) == oracle.fold(c)


@given(TEXTS, TEXTS)
def test_folding_looks_at_no_neighbours(left: str, right: str):
    assert folded(left + right) == folded(left) + folded(right)


@given(text=TEXTS, pattern=TEXTS, escape=st.sampled_from([None, "!", "s", "Σ", "A"]))
def test_it_is_like_of_folded_characters(text: str, pattern: str, escape: str | None):
    if escape is not None and (len(pattern) - len(pattern.rstrip(escape))) % 2:
        pattern += escape
    condition = Like(Attribute("s"), pattern, escape, any_case=True)
    selector = canonical(condition)
    assert parse(selector) == condition
    expected = oracle.matches(condition, {"s": text})
    for schema in (None, Schema.of(s=str)):
        matcher = Matcher(schema)
        matcher.add("is", selector)
        matcher.add("not", f"NOT ({selector})")
        said = ["is"] if expected else ["not"]
        assert matcher.match({"s": text}) == said
        assert matcher.match_batch(pa.table({"s": [text]})).to_pylist() == [said]


@pytest.mark.parametrize("value", [5, 1.5, True, [], b"a", {"a": 1}])
def test_what_is_no_string_is_like_nothing(value: object):
    matcher = Matcher()
    for op in ("LIKE", "ILIKE"):
        for selector in (f"x {op} 'a%'", f"NOT (x {op} 'a%')", f"x NOT {op} 'a%'"):
            matcher.add(selector, selector)
    found = matcher.match({"x": value})
    assert found == matcher.match_many([{"x": value}]).to_pylist()[0]
    assert len(found) == 4
    assert all("NOT" in selector for selector in found)
    assert matcher.match({}) == []


def test_case_variants_of_one_text():
    matcher = Matcher()
    for selector in ("s ILIKE '%σ'", "s ILIKE '%Σ'", "s ILIKE '%ς'", "s ILIKE '%σ%'"):
        matcher.add(selector, selector)
    for text in ("ΟΔΟΣ", "οδος", "οδοσ", "ΟΔΟς"):
        assert len(matcher.match({"s": text})) == 4


def test_one_character_stays_one():
    matcher = Matcher()
    matcher.add_many([(s, s) for s in ("s ILIKE '_stanbul'", "s LIKE '_stanbul'", "s ILIKE 'i%'")])
    assert matcher.match({"s": "İstanbul"}) == ["s ILIKE '_stanbul'", "s LIKE '_stanbul'"]
    assert matcher.match({"s": "ISTANBUL"}) == ["s ILIKE '_stanbul'", "s ILIKE 'i%'"]


def test_constants_too():
    matcher = Matcher()
    matcher.add_many([(s, s) for s in ("'ΟΔΟΣ' ILIKE '%ς'", "'Straße' ILIKE 'STRASSE'")])
    assert matcher.match({}) == ["'ΟΔΟΣ' ILIKE '%ς'"]
