"""The variables of a segment: its distinct atoms, in one intrinsic order.

Atoms of one term stand together, and there by constant; so new atoms never
reorder old ones, and what a path knows of a term is an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.diagram import packed
from tamis.diagram.bdd import I4, I8, U1, Variables
from tamis.diagram.intervals import intervals
from tamis.diagram.questions import AMONG, Vocabulary
from tamis.jit.kernel import arrays_from
from tamis.logic import Family, Kind
from tamis.logic.atoms import family_of
from tamis.logic.lists import has_several

SPREAD = 64  # an IN of at most so many constants may give access to its subscription
TABLE = 96  # at most so many atoms of one term are compared with each other, pair by pair
_ANY, _NUMBER, _STRING = int(Family.ANY), int(Family.NUMBER), int(Family.STRING)
_BELOW, _MEMBER = int(Kind.BELOW), int(Kind.MEMBER)
_PREFIX, _CONTAINS, _WITHIN = int(Kind.PREFIX), int(Kind.CONTAINS), int(Kind.WITHIN)


@dataclass(frozen=True, slots=True)
class Atoms:
    """Distinct (question, key) pairs in variable order, and what restriction knows of them."""

    question: I4
    key: I8
    variables: Variables

    @property
    def term(self) -> I4:
        term: I4 = packed.term(self.question)
        return term

    @property
    def family(self) -> I4:
        family: I4 = packed.family(self.question)
        return family

    @property
    def kind(self) -> I4:
        kind: I4 = packed.kind(self.question)
        return kind


def order(
    vocabulary: Vocabulary, asked: I4, keys: I8, *, ahead: Sequence[int] = ()
) -> tuple[Atoms, I4]:
    """The distinct atoms among the literals, in order; and the variable of each literal.

    The terms `ahead` come first, in the order given.
    """
    question_of, key_of, number = _distinct(asked, keys)
    question_of, key_of, number = _with_points(vocabulary, question_of, key_of, number)
    term = packed.term(question_of)  # ascending, as the questions are
    fresh = np.diff(term, prepend=-1) != 0
    numbers, which = term[fresh].tolist(), np.cumsum(fresh) - 1
    typed = np.array([vocabulary.terms.types[t] is not None for t in numbers], bool)[which]
    position = _positions(vocabulary, question_of, key_of, typed)
    group = _groups(vocabulary, numbers, which, packed.family(question_of), ahead)
    low, high, shape = arrays_from(intervals, question_of, position)
    several = np.array([has_several(vocabulary.terms.terms[t]) for t in numbers], bool)[which]
    free = several & (shape > 0)  # one of several values stands here, others elsewhere
    low[free] = high[free] = 0
    order = np.lexsort((packed.kind(question_of), position, shape, group))
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    question_of, key_of, group = question_of[order], key_of[order], group[order]
    dense = np.zeros(len(order), np.int32)
    np.cumsum(group[1:] != group[:-1], out=dense[1:])
    kin, table, width, relation = _relations(vocabulary, question_of, key_of, dense)
    variables = Variables(dense, low[order], high[order], kin, table, width, relation)
    return Atoms(question_of, key_of, variables), place[number]


def with_variables(words: I4, variable: I4) -> I4:
    """A program's words with the variables of its literals instead of their questions."""
    literal = packed.is_literal(words)
    out = words.copy()
    out[literal] = 2 * variable + (words[literal] & 1)
    return out


def _distinct(asked: I4, keys: I8) -> tuple[I4, I8, npt.NDArray[np.int64]]:
    order = np.lexsort((keys, asked))
    a, k = asked[order], keys[order]
    fresh = np.ones(len(a), bool)
    fresh[1:] = (a[1:] != a[:-1]) | (k[1:] != k[:-1])
    number = np.empty(len(a), np.int64)
    number[order] = np.cumsum(fresh) - 1
    return a[fresh], k[fresh], number


def _with_points(
    vocabulary: Vocabulary, asked: I4, keys: I8, number: npt.NDArray[np.int64]
) -> tuple[I4, I8, npt.NDArray[np.int64]]:
    """Also the single constants of every small IN: each may give access."""
    more: set[tuple[int, int]] = set()
    for i in np.flatnonzero(packed.kind(asked) == AMONG):
        term, family = packed.term(int(asked[i])), packed.family(int(asked[i]))
        if vocabulary.pool.size(keys[i]) <= SPREAD:
            point = packed.question(term, family, Kind.MEMBER)
            more.update((point, key) for key in vocabulary.members(family, term, int(keys[i])))
    if not more:
        return asked, keys, number
    extra = np.array(sorted(more), np.int64)
    asked, keys, again = _distinct(
        np.concatenate([asked, extra[:, 0].astype(np.int32)]), np.concatenate([keys, extra[:, 1]])
    )
    return asked, keys, again[: len(again) - len(extra)][number]


def _positions(vocabulary: Vocabulary, asked: I4, keys: I8, typed: npt.NDArray[np.bool_]) -> I8:
    """Where each atom's constant stands in its group: its key, or its rank among the constants."""
    kind, family = packed.kind(asked), packed.family(asked)
    ordered = (kind == _BELOW) | (kind == _MEMBER)
    position = keys.copy()
    for pooled in (ordered & (family == _STRING), ordered & (family == _NUMBER) & ~typed):
        if pooled.any():
            position[pooled] = 2 * _ranks(vocabulary, keys[pooled])
    return position


def _ranks(vocabulary: Vocabulary, keys: I8) -> I8:
    """Pool numbers as ranks of their values in ascending order."""
    used = _sorted_distinct(keys)
    ordered = sorted(used.tolist(), key=vocabulary.pool.values.__getitem__)
    rank = np.empty(len(used), np.int64)
    rank[np.searchsorted(used, np.array(ordered, np.int64))] = np.arange(len(used))
    return rank[np.searchsorted(used, keys)]


def _sorted_distinct(numbers: I8) -> I8:
    """As np.unique, which holds Python's lock and takes ten times as long on many numbers."""
    numbers = np.sort(numbers)
    return numbers[np.diff(numbers, prepend=numbers[0] - 1) != 0] if len(numbers) else numbers


def _groups(
    vocabulary: Vocabulary, terms: list[int], which: I8, family: I4, ahead: Sequence[int]
) -> I8:
    """Atoms that ask the same of the terms and family, terms by name but for those `ahead`.

    DEFINED belongs to the family of a typed term.
    """
    types = vocabulary.terms.types
    own = [Family.ANY if (kind := types[t]) is None else family_of(kind) for t in terms]
    first = {term: i for i, term in enumerate(ahead)}
    names = [(first.get(t, len(first)), vocabulary.terms.name(t)) for t in terms]
    rank = np.zeros(len(terms), np.int64)
    rank[sorted(range(len(terms)), key=names.__getitem__)] = np.arange(len(terms))
    within = np.where(family == _ANY, np.array(own, np.int64)[which], family)
    return rank[which] * 8 + within


# --- relations between the texts of one term ---------------------------------


def _relations(vocabulary: Vocabulary, asked: I4, keys: I8, group: I4) -> tuple[I4, I8, I4, U1]:
    """For each small group with texts: which of its atoms imply or exclude which."""
    groups = int(group[-1]) + 1 if len(group) else 0
    kin = np.full(len(asked), -1, np.int32)
    table = np.full(groups, -1, np.int64)
    width = np.zeros(groups, np.int32)
    parts: list[U1] = []
    size = 0
    kind, family = packed.kind(asked), packed.family(asked)
    textual = (family == _STRING) & (kind >= _MEMBER) & (kind <= _WITHIN)
    where = np.flatnonzero(textual)
    for g in sorted(set(group[(kind >= _PREFIX) & textual].tolist())):
        first, last = np.searchsorted(group[where], (g, g + 1))
        members = where[first:last]
        if len(members) > TABLE:
            continue
        kin[members] = np.arange(len(members))
        width[g], table[g] = len(members), size
        texts = [vocabulary.pool.values[k] for k in keys[members].tolist()]
        relation = _related(kind[members], texts)
        if has_several(vocabulary.terms.terms[packed.term(int(asked[members[0]]))]):
            relation[relation == 2] = 0  # each of another value
        parts.append(relation.ravel())
        size += relation.size
    return kin, table, width, np.concatenate(parts) if parts else np.zeros(1, np.uint8)


def _related(kinds: I4, texts: list[str]) -> U1:
    """What each of the atoms (a row) says of each (a column). 1: whatever satisfies it satisfies
    that one too; 2: nothing satisfies both; 0: it depends."""
    found = np.empty((len(texts), len(texts)), np.uint8)
    places = [(k, np.flatnonzero(kinds == k)) for k in sorted(set(kinds.tolist()))]
    groups = [(k, at, [texts[i] for i in at.tolist()]) for k, at in places]
    for a, rows, own in groups:
        for b, columns, others in groups:
            found[np.ix_(rows, columns)] = _relation(a, own, b, others)
    return found


def _relation(a: int, own: list[str], b: int, others: list[str]) -> Any:
    """The same of atoms of kind `a` and of kind `b`."""
    if a == _MEMBER:
        return np.where(_held(b, own, others), 1, 2)
    if b == _MEMBER:
        return np.where(_held(a, others, own).T, 0, 2)
    if a == _WITHIN:
        return _held(a, own, others) if a == b else np.where(_held(_CONTAINS, own, others), 0, 2)
    if b == _WITHIN:
        return np.where(_held(b, own, others), 0, 2)
    if b == _CONTAINS:
        return _held(b, own, others)
    if a != b:
        return 0
    longer = _held(a, own, others)  # of prefixes, and of suffixes
    return np.where(longer, 1, np.where(longer.T, 0, 2))


def _held(kind: int, values: list[str], constants: list[str]) -> npt.NDArray[np.bool_]:
    """Of which constants an atom of this kind is true, for each value."""
    match kind:
        case Kind.MEMBER:
            found = [value == constant for value in values for constant in constants]
        case Kind.PREFIX:
            found = [value.startswith(constant) for value in values for constant in constants]
        case Kind.SUFFIX:
            found = [value.endswith(constant) for value in values for constant in constants]
        case Kind.CONTAINS:
            found = [constant in value for value in values for constant in constants]
        case _:
            found = [value in constant for value in values for constant in constants]
    return np.array(found, bool).reshape(len(values), len(constants))
