"""Lineage, notices and pictures."""

from __future__ import annotations

import pytest

from flow.random_flows import random_run
from tamis.errors import FlowError
from tamis.flow import check, parse_flow, rewrite
from tamis.flow.showing import lineage, mermaid, notices, picture, svg
from tamis.flow.showing.flow_pictures import Counts

TEXT = """
space A(x: int, name: string)
lookup L(string) -> string
A -> B : [x, name when x > 3] => [y := x * 2, com := L(name)] | [x, name] => [y := 0, com := name]
B -> C : select y > 1
"""


def test_lineage_goes_through_rules_and_lookups():
    found = lineage(check(parse_flow(TEXT)), "C")
    assert [(o.source, o.term, o.attributes, o.lookups) for o in found["com"]] == [
        ("A", "L(name)", ("name",), ("L",)),
        ("A", "name", ("name",), ()),
    ]
    assert {o.depends for o in found["y"]} == {("x",)}
    with pytest.raises(FlowError, match="there is no space D"):
        lineage(check(parse_flow(TEXT)), "D")


@pytest.mark.parametrize(
    ("arc", "expected"),
    [
        ("A -> B : select x > 3 AND x < 2", "arc A -> B: select x > 3 AND x < 2 can never hold"),
        (
            "A -> B : [x] => [y := 1] | [x] => [y := 2]",
            "rule 2, [x] => [y := 2], can never fire: rule 1 matches all that it could match",
        ),
        (
            "A -> B : [x when x > 3 AND x < 1] => [y := 1] | [x] => [y := 2]",
            "rule 1, [x when x > 3 AND x < 1] => [y := 1], can never fire: "
            "its guard can never be true",
        ),
        (
            "A -> B : [x when x > 3] => [y := 1] | [x when x <= 3] => [y := 2] "
            "| [x when x = 3] => [y := 3]",
            "rule 3, [x when x = 3] => [y := 3], can never fire: rule 2 matches",
        ),
        (
            "A -> B : [x when x > 5] => [y := 1] | [x when x < 9] => [y := 2] "
            "| [x when x IS NOT NULL] => [y := 3]",
            "can never fire: the rules before it together match all that it could match",
        ),
        ("A -> B : [x] => [y := 1]\nB -> C : select y = 2", "path A -> B -> C: no message can"),
    ],
)
def test_notices_name_the_rule_and_what_covers_it(arc, expected):
    found = notices(check(parse_flow(f"space A(x: int)\n{arc}\n")))
    assert len(found) == 1
    assert expected in str(found[0])


def test_a_flow_without_mistakes_has_no_notices():
    assert notices(check(parse_flow(TEXT))) == []


def test_pictures_show_counts():
    graph = check(parse_flow(TEXT))
    counts = Counts({"A": 10, "B": 9, "C": 1234}, {0: 9, 1: 1234})
    assert "1,234" in mermaid(picture(graph, counts))
    assert svg(picture(graph, counts)).count(">1,234<") == 2


@pytest.mark.parametrize("seed", range(5))
def test_random_flows_can_be_drawn(seed):
    import xml.etree.ElementTree as ET

    graph = random_run(seed)[0]
    for shown in (graph, rewrite(graph)):
        assert mermaid(picture(shown)).startswith("flowchart TD")
        ET.fromstring(svg(picture(shown)))


def test_a_flow_that_is_too_large_to_be_drawn_is_refused():
    arcs = "".join(f"A -> B{i} : select x > {i}\n" for i in range(250))
    with pytest.raises(FlowError, match="too large"):
        picture(check(parse_flow(f"space A(x: int)\n{arcs}")))
