"""States in the text form: reading, printing, checking, tests with sample rows, drawings."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.errors import FlowError, StateError
from tamis.flow import FlowBuilder, check, parse_flow, printed, run
from tamis.flow.showing import mermaid, notices, picture, svg
from tamis.flow.testing import run_tests

GRYPHON = """\
space Teller(kind: string, account: int, amt: int, id: int)
state Account keyed by account from Teller ordered by id
  (bal: int := 0, ov: list of (amt: int, id: int) := ())
  rule kind = 'D'                => bal := bal + amt
  rule kind = 'W' AND bal >= amt => bal := bal - amt
  rule kind = 'W'                => ov += (amt, id)
expand Account -> Alerts
  event B(bal: int)           => bal := event.bal
  event OD(amt: int, id: int) => ov += (amt, id)

space Ticks(issue: string, price: double, seq: int) where price > 0
state Quote keyed by issue from Ticks ordered by seq (max: double := 0, cur: double := 0)
  rule price > max => max := price, cur := price
  rule             => cur := price
expand Quote -> QuietTicks as Ticks          # equivalent sequences

QuietTicks -> High : select price > 130
Alerts -> Overdrafts : select event = 'OD'

test 'the bank account'
  given Teller ('D', 1, 10, 1), ('D', 1, 20, 4), ('W', 1, 25, 8), ('W', 1, 10, 30)
  expect Alerts ('B', 1, 5, NULL, NULL), ('OD', 1, NULL, 10, 30)
  expect Overdrafts ('OD', 1, NULL, 10, 30)

test 'stock prices'
  given Ticks ('IBM', 150, 1), ('IBM', 200, 4), ('IBM', 180, 5), ('IBM', 120, 6), ('IBM', -5, 7)
  expect Quote ('IBM', 200, 120)
  expect QuietTicks ('IBM', 200, 5), ('IBM', 120, 6)
  expect High ('IBM', 200, 5)
"""


def test_the_flows_of_the_notation_are_read_and_printed() -> None:
    flow = parse_flow(GRYPHON)
    text = printed(flow)
    assert parse_flow(text) == flow
    assert printed(parse_flow(text)) == text
    assert "  rule kind = 'W' AND bal >= amt => bal := bal - amt\n" in text
    assert "expand Quote -> QuietTicks as Ticks\n" in text


def test_costs_conditions_and_empty_lists_are_printed_too() -> None:
    text = (
        "space S(k: string, v: double, n: int)\n"
        "state L keyed by k from S ordered by n, v\n"
        "  (x: double, f: bool := TRUE, ws: list of (v: double) := ())\n"
        "  rule v IS NULL => ws := (), f := FALSE\n"
        "  rule v > 3 => x := v, ws += (v + 1)\n"
        "expand L -> E\n"
        "  event A(v: double) where v > 0 cost 2.5 => x := v\n"
        "  event F(on: bool) => f := on\n"
        "  event W(v: double) => ws += (v)\n"
        "expand L (x) -> X\n"
        "  event A(v: double) => x := v\n"
    )
    assert printed(parse_flow(text)) == text
    check(parse_flow(text))


def test_its_own_tests_pass() -> None:
    outcomes = run_tests(check(parse_flow(GRYPHON)))
    assert [(o.test.name, o.problems) for o in outcomes] == [
        ("the bank account", ()),
        ("stock prices", ()),
    ]


def test_a_test_that_fails_says_what_is_missing() -> None:
    wrong = GRYPHON.replace("expect Quote ('IBM', 200, 120)", "expect Quote ('IBM', 201, 120)")
    problems = run_tests(check(parse_flow(wrong)))[1].problems
    assert problems == (
        "Quote ('IBM', 201.0, 120.0) is missing",
        "Quote ('IBM', 200.0, 120.0) is not expected",
    )


def test_rows_that_break_the_where_do_not_reach_the_state() -> None:
    rows = [{"issue": "A", "price": p, "seq": i} for i, p in enumerate((3, -1, 2))]
    done = run(check(parse_flow(GRYPHON)), {"Ticks": rows})
    assert done.spaces["Quote"] == [{"issue": "A", "max": 3.0, "cur": 2.0}]
    assert len(done.rejected) == 1


def test_states_are_drawn() -> None:
    drawn = picture(check(parse_flow(GRYPHON)))
    text = mermaid(drawn)
    assert '[("Account by account<br/>#60;bal, ov#62;")]' in text
    assert "collapse: 3 rules" in text
    assert "expand: constrained" in text
    assert "class='state'" in svg(drawn)


def test_states_can_follow_states() -> None:
    """The expansion of one state is the source of the next."""
    text = GRYPHON + (
        "state Crashes keyed by issue from High ordered by seq (n: int := 0)\n"
        "  rule => n := n + 1\n"
    )
    graph = check(parse_flow(text))
    assert [node.name for node in graph.states] == ["Account", "Quote", "Crashes"]
    rows = [{"issue": "A", "price": p, "seq": i} for i, p in enumerate((200, 150))]
    assert run(graph, {"Ticks": rows}).spaces["Crashes"] == [{"issue": "A", "n": 2}]


SPACE = "space T(k: string, v: double, n: int)\n"
STATE = "state S keyed by k from T ordered by n (x: double := 0, c: int := 0)\n"
LIST = "state S keyed by k from T ordered by n (l: list of (v: double) := ())\n"
RULES = "  rule v > x => x := v\n  rule => c := n\n"
MISTAKES = [
    ("state S keyed by k from T (x: int := 0)\n  rule => x := n\n", "a state needs ordered by"),
    ("state S keyed by k from T\n  (x: int := 0)\n  rule => x := n\n", "line 2, state S"),
    ("state S keyed by k from U ordered by n (x: int := 0)\n  rule => x := n\n",
     "there is no space U"),
    ("state S keyed by q from T ordered by n (x: int := 0)\n  rule => x := n\n",
     "keyed by q: no such attribute"),
    ("state T keyed by k from T ordered by n (x: int := 0)\n  rule => x := n\n",
     "there is a space T already"),
    (STATE, "a state without rules never changes"),
    (STATE + "  rule => y := v\n", "there is no component y"),
    (STATE + "  rule => x = v\n", "= compares; a change is written :="),
    (STATE + "  rule => c := v\n", "c is int, and v is double"),
    (STATE + "  rule => x := k\n", "x is double, and k is string"),
    (STATE + "  rule w > 3 => x := v\n", "there is no attribute w"),
    (STATE + "  rule => x := v, x := 3\n", "sets x twice"),
    (STATE + "  rule => x += (v)\n", "x is no list"),
    (STATE + "  when v > 3 => x := v\n", "expected rule"),
    (LIST + "  rule => l += (v, n)\n", "l takes 1 values, not 2"),
    (LIST + "  rule l > 3 => l += (v)\n", "l is a list"),
    ("state S keyed by k from T ordered by n (x: double = 0)\n  rule => x := v\n",
     "an initial value is written :="),
    ("state S keyed by k from T ordered by n (x: double := 'a')\n  rule => x := v\n",
     "its initial value is string"),
    (STATE + RULES + "expand R -> E as T\n", "there is no state R"),
    (STATE + RULES + "expand S -> E as E\n", "the events of S are T, not E"),
    (STATE + RULES + "expand S -> E\n", "expand needs events"),
    (STATE + RULES + "expand S -> E\n  event A(v: double) => x := v\n", "no event reaches c of S"),
    (STATE + RULES + "expand S -> E\n  event A(v: double) cost 0 => x := v\n",
     "a cost is a positive number"),
    (STATE + RULES + "expand S -> E\n  event A(k: string, v: double) => x := v\n",
     "column k is there already, it is the key of S"),
    (STATE + RULES + "expand S (y) -> E\n  event A(v: double) => x := v\n",
     "S has no component y"),
    (STATE + RULES + "expand S (x) -> E as T\n", "as makes the state's own events"),
    (STATE + RULES + "expand S -> E as T\nexpand S -> E as T\n", "two expands fill E"),
    (STATE + "  rule => x := x + v, c := c + 1\nexpand S -> E as T\n",
     "S can only be collapsed: S, rule 1: c counts events"),
    ("state S keyed by k from E ordered by n (x: double := 0)\n  rule => x := v\n"
     "expand S -> E as E\n", "S depends on its own expansion"),
    (STATE + RULES + "expand S -> E as T\nspace E(k: string)\n", "is declared with other columns"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), MISTAKES)
def test_every_mistake_has_its_own_message(text: str, told: str) -> None:
    with pytest.raises(FlowError) as caught:
        check(parse_flow(SPACE + text))
    assert told in str(caught.value)
    assert caught.value.line >= 2


def test_notices_name_dead_rules_and_components() -> None:
    text = SPACE + STATE + "  rule v > x => x := v\n  rule v > x + 1 => x := 0\n"
    told = [str(n) for n in notices(check(parse_flow(text)))]
    assert told == [
        "state S: rule 2, v > x + 1 => x := 0, can never fire",
        "state S: no rule sets c: it keeps its initial value",
    ]


TOLD = "  rule v > x => x := v\n  rule NOT told AND v < x => told := TRUE, c := n\n"
FALL = "state S keyed by k from T ordered by n (x: double := 0, told: bool := FALSE, c: int)\n"
C_EVENT = "expand S (c) -> E\n  event A(c: int) => c := event.c\n"
TWICE = (
    "expand S (c) -> E: c may change more than once in a trigger, and only the last value is told; "
    "append to a list to tell of each change"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FALL + TOLD + C_EVENT, []),  # told never becomes false again
        (FALL + TOLD.replace("x := v", "x := v, told := FALSE") + C_EVENT, [TWICE]),
        (STATE + RULES + C_EVENT, [TWICE]),
        (STATE + RULES + "expand S -> E as T\n", []),
        (LIST + "  rule => l += (v)\nexpand S -> E\n  event A(v: double) => l += (v)\n", []),
    ],
)
def test_events_of_which_only_the_last_is_told_are_noticed(text, expected) -> None:
    found = notices(check(parse_flow(SPACE + text)))
    assert [str(n) for n in found] == [e.replace("expand S (c)", "expand S") for e in expected]
    assert not any(n.strict for n in found)


UNSET = "state S keyed by k from T ordered by n (m: double, c: int := 0)\n"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("  rule v > m => m := v\n  rule => c := n\n", [1]),
        ("  rule v > m => m := v\n  rule c > 3 => m := m + 1\n  rule => c := n\n", [1]),
        ("  rule m IS NULL OR v > m => m := v\n  rule => c := n\n", []),
        ("  rule v > m => c := n\n  rule => m := v\n", []),
        ("  rule v > m => c := n\n  rule c > 3 => m := coalesce(m, 1.0)\n  rule => c := n\n", []),
        (
            "  rule v > m AND c > 1 => m := v\n  rule NOT v > m => m := v\n  rule => c := n\n",
            [1, 2],
        ),
    ],
)
def test_rules_that_wait_for_what_is_never_defined_are_noticed(rules, expected) -> None:
    told = [str(n) for n in notices(check(parse_flow(SPACE + UNSET + rules)))]
    assert [int(t.split("rule ")[1].split(",")[0]) for t in told] == expected
    assert all("m has no initial value" in t and "write m: double := ..." in t for t in told)


def test_limits_on_states() -> None:
    many = ", ".join(f"x{i}: int := 0" for i in range(40))
    text = SPACE + f"state S keyed by k from T ordered by n ({many})\n  rule => x1 := n\n"
    with pytest.raises(FlowError, match="components"):
        check(parse_flow(text))
    from tamis import Schema
    from tamis.flow.states import Summary

    with pytest.raises(StateError, match="the limit is 64"):
        Summary.of("S", Schema.of(v=int), {"x": int}, [("v > 1", {"x": "v"})] * 65)


@given(st.randoms(use_true_random=False))
def test_text_from_strangers_raises_only_flow_errors(rng) -> None:
    """Words of the notation, cut, doubled and put in other places."""
    words = [w for w in GRYPHON.replace("(", " ( ").replace(")", " ) ").split(" ") if w]
    for _ in range(rng.randint(1, 6)):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        words[i : i + rng.randint(0, 3)] = words[j : j + rng.randint(0, 3)]
    text = " ".join(words)
    with contextlib.suppress(FlowError):
        flow = parse_flow(text)
        assert parse_flow(printed(flow)) == flow
        run_tests(check(flow))


def test_the_builder_says_the_same_as_the_text() -> None:
    flow = FlowBuilder()
    flow.space("Ticks", issue=str, price=float, seq=int, where="price > 0")
    rules = ("price > max => max := price, cur := price", "=> cur := price")
    parts = {"max": "double := 0", "cur": "double := 0"}
    flow.state("Quote", "Ticks", parts, rules, key=["issue"], order=["seq"])
    flow.expand("Quote", "QuietTicks", like="Ticks")
    flow.expand("Quote", "Levels", ["High(v: double) => max := v"], only=["max"])
    graph = flow.graph()
    assert [e.target for e in graph.states[0].expansions] == ["QuietTicks", "Levels"]
    assert graph.states[0].summary == check(parse_flow(GRYPHON)).states[1].summary


def test_a_mistake_has_the_line_of_its_rule() -> None:
    """Whatever the texts in its error are."""
    text = SPACE + STATE + "  rule => x := v\n  rule => c := ', rule 1:'\n"
    with pytest.raises(FlowError, match=r"c is int, and ', rule 1:' is string") as caught:
        check(parse_flow(text))
    assert caught.value.line == 4
