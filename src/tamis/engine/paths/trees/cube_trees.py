"""Trees: cubes that ranges lead to, sorted so that one message meets few of their blocks.

A *box* is what some subscriptions with the same tests ask of keys, one bound for each test. Boxes
that ask alike make a tree. Its order decides how much a message reads: by the bound of one
attribute, or by tiles over up to three (Leutenegger et al., STR, 1997), the widest cubes first, as
one of them would make its block match everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.diagram.bdd import LOWEST
from tamis.engine.choosing.boxes import Box, Flag, Range, Shape, ranges, share
from tamis.engine.ground.layout import I4, I8


class Trees(NamedTuple):
    """Cubes that ranges lead to: each asks `bound <= key` of all tests of its tree, where a test
    ~column asks that of ~key.

    The cubes of a tree stand in blocks of 8 (the last may have fewer), a block as one row of
    bounds for each test. The level above has a cube for each block, with the least bounds in it,
    and so on until one block is left; the levels stand one behind the other, the cubes
    themselves first. A tree of one test has no levels: its bounds ascend.

    Where `CHECKED` is not -1, the cubes of the tree are necessary only: then the program numbered
    `check[CHECKED + i]` must be true as well for cube i.
    """

    tree: I8  # rows: the constants below
    test: I4
    flag: I4  # rows: FLAG_...
    bound: I8
    subscription: I4
    check: I4
    program: I8  # offsets of the words of each
    word: I4  # of programs (diagram/packed.py); literals are asks
    ask: I4  # rows: ASK_KIND (one of the three below), ASK_PLACE (column or event), ASK_BIT
    ask_key: I8  # the threshold of each


TESTS, TEST_COUNT, FLAGS, FLAG_COUNT, BOUNDS, CUBES, CUBE_COUNT, CHECKED = range(8)
ASK_KIND, ASK_PLACE, ASK_BIT = range(3)
ASK_BELOW, ASK_EVENT, ASK_FLAG = range(3)

SPARE = 8  # bounds are read so many at a time, also at the end
_DIMENSIONS = 3  # attributes that a tree is ordered by
_OUTLIER = 16.0  # times the median that makes a range wide, of one attribute; of more, 64
_CLASSES = 4

Floats = npt.NDArray[np.float64]


def trees_of(boxes: Iterable[Box]) -> tuple[Trees, I4]:
    """All trees, without programs; and the subscriptions whose cubes must be checked, in the order
    of `check`."""
    by_shape: dict[Shape, list[Box]] = {}
    for box in boxes:
        if len(box.subscription):
            by_shape.setdefault(box.shape, []).append(box)
    rows: list[tuple[int, ...]] = []
    tests: list[int] = []
    flags: list[Flag] = []
    bound, owner, checked = [_EMPTY], [_NOBODY], [_NOBODY]
    at = cubes = checks = 0
    for shape, alike in by_shape.items():
        subscription = np.concatenate([box.subscription for box in alike])
        bounds = np.concatenate([box.bounds for box in alike], axis=1)
        order = _order(shape.tests, bounds)
        levels = _levels(bounds[:, order])
        check = checks if shape.checked else -1
        own = (len(tests), len(shape.tests), len(flags), len(shape.flags))
        rows.append((*own, at, cubes, len(order), check))
        tests += shape.tests
        flags += shape.flags
        bound += levels
        owner.append(subscription[order])
        at += sum(map(len, levels))
        cubes += len(order)
        if shape.checked:
            checked.append(owner[-1])
            checks += len(order)
    return Trees(
        np.array(rows, np.int64).reshape(-1, 8),
        np.array(tests, np.int32),
        np.array(flags, np.int32).reshape(-1, 3),
        np.concatenate([*bound, np.zeros(SPARE, np.int64)]),
        np.concatenate(owner),
        _NOBODY,
        np.zeros(1, np.int64),
        _NOBODY,
        np.empty((0, 3), np.int32),
        _EMPTY,
    ), np.concatenate(checked)


_EMPTY: I8 = np.empty(0, np.int64)
_NOBODY: I4 = np.empty(0, np.int32)


def _levels(bounds: I8) -> list[I8]:
    """Bounds of cubes (test x cube) in blocks, and of the levels above."""
    if len(bounds) == 1:
        return [bounds[0]]
    levels = [_blocks(bounds)]
    while bounds.shape[1] > 8:
        starts = np.arange(0, bounds.shape[1], 8)
        bounds = np.minimum.reduceat(bounds, starts, axis=1)
        levels.append(_blocks(bounds))
    return levels


def _blocks(bounds: I8) -> I8:
    tests, count = bounds.shape
    full = count & ~7
    even = bounds[:, :full].reshape(tests, -1, 8).transpose(1, 0, 2)
    return np.concatenate([even.ravel(), bounds[:, full:].ravel()])


# --- order -------------------------------------------------------------------


def _order(tests: tuple[int, ...], bounds: I8) -> I8:
    if len(tests) == 1:
        return np.argsort(bounds[0], kind="stable")
    chosen = _leading(ranges(tests, bounds), bounds.shape[1])
    order = _tiles([_middle(r) for r in chosen])
    wide = _wide(chosen)
    return order if wide is None else order[np.argsort(-wide[order], kind="stable")]


def _leading(given: list[Range], count: int) -> list[Range]:
    """The attributes to order by: the most telling, as long as more than a block is expected."""
    by_share = sorted((share(r), i) for i, r in enumerate(given))
    chosen: list[Range] = []
    expected = float(count)
    for own, i in by_share[:_DIMENSIONS]:
        if chosen and expected <= 8:
            break
        chosen.append(given[i])
        expected *= own
    return chosen


def _middle(given: Range) -> I8:
    """A value inside of each range to order it by."""
    if not given.open:
        return (given.low >> 1) + (given.high >> 1)
    return given.high if (given.low == LOWEST).all() else given.low


def _tiles(middles: list[I8]) -> I8:
    """Sorted by the last of the attributes inside of tiles of the others."""
    count, dimensions = len(middles[0]), len(middles)
    slices = max(1, math.ceil((count / 8) ** (1 / dimensions)))
    tile = np.zeros(count, np.int64)
    for done, middle in enumerate(middles[:-1]):
        width = 8 * slices ** (dimensions - 1 - done)
        tile[np.lexsort((middle, tile))] = np.arange(count) // width
    return np.lexsort((middles[-1], tile))


def _wide(given: list[Range]) -> I8 | None:
    """How much wider than usual each cube is, as a class; None where none is."""
    limit = math.log(_OUTLIER if len(given) == 1 else 4 * _OUTLIER)
    step = max(1, len(given[0].low) // 4096)
    few = _extent([Range(r.low[::step], r.high[::step], r.open) for r in given])
    if few.max() - np.median(few) <= limit:
        return None
    extent = _extent(given)
    over = (extent - np.median(extent)) / limit
    return np.clip(over, 0, _CLASSES).astype(np.int64)


def _extent(given: list[Range]) -> Floats:
    """How many lower bounds a cube spans, all attributes multiplied, as a logarithm."""
    total = np.zeros(len(given[0].low))
    for low, high, is_open in given:
        if not is_open:
            ordered = np.sort(low)
            spans = np.searchsorted(ordered, high, "right") - np.searchsorted(ordered, low)
            total += np.log(np.maximum(spans, 1))
    return total
