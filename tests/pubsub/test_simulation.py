"""The broker keeps its promises in a made-up world; see simulation.py."""

from __future__ import annotations

import os

from pubsub.simulation import simulate

SEEDS = int(os.environ.get("TAMIS_SEEDS", "200"))


def test_simulated_crashes_lose_and_double_nothing():
    worlds = [simulate(seed) for seed in range(SEEDS)]
    assert sum(world.crashes for world in worlds) > SEEDS  # they did happen
    assert sum(len(s.seen) for world in worlds for s in world.subscribers) > 20 * SEEDS
