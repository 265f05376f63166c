"""EvalBDD and MVEvalBDD agree with the oracle, on restricted, plain and stratified diagrams."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bench.reference import STAR, eval_bdd, mv_eval_bdd, truths_of

import oracle
import strategies as st
from tamis.diagram.conditions import Diagram, diagram_of
from tamis.errors import MessageError
from tamis.language import Condition, parse
from tamis.logic import SEMANTICS, Semantics
from tamis.schema import Schema

ROOT = Path(__file__).parents[1]
PAIRS = 12
# In the order of the names all first halves come before all second ones: 2^12 nodes, or strata.
WIDE = " OR ".join(f"(a{i:02} = 1 AND b{i:02} = 1)" for i in range(PAIRS))


def roots(diagram: Diagram, message, semantics: Semantics = "sql") -> list[int]:
    truth = truths_of(diagram, message, semantics, lookups=st.LOOKUPS)
    return eval_bdd(diagram.shared, truth)[diagram.shared.roots].tolist()


def star_roots(diagram: Diagram, message) -> list[int]:
    truth = truths_of(diagram, message, "strict", lookups=st.LOOKUPS, star=True)
    return mv_eval_bdd(diagram.shared, truth)[diagram.shared.roots].tolist()


def expected(conditions, message, semantics, schema) -> list[bool]:
    return [oracle.matches(c, message, semantics, schema, st.LOOKUPS) for c in conditions]


def cases(rng: random.Random, semantics: Semantics, rounds: int, *, typed: bool):
    """Conditions, their schema, and messages that the semantics takes."""
    for _ in range(rounds):
        schema = st.random_schema(rng) if typed or semantics == "total" else None
        conditions = [
            st.random_condition(rng, schema, lookups=tuple(st.LOOKUPS)) for _ in range(20)
        ]
        total = semantics == "total"
        messages = (st.random_message(rng, schema, total=total) for _ in range(25))
        yield conditions, schema, [m for m in messages if takes(m, semantics, schema)]


def takes(message, semantics: Semantics, schema: Schema | None) -> bool:
    try:
        oracle.matches(st.tree.Constant(True), message, semantics, schema)
    except MessageError:
        return False
    return True


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_icse2001_proposition_10(semantics: Semantics, typed: bool) -> None:
    """The value of a root is the value of its condition; restriction changes no message's."""
    rng = random.Random(f"{semantics}{typed}")
    matched = 0
    for conditions, schema, messages in cases(rng, semantics, 8, typed=typed):
        restricted = diagram_of(conditions, schema, semantics)
        plain = diagram_of(conditions, schema, semantics, restricting=False)
        for message in messages:
            wanted = expected(conditions, message, semantics, schema)
            assert roots(restricted, message, semantics) == wanted
            assert roots(plain, message, semantics) == wanted
            matched += sum(wanted)
    assert matched > 100


@pytest.mark.parametrize("restricting", [False, True])
def test_star_taken_for_false_is_the_strict_semantics(restricting: bool) -> None:
    rng = random.Random(5)
    seen = set()
    for conditions, schema, messages in cases(rng, "strict", 10, typed=restricting):
        diagram = diagram_of(conditions, schema, "strict", restricting=restricting)
        for message in messages:
            found = star_roots(diagram, message)
            assert [f == 1 for f in found] == expected(conditions, message, "strict", schema)
            seen.update(found)
    assert seen == {0, 1, STAR}


def test_a_star_below_makes_a_node_a_star() -> None:
    """ITE* takes both successors (figure 5): the value need not depend on the star."""
    diagram = diagram_of([parse("a = 1 AND b = 1")])
    assert roots(diagram, {"a": 2}) == [0]
    assert star_roots(diagram, {"a": 2}) == [STAR]


def test_icse2001_example_5_needs_the_strict_diagram() -> None:
    """Restricted without adequacy the price is lost, and Alice and Bob get every message."""
    either = [parse("price < 1000 OR price > 500")]
    schema = Schema.of(price=float)
    assert star_roots(diagram_of(either, schema, "total"), {}) == [1]
    assert star_roots(diagram_of(either, schema, "total", restricting=False), {}) == [STAR]
    assert star_roots(diagram_of(either, schema, "strict"), {}) == [STAR]


def test_restriction_is_for_messages_and_not_for_all_assignments() -> None:
    condition = [parse("n = 10 AND n > 8")]
    schema = Schema.of(n=int)
    restricted = diagram_of(condition, schema)
    plain = diagram_of(condition, schema, restricting=False)
    never = np.zeros(plain.shared.atoms, np.uint8)
    never[[i for i in range(len(never)) if plain.atoms.kind[i] == 3]] = 1  # n = 10 but not n > 8
    assert eval_bdd(restricted.shared, never)[restricted.shared.roots] == [1]
    assert eval_bdd(plain.shared, never)[plain.shared.roots] == [0]


def wide_messages(rng: random.Random) -> list[dict[str, int]]:
    names = [f"{half}{i:02}" for half in "ab" for i in range(PAIRS)]
    return [{n: rng.randint(0, 1) for n in names if rng.random() < 0.5} for _ in range(60)]


@pytest.mark.parametrize("semantics", ["sql", "strict"])
@pytest.mark.parametrize("restricting", [False, True])
def test_strata_change_nothing(semantics: Semantics, restricting: bool) -> None:
    conditions = [parse(WIDE), parse(f"NOT ({WIDE}) OR a03 = 0"), parse("a00 = 1")]
    small = diagram_of(conditions, None, semantics, restricting=restricting, budget=8)
    large = diagram_of(conditions, None, semantics, restricting=restricting, budget=10**6)
    assert strata_of(small)
    assert not strata_of(large)
    assert len(small.shared) < len(large.shared) / 4
    rng = random.Random(1)
    seen = set()
    messages = [
        *wide_messages(rng),
        dict.fromkeys((f"{h}{i:02}" for h in "ab" for i in range(PAIRS)), 1),
    ]
    for message in messages:
        wanted = expected(conditions, message, semantics, None)
        assert roots(small, message, semantics) == roots(large, message, semantics) == wanted
        if semantics == "strict":
            assert [f == 1 for f in star_roots(small, message)] == wanted
        seen.update(enumerate(wanted))
    assert {(0, True), (0, False), (2, True), (2, False)} <= seen


def strata_of(diagram: Diagram) -> int:
    inner = diagram.shared.test[2:]
    return int((inner >= diagram.shared.atoms).sum())


def test_the_wrong_number_of_truths_is_refused() -> None:
    diagram = diagram_of([parse("a = 1")])
    for evaluate in (eval_bdd, mv_eval_bdd):
        with pytest.raises(ValueError, match="3 truth values for 1 atoms"):
            evaluate(diagram.shared, np.zeros(3, np.uint8))


WITHOUT_JIT = """
import test_reference as t
assert not hasattr(t.eval_bdd.__globals__["_eval_bdd"], "py_func"), "compiled"
conditions = [t.parse("a = 1 AND NOT b = 2 OR name CONTAINS 'x'"), t.parse(t.WIDE)]
messages = [{"a": 1, "b": 1}, {"a": 1}, {"name": "xy"}, {"a03": 1, "b03": 1}, {}]
for semantics in ("sql", "strict"):
    for budget in (8, 4096):
        diagram = t.diagram_of(conditions, None, semantics, budget=budget)
        for m in messages:
            wanted = t.expected(conditions, m, semantics, None)
            assert t.roots(diagram, m, semantics) == wanted
            if semantics == "strict":
                assert [f == 1 for f in t.star_roots(diagram, m)] == wanted
print("agreed")
"""


def test_without_the_compiler() -> None:
    paths = [str(ROOT / "src"), str(ROOT / "tests"), str(Path(__file__).parent)]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JIT], env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("agreed\n", 0), done.stderr


def test_conditions_of_one_kind_of_node() -> None:
    conditions: list[Condition] = [parse("TRUE"), parse("FALSE"), parse("a = 1")]
    diagram = diagram_of(conditions)
    assert roots(diagram, {"a": 1}) == [1, 0, 1]
    assert roots(diagram, {}) == [1, 0, 0]
