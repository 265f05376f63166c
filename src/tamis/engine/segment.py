"""A segment: subscriptions compiled together, never changed afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tamis.diagram.questions import AMONG, Vocabulary, question
from tamis.diagram.shared import BUDGET, allocate, grown
from tamis.diagram.variables import SPREAD, Atoms, order
from tamis.engine import compile as kernels
from tamis.engine.cubes import cubes_of, strip
from tamis.engine.index import Index, indexes
from tamis.engine.layout import (
    EVENT,
    FLAG,
    GROUP,
    HOIST,
    I4,
    I8,
    NEED,
    NODE,
    ROOT,
    THRESHOLD,
    Access,
    ByNeed,
    Clusters,
    Cubes,
    Requirements,
)
from tamis.engine.source import Kept, Source, kept
from tamis.engine.templates import Choice, Template, Templates, Used
from tamis.logic import Kind

_APART = 1024  # nodes of a condition that is built by itself
MIN_POINTS = 16  # distinct constants that a term needs before its memberships give access


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Segment:
    source: Kept
    clusters: Clusters
    access: Access
    requirements: Requirements
    index: Index

    longest: int  # nodes of the longest part
    by_need: ByNeed
    cubes: Cubes
    plans: list[Any] = field(default_factory=list, repr=False, compare=False)  # see engine/plan.py

    def __len__(self) -> int:
        return len(self.source)


def compile_segment(
    vocabulary: Vocabulary, templates: Templates, source: Source, *, budget: int = BUDGET
) -> Segment:
    """Cluster the subscriptions by their access events and compile every cluster."""
    used = templates.used(source.template)
    asked = np.empty(len(source.keys), np.int32)
    kernels.literals(used.offsets, used.words, used.which, asked)
    atoms, variable = order(vocabulary, asked, source.keys)
    program_offsets = np.empty(len(source) + 1, np.int64)
    sizes = np.diff(used.offsets)[used.which]
    program_words = np.empty(int(sizes.sum()), np.int32)
    kernels.expand(used.offsets, used.words, used.which, variable, program_offsets, program_words)
    index = indexes(vocabulary, atoms, used.items)
    needs, requirements = _requirements(used, index.column)
    pairs, access = _clusters(vocabulary, used, source, atoms, variable, index.place, index.events)
    asked_of = (atoms.question, index.threshold, index.place)
    programs = (program_offsets, program_words)
    compiled = _compile(atoms, asked_of, programs, pairs, needs, budget)
    cubes, rest = cubes_of(compiled)
    strip(compiled, rest)
    compiled = _trimmed(compiled)
    longest, by_need = _longest(compiled), roots_by_need(compiled)
    own, index = kept(source, variable, atoms.key), index.compiled()
    return Segment(own, compiled, access, requirements, index, longest, by_need, cubes)


def roots_by_need(clusters: Clusters) -> ByNeed:
    """How the roots of cluster 0 share their requirements."""
    needs = clusters.root[: clusters.starts[1, ROOT], 3]
    count = int(clusters.starts[1, NEED])
    starts = np.concatenate([[0], np.cumsum(np.bincount(needs, minlength=count))])
    return ByNeed(starts.astype(np.int64), np.argsort(needs, kind="stable").astype(np.int32))


def _longest(clusters: Clusters) -> int:
    """An upper bound of the nodes of any part: the longest run between two starts of parts."""
    first = np.repeat(clusters.starts[:-1, NODE], np.diff(clusters.starts[:, ROOT]))
    hoist = np.repeat(clusters.starts[:-1, NODE], np.diff(clusters.starts[:, HOIST]))
    begins = np.concatenate(
        [clusters.root[:, 0] + first, clusters.hoist + hoist, clusters.starts[:, NODE]]
    )
    return int(np.diff(np.sort(begins)).max(initial=0))


def _requirements(used: Used, column: dict[int, int]) -> tuple[I4, Requirements]:
    """The requirement of each subscription, numbered, and the columns of each requirement."""
    numbers: dict[tuple[int, ...], int] = {}
    of_template = [numbers.setdefault(item.required, len(numbers)) for item in used.items]
    offsets = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum([len(r) for r in numbers], out=offsets[1:])
    columns = np.array([column[term] for r in numbers for term in r], np.int32)
    return np.array(of_template, np.int32)[used.which], Requirements(offsets, columns)


# --- access ------------------------------------------------------------------

Pairs = tuple[I8, I4, I4]  # offsets and subscriptions of the clusters, access variable of each


def _clusters(
    vocabulary: Vocabulary,
    used: Used,
    source: Source,
    atoms: Atoms,
    variable: I4,
    place: I4,
    events: int,
) -> tuple[Pairs, Access]:
    """Put every subscription into cluster 0 or under its access events."""
    points = _points(atoms)
    selective = _selective(points)
    rest: list[I4] = []
    under: list[tuple[I4, I4]] = []  # (subscription, access variable)
    alone: list[tuple[int, list[int]]] = []  # (subscription, its access variables)
    by_template = np.argsort(used.which, kind="stable").astype(np.int32)
    starts = np.searchsorted(used.which[by_template], np.arange(1, len(used.items)))
    for template, members in zip(used.items, np.split(by_template, starts), strict=False):
        choice = _choose(template, points, selective)
        if not choice:
            rest.append(members)
        elif len(choice) == 1 and template.asked[choice[0]] & 15 == Kind.MEMBER:
            under.append((members, variable[source.offsets[members] + choice[0]]))
        else:
            _spread(
                vocabulary, source, atoms, variable, members, template, choice, rest, under, alone
            )
    return _pairs(rest, under, alone, place, events)


def _spread(
    vocabulary: Vocabulary,
    source: Source,
    atoms: Atoms,
    variable: I4,
    members: I4,
    template: Template,
    choice: Choice,
    rest: list[I4],
    under: list[tuple[I4, I4]],
    alone: list[tuple[int, list[int]]],
) -> None:
    """Subscriptions with several ways in: one term's constants spread, mixed ones stand alone."""
    asked = template.asked
    kinds = {asked[c] & 15 for c in choice}
    one_term = len({asked[c] >> 4 for c in choice}) == 1 and kinds <= {Kind.MEMBER, AMONG}
    for s in members.tolist():
        ways = [int(variable[source.offsets[s] + c]) for c in choice]
        if not one_term:
            alone.append((s, sorted(set(ways))))
            continue
        spread = {p for v in ways for p in _point_variables(vocabulary, atoms, v)}
        if len(spread) > SPREAD or -1 in spread:
            rest.append(np.array([s], np.int32))
        else:
            subscriptions = np.full(len(spread), s, np.int32)
            under.append((subscriptions, np.array(sorted(spread), np.int32)))


def _point_variables(vocabulary: Vocabulary, atoms: Atoms, v: int) -> list[int]:
    """The MEMBER variables of the constants of variable v; -1 where they are too many."""
    asked = int(atoms.question[v])
    if asked & 15 == Kind.MEMBER:
        return [v]
    term, family = asked >> 8, (asked >> 4) & 15
    keys = vocabulary.members(family, term, int(atoms.key[v]))
    if len(keys) > SPREAD:
        return [-1]
    point = question(term, family, Kind.MEMBER)
    candidates = np.flatnonzero(atoms.question == point)
    where = {int(atoms.key[i]): int(i) for i in candidates} if len(candidates) < 4096 else None
    if where is None:
        sorter = np.argsort(atoms.key[candidates])
        at = np.searchsorted(atoms.key[candidates], keys, sorter=sorter)
        return [int(candidates[sorter[i]]) for i in at]
    return [where[k] for k in keys]


def _points(atoms: Atoms) -> dict[int, int]:
    """How many distinct constants each question has."""
    asked, counts = np.unique(atoms.question, return_counts=True)
    return dict(zip(asked.tolist(), counts.tolist(), strict=True))


def _selective(points: dict[int, int]) -> frozenset[int]:
    """Questions with so many constants that one of them says a lot."""
    many = {q for q, count in points.items() if count >= MIN_POINTS and q & 15 >= Kind.MEMBER}
    among = {q & ~15 | AMONG for q in many if q & 15 == Kind.MEMBER}
    return frozenset(many | among)


def _choose(template: Template, points: dict[int, int], selective: frozenset[int]) -> Choice | None:
    """The most selective way into a condition, if any is selective enough."""

    asked = template.asked
    if not selective.intersection(asked):
        return None

    def chance(literal: int) -> float:
        kind = asked[literal] & 15
        if kind not in (Kind.MEMBER, AMONG):
            return 0.02 if points.get(asked[literal], 1) >= MIN_POINTS else 1.0
        many = points.get(asked[literal] & ~15 | Kind.MEMBER, 1)
        return (1.0 if kind == Kind.MEMBER else 4.0) / many if many >= MIN_POINTS else 1.0

    best = min(template.choices, key=lambda c: sum(map(chance, c)), default=None)
    return best if best is not None and max(map(chance, best)) < 0.5 else None


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


# --- compilation -------------------------------------------------------------


def _compile(
    atoms: Atoms,
    asked: tuple[I4, I8, I4],
    programs: tuple[I8, I4],
    pairs: Pairs,
    needs: I4,
    budget: int,
) -> Clusters:
    """The compiled clusters, with room behind the last of them."""
    count = len(pairs[0]) - 1
    starts = np.zeros((count + 1, 8), np.int64)
    words = len(programs[1])
    room = max(1024, words + words // 2)
    out = _empty(starts, room, len(pairs[1]))
    largest = max(1024, 2 * words if count == 1 else 2 * _largest(programs[0], pairs))
    nodes, apart = allocate(largest), allocate(_APART)
    done, stretch = 0, 1
    while True:
        done = kernels.clusters(
            nodes,
            apart,
            atoms.variables,
            asked,
            programs,
            pairs,
            needs,
            starts,
            done,
            out,
            budget,
            stretch,
        )
        if done == count:
            return out
        if done < 0:
            done, nodes, stretch = -done - 1, grown(nodes), 2 * stretch
        else:
            out = _doubled(out, starts)


def _largest(offsets: I8, pairs: Pairs) -> int:
    sizes = np.diff(offsets)[pairs[1]]
    return int(np.add.reduceat(np.append(sizes, 0), pairs[0][:-1]).max(initial=1))


def _empty(starts: I8, room: int, roots: int) -> Clusters:
    return Clusters(
        starts,
        np.empty((room, 3), np.int32),
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty((room, 2), np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty((2 * room, 3), np.int32),
        np.empty((max(roots, 1), 4), np.int32),
    )


def _doubled(out: Clusters, starts: I8) -> Clusters:
    return Clusters(starts, *(np.concatenate([a, np.empty_like(a)]) for a in out[1:]))


def _trimmed(out: Clusters) -> Clusters:
    end = out.starts[-1]
    return Clusters(
        out.starts,
        out.group[: end[GROUP]].copy(),
        out.threshold[: end[THRESHOLD]].copy(),
        out.event[: end[EVENT]].copy(),
        out.flag[: end[FLAG]].copy(),
        out.need[: end[NEED]].copy(),
        out.hoist[: end[HOIST]].copy(),
        out.node[: end[NODE]].copy(),
        out.root[: end[ROOT]].copy(),
    )
