"""Times as text: read wherever the schema says timestamp, the same by every way in."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import oracle
from tamis import Matcher, MessageError, Schema, SchemaError
from tamis.language import parse
from tamis.schema import Attribute, Type

SCHEMA = Schema.of({"t": "timestamp", "ts": "list<timestamp>", "m": "map<string,timestamp>"})
SELECTORS = {
    "first": "t = TIMESTAMP '2013-01-01'",
    "later": "t > TIMESTAMP '2013-01-01T10:30:00'",
    "hour": "hour(t) = 10",
    "any": "ANY(ts) >= TIMESTAMP '2013-01-01'",
    "map": "m['k'] < TIMESTAMP '2013-01-01T12:00:00Z'",
    "null": "t IS NULL",
}
DAYS = ("2013-01-01", "20130101", "2013-W01-2", "2012-12-31", "0001-01-01", "9999-12-31")
CLOCKS = ("", "T10", " 10:30", "T10:30:00", "T103000", "t10:30:00.5", "T23:59:59.123456789")
ZONES = ("", "Z", "+02:00", "-0530", "+02", "-23:59:59")
TEXTS = [
    day + clock + (zone if clock else "")
    for day, clock, zone in itertools.product(DAYS, CLOCKS, ZONES)
]
BAD = (
    "", "soon", " 2013-01-01", "2013-01-01 ", "2013-13-01", "2013-1-1", "0000-01-01", "10000-01-01",
    "2013-01-01T25:00", "2013-01-01T10:60", "2013-01-01T10:00:61Z", "2013-01-01Z", "1357000000",
    "é", "0001-01-01T00:00:00+01:00", "2013-01-01T10:30+24:00", "x" * 500,
)  # fmt: skip


def matcher() -> Matcher:
    made = Matcher(SCHEMA)
    made.add_many(SELECTORS.items())
    return made


def table(rows: list[dict[str, Any]], text: pa.DataType) -> pa.Table:
    types = {"t": text, "ts": pa.list_(text), "m": pa.map_(pa.string(), text)}
    columns = {n: [list(r[n].items()) if n == "m" else r[n] for r in rows] for n in types}
    return pa.table(
        {
            n: pa.array(columns[n], pa.string() if n == "t" else types[n]).cast(types[n])
            for n in types
        }
    )


def message(text: str) -> dict[str, Any]:
    return {"t": text, "ts": [text, None], "m": {"k": text}}


WAYS: dict[str, Callable[[Matcher, list[dict[str, Any]]], list[list[Any]]]] = {
    "one": lambda m, rows: [m.match(row) for row in rows],
    "many": lambda m, rows: m.match_many(rows).to_pylist(),
    "batch": lambda m, rows: m.match_batch(rows).to_pylist(),
    "string": lambda m, rows: m.match_batch(table(rows, pa.string())).to_pylist(),
    "large": lambda m, rows: m.match_batch(table(rows, pa.large_string())).to_pylist(),
    "explained": lambda m, rows: [[id for id in m if m.explain(id, r).matches] for r in rows],
}


@pytest.mark.parametrize("way", WAYS)
def test_times_as_text_match_what_the_oracle_says(way: str) -> None:
    rows = [message(text) for text in readable()]
    conditions = {id: parse(text) for id, text in SELECTORS.items()}
    expected = [
        [id for id, c in conditions.items() if oracle.matches(c, row, "sql", SCHEMA)]
        for row in rows
    ]
    assert {id for ids in expected for id in ids} == {*SELECTORS} - {"null"}
    found = matcher()
    assert WAYS[way](found, rows) == expected
    for row, ids in zip(rows, expected, strict=True):  # alone, Arrow may read it by itself
        assert WAYS[way](found, [row]) == [ids]


def readable() -> list[str]:
    """The texts that Python reads, each with the moment that it is by Python."""
    found = []
    for text in TEXTS:
        try:
            moment = datetime.datetime.fromisoformat(text)
            moment.replace(tzinfo=moment.tzinfo or datetime.UTC).astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            continue
        found.append(text)
    assert len(found) > 100
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", BAD)
def test_other_texts_are_refused(way: str, text: str) -> None:
    with pytest.raises(MessageError, match=r"t.* = .* is (not a timestamp|outside the years)"):
        WAYS[way](matcher(), [{**message("2013-01-01"), "t": text}])


def test_one_bad_text_of_a_batch_is_named_by_its_row() -> None:
    rows = [message("2013-01-01")] * 3 + [message("soon")]
    with pytest.raises(MessageError, match="row 3: t = 'soon' is not a timestamp"):
        matcher().match_batch(table(rows, pa.string()))


def test_without_a_schema_a_text_stays_a_text() -> None:
    found = Matcher()
    found.add("moment", "t = TIMESTAMP '2013-01-01'")
    found.add("text", "t = '2013-01-01'")
    assert found.match({"t": "2013-01-01"}) == ["text"]
    assert found.match_batch(pa.table({"t": ["2013-01-01"]})).to_pylist() == [["text"]]


def test_a_default_may_be_text_too() -> None:
    schema = Schema.of(t=("timestamp", "2013-01-01T02:00:00+02:00"))
    assert schema["t"].default == datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC)
    found = Matcher(schema, semantics="default")
    found.add("first", SELECTORS["first"])
    assert found.match({}) == ["first"]
    with pytest.raises(SchemaError, match="not a timestamp"):
        Schema.of(t=("timestamp", "soon"))
    with pytest.raises(SchemaError, match="give a datetime"):
        Schema((Attribute("t", Type.TIMESTAMP, "2013-01-01"),))
