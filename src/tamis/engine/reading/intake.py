"""Selectors in, templates and keys out.

Most selectors join simple predicates by AND, OR, NOT and brackets. What a predicate
means is worked out once per spelling (or, for constants of a known type, once per
`term op`), and the skeleton that joins them is read in one pass; so a million alerts
cost little more than finding their constants. Whatever is not quite so simple goes the
whole way: parse, check, reduce. That way alone raises errors.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Literal

from tamis.diagram import packed
from tamis.diagram.packed import FALSE, TRUE
from tamis.diagram.questions import Terms as AllTerms
from tamis.diagram.questions import Vocabulary, required_terms
from tamis.engine.reading.predicates import CUTTERS, GROUPS, TEXTS, Unusual, predicate, read_term
from tamis.engine.reading.recipes import (
    BOTH,
    NO_TERMS,
    Key,
    ListRecipe,
    Meaning,
    RangeRecipe,
    Recipe,
    Said,
    Side,
    Terms,
    asked_terms,
    both,
    key_of,
    keys_of,
    list_recipe,
    moved,
    moved_terms,
    text_of,
    with_source,
)
from tamis.engine.reading.skeleton import Skeleton
from tamis.engine.reading.templates import Templates
from tamis.errors import SelectorError
from tamis.language import Limits, check, parse
from tamis.language.functions import QUANTIFIERS
from tamis.language.literals import ConstantError
from tamis.language.parsing import check_text
from tamis.language.tree import Attribute, Call, Condition, attributes
from tamis.logic import Family, Formula, Kind, Lookups, Reducer, Semantics
from tamis.logic.atoms import all_of
from tamis.schema import Schema

Dialect = Literal["tamis", "jms"]

_STEP = GROUPS + 1
_KEPT = 1 << 16  # spellings of predicates that are remembered; a full store is emptied
_KEPT_JOINTS = 1 << 12  # likewise, of ways in which predicates are joined
_LONGEST = 200  # characters of a text worth remembering
_TRIES = 8  # constants without a recipe after which a predicate is taken to have none
_MANY = 256 * _STEP  # pieces of a selector whose predicates will hardly be seen again
_QUOTES = ("'", '"')
_STRING = int(Family.STRING)


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
        self.vocabulary = Vocabulary(AllTerms(schema))
        self.templates = Templates()
        self._cutter = CUTTERS[dialect]
        self._said: dict[str, Said] = {}
        self._recipes: dict[tuple[str, str, bool], Recipe] = {}
        self._ranges: dict[tuple[str, str, bool], RangeRecipe] = {}
        self._lists: dict[tuple[str, str, int], ListRecipe | None] = {}
        self._general: dict[tuple[object, ...], tuple[Recipe, str] | int] = {}  # or tries
        self._forms: dict[tuple[object, ...], int] = {}
        self._skeletons: set[str] = set()
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

    def formula(self, selector: str) -> Formula:
        """What a selector means, in atoms: quick for shapes that were seen before."""
        template, keys = self.read(selector)
        item = self.templates.items[template]
        return self.vocabulary.formula(item.words, keys, item.required)

    def _by_shape(self, selector: str) -> tuple[int, tuple[int, ...]] | None:
        pieces = self._cutter.predicate.split(selector)
        if len(pieces) == 1 or (self.dialect == "jms" and "\v" in selector):
            return None
        skeleton = "\0".join(pieces[::_STEP])
        if skeleton not in self._skeletons and not self._is_skeleton(skeleton):
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
            side = meaning.holds if holds else meaning.fails
            if side.source == BOTH:  # ranges, which come by the million
                keys += (first, second)
            else:
                side.extend(keys, first, second)
        kept = joint.kept
        return joint.template, tuple(keys) if kept is None else tuple([keys[i] for i in kept])

    def _is_skeleton(self, text: str) -> bool:
        """Whether it holds nothing but holes and what joins them; those that do are remembered."""
        if not self._cutter.skeleton.fullmatch(text):
            return False
        if len(text) <= _LONGEST:
            if len(self._skeletons) >= _KEPT_JOINTS:
                self._skeletons.clear()
            self._skeletons.add(text)
        return True

    def _join(
        self, key: tuple[object, ...], skeleton: str, meanings: list[Meaning]
    ) -> Joint | None:
        """Read a skeleton with these forms of predicates, and remember the result."""
        reader = Skeleton(skeleton, meanings)
        if not reader.read(self.limits.depth):
            return None
        required = reader.required if self.semantics != "total" else NO_TERMS
        if self.semantics == "strict":
            for meaning in meanings:
                required |= meaning.terms
        words, kept = _without_defined(reader.words, required)
        template = self.templates.number(array("i", words).tobytes(), tuple(sorted(required)))
        everything = len(kept) == sum(map(packed.is_literal, reader.words))
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
        elif pieces[i + 4]:
            said = self._listed(pieces, i), 0, 0
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
        if recipe is None:
            recipe = self._recipe(term, op, text)
            if recipe is None:
                return None
            if len(self._recipes) >= _KEPT:
                self._recipes.clear()
            self._recipes[head] = recipe
        key = recipe.key(text)
        return None if key is None else (recipe.meaning, key, 0)

    def _between(self, term: str, op: str, low: str, high: str) -> Said | None:
        """As `term >= low AND term <= high`."""
        quoted = low[0] in _QUOTES
        if quoted != (high[0] in _QUOTES):
            return None
        head = (term, op, quoted)
        recipe = self._ranges.get(head) or self._range_recipe(term, op, low, high)
        if recipe is None:
            return None
        first, second = recipe.low(low), recipe.high(high)
        return None if first is None or second is None else (recipe.meaning, first, second)

    def _listed(self, pieces: list[str], i: int) -> Meaning:
        """`term IN (items)`: by a recipe, if the items are texts, each another one."""
        term, op, items = pieces[i + 1], pieces[i + 4], TEXTS.findall(pieces[i + 5])
        head, pool = (term, op, len(items)), self.vocabulary.pool
        known = self._lists.get(head)
        texts = {text_of(item) for item in items if item[0] in _QUOTES}
        if len(texts) < len(items) or (known is None and head in self._lists):
            return self._work_out(pieces, i)
        if known is not None and not known.among:
            return known.said(tuple([pool.number(_STRING, text_of(item)) for item in items]))
        if known is not None:
            return known.said((pool.number_list(_STRING, sorted(texts)),))
        meaning = self._work_out(pieces, i)
        each = tuple([pool.number(_STRING, text_of(item)) for item in items])
        if len(self._lists) >= _KEPT:
            self._lists.clear()
        whole = pool.number_list(_STRING, sorted(texts))
        self._lists[head] = list_recipe(meaning, each, whole)
        return meaning

    def _range_recipe(self, term: str, op: str, low: str, high: str) -> RangeRecipe | None:
        """From the recipes of its two sides, if both have one."""
        if read_term(term)[0] in QUANTIFIERS:
            return None  # one element is above, another may be below
        above, below = self._applied(term, ">=", low), self._applied(term, "<=", high)
        quoted = low[0] in _QUOTES
        sides = [self._recipes.get((term, side, quoted)) for side in (">=", "<=")]
        if above is None or below is None or sides[0] is None or sides[1] is None:
            return None
        holds, fails = both(above[0], below[0])
        if op[0] in "Nn":
            holds, fails = fails, holds
        meaning = self._with_form(holds, fails, above[0].terms)
        if len(self._ranges) >= _KEPT:
            self._ranges.clear()
        recipe = self._ranges[term, op, quoted] = RangeRecipe(meaning, sides[0].key, sides[1].key)
        return recipe

    def _work_out(self, pieces: list[str], i: int) -> Meaning:
        node = predicate(pieces, i, 0, self.limits)
        check(node, self.schema, lookups=tuple(self.lookups))
        number = self.vocabulary.terms.number
        terms = frozenset([number(Attribute(name)) for name in attributes(node)])
        holds, fails = map(self._side, self.reducer.sides(node))
        return self._with_form(holds, fails, terms)

    def _with_form(self, holds: Side, fails: Side, terms: Terms) -> Meaning:
        form = (holds.words, holds.required, fails.words, fails.required, terms)
        return Meaning(holds, fails, terms, self._forms.setdefault(form, len(self._forms)))

    def _side(self, formula: Formula) -> Side:
        number = self.vocabulary.terms.number
        required = frozenset([number(term) for term in required_terms(formula)])
        program = self.vocabulary.program(formula, whole=True)
        return Side(program.words, program.keys, required, ())

    # --- recipes -------------------------------------------------------------

    def _recipe(self, term: str, op: str, text: str) -> Recipe | None:
        """A recipe for `term op constant`; None if there is none, or this constant has none.

        A recipe serves all attributes of one type and shape, with a default or without: the schema
        decides nothing else about a predicate.
        """
        function, name, _ = read_term(term)
        if self.schema is not None and name not in self.schema:
            return None
        column = self.schema[name] if self.schema else None
        sort = (column.type, column.shape, column.default is None) if column else None
        general = (function, sort, op, text[:1] in _QUOTES)
        known = self._general.get(general, 0)
        if not isinstance(known, int):
            return self._renamed(*known, name)
        if known >= _TRIES:
            return None
        recipe = self._first_recipe(term, op, text)
        if len(self._general) >= _KEPT:
            self._general.clear()
        self._general[general] = known + 1 if recipe is None else (recipe, name)
        return recipe

    def _first_recipe(self, term: str, op: str, text: str) -> Recipe | None:
        """A recipe that is proved on this constant."""
        if op.upper().endswith("LIKE"):
            return None  # what is asked depends on the wild cards
        groups = [op, text, *[""] * 6] if text else [*[""] * 7, op]
        meaning = self._work_out([term, term, *groups], 0)
        words = {*meaning.holds.words, *meaning.fails.words}
        asked = {packed.asked(w) for w in words if packed.is_literal(w)}
        plain = [a for a in asked if packed.kind(a) >= Kind.BELOW]
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
        return key_of(
            asked, op, self.vocabulary.terms.types[packed.term(asked)], self.vocabulary.pool
        )

    def _renamed(self, recipe: Recipe, old: str, new: str) -> Recipe:
        """The recipe of attribute `old` for attribute `new`, of the same type."""
        terms = self.vocabulary.terms
        holds, fails, occurring, _ = recipe.meaning
        numbers = {terms.number(Attribute(old)): terms.number(Attribute(new))}
        for n in asked_terms(holds, fails) - numbers.keys():
            call = terms.terms[n]
            assert isinstance(call, Call)
            numbers[n] = terms.number(Call(call.name, (Attribute(new),)))
        sides = moved(holds, numbers), moved(fails, numbers)
        return Recipe(self._with_form(*sides, moved_terms(occurring, numbers)), recipe.key)


def _nothing(text: str) -> int:
    """The key of a predicate that has no constant."""
    return 0


def _without_defined(words: list[int], required: Terms) -> tuple[list[int], tuple[int, ...]]:
    """The words without every `defined(term)` that the requirement says already, and which
    literals are left."""
    kept_words: list[int] = []
    kept: list[int] = []
    literal = 0
    for word in words:
        if packed.is_literal(word):
            asked = packed.asked(word)
            if packed.kind(asked) == Kind.DEFINED and packed.term(asked) in required:
                word = FALSE if packed.negated(word) else TRUE
            else:
                kept.append(literal)
            literal += 1
        kept_words.append(word)
    return kept_words, tuple(kept)
