"""What a match carries, compared with a plain join, filter and sort."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import cmp_to_key

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis import Details, InputError, Matcher

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
MOMENTS = st.none() | st.integers(0, 5).map(lambda d: EPOCH + timedelta(days=d))
PRIORITIES = st.none() | st.sampled_from([0, -0.0, 1, 2, 2.5, math.inf, -math.inf, math.nan])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "bound": st.integers(0, 5),
            "priority": PRIORITIES,
            "owner": st.none() | st.sampled_from(["", "é", "z", "a"]),
            "valid_from": MOMENTS,
            "valid_to": MOMENTS,
        }
    ),
    max_size=40,
)
ORDERS = st.sampled_from(
    [(), "priority", "priority DESC", ("owner", "priority desc"), ("owner desc", "priority ASC")]
)
MESSAGES = st.lists(
    st.fixed_dictionaries({}, optional={"x": st.integers(0, 6), "at": MOMENTS}), max_size=12
)
KINDS = {
    "id": pa.string(),
    "priority": pa.float64(),
    "owner": pa.string(),
    "valid_from": pa.timestamp("us", "UTC"),
    "valid_to": pa.timestamp("us", "UTC"),
}


def table(rows):
    columns = {n: pa.array([row[n] for row in rows], kind) for n, kind in KINDS.items()}
    return pa.table(columns)


def before(order):
    """A comparison, NULL and NaN last; what is equal stays in order."""

    def compare(a, b):
        for said in (order,) if isinstance(order, str) else order:
            name, _, direction = said.partition(" ")
            x, y = a[name], b[name]
            none = [v is None or v != v for v in (x, y)]
            if any(none):
                if none[0] != none[1]:
                    return none[0] - none[1]
                continue
            if x != y:
                return (1 if x > y else -1) * (-1 if direction.lower() == "desc" else 1)
        return 0

    return cmp_to_key(compare)


def valid(row, at):
    since, until = row["valid_from"], row["valid_to"]
    if at is None:
        return since is None and until is None
    return (since is None or since <= at) and (until is None or at < until)


def plainly(rows, message, carry, order, limit, gated):
    found = [row for row in rows if message.get("x") is not None and message["x"] >= row["bound"]]
    if gated:
        found = [row for row in found if valid(row, message.get("at"))]
    found = sorted(found, key=before(order))[:limit]
    return [{n: row[n] for n in ("id", *carry)} if carry else row["id"] for row in found]


@given(
    ROWS,
    MESSAGES,
    st.sampled_from([(), ("owner",), ("owner", "valid_to")]),
    ORDERS,
    st.none() | st.integers(1, 6),
    st.booleans(),
    st.booleans(),
)
def test_a_match_carries_what_a_join_and_a_sort_would_give(
    rows, messages, carry, order, limit, gated, as_table
):
    rows = [{"id": f"r{i}", **row} for i, row in enumerate(rows)]
    matcher = Matcher()
    matcher.add_many((row["id"], f"x >= {row['bound']}") for row in rows)
    options = {"order_by": order, "limit": limit, "valid_at": "at" if gated else None}
    shuffled = table(rows) if not rows else table(rows).take(list(range(len(rows))))
    details = Details(shuffled, carry=carry, **options)
    given = messages
    if as_table:
        kinds = {"x": pa.int64(), "at": pa.timestamp("us", "UTC")}
        given = pa.table({n: pa.array([m.get(n) for m in messages], t) for n, t in kinds.items()})
    wanted = [plainly(rows, m, carry, order, limit, gated) for m in messages]
    assert matcher.match_batch(given, details=details).to_pylist() == wanted
    for message, expected in zip(messages, wanted, strict=True):
        assert matcher.match(message, details) == expected


def test_rows_with_very_many_matches_are_done_in_pieces():
    matcher = Matcher()
    matcher.add_many((i, f"x > {i % 10}") for i in range(20_000))
    rules = {"id": range(20_000), "priority": [(7919 * i) % 20_000 for i in range(20_000)]}
    details = Details(pa.table(rules), order_by="priority DESC", limit=3)
    batch = pa.table({"x": [i % 12 for i in range(3_000)]})
    found = matcher.match_batch(batch, details=details, threads=2).to_pylist()
    by_priority = sorted(range(20_000), key=lambda i: -rules["priority"][i])
    for x in range(12):
        wanted = [i for i in by_priority if i % 10 < x][:3]
        assert found[x] == found[x + 1_200] == wanted


def test_details_follow_subscriptions_that_come_and_go():
    matcher = Matcher()
    matcher.add_many([("a", "x > 1"), ("b", "x > 1"), ("c", "x > 1")])
    details = Details(
        [{"id": "c", "owner": "C", "priority": 1}, {"id": "a", "owner": None, "priority": 2}],
        carry=["owner"],
        order_by="priority",
    )
    assert matcher.match({"x": 2}, details) == [
        {"id": "c", "owner": "C"},
        {"id": "a", "owner": None},
        {"id": "b", "owner": None},  # nothing is known of it, so it comes last
    ]
    matcher.remove("c")
    matcher.add("d", "x > 0")
    matcher.replace("a", "x > 0")
    assert [found["id"] for found in matcher.match({"x": 2}, details)] == ["a", "b", "d"]


def test_the_clock_gates():
    rules = [
        {"id": 1, "valid_from": "2000-01-01", "valid_to": None},
        {"id": 2, "valid_from": None, "valid_to": "2000-01-01 12:00:00"},
        {"id": 3, "valid_from": None, "valid_to": None},
    ]
    matcher = Matcher()
    matcher.add_many((rule["id"], "") for rule in rules)
    assert matcher.match({}, Details(rules, valid_at="now()")) == [1, 3]
    assert matcher.match({}, Details(rules)) == [1, 2, 3]
    when = {"t": datetime(1999, 1, 1, tzinfo=UTC)}
    assert matcher.match(when, Details(rules, valid_at="t")) == [2, 3]
    assert matcher.match(when, Details(rules, valid_at="t", first=True)) == [2]


def test_one_and_the_same_id_in_another_type():
    matcher = Matcher()
    matcher.add_many([(1, "x > 1"), ("b", "x > 1")])
    details = Details([{"id": "1", "p": 2}, {"id": "b", "p": 1}], order_by="p")
    assert matcher.match({"x": 2}, details) == ["b", 1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"carry": ["team"]}, "no column team; they have id, owner"),
        ({"carry": "owner"}, "carry is a list of columns: ['owner']"),
        ({"carry": ["id"]}, "not id"),
        ({"order_by": "rank"}, "no column rank"),
        ({"order_by": "tags"}, "cannot be ordered"),
        ({"limit": 0}, "from 1 on, not 0"),
        ({"limit": 3, "first": True}, "contradict"),
        ({"valid_at": "t"}, "neither valid_from nor valid_to"),
    ],
)
def test_errors_say_what_to_do(options, told):
    rows = pa.table({"id": ["a"], "owner": ["A"], "tags": [["x"]]})
    with pytest.raises(InputError) as error:
        Details(rows, **options)
    assert told in str(error.value)


def test_a_time_that_is_none():
    matcher = Matcher()
    matcher.add("a", "t > 1")
    with pytest.raises(InputError, match="t is not a timestamp"):
        matcher.match({"t": 7}, Details([{"id": "a", "valid_to": None}], valid_at="t"))
