"""Recipes: how the meaning of `term op constant` follows from its constant and its term.

What `price < 10` means is worked out once. `price < 11` has another key, `volume < 10` asks
another term; everything else of the two programs is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tamis.diagram.questions import Pool, double_key
from tamis.language.predicates import constant
from tamis.logic import Family, Kind
from tamis.logic.numbers import above, at_least
from tamis.schema import INT_MAX, INT_MIN, Type

Key = Callable[[str], int | None]  # from the text of a constant; None where that is not simple
_BELOW, _NUMBER, _STRING = int(Kind.BELOW), int(Family.NUMBER), int(Family.STRING)
_EXACT = 2**53


class Side(NamedTuple):
    """A predicate being true, or being false: a program, and the terms (as bits) it requires.

    A key is fixed (`source` 0), or that of the first or second constant (1, 2).
    """

    words: tuple[int, ...]
    keys: tuple[int, ...]
    required: int
    source: tuple[int, ...]

    def extend(self, keys: list[int], first: int, second: int) -> None:
        """Write the keys of this side behind `keys`."""
        if self.source == _ONE:  # most often
            keys.append(first)
            return
        for source, fixed in zip(self.source, self.keys, strict=True):
            keys.append(first if source == 1 else second if source == 2 else fixed)


_ONE = (1,)


class Meaning(NamedTuple):
    """What a predicate means, whatever its constants are."""

    holds: Side
    fails: Side
    terms: int  # all attributes that occur, as bits
    form: int  # its number


# A predicate with its constants; no constant has the key 0. Most of what is kept or made for a
# large selector are these, so they are as small as can be.
Said = tuple[Meaning, int, int]


class Recipe(NamedTuple):
    meaning: Meaning
    key: Key


def with_source(side: Side) -> Side:
    """The side of `term op constant`: whatever its atoms compare with is the constant."""
    kinds = [(word >> 1) & 15 for word in side.words if word >= 0]
    source = tuple([1 if kind >= _BELOW else 0 for kind in kinds])
    return Side(side.words, (0,) * len(kinds), side.required, source)


def keys_of(side: Side, key: int) -> tuple[int, ...]:
    keys: list[int] = []
    side.extend(keys, key, 0)
    return tuple(keys)


def moved(side: Side, numbers: dict[int, int]) -> Side:
    """The same of other terms: `numbers` gives the new number of each."""
    words = tuple([w if w < 0 else w & 511 | numbers[w >> 9] << 9 for w in side.words])
    return Side(words, side.keys, moved_bits(side.required, numbers), side.source)


def moved_bits(bits: int, numbers: dict[int, int]) -> int:
    return sum(1 << new for old, new in numbers.items() if bits >> old & 1)


def asked_terms(*sides: Side) -> set[int]:
    """The numbers of the terms that occur."""
    return {word >> 9 for side in sides for word in side.words if word >= 0}


def both(low: Meaning, high: Meaning) -> tuple[Side, Side]:
    """The two sides of `low AND high`, each with a constant of its own."""
    return _joined(low.holds, high.holds, -5), _joined(low.fails, high.fails, -6)


def _joined(a: Side, b: Side, word: int) -> Side:
    required = a.required | b.required if word == -5 else a.required & b.required
    source = a.source + tuple([2 if s == 1 else s for s in b.source])
    return Side((*a.words, *b.words, word), a.keys + b.keys, required, source)


# --- keys --------------------------------------------------------------------


def key_of(asked: int, op: str, line: Type | None, pool: Pool) -> Key:
    """How the constant of question `asked` becomes a key; `line` is the type of the term."""
    family, kind = (asked >> 4) & 15, asked & 15
    step = 1 if kind == _BELOW and op in ("<=", ">") else 0
    if family == _STRING:
        return lambda text: _string_key(text, step, pool)
    if line is Type.INT:
        return lambda text: _int_key(text, step)
    if line is Type.DOUBLE:
        return lambda text: _double_key(text, step)
    if line is None and family == _NUMBER:
        return lambda text: _number_key(text, step, pool)
    return no_key


def no_key(text: str) -> int | None:
    return None


def _string_key(text: str, step: int, pool: Pool) -> int | None:
    quote = text[0]
    if quote not in "'\"":
        return None
    value = text[1:-1].replace(quote + quote, quote)
    if not value:
        return None
    return pool.number(_STRING, value + "\0" if step else value)


def _number_key(text: str, step: int, pool: Pool) -> int | None:
    value = constant(text, 0).value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return pool.number(_NUMBER, above(value, None) if step else at_least(value, None))


def _int_key(text: str, step: int) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value + step if INT_MIN < value < INT_MAX else None


def _double_key(text: str, step: int) -> int | None:
    try:
        value = float(text)
    except ValueError:
        return None
    if value == 0 or not -_EXACT < value < _EXACT:
        return None
    return double_key(value) + step
