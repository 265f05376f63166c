"""From subscriptions to a forest: one tree each, over one order of predicates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.diagram import packed
from tamis.diagram.questions import Vocabulary
from tamis.diagram.variables import Atoms, order
from tamis.engine.ground.layout import I4, I8
from tamis.engine.ground.sources import Source
from tamis.engine.implications.condition_trees import OVER, Trees, complete, grow
from tamis.engine.lookup.term_index import Index, indexes
from tamis.engine.reading.template_programs import expand, literals
from tamis.engine.reading.templates import Templates, Used
from tamis.logic import Family, Kind

BUDGET = 128  # inner nodes of a tree
FEW = 16  # constants of a term from which on signposts stand among them
GAP = 4  # constants from one signpost to the next


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees, and the predicates that they test. Never changed."""

    source: Source
    trees: Trees
    atoms: Atoms
    index: Index

    def __len__(self) -> int:
        return len(self.source)

    @property
    def large(self) -> I8:
        """The subscriptions that would need too large a tree."""
        return np.flatnonzero(self.trees.root == OVER)


def plant(
    vocabulary: Vocabulary, templates: Templates, source: Source, *, budget: int = BUDGET
) -> Forest:
    """The forest of some subscriptions. Costs their literals, and at most `budget` nodes each."""
    used = templates.used(source.template)
    which = used.which
    offsets, words, more = _completed(used)
    words.flags.writeable = False  # as those of `used`: kernels are compiled once
    keys = _with_flags(source, more[which])
    asked = np.empty(len(keys), np.int32)
    literals(offsets, words, which, asked)
    posts = _signposts(asked, keys)
    # Terms with signposts come first, the most of them before all: who fails there is done.
    terms, count = np.unique(packed.term(posts[0]), return_counts=True)
    atoms, variable = order(
        vocabulary,
        np.concatenate([asked, posts[0]]),
        np.concatenate([keys, posts[1]]),
        ahead=terms[np.argsort(-count, kind="stable")].tolist(),
    )
    own_offsets = np.empty(len(source) + 1, np.int64)
    own = np.empty(int(np.diff(offsets)[which].sum()), np.int32)
    expand(offsets, words, which, variable, own_offsets, own)
    trees = _grown(own_offsets, own, atoms, budget)
    return Forest(source, trees, atoms, indexes(vocabulary, atoms, used.items))


def _completed(used: Used) -> tuple[I8, I4, I8]:
    """Offsets and words of the templates, requirements included; literals added to each."""
    offsets, words, required = used.offsets, used.words, [item.required for item in used.items]
    needed = np.cumsum([0, *map(len, required)]).astype(np.int64)
    terms = np.array([n for r in required for n in r], np.int32)
    out_offsets = np.empty(len(offsets), np.int64)
    out = np.empty(len(words) + len(terms) + len(required), np.int32)
    size = complete(offsets, words, needed, terms, out_offsets, out)
    added = np.diff(out_offsets) - np.diff(offsets)
    return out_offsets, out[:size], np.maximum(added - 1, 0)


def _with_flags(source: Source, more: I8) -> I8:
    """The keys of all literals; a DEFINED at the end of a program has key 0."""
    sizes = np.diff(source.offsets)
    keys = np.zeros(len(source.keys) + int(more.sum()), np.int64)
    shift = np.cumsum(more) - more
    keys[np.arange(len(source.keys)) + np.repeat(shift, sizes)] = source.keys
    return keys


def _signposts(asked: I4, keys: I8) -> tuple[I4, I8]:
    """Predicates `term < constant` among the equalities of a term that has many.

    No subscription asks them. Few of them tell where a value stands, and so that most of the
    equalities fail (see docs/implications.md).
    """
    kind, family = packed.kind(asked), packed.family(asked)
    equal = (kind == Kind.MEMBER) & (family != Family.BOOL)
    distinct = np.unique(np.stack([asked[equal].astype(np.int64), keys[equal]], axis=1), axis=0)
    questions, counts = np.unique(distinct[:, 0], return_counts=True)
    many = distinct[np.isin(distinct[:, 0], questions[counts >= FEW])][::GAP]
    return (many[:, 0] - Kind.MEMBER + Kind.BELOW).astype(np.int32), many[:, 1].copy()


def _grown(offsets: I8, words: I4, atoms: Atoms, budget: int) -> Trees:
    root = np.empty(len(offsets) - 1, np.int32)
    trees = _room(2 * len(words) + 64, root)
    progress = np.zeros(2, np.int64)
    while True:
        grow(offsets, words, atoms.variables, trees, progress, budget)
        if progress[0] == len(root):
            size = int(progress[1])
            return _cut(trees, size)
        larger = _room(2 * len(trees.test) + 2 * budget, root)
        for old, new in zip(trees[:4], larger[:4], strict=True):
            new[: len(old)] = old
        trees = larger


def _room(size: int, root: I4) -> Trees:
    test, low, high, owner = np.empty((4, size), np.int32)
    return Trees(test, low, high, owner, root)


def _cut(trees: Trees, size: int) -> Trees:
    test, low, high, owner = (a[:size].copy() for a in trees[:4])
    return Trees(test, low, high, owner, trees.root)
