"""What must hold of the trees of a snapshot before kernels may see them."""

from __future__ import annotations

import numpy as np

from tamis.diagram import packed
from tamis.engine.choosing.boxes import MOST_TESTS, MOST_WORDS
from tamis.engine.ground.layout import FLAG_BIT, FLAG_COLUMN, I8
from tamis.engine.ground.sound import demand, formulas, starts_of, within
from tamis.engine.lookup.term_index import Index
from tamis.engine.paths.trees import cube_trees as t
from tamis.engine.paths.trees.cube_trees import Trees


def checked_trees(given: Trees, index: Index, subscriptions: int) -> None:
    """Tests, flags, bounds and programs are there as the kernel will read them."""
    tests, flags, counts = (given.tree[:, c] for c in (t.TEST_COUNT, t.FLAG_COUNT, t.CUBE_COUNT))
    within(tests - 1, MOST_TESTS, "tests of trees")
    within(flags, len(given.flag) + 1, "flags of trees")
    within(counts - 1, len(given.subscription), "cubes of trees")
    starts_of(given.tree[:, t.TESTS], tests, len(given.test), "tests of trees")
    starts_of(given.tree[:, t.FLAGS], flags, len(given.flag), "flags of trees")
    starts_of(given.tree[:, t.CUBES], counts, len(given.subscription), "cubes of trees")
    starts_of(given.tree[:, t.BOUNDS], _bounds(tests, counts), len(given.bound) - t.SPARE, "bounds")
    within(np.where(given.test < 0, ~given.test, given.test), index.key_columns, "columns of trees")
    within(given.flag[:, FLAG_COLUMN], len(index.terms), "columns of flags")
    within(given.flag[:, FLAG_BIT], 256, "bits of flags")
    within(given.subscription, subscriptions, "subscriptions of trees")
    checked = given.tree[:, t.CHECKED] >= 0
    own = np.where(checked, counts, 0)[checked]
    starts_of(given.tree[checked, t.CHECKED], own, len(given.check), "programs of trees")
    _programs_of_trees(given, index)


def _bounds(tests: I8, counts: I8) -> I8:
    """How many bounds trees have, all levels together; one test has one level."""
    total, level = tests * counts, counts
    while (level > 8).any():
        level = np.where((level > 8) & (tests > 1), (level + 7) >> 3, 0)
        total = total + tests * level
    return total


def _programs_of_trees(given: Trees, index: Index) -> None:
    formulas(given.program, given.word)
    within(np.diff(given.program), MOST_WORDS + 1, "words of programs")
    within(given.check, max(len(given.program) - 1, 1), "programs")
    within(packed.asked(given.word[packed.is_literal(given.word)]), len(given.ask), "asks")
    demand(len(given.ask) == len(given.ask_key), "asks do not fit")
    what, place, bit = given.ask.T
    within(what, t.ASK_FLAG + 1, "asks")
    most = np.array([index.key_columns, index.events, len(index.terms)])
    within(place, most[what], "what is asked")
    within(bit, 256, "bits of asks")
