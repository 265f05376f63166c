"""A decimal means the same by every way in: the double that reads back as the same decimal."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from tamis import Matcher, MessageError, Schema
from tamis.language import parse

SELECTORS = [
    "x > 10",
    "NOT (x > 10)",
    "x = 12.5",
    "x IN (1, 12.5)",
    "x IS NULL",
    "x + 1 < 3",
    "x = 'a'",
]
DECIMALS = st.decimals(allow_infinity=False, min_value=-(10**20), max_value=10**20, places=2)


def answers(matcher: Matcher, way: str, value: Any) -> list[Any]:
    if way == "batch":
        return matcher.match_batch(pa.table({"x": pa.array([value])})).to_pylist()[0]
    if way == "many":
        return matcher.match_many([{"x": value}]).to_pylist()[0]
    return matcher.match({"x": value})


@pytest.mark.parametrize("schema", [None, Schema.of(x=float)])
@given(value=DECIMALS)
def test_every_way_says_the_same(schema: Schema | None, value: decimal.Decimal):
    matcher = Matcher(schema)
    selectors = [s for s in SELECTORS if schema is None or "'" not in s]
    matcher.add_many(enumerate(selectors))
    found = []
    for way in ("one", "many", "batch"):
        try:
            found.append(answers(matcher, way, value))
        except MessageError as error:
            found.append("has more digits than a double" in str(error))
    assert found[0] == found[1] == found[2] is not False
    if found[0] is not True:
        message = {"x": value}
        said = [
            i for i, s in enumerate(selectors) if oracle.matches(parse(s), message, "sql", schema)
        ]
        assert found[0] == said


@pytest.mark.parametrize("value", [None, float("nan"), decimal.Decimal("NaN")])
def test_what_is_missing_is_undefined(value: Any):
    pandas = pytest.importorskip("pandas")
    matcher = Matcher()
    matcher.add_many([("null", "x IS NULL"), ("some", "x IS NOT NULL"), ("not", "NOT (x = 1)")])
    for missing in (value, pandas.NA, pandas.NaT):
        assert matcher.match({"x": missing}) == ["null"]
        assert matcher.match_many([{"x": missing}]).to_pylist() == [["null"]]


def test_what_a_lookup_gives_is_read_like_an_attribute():
    pandas = pytest.importorskip("pandas")
    table = {"IBM": decimal.Decimal("12.50"), "SAP": pandas.NA}
    matcher = Matcher(lookups={"price": table})
    matcher.add_many([("gt", "price(s) > 10"), ("null", "price(s) IS NULL")])
    assert matcher.match({"s": "IBM"}) == ["gt"]
    assert matcher.match({"s": "SAP"}) == ["null"]
    rows = pa.table({"s": ["IBM", "SAP", "HP"]})
    assert matcher.match_batch(rows).to_pylist() == [["gt"], ["null"], ["null"]]
