"""Many numeric terms: the program of an index against the oracle, one by one and in batches."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pyarrow as pa
import pytest

import oracle
from tamis import Matcher, Schema
from tamis.engine.values.term_program import program_of
from tamis.language import parse

ATTRIBUTES = ("i", "j", "d", "e", "b", "t", "s", "missing")
CONSTANTS = ("0", "1", "-1", "3", "2.5", "-0.5", "9223372036854775807", "1e300", "0.0", "7")
INTS = (0, 1, -1, 3, 7, 2**53 + 1, 2**63 - 1, -(2**63), None)
DOUBLES = (
    0.0,
    -0.0,
    1.5,
    -2.5,
    3.0,
    1e300,
    float("inf"),
    float("-inf"),
    float("nan"),
    2.0**53,
    None,
)
MOMENT = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
MOMENTS = (MOMENT, MOMENT.replace(year=2001), None)
VALUES: dict[str, tuple[Any, ...]] = {
    **{"i": INTS, "j": INTS, "d": DOUBLES, "e": DOUBLES, "b": (True, False, None)},
    **{"t": MOMENTS, "s": ("a", "b", "", None)},
}
TYPES = {"i": int, "j": int, "d": float, "e": float, "b": bool, "t": "timestamp", "s": str}
SCHEMA = Schema.of(TYPES)


def term(rng: random.Random, names: tuple[str, ...], depth: int = 2) -> str:
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(CONSTANTS) if rng.random() < 0.35 else rng.choice(names)
    form = rng.choice(("({} + {})", "({} - {})", "({} * {})", "({} / {})", "-({})", "abs({})"))
    return form.format(*(term(rng, names, depth - 1) for _ in range(form.count("{}"))))


def selector(rng: random.Random, names: tuple[str, ...]) -> str:
    op = rng.choice(("<", "<=", "=", "<>", ">", ">="))
    left = term(rng, names)
    right = rng.choice(CONSTANTS) if rng.random() < 0.6 else term(rng, names, 1)
    no = "NOT " if rng.random() < 0.2 else ""
    return f"{no}({left} {op} {right})"


def selectors(rng: random.Random, schema: Schema | None, count: int) -> list[str]:
    """Good ones: under a schema, arithmetic on texts is refused."""
    names = ATTRIBUTES if schema is None else ATTRIBUTES[:4]
    found = [selector(rng, names) for _ in range(count)]
    return [*found, *PLAIN]


PLAIN = ("i < d", "d >= i", "i = j", "d <> e", "t < t", "b = b", "s < s", "s = s", "j > e")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("schema", [None, SCHEMA])
@pytest.mark.parametrize("semantics", ["sql", "default", "strict"])
def test_terms_agree_with_the_oracle(seed: int, schema: Schema | None, semantics: Any) -> None:
    rng = random.Random(seed)
    texts = selectors(rng, schema, 60)
    conditions = [parse(text) for text in texts]
    matcher = Matcher(schema, semantics=semantics)
    matcher.add_many(enumerate(texts))
    matcher.settle()
    segment = matcher._contents.merging.state.parts[0].segment
    assert program_of(segment.index) is not None
    assert segment.words is not None
    messages = [
        {name: rng.choice(held) for name, held in VALUES.items() if rng.random() < 0.9}
        for _ in range(150)
    ]
    expected = [
        [i for i, c in enumerate(conditions) if oracle.matches(c, m, semantics, schema)]
        for m in messages
    ]
    assert matcher.match_many(messages).to_pylist() == expected
    assert [matcher.match(m) for m in messages[:40]] == expected[:40]
    arrow = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    types = {name: arrow.get(kind, pa.timestamp("us", "UTC")) for name, kind in TYPES.items()}
    columns = {n: pa.array([m.get(n) for m in messages], kind) for n, kind in types.items()}
    table = pa.concat_tables([pa.table(columns)] * 15)  # more than one block of words
    assert matcher.match_batch(table).to_pylist() == expected * 15
    assert matcher.count_batch(table.slice(7)).tolist() == [*map(len, expected * 15)][7:]


def test_values_of_several_types_in_one_column() -> None:
    """Without a schema a column may hold anything: terms of it take the plain way."""
    rng = random.Random(7)
    texts = selectors(rng, None, 60)
    conditions = [parse(text) for text in texts]
    matcher = Matcher()
    matcher.add_many(enumerate(texts))
    everything = [value for held in VALUES.values() for value in held]
    messages = [{n: rng.choice(everything) for n in ATTRIBUTES[:-1]} for _ in range(80)]
    expected = [[i for i, c in enumerate(conditions) if oracle.matches(c, m)] for m in messages]
    assert matcher.match_many(messages).to_pylist() == expected
    assert [matcher.match(m) for m in messages] == expected


def test_computed_values_are_no_part_of_a_signature(monkeypatch) -> None:
    """Clusters that a value leads to ask for values of computed terms by their events."""
    monkeypatch.setattr("tamis.engine.choosing.claims.MIN_POINTS", 3)
    terms = ("(m - 1) DIV m", "m + 1", "m - 1", "m * 2", "m * 3", "m * 5", "n + 7", "n - 7", "-m")
    texts = [f"n = {i} AND {term} <> 100 AND {term} = {{}}" for i in range(3) for term in terms]
    values = {"(m - 1) DIV m": 0, "m + 1": 4, "m - 1": 2, "m * 2": 6, "m * 3": 9, "m * 5": 15}
    values |= {"n + 7": 9, "n - 7": -5, "-m": -3}
    matcher = Matcher(Schema.of(n=int, m=int))
    matcher.add_many(
        (i, text.format(values[terms[i % len(terms)]])) for i, text in enumerate(texts)
    )
    message = {"n": 2, "m": 3}
    wanted = list(range(2 * len(terms), 3 * len(terms)))
    assert matcher.match(message) == wanted
    assert matcher.match_many([message] * 70).to_pylist() == [wanted] * 70
