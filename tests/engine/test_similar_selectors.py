"""A selector means the same alone and after similar ones: nothing that decides is forgotten.

Predicates that differ in their constant or attribute share what was worked out for the first. Here
all operators meet all forms of terms and all types of attributes, each after each other one.
"""

from __future__ import annotations

import datetime
import pickle
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import oracle
from tamis import Matcher, SelectorError
from tamis.engine.reading.intake import Dialect, Intake
from tamis.language import Limits, parse
from tamis.logic import SEMANTICS, All, Formula, Literal, Semantics
from tamis.schema import Attribute, Scalar, Schema, Shape, Type

pytestmark = pytest.mark.slow

NOON = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.UTC)
VALUES: dict[Type, tuple[Scalar, Scalar]] = {
    Type.INT: (1, 2),
    Type.DOUBLE: (1.5, 2.0),
    Type.STRING: ("x", "yx"),
    Type.BOOL: (True, False),
    Type.TIMESTAMP: (NOON, NOON.replace(hour=0)),
}
PLAIN = [Attribute(f"a_{t.value}", t) for t in Type]
DEFAULTS = [Attribute(f"default_{t.value}", t, VALUES[t][0]) for t in Type]
LISTS = [Attribute(f"list_{t.value}", t, None, Shape.LIST) for t in Type]
MAPS = [Attribute(f"map_{t.value}", t, None, Shape.MAP) for t in Type]
SCHEMA = Schema((*PLAIN, *DEFAULTS, *LISTS, *MAPS))

TERMS = (
    "{a}", "lower({a})", "casefold({a})", "SIZE({a})", "ANY({a})", "ALL({a})", "{a}['k']",
    "lower(ANY({a}))", "length({a})", "abs({a})", "{a} + 1", "-{a}", "hour({a})",
    "coalesce({a}, 1)",
)  # fmt: skip
CONSTANTS = ("1", "1.5", "0", "'x'", "''", "TRUE", "TIMESTAMP '2013-01-01'")
TEXT_TESTS = ("CONTAINS", "WITHIN", "STARTS WITH", "ENDS WITH", "LIKE", "ILIKE", "MATCHES")
LISTED = ("(1, 2)", "('x', 'y')", "(1, 'x')", "(1.5)")
RANGES = ("1 AND 2", "'x' AND 'y'", "1.5 AND 2", "1 AND 'x'")
JMS_TEMPLATES = (
    "{a} = 1", "{a} <> 1.5", "{a} > 1", "{a} = 'x'", "{a} LIKE 'x%'", "{a} IN ('x', 'y')",
    "{a} BETWEEN 1 AND 2", "{a} IS NULL", "NOT {a} = 1", "{a} = 'x' OR {a} = 1",
)  # fmt: skip


def templates() -> Iterator[str]:
    """Every operator with every form of a term, and terms beside another attribute."""
    for term in TERMS:
        for op in ("=", "<>", "<", "<=", ">", ">="):
            yield from (f"{term} {op} {constant}" for constant in CONSTANTS)
        for op in TEXT_TESTS:
            yield from (f"{term} {op} {constant}" for constant in ("'x'", "1"))
        for no in ("", "NOT "):
            yield from (f"{term} {no}IN {items}" for items in LISTED)
            yield from (f"{term} {no}BETWEEN {bounds}" for bounds in RANGES)
            yield f"{term} IS {no}NULL"
            yield f"{no}{term}"
    yield from ("a_int = {a}", "{a} = a_string", "{a} < a_double", "{a} = (a_int > 1)")
    yield from ("'x' WITHIN {a}", "{a} % 2 = 0", "{a} = 1 AND ANY({a}) = 1", "{a} = 1 OR a_bool")


def answer(reader: Intake, selector: str) -> object:
    """What the selector means, or why it is refused."""
    try:
        return unordered(reader.formula(selector))
    except SelectorError as error:
        return str(error)


def unordered(formula: Formula) -> object:
    """Equal for formulas that differ in the order of their parts alone."""
    if isinstance(formula, Literal):
        return formula
    return isinstance(formula, All), frozenset(map(unordered, formula.parts))


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_selector_means_the_same_after_every_similar_one(semantics: Semantics) -> None:
    accepted, refused = compare_all_pairs(SCHEMA, semantics, "tamis", templates())
    assert accepted > 1_000 < refused


@pytest.mark.parametrize("semantics", ["sql", "default"])
def test_so_does_one_on_attributes_without_types(semantics: Semantics) -> None:
    compare_all_pairs(None, semantics, "tamis", templates())


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_so_does_a_jms_selector(schema: Schema | None) -> None:
    compare_all_pairs(schema, "sql", "jms", JMS_TEMPLATES)


def compare_all_pairs(
    schema: Schema | None, semantics: Semantics, dialect: Dialect, similar: Iterable[str]
) -> tuple[int, int]:
    """Read each selector alone and after each similar one; how many were accepted and refused."""
    accepted = refused = 0
    names = ("a", "b") if schema is None else tuple(schema)

    def intake() -> Intake:
        return Intake(schema, semantics, dialect, Limits(), {})

    for template in similar:
        selectors = [template.format(a=name) for name in names]
        alone = {selector: answer(intake(), selector) for selector in selectors}
        good = [selector for selector, said in alone.items() if not isinstance(said, str)]
        for first in good:
            reader = intake()
            reader.read(first)
            assert {s: answer(reader, s) for s in selectors} == alone, f"after {first}"
        accepted, refused = accepted + len(good), refused + len(alone) - len(good)
    return accepted, refused


@pytest.mark.parametrize("engine", ["diagram", "implication"])
def test_all_together_match_what_the_oracle_says(engine: Any) -> None:
    rng = random.Random(7)
    selectors = [t.format(a=name) for t in templates() for name in SCHEMA]
    rng.shuffle(selectors)
    matcher, refused = Matcher(SCHEMA, engine=engine), list[str]()
    matcher.add_many(enumerate(selectors), on_error=lambda id, text, error: refused.append(text))
    conditions = {id: parse(text) for id, text in matcher.items()}
    assert refused
    assert conditions
    messages = [message(rng) for _ in range(6)]
    expected = [
        [id for id, c in conditions.items() if oracle.matches(c, m, "sql", SCHEMA)]
        for m in messages
    ]
    assert any(expected)
    copies = (
        [matcher] if engine == "implication" else [matcher, pickle.loads(pickle.dumps(matcher))]
    )
    for found in copies:
        assert [found.match(m) for m in messages] == expected
        assert found.match_batch(messages).to_pylist() == expected


def message(rng: random.Random) -> dict[str, object]:
    """A value for most attributes."""
    return {name: value(rng, own) for name, own in SCHEMA.items() if rng.random() < 0.8}


def value(rng: random.Random, own: Attribute) -> object:
    one = rng.choice(VALUES[own.type])
    if own.shape is Shape.SCALAR:
        return one
    some = rng.sample(VALUES[own.type], rng.randint(0, 2))
    return some if own.shape is Shape.LIST else dict(zip(("k", "j"), some, strict=False))


@pytest.mark.parametrize(
    ("first", "next"),
    [
        ("a_double > 0", "a_double > {}.5"),
        ("a_int = 1.5", "a_int = {}"),
        ("a_string = ''", "a_string = 'x{}'"),
        ("a_string CONTAINS ''", "default_string CONTAINS 'x{}'"),
    ],
)
def test_an_odd_constant_leaves_the_short_cut_to_the_next_ones(
    monkeypatch: pytest.MonkeyPatch, first: str, next: str
) -> None:
    reader, worked_out = Intake(SCHEMA, "sql", "tamis", Limits(), {}), list[object]()
    whole_way = Intake._work_out

    def counted(self: Intake, pieces: list[str], i: int) -> Any:
        worked_out.append(pieces)
        return whole_way(self, pieces, i)

    monkeypatch.setattr(Intake, "_work_out", counted)
    reader.read(first)
    worked_out.clear()
    for i in range(50):
        reader.read(next.format(i + 1))
    assert len(worked_out) <= 1


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("a_int > 0", "list_int > 0"),
        ("a_string = 'x'", "map_string = 'x'"),
        ("a_double BETWEEN 1 AND 2", "list_double BETWEEN 1 AND 2"),
        ("SIZE(list_int) = 0", "SIZE(map_int) = 0"),
    ],
)
def test_what_is_refused_leaves_the_others_as_they_were(tmp_path: Any, good: str, bad: str) -> None:
    matcher = Matcher(SCHEMA)
    matcher.add("good", good)
    row = {"a_int": 1, "a_string": "x", "a_double": 1.5, "list_int": []}
    with pytest.raises(SelectorError):
        matcher.add("bad", bad)
    assert matcher.add_many([("worse", bad)], on_error=lambda *_: None) == 0
    assert matcher.match(row) == ["good"]
    matcher.save(tmp_path / "saved")
    assert Matcher.load(tmp_path / "saved").match(row) == ["good"]
