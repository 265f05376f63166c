"""Selectors in, templates and keys out.

Most selectors join simple predicates by AND, OR, NOT and brackets. What a predicate
means is worked out once per spelling (or, for constants of a known type, once per
`term op`), and the skeleton that joins them is read in one pass; so a million alerts
cost little more than finding their constants. Whatever is not quite so simple goes the
whole way: parse, check, reduce. That way alone raises errors.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Literal

from tamis.diagram.questions import Terms, Vocabulary, double_key
from tamis.engine.templates import Templates
from tamis.errors import SelectorError
from tamis.language import Limits, check, parse
from tamis.language.literals import ConstantError
from tamis.language.predicates import GROUPS, Unusual, predicate
from tamis.language.reading import check_text
from tamis.language.shapes import CUTTERS
from tamis.language.tree import Attribute, Condition, attributes
from tamis.logic import Family, Kind, Lookups, Reducer, Semantics
from tamis.logic.atoms import all_of
from tamis.schema import INT_MAX, INT_MIN, Schema, Type

Dialect = Literal["tamis", "jms"]

_STEP = GROUPS + 1
_KEPT = 1 << 16  # spellings of predicates that are remembered; a full store is emptied
_KEPT_JOINTS = 1 << 12  # likewise, of ways in which predicates are joined
_LONGEST = 200  # characters of a text worth remembering
_TOKEN = re.compile(r"\0|[()\[\]]|AND|OR|NOT|&&?|\|\|?|[!∧∨¬]", re.IGNORECASE)
_SPELLINGS = {"AND": "& && ∧", "OR": "| || ∨", "NOT": "! ¬"}
_WORDS = {sign: word for word, signs in _SPELLINGS.items() for sign in signs.split()}
_WORDS |= {
    "".join(letters): word
    for word in _SPELLINGS
    for letters in product(*((c, c.lower()) for c in word))
}
_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Side:
    """A predicate being true, or being false: a program, and the terms (as bits) it requires."""

    words: tuple[int, ...]
    keys: tuple[int, ...]
    required: int


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one spelling of a predicate means. Meanings that differ in keys alone share a form."""

    holds: Side
    fails: Side
    terms: int  # all attributes that occur, as bits
    form: int


@dataclass(frozen=True, slots=True)
class Joint:
    """How the meanings of a skeleton's predicates make a template and its keys."""

    template: int
    sides: tuple[bool, ...]  # of each predicate: is it the one that holds?
    kept: tuple[int, ...] | None  # which of the joined keys the template takes; None: all


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
        meaning = self.meaning
        return Meaning(_with_key(holds, key), _with_key(fails, key), meaning.terms, meaning.form)


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
        self._forms: dict[tuple[object, ...], int] = {}
        self._joints: dict[tuple[object, ...], Joint] = {}

    def condition(self, selector: str) -> Condition:
        """The checked condition of a selector, or SelectorError."""
        condition = parse(selector, dialect=self.dialect, limits=self.limits)
        check(condition, self.schema, text=selector, lookups=tuple(self.lookups))
        return condition

    def read(self, selector: str) -> tuple[int, tuple[int, ...]]:
        """The template and the keys of a selector."""
        check_text(selector, self.limits)
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
                known.get(pieces[i]) or self._meaning(pieces, i)
                for i in range(1, len(pieces), _STEP)
            ]
        except (SelectorError, ConstantError, Unusual):
            return None
        key = (skeleton, *[meaning.form for meaning in meanings])
        joint = self._joints.get(key) or self._join(key, skeleton, meanings)
        if joint is None:
            return None
        keys: list[int] = []
        for meaning, holds in zip(meanings, joint.sides, strict=True):
            keys += meaning.holds.keys if holds else meaning.fails.keys
        kept = joint.kept
        return joint.template, tuple(keys) if kept is None else tuple([keys[i] for i in kept])

    def _join(
        self, key: tuple[object, ...], skeleton: str, meanings: list[Meaning]
    ) -> Joint | None:
        """Read a skeleton with these forms of predicates, and remember the result."""
        reader = _Skeleton(skeleton, meanings)
        if not reader.read(self.limits.depth):
            return None
        required = reader.required if self.semantics != "total" else 0
        if self.semantics == "strict":
            for meaning in meanings:
                required |= meaning.terms
        words, kept = _without_defined(reader.words, required)
        numbers = tuple(i for i in range(required.bit_length()) if required >> i & 1)
        template = self.templates.number(array("i", words).tobytes(), numbers)
        everything = len(kept) == sum(word >= 0 for word in reader.words)
        joint = Joint(template, tuple(reader.sides), None if everything else kept)
        if len(skeleton) <= _LONGEST:
            if len(self._joints) >= _KEPT_JOINTS:
                self._joints.clear()
            self._joints[key] = joint
        return joint

    # --- predicates ----------------------------------------------------------

    def _meaning(self, pieces: list[str], i: int) -> Meaning:
        """The meaning of the predicate whose groups start at pieces[i], and remember it."""
        whole, term, op, constant = pieces[i : i + 4]
        meaning = None
        if constant:
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
        holds, fails = self._side(node, True), self._side(node, False)
        form = (holds.words, holds.required, fails.words, fails.required, terms)
        return Meaning(holds, fails, terms, self._forms.setdefault(form, len(self._forms)))

    def _side(self, node: Condition, positive: bool) -> Side:
        formula = self.reducer.holds(node) if positive else self.reducer.fails(node)
        required = 0
        for number in self.vocabulary.program(formula).required:
            required |= 1 << number
        program = self.vocabulary.program(formula, whole=True)
        return Side(program.words, program.keys, required)

    def _recipe(self, pieces: list[str], i: int) -> Recipe | None:
        """A recipe for `term op constant`, proved on this constant; None where there is none."""
        if pieces[i + 2].upper().endswith("LIKE"):
            return None  # what is asked depends on the wild cards
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


def _without_defined(words: list[int], required: int) -> tuple[list[int], tuple[int, ...]]:
    """The words without every `defined(term)` that the requirement says already, and which
    literals are left."""
    kept_words: list[int] = []
    kept: list[int] = []
    literal = 0
    for word in words:
        if word >= 0:
            # a word is 2 * (term << 8 | family << 4 | kind) + negated; DEFINED is kind 0
            if not word & 0b11110 and required >> (word >> 9) & 1:
                word = -2 if word & 1 else -1
            else:
                kept.append(literal)
            literal += 1
        kept_words.append(word)
    return kept_words, tuple(kept)


class _Skeleton:
    """Reads a skeleton in one pass, negations pushed down to the predicates."""

    def __init__(self, skeleton: str, meanings: list[Meaning]) -> None:
        self.tokens = [_WORDS.get(t) or t for t in _TOKEN.findall(skeleton)]
        self.tokens.append("")
        self.meanings = meanings
        self.at = self.required = 0
        self.words: list[int] = []
        self.sides: list[bool] = []

    def read(self, depth: int) -> bool:
        """False where only the parser can tell what is meant, or what is wrong.

        Whatever comes near the end of Python's stack goes to the parser too: what is added here
        must be explained later, and that takes the parser.
        """
        depth = min(depth, sys.getrecursionlimit() // 8)
        nested = self.tokens.count("(") + self.tokens.count("[") + self.tokens.count("NOT")
        if 2 * nested + 4 > depth and 2 * self._deepest() + 4 > depth:
            return False
        try:
            self.required = self._either(False)
        except (Unusual, RecursionError):
            return False
        return self.tokens[self.at] == ""

    def _deepest(self) -> int:
        """How many brackets and NOT stand around a predicate at most."""
        now = most = 0
        outside, fresh = [], 0  # NOTs before each open bracket, and since the last operand
        for token in self.tokens:
            if token == "NOT":
                fresh += 1
                now += 1
            elif token in ("(", "["):
                outside.append(fresh)
                fresh, now = 0, now + 1
            elif token in (")", "]") and outside:
                now -= 1 + outside.pop()
            elif token == "\0":
                most = max(most, now)
                now, fresh = now - fresh, 0
        return most

    def _either(self, negated: bool) -> int:
        """An OR of ANDs; the terms that it requires, as bits."""
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
            meaning = self.meanings[len(self.sides)]
            side = meaning.fails if negated else meaning.holds
            self.sides.append(not negated)
            self.words += side.words
            return side.required
        if token not in ("(", "["):
            raise Unusual
        required = self._either(negated)
        if self.tokens[self.at] != (")" if token == "(" else "]"):
            raise Unusual
        self.at += 1
        return required
