"""Computed terms of which only cluster 0 asks: words instead of keys and events.

Cluster 0 wants each threshold and each event as words of 64 messages. A term's values are at hand
while they are computed, so comparing them there takes a vector for every eight, and nothing but
these words is written: 10,000 terms would have 80 KB of keys for each message.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.diagram.bdd import LOWEST
from tamis.engine.ground.layout import I4, I8
from tamis.engine.lookup.term_index import Index
from tamis.engine.paths.everywhere.straight_line import GROUP, Clusters
from tamis.engine.values.term_program import Program, Rows, TermWords, points_of, program_of
from tamis.logic import Family
from tamis.schema import Type

_MOST = 16  # thresholds of a term: beyond, to look up a key is cheaper
Marks = npt.NDArray[np.bool_]


def words_of(index: Index, clusters: Clusters, columns: Marks, events: Marks) -> TermWords | None:
    """The terms that have words; None if there are none. Others ask for the marked columns of keys
    and events."""
    program = program_of(index)
    if program is None:
        return None
    asked, thresholds = program.asked, _thresholds(clusters)
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


def _thresholds(clusters: Clusters) -> dict[int, I8]:
    """The thresholds of cluster 0, by column; those of columns with too many are left out."""
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
