"""Restriction: what a path already knows of an attribute decides the tests below (ICSE 2001, 7)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from bench.reference import eval_bdd, truths_of

import oracle
from tamis.diagram.conditions import Diagram, diagram_of
from tamis.diagram.wording import atom_of
from tamis.language import Condition, parse
from tamis.schema import Schema

NUMBERS = Schema.of(n=int, m=int)
TEXTS = Schema.of(s=str)
WORDS = ("", "a", "ab", "abc", "b", "ba", "cab", "é", "xaby")


@pytest.mark.parametrize(
    ("schema", "one", "other"),
    [
        (NUMBERS, "n = 10 AND n > 8", "n = 10"),
        (NUMBERS, "n < 5 AND n < 8", "n < 5"),
        (NUMBERS, "n < 5 OR n < 8", "n < 8"),
        (NUMBERS, "n = 1 AND m = 2 AND n <> 3", "n = 1 AND m = 2"),
        (NUMBERS, "n > 3 AND n < 5 AND n = 4", "n = 4"),
        (NUMBERS, "n < 5 AND n > 8", "FALSE"),
        (NUMBERS, "n = 1 AND n = 2", "FALSE"),
        (TEXTS, "s = 'ab' AND s STARTS WITH 'a'", "s = 'ab'"),
        (TEXTS, "s = 'ab' AND s CONTAINS 'c'", "FALSE"),
        (TEXTS, "s = 'ab' AND s < 'b'", "s = 'ab'"),
    ],
)
def test_conditions_that_mean_the_same_have_one_root(schema: Schema, one: str, other: str) -> None:
    conditions = [parse(one), parse(other)]
    first, second = diagram_of(conditions, schema).shared.roots.tolist()
    assert first == second
    first, second = diagram_of(conditions, schema, restricting=False).shared.roots.tolist()
    assert first != second


def about_numbers(rng: random.Random) -> str:
    c = rng.randrange(8)
    return rng.choice((f"n < {c}", f"n = {c}", f"n >= {c}", f"n <> {c}", "n IS NULL"))


def about_texts(rng: random.Random) -> str:
    word = rng.choice(WORDS[1:])
    op = rng.choice(("=", "<>", "<", ">=", "STARTS WITH", "ENDS WITH", "CONTAINS", "WITHIN"))
    return f"s {op} '{word}'"


def joined(rng: random.Random, about, depth: int = 3) -> str:
    if depth == 0 or rng.random() < 0.2:
        return about(rng)
    parts = [joined(rng, about, depth - 1) for _ in range(rng.randint(2, 3))]
    text = f"({rng.choice((' AND ', ' OR ')).join(parts)})"
    return f"NOT {text}" if rng.random() < 0.3 else text


def paths(diagram: Diagram, node: int, taken: dict[int, bool]) -> Iterator[dict[int, bool]]:
    """The tests, and their results, on every way from a node to TRUE or FALSE."""
    shared = diagram.shared
    if node < 2:
        yield dict(taken)
        return
    test = int(shared.test[node])
    for result, successor in ((False, shared.low[node]), (True, shared.high[node])):
        yield from paths(diagram, int(successor), {**taken, test: result})


def agree(diagram: Diagram, conditions: list[Condition], schema: Schema, values) -> None:
    for message in values:
        truth = truths_of(diagram, message)
        found = eval_bdd(diagram.shared, truth)[diagram.shared.roots].tolist()
        assert found == [oracle.matches(c, message, "sql", schema) for c in conditions]


@pytest.mark.parametrize("seed", range(40))
def test_no_path_of_a_restricted_diagram_of_numbers_contradicts_itself(seed: int) -> None:
    """Of sets of several numbers (IN) restriction knows less; they mean the same all the same."""
    rng = random.Random(seed)
    conditions = [parse(joined(rng, about_numbers)) for _ in range(6)]
    values: list[dict[str, object]] = [{"n": n} for n in range(-1, 12)] + [{}]
    plain = diagram_of(conditions, NUMBERS, restricting=False)
    diagram = diagram_of(conditions, NUMBERS)
    agree(plain, conditions, NUMBERS, values)
    agree(diagram, conditions, NUMBERS, values)
    truths = [truths_of(diagram, message).tolist() for message in values]
    for root in diagram.shared.roots.tolist():
        for path in paths(diagram, root, {}):
            possible = any(all(t[v] == r for v, r in path.items()) for t in truths)
            assert possible, [str(atom_of(diagram, v)) for v in path]


@pytest.mark.parametrize("seed", range(40))
def test_restricted_diagrams_of_texts_mean_the_same(seed: int) -> None:
    rng = random.Random(seed)
    conditions = [parse(joined(rng, about_texts)) for _ in range(6)]
    values: list[dict[str, object]] = [{"s": word} for word in WORDS] + [{}]
    agree(diagram_of(conditions, TEXTS), conditions, TEXTS, values)
    agree(diagram_of(conditions, TEXTS, restricting=False), conditions, TEXTS, values)
