"""A segment: subscriptions compiled together, never changed afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tamis.diagram.questions import Vocabulary
from tamis.diagram.shared import BUDGET, allocate, grown
from tamis.diagram.variables import order
from tamis.engine.compile import emit
from tamis.engine.compile.access import Compiling, clusters_by_access
from tamis.engine.compile.cube_trees import trees_of
from tamis.engine.compile.cubes import cubes_of, strip
from tamis.engine.compile.programs import Kept, Source, kept
from tamis.engine.compile.residues import with_residues
from tamis.engine.index.term_index import Index, indexes
from tamis.engine.intake.templates import Templates, Used
from tamis.engine.layout import (
    ASK_EVENT,
    ASK_KIND,
    ASK_PLACE,
    EVENT,
    FLAG,
    GROUP,
    HOIST,
    I4,
    NEED,
    NODE,
    ROOT,
    ROOT_NEED,
    ROOT_NODE,
    THRESHOLD,
    Access,
    ByNeed,
    Clusters,
    Cubes,
    Requirements,
    Trees,
)
from tamis.jit.first_use import heavy
from tamis.jit.kernel import arrays_from

_STEPS = 10  # to compile a literal, as `heavy` counts them
_APART = 1024  # nodes of a condition that is built by itself


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
    trees: Trees
    overlap: bool  # whether a message may meet a subscription in several clusters or trees
    everywhere: I4  # the events that any message may be asked for
    plans: list[Any] = field(
        default_factory=list, repr=False, compare=False
    )  # see engine/compile/plans.py
    graphs: list[Any] = field(
        default_factory=list, repr=False, compare=False
    )  # see engine/kernels/one_message.py
    words: list[Any] = field(
        default_factory=list, repr=False, compare=False
    )  # see engine/encode/term_words.py

    def __len__(self) -> int:
        return len(self.source)


def compile_segment(
    vocabulary: Vocabulary, templates: Templates, source: Source, *, budget: int = BUDGET
) -> Segment:
    """Cluster the subscriptions by their access events and compile every cluster."""
    heavy(_STEPS * len(source.keys))
    used = templates.used(source.template)
    asked = np.empty(len(source.keys), np.int32)
    emit.literals(used.offsets, used.words, used.which, asked)
    atoms, variable = order(vocabulary, asked, source.keys)
    program_offsets = np.empty(len(source) + 1, np.int64)
    sizes = np.diff(used.offsets)[used.which]
    program_words = np.empty(int(sizes.sum()), np.int32)
    emit.expand(used.offsets, used.words, used.which, variable, program_offsets, program_words)
    index = indexes(vocabulary, atoms, used.items)
    needs, requirements = _requirements(used, index.column)
    given = Compiling(vocabulary, used, source, atoms, variable, index)
    (pair_at, member, leads), access, boxes, overlap = clusters_by_access(given)
    asked_of = (atoms.question, index.threshold, index.place)
    programs = (program_offsets, program_words)
    to_write = emit.Given(atoms.variables, *asked_of, *programs, pair_at, member, leads, needs)
    compiled = _compile(to_write, budget)
    *arrays, rest = arrays_from(cubes_of, compiled)
    cubes = Cubes(*arrays)
    strip(compiled, rest)
    compiled = _trimmed(compiled)
    longest, by_need = _longest(compiled), roots_by_need(compiled)
    trees, checked = trees_of(boxes)
    trees = with_residues(trees, checked, programs, asked_of)
    own, index = kept(source, variable, atoms.key), index.compiled()
    links = (access, requirements, index, longest, by_need)
    return Segment(own, compiled, *links, cubes, trees, overlap, asked_everywhere(compiled, trees))


def asked_everywhere(clusters: Clusters, trees: Trees) -> I4:
    """The events that cluster 0 and the programs of trees ask for."""
    checked = trees.ask[trees.ask[:, ASK_KIND] == ASK_EVENT, ASK_PLACE]
    own = clusters.event[: clusters.starts[1, EVENT]]
    return np.union1d(own, checked) if len(checked) else own


def roots_by_need(clusters: Clusters) -> ByNeed:
    """How the roots of cluster 0 share their requirements."""
    needs = clusters.root[: clusters.starts[1, ROOT], ROOT_NEED]
    count = int(clusters.starts[1, NEED])
    starts = np.concatenate([[0], np.cumsum(np.bincount(needs, minlength=count))])
    return ByNeed(starts.astype(np.int64), np.argsort(needs, kind="stable").astype(np.int32))


def _longest(clusters: Clusters) -> int:
    """An upper bound of the nodes of any part: the longest run between two starts of parts."""
    first = np.repeat(clusters.starts[:-1, NODE], np.diff(clusters.starts[:, ROOT]))
    hoist = np.repeat(clusters.starts[:-1, NODE], np.diff(clusters.starts[:, HOIST]))
    begins = np.concatenate(
        [clusters.root[:, ROOT_NODE] + first, clusters.hoist + hoist, clusters.starts[:, NODE]]
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


# --- compilation -------------------------------------------------------------


def _compile(given: emit.Given, budget: int) -> Clusters:
    """The compiled clusters, with room behind the last of them."""
    count, words = len(given.pair_at) - 1, len(given.words)
    out = _empty(count, max(1024, words + words // 2), len(given.member))
    largest = max(1024, 2 * words if count == 1 else 2 * _largest(given))
    nodes, apart = allocate(largest), allocate(_APART)
    done, stretch = 0, 1
    while True:
        done = emit.clusters(given, nodes, apart, done, out, budget, stretch)
        if done == count:
            return out
        if done < 0:
            done, nodes, stretch = -done - 1, grown(nodes), 2 * stretch
        else:
            out = Clusters(out.starts, *(np.concatenate([a, np.empty_like(a)]) for a in out[1:]))


def _largest(given: emit.Given) -> int:
    """The words of the largest cluster."""
    sizes = np.diff(given.offsets)[given.member]
    return int(np.add.reduceat(np.append(sizes, 0), given.pair_at[:-1]).max(initial=1))


def _empty(clusters: int, room: int, roots: int) -> Clusters:
    return Clusters(
        np.zeros((clusters + 1, 8), np.int64),
        np.empty((room, 3), np.int32),
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty((room, 2), np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty((2 * room, 3), np.int32),
        np.empty((max(roots, 1), 4), np.int32),
    )


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
