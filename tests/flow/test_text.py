"""The text form: round trips, hostile texts, and every mistake with its own message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flow.random_flows import random_run
from tamis.errors import FlowError
from tamis.flow import Arc, FlowBuilder, FlowLimits, Select, check, parse_flow, printed, run
from tamis.flow.model.elements import Flow
from tamis.language import Literal, canonical

STOCKS = """\
space NYSE(issue: string, price: double, vol: int)
space NASDAQ(issue: string, price: double, vol: int)
lookup NYSEdb(string) -> string
lookup NASDdb(string) -> string

NYSE     -> Combined    : [issue, price, vol] => [com := NYSEdb(issue), price, vol]
NASDAQ   -> Combined    : [issue, price, vol] => [com := NASDdb(issue), price, vol]
Combined -> LargeTrades : [com, price, vol] => [com, cap := price * vol]; select cap >= 1000000
"""
LINES = STOCKS.count("\n")


def test_the_example_of_the_design_prints_back_canonically():
    flow = parse_flow(STOCKS)
    assert printed(flow).splitlines()[-1] == (
        "Combined -> LargeTrades : [com, price, vol] => [com, cap := price * vol]; "
        "select cap >= 1000000"
    )
    assert parse_flow(printed(flow)) == flow
    assert printed(parse_flow(printed(flow))) == printed(flow)


@pytest.mark.parametrize("seed", range(40))
def test_random_flows_print_back(seed):
    flow = random_run(seed)[0].flow
    assert parse_flow(printed(flow)) == flow


def test_comments_indented_lines_and_any_order():
    flow = parse_flow(
        "# a comment\nA -> B : select x > 0   # another\n   AND x < 5\n\nspace A(x: int)\n"
    )
    (arc,) = flow.arcs
    assert printed(flow) == "A -> B : select x > 0 AND x < 5\nspace A(x: int)\n"
    assert arc.at == 12


def test_keywords_are_names_where_no_keyword_is_expected():
    text = """\
space space(`select`: int, when: timestamp, test: bool, `in`: int, `a b`: string)
space -> lookup : [when, `select`, ...] => [when, `select`, ...]; select when IS NOT NULL
lookup -> test : [`in`, ... when `in` > 1 | `in` < 0] => [`in`] | [...] => [`in` := 3]
test -> `odd name``s`
"""
    graph = check(parse_flow(text))
    assert list(graph.schemas) == ["space", "lookup", "test", "odd name`s"]
    assert parse_flow(printed(graph.flow)) == graph.flow


def test_a_bar_separates_rules_and_is_or_inside_brackets_and_after_select():
    flow = parse_flow("A -> B : [x when x = 1 | x = 2] => [y := 1] | [x] => [y := 2]\n")
    (step,) = flow.arcs[0].steps
    assert len(step.rules) == 2
    (step,) = parse_flow("A -> B : select x = 1 | x = 2\n").arcs[0].steps
    assert isinstance(step, Select)


def test_the_builder_is_the_same_model():
    built = FlowBuilder()
    for name in ("NYSE", "NASDAQ"):
        built.space(name, issue=str, price=float, vol=int)
    for name in ("NYSEdb", "NASDdb"):
        built.lookup(name, str, str)
    pattern = ("issue", "price", "vol")
    for source, lookup in (("NYSE", "NYSEdb"), ("NASDAQ", "NASDdb")):
        com = f"{lookup}(issue)"
        built.arc(source, "Combined").transform(com=com, price="price", vol="vol", names=pattern)
    large = built.arc("Combined", "LargeTrades")
    large.transform(com="com", cap="price * vol", names=("com", "price", "vol"))
    large.select("cap >= 1000000")
    assert built.build() == parse_flow(STOCKS)
    assert printed(built.build()) == printed(parse_flow(STOCKS))


def test_the_builder_makes_rules_guards_and_dots():
    built = FlowBuilder()
    built.space("A", {"odd name": int, "x": float}, where="x > 0")
    arc = built.arc("A", "B").transform({"big": "TRUE"}, when="x > 5", carry=True, names=["x"])
    arc.otherwise(big="FALSE", carry=True, names=["x"])
    assert printed(built.build()).splitlines() == [
        "space A(`odd name`: int, x: double) where x > 0",
        "A -> B : [x, ... when x > 5] => [big := TRUE, ...] | [x, ...] => [big := FALSE, ...]",
    ]
    assert list(built.graph().schemas["B"]) == ["big", "odd name"]


@pytest.mark.parametrize(
    "text", ["a\nb", "\n", "it's\n'so'\n", "a\n  b", '"\n"', "# no comment\nspace X(s: int)"]
)
def test_the_builder_keeps_line_breaks_in_constants(text: str):
    constant = canonical(Literal.of(text))
    built = FlowBuilder()
    built.space("A", {"s": str, "b\nc": int}, where=f"s <>\n{constant} OR\ns IS NOT NULL")
    arc = built.arc("A", "B").select(f"s\n= {constant} # it's this one").select("`b\nc` > 1")
    arc.transform(t=f"coalesce({constant},\ns)", b="`b\nc`")
    rows = [{"s": text, "b\nc": n} for n in (1, 2)] + [{"s": text.replace("\n", "\n  "), "b\nc": 2}]
    expected = [{"t": text, "b": 2} for row in rows if row == {"s": text, "b\nc": 2}]
    for graph in (built.graph(), check(parse_flow(printed(built.build())))):
        assert run(graph, {"A": rows}).spaces["B"] == expected


def test_errors_of_the_builder_name_the_arc():
    built = FlowBuilder()
    built.space("A", x=int)
    built.arc("A", "B").select("y > 3")
    with pytest.raises(FlowError, match="line 2, arc A -> B: y is not in the space before"):
        built.graph()


# --- every mistake has its own message ------------------------------------------

MISTAKES = {
    "a select on what the transform dropped": (
        "LargeTrades -> X : select vol > 3",
        "arc LargeTrades -> X: vol is not in the space before; it has com, cap",
    ),
    "= for :=": (
        "NYSE -> X : [price, ...] => [p = price]",
        "arc NYSE -> X: = compares; an assignment is written :=",
    ),
    "SQL's AS after a name": (
        "NYSE -> X : [price, ...] => [price AS p]",
        "arc NYSE -> X: an assignment puts the name first",
    ),
    "SQL's AS after a term": (
        "NYSE -> X : [price, ...] => [price * 2 AS p]",
        "arc NYSE -> X: an assignment puts the name first, without AS",
    ),
    "a term without a name": (
        "NYSE -> X : [price, ...] => [price * 2]",
        "arc NYSE -> X: a value needs a name",
    ),
    "a name of the wrong side": (
        "NYSE -> X : [price, vol, ...] => [cap := price * vol, twice := cap * 2]",
        "arc NYSE -> X: cap is made by this rule: it stands on the other side of =>",
    ),
    "a name that the pattern does not list": (
        "NYSE -> X : [price, ...] => [cap := price * vol]",
        "arc NYSE -> X: vol is not in the pattern; it has price",
    ),
    "a pattern that does not list all": (
        "NYSE -> X : [price] => [price]",
        "arc NYSE -> X: the pattern does not list issue, vol",
    ),
    "dots on one side only": (
        "NYSE -> X : [issue, price, vol] => [price, ...]",
        "arc NYSE -> X: ... carries over what the pattern does not name",
    ),
    "dots that carry what is assigned": (
        "NYSE -> X : [price, ...] => [vol := price, ...]",
        "arc NYSE -> X: vol is assigned, and ... carries it over too",
    ),
    "arcs with different columns": (
        "NYSE -> LargeTrades",
        "arc NYSE -> LargeTrades: this arc adds issue, price, vol and lacks com, cap, "
        "compared with arc Combined -> LargeTrades",
    ),
    "arcs with different types": (
        "NYSE -> LargeTrades : [vol, price, ...] => [com := vol, cap := price]",
        "arc NYSE -> LargeTrades: com is int here, string from arc Combined -> LargeTrades",
    ),
    "rules with different columns": (
        "NYSE -> X : [vol, ... when vol > 1] => [a := vol] | [vol, ...] => [b := vol]",
        "arc NYSE -> X: this rule adds b and lacks a, compared with the rule before",
    ),
    "an arc that does not fit the declaration": (
        "space X(vol: int)\nNYSE -> X : [price, ...] => [vol := price]",
        "arc NYSE -> X: vol is double here, int in the declaration of space X",
    ),
    "a cycle": (
        "LargeTrades -> Again\nAgain -> LargeTrades",
        "the arcs form a cycle: ",
    ),
    "an unknown space": (
        "NISE -> X",
        "arc NISE -> X: there is no space NISE: it is not declared and no arc leads to it",
    ),
    "an unknown lookup": (
        "NYSE -> X : [issue, ...] => [com := NYSEbd(issue)]",
        "arc NYSE -> X: there is no lookup NYSEbd",
    ),
    "a wrong key": (
        "NYSE -> X : [vol, ...] => [com := NYSEdb(vol)]",
        "arc NYSE -> X: the key of NYSEdb is a string, this is an int",
    ),
    "two keys": (
        "NYSE -> X : [issue, ...] => [com := NYSEdb(issue, issue)]",
        "arc NYSE -> X: NYSEdb takes one key",
    ),
    "a misspelt name": (
        "NYSE -> X : select prise > 3",
        "arc NYSE -> X: prise is not in the space before; it has issue, price, vol",
    ),
    "types that never compare": (
        "NYSE -> X : select issue > 3",
        "arc NYSE -> X: issue is a string, 3 is an int",
    ),
    "an int or a double": (
        "NYSE -> X : select coalesce(price, 1) > 3",
        "arc NYSE -> X: this may be an int or a double",
    ),
    "a space declared twice": (
        "space NYSE(x: int)",
        "space NYSE: space NYSE is declared twice",
    ),
    "a column twice": ("space X(a: int, a: int)", "space X: column a is named twice"),
    "a name assigned twice": (
        "NYSE -> X : [vol, ...] => [a := vol, a := vol]",
        "arc NYSE -> X: a is assigned twice",
    ),
    "an unknown type": ("space X(a: strin)", "space X: there is no type strin"),
    "a condition in a where that names what is not there": (
        "space X(a: int) where b > 0",
        "space X: b is not in space X; it has a",
    ),
    "-> for =>": (
        "NYSE -> X : [vol, ...] -> [vol]",
        "arc NYSE -> X: expected => between pattern and assignments",
    ),
    "=> for >=": ("NYSE -> X : select vol => 3", "arc NYSE -> X: expected the end"),
    "a condition in a pattern": (
        "NYSE -> X : [vol > 3, ...] => [vol]",
        "arc NYSE -> X: expected ] after the pattern",
    ),
    "an unknown statement": ("spaces X(a: int)", "no statement begins with spaces"),
    "a test of nothing": ("test 'x'\n  given NYSE ('IBM', 1.0, 2)", "a test without expect"),
}
HINTS = {
    "an unknown space": "did you mean NYSE?",
    "an unknown lookup": "did you mean NYSEdb?",
    "a misspelt name": "did you mean price?",
    "an unknown type": "did you mean string?",
    "a condition in a pattern": "put conditions after when",
    "=> for >=": "the comparison is written >=",
    "= for :=": "write p := ...",
    "an unknown statement": "did you mean space?",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_names_the_arc_and_its_place(mistake):
    text, message = MISTAKES[mistake]
    with pytest.raises(FlowError) as caught:
        check(parse_flow(STOCKS + text + "\n"))
    error = caught.value
    assert message in str(error)
    assert LINES < error.line <= LINES + text.count("\n") + 1
    assert str(error).startswith(f"line {error.line}")
    assert "\n  " in str(error)
    assert "^" in str(error)
    assert HINTS.get(mistake, "") in error.hint


def test_an_arc_reads_from_a_derived_space_that_is_declared_nowhere_else():
    with pytest.raises(FlowError, match="arc X -> Y"):
        check(parse_flow("X -> Y\n"))


# --- limits and hostile texts ---------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "text", "name"),
    [
        (FlowLimits(length=10), "space A(x: int)", "length"),
        (FlowLimits(statements=1), "space A(x: int)\nspace B(x: int)", "statements"),
        (FlowLimits(columns=1), "space A(x: int, y: int)", "columns"),
        (FlowLimits(), "space A(x: int)\nA -> B : select " + "NOT " * 200 + "x > 1", "depth"),
    ],
)
def test_limits_are_named(limits, text, name):
    with pytest.raises(FlowError) as caught:
        parse_flow(text, limits)
    assert caught.value.limit == name


@pytest.mark.parametrize("text", [None, 7, b"space A(x: int)", "a\0b", "\ud800"])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(FlowError):
        parse_flow(text)


PIECES = [
    *"[](){};:|,'\"`#.\n \t",
    "->",
    "=>",
    ":=",
    "...",
    "when",
    "select",
    "space ",
    "1.5e",
    "A",
]


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, len(STOCKS)), st.integers(0, 60), st.lists(st.sampled_from(PIECES), max_size=6)
)
def test_changed_texts_are_read_or_refused(start, cut, pieces):
    text = STOCKS[:start] + "".join(pieces) + STOCKS[start + cut :]
    try:
        flow = parse_flow(text)
        check(flow)
    except FlowError:
        return
    assert parse_flow(printed(flow)) == flow


def test_an_error_survives_pickling():
    import pickle

    with pytest.raises(FlowError) as caught:
        parse_flow("spaec A(x: int)")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_many_arcs_are_checked_in_good_time():
    text = "space A0(x: int)\n" + "".join(f"A{i // 3} -> A{i + 1}\n" for i in range(9_000))
    assert len(check(parse_flow(text)).schemas) == 9_001


def test_flows_are_values():
    assert Flow((Arc("A", "B"),)) == Flow((Arc("A", "B", at=7),))
