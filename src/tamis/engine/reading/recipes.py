"""Recipes: how the meaning of `term op constant` follows from its constant and its term.

What `price < 10` means is worked out once. `price < 11` has another key, `volume < 10` asks
another term; everything else of the two programs is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from tamis.diagram import packed
from tamis.diagram.questions import AMONG, Pool
from tamis.engine.reading.predicates import constant
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

    A key is fixed (`source` 0), or that of the first or second constant (1, 2). Where all are
    fixed, `source` is empty.
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
        if self.source == BOTH:
            keys += (first, second)
            return
        if not self.source:
            keys += self.keys
            return
        for source, fixed in zip(self.source, self.keys, strict=True):
            keys.append(first if source == 1 else second if source == 2 else fixed)


_ONE, BOTH = (1,), (1, 2)
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


class ListRecipe(NamedTuple):
    """Of `term IN (texts)`, so many different ones: which keys of each side are those of the
    texts, in their order. `among`: there is one such key, and it is that of all of them."""

    meaning: Meaning
    holds: slice
    fails: slice
    among: bool

    def said(self, keys: tuple[int, ...]) -> Meaning:
        """The meaning with these keys for the texts."""
        holds, fails, terms, form = self.meaning
        sides = _with_keys(holds, self.holds, keys), _with_keys(fails, self.fails, keys)
        return Meaning(*sides, terms, form)


def list_recipe(meaning: Meaning, each: tuple[int, ...], whole: int) -> ListRecipe | None:
    """From what one list means; `each` are the keys of its texts, `whole` is that of all."""
    among = any(packed.kind(asked) == AMONG for asked in _literals(meaning.holds))
    keys = (whole,) if among else each
    places = [_place_of(side, keys) for side in meaning[:2]]
    if places[0] is None or places[1] is None:
        return None
    return ListRecipe(meaning, places[0], places[1], among)


def _literals(side: Side) -> list[int]:
    """The questions of a side."""
    return [packed.asked(word) for word in side.words if packed.is_literal(word)]


def _place_of(side: Side, keys: tuple[int, ...]) -> slice | None:
    """Where these keys stand among those of the side: they are all that compare with texts."""
    literals = enumerate(_literals(side))
    at = [i for i, q in literals if packed.family(q) == _STRING and packed.kind(q) > _BELOW]
    if not at or [*range(at[0], at[-1] + 1)] != at:
        return None
    found = slice(at[0], at[-1] + 1)
    return found if side.keys[found] == keys else None


def _with_keys(side: Side, at: slice, keys: tuple[int, ...]) -> Side:
    return Side(side.words, side.keys[: at.start] + keys + side.keys[at.stop :], side.required, ())


def text_of(quoted: str) -> str:
    """What a text in quotes says."""
    quote = quoted[0]
    return quoted[1:-1].replace(quote + quote, quote)


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
    steps = {old: _step(new - old) for old, new in numbers.items()}
    if len(steps) == 1:
        (step,) = steps.values()
        words = tuple([w + step if w >= 0 else w for w in side.words])
    else:
        words = tuple([w + steps[_term(w)] if w >= 0 else w for w in side.words])
    return Side(words, side.keys, moved_terms(side.required, numbers), side.source)


def _step(terms: int) -> int:
    """What a literal grows by where its term has a number that is so much higher."""
    return int(packed.literal(packed.question(terms, 0, 0), 0))


def _term(word: int) -> int:
    return int(packed.term(packed.asked(word)))


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
    value = text_of(text)
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
        if value == 0:  # -0.0 has the key of 0.0; what is merely rounded to 0 is not so simple
            return None if text.strip("-0. ") else step
        if not -_EXACT < value < _EXACT:
            return None
        bits: int = _integer(_double(value))[0]
        return (bits if bits >= 0 else bits ^ INT_MAX) + step

    return key
