"""Working memory of a thread for the programs of a segment."""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tamis.engine.ground.layout import U8, Requirements
from tamis.engine.paths.everywhere.straight_line import EVENT, FLAG, HOIST, NEED, THRESHOLD
from tamis.engine.paths.everywhere.wide_rows import ROWS
from tamis.engine.paths.everywhere.words import Scratch
from tamis.jit.vectors import WIDE, aligned

if TYPE_CHECKING:
    from tamis.engine.paths.everywhere.everywhere_path import EverywherePath

_memory = threading.local()


def scratch_of(path: EverywherePath, *, wide: bool) -> Scratch:
    """This thread's memory for the path's programs; it goes when the path does."""
    known: dict[tuple[int, bool], tuple[weakref.ref[EverywherePath], Scratch]] | None
    known = getattr(_memory, "scratch", None)
    if known is None:
        known = _memory.scratch = {}
    key = id(path), wide
    if key not in known or known[key][0]() is not path:
        if len(known) >= 32:
            known.clear()
        # Not a lambda: Ctrl-C within one that Python calls at the end of an object is lost.
        gone = weakref.ref(path, partial(known.pop, key))
        known[key] = gone, _new_scratch(path, wide)
    return known[key][1]


def _new_scratch(path: EverywherePath, wide: bool) -> Scratch:
    sizes = np.diff(path.clusters.starts, axis=0)
    places = sizes[:, [THRESHOLD, EVENT, FLAG, HOIST]].sum(axis=1) + 2 + path.longest
    events = max(path.index.events, 1)
    return Scratch(
        np.zeros((events, WIDE if wide else 1), np.uint64),
        np.empty(int(places.max()), np.uint64),
        aligned(int(places[0]) if wide else 1),
        aligned(int(sizes[:, NEED].max()) + 1),
        aligned(ROWS if wide else 1),
        np.zeros(len(sizes), np.int32),
        np.zeros(len(sizes), np.int32),
        np.zeros(events, np.int32),
        _asked(path.requirements),
    )


def _asked(requirements: Requirements) -> U8:
    columns = requirements.columns.astype(np.uint64)
    bits = np.where(columns < 64, np.uint64(1) << (columns & np.uint64(63)), np.uint64(0))
    asked = np.zeros(len(requirements.offsets) - 1, np.uint64)
    which = np.repeat(np.arange(len(asked)), np.diff(requirements.offsets))
    np.bitwise_or.at(asked, which, bits)
    return asked
