"""Equivalent sequences: the same state, never longer, and stable."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flow.states.examples import ACCOUNT, QUOTE, collapsed
from flow.states.random_summaries import Case
from tamis import Schema
from tamis.errors import ExpandError, StateError
from tamis.flow.states import States, Summary, catch_up, collapse, equivalent, expand, expand_all
from tamis.flow.states.expansion.key_plans import plans_of
from tamis.flow.states.expansion.rule_rows import moves_of
from tamis.flow.states.sequences.collapsing import typed_events


def ticks(rng: random.Random, count: int, first: int = 0) -> list[dict]:
    return [
        {"issue": rng.choice("ABC"), "price": float(rng.randrange(1, 9)), "seq": first + i}
        for i in range(count)
    ]


@given(st.integers(0, 10**9))
def test_equivalent_keeps_the_states_and_is_idempotent(seed: int) -> None:
    rows = ticks(random.Random(seed), random.Random(seed).randint(0, 40))
    short = equivalent(rows, QUOTE)
    assert len(short) <= len(rows)
    assert len(short) <= 2 * len({r["issue"] for r in rows})
    assert collapsed(QUOTE, short) == collapsed(QUOTE, rows)
    assert equivalent(short, QUOTE) == short
    table = typed_events(QUOTE, pa.Table.from_pylist(rows)) if rows else None
    if table is not None:
        of_table = equivalent(table, QUOTE)
        assert of_table.to_pylist() == sorted(short, key=lambda e: (e["seq"], e["issue"]))
        assert equivalent(of_table, QUOTE).equals(of_table)


@given(st.integers(0, 10**6))
def test_any_summary_keeps_its_states(seed: int) -> None:
    """Also those with lists, guards, undefined values, and forms that are outside."""
    case = Case(seed)
    rng = random.Random(seed)
    rows = [rng.choice(case.events()) for _ in range(rng.randint(0, 8))]
    short = equivalent(rows, case.summary, budget=300)
    assert len(short) <= len(rows)
    assert collapsed(case.summary, short).get((), case.summary.initial) == collapsed(
        case.summary, rows
    ).get((), case.summary.initial)
    assert equivalent(short, case.summary, budget=300) == short


@given(st.integers(0, 10**9))
def test_catch_up_from_where_the_subscriber_was(seed: int) -> None:
    rng = random.Random(seed)
    seen, missed = ticks(rng, 20), ticks(rng, rng.randint(1, 30), first=20)
    last = collapse(seen, QUOTE)
    goal = collapse(missed, QUOTE, last)
    for given_as in (missed, pa.Table.from_pylist(missed)):
        sent = catch_up(last, given_as, QUOTE)
        rows = sent if isinstance(sent, list) else sent.to_pylist()
        assert len(rows) <= len(missed)
        assert collapse(rows, QUOTE, last).rows == goal.rows


def test_plans_are_as_short_as_the_search() -> None:
    """All keys at once, and one by one."""
    rng = random.Random(4)
    assert plans_of(moves_of(QUOTE)) is not None
    seen = ticks(rng, 10)
    last = collapse(seen, QUOTE)
    for seed in range(30):
        missed = ticks(random.Random(seed), 30, first=10)
        sent = catch_up(last, pa.Table.from_pylist(missed), QUOTE).to_pylist()
        goal = collapse(missed, QUOTE, last)
        for key in goal:
            own = [e for e in sent if (e["issue"],) == key]
            assert len(own) == len(expand(last.at(key), goal[key], QUOTE, key={"issue": key[0]}))


def test_expand_all_goes_key_by_key() -> None:
    current, goal = (
        States(QUOTE),
        States(QUOTE, {("A",): QUOTE.state(3, 2), ("B",): QUOTE.state(1, 1)}),
    )
    found = expand_all(current, goal, QUOTE)
    assert [(e["issue"], e["price"]) for e in found] == [("A", 3.0), ("A", 2.0), ("B", 1.0)]


def test_lists_are_shortened_too() -> None:
    rows = [{"kind": "D", "amt": 1, "id": i} for i in range(50)] + [
        {"kind": "W", "amt": 90, "id": 60}
    ]
    short = equivalent(rows, ACCOUNT)
    assert len(short) == 2
    assert collapsed(ACCOUNT, short) == collapsed(ACCOUNT, rows)


def test_a_goal_where_nothing_happened() -> None:
    assert equivalent([], QUOTE) == []
    assert catch_up(States(QUOTE), [], QUOTE) == []
    assert expand(QUOTE.initial, QUOTE.initial, QUOTE) == []


def test_states_of_a_keyed_summary_are_needed() -> None:
    with pytest.raises(StateError, match="give States"):
        catch_up(QUOTE.initial, [], QUOTE)
    assert catch_up(ACCOUNT.initial, [], ACCOUNT) == []


def test_an_order_that_rules_look_at_is_solved_for() -> None:
    """`last := seq`: the events that are made carry just the orders that the state asks for."""
    summary = Summary.of(
        "S", Schema.of(v=int, seq=int), {"top": (int, 0), "last": (int, 0)},
        [("v > top", {"top": "v", "last": "seq"}), ("", {"last": "seq"})], order="seq",
    )  # fmt: skip
    rows = [{"v": v, "seq": i} for i, v in enumerate((5, 9, 1, 2, 3))]
    short = equivalent(rows, summary)
    assert len(short) <= 3
    assert collapsed(summary, short) == collapsed(summary, rows)


def test_errors_can_be_told_apart() -> None:
    with pytest.raises(ExpandError) as caught:
        expand(QUOTE.state(5, 5), QUOTE.state(4, 4), QUOTE)
    import pickle

    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.reason) == (str(caught.value), "unreachable")
