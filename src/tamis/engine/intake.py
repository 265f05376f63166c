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
from dataclasses import dataclass
from itertools import product
from typing import Literal

from tamis.diagram.questions import Terms, Vocabulary, required_terms
from tamis.engine.recipes import (
    Key,
    Meaning,
    Recipe,
    Said,
    Side,
    asked_terms,
    both,
    key_of,
    keys_of,
    moved,
    moved_bits,
    no_key,
    with_source,
)
from tamis.engine.templates import Templates
from tamis.errors import SelectorError
from tamis.language import Limits, check, parse
from tamis.language.literals import ConstantError
from tamis.language.predicates import GROUPS, Unusual, predicate, read_term
from tamis.language.reading import check_text
from tamis.language.shapes import CUTTERS
from tamis.language.tree import Attribute, Call, Condition, attributes
from tamis.logic import Formula, Kind, Lookups, Reducer, Semantics
from tamis.logic.atoms import all_of
from tamis.schema import Schema

Dialect = Literal["tamis", "jms"]

_STEP = GROUPS + 1
_KEPT = 1 << 16  # spellings of predicates that are remembered; a full store is emptied
_KEPT_JOINTS = 1 << 12  # likewise, of ways in which predicates are joined
_LONGEST = 200  # characters of a text worth remembering
_MANY = 256 * _STEP  # pieces of a selector whose predicates will hardly be seen again
_TOKEN = re.compile(r"\0|[()\[\]]|AND|OR|NOT|&&?|\|\|?|[!∧∨¬]", re.IGNORECASE)
_SPELLINGS = {"AND": "& && ∧", "OR": "| || ∨", "NOT": "! ¬"}
_WORDS = {sign: word for word, signs in _SPELLINGS.items() for sign in signs.split()}
_WORDS |= {
    "".join(letters): word
    for word in _SPELLINGS
    for letters in product(*((c, c.lower()) for c in word))
}
_QUOTES = ("'", '"')


@dataclass(frozen=True, slots=True)
class Joint:
    """How the meanings of a skeleton's predicates make a template and its keys."""

    template: int
    sides: tuple[bool, ...]  # of each predicate: is it the one that holds?
    kept: tuple[int, ...] | None  # which of the joined keys the template takes; None: all


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
        self._said: dict[str, Said] = {}
        self._recipes: dict[tuple[str, str, bool], Recipe | None] = {}
        self._general: dict[tuple[object, ...], tuple[Recipe, str] | None] = {}
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
        known = self._said
        try:
            said = [
                known.get(pieces[i]) or self._say(pieces, i) for i in range(1, len(pieces), _STEP)
            ]
        except (SelectorError, ConstantError, Unusual):
            return None
        key = (skeleton, *[meaning.form for meaning, _, _ in said])
        joint = self._joints.get(key)
        if joint is None:
            joint = self._join(key, skeleton, [meaning for meaning, _, _ in said])
        if joint is None:
            return None
        keys: list[int] = []
        for (meaning, first, second), holds in zip(said, joint.sides, strict=True):
            (meaning.holds if holds else meaning.fails).extend(keys, first, second)
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

    def _say(self, pieces: list[str], i: int) -> Said:
        """The meaning of the predicate whose groups start at pieces[i], and remember it."""
        whole, term, op, text = pieces[i : i + 4]
        if text:
            said = self._applied(term, op, text)
        elif pieces[i + 6]:
            said = self._between(term, *pieces[i + 6 : i + 9])
        elif pieces[i + 9]:
            said = self._applied(term, pieces[i + 9], "")
        else:
            said = None
        if said is None:
            said = self._work_out(pieces, i), 0, 0
        if len(whole) <= _LONGEST and len(pieces) <= _MANY:
            if len(self._said) >= _KEPT:
                self._said.clear()
            self._said[whole] = said
        return said

    def _applied(self, term: str, op: str, text: str) -> Said | None:
        """`term op text` by a recipe, if there is one."""
        head = (term, op, text[:1] in _QUOTES)
        recipe = self._recipes.get(head)
        if recipe is None and head not in self._recipes:
            recipe = self._recipe(term, op, text)
            self._keep(head, recipe)
        key = recipe.key(text) if recipe else None
        return None if recipe is None or key is None else (recipe.meaning, key, 0)

    def _keep(self, head: tuple[str, str, bool], recipe: Recipe | None) -> None:
        if len(self._recipes) >= _KEPT:
            self._recipes.clear()
        self._recipes[head] = recipe

    def _between(self, term: str, op: str, low: str, high: str) -> Said | None:
        """As `term >= low AND term <= high`."""
        above, below = self._applied(term, ">=", low), self._applied(term, "<=", high)
        if above is None or below is None or (low[0] in _QUOTES) != (high[0] in _QUOTES):
            return None
        head = (term, op, low[0] in _QUOTES)
        recipe = self._recipes.get(head)
        if recipe is None:
            holds, fails = both(above[0], below[0])
            if op[0] in "Nn":
                holds, fails = fails, holds
            recipe = Recipe(self._with_form(holds, fails, above[0].terms), no_key)
            self._keep(head, recipe)
        return recipe.meaning, above[1], below[1]

    def _work_out(self, pieces: list[str], i: int) -> Meaning:
        node = predicate(pieces, i, 0, self.limits)
        check(node, self.schema, lookups=tuple(self.lookups))
        terms = 0
        for name in attributes(node):
            terms |= 1 << self.vocabulary.terms.number(Attribute(name))
        holds, fails = map(self._side, self.reducer.sides(node))
        return self._with_form(holds, fails, terms)

    def _with_form(self, holds: Side, fails: Side, terms: int) -> Meaning:
        form = (holds.words, holds.required, fails.words, fails.required, terms)
        return Meaning(holds, fails, terms, self._forms.setdefault(form, len(self._forms)))

    def _side(self, formula: Formula) -> Side:
        required = 0
        for term in required_terms(formula):
            required |= 1 << self.vocabulary.terms.number(term)
        program = self.vocabulary.program(formula, whole=True)
        return Side(program.words, program.keys, required, (0,) * len(program.keys))

    # --- recipes -------------------------------------------------------------

    def _recipe(self, term: str, op: str, text: str) -> Recipe | None:
        """A recipe for `term op constant`; None where there is none.

        What was found for one attribute is used for all that have the same type.
        """
        function, name, _ = read_term(term)
        if self.schema is not None and name not in self.schema:
            return None
        column = self.schema[name] if self.schema else None
        sort = (column.type, column.default is None) if column else None
        general = (function, sort, op, text[:1] in _QUOTES)
        if general not in self._general:
            recipe = self._first_recipe(term, op, text)
            if len(self._general) >= _KEPT:
                self._general.clear()
            self._general[general] = None if recipe is None else (recipe, name)
            return recipe
        known = self._general[general]
        return None if known is None else self._renamed(*known, name)

    def _first_recipe(self, term: str, op: str, text: str) -> Recipe | None:
        """A recipe that is proved on this constant."""
        if op.upper().endswith("LIKE"):
            return None  # what is asked depends on the wild cards
        groups = [op, text, *[""] * 6] if text else [*[""] * 7, op]
        meaning = self._work_out([term, term, *groups], 0)
        asked = {w >> 1 for side in (meaning.holds, meaning.fails) for w in side.words if w >= 0}
        plain = [a for a in asked if a & 15 >= Kind.BELOW]
        if len(plain) != (1 if text else 0):
            return None
        to_key = self._key_of(plain[0], op) if plain else _nothing
        key = to_key(text)
        sides = with_source(meaning.holds), with_source(meaning.fails)
        found = None if key is None else [keys_of(side, key) for side in sides]
        if found != [meaning.holds.keys, meaning.fails.keys]:
            return None
        return Recipe(Meaning(*sides, meaning.terms, meaning.form), to_key)

    def _key_of(self, asked: int, op: str) -> Key:
        return key_of(asked, op, self.vocabulary.terms.types[asked >> 8], self.vocabulary.pool)

    def _renamed(self, recipe: Recipe, old: str, new: str) -> Recipe:
        """The recipe of attribute `old` for attribute `new`, of the same type."""
        terms = self.vocabulary.terms
        holds, fails, bits, _ = recipe.meaning
        numbers = {terms.number(Attribute(old)): terms.number(Attribute(new))}
        for n in asked_terms(holds, fails) - numbers.keys():
            call = terms.terms[n]
            assert isinstance(call, Call)
            numbers[n] = terms.number(Call(call.name, (Attribute(new),)))
        sides = moved(holds, numbers), moved(fails, numbers)
        return Recipe(self._with_form(*sides, moved_bits(bits, numbers)), recipe.key)


def _nothing(text: str) -> int:
    """The key of a predicate that has no constant."""
    return 0


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
