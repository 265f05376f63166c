"""Working memory of a thread for the programs of a segment."""

from __future__ import annotations

import numpy as np

from tamis.engine.ground.layout import U8, Requirements
from tamis.engine.lookup.term_index import Index
from tamis.engine.paths.everywhere import straight_line as s
from tamis.engine.paths.everywhere.straight_line import Clusters
from tamis.engine.paths.everywhere.wide_rows import ROWS
from tamis.engine.paths.everywhere.words import Scratch
from tamis.jit.vectors import WIDE, aligned


def new_scratch(
    clusters: Clusters, requirements: Requirements, index: Index, longest: int, *, wide: bool
) -> Scratch:
    sizes = np.diff(clusters.starts, axis=0)
    places = sizes[:, [s.THRESHOLD, s.EVENT, s.FLAG, s.HOIST]].sum(axis=1) + 2 + longest
    events = max(index.events, 1)
    return Scratch(
        np.zeros((events, WIDE if wide else 1), np.uint64),
        np.empty(int(places.max()), np.uint64),
        aligned(int(places[0]) if wide else 1),
        aligned(int(sizes[:, s.NEED].max()) + 1),
        aligned(ROWS if wide else 1),
        np.zeros(len(sizes), np.int32),
        np.zeros(len(sizes), np.int32),
        np.zeros(events, np.int32),
        _asked(requirements),
    )


def _asked(requirements: Requirements) -> U8:
    columns = requirements.columns.astype(np.uint64)
    bits = np.where(columns < 64, np.uint64(1) << (columns & np.uint64(63)), np.uint64(0))
    asked = np.zeros(len(requirements.offsets) - 1, np.uint64)
    which = np.repeat(np.arange(len(asked)), np.diff(requirements.offsets))
    np.bitwise_or.at(asked, which, bits)
    return asked
