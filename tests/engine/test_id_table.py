"""The table of ids is a dict that keeps no ids."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hst

from tamis.engine.live.id_table import _MIX, Slots
from tamis.schema import INT_MAX, INT_MIN

IDS = hst.one_of(
    hst.integers(INT_MIN, INT_MAX), hst.integers(-3, 3).map(lambda n: n << 40), hst.text(max_size=3)
)


@given(hst.lists(hst.one_of(IDS, hst.lists(IDS, min_size=2, max_size=40)), max_size=30))
def test_slots_agree_with_a_dict(steps: list):
    """One id is removed where it is there and added where not; of many, the missing are added."""
    ids: list = []
    slots, known = Slots(ids), {}
    for step in steps:
        if not isinstance(step, list) and step in known:
            assert slots.pop(step) == known.pop(step)
            continue
        asked = step if isinstance(step, list) else [step]
        fresh = [id for id in dict.fromkeys(asked) if id not in known]
        known |= {id: len(ids) + i for i, id in enumerate(fresh)}
        ids.extend(fresh)
        slots.add(fresh, len(ids) - len(fresh))
    assert list(slots) == list(known)
    assert len(slots) == len(known)
    for id in {*ids, 5, "x", "", 2.5, *(str(id) for id in ids)}:
        assert slots.get(id) == known.get(id, -1)
        assert (id in slots) == (id in known)


def test_slots_that_are_given_are_hashed_when_they_are_asked_for():
    ids = [f"i{n}" for n in range(1000)]
    slots = Slots(ids, np.arange(0, 1000, 3, dtype=np.int32))
    assert len(slots) == 334
    assert list(slots) == ids[::3]
    assert slots["i999"] == 999
    assert "i1" not in slots
    assert list(slots) == ids[::3]


@pytest.mark.parametrize(
    "step", [1, 1 << 40, pow(_MIX, -1, 1 << 64)], ids=["all", "high bits", "inverse of the mix"]
)
def test_integers_of_any_pattern_stay_apart(step: int):
    """Hashes of integers are the integers: unmixed, they would meet in few cells."""
    ids = [(n * step + INT_MAX + 1) % (1 << 64) + INT_MIN for n in range(20_000)]
    slots = Slots(ids)
    slots.add(ids, 0)
    runs = np.diff(np.flatnonzero(np.frombuffer(slots._table.marks, np.uint8) == 0))
    assert runs.max() < 200
    assert all(slots[id] == at for at, id in enumerate(ids))


def test_missing_ids():
    slots = Slots(["a"])
    for ask in (slots.pop, slots.__getitem__):
        with pytest.raises(KeyError):
            ask("a")
    slots.add(["a"], 0)
    assert slots.pop("a") == 0
    assert "a" not in slots


def test_coming_and_going_does_not_fill_the_table():
    rng, ids = random.Random(1), []
    slots = Slots(ids)
    for n in range(3000):
        ids.append(n)
        slots.add([n], n)
        if len(slots) > 20:
            slots.pop(rng.choice(list(slots)))
    assert len(slots) == 20
    assert len(slots._table.cells) <= 128
