"""Access: what leads to subscriptions, and the clusters and boxes that it leads to.

Most conditions cannot hold unless one of a few events is fired: `symbol = 'IBM'` is an event, and
the subscriptions that need it are a cluster. Where bounds of keys say more than any event, or
there is none, they lead to the subscriptions, as boxes (paths/trees/cube_trees.py). Those that need
nothing selective form cluster 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tamis.diagram import packed
from tamis.diagram.bdd import HIGHEST, LOWEST
from tamis.diagram.questions import AMONG, Vocabulary
from tamis.diagram.variables import SPREAD, Atoms
from tamis.engine.choosing.access_paths import NEVER, AccessPath, Side, best_access
from tamis.engine.choosing.boxes import (
    LEAST,
    MOST_TESTS,
    MOST_WORDS,
    Box,
    Flag,
    Shape,
    ranges,
    share,
)
from tamis.engine.ground.layout import I4, I8, Access
from tamis.engine.ground.sources import Source
from tamis.engine.lookup.term_index import Index
from tamis.engine.reading.templates import Choice, Template, Used
from tamis.language.tree import attributes
from tamis.logic import Kind
from tamis.logic.lists import has_several

_DEFINED = 64  # terms that a message is expected to define at most
MIN_POINTS = 16  # distinct constants that a term needs before its memberships give access
_SHORT = 3  # characters on average, below which texts are in no way rare
_SAMPLE = 1024
_CONTAINS = int(Kind.CONTAINS)
FEW = 8  # subscriptions of a template, for which no way by bounds is sought
OVERLAPS = 1024  # subscriptions with several sides that are worth making matches distinct
_RARE = 0.05  # share from which on only single bounds lead, and only where they are rarely shared
_COMMON = 0.25  # share of all sides together that is too much
_CHEAP = 256  # cubes of a cluster that cost as much as one program checked behind a tree
Pairs = tuple[I8, I4, I4]  # offsets and subscriptions of the clusters, access variable of each


@dataclass(frozen=True, slots=True)
class Compiling:
    """What a segment is compiled from."""

    vocabulary: Vocabulary
    used: Used
    source: Source
    atoms: Atoms
    variable: I4  # of each literal
    index: Index
    members: dict[int, tuple[I8, I8]] = field(default_factory=dict)  # see `_members`


class Claims:
    """Which path each subscription takes."""

    def __init__(self, given: Compiling) -> None:
        self.given = given
        self.points = _points(given.vocabulary, given.atoms)
        _drop_short(given.vocabulary, given.atoms, self.points)
        self.selective = _selective(self.points)
        self.others: dict[Any, list[I4]] = {}  # of paths that need nothing but the subscriptions
        self.rest: list[I4] = []
        self.under: list[tuple[I4, I4]] = []  # (subscriptions, access variables)
        self.alone: list[tuple[int, list[int]]] = []  # (subscription, access variables)
        self.boxes: list[Box] = []
        self.sides: list[Box] = []  # of subscriptions that have others too
        self.several: list[tuple[I4, Template, AccessPath]] = []  # undecided yet
        self.overlap = False  # whether a message may come to one subscription in several ways

    def settle(self) -> tuple[Pairs, Access]:
        """After all claims: the clusters, and which events lead to them."""
        self.overlap |= _decide_several(self)
        _drop_small(self)
        pairs = (self.rest, self.under, self.alone)
        return _pairs(*pairs, self.given.index.place, self.given.index.events)


def claim_by_bounds(claims: Claims, template: Template, members: I4) -> bool:
    """Put the subscriptions into boxes, if bounds are the best way to them."""
    best = _best_by_bounds(claims, template, members)
    if best is None:
        return False
    if len(best.sides) > 1:
        claims.several.append((members, template, best))
    else:
        claims.boxes.append(_box(claims.given, template, members, best.sides[0]))
    return True


def claim_by_events(claims: Claims, template: Template, members: I4) -> bool:
    """Put the subscriptions under the events that lead to them, if these are selective."""
    choice = _choose(template, claims.points, claims.selective)
    if not choice:
        return False
    if len(choice) == 1 and packed.kind(template.asked[choice[0]]) == Kind.MEMBER:
        at = claims.given.source.offsets[members]
        claims.under.append((members, claims.given.variable[at + choice[0]]))
    else:
        _spread(claims, members, template, choice)
    return True


# --- bounds ------------------------------------------------------------------


@dataclass(slots=True)
class _Costs:
    """What the literals of one template are expected to cost."""

    given: Compiling
    template: Template
    asked: tuple[int, ...]  # of the template
    members: I4
    points: dict[int, int]
    selective: frozenset[int]

    def event(self, literal: int) -> float:
        if self.asked[literal] not in self.selective:
            return NEVER
        chance = _chance(self.asked[literal], self.points)
        return NEVER if chance >= 0.5 else chance / _CHEAP

    def bounds(self, literals: tuple[int, ...], exact: bool) -> float:
        """Where messages are expected to meet many of the bounds, words are sooner done with all of
        them; but for those of one bound each, which are a sorted list."""
        sample = self.members[:: max(1, len(self.members) // 4096)]
        box = _box(self.given, self.template, sample, Side(-1, literals))
        if len(box.subscription) == 0:
            return 0.0
        cost = 1.0
        for own in ranges(box.shape.tests, box.bounds):
            cost *= share(own)
        at = self.given.source.offsets[sample]
        if cost < (_RARE if exact else _RARE / 10):  # else a program is run for every hit
            return cost
        shared = 4 * len(np.unique(self.given.variable[at + literals[0]])) < len(sample)
        return NEVER if shared or not exact or len(box.shape.tests) > 1 else cost


def _best_by_bounds(claims: Claims, template: Template, members: I4) -> AccessPath | None:
    """The best way in, if there are bounds in it."""
    if len(members) < FEW or len(template.words) > MOST_WORDS:
        return None
    asked = template.asked
    if not any(packed.kind(question) == Kind.BELOW for question in asked):
        return None
    costs = _Costs(claims.given, template, asked, members, claims.points, claims.selective)
    best = best_access(template.words, costs)
    if best is None or all(side.event >= 0 for side in best.sides):
        return None
    return None if len(best.sides) > 1 and best.cost > _COMMON else best


def _box(given: Compiling, template: Template, members: I4, side: Side) -> Box:
    """The bounds of these subscriptions; those that nothing can match are left out."""
    words = [word for word in template.words if packed.is_literal(word)]
    at, index = given.source.offsets[members], given.index
    low: dict[int, I8] = {}
    high: dict[int, I8] = {}
    alive = np.ones(len(members), bool)
    for literal in side.bounds:
        variables = given.variable[at + literal]
        if not len(variables):
            continue
        column, threshold = int(index.place[variables[0]]), index.threshold[variables]
        if packed.negated(words[literal]):
            low[column] = np.maximum(low.get(column, LOWEST), threshold)
        else:
            alive &= threshold > LOWEST
            high[column] = np.minimum(high.get(column, HIGHEST), threshold - 1)
    for column in low.keys() & high.keys():
        alive &= low[column] <= high[column]
    tests = {**low, **{~column: ~bound for column, bound in high.items()}}
    few = dict(list(tests.items())[:MOST_TESTS])
    checked = not side.exact or len(few) < len(tests)
    shape = Shape(tuple(few), _flags(given, template, side), checked)
    bounds = np.stack([*few.values()]) if few else np.empty((0, len(members)), np.int64)
    return Box(shape, members[alive], bounds[:, alive])


def _flags(given: Compiling, template: Template, side: Side) -> tuple[Flag, ...]:
    """What messages must define, and of which family, before keys mean anything."""
    column = given.index.column
    found = {(column[term], 1, 1) for term in template.required}
    for word in side.flags:
        asked = packed.asked(word)
        bit = 1 if packed.kind(asked) == Kind.DEFINED else 2 << packed.family(asked)
        found.add((column[packed.term(asked)], int(bit), 1 - int(packed.negated(word))))
    return tuple(sorted(found))


def _decide_several(claims: Claims) -> bool:
    """Subscriptions with several sides: put on each, if they are many; whether they are."""
    total = sum(len(members) for members, _, _ in claims.several)
    if total == 0:
        return False
    many = total >= OVERLAPS or 8 * total >= len(claims.given.source)
    for members, template, best in claims.several:
        if many and _put_on_sides(claims, members, template, best):
            continue
        if not claim_by_events(claims, template, members):
            claims.rest.append(members)
    return many


def _put_on_sides(claims: Claims, members: I4, template: Template, best: AccessPath) -> bool:
    """False, and nothing done, if an IN has too many constants."""
    under, boxes, given = [], [], claims.given
    for side in best.sides:
        if side.event < 0:
            boxes.append(_box(given, template, members, side))
            continue
        variables = given.variable[given.source.offsets[members] + side.event]
        if packed.kind(template.asked[side.event]) != AMONG:
            under.append((members, variables))
            continue
        points = [_point_variables(given, v) for v in variables.tolist()]
        if any(-1 in own for own in points):
            return False
        sizes = [len(own) for own in points]
        spread = np.array([p for own in points for p in own], np.int32)
        under.append((np.repeat(members, sizes), spread))
    claims.sides += boxes
    claims.under += under
    return True


def _drop_small(claims: Claims) -> None:
    """Boxes of which there are too few for a tree go to cluster 0, but for those on one of several
    sides: there the other sides count on them."""
    sizes: dict[Shape, int] = {}
    for box in (*claims.boxes, *claims.sides):
        sizes[box.shape] = sizes.get(box.shape, 0) + len(box.subscription)
    small = [box for box in claims.boxes if sizes[box.shape] < LEAST]
    claims.rest += [box.subscription for box in small]
    claims.boxes = [box for box in claims.boxes if sizes[box.shape] >= LEAST] + claims.sides


# --- events ------------------------------------------------------------------


def _spread(claims: Claims, members: I4, template: Template, choice: Choice) -> None:
    """Subscriptions that several events lead to: one term's constants spread."""
    asked, given = template.asked, claims.given
    kinds = {packed.kind(asked[c]) for c in choice}
    one_term = len({packed.line(asked[c]) for c in choice}) == 1 and kinds <= {Kind.MEMBER, AMONG}
    if one_term and has_several(given.vocabulary.terms.terms[packed.term(asked[choice[0]])]):
        claims.overlap = True
    for s in members.tolist():
        variables = [int(given.variable[given.source.offsets[s] + c]) for c in choice]
        if not one_term:
            claims.alone.append((s, sorted(set(variables))))
            continue
        spread = {p for v in variables for p in _point_variables(given, v)}
        if len(spread) > SPREAD or -1 in spread:
            claims.rest.append(np.array([s], np.int32))
        else:
            subscriptions = np.full(len(spread), s, np.int32)
            claims.under.append((subscriptions, np.array(sorted(spread), np.int32)))


def _point_variables(given: Compiling, v: int) -> list[int]:
    """The MEMBER variables of the constants of variable v; -1 where they are too many."""
    asked = int(given.atoms.question[v])
    if packed.kind(asked) == Kind.MEMBER:
        return [v]
    term, family = packed.term(asked), packed.family(asked)
    constants = given.vocabulary.members(family, term, int(given.atoms.key[v]))
    if len(constants) > SPREAD:
        return [-1]
    keys, variables = _members(given, packed.with_kind(asked, Kind.MEMBER))
    found: list[int] = variables[np.searchsorted(keys, constants)].tolist()
    return found


def _members(given: Compiling, question: int) -> tuple[I8, I8]:
    """The keys of the atoms with this question, ascending, and their variables."""
    found = given.members.get(question)
    if found is None:
        own = np.flatnonzero(given.atoms.question == question)
        order = np.argsort(given.atoms.key[own])
        found = given.members[question] = given.atoms.key[own[order]], own[order]
    return found


def _points(vocabulary: Vocabulary, atoms: Atoms) -> dict[int, int]:
    """How many distinct constants each question has. Where there are many attributes a message
    defines few of them, so each constant counts for more."""
    asked, counts = np.unique(atoms.question, return_counts=True)
    terms = np.unique(atoms.term).tolist()
    if len(terms) > _DEFINED:
        names = {n for term in terms for n in attributes(vocabulary.terms.terms[term])}
        counts *= max(1, len(names) // _DEFINED)
    return dict(zip(asked.tolist(), counts.tolist(), strict=True))


def _drop_short(vocabulary: Vocabulary, atoms: Atoms, points: dict[int, int]) -> None:
    """Texts of one or two characters stand in many a value: they lead nowhere."""
    for asked in [q for q, n in points.items() if n >= MIN_POINTS and packed.kind(q) == _CONTAINS]:
        keys = atoms.key[atoms.question == asked][:_SAMPLE].tolist()
        if sum([len(vocabulary.pool.values[k]) for k in keys]) < _SHORT * len(keys):
            points[asked] = 1


def _selective(points: dict[int, int]) -> frozenset[int]:
    """Questions with so many constants that one of them says a lot."""
    many = {
        q for q, count in points.items() if count >= MIN_POINTS and packed.kind(q) >= Kind.MEMBER
    }
    among = {packed.with_kind(q, AMONG) for q in many if packed.kind(q) == Kind.MEMBER}
    return frozenset(many | among)


def _choose(template: Template, points: dict[int, int], selective: frozenset[int]) -> Choice | None:
    """The most selective events of which a condition needs one, if they are selective enough."""
    asked = template.asked
    if not selective.intersection(asked):
        return None

    def chance(literal: int) -> float:
        return _chance(asked[literal], points)

    best = min(template.choices, key=lambda c: sum(map(chance, c)), default=None)
    return best if best is not None and max(map(chance, best)) < 0.5 else None


def _chance(asked: int, points: dict[int, int]) -> float:
    """How likely an event is fired, by how many constants there are beside its own."""
    kind = packed.kind(asked)
    if kind not in (Kind.MEMBER, AMONG):
        return 0.02 if points.get(asked, 1) >= MIN_POINTS else 1.0
    many = points.get(packed.with_kind(asked, Kind.MEMBER), 1)
    return (1.0 if kind == Kind.MEMBER else 4.0) / many if many >= MIN_POINTS else 1.0


def _pairs(
    rest: list[I4],
    under: list[tuple[I4, I4]],
    alone: list[tuple[int, list[int]]],
    place: I4,
    events: int,
) -> tuple[Pairs, Access]:
    everywhere = np.sort(np.concatenate(rest)) if rest else np.empty(0, np.int32)
    subscription = np.concatenate([s for s, _ in under]) if under else np.empty(0, np.int32)
    variable = np.concatenate([v for _, v in under]) if under else np.empty(0, np.int32)
    order = np.lexsort((subscription, variable))
    subscription, variable = subscription[order], variable[order]
    heads, sizes = np.unique(variable, return_counts=True)
    members = np.concatenate(
        [everywhere, subscription, np.array([s for s, _ in alone], np.int32)]
    ).astype(np.int32)
    offsets = np.concatenate(
        [[0], np.cumsum([len(everywhere), *sizes.tolist(), *([1] * len(alone))])]
    ).astype(np.int64)
    access = np.concatenate([[-1], heads, np.full(len(alone), -1)]).astype(np.int32)
    event = [place[heads], np.array([place[v] for _, vs in alone for v in vs], np.int32)]
    cluster = [
        np.arange(1, len(heads) + 1),
        np.array([1 + len(heads) + i for i, (_, vs) in enumerate(alone) for _ in vs], np.int64),
    ]
    return (offsets, members, access), _access(
        np.concatenate(event), np.concatenate(cluster), events
    )


def _access(event: I4, cluster: I8, events: int) -> Access:
    order = np.argsort(event, kind="stable")
    offsets = np.searchsorted(event[order], np.arange(events + 1)).astype(np.int64)
    return Access(offsets, cluster[order].astype(np.int32))
