"""Trees and edges: the figures and equations of US 7,136,899, by name."""

from __future__ import annotations

import random

import pytest

import oracle
import strategies as st
from engine.implications.forests import Planted
from tamis.language import canonical, parse
from tamis.schema import Schema

XYZ = Schema.of(x=int, y=int, z=int)
S1 = "(x = 3 AND y > 1 AND y < 4) OR x = 5"
S2 = "(x = 2 AND y = 3) OR (x > 4 AND y > 2) OR z > 4"


def test_us7136899_figure_6() -> None:
    schema = Schema.of(p1=bool, p2=bool, p3=bool)
    tree = Planted.of(["(p1 AND p2) OR p3"], schema).tree(0)
    p3 = ("p3 = TRUE", "TRUE", "FALSE")
    assert tree == ("p1 = TRUE", ("p2 = TRUE", "TRUE", p3), p3)


def test_us7136899_equation_12() -> None:
    """if (X = 3) then (if (X = 5) then S1 else S2) is if (X = 3) then S2."""
    text = "x = 3 AND (x = 5 AND y = 1 OR NOT x = 5 AND y = 2)"
    expected = ("x = 3", ("y = 2", "TRUE", "FALSE"), "FALSE")
    assert Planted.of([text], XYZ).tree(0) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x < 3 AND x < 5", ("x < 3", "TRUE", "FALSE")),  # 15: p(M) => p(N), N = high(M)
        ("x = 3 AND x = 5", "FALSE"),  # 16: p(M) => !p(N)
        ("x < 3 OR x >= 3 AND y = 1", ("x < 3", "TRUE", ("y = 1", "TRUE", "FALSE"))),  # 18
        ("x < 5 OR x >= 3", "TRUE"),
        ("NOT x < 5 AND x < 3", "FALSE"),  # 19
    ],
)
def test_us7136899_equations_14_to_19(text: str, expected: object) -> None:
    assert Planted.of([text], XYZ).tree(0) == expected


def test_us7136899_figure_9_trees() -> None:
    planted = Planted.of([S1, S2], XYZ)
    y = ("y < 2", "FALSE", ("y < 4", "TRUE", "FALSE"))
    z = ("z < 5", "FALSE", "TRUE")
    assert planted.tree(0) == ("x = 3", y, ("x = 5", "TRUE", "FALSE"))
    assert planted.tree(1) == (
        "x = 2",
        ("y = 3", "TRUE", z),
        ("x < 5", z, ("y < 3", z, "TRUE")),
    )


def test_us7136899_figure_9_p1_implies_p9() -> None:
    """P1 true: x = 2 and x > 4 are false, so S2 goes on at P9; edge 943 starts at P2."""
    planted = Planted.of([S1, S2], XYZ)
    edges = planted.edge_texts()
    p9 = "S2: NOT x = 2 AND x < 5"
    assert ("S1: x = 3", p9) in edges
    assert planted.text(1) == "y < 2"  # the node behind P1 is P2
    # no other node of S1 leads below where its own test stands, and S2 = true decides S1
    assert edges == {("S1: x = 3", p9), ("S2: x = 2", "S1: NOT x = 3 AND NOT x = 5")}


def test_us7136899_figure_10() -> None:
    """A: x > 9, C: x > 5, E: x > 3. A => C and C => E are edges, A => E is not."""
    edges = Planted.of(["x > 9", "x > 5", "x > 3"], XYZ).edge_texts()
    assert edges == {
        ("S1: NOT x < 10", "S2: NOT x < 6"),
        ("S2: NOT x < 6", "S3: NOT x < 4"),
        ("S3: x < 4", "S2: x < 6"),
        ("S2: x < 6", "S1: x < 10"),
    }


def test_a_long_chain_has_no_edge_too_many() -> None:
    selectors = [f"x < {n}" for n in random.Random(3).sample(range(1000), 100)]
    assert len(Planted.of(selectors, XYZ).edge_texts()) == 2 * 99


def test_texts_imply_texts() -> None:
    schema = Schema.of(s=str)
    edges = Planted.of(["s STARTS WITH 'abc'", "s CONTAINS 'b'", "s = 'abcd'"], schema).edge_texts()
    assert ("S1: s STARTS WITH 'abc'", "S2: s CONTAINS 'b'") in edges
    assert ("S3: s = 'abcd'", "S1: s STARTS WITH 'abc'") in edges
    assert ("S3: s = 'abcd'", "S2: s CONTAINS 'b'") not in edges  # by way of S1


def test_a_tree_over_budget_is_none() -> None:
    wide = " AND ".join(f"(x = {2 * i} OR y = {i})" for i in range(40))
    planted = Planted.of([wide, S1], XYZ, budget=8)
    assert planted.forest.large.tolist() == [0]
    assert planted.tree(1)[0] == "x = 3"


def test_the_budget_of_edges_holds() -> None:
    selectors = [f"x < {n} AND y = {n}" for n in range(60)] + ["x = 0 AND z = 1"] * 20
    for budget in (1, 3):
        offsets = Planted.of(selectors, XYZ).edges(budget).offsets
        assert 0 < max(offsets[1:] - offsets[:-1]) <= budget


def test_every_edge_is_an_implication() -> None:
    """Whatever message reaches the source of an edge reaches its target, by the oracle."""
    rng = random.Random(5)
    seen = 0
    for _ in range(12):
        schema = st.random_schema(rng)
        conditions = [st.random_condition(rng, schema, depth=2) for _ in range(12)]
        planted = Planted.of([canonical(c) for c in conditions], schema, "sql")
        pairs = [(a.partition(": ")[2], b.partition(": ")[2]) for a, b in planted.edge_texts()]
        pairs = [p for p in pairs if p[0] and p[1] and " is a" not in p[0] + p[1]]
        for source, target in pairs[:40]:
            a, b = parse(source), parse(target)
            for _ in range(8):
                message = st.random_message(rng, schema)
                # atoms are two-valued, so NOT of an undefined one is true: as under `default`
                bare = Schema.of({name: one.type for name, one in schema.items()})
                if oracle.matches(a, message, "default", bare):
                    assert oracle.matches(b, message, "default", bare)
                    seen += 1
    assert seen > 100
