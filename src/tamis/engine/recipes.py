"""Recipes: how the meaning of `term op constant` follows from its constant and its term.

What `price < 10` means is worked out once. `price < 11` has another key, `volume < 10` asks
another term; everything else of the two programs is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
    """A predicate being true, or being false: a program, and the terms (as bits) it requires."""

    words: tuple[int, ...]
    keys: tuple[int, ...]
    required: int


class Meaning(NamedTuple):
    """What one spelling of a predicate means. Meanings that differ in keys alone share a form."""

    holds: Side
    fails: Side
    terms: int  # all attributes that occur, as bits
    form: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """`keyed` tells for the keys of both sides whether they are the constant's."""

    meaning: Meaning
    key: Key
    keyed: tuple[tuple[bool, ...], tuple[bool, ...]]

    @classmethod
    def of(cls, meaning: Meaning, key: Key) -> Recipe:
        holds, fails = (
            tuple((word >> 1) & 15 >= _BELOW for word in side.words if word >= 0)
            for side in (meaning.holds, meaning.fails)
        )
        return cls(meaning, key, (holds, fails))

    def apply(self, text: str) -> Meaning | None:
        """The meaning with the constant `text`; None where it has to be worked out."""
        key = self.key(text)
        if key is None:
            return None
        holds, fails, terms, form = self.meaning
        keyed, keyed_fails = self.keyed
        return Meaning(
            Side(holds.words, tuple([key if k else 0 for k in keyed]), holds.required),
            Side(fails.words, tuple([key if k else 0 for k in keyed_fails]), fails.required),
            terms,
            form,
        )


def moved(side: Side, numbers: dict[int, int]) -> Side:
    """The same of other terms: `numbers` gives the new number of each."""
    words = tuple([w if w < 0 else w & 511 | numbers[w >> 9] << 9 for w in side.words])
    return Side(words, side.keys, moved_bits(side.required, numbers))


def moved_bits(bits: int, numbers: dict[int, int]) -> int:
    return sum(1 << new for old, new in numbers.items() if bits >> old & 1)


def asked_terms(*sides: Side) -> set[int]:
    """The numbers of the terms that occur."""
    return {word >> 9 for side in sides for word in side.words if word >= 0}


def both(low: Meaning, high: Meaning) -> tuple[Side, Side]:
    """The two sides of `low AND high`."""
    (a, b), (c, d) = (low.holds, high.holds), (low.fails, high.fails)
    return (
        Side((*a.words, *b.words, -5), a.keys + b.keys, a.required | b.required),
        Side((*c.words, *d.words, -6), c.keys + d.keys, c.required & d.required),
    )


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
