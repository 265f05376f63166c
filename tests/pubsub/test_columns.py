"""Stored messages read as columns: the same hits as one by one, whatever the messages hold."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import MessageError
from tamis.pubsub.broker.judge import Judge, Language
from tamis.pubsub.broker.records import Record
from tamis.pubsub.broker.selected_columns import columns
from tamis.schema import Schema

SCHEMA = Schema.of(n=int, x=float, s=str, b=bool)
SELECTORS = ["", "n > 3", "NOT (n > 3)", "x < 1.5 AND s = 'a'", "s LIKE '%é%' OR b", "n IS NULL",
             "s CONTAINS '\"' OR x = n", "x * 2 > n", "more > 1", "NOT b",
             "n = 9007199254740993"]  # fmt: skip
values = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=4),
    st.sampled_from(["a", "é", '"', "\n", {"n": 1}, [1]]),
)  # fmt: skip
messages = st.dictionaries(st.sampled_from(["n", "x", "s", "b", "more", "n "]), values)
subjects = st.sampled_from(["a", "a.b", "a.b.c", "z.b"])


def stored(told):
    """As a broker keeps them: those that it would have refused are left out."""
    language, found = Language(SCHEMA), []
    for subject, message in told:
        body = msgspec.json.encode(message)
        try:
            language.checked(msgspec.json.decode(body))
        except MessageError:
            continue
        found.append(Record(len(found) + 1, 0, "p", 0, "", subject, body))
    return found


def slowly(judge, records):
    read = judge.language.read
    return [r for r in records if judge.match([(r.subject, read(r.body))])[0]]


@settings(max_examples=60)
@given(st.lists(st.tuples(subjects, messages), min_size=20, max_size=60),
       st.sampled_from(SELECTORS), st.sampled_from([">", "a.>", "*.b", "a"]),
       st.sampled_from(["sql", "strict", "default"]))  # fmt: skip
def test_hits_are_those_of_one_by_one(told, selector, filter, semantics):
    records = stored(told)
    judge = Judge(Language(SCHEMA, semantics))
    judge.add(0, filter, selector)
    assert judge.hits(records) == slowly(judge, records)


@pytest.mark.parametrize(
    "odd",
    [b'{"n":5.0}', b'{"n":1,"n":2}', b'{"n":\n1}', b'{"n":{"a":1}}', b'{"n":[1]}', b'{"s":{}}'],
)
def test_what_arrow_cannot_read_is_read_one_by_one(odd):
    plain = [Record(i, 0, "p", 0, "", "a", b'{"n":%d,"s":"x"}' % i) for i in range(1, 40)]
    assert columns(SCHEMA, ["n", "s"], plain) is not None
    records = [*plain, Record(40, 0, "p", 0, "", "a", odd)]
    assert columns(SCHEMA, ["n", "s"], records) is None
    judge = Judge(Language(SCHEMA))
    judge.add(0, ">", "n >= 20 OR s IS NULL")
    assert judge.hits(records) == slowly(judge, records)


def test_texts_are_read_as_they_were_written():
    bodies = [b'{"s":"\\u00e9"}', '{"s":"é"}'.encode(), b'{ "s" : "\\"" }', b"{}", b'{"x":1}']
    records = [Record(i + 1, 0, "p", 0, "", "a", bodies[i % 5]) for i in range(50)]
    table = columns(SCHEMA, ["s", "x"], records)
    assert table.column("s").to_pylist()[:5] == ["é", "é", '"', None, None]
    assert table.column("x").to_pylist()[4] == 1.0
