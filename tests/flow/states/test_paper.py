"""Gryphon, section 4: its two tables, its matrices, and its search, step by step."""

from __future__ import annotations

import pytest

from flow.states.examples import ACCOUNT, ALERTS, QUOTE
from tamis import Schema
from tamis.errors import ExpandError
from tamis.flow.states import States, Summary, Trace, catch_up, collapse, equivalent, expand
from tamis.flow.states.expansion.estimate import estimator
from tamis.flow.states.expansion.forms import form_of, matrix
from tamis.flow.states.expansion.rule_rows import moves_of


def test_gryphon_section_4_2_bank_account() -> None:
    """The table of states and derived events."""
    table = [
        (("D", 10, 1), (10, ()), [{"event": "B", "bal": 10}]),
        (("D", 20, 4), (30, ()), [{"event": "B", "bal": 30}]),
        (("W", 25, 8), (5, ()), [{"event": "B", "bal": 5}]),
        (("W", 10, 30), (5, ((10, 30),)), [{"event": "OD", "amt": 10, "id": 30}]),
    ]
    states = States(ACCOUNT)
    for (kind, amt, id), (bal, ov), derived in table:
        before = states.only
        states = collapse([{"kind": kind, "amt": amt, "id": id}], ACCOUNT, states)
        assert states.only == {"bal": bal, "ov": ov}
        assert expand(before, states.only, ACCOUNT, through=ALERTS) == derived


def test_gryphon_section_4_2_all_balances_except_the_last_can_be_omitted() -> None:
    goal = ACCOUNT.state(5, ((10, 30),))
    found = expand(ACCOUNT.initial, goal, ACCOUNT, through=ALERTS)
    assert found == [{"event": "B", "bal": 5}, {"event": "OD", "amt": 10, "id": 30}]


def test_gryphon_section_4_2_stock_prices() -> None:
    """The table of published events, states, and what is delivered after a disconnect."""
    published = [(150, (150, 150)), (160, (160, 160)), (140, (160, 140))]
    states = States(QUOTE)
    for seq, (price, state) in enumerate(published):
        event = {"issue": "IBM", "price": price, "seq": seq}
        before = states.at("IBM")
        states = collapse([event], QUOTE, states)
        assert states["IBM"] == QUOTE.state(*state)
        (delivered,) = expand(before, states["IBM"], QUOTE, key={"issue": "IBM"})
        assert delivered["price"] == price
    missed = [
        {"issue": "IBM", "price": p, "seq": 3 + i} for i, p in enumerate((200, 180, 170, 120))
    ]
    assert collapse(missed, QUOTE, states)["IBM"] == QUOTE.state(200, 120)
    delivered = catch_up(states, missed, QUOTE)
    assert [(e["issue"], e["price"]) for e in delivered] == [("IBM", 200.0), ("IBM", 120.0)]


def test_gryphon_section_4_3_the_search_step_by_step() -> None:
    """[200, 120] <- [200, *] by the second row <- [*, *] by the first, where the start fits."""
    trace = Trace()
    found = expand(QUOTE.state(160, 140), QUOTE.state(200, 120), QUOTE, trace=trace)
    assert [e["price"] for e in found] == [200.0, 120.0]
    seen = [(v.zone, v.cost, v.estimate, v.rule) for v in trace.visits]
    assert seen == [
        ("[200, 120]", 0, 1, None),
        ("[200, *]", 1, 1, 1),
        ("[*, *] | max < 200", 2, 0, 0),
    ]


def test_gryphon_section_4_3_only_the_second_row_leads_to_the_goal() -> None:
    from tamis.flow.states.expansion.zones import Problem

    moves = moves_of(QUOTE)
    problem, goal = Problem.of(moves, QUOTE.state(160, 140), QUOTE.state(200, 120), {})
    assert [len(list(problem.before(goal, row))) for row in moves.rows] == [0, 1]
    _, equal = Problem.of(moves, QUOTE.state(160, 140), QUOTE.state(200, 200), {})
    assert [len(list(problem.before(equal, row))) for row in moves.rows] == [1, 1]


def test_gryphon_section_4_3_the_matrix_of_the_stock_example() -> None:
    assert matrix(QUOTE).splitlines() == [
        "rule | when                    | max   | cur",
        "1    | price > 0, max < price  | price | price",
        "2    | price > 0, price <= max |       | price",
    ]
    assert form_of(QUOTE).kind == "constrained"


def test_gryphon_section_4_3_the_estimate_is_the_number_of_issues_that_differ() -> None:
    """For one issue: 1 where max or cur differ, whichever."""
    told = estimator(moves_of(QUOTE))
    assert [told.cost(names) for names in ((), ("max",), ("cur",), ("max", "cur"))] == [0, 1, 1, 1]


PARAMETERS = Schema.of(kind=int, a=int, b=int, c=int)


def three(*rows: dict[str, str]) -> Summary:
    """The paper's table: row i is for events of kind i."""
    parts = {"s1": (int, 0), "s2": (int, 0), "s3": (int, 0)}
    rules = [(f"kind = {i}", row) for i, row in enumerate(rows, 1)]
    return Summary.of("S", PARAMETERS, parts, rules)


def test_gryphon_section_4_3_the_matrix_with_three_components() -> None:
    """Row two replaces two columns by one value: the form is constrained."""
    table = three({"s1": "a", "s3": "b"}, {"s1": "a", "s2": "a"}, {"s2": "b", "s3": "c"})
    assert form_of(table).kind == "constrained"
    assert len(expand(table.state(0, 0, 0), table.state(7, 7, 0), table)) == 1
    assert len(expand(table.state(0, 0, 0), table.state(7, 8, 0), table)) == 2
    assert len(expand(table.state(0, 0, 0), table.state(7, 8, 9), table)) == 2


@pytest.mark.parametrize("k", [1, 2, 3])
def test_gryphon_section_4_3_uniform_unconstrained_is_exact(k: int) -> None:
    """Every k of four columns have a row: ceil(m / k) events."""
    from itertools import combinations

    names = ["s1", "s2", "s3", "s4"]
    rows = list(combinations(names, k))
    events = Schema.of(kind=int, a=int, b=int, c=int)
    rules = [(f"kind = {i}", dict(zip(row, "abc", strict=False))) for i, row in enumerate(rows)]
    summary = Summary.of("S", events, dict.fromkeys(names, (int, 0)), rules)
    assert form_of(summary).kind == "uniform unconstrained"
    assert form_of(summary).k == k
    told = estimator(moves_of(summary))
    for m in range(5):
        goal = summary.state(*([1] * m))
        needed = -(-m // k)
        assert len(expand(summary.initial, goal, summary)) == needed
        assert told.cost(names[:m]) == needed


def test_unconstrained_but_not_uniform() -> None:
    summary = three({"s1": "a", "s2": "b"}, {"s3": "c"})
    assert form_of(summary).kind == "unconstrained"
    assert len(expand(summary.initial, summary.state(1, 2, 3), summary)) == 2


def test_an_average_can_only_be_collapsed() -> None:
    average = Summary.of(
        "Mean", Schema.of(price=float), {"sum": (float, 0.0), "n": (int, 0)},
        [("price IS NOT NULL", {"sum": "sum + price", "n": "n + 1"})],
    )  # fmt: skip
    state = collapse([{"price": 2}, {"price": 4.5}, {}], average).only
    assert state == {"sum": 6.5, "n": 2}
    with pytest.raises(ExpandError, match="n counts events") as caught:
        expand(average.initial, state, average)
    assert caught.value.reason == "outside"
    assert form_of(average).kind == "outside"
    events = [{"price": 2.0}, {"price": 4.5}]
    assert equivalent(events, average) == events
