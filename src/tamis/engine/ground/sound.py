"""What must hold of arrays that come from a file before kernels may see them.

Kernels trust their arrays: they check no bounds. A file whose checksums are right can still be
made by hand, so every number that is used as an index is checked here once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tamis.diagram import packed
from tamis.engine.ground.layout import I4, I8

_Numbers = npt.NDArray[Any]


class UnsoundError(Exception):
    """The arrays cannot come from a matcher."""


def demand(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise UnsoundError(what)


def within(values: _Numbers, bound: int | _Numbers, what: str) -> None:
    """All values are at least 0 and below the bound (one for all, or one for each)."""
    demand(bool(((values >= 0) & (values < bound)).all()), f"{what} out of range")


def tiling(offsets: I8, length: int, what: str) -> None:
    """Offsets ascend from 0 to the length."""
    demand(len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == length, f"{what} do not fit")
    demand(bool((offsets[1:] >= offsets[:-1]).all()), f"{what} are out of order")


def formulas(offsets: I8, words: I4) -> None:
    """Every program is one formula in postfix."""
    tiling(offsets, len(words), "templates")
    sizes = np.diff(offsets)
    demand(bool((sizes > 0).all()), "a template is empty")
    wide = words.astype(np.int64)
    # a literal adds one value to the stack, AND and OR replace some by one
    step = np.where(packed.is_literal(wide), 1, 1 - packed.width(wide))
    depth = np.cumsum(step)
    number = np.arange(len(sizes))
    demand(bool((depth[offsets[1:] - 1] == number + 1).all()), "a template is no formula")
    demand(bool((depth > np.repeat(number, sizes)).all()), "a template is no formula")


def starts_of(starts: I8, sizes: I8, length: int, what: str) -> None:
    """Each part begins where the one before it ends."""
    ends = np.cumsum(sizes)
    demand(bool((starts == ends - sizes).all()), f"{what} do not fit")
    demand(int(sizes.sum()) == length, f"{what} do not fit")
