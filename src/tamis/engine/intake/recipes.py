"""Recipes: how the meaning of `term op constant` follows from its constant and its term.

What `price < 10` means is worked out once. `price < 11` has another key, `volume < 10` asks
another term; everything else of the two programs is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from tamis.diagram import packed
from tamis.diagram.questions import Pool
from tamis.engine.intake.predicates import constant
from tamis.logic import Family, Kind
from tamis.logic.numbers import above, at_least
from tamis.schema import INT_MAX, INT_MIN, Type

Terms = frozenset[int]  # numbers of terms
NO_TERMS: Terms = frozenset()
Key = Callable[[str], int | None]  # from the text of a constant; None where that is not simple
_BELOW, _NUMBER, _STRING = int(Kind.BELOW), int(Family.NUMBER), int(Family.STRING)
_EXACT = 2**53
_double, _integer = struct.Struct("<d").pack, struct.Struct("<q").unpack  # as `double_key`


class Side(NamedTuple):
    """A predicate being true, or being false: a program, and the terms that it requires.

    A key is fixed (`source` 0), or that of the first or second constant (1, 2).
    """

    words: tuple[int, ...]
    keys: tuple[int, ...]
    required: Terms
    source: tuple[int, ...]

    def extend(self, keys: list[int], first: int, second: int) -> None:
        """Write the keys of this side behind `keys`."""
        if self.source == _ONE:  # most often
            keys.append(first)
            return
        if self.source == _BOTH:
            keys += (first, second)
            return
        for source, fixed in zip(self.source, self.keys, strict=True):
            keys.append(first if source == 1 else second if source == 2 else fixed)


_ONE, _BOTH = (1,), (1, 2)
_AND, _OR = packed.conjunction(2), packed.disjunction(2)


class Meaning(NamedTuple):
    """What a predicate means, whatever its constants are."""

    holds: Side
    fails: Side
    terms: Terms  # all attributes that occur
    form: int  # its number


# A predicate with its constants; no constant has the key 0. Most of what is kept or made for a
# large selector are these, so they are as small as can be.
Said = tuple[Meaning, int, int]


class Recipe(NamedTuple):
    meaning: Meaning
    key: Key


class RangeRecipe(NamedTuple):
    """Of `term BETWEEN low AND high`."""

    meaning: Meaning
    low: Key
    high: Key


def with_source(side: Side) -> Side:
    """The side of `term op constant`: whatever its atoms compare with is the constant."""
    kinds = [packed.kind(packed.asked(w)) for w in side.words if packed.is_literal(w)]
    source = tuple([1 if kind >= _BELOW else 0 for kind in kinds])
    return Side(side.words, (0,) * len(kinds), side.required, source)


def keys_of(side: Side, key: int) -> tuple[int, ...]:
    keys: list[int] = []
    side.extend(keys, key, 0)
    return tuple(keys)


def moved(side: Side, numbers: dict[int, int]) -> Side:
    """The same of other terms: `numbers` gives the new number of each."""
    words = tuple([_renumber(w, numbers) if packed.is_literal(w) else w for w in side.words])
    return Side(words, side.keys, moved_terms(side.required, numbers), side.source)


def _renumber(word: int, numbers: dict[int, int]) -> int:
    asked = packed.asked(word)
    renumbered = packed.with_term(asked, numbers[packed.term(asked)])
    return int(packed.literal(renumbered, packed.negated(word)))


def moved_terms(terms: Terms, numbers: dict[int, int]) -> Terms:
    return frozenset([numbers[term] for term in terms])


def asked_terms(*sides: Side) -> set[int]:
    """The numbers of the terms that occur."""
    words = [w for side in sides for w in side.words if packed.is_literal(w)]
    return {packed.term(packed.asked(w)) for w in words}


def both(low: Meaning, high: Meaning) -> tuple[Side, Side]:
    """The two sides of `low AND high`, each with a constant of its own."""
    return _joined(low.holds, high.holds, _AND), _joined(low.fails, high.fails, _OR)


def _joined(a: Side, b: Side, word: int) -> Side:
    required = a.required | b.required if word == _AND else a.required & b.required
    source = a.source + tuple([2 if s == 1 else s for s in b.source])
    return Side((*a.words, *b.words, word), a.keys + b.keys, required, source)


# --- keys --------------------------------------------------------------------


def key_of(asked: int, op: str, line: Type | None, pool: Pool) -> Key:
    """How the constant of question `asked` becomes a key; `line` is the type of the term."""
    family, kind = packed.family(asked), packed.kind(asked)
    step = 1 if kind == _BELOW and op in ("<=", ">") else 0
    if family == _STRING:
        return lambda text: _string_key(text, step, pool)
    if line is Type.INT:
        return lambda text: _int_key(text, step)
    if line is Type.DOUBLE:
        return _double_key(step)
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


def _double_key(step: int) -> Key:
    """One function without calls: a million boxes have four million doubles."""

    def key(text: str) -> int | None:
        try:
            value = float(text)
        except ValueError:
            return None
        if value == 0 or not -_EXACT < value < _EXACT:
            return None
        bits: int = _integer(_double(value))[0]
        return (bits if bits >= 0 else bits ^ INT_MAX) + step

    return key
