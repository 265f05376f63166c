"""Expansion against exhaustive search, and what it answers where there is no sequence.

TAMIS_SUMMARIES says how many random summaries are tried: 150 unless it is set.
"""

from __future__ import annotations

import os

import pytest

from flow.states.examples import ACCOUNT, ALERTS, QUOTE, step
from flow.states.random_summaries import Case, exhaustive
from tamis import Schema
from tamis.errors import ExpandError, MessageError, StateError
from tamis.flow.states import Derived, DerivedEvent, Summary, expand
from tamis.flow.states.expansion.expanding import replayed
from tamis.flow.states.expansion.reachable import Reachable
from tamis.flow.states.expansion.rule_cases import OutsideError
from tamis.flow.states.expansion.rule_rows import moves_of
from tamis.flow.states.expansion.search import Search
from tamis.flow.states.expansion.zones import Problem

SUMMARIES = int(os.environ.get("TAMIS_SUMMARIES", "150"))


def answered(case: Case) -> list[dict] | ExpandError:
    try:
        return expand(case.start, case.goal, case.summary, budget=1_500)
    except ExpandError as error:
        return error


def test_a_star_is_as_cheap_as_exhaustive_search() -> None:
    """Same length, same verdict; and what is found leads from start to goal."""
    tallies = {"found": 0, "unreachable": 0, "budget": 0, "outside": 0}
    for seed in range(SUMMARIES):
        case = Case(seed)
        expected = exhaustive(case, case.start, case.goal)
        events = answered(case)
        if isinstance(events, ExpandError):
            tallies[events.reason] += 1
            cases = "more than 200 cases" in str(events)
            assert cases if events.reason == "outside" else expected not in range(9), seed
            continue
        state = case.start
        for event in events:
            state = step(case.summary, state, event)
        assert state == case.goal, seed
        assert expected != "none", seed
        if isinstance(expected, int):
            assert len(events) == expected, (seed, events)
            tallies["found"] += 1
    assert tallies["found"] > SUMMARIES / 3, tallies
    assert tallies["unreachable"] > SUMMARIES / 50, tallies
    assert tallies["outside"] < SUMMARIES / 20, tallies
    print(tallies)


def test_the_estimator_never_overestimates() -> None:
    """From the goal's zone, and from all zones on the way that was found."""
    checked = 0
    for seed in range(SUMMARIES):
        case = Case(seed)
        try:
            moves = moves_of(case.summary)
        except OutsideError:
            continue
        problem, goal = Problem.of(moves, case.start, case.goal, {})
        search = Search(problem, goal, 1_500, None)
        try:
            cost, steps = next(search.plans(), (None, []))
        except ExpandError:
            continue
        if cost is None:
            continue
        for done, following in enumerate(steps):
            behind = sum(s.row.cost for s in steps[done + 1 :])
            assert search.estimate(following.zone) <= cost - behind, seed
            checked += 1
        assert search.estimate(goal) <= cost
    assert checked > SUMMARIES / 3


# --- particular questions ------------------------------------------------------------


def test_costs_decide() -> None:
    """One dear event that sets both, or two cheap ones."""
    both = Schema.of(a=int, b=int)
    one = Schema.of(v=int)
    summary = Summary.of("P", both, {"x": (int, 0), "y": (int, 0)}, [("", {"x": "a", "y": "b"})])

    def cheapest(cost: float) -> list[str]:
        derived = Derived.of("D", summary, [
            DerivedEvent.of("Both", both, {"x": "a", "y": "b"}, cost=cost),
            DerivedEvent.of("X", one, {"x": "v"}),
            DerivedEvent.of("Y", one, {"y": "v"}),
        ])  # fmt: skip
        found = expand(summary.initial, summary.state(1, 2), summary, through=derived)
        return [str(e["event"]) for e in found]

    assert cheapest(1.5) == ["Both"]
    assert cheapest(2.5) == ["X", "Y"]


def test_derived_events_with_a_condition() -> None:
    summary = Summary.of("T", Schema.of(t=float), {"t": (float, 0.0)}, [("", {"t": "event.t"})])
    derived = Derived.of("D", summary, [
        DerivedEvent.of("Warm", Schema.of(v=float), {"t": "v"}, where="v > 30"),
        DerivedEvent.of("Cold", Schema.of(v=float), {"t": "v"}, where="v < 10"),
    ])  # fmt: skip
    ask = lambda t: expand(summary.initial, summary.state(t), summary, through=derived)  # noqa: E731
    assert ask(35) == [{"event": "Warm", "v": 35.0}]
    assert ask(5) == [{"event": "Cold", "v": 5.0}]
    with pytest.raises(ExpandError) as caught:
        ask(20)
    assert caught.value.reason == "unreachable"


def test_a_goal_that_no_sequence_reaches() -> None:
    with pytest.raises(ExpandError, match="no sequence of events leads") as caught:
        expand(QUOTE.state(160, 140), QUOTE.state(150, 120), QUOTE)
    assert caught.value.reason == "unreachable"
    with pytest.raises(ExpandError) as caught:
        expand(ACCOUNT.state(5, ((1, 1),)), ACCOUNT.state(5), ACCOUNT, through=ALERTS)
    assert caught.value.reason == "unreachable"


KINDS = Schema.of(kind=int, up=int)


@pytest.mark.parametrize(
    ("rules", "goal", "why"),
    [
        ([("kind = 1 AND up = 6", {"x": "x + up"}), ("kind = 2 AND up = 4", {"x": "x - up"})],
         {"x": 1}, "x is always 0 modulo 2"),
        ([("up > 0", {"x": "x + up", "y": "y - kind"})],
         {"x": -1, "y": 50}, "x has a lower bound, 0"),
        ([("up = 3 AND x < 10", {"x": "x + up", "y": "y + kind"}), ("kind = 1", {"y": "y - up"})],
         {"x": 15, "y": 7}, "x has an upper bound, 12"),
        ([("x > 5", {"y": "kind", "x": "x - up"}), ("", {"z": "z + up"})],
         {"y": 3, "z": 50}, "y has an upper bound, 0"),
    ],
)  # fmt: skip
def test_what_a_bound_or_a_parity_excludes_is_unreachable(rules, goal, why) -> None:
    summary = Summary.of("S", KINDS, dict.fromkeys("xyz", (int, 0)), rules)
    problem, zone = Problem.of(moves_of(summary), summary.initial, summary.state(**goal), {})
    assert Reachable.of(problem).excludes(zone).startswith(why.split(",")[0])
    with pytest.raises(ExpandError) as caught:
        expand(summary.initial, summary.state(**goal), summary)
    assert caught.value.reason == "unreachable"
    if "modulo" in why:
        assert why in str(caught.value)


def test_no_state_that_events_lead_to_is_excluded() -> None:
    """Along random walks; doubles, undefined values and guards included."""
    looked = 0
    for seed in range(SUMMARIES):
        case = Case(seed)
        try:
            moves = moves_of(case.summary)
        except OutsideError:
            continue
        reachable = Reachable.of(Problem.of(moves, case.start, case.goal, {})[0])
        state = case.start
        for _ in range(30):
            state = step(case.summary, state, case.rng.choice(case.events()))
            _, zone = Problem.of(moves, case.start, case.summary.fit(state), {})
            assert reachable.excludes(zone) == "", (seed, state)
            looked += 1
    assert looked > 20 * SUMMARIES


def test_a_budget_that_runs_out() -> None:
    """Three ups and five downs, counted: neither x nor y alone tells that they never meet."""
    rules = [("kind = 1 AND up = 3", {"x": "x + up"}),
             ("kind = 2 AND up = 1", {"x": "x - 5 * up", "y": "y + up"})]  # fmt: skip
    summary = Summary.of("S", KINDS, {"x": (int, 0), "y": (int, 0)}, rules)
    assert len(expand(summary.initial, summary.state(1, 1), summary)) == 3
    with pytest.raises(ExpandError, match="no sequence found among 200 zones") as caught:
        expand(summary.initial, summary.state(0, 1), summary, budget=200)
    assert caught.value.reason == caught.value.limit == "budget"


def test_a_key_that_the_events_do_not_have() -> None:
    goal = QUOTE.state(2, 1)
    with pytest.raises(StateError, match="have no isue"):
        expand(QUOTE.initial, goal, QUOTE, key={"isue": "IBM"})
    with pytest.raises(MessageError, match="issue"):
        expand(QUOTE.initial, goal, QUOTE, key={"issue": 5})


def test_forms_that_are_outside_say_why() -> None:
    events = Schema.of(text=str, v=float)
    like = Summary.of("S", events, {"x": (float, 0.0)}, [("text LIKE 'a%'", {"x": "v"})])
    with pytest.raises(ExpandError, match=r"rule 1: event.text LIKE .* is no comparison"):
        expand(like.initial, like.state(1.0), like)
    square = Summary.of("S", events, {"x": (float, 0.0)}, [("", {"x": "v * v"})])
    with pytest.raises(ExpandError, match="cannot be solved"):
        expand(square.initial, square.state(4.0), square)


def test_strings_booleans_timestamps_and_the_undefined() -> None:
    import datetime

    moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    events = Schema.of(name=str, flag=bool, at="timestamp")
    parts = {"name": str, "flag": (bool, False), "at": "timestamp"}
    rules = [("", {"name": "event.name", "flag": "event.flag", "at": "event.at"})]
    summary = Summary.of("S", events, parts, rules)
    goal = summary.state("Zoë\U0001f600", True, moment)
    assert expand(summary.initial, goal, summary) == [
        {"name": "Zoë\U0001f600", "flag": True, "at": moment}
    ]
    back = expand(goal, summary.initial, summary)
    assert back == [{"name": None, "flag": False, "at": None}]


@pytest.mark.parametrize("goal", [2**63 - 1, -(2**63), 0])
def test_integers_at_the_ends(goal: int) -> None:
    summary = Summary.of("S", Schema.of(v=int), {"x": (int, 7)}, [("", {"x": "v"})])
    assert expand(summary.initial, summary.state(goal), summary) == [{"v": goal}]


@pytest.mark.parametrize("goal", [float("inf"), -float("inf"), 1e-308, 0.1, -0.0])
def test_doubles_at_the_ends(goal: float) -> None:
    summary = Summary.of("S", Schema.of(v=float), {"x": (float, 7.5)}, [("v <> x", {"x": "v"})])
    assert expand(summary.initial, summary.state(goal), summary) == [{"v": goal}]


def test_an_increment_of_doubles_is_solved_or_refused() -> None:
    summary = Summary.of("S", Schema.of(v=float), {"x": (float, 0.0)}, [("", {"x": "x + v"})])
    for start, goal in ((0.0, 0.3), (0.1, 0.3), (1e15, 1.0), (3.3, -7.7)):
        (event,) = expand(summary.state(start), summary.state(goal), summary)
        assert start + event["v"] == goal
    with pytest.raises(ExpandError, match="rounding"):
        expand(summary.state(1e300), summary.state(1.0), summary)


def test_many_overdrafts_keep_their_order() -> None:
    rows = tuple((i, i + 1) for i in range(300))
    found = expand(ACCOUNT.initial, ACCOUNT.state(1, rows), ACCOUNT, through=ALERTS)
    assert found[0] == {"event": "B", "bal": 1}
    assert [(e["amt"], e["id"]) for e in found[1:]] == list(rows)


def test_the_key_of_an_event_may_be_tested() -> None:
    summary = Summary.of(
        "S", Schema.of(k=str, v=int), {"x": (int, 0)},
        [("k = 'a' AND v > 5", {"x": "v"}), ("k = 'b'", {"x": "v"})], key="k",
    )  # fmt: skip
    assert expand(summary.initial, summary.state(3), summary, key={"k": "b"}) == [
        {"k": "b", "v": 3}
    ]
    with pytest.raises(ExpandError):
        expand(summary.initial, summary.state(3), summary, key={"k": "a"})


def test_replayed_is_the_meaning() -> None:
    moves = moves_of(QUOTE)
    state = replayed(moves, [("", {"price": 9.0})], QUOTE.initial, {"issue": "A"})
    assert state == QUOTE.state(9, 9)


def test_rules_that_go_round_in_circles_end() -> None:
    """x and y change places for ever: the zones repeat, so the search knows."""
    summary = Summary.of(
        "S", Schema.of(kind=int), {"x": (int, 1), "y": (int, 2)}, [("", {"x": "y", "y": "x"})]
    )
    assert len(expand(summary.initial, summary.state(2, 1), summary)) == 1
    with pytest.raises(ExpandError) as caught:
        expand(summary.initial, summary.state(3, 1), summary)
    assert caught.value.reason == "unreachable"


def test_a_condition_with_very_many_cases_is_outside() -> None:
    guard = " AND ".join(f"(p > {i} OR q > {i} OR x > {i})" for i in range(12))
    summary = Summary.of("S", Schema.of(p=int, q=int), {"x": (int, 0)}, [(guard, {"x": "p"})])
    with pytest.raises(ExpandError, match="more than 200 cases"):
        expand(summary.initial, summary.state(1), summary)


def test_a_huge_state_is_expanded_or_refused() -> None:
    long = "x" * 2_000
    summary = Summary.of("S", Schema.of(v=str), {"x": (str, "")}, [("v <> 'n'", {"x": "v"})])
    with pytest.raises(StateError, match="cannot be expanded") as caught:
        expand(summary.initial, summary.state(long), summary)
    assert caught.value.limit == "characters"
    wide = Schema.of({f"a{i}": int for i in range(32)})
    parts = {f"x{i}": (int, 0) for i in range(32)}
    rules = [("", {f"x{i}": f"a{i}" for i in range(32)})]
    many = Summary.of("S", wide, parts, rules)
    assert len(expand(many.initial, many.state(*range(32)), many)) == 1
