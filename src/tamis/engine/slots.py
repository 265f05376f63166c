"""Where each id stands: a hash table of slots that keeps no ids of its own.

A dict of a million ids takes 72 bytes for each: its own entry, and a Python integer. Here
a cell is the number of a slot, and the matcher's list says which id that slot has.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tamis.engine.ids import Id
from tamis.engine.layout import I4, I8

_FREE, _GONE = -1, -2  # a cell that was never taken, and one whose id was removed
_MIX = 0x9E3779B97F4A7C15  # spreads hashes of integers, which are the integers themselves
_WORD = (1 << 64) - 1
_SMALLEST = 8  # cells


class _Table(NamedTuple):
    """Cells by the upper bits of the mixed hash; readers take all three at once."""

    cells: memoryview
    shift: int
    mask: int


class Slots:
    """The slots of ids, by id. `ids[slot]` is read for every look-up; it may only grow.

    Readers need no lock: a cell names a slot whose id is there already, and a new table takes
    the place of the old one when it is complete. Of the `given` slots nothing is hashed before
    somebody asks for more than their number.
    """

    def __init__(self, ids: Sequence[Id], given: I4 | None = None) -> None:
        self._ids = ids
        self._given = given
        self._lock = threading.Lock()
        self._count = 0 if given is None else len(given)
        self._filled = 0  # cells that are not free
        self._table = _empty(0)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, id: object) -> bool:
        return self._count > 0 and self.get(id) >= 0

    def __iter__(self) -> Iterator[Id]:
        """The ids in the order of their slots."""
        return map(self._ids.__getitem__, self.all().tolist())

    def __getitem__(self, id: Id) -> int:
        slot = self.get(id)
        if slot < 0:
            raise KeyError(id)
        return slot

    def get(self, id: object, default: int = -1) -> int:
        if not self._count:
            return default
        if self._given is not None:
            self._make()
        (cells, shift, mask), ids = self._table, self._ids
        at = (hash(id) * _MIX & _WORD) >> shift
        while (slot := cells[at]) != _FREE:
            if slot >= 0 and ids[slot] == id:
                return slot
            at = at + 1 & mask
        return default

    def pop(self, id: Id) -> int:
        slot = self[id]
        cells, shift, mask = self._table
        at = (hash(id) * _MIX & _WORD) >> shift
        while cells[at] != slot:
            at = at + 1 & mask
        cells[at] = _GONE
        self._count -= 1
        return slot

    def add(self, ids: Sequence[Id], first: int) -> None:
        """Enter ids that are not there yet, for the slots from `first` on."""
        self._make()
        if 3 * (self._filled + len(ids)) > 2 * len(self._table.cells):
            self._renew(len(ids))
        slots = np.arange(first, first + len(ids), dtype=np.int32)
        _enter(self._table, _hashes(ids), slots)
        self._count += len(ids)
        self._filled += len(ids)

    def all(self) -> I4:
        """All slots, ascending."""
        if self._given is not None:
            return self._given
        cells = np.frombuffer(self._table.cells, np.int32)
        return np.sort(cells[cells >= 0])

    def _make(self) -> None:
        with self._lock:
            if self._given is not None:
                self._renew(0)
                self._given = None

    def _renew(self, more: int) -> None:
        """A table without removed ids, with room for more."""
        slots = self.all()
        ids = list(self._ids) if 2 * len(slots) > len(self._ids) else self._ids
        table = _empty(len(slots) + more)
        _enter(table, _hashes([ids[slot] for slot in slots.tolist()]), slots)
        self._table, self._filled = table, len(slots)


def _empty(count: int) -> _Table:
    """Free cells, at least two for each of so many ids."""
    bits = max(2 * count, _SMALLEST).bit_length()
    cells = np.full(1 << bits, _FREE, np.int32)
    return _Table(cells.data, 64 - bits, len(cells) - 1)


def _hashes(ids: Sequence[Id]) -> I8:
    return np.fromiter(map(hash, ids), np.int64, len(ids))


def _enter(table: _Table, hashes: I8, slots: I4) -> None:
    """Each slot into the first free cell from its own on; who finds it taken goes one further."""
    cells = np.frombuffer(table.cells, np.int32)
    at = (hashes.view(np.uint64) * np.uint64(_MIX) >> np.uint64(table.shift)).astype(np.int64)
    while len(slots):
        free = cells[at] < 0
        cells[at[free]] = slots[free]
        left = cells[at] != slots
        at, slots = at[left] + 1 & table.mask, slots[left]
