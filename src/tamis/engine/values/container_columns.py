"""Derived terms of lists and maps, over whole columns."""

# mypy: allow-untyped-defs, allow-untyped-calls, no-check-untyped-defs
# Kernels are typed by numba, from the arrays that they are called with.
from __future__ import annotations

from typing import Any

import numpy as np

from tamis.engine.ground.layout import I8
from tamis.engine.lookup.term_index import double_keys
from tamis.engine.values.typed_columns import (
    AnyColumn,
    Column,
    Lists,
    Maps,
    Mixed,
    from_values,
    lists_of,
    to_values,
    undefined,
)
from tamis.jit.kernel import kernel
from tamis.logic.lists import EXTREMES, FAMILIES, FOREIGN, WHOLE, fact
from tamis.logic.terms import call
from tamis.schema import Type


def size_of(column: AnyColumn) -> Column:
    """The number of elements; undefined for what is no list."""
    lists = lists_of(column)
    valid = lists.valid if lists.plain is None else lists.valid & ~lists.plain
    return Column(Type.INT, valid, np.diff(lists.offsets))


def fact_of(name: str, column: AnyColumn) -> AnyColumn:
    """A fact about each list (see logic/lists.py)."""
    lists = lists_of(column)
    elements = lists.elements
    if not isinstance(elements, Column) or (elements.type is None and elements.valid.any()):
        return from_values([fact(name, held) for held in to_values(lists)])
    if name == WHOLE:
        return _truths(lists, _some(lists, ~elements.valid), negated=True)
    family = (FOREIGN | EXTREMES)[name]
    alike = elements.type in FAMILIES[family]
    if name in FOREIGN:
        return _truths(lists, _some(lists, elements.valid & (not alike)))
    if not alike:
        return undefined(len(lists))
    return _extreme(lists, elements, least=name.startswith("least"))


def _some(lists: Lists, of_elements: Any) -> Any:
    """Which lists have an element of which that is so."""
    found = np.zeros(len(lists), bool)
    found[lists.rows[of_elements]] = True
    return found


def _truths(lists: Lists, found: Any, *, negated: bool = False) -> Column:
    return Column(Type.BOOL, lists.valid, (found != negated).astype(np.int64))


def _extreme(lists: Lists, elements: Column, *, least: bool) -> Column:
    """The least or greatest defined element of each list."""
    if not len(elements):
        return undefined(len(lists))
    chosen = np.empty(len(lists), np.int64)
    order = _ordered(elements)
    find_least(lists.offsets, elements.valid.copy(), order if least else ~order, chosen)
    data = elements.data[np.maximum(chosen, 0)]
    return Column(elements.type, chosen >= 0, data, elements.texts)


def _ordered(column: Column) -> I8:
    """Whole numbers that order as the values do."""
    if column.type is Type.DOUBLE:
        return double_keys(column.data)
    if column.type is not Type.STRING:
        return column.data.astype(np.int64)
    place = {text: i for i, text in enumerate(sorted(column.texts))}
    ranks: I8 = np.array([place[text] for text in column.texts], np.int64)
    return ranks[column.data]  # type: ignore[no-any-return]


@kernel
def find_least(offsets, there, order, chosen):
    """chosen[i]: which of the elements offsets[i] to offsets[i + 1] that are there is the least by
    its order; -1 where there is none."""
    for i in range(chosen.size):
        best = np.int64(-1)
        for e in range(offsets[i], offsets[i + 1]):
            if there[e] and (best < 0 or order[e] < order[best]):
                best = e
        chosen[i] = best


def item_of(column: AnyColumn, key: str) -> AnyColumn:
    """What each map has under the key."""
    if isinstance(column, Maps):
        return _from_maps(column, key)
    if isinstance(column, Mixed):
        return from_values([call("[]", [held, key], {}) for held in column.values])
    return undefined(len(column))


def _from_maps(maps: Maps, key: str) -> AnyColumn:
    wanted = [i for i, text in enumerate(maps.keys) if text == key]
    if not wanted:
        return undefined(len(maps))
    entries = np.flatnonzero(maps.key == wanted[0])
    rows = np.searchsorted(maps.offsets, entries, side="right") - 1
    if isinstance(maps.values, Mixed):
        whole: list[object] = [None] * len(maps)
        for row, entry in zip(rows.tolist(), entries.tolist(), strict=True):
            whole[row] = maps.values.values[entry]
        return from_values(whole)
    values = maps.values
    valid, data = np.zeros(len(maps), bool), np.zeros(len(maps), values.data.dtype)
    valid[rows], data[rows] = values.valid[entries], values.data[entries]
    return Column(values.type, valid, data, values.texts)
