"""The broker keeps its promises in a made-up world; see simulation.py."""

from __future__ import annotations

import os

import pytest

from pubsub import simulated_faults
from pubsub.simulation import simulate

pytestmark = pytest.mark.slow

SEEDS = int(os.environ.get("TAMIS_SEEDS", "120"))


def test_simulated_crashes_lose_and_double_nothing():
    worlds = [simulate(seed) for seed in range(SEEDS)]
    assert sum(world.crashes for world in worlds) > SEEDS  # they did happen
    assert sum(len(s.seen) for world in worlds for s in world.subscribers) > 20 * SEEDS


def test_planted_faults_lose_nothing_and_stop_nobody_else():
    worlds = [simulated_faults.simulate(seed) for seed in range(max(SEEDS // 5, 1))]
    assert sum(world.planted.total() for world in worlds) > len(worlds)
    assert sum(world.reported.total() for world in worlds) > 0
    assert sum(len(s.seen) for world in worlds for s in world.subscribers) > 10 * len(worlds)
