"""Computed terms of which only cluster 0 asks: words instead of keys and events.

Cluster 0 wants each threshold and each event as words of 64 messages. A term's values are at hand
while they are computed, so comparing them there takes a vector for every eight, and nothing but
these words is written: 10,000 terms would have 80 KB of keys for each message.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.diagram.bdd import LOWEST
from tamis.engine.compile.segment import Segment
from tamis.engine.encode.term_program import Program, Rows, points_of, program_of
from tamis.engine.layout import (
    ASK_BELOW,
    ASK_EVENT,
    EVENT,
    GROUP,
    GROUP_COLUMN,
    I4,
    I8,
    Words,
)
from tamis.logic import Family
from tamis.schema import Type

_MOST = 16  # thresholds of a term: beyond, to look up a key is cheaper
Marks = npt.NDArray[np.bool_]


class TermWords(NamedTuple):
    rows: Rows  # without bits
    pointed: I4  # terms whose events are listed
    below: I4  # as in Words
    event: I4
    height: int  # how many rows

    def of(self, length: int) -> tuple[Rows, Words]:
        """Room for the bits of so many messages, for who writes them and who reads them."""
        bits = np.zeros((self.height, -(-length // 64)), np.uint64)
        return self.rows._replace(bits=bits), Words(self.below, self.event, bits)


def words_of(segment: Segment) -> TermWords | None:
    """The terms of a segment that have words; None where there are none."""
    if not segment.words:
        program = program_of(segment.index)
        segment.words.append(None if program is None else _words(segment, program))
    found: TermWords | None = segment.words[0]
    return found


def _words(segment: Segment, program: Program) -> TermWords | None:
    index, asked = segment.index, program.asked
    columns, events = _asked_elsewhere(segment)
    thresholds = _thresholds(segment)
    row, sizes = program.rows.row.copy(), [0]
    cut: list[I8] = []
    below = np.full(index.key_columns, -1, np.int32)
    event = np.full(index.events, -1, np.int32)
    count = 0
    for t, place in enumerate(program.places.tolist()):
        term, column = index.terms[place], int(asked.place[t])
        tables: list[I8] | None = None
        if term.type is Type.BOOL:
            fired = _truth(points_of(term, Type.INT), events)
            if fired is not None:
                tables = [np.zeros(1, np.int64)] * 2
                event[fired] = count
        elif not term.points and column in thresholds and not columns[column]:
            constants = term.below[Family.NUMBER][1]
            tables = _cuts(program, t, thresholds[column], ranked=bool(constants))
            if tables is not None:
                below[column] = count
        row[t] = -1 if tables is None else count
        tables = tables or [np.empty(0, np.int64)] * 2
        cut += tables
        sizes += [len(table) for table in tables]
        count += len(tables[0])
    if count == 0:
        return None
    rows = Rows(row, np.cumsum(sizes), np.concatenate(cut), program.rows.bits)
    return TermWords(rows, asked.pointed[row[asked.pointed] < 0], below, event, count)


def _asked_elsewhere(segment: Segment) -> tuple[Marks, Marks]:
    """Columns of keys, and events, that others than cluster 0 ask for."""
    clusters, trees = segment.clusters, segment.trees
    columns, events = (np.zeros(n, bool) for n in (segment.index.key_columns, segment.index.events))
    columns[clusters.group[clusters.starts[1, GROUP] :, GROUP_COLUMN]] = True
    for test in (segment.cubes.test, trees.test):
        columns[np.where(test < 0, ~test, test)] = True
    columns[trees.ask[trees.ask[:, 0] == ASK_BELOW, 1]] = True
    events[clusters.event[clusters.starts[1, EVENT] :]] = True
    events[trees.ask[trees.ask[:, 0] == ASK_EVENT, 1]] = True
    events[np.diff(segment.access.offsets) > 0] = True
    return columns, events


def _thresholds(segment: Segment) -> dict[int, I8]:
    """The thresholds of cluster 0, by column; those of columns with too many are left out."""
    clusters = segment.clusters
    groups = clusters.group[: clusters.starts[1, GROUP]].tolist()
    return {c: clusters.threshold[f : f + n] for c, f, n in groups if n <= _MOST}


def _truth(points: tuple[I8, list[I4]], elsewhere: Marks) -> I4 | None:
    """The events of TRUE, where nobody else asks for them, or for FALSE."""
    keys, events = points
    if keys.tolist() != [1] or elsewhere[events[0]].any():
        return None
    return events[0]


def _cuts(program: Program, t: int, thresholds: I8, *, ranked: bool) -> list[I8] | None:
    """The highest keys below these thresholds, of integers and of doubles. None where a table
    lacks one: there is no such key, or constants are beyond what an integer can be."""
    tables = [thresholds, thresholds]
    if ranked:
        bounds, bound = program.asked.bounds, program.asked.bound
        own = [bound[bounds[2 * t + i] : bounds[2 * t + i + 1]] for i in range(2)]
        if thresholds[-1] > min(map(len, own)):
            return None
        tables = [table[thresholds - 1] for table in own]
    if any((table == LOWEST).any() for table in tables):
        return None
    return [table - 1 for table in tables]
