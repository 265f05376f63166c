"""Conditions as filters: an OR of conjunctions of ranges and memberships (US 6,910,033, fig. 16).

`dnf` takes the steps of the patent's agent: positive form, disjunctive normal form, and one set of
values for each attribute of a conjunction. What contradicts itself drops out, and so does what
another conjunction includes. A DNF can be exponentially larger than its condition, and some
conditions have none (LIKE, arithmetic): then a filter that matches *more* can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from functools import reduce as fold

from tamis.errors import SelectorError
from tamis.language import canonical
from tamis.language.tree import (
    Attribute,
    Condition,
)
from tamis.logic import sets
from tamis.logic.atoms import All, Atom, Formula, Kind, Literal
from tamis.logic.conjunctions import (
    ALWAYS,
    Conjunction,
    Domains,
    conjoin,
    hull,
    narrowed_to,
    satisfied,
    without_included,
)
from tamis.logic.conjunctions import replaced as with_values
from tamis.logic.reduce import Reducer, Semantics
from tamis.logic.terms import needed, static_type
from tamis.logic.wildcards import Gapped, wildcards
from tamis.schema import Schema

TERMS = 500  # conjunctions that one filter may have
_SPLIT = 16  # ranges that exclusions of one conjunction may make of it
_TEXT_TESTS = (Kind.SUFFIX, Kind.CONTAINS, Kind.WITHIN, Kind.PATTERN, Kind.LIKE)
_LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Filter:
    """True of a message that satisfies one of the conjunctions: none is never, () is always true.

    `wider` marks a filter that may match more than the condition that it was made of.
    """

    disjuncts: tuple[Conjunction, ...]
    wider: bool = False

    @property
    def never(self) -> bool:
        return not self.disjuncts

    @property
    def always(self) -> bool:
        return ALWAYS in self.disjuncts

    def matches(self, find: Callable[[str], object]) -> bool:
        """Whether the message whose attributes `find` gives satisfies the filter."""
        return any(satisfied(one, find) for one in self.disjuncts)


def dnf(
    condition: Condition,
    schema: Schema | None = None,
    semantics: Semantics = "sql",
    *,
    limit: int = TERMS,
    widen: bool = False,
) -> Filter:
    """The filter that matches what `condition` matches.

    Where it would have more than `limit` conjunctions, or where ranges and memberships cannot say
    it, that is a SelectorError; with `widen`, a filter that matches more, marked `wider`.
    """
    reducer = Reducer(semantics, schema)
    builder = _Builder(reducer, limit, widen)
    formula = All((reducer.adequacy(condition), reducer.holds(condition)))
    disjuncts = _rejoined(builder.disjuncts(formula), builder.domains)
    if ALWAYS in disjuncts:
        disjuncts = [ALWAYS]
    return Filter(tuple(_positive(disjuncts, limit)), builder.wider)


@lru_cache(maxsize=64)
def domains(schema: Schema | None, semantics: Semantics = "sql") -> Domains:
    """What each attribute can be, for messages of the schema under the semantics."""
    reducer = Reducer(semantics, schema)
    return Domains({name: _domain(reducer, name) for name in schema or ()})


def _domain(reducer: Reducer, name: str) -> sets.Domain:
    kind = static_type(Attribute(name), reducer.schema)
    optional = isinstance(reducer.defined(Attribute(name)), Literal)
    return sets.Domain(sets.Line.ANY if kind is None else sets.line_of_type(kind), optional)


class _Builder:
    """Turns formulas into lists of conjunctions, bottom up."""

    def __init__(self, reducer: Reducer, limit: int, widen: bool) -> None:
        self.reducer, self.limit, self.widen, self.wider = reducer, limit, widen, False
        self.domains = domains(reducer.schema, reducer.semantics)

    def disjuncts(self, formula: Formula) -> list[Conjunction]:
        if isinstance(formula, Literal):
            return self.literal(formula.atom, formula.positive)
        parts = [self.disjuncts(part) for part in formula.parts]
        return self.product(parts) if isinstance(formula, All) else self.union(parts)

    def union(self, parts: list[list[Conjunction]]) -> list[Conjunction]:
        found = [one for part in parts for one in part]
        if len(found) <= 2 * self.limit:
            found = without_included(found)
        if len(found) <= self.limit:
            return found
        self.wider = self.refuse_or_widen()
        return narrowed_to(found, self.limit, self.domains)

    def product(self, parts: list[list[Conjunction]]) -> list[Conjunction]:
        """Small parts first. Once the product is too large, each part counts by its hull alone."""
        found, full = [ALWAYS], False
        for part in sorted(parts, key=len):
            more = None if full else self.multiplied(found, part)
            if more is None:
                full = self.wider = self.refuse_or_widen()
                around = fold(lambda a, b: hull(a, b, self.domains), part)
                more = _pairs(found, [around])
            found = more
        return found

    def multiplied(self, a: list[Conjunction], b: list[Conjunction]) -> list[Conjunction] | None:
        """Each of a with each of b; None where that is too much."""
        if len(a) * len(b) > 4 * self.limit * max(1, min(len(a), len(b)) // 8):
            return None
        found = _pairs(a, b)
        if len(found) <= 2 * self.limit and len(a) > 1 < len(b):
            found = without_included(found)
        return found if len(found) <= self.limit else None

    def refuse_or_widen(self) -> bool:
        if not self.widen:
            raise SelectorError(
                f"the disjunctive normal form is too large: the limit is {self.limit:,} (terms)",
                hint="raise the limit, or ask for a wider filter",
                limit="terms",
            )
        return True

    # --- literals --------------------------------------------------------------

    def literal(self, atom: Atom, positive: bool) -> list[Conjunction]:
        if not isinstance(atom.term, Attribute):
            return self.unsayable(atom, positive)
        name = atom.term.name
        domain = self.domains[name]
        said, values = self.values(atom, domain)
        if not said:
            return self.unsayable(atom, positive)
        if values is None:
            return [] if positive else [ALWAYS]
        found = (values,) if positive else sets.complement(values, domain)
        if not domain.optional and domain.present in found:
            return [ALWAYS]
        return [((name, one),) for one in found]

    def values(self, atom: Atom, domain: sets.Domain) -> tuple[bool, sets.Values | None]:
        """The values that the atom asks for (None: there are none); False where they are no set."""
        kind = atom.kind
        if kind is Kind.DEFINED:
            return True, domain.present
        if kind not in (Kind.TYPED, Kind.BELOW, Kind.MEMBER, Kind.PREFIX):
            return False, None
        line = sets.line_of_family(atom.family) if domain.line is sets.Line.ANY else domain.line
        match kind, atom.constant:
            case Kind.TYPED, _:
                return True, sets.Values(line)
            case Kind.BELOW, constant:
                return True, sets.below(line, constant)
            case Kind.MEMBER, tuple() as members:
                return True, sets.among(line, members)
            case _, str() as prefix:
                return True, starting_with(prefix)
        return False, None

    def unsayable(self, atom: Atom, positive: bool) -> list[Conjunction]:
        """What follows from a literal that ranges and memberships cannot say."""
        if not self.widen:
            raise SelectorError(
                f"ranges and memberships cannot say what is asked of {canonical(atom.term)}",
                hint="ask for a wider filter",
            )
        self.wider = True
        if not positive:
            return [ALWAYS]
        match atom.term:
            case Attribute(name) if atom.kind in _TEXT_TESTS:
                values = starting_with(_first_text(atom)) or sets.Values(sets.Line.STRING)
                return [((name, values),)]
            case Attribute():
                return [ALWAYS]
        names = [n for n in needed(atom.term) if self.domains[n].optional]
        return [tuple(sorted((name, self.domains[name].present) for name in names))]


def _pairs(a: list[Conjunction], b: list[Conjunction]) -> list[Conjunction]:
    found = (conjoin(left, right) for left in a for right in b)
    return list(dict.fromkeys(one for one in found if one is not None))


def _first_text(atom: Atom) -> str:
    """What every value LIKE the constant starts with."""
    if atom.kind is not Kind.LIKE or not isinstance(atom.constant, str):
        return ""
    first = wildcards(atom.constant).first
    return first.texts[0] if isinstance(first, Gapped) else first


def starting_with(prefix: str) -> sets.Values | None:
    """The strings that start with `prefix`: a range up to the first string after all of them."""
    head = prefix.rstrip(_LAST_CHARACTER)
    if not head:
        return sets.span(sets.Line.STRING, prefix)
    following = ord(head[-1]) + 1
    if 0xD800 <= following <= 0xDFFF:  # no characters
        following = 0xE000
    end = head[:-1] + chr(following)
    return sets.span(sets.Line.STRING, prefix, end, (end,))


# --- the last steps ---------------------------------------------------------------


def _rejoined(disjuncts: list[Conjunction], domains: Domains) -> list[Conjunction]:
    """Ranges that touch become one: `v < 5 OR v >= 5` asks for a value, no matter which."""
    before = None
    while before != len(disjuncts):
        before = len(disjuncts)
        for name in dict.fromkeys(name for one in disjuncts for name, _ in one):
            disjuncts = _rejoined_along(name, disjuncts, domains)
    return without_included(disjuncts)


def _rejoined_along(name: str, disjuncts: list[Conjunction], domains: Domains) -> list[Conjunction]:
    """Conjunctions that differ in the attribute alone, and are united, move to the end."""
    groups: dict[Conjunction, list[Conjunction]] = {}
    for one in disjuncts:
        rest = tuple([test for test in one if test[0] != name])
        if len(rest) < len(one):
            groups.setdefault(rest, []).append(one)
    found = disjuncts
    for group in groups.values():
        if len(group) > 1:
            chosen = [dict(one)[name] for one in group]
            fewer = united(chosen, domains[name])
            if len(fewer) < len(group):
                found = [one for one in found if one not in group]
                found += [with_values(group[0], name, values) for values in fewer]
    return found


def united(chosen: Iterable[sets.Values], domain: sets.Domain) -> list[sets.Values]:
    """The same values in fewer sets: ranges are united where they touch, lists stay as they are."""
    found: list[sets.Values] = []
    for values in chosen:
        more = True
        while more:
            more = False
            for i, other in enumerate(found):
                if values.members is not None and other.members is not None and values != other:
                    continue
                union = sets.joined(other, values, domain)
                if union is not None:
                    del found[i]
                    values, more = union, True
                    break
        found.append(values)
    return found


def _positive(disjuncts: list[Conjunction], limit: int) -> list[Conjunction]:
    """`!= 80` as `<= 79 OR >= 81` (fig. 16, step 364), as long as there are few enough."""
    found: list[Conjunction] = []
    for i, one in enumerate(disjuncts):
        parts = _split(one)
        fits = len(found) + len(parts) + len(disjuncts) - i - 1 <= limit
        found += parts if fits else [one]
    return found


def _split(one: Conjunction) -> list[Conjunction]:
    found = [one]
    for name, values in one:
        if values.without and values.line in sets.ORDERED:
            if len(found) * (len(values.without) + 1) > _SPLIT:
                return [one]
            found = [with_values(part, name, r) for part in found for r in sets.ranges(values)]
    return found


class SubExpressions:
    """Equal sets and conjunctions of many filters are one object (claim 2 of US 6,910,033)."""

    def __init__(self) -> None:
        self._known: dict[object, list[object]] = {}  # the object, and how many use it

    def __len__(self) -> int:
        return len(self._known)

    def share(self, filter: Filter) -> Filter:
        """The same filter, made of what other filters are made of."""
        shared = [self._one(tuple(map(self._one, one))) for one in filter.disjuncts]
        return Filter(tuple(shared), filter.wider)  # type: ignore[arg-type]

    def release(self, filter: Filter) -> None:
        """Forget one filter that was shared."""
        for part in [*filter.disjuncts, *(test for one in filter.disjuncts for test in one)]:
            entry = self._known[part]
            entry[1] -= 1  # type: ignore[operator]
            if not entry[1]:
                del self._known[part]

    def uses(self, part: Conjunction | tuple[str, sets.Values]) -> int:
        """How often filters use a conjunction or a test."""
        entry = self._known.get(part)
        return entry[1] if entry else 0  # type: ignore[return-value]

    def _one(self, part: object) -> object:
        entry = self._known.setdefault(part, [part, 0])
        entry[1] += 1  # type: ignore[operator]
        return entry[0]
