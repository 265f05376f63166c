"""Selectors in, templates and keys out.

Most selectors join simple predicates by AND, OR, NOT and brackets. What a predicate
means is worked out once per spelling (or, for constants of a known type, once per
`term op`), and the skeleton that joins them is read in one pass; so a million alerts
cost little more than finding their constants. Whatever is not quite so simple goes the
whole way: parse, check, reduce. That way alone raises errors.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tamis.diagram.questions import Terms, Vocabulary, double_key
from tamis.engine.templates import Templates
from tamis.errors import SelectorError
from tamis.language import Limits, check, parse
from tamis.language.literals import ConstantError
from tamis.language.predicates import GROUPS, Unusual, predicate
from tamis.language.shapes import CUTTERS
from tamis.language.tree import Attribute, Condition, attributes
from tamis.logic import Family, Kind, Lookups, Reducer, Semantics
from tamis.logic.atoms import all_of
from tamis.schema import INT_MAX, INT_MIN, Schema, Type

Dialect = Literal["tamis", "jms"]

_STEP = GROUPS + 1
_KEPT = 1 << 16  # spellings of predicates that are remembered; a full store is emptied
_LONGEST = 200  # characters of a predicate worth remembering
_TOKEN = re.compile(r"\0|[()\[\]]|AND|OR|NOT|&&?|\|\|?|[!∧∨¬]", re.IGNORECASE)
_WORDS = {"AND": "AND", "&": "AND", "&&": "AND", "∧": "AND", "OR": "OR", "|": "OR", "||": "OR"}
_WORDS |= {"∨": "OR", "NOT": "NOT", "!": "NOT", "¬": "NOT"}
_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Side:
    """A predicate being true, or being false: a program, and the terms (as bits) it requires."""

    words: tuple[int, ...]
    keys: tuple[int, ...]
    required: int


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one spelling of a predicate means."""

    holds: Side
    fails: Side
    terms: int  # all attributes that occur, as bits


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the key of `term op constant` follows from the constant; the programs stay the same."""

    meaning: Meaning
    key: Callable[[str], int | None]

    def apply(self, constant: str) -> Meaning | None:
        key = self.key(constant)
        if key is None:
            return None
        holds, fails = self.meaning.holds, self.meaning.fails
        return Meaning(_with_key(holds, key), _with_key(fails, key), self.meaning.terms)


def _with_key(side: Side, key: int) -> Side:
    kinds = [(word >> 1) & 15 for word in side.words if word >= 0]
    keys = tuple(key if kind >= Kind.BELOW else 0 for kind in kinds)
    return Side(side.words, keys, side.required)


class Intake:
    """How one matcher reads selectors: schema, semantics, dialect, limits, lookups."""

    def __init__(
        self,
        schema: Schema | None,
        semantics: Semantics,
        dialect: Dialect,
        limits: Limits,
        lookups: Lookups,
    ) -> None:
        self.schema, self.semantics, self.dialect = schema, semantics, dialect
        self.limits, self.lookups = limits, lookups
        self.reducer = Reducer(semantics, schema)
        self.vocabulary = Vocabulary(Terms(schema))
        self.templates = Templates()
        self._cutter = CUTTERS[dialect]
        self._meanings: dict[str, Meaning] = {}
        self._recipes: dict[tuple[str, str, bool], Recipe | None] = {}

    def condition(self, selector: str) -> Condition:
        """The checked condition of a selector, or SelectorError."""
        condition = parse(selector, dialect=self.dialect, limits=self.limits)
        check(condition, self.schema, text=selector, lookups=tuple(self.lookups))
        return condition

    def read(self, selector: str) -> tuple[int, tuple[int, ...]]:
        """The template and the keys of a selector."""
        if isinstance(selector, str) and len(selector) <= self.limits.length:
            found = self._by_shape(selector)
            if found is not None:
                return found
        condition = self.condition(selector)
        formula = all_of([self.reducer.adequacy(condition), self.reducer.holds(condition)])
        program = self.vocabulary.program(formula, whole=self.semantics == "total")
        words = array("i", program.words).tobytes()
        return self.templates.number(words, program.required), program.keys

    def _by_shape(self, selector: str) -> tuple[int, tuple[int, ...]] | None:
        pieces = self._cutter.predicate.split(selector)
        if len(pieces) == 1 or (self.dialect == "jms" and "\v" in selector):
            return None
        skeleton = "\0".join(pieces[::_STEP])
        if not self._cutter.skeleton.fullmatch(skeleton):
            return None
        known = self._meanings
        try:
            meanings = [
                known.get(pieces[i]) or self._meaning(pieces, i) for i in range(1, len(pieces), _STEP)
            ]
        except (SelectorError, ConstantError, Unusual):
            return None
        joined = _Join(skeleton, meanings, self.limits.depth).read()
        return None if joined is None else self._finish(joined, meanings)

    def _finish(self, joined: Side, meanings: list[Meaning]) -> tuple[int, tuple[int, ...]]:
        required = joined.required if self.semantics != "total" else 0
        if self.semantics == "strict":
            for meaning in meanings:
                required |= meaning.terms
        words, keys = _without_defined(joined.words, joined.keys, required)
        numbers = tuple(i for i in range(required.bit_length()) if required >> i & 1)
        return self.templates.number(array("i", words).tobytes(), numbers), keys

    # --- predicates ----------------------------------------------------------

    def _meaning(self, pieces: list[str], i: int) -> Meaning:
        """The meaning of the predicate whose groups start at pieces[i], and remember it."""
        whole, term, op, constant = pieces[i : i + 4]
        meaning = None
        if op:
            head = (term, op, constant[0] in "'\"")
            if head not in self._recipes:
                if len(self._recipes) >= _KEPT:
                    self._recipes.clear()
                self._recipes[head] = self._recipe(pieces, i)
            recipe = self._recipes[head]
            meaning = recipe.apply(constant) if recipe else None
        if meaning is None:
            meaning = self._work_out(pieces, i)
        if len(whole) <= _LONGEST:
            if len(self._meanings) >= _KEPT:
                self._meanings.clear()
            self._meanings[whole] = meaning
        return meaning

    def _work_out(self, pieces: list[str], i: int) -> Meaning:
        node = predicate(pieces, i, 0, self.limits)
        check(node, self.schema, lookups=tuple(self.lookups))
        terms = 0
        for name in attributes(node):
            terms |= 1 << self.vocabulary.terms.number(Attribute(name))
        return Meaning(self._side(node, True), self._side(node, False), terms)

    def _side(self, node: Condition, positive: bool) -> Side:
        formula = self.reducer.holds(node) if positive else self.reducer.fails(node)
        required = 0
        for number in self.vocabulary.program(formula).required:
            required |= 1 << number
        program = self.vocabulary.program(formula, whole=True)
        return Side(program.words, program.keys, required)

    def _recipe(self, pieces: list[str], i: int) -> Recipe | None:
        """A recipe for `term op constant`, proved on this constant; None where there is none."""
        meaning = self._work_out(pieces, i)
        asked = [w >> 1 for side in (meaning.holds, meaning.fails) for w in side.words if w >= 0]
        plain = {a for a in asked if a & 15 >= Kind.BELOW}
        if len(plain) != 1:
            return None
        recipe = Recipe(meaning, self._key_of(plain.pop(), pieces[i + 2]))
        return recipe if recipe.apply(pieces[i + 3]) == meaning else None

    def _key_of(self, asked: int, op: str) -> Callable[[str], int | None]:
        """From the text of a constant to its key; None where that is not simple."""
        number, family, kind = asked >> 8, (asked >> 4) & 15, asked & 15
        step = 1 if kind == Kind.BELOW and op in ("<=", ">") else 0
        line = self.vocabulary.terms.types[number]
        if family == Family.STRING:
            return lambda text: self._string_key(text, step)
        if line is Type.INT:
            return lambda text: _int_key(text, step)
        if line is Type.DOUBLE:
            return lambda text: _double_key(text, step)
        return lambda text: None

    def _string_key(self, text: str, step: int) -> int | None:
        quote = text[0]
        if quote not in "'\"":
            return None
        value = text[1:-1].replace(quote + quote, quote)
        if not value:
            return None
        return self.vocabulary.pool.number(Family.STRING, value + "\0" if step else value)


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


def _without_defined(
    words: list[int], keys: list[int], required: int
) -> tuple[list[int], tuple[int, ...]]:
    """Drop every `defined(term)` that the requirement says already."""
    kept_words: list[int] = []
    kept_keys: list[int] = []
    literal = 0
    for word in words:
        if word >= 0:
            # a word is 2 * (term << 8 | family << 4 | kind) + negated; DEFINED is kind 0
            if not word & 0b11111 and required >> (word >> 9) & 1:
                kept_words.append(-1)
            else:
                kept_words.append(word)
                kept_keys.append(keys[literal])
            literal += 1
        else:
            kept_words.append(word)
    return kept_words, tuple(kept_keys)


class _Join:
    """Reads a skeleton: one pass, negations pushed down to the predicates."""

    def __init__(self, skeleton: str, meanings: list[Meaning], depth: int) -> None:
        self.tokens = [_WORDS.get(t.upper(), t) for t in _TOKEN.findall(skeleton)]
        self.tokens.append("")
        self.meanings, self.depth = meanings, depth
        self.at = self.hole = 0
        self.words: list[int] = []
        self.keys: list[int] = []

    def read(self) -> Side | None:
        deepest = self._deepest()
        if 2 * deepest + 4 > self.depth:
            return None
        try:
            required = self._either(False)
        except Unusual:
            return None
        if self.tokens[self.at] != "":
            return None
        return Side(self.words, self.keys, required)  # type: ignore[arg-type]

    def _deepest(self) -> int:
        now = most = 0
        for token in self.tokens:
            if token in "([" and token:
                now += 1
                most = max(most, now)
            elif token in ")]" and token:
                now -= 1
        return most + self.tokens.count("NOT")

    def _either(self, negated: bool) -> int:
        """An OR of ANDs; the terms that it requires."""
        required, parts = self._both(negated), 1
        while self.tokens[self.at] == "OR":
            self.at += 1
            more = self._both(negated)
            required = required | more if negated else required & more
            parts += 1
        if parts > 1:
            self.words.append(-2 * parts - (1 if negated else 2))
        return required

    def _both(self, negated: bool) -> int:
        required, parts = self._one(negated), 1
        while self.tokens[self.at] == "AND":
            self.at += 1
            more = self._one(negated)
            required = required & more if negated else required | more
            parts += 1
        if parts > 1:
            self.words.append(-2 * parts - (2 if negated else 1))
        return required

    def _one(self, negated: bool) -> int:
        token = self.tokens[self.at]
        self.at += 1
        while token == "NOT":
            negated = not negated
            token = self.tokens[self.at]
            self.at += 1
        if token == "\0":
            meaning = self.meanings[self.hole]
            side = meaning.fails if negated else meaning.holds
            self.hole += 1
            self.words.extend(side.words)
            self.keys.extend(side.keys)
            return side.required
        if token not in ("(", "["):
            raise Unusual
        required = self._either(negated)
        if self.tokens[self.at] != (")" if token == "(" else "]"):
            raise Unusual
        self.at += 1
        return required
