"""General conditions over 30 attributes: negations, nesting, disjunctions of 20 to 200 terms."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from tamis.schema import Schema

_INTS = tuple(f"n{k}" for k in range(1, 9))
_DOUBLES = tuple(f"x{k}" for k in range(1, 9))
_TEXTS = tuple(f"t{k}" for k in range(1, 11))
_FLAGS = tuple(f"f{k}" for k in range(1, 5))
SCHEMA = Schema.of(
    dict.fromkeys(_INTS, int)
    | dict.fromkeys(_DOUBLES, float)
    | dict.fromkeys(_TEXTS, str)
    | dict.fromkeys(_FLAGS, bool)
)
WORDS = tuple(
    f"{a}{b}{c}" for a in "bdgkmprt" for b in ("a", "e", "o") for c in ("lin", "rot", "ska")
)
_SPAN = 10_000  # integers are in 0.._SPAN, doubles in 0..1


def conditions(count: int, seed: int = 1) -> list[str]:
    """So many selectors: two in three are one wide disjunction under some conjunction."""
    chance = random.Random(seed)
    return [condition(chance) for _ in range(count)]


def condition(chance: random.Random) -> str:
    """One selector."""
    shape = chance.randrange(3)
    if shape == 0:
        return _nested(chance, 4)
    wide = _disjunction(chance, chance.randint(20, 200))
    if shape == 1:
        return f"{_atom(chance)} AND ({wide})"
    return f"({wide}) AND NOT ({_nested(chance, 2)})"


def _disjunction(chance: random.Random, terms: int) -> str:
    """Each term is one rare atom or a conjunction of two, so that the whole is not always true."""
    return " OR ".join(
        _rare(chance) if chance.random() < 0.5 else f"{_rare(chance)} AND {_atom(chance)}"
        for _ in range(terms)
    )


def _nested(chance: random.Random, height: int) -> str:
    if height == 0:
        return _atom(chance)
    op = chance.choice((" AND ", " OR "))
    parts = [
        _nested(chance, height - chance.randint(1, height)) for _ in range(chance.randint(2, 4))
    ]
    inner = op.join(f"({part})" for part in parts)
    return f"NOT ({inner})" if chance.random() < 0.25 else inner


def _rare(chance: random.Random) -> str:
    """An atom that at most 0.2 % of all messages satisfy."""
    if chance.random() < 0.5:
        return f"{chance.choice(_INTS)} = {chance.randrange(_SPAN)}"
    low = round(chance.random(), 4)
    return f"{chance.choice(_DOUBLES)} BETWEEN {low} AND {round(low + 0.002, 4)}"


def _atom(chance: random.Random) -> str:
    return chance.choice((_number, _number, _text, _text, _flag))(chance)


def _number(chance: random.Random) -> str:
    op = chance.choice(("<", "<=", ">", ">=", "<>"))
    if chance.random() < 0.5:
        return f"{chance.choice(_INTS)} {op} {chance.randrange(_SPAN)}"
    return f"{chance.choice(_DOUBLES)} {op} {round(chance.random(), 4)}"


def _text(chance: random.Random) -> str:
    name, word = chance.choice(_TEXTS), chance.choice(WORDS)
    listed = ", ".join(f"'{w}'" for w in chance.sample(WORDS, chance.randint(2, 8)))
    return chance.choice(
        (
            f"{name} = '{word}'",
            f"{name} IN ({listed})",
            f"{name} NOT IN ({listed})",
            f"{name} STARTS WITH '{word[:2]}'",
            f"{name} LIKE '%{word[2:4]}%'",
            f"{name} IS NULL",
        )
    )


def _flag(chance: random.Random) -> str:
    return f"{chance.choice(_FLAGS)} = {chance.choice(('TRUE', 'FALSE'))}"


def messages(count: int, density: float = 0.8, seed: int = 1) -> pa.Table:
    """So many messages; each attribute is defined with probability `density`, independently."""
    rng = np.random.default_rng(seed)
    columns = {name: _column(name, count, rng) for name in SCHEMA}
    return pa.table(
        {name: pa.array(v, mask=rng.random(count) >= density) for name, v in columns.items()}
    )


def _column(name: str, count: int, rng: np.random.Generator) -> np.ndarray:
    if name in _INTS:
        return rng.integers(0, _SPAN, count)
    if name in _DOUBLES:
        return rng.random(count)
    if name in _FLAGS:
        return rng.random(count) < 0.5
    return np.array(WORDS, dtype=object)[rng.integers(0, len(WORDS), count)]
