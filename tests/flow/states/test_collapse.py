"""Collapse: the compiled fold, plain Python and the oracle agree, whole or in parts."""

from __future__ import annotations

import datetime
import math
import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flow.states.examples import ACCOUNT, QUOTE, collapsed
from strategies import random_condition
from tamis import Schema
from tamis.errors import StateError
from tamis.flow.states import Limits, States, Summary, collapse
from tamis.flow.states.fold.fold_programs import UnsupportedError, program_of
from tamis.language import canonical
from tamis.messages.typed_tables import arrow_type

EVENTS = Schema.of(k=str, i=int, j=int, d=float, s=str, b=bool, t="timestamp", seq=int)
PARTS = {
    "ci": (int, 0), "cj": int, "cd": (float, 0.5), "cs": (str, "a"), "cb": (bool, True),
    "ct": "timestamp",
}  # fmt: skip
NUMBERS = ("i", "j", "d", "ci", "cj", "cd", "3", "2.5", "0")
TERMS = {
    "ci": (
        "i",
        "ci + 1",
        "ci + i",
        "j - ci",
        "i * j",
        "i DIV j",
        "i % j",
        "i % ci",
        "abs(i)",
        "-ci",
        "cj",
        "length(s)",
    ),
    "cj": ("j", "ci", "cj + j", "i DIV ci", "9223372036854775807 + i"),
    "cd": (
        "d",
        "cd + d",
        "i",
        "d / j",
        "cd * 1e200",
        "abs(d)",
        "ci - d",
        "i / ci",
        "-d",
        "d % cd",
        "d % i",
        "i % 2.5",
    ),
    "cs": ("s", "cs", "lower(s)", "'ß'", "upper(s)"),
    "cb": ("b", "cb", "TRUE"),
    "ct": ("t", "ct"),
}
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
VALUES = {
    "k": ("x", "y", None, "é"),
    "i": (0, 1, -1, 5, 2**63 - 1, -(2**63), None),
    "j": (0, 1, -1, 3, 2**53 + 1, None),
    "d": (0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan, 9007199254740992.0, 1e300, None),
    "s": ("", "a", "B", "ß", "\U0001f600", "abc", None),
    "b": (True, False, None),
    "t": (MOMENT, MOMENT + datetime.timedelta(microseconds=1), None),
}


def guard(rng: random.Random) -> str:
    """A condition over event and state, of every kind of predicate."""
    chance = rng.random()
    if chance < 0.15:
        return ""
    if chance < 0.6:
        left, right = rng.sample(NUMBERS, 2)
        text = f"{left} {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {right}"
        extra = rng.choice(("", "", " AND b", " OR cs = s", " AND NOT cb", " OR t > ct"))
        return f"NOT ({text}){extra}" if rng.random() < 0.2 else text + extra
    if chance < 0.8:
        return rng.choice((
            "s LIKE 'a%'", "s CONTAINS 'b' OR cj IS NULL", "s < cs", "cs IN ('a', 'B')",
            "i BETWEEN ci AND 5", "t IS NOT NULL AND ct IS NULL", "s MATCHES '^[A-Z]'",
            "lower(s) = cs", "length(s) > ci", "i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
        ))  # fmt: skip
    return canonical(random_condition(rng, Schema.of(i=int, d=float, s=str, ci=int, cd=float), 2))


def summary(rng: random.Random) -> Summary:
    rules = []
    for _ in range(rng.randint(1, 4)):
        names = rng.sample(list(PARTS), rng.randint(1, 3))
        rules.append((guard(rng), {n: rng.choice(TERMS[n]) for n in names}))
    key = rng.choice(("k", ("k", "b"), ()))
    order = rng.choice(("seq", ("t", "seq"), ()))
    return Summary.of("S", EVENTS, PARTS, rules, key=key, order=order)


def events(rng: random.Random, count: int) -> list[dict]:
    found = [{n: rng.choice(v) for n, v in VALUES.items()} for _ in range(count)]
    orders = [rng.randrange(count) if rng.random() < 0.9 else None for _ in found]
    return [e | {"seq": n} for e, n in zip(found, orders, strict=True)]


def table(rows: list[dict]) -> pa.Table:
    schema = pa.schema([(a.name, arrow_type(a.type)) for a in EVENTS.attributes])
    return pa.Table.from_pylist(rows, schema)


def clean(rows: list[dict]) -> list[dict]:
    """NaN is undefined."""
    return [
        {n: None if isinstance(v, float) and math.isnan(v) else v for n, v in r.items()}
        for r in rows
    ]


@given(st.integers(0, 10**9))
def test_the_compiled_fold_python_and_the_oracle_agree(seed: int) -> None:
    rng = random.Random(seed)
    chosen, rows = summary(rng), events(rng, rng.randint(0, 25))
    expected = collapsed(chosen, clean(rows))
    told = collapse(rows, chosen)
    assert told.rows == expected
    try:
        program_of(chosen)
    except UnsupportedError:
        return
    folded = collapse(table(rows), chosen)
    assert folded.rows == expected or (not rows and not chosen.key)
    if rows:
        assert folded.rows.keys() == expected.keys()
        assert [folded.last(k) for k in expected] == [told.last(k) for k in expected]


@given(st.integers(0, 10**9))
def test_parts_one_after_the_other_are_the_whole(seed: int) -> None:
    """Where the parts keep the order, and whichever way each part takes."""
    rng = random.Random(seed)
    chosen = summary(rng)
    rows = [e | {"seq": i, "t": None} for i, e in enumerate(events(rng, 20))]
    states, at = States(chosen), 0
    while at < len(rows):
        size = rng.randint(1, 8)
        part = rows[at : at + size]
        states = collapse(table(part) if rng.random() < 0.5 else part, chosen, states)
        assert states.late == 0
        at += size
    assert states.rows == collapse(rows, chosen).rows
    again = States.from_table(chosen, states.to_table())
    assert again.rows == states.rows


def test_most_summaries_of_these_tests_are_compiled() -> None:
    compiled = 0
    for seed in range(100):
        try:
            program_of(summary(random.Random(seed)))
            compiled += 1
        except UnsupportedError:
            pass
    assert compiled > 70


def test_an_event_that_fits_no_rule_leaves_the_state() -> None:
    rows = [{"kind": "X", "amt": 5, "id": 1}, {"kind": None, "amt": 5, "id": 2}]
    assert collapse(rows, ACCOUNT).only == ACCOUNT.initial


def test_changes_are_simultaneous() -> None:
    swap = Summary.of(
        "S", Schema.of(v=int), {"x": (int, 1), "y": (int, 2)}, [("", {"x": "y", "y": "x"})]
    )
    rows = [{"v": 1}] * 3
    assert collapse(rows, swap).only == {"x": 2, "y": 1}
    assert collapse(pa.table({"v": [1, 1, 1]}), swap).only == {"x": 2, "y": 1}


def test_late_events_are_counted() -> None:
    first = collapse(
        [{"issue": "A", "price": 1, "seq": 5}, {"issue": "B", "price": 1, "seq": 1}], QUOTE
    )
    assert first.late == 0
    second = [{"issue": "A", "price": 2, "seq": 4}, {"issue": "B", "price": 2, "seq": 4}]
    for given_as in (second, pa.Table.from_pylist(second)):
        assert collapse(given_as, QUOTE, first).late == 1
        assert collapse(given_as, QUOTE, first).last("A") == {"seq": 5}


def test_columns_of_other_types_are_made_to_fit() -> None:
    rows = pa.table(
        {"issue": ["A"], "price": pa.array([3], pa.int8()), "seq": pa.array([1], pa.int32())}
    )
    assert collapse(rows, QUOTE)["A"] == QUOTE.state(3, 3)


def test_a_list_that_grows_too_long() -> None:
    rows = [{"kind": "W", "amt": 5, "id": i} for i in range(20)]
    with pytest.raises(StateError, match="the limit is 10") as caught:
        collapse(rows, ACCOUNT, limits=Limits(elements=10))
    assert caught.value.limit == "elements"


def test_too_many_keys() -> None:
    keyed = Summary.of(
        "S", Schema.of(k=int), {"n": [Schema.of(k=int)]}, [("", {"n": ("k",)})], key="k"
    )
    with pytest.raises(StateError, match="more than 5 keys"):
        collapse([{"k": i} for i in range(9)], keyed, limits=Limits(keys=5))
    compiled = Summary.of("S", Schema.of(k=int), {"n": (int, 0)}, [("", {"n": "k"})], key="k")
    with pytest.raises(StateError, match="more than 5 keys"):
        collapse(pa.table({"k": list(range(9))}), compiled, limits=Limits(keys=5))


def test_a_list_can_be_emptied() -> None:
    session = Summary.of(
        "S", Schema.of(end=bool, v=int), {"seen": [Schema.of(v=int)]},
        [("end", {"seen": ()}), ("", {"seen": ("v",)})],
    )  # fmt: skip
    rows = [{"end": False, "v": 1}, {"end": True}, {"v": 2}, {"end": False, "v": 3}]
    assert collapse(rows, session).only == {"seen": ((2,), (3,))}


@pytest.mark.parametrize("divisor", [1, -1, 3, -3, 2**63 - 1, -(2**63), 0])
@pytest.mark.parametrize("value", [7, -7, 0, 2**63 - 1, -(2**63)])
def test_division_at_the_ends(value: int, divisor: int) -> None:
    rules = [("", {"q": "a DIV b", "r": "a % b", "s": "a % (b + 0.5)"})]
    parts = {"q": int, "r": int, "s": float}
    summary = Summary.of("S", Schema.of(a=int, b=int), parts, rules)
    rows = [{"a": value, "b": divisor}]
    expected = collapsed(summary, rows)[()]
    assert collapse(rows, summary).only == expected
    assert collapse(pa.Table.from_pylist(rows), summary).only == expected


def test_two_orders_of_which_one_is_undefined() -> None:
    events = Schema.of(t=int, n=int, v=int)
    summary = Summary.of("S", events, {"x": int}, [("", {"x": "v"})], order=("t", "n"))
    rows = [{"t": None, "n": 2, "v": 1}, {"t": None, "n": 1, "v": 2}, {"t": 5, "n": None, "v": 3}]
    schema = pa.schema([(n, pa.int64()) for n in events])
    for count, last in ((2, 1), (3, 3)):
        assert collapse(rows[:count], summary).only == {"x": last}
        assert collapse(pa.Table.from_pylist(rows[:count], schema), summary).only == {"x": last}
