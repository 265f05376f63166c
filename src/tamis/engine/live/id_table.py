"""Where each id stands: a hash table of slots that keeps no ids of its own.

A dict of a million ids takes 72 bytes for each: its own entry, and a Python integer. Here
a cell is the number of a slot, and the matcher's list says which id that slot has.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tamis.critical_section import GATE
from tamis.engine.ground.ids import Id, check_id, twin
from tamis.engine.ground.layout import I4, I8
from tamis.errors import SubscriptionError

_FREE, _GONE, _TAKEN = 0, 1, 128  # marks: never taken, its id was removed, or 128 and more
_MIX = secrets.randbits(64) | 1  # so that nobody can choose integers that meet in one cell
_WORD = (1 << 64) - 1
_SMALLEST = 8  # cells
_TYPES = frozenset((str, int))


class _Table(NamedTuple):
    """Cells by the upper bits of the mixed hash. A mark has its lower bits, so that hardly ever an
    id is looked at that is another. Readers take all four at once."""

    cells: memoryview
    marks: memoryview
    shift: int
    mask: int


class Slots:
    """The slots of ids, by id. `ids[slot]` is read for every look-up; it may only grow.

    Readers need no lock: a cell names a slot whose id is there already and is marked afterwards,
    and a new table takes the place of the old one when it is complete. Of the `given` slots
    nothing is hashed before somebody asks for more than their number.
    """

    def __init__(self, ids: Sequence[Id], given: I4 | None = None) -> None:
        self._ids = ids
        self._given = given
        self._count = 0 if given is None else len(given)
        self._filled = 0  # cells that are not free
        self._table = _empty(0)
        # What was never added. Mostly all ids are of one type, and the twin of an id ("1" for 1)
        # need not be looked for.
        self._absent: frozenset[type] = frozenset() if given is not None else _TYPES

    def __len__(self) -> int:
        return self._count

    def __contains__(self, id: object) -> bool:
        return self._count > 0 and type(id) not in self._absent and self.get(id) >= 0

    def __iter__(self) -> Iterator[Id]:
        """The ids in the order of their slots."""
        return map(self._ids.__getitem__, self.all().tolist())

    def __getitem__(self, id: Id) -> int:
        slot = self.get(id)
        if slot < 0:
            raise KeyError(id)
        return slot

    def get(self, id: object, default: int = -1) -> int:
        if self._given is not None:
            self._make()
        cells, marks, shift, mask = self._table
        word = _mixed(hash(id))
        at, own = word >> shift, word & 127 | _TAKEN
        while mark := marks[at]:
            if mark == own and self._ids[slot := cells[at]] == id:
                return slot
            at = at + 1 & mask
        return default

    def pop(self, id: Id) -> int:
        slot = self[id]
        cells, marks, shift, mask = self._table
        at = _mixed(hash(id)) >> shift
        while cells[at] != slot:
            at = at + 1 & mask
        marks[at] = _GONE
        self._count -= 1
        return slot

    def add(self, ids: Sequence[Id], first: int) -> None:
        """Enter ids that are not there yet, for the slots from `first` on."""
        self._make()
        if 3 * (self._filled + len(ids)) > 2 * len(self._table.cells):
            self._compact(len(ids))
        self._absent -= _types(ids)
        if len(ids) == 1:
            _enter_one(self._table, hash(ids[0]), first)
        else:
            slots = np.arange(first, first + len(ids), dtype=np.int32)
            _enter(self._table, _hashes(ids), slots)
        self._count += len(ids)
        self._filled += len(ids)

    def all(self) -> I4:
        """All slots, ascending."""
        if self._given is not None:
            return self._given
        cells, marks, _, _ = self._table
        taken = np.frombuffer(marks, np.uint8) >= _TAKEN
        return np.sort(np.frombuffer(cells, np.int32)[taken])

    def _make(self) -> None:
        with GATE:
            if self._given is not None:
                self._compact(0)
                self._given = None

    def _compact(self, more: int) -> None:
        """A table without removed ids, with room for more."""
        slots = self.all()
        ids = list(self._ids) if 2 * len(slots) > len(self._ids) else self._ids
        table = _empty(len(slots) + more)
        _enter(table, _hashes([ids[slot] for slot in slots.tolist()]), slots)
        self._table, self._filled = table, len(slots)


def _empty(count: int) -> _Table:
    """Free cells, at least two for each of so many ids."""
    bits = max(2 * count, _SMALLEST).bit_length()
    cells, marks = np.full(1 << bits, -1, np.int32), np.full(1 << bits, _FREE, np.uint8)
    return _Table(cells.data, marks.data, 64 - bits, (1 << bits) - 1)


def _types(ids: Sequence[Id]) -> set[type]:
    return {str if issubclass(kind, str) else int for kind in set(map(type, ids))}


def _hashes(ids: Sequence[Id]) -> I8:
    return np.fromiter(map(hash, ids), np.int64, len(ids))


def _mixed(hash: int) -> int:
    """64 bits, one as good as another; hashes of integers are the integers themselves."""
    word = hash * _MIX & _WORD
    return (word ^ word >> 32) * _MIX & _WORD


def _enter_one(table: _Table, hash: int, slot: int) -> None:
    """As `_enter`, for one."""
    cells, marks, shift, mask = table
    word = _mixed(hash)
    at = word >> shift
    while marks[at] >= _TAKEN:
        at = at + 1 & mask
    cells[at] = slot
    marks[at] = word & 127 | _TAKEN


def _enter(table: _Table, hashes: I8, slots: I4) -> None:
    """Each slot into the first free cell from its own on; who finds it taken goes one further."""
    cells, marks = np.frombuffer(table.cells, np.int32), np.frombuffer(table.marks, np.uint8)
    words = hashes.view(np.uint64) * np.uint64(_MIX)  # as `_mixed`
    words = (words ^ words >> np.uint64(32)) * np.uint64(_MIX)
    at = (words >> np.uint64(table.shift)).astype(np.int64)
    own = (words & np.uint64(127) | np.uint64(_TAKEN)).astype(np.uint8)
    while len(slots):
        free = marks[at] < _TAKEN
        cells[at[free]] = slots[free]
        left = cells[at] != slots
        marks[at[~left]] = own[~left]
        at, own, slots = at[left] + 1 & table.mask, own[left], slots[left]


def refuse_taken(slots: Slots, id: Id, more: Mapping[Id, str]) -> None:
    check_id(id)
    if id in slots or id in more:
        raise SubscriptionError(f"there is a subscription {id!r} already: remove or replace it")
    refuse_twin(slots, id, more)


def refuse_twin(slots: Slots, id: Id, more: Mapping[Id, str]) -> None:
    """1 and "1" would be one and the same in Arrow, where ids of both types are texts."""
    other = twin(id)
    if other is not None and (other in slots or other in more):
        raise SubscriptionError(
            f"there is a subscription {other!r}, and {id!r} would look the same in Arrow: "
            "choose another id, or give all of one type"
        )
